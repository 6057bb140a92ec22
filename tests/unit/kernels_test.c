// SPDX-License-Identifier: Apache-2.0
// Debian's kernels, whole: the export table of the image, of Module.symvers and of every module must be the same, and
// every module must be found exact for its own kernel. The packages are those of scripts/inputs.sh: what it printed is
// in the file $INPUTS, else in the cache, from its last run. Without them every test is skipped.
#include "base/file/file.h"
#include "base/process/proc.h"
#include "kmod/module/modsign.h"
#include "kmod/module/proof.h"
#include "tests/unit/sample.h"
#include "tests/unit/sign.h"

#include <glob.h>

struct kernel {
	const char *key;
	char *release, *path;
	struct root root;
};

static char *inputs; // what scripts/inputs.sh printed

static int read_inputs(void **state)
{
	(void)state;
	struct err err;
	const char *named = getenv("INPUTS"), *cache = getenv("KMODSMITH_CACHE"), *home = getenv("HOME");
	auto_str char *kept =
		cache ? str_fmt("%s/inputs.env", cache) : str_fmt("%s/.cache/kmodsmith/inputs.env", home ? home : "");
	auto_fd int fd = open(named ? named : kept, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || file_read(fd, named ? named : kept, &inputs, NULL, &err) < 0)
		print_message("# scripts/inputs.sh has not run: no kernels to look at\n");
	return 0;
}

static int drop_inputs(void **state)
{
	(void)state;
	free(TAKE(inputs));
	return 0;
}

static char *input(const char *key, const char *suffix) // NULL = none
{
	auto_str char *start = str_fmt("%s%s=", key, suffix);
	for (const char *line = inputs; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (str_starts(line, start)) {
			const char *value = line + strlen(start);
			value += *value == '"';
			return str_ndup(value, strcspn(value, "\"\n"));
		}
	}
	return NULL;
}

static void unpack(const char *deb, const char *dir)
{
	struct err err;
	struct proc_end end;
	const char *const argv[] = { "/usr/bin/dpkg-deb", "-x", deb, dir, NULL };
	const char *const env[] = { "PATH=/usr/bin:/bin", NULL };
	if (proc_must(&(struct proc){ .argv = argv, .env = env }, &end, &err) < 0)
		fail_msg("%s", err.text);
}

// Unpacked once below build/kernels: the image and its headers.
static void kernel_open(const char *key, struct kernel *ret)
{
	struct err err;
	auto_str char *image = input(key, "_IMAGE"), *headers = input(key, "_HEADERS");
	*ret = (struct kernel){ .key = key, .release = input(key, ""), .root = ROOT_NONE };
	if (!ret->release || !image || !headers || access(image, R_OK) != 0) {
		free(TAKE(ret->release));
		free(TAKE(image));
		free(TAKE(headers));
		skip();
	}
	ret->path = str_fmt("build/kernels/%s", ret->release);
	if (access(ret->path, R_OK) != 0) {
		auto_str char *partial = str_fmt("%s.part", ret->path);
		auto_strv struct strv debs = { 0 };
		strv_split(&debs, headers ? headers : "", " ");
		assert_true(mkdir("build/kernels", 0755) == 0 || errno == EEXIST);
		assert_true(mkdir(partial, 0755) == 0 || errno == EEXIST);
		unpack(image, partial);
		unpack(debs.items[0], partial);
		auto_str char *lib = str_fmt("%s/lib", partial); // as installed: newer packages name usr/lib
		assert_true(access(lib, F_OK) == 0 || symlink("usr/lib", lib) == 0);
		assert_int_equal(rename(partial, ret->path), 0);
	}
	assert_int_equal(root_init(&ret->root, ret->path, &err), 0);
}

static void kernel_done(struct kernel *k)
{
	free(k->release);
	free(k->path);
	root_done(&k->root);
}
#define auto_kernel __attribute__((cleanup(kernel_done)))

static struct symvers *module_symvers(const struct kernel *k)
{
	struct err err;
	struct symvers *sv = symvers_new();
	auto_str char *path = str_fmt("usr/src/linux-headers-%s/Module.symvers", k->release);
	auto_fd int fd = root_open(&k->root, path, O_RDONLY, &err);
	if (fd < 0 || symvers_add_file(sv, fd, path, &err) < 0)
		fail_msg("%s", err.text);
	return sv;
}

static void expect_same(const struct symver *a, const struct symver *b)
{
	expect(b && a->crc == b->crc && a->has_crc == b->has_crc && a->is_gpl == b->is_gpl, a->name);
	expect(str_eq(a->namespace, b->namespace), a->name);
}

static void check_image(const char *key)
{
	struct err err;
	size_t count = 0;
	auto_kernel struct kernel k;
	auto_vmlinuz struct vmlinuz v = { 0 };
	kernel_open(key, &k);
	auto_symvers struct symvers *sv = module_symvers(&k);
	auto_str char *path = str_fmt("boot/vmlinuz-%s", k.release);
	auto_fd int fd = root_open(&k.root, path, O_RDONLY, &err);
	if (fd < 0 || vmlinuz_read(fd, path, &v, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(v.release, k.release);
	assert_true(v.has_crcs && strstr(v.banner, " #1 "));
	for (size_t i = 0; i < sv->count; i++) {
		const struct symver *s = &sv->items[i];
		if (!str_eq(s->owner, "vmlinux"))
			continue;
		expect_same(s, symvers_find(v.symvers, s->name));
		count++;
	}
	assert_int_equal(count, v.symvers->count);
	assert_true(count > 9000);
}

static void check_module(const struct kernel *k, const char *path, const struct kernel_abi *abi)
{
	struct err err;
	auto_module struct module m = MODULE_NONE;
	auto_proof struct proof proof = { 0 };
	const struct module *set[] = { &m };
	auto_fd int fd = root_open(&k->root, path, O_RDONLY, &err);
	if (fd < 0 || module_read(fd, path, &m, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(m.is_intree && m.has_versions);
	for (size_t i = 0; i < m.exports->count; i++)
		expect_same(&m.exports->items[i], symvers_find(abi->symvers, m.exports->items[i].name));
	proof_make(set, 1, abi, NULL, &proof);
	expect(proof.verdict == PROOF_EXACT && proof.basis == PROOF_BY_CRCS, proof.text);
	expect(str_eq(m.vermagic, abi->vermagic), path);
}

static void check_modules_below(const struct kernel *k, const char *dir, const struct kernel_abi *abi,
				struct sample *modules)
{
	struct err err;
	auto_strv struct strv names = { 0 };
	if (root_list(&k->root, dir, &names, &err) <= 0)
		fail_msg("%s", dir);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", dir, names.items[i]);
		if (str_ends(path, ".ko") || str_ends(path, ".ko.xz")) {
			if (sample_next(modules))
				check_module(k, path, abi);
		} else {
			check_modules_below(k, path, abi, modules);
		}
	}
}

static void check_modules(const char *key)
{
	struct err err;
	struct sample modules = { 0 };
	auto_kernel struct kernel k;
	auto_kernel_abi struct kernel_abi abi = { 0 }, derived = { 0 };
	auto_str char *config = NULL;
	size_t len;
	kernel_open(key, &k);
	auto_str char *dir = str_fmt("lib/modules/%s/kernel", k.release);
	auto_str char *config_path = str_fmt("boot/config-%s", k.release);
	assert_int_equal(kernel_abi_read(&abi, &k.root, &k.root, NULL, k.release, &err), 1);
	assert_int_equal(root_read(&k.root, config_path, &config, &len, &err), 1);
	assert_int_equal(kernel_abi_add_tree(&derived, k.release, NULL, 0, config, len, &err), 0);
	assert_string_equal(derived.vermagic, abi.vermagic); // what was derived is what the kernel's modules say
	check_modules_below(&k, dir, &abi, &modules);
	assert_true(modules.seen > 500);
	sample_tell(&modules, dir);
}

// A module of one kernel on another: D.2.
static void check_foreign(const char *key, const char *other)
{
	struct err err;
	auto_kernel struct kernel k, on;
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_module struct module m = MODULE_NONE;
	auto_proof struct proof proof = { 0 };
	const struct module *set[] = { &m };
	on = (struct kernel){ .root = ROOT_NONE };
	kernel_open(key, &k);
	kernel_open(other, &on);
	auto_str char *path = str_fmt("lib/modules/%s/kernel/drivers/net/dummy.ko", k.release);
	auto_str char *packed = str_fmt("%s.xz", path);
	auto_fd int fd = root_open(&k.root, path, O_RDONLY, &err);
	fd = fd < 0 ? root_open(&k.root, packed, O_RDONLY, &err) : fd;
	if (fd < 0 || module_read(fd, path, &m, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(kernel_abi_read(&abi, &on.root, &on.root, NULL, on.release, &err), 1);
	proof_make(set, 1, &abi, NULL, &proof);
	assert_int_equal(proof.verdict, PROOF_REBUILD);
	assert_int_equal(proof.code, E_ABI);
	assert_string_equal(proof.modules[0].mismatches[0].symbol, "module_layout");
}

static char *sign_file_of(const char *key) // the program, unpacked once; NULL = it is not among the inputs
{
	auto_str char *release = input(key, ""), *headers = input(key, "_HEADERS"), *path = NULL;
	auto_strv struct strv debs = { 0 };
	glob_t found = { 0 };
	auto_str char *dir = str_fmt("build/kernels/kbuild-%s", release ? release : "");
	auto_str char *pattern = str_fmt("%s/usr/lib/linux-kbuild-*/scripts/sign-file", dir);
	strv_split(&debs, headers ? headers : "", " ");
	for (size_t i = 0; i < debs.count && access(dir, R_OK) != 0; i++) {
		if (!strstr(debs.items[i], "/linux-kbuild-") || access(debs.items[i], R_OK) != 0)
			continue;
		auto_str char *partial = str_fmt("%s.part", dir);
		assert_true(mkdir("build/kernels", 0755) == 0 || errno == EEXIST);
		unpack(debs.items[i], partial);
		assert_int_equal(rename(partial, dir), 0);
	}
	if (glob(pattern, 0, NULL, &found) == 0)
		path = str_dup(found.gl_pathv[0]);
	globfree(&found);
	return TAKE(path);
}

static char *file_in(const struct folder *dir, const char *name, const char *text, size_t len)
{
	struct err err;
	assert_int_equal(root_write(&dir->root, name, text, len, 0600, &err), 0);
	return str_fmt("%s/%s", dir->path, name);
}

// An ECDSA signature is another one each time: all else must be the same, and both must hold.
static void expect_like(const struct modsig *a, const struct modsig *b)
{
	assert_true(a->state == MODSIG_SIGNED && b->state == MODSIG_SIGNED && a->payload == b->payload);
	expect(strv_has(&b->signers, a->signers.items[0]) && str_eq(a->hash, b->hash) && str_eq(a->serial, b->serial),
	       b->issuer);
}

static void check_sign_file(const char *program, const struct signer *by, bool is_rsa)
{
	static const char *const hashes[] = { "sha1", "sha224", "sha256", "sha384", "sha512" };
	static const char content[] = "pretend that this is an ELF file";
	struct err err = { 0 };
	auto_folder struct folder dir;
	auto_module_signer struct module_signer *signer = NULL;
	auto_certs struct certs *certs = modsig_certs_new();
	size_t len = 0;
	folder_make(&dir);
	auto_str char *key_text = signer_key(by->key), *cert_text = signer_cert(by, true, &len);
	auto_str char *key_file = file_in(&dir, "key", key_text, strlen(key_text));
	auto_str char *cert_file = file_in(&dir, "cert", cert_text, len);
	expect(module_signer_open(&(struct module_key){ .key = key_file, .cert = cert_file }, &signer, &err) == 0,
	       err.text);
	module_signer_trust(signer, certs);
	for (size_t i = 0; i < ARRAY_SIZE(hashes); i++) {
		struct proc_end end;
		size_t ours_len = 0, theirs_len = 0;
		auto_str char *module = file_in(&dir, "module", content, sizeof(content)), *ours = NULL, *theirs = NULL;
		const char *const argv[] = { program, hashes[i], key_file, cert_file, module, NULL };
		auto_modsig struct modsig mine = { 0 }, its = { 0 };
		expect(proc_must(&(struct proc){ .argv = argv, .env = (const char *const[]){ NULL } }, &end, &err) == 0,
		       err.text);
		expect(root_read(&dir.root, "module", &theirs, &theirs_len, &err) == 1, err.text);
		expect(module_sign(signer, hashes[i], content, sizeof(content), &ours, &ours_len, &err) == 0, err.text);
		modsig_read(ours, ours_len, &mine);
		modsig_read(theirs, theirs_len, &its);
		expect_like(&mine, &its);
		expect(modsig_verify(&its, theirs, certs, &err) == 1, hashes[i]);
		expect(!is_rsa || (ours_len == theirs_len && memcmp(ours, theirs, ours_len) == 0), hashes[i]);
	}
}

static void test_sign_file(void **state) // R-C3: the kernel's own program, of both series
{
	(void)state;
#ifndef __x86_64__ // as the packages are
	skip();
#endif
	auto_str char *of_61 = sign_file_of("K61"), *of_612 = sign_file_of("K612");
	if (!of_61 && !of_612)
		skip();
	auto_signer struct signer rsa = signer_make("Test RSA", NULL),
				  ec = signer_of(EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"), "Test ECDSA", NULL,
						 false);
	for (size_t i = 0; i < 4; i++) {
		const char *program = i / 2 ? of_612 : of_61;
		if (program)
			check_sign_file(program, i % 2 ? &ec : &rsa, i % 2 == 0);
	}
}

static void test_image_61(void **state)
{
	(void)state, check_image("K61");
}
static void test_image_612(void **state)
{
	(void)state, check_image("K612");
}
static void test_modules_61(void **state)
{
	(void)state, check_modules("K61");
}
static void test_modules_612(void **state)
{
	(void)state, check_modules("K612");
}
static void test_foreign(void **state)
{
	(void)state, check_foreign("K61R", "K61");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_image_61),    cmocka_unit_test(test_image_612), cmocka_unit_test(test_modules_61),
		cmocka_unit_test(test_modules_612), cmocka_unit_test(test_foreign),   cmocka_unit_test(test_sign_file),
	};
	return cmocka_run_group_tests(tests, read_inputs, drop_inputs);
}
