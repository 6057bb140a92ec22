// SPDX-License-Identifier: Apache-2.0
// Writes the first modules and kernel images of the corpus: seed DIR. Every file is made of bytes here; the fuzzer's
// finds are added beside them.
#include "tests/unit/forge.h"
#include "tests/unit/pack.h"
#include "tests/unit/sign.h"

static const char *corpus;

// len: a pointer, because it is often set by what makes take.
static void put(const char *name, char *take, const size_t *len_at)
{
	size_t len = *len_at;
	auto_str char *data = take;
	auto_str char *path = str_fmt("%s/%s", corpus, name);
	FILE *file = fopen(path, "w");
	if (!file || fwrite(data, 1, len, file) != len || fclose(file) != 0)
		abort();
}

static const struct forge_symver imports[] = { { "module_layout", 1, NULL, false },
					       { "kfree", 2, NULL, false },
					       { 0 } };
static const struct forge_symver exports[] = { { "nv_open", 3, NULL, false }, { "nv_ops", 4, "NV", true }, { 0 } };

static void modules(void)
{
	size_t len, signed_len;
	struct forge_module ko = { .name = "nvidia",
				   .vermagic = "6.1 modversions ",
				   .depends = "drm,i2c-core",
				   .extra = "version=535.261.03\0import_ns=DMA_BUF\0",
				   .struct_size = 128 };
	put("module/ok-plain", forge_ko(&ko, &len), &len);
	ko.imports = imports;
	put("module/ok-classic", forge_ko(&ko, &len), &len);
	ko.exports = exports;
	ko.has_btf = true;
	put("module/ok-exports", forge_ko(&ko, &len), &len);
	auto_str char *whole = forge_ko(&ko, &len);
	const size_t half = len / 2;
	auto_signer struct signer key = signer_make("Corpus", NULL);
	put("module/ok-signed", signer_sign(&key, whole, len, "sha256", SIGN_PLAIN, &signed_len), &signed_len);
	put("module/ok-signed-with-cert", signer_sign(&key, whole, len, "sha512", 0, &signed_len), &signed_len);
	put("module/bad-cut", str_ndup(whole, half), &half);
}

// The other formats of CRC records, which modpost of a plain kernel does not write.
static void versions(void)
{
	static const char packed[] = "\x18\0\0\0\1\0\0\0module_layout\0\0\0\x10\0\0\0\2\0\0\0kfree\0\0\0\0\0\0\0";
	static const char info[] = "name=nvidia\0vermagic=6.1 modversions ";
	static const uint32_t crcs[] = { 1, 2 };
	char self[128] = { 0 };
	size_t len;
	for (int is_packed = 0; is_packed < 2; is_packed++) {
		struct forge f = forge_new(ET_REL, EM_X86_64);
		forge_section(&f, ".modinfo", 0, info, sizeof(info));
		forge_section(&f, ".gnu.linkonce.this_module", 0, self, sizeof(self));
		forge_symbol(&f, "kfree", SHN_UNDEF, 0, STB_GLOBAL);
		if (is_packed) {
			forge_section(&f, "__versions", 0, packed, sizeof(packed) - 1);
		} else {
			forge_section(&f, "__version_ext_crcs", 0, crcs, sizeof(crcs));
			forge_section(&f, "__version_ext_names", 0, "module_layout\0kfree", 20);
		}
		char *file = forge_end(&f, &len);
		put(is_packed ? "module/ok-packed" : "module/ok-extended", file, &len);
	}
}

static void kernels(void)
{
	static const char banner[] = "Linux version 6.1.0 (a@b) # SMP\nLinux version 6.1.0 (a@b) #1 SMP\n";
	size_t len, packed_len, image_len;
	put("vmlinuz/ok-no-crcs", forge_vmlinux(banner, exports, false, &len), &len);
	auto_str char *elf = forge_vmlinux(banner, exports, true, &len);
	auto_str char *packed = pack_lz4_legacy(elf, len, &packed_len);
	put("vmlinuz/ok-bzimage-lz4", forge_bzimage(packed, packed_len, &image_len), &image_len);
	put("vmlinuz/ok-zstd", pack(archive_write_add_filter_zstd, elf, len, &packed_len), &packed_len);
	put("vmlinuz/ok-zboot", forge_zboot(packed, packed_len, &image_len), &image_len);
	put("vmlinuz/ok-arm64", forge_arm64_image(banner, &image_len), &image_len);
	put("vmlinuz/ok-elf", TAKE(elf), &len);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	corpus = argv[1];
	modules();
	versions();
	kernels();
	return 0;
}
