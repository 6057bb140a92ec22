// SPDX-License-Identifier: Apache-2.0
#include "kmod/module/proof.h"
#include "tests/unit/forge.h"
#include "tests/unit/sign.h"
#include "tests/unit/test.h"

#define TAIL "SMP preempt mod_unload modversions "
static const char RELEASE[] = "6.1.0-56-cloud-amd64";
static const char CONFIG[] = "CONFIG_MODULES=y\nCONFIG_X86_64=y\nCONFIG_SMP=y\nCONFIG_PREEMPT_BUILD=y\n"
			     "CONFIG_MODULE_UNLOAD=y\nCONFIG_MODVERSIONS=y\nCONFIG_MODULE_SIG=y\n"
			     "CONFIG_MODULE_SIG_HASH=\"sha256\"\n";
static const char SYMVERS[] = "0x00000001\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
			      "0x00000002\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n"
			      "0x00000003\tgpl_only\tvmlinux\tEXPORT_SYMBOL_GPL\t\n"
			      "0x00000004\tin_space\tvmlinux\tEXPORT_SYMBOL\tSPACE\n"
			      "0x00000005\tdrm_open\tdrivers/gpu/drm/drm\tEXPORT_SYMBOL\t\n"
			      "0x00000000\tasm_symbol\tvmlinux\tEXPORT_SYMBOL\t\n";

static void abi_make(struct kernel_abi *abi)
{
	struct err err;
	assert_int_equal(
		kernel_abi_add_tree(abi, RELEASE, SYMVERS, sizeof(SYMVERS) - 1, CONFIG, sizeof(CONFIG) - 1, &err), 0);
}

static void module_make(const struct forge_module *ko, struct module *m)
{
	struct err err;
	size_t len;
	char *data = forge_ko(ko, &len);
	if (module_parse(data, len, "test.ko", m, &err) < 0)
		fail_msg("%s", err.text);
}

#define SYMBOLS(...)                  \
	(const struct forge_symver[]) \
	{                             \
		__VA_ARGS__,          \
		{                     \
			0             \
		}                     \
	}

struct row {
	const char *name;
	struct forge_module ko;
	void (*change)(struct kernel_abi *abi);
	enum proof_verdict verdict;
	int code;
	const char *text;
};

static void no_symvers(struct kernel_abi *abi)
{
	symvers_free(abi->symvers);
	abi->symvers = NULL;
}
static void no_vermagic(struct kernel_abi *abi)
{
	free(abi->vermagic);
	abi->vermagic = NULL;
}
static void no_modversions(struct kernel_abi *abi)
{
	abi->has_modversions = false;
	free(abi->vermagic);
	abi->vermagic = str_fmt("%s SMP preempt mod_unload ", RELEASE);
}
static void enforce(struct kernel_abi *abi)
{
	abi->is_sig_enforced = true;
}
static void lock_down(struct kernel_abi *abi)
{
	abi->is_locked_down = true;
}
static void strict_btf(struct kernel_abi *abi)
{
	abi->is_btf_mismatch_fatal = true;
}
static void big_struct(struct kernel_abi *abi)
{
	abi->struct_size = 1216;
}
static void lax_namespaces(struct kernel_abi *abi)
{
	abi->is_ns_required = false;
}

#define LAYOUT                                  \
	{                                       \
		"module_layout", 1, NULL, false \
	}
static const char SAME[] = "6.1.0-56-cloud-amd64 " TAIL, OTHER[] = "6.1.0-50-cloud-amd64 " TAIL;

// D.1 and D.6 of the package format; R-B9.
static void test_one_module(void **state)
{
	(void)state;
	const struct row rows[] = {
		{ "same release",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT, { "kfree", 2, NULL, false }) },
		  NULL,
		  PROOF_EXACT,
		  0,
		  "all 2 CRCs equal Module.symvers" },
		{ "other release, equal CRCs",
		  { .vermagic = OTHER, .imports = SYMBOLS(LAYOUT, { "kfree", 2, NULL, false }) },
		  NULL,
		  PROOF_COMPATIBLE,
		  0,
		  "built for 6.1.0-50-cloud-amd64; all 2 CRCs equal" },
		{ "R-O2: other architecture",
		  { .vermagic = SAME, .machine = EM_AARCH64, .imports = SYMBOLS(LAYOUT) },
		  NULL,
		  PROOF_REFUSED,
		  E_ARCH,
		  "built for aarch64, the kernel is x86_64" },
		{ "other flags",
		  { .vermagic = "6.1.0-56-cloud-amd64 SMP mod_unload modversions ", .imports = SYMBOLS(LAYOUT) },
		  NULL,
		  PROOF_REBUILD,
		  E_ABI,
		  "should be '6.1.0-56-cloud-amd64 SMP preempt mod_unload modversions '" },
		{ "release that only starts alike",
		  { .vermagic = "6.1.0-56-cloud-amd64-rt " TAIL, .imports = SYMBOLS(LAYOUT) },
		  NULL,
		  PROOF_COMPATIBLE,
		  0,
		  "built for 6.1.0-56-cloud-amd64-rt;" },
		{ "layout differs",
		  { .vermagic = OTHER,
		    .imports = SYMBOLS({ "module_layout", 9, NULL, false }, { "kfree", 2, NULL, false }) },
		  NULL,
		  PROOF_REBUILD,
		  E_ABI,
		  "1 of 2 CRCs differ (module/kernel): module_layout 00000009/00000001" },
		{ "import differs",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT, { "kfree", 7, NULL, false }) },
		  NULL,
		  PROOF_REBUILD,
		  E_ABI,
		  "kfree 00000007/00000002" },
		{ "symbol missing, same release",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT, { "gone", 2, NULL, false }) },
		  NULL,
		  PROOF_REFUSED,
		  E_SYMBOL,
		  "nothing exports gone" },
		{ "symbol missing, other release",
		  { .vermagic = OTHER, .imports = SYMBOLS(LAYOUT, { "gone", 2, NULL, false }) },
		  NULL,
		  PROOF_REBUILD,
		  E_SYMBOL,
		  "nothing exports gone" },
		{ "symbol without a CRC in the kernel",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT, { "asm_symbol", 0, NULL, false }) },
		  NULL,
		  PROOF_EXACT,
		  0,
		  "all 1 CRCs" },
		{ "import without a CRC",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT, { "kfree", 0, NULL, false }) },
		  NULL,
		  PROOF_REBUILD,
		  E_ABI,
		  "kfree 00000000/00000002" },
		{ "GPL symbol, GPL module",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT, { "gpl_only", 3, NULL, false }) },
		  NULL,
		  PROOF_EXACT,
		  0,
		  "all 2 CRCs" },
		{ "GPL symbol, other licence",
		  { .vermagic = SAME, .license = "NVIDIA", .imports = SYMBOLS(LAYOUT, { "gpl_only", 3, NULL, false }) },
		  NULL,
		  PROOF_REFUSED,
		  E_SYMBOL,
		  "'gpl_only' is for GPL modules only, the licence is 'NVIDIA'" },
		{ "namespace not imported",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT, { "in_space", 4, NULL, false }) },
		  NULL,
		  PROOF_REFUSED,
		  E_SYMBOL,
		  "in the namespace SPACE" },
		{ "namespace imported",
		  { .vermagic = SAME,
		    .extra = "import_ns=SPACE\0",
		    .imports = SYMBOLS(LAYOUT, { "in_space", 4, NULL, false }) },
		  NULL,
		  PROOF_EXACT,
		  0,
		  "" },
		{ "namespace not looked at",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT, { "in_space", 4, NULL, false }) },
		  lax_namespaces,
		  PROOF_EXACT,
		  0,
		  "" },
		{ "no CRCs in the module",
		  { .vermagic = SAME, .has_no_versions = true, .imports = SYMBOLS({ "kfree", 0, NULL, false }) },
		  NULL,
		  PROOF_REBUILD,
		  E_ABI,
		  "no symbol versions" },
		{ "no CRCs in the module, other release",
		  { .vermagic = OTHER, .has_no_versions = true, .imports = SYMBOLS({ "kfree", 0, NULL, false }) },
		  NULL,
		  PROOF_REBUILD,
		  E_ABI,
		  "version magic" },
		{ "kernel without modversions",
		  { .vermagic = "6.1.0-56-cloud-amd64 SMP preempt mod_unload ",
		    .has_no_versions = true,
		    .imports = SYMBOLS({ "kfree", 0, NULL, false }) },
		  no_modversions,
		  PROOF_EXACT,
		  0,
		  "proved nothing: built for 6.1.0-56-cloud-amd64, a kernel without symbol versions: only names" },
		{ "kernel without modversions, a name that it has not",
		  { .vermagic = "6.1.0-56-cloud-amd64 SMP preempt mod_unload ",
		    .has_no_versions = true,
		    .imports = SYMBOLS({ "gone", 0, NULL, false }) },
		  no_modversions,
		  PROOF_REFUSED,
		  E_SYMBOL,
		  "nothing exports gone" },
		{ "no table, same release",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT) },
		  no_symvers,
		  PROOF_EXACT,
		  0,
		  "proved nothing: built for 6.1.0-56-cloud-amd64, and neither headers nor symbols of that kernel" },
		{ "no table, other release",
		  { .vermagic = OTHER, .imports = SYMBOLS(LAYOUT) },
		  no_symvers,
		  PROOF_REBUILD,
		  E_ABI,
		  "no CRCs of" },
		{ "no version magic of the kernel, same release",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT) },
		  no_vermagic,
		  PROOF_EXACT,
		  0,
		  "" },
		{ "no version magic of the kernel, other release",
		  { .vermagic = OTHER, .imports = SYMBOLS(LAYOUT) },
		  no_vermagic,
		  PROOF_REBUILD,
		  E_ABI,
		  "the version magic of 6.1.0-56-cloud-amd64 is not known" },
		{ "no CRC of module_layout in the module, other release",
		  { .vermagic = OTHER, .imports = SYMBOLS({ "kfree", 2, NULL, false }) },
		  NULL,
		  PROOF_REBUILD,
		  E_ABI,
		  "the CRC of module_layout of 6.1.0-56-cloud-amd64 is not known" },
		{ "no CRC of an import in the kernel, other release",
		  { .vermagic = OTHER, .imports = SYMBOLS(LAYOUT, { "asm_symbol", 7, NULL, false }) },
		  NULL,
		  PROOF_REBUILD,
		  E_ABI,
		  "the CRC of asm_symbol (vmlinux) of 6.1.0-56-cloud-amd64 is not known" },
		{ "assembler code on both sides, other release",
		  { .vermagic = OTHER, .imports = SYMBOLS(LAYOUT, { "asm_symbol", 0, NULL, false }) },
		  NULL,
		  PROOF_COMPATIBLE,
		  0,
		  "all 1 CRCs" },
		{ "other flags, other release",
		  { .vermagic = "6.1.0-50-cloud-amd64 SMP mod_unload modversions ", .imports = SYMBOLS(LAYOUT) },
		  NULL,
		  PROOF_REBUILD,
		  E_ABI,
		  "version magic '6.1.0-50-cloud-amd64 SMP mod_unload modversions ' should be" },
		{ "no vermagic", { .imports = SYMBOLS(LAYOUT) }, NULL, PROOF_REBUILD, E_ELF, "no version magic" },
		{ "struct module",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT) },
		  big_struct,
		  PROOF_REBUILD,
		  E_ABI,
		  "struct module has 1152 bytes, the kernel's has 1216" },
		{ "struct module as it should be",
		  { .vermagic = SAME, .struct_size = 1216, .imports = SYMBOLS(LAYOUT) },
		  big_struct,
		  PROOF_EXACT,
		  0,
		  "" },
		{ "foreign BTF",
		  { .vermagic = OTHER, .has_btf = true, .imports = SYMBOLS(LAYOUT) },
		  strict_btf,
		  PROOF_REBUILD,
		  E_ABI,
		  "BTF" },
		{ "foreign BTF, forgiven",
		  { .vermagic = OTHER, .has_btf = true, .imports = SYMBOLS(LAYOUT) },
		  NULL,
		  PROOF_COMPATIBLE,
		  0,
		  "" },
		{ "unsigned, enforced",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT) },
		  enforce,
		  PROOF_REFUSED,
		  E_SIGNING_REQUIRED,
		  "the module is unsigned, and this kernel enforces" },
		{ "unsigned, locked down",
		  { .vermagic = SAME, .imports = SYMBOLS(LAYOUT) },
		  lock_down,
		  PROOF_REFUSED,
		  E_SIGNING_REQUIRED,
		  "is locked down" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];
		struct forge_module ko = r->ko;
		auto_module struct module m = MODULE_NONE;
		auto_kernel_abi struct kernel_abi abi = { 0 };
		auto_proof struct proof proof = { 0 };
		const struct module *set[] = { &m };
		ko.name = "nvidia";
		module_make(&ko, &m);
		abi_make(&abi);
		if (r->change)
			r->change(&abi);
		proof_make(set, 1, &abi, NULL, &proof);
		auto_str char *row = str_fmt("%s: %d %s", r->name, proof.verdict, proof.text);
		expect(proof.verdict == r->verdict && proof.code == r->code, row);
		expect(strstr(proof.text, r->text) && str_starts(proof.text, "nvidia: "), row);
		struct err err = { 0 };
		expect(proof_error(&proof, &err) == (r->code ? -1 : 0) && err.code == r->code, row);
	}
}

// R-B9: the first ten symbols with both CRCs.
static void test_ten_symbols(void **state)
{
	(void)state;
	struct forge_symver imports[16] = { LAYOUT };
	char names[14][16];
	struct err err;
	auto_str char *text = str_dup("0x00000002\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n");
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(names[i], sizeof(names[i]), "symbol_%02u", i);
		imports[i + 1] = (struct forge_symver){ .name = names[i], .crc = 0x100 + i };
		str_add(&text, "0x%08x\t%s\tvmlinux\tEXPORT_SYMBOL\t\n", 0x200 + i, names[i]);
	}
	struct forge_module ko = { .name = "nvidia", .vermagic = OTHER, .imports = imports };
	auto_module struct module m = MODULE_NONE;
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_proof struct proof proof = { 0 };
	const struct module *set[] = { &m };
	module_make(&ko, &m);
	assert_int_equal(kernel_abi_add_tree(&abi, RELEASE, text, strlen(text), CONFIG, sizeof(CONFIG) - 1, &err), 0);
	proof_make(set, 1, &abi, NULL, &proof);
	assert_int_equal(proof.code, E_ABI);
	assert_int_equal(proof.modules[0].mismatch_count, 15);
	assert_string_equal(proof.modules[0].mismatches[0].symbol, "module_layout");
	assert_int_equal(proof.modules[0].mismatches[14].module_crc, 0x10d);
	assert_int_equal(proof.modules[0].mismatches[14].kernel_crc, 0x20d);
	assert_non_null(strstr(proof.text, "15 of 15 CRCs differ"));
	assert_non_null(strstr(proof.text, "symbol_08 00000108/00000208 and 5 more"));
	assert_null(strstr(proof.text, "symbol_09"));
	assert_int_equal(proof_error(&proof, &err), -1);
	assert_non_null(strstr(err.text, "and 5 more")); // it fits

	static const char lone[] = "0x00000001\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n";
	auto_kernel_abi struct kernel_abi poor = { 0 };
	auto_proof struct proof absent = { 0 };
	assert_int_equal(kernel_abi_add_tree(&poor, RELEASE, lone, strlen(lone), CONFIG, sizeof(CONFIG) - 1, &err), 0);
	proof_make(set, 1, &poor, NULL, &absent);
	expect(absent.text && strstr(absent.text, "symbol_09 and 4 more"), absent.text);
	assert_null(strstr(absent.text, "symbol_10"));
}

static const struct forge_symver nv_exports[] = { { "nv_open", 0x77, NULL, false }, { 0 } };

static void prove_pair(uint32_t uvm_crc, const struct symvers *loaded, bool is_alone, struct proof *ret)
{
	struct forge_module nvidia = {
		.name = "nvidia", .vermagic = SAME, .imports = SYMBOLS(LAYOUT), .exports = nv_exports
	};
	struct forge_module uvm = { .name = "nvidia_uvm", .vermagic = SAME, .depends = "nvidia" };
	struct forge_symver imports[] = {
		LAYOUT, { "nv_open", uvm_crc, NULL, false }, { "drm_open", 5, NULL, false }, { 0 }
	};
	uvm.imports = imports;
	auto_module struct module a = MODULE_NONE, b = MODULE_NONE;
	auto_kernel_abi struct kernel_abi abi = { 0 };
	const struct module *set[] = { &b, &a };
	module_make(&nvidia, &a);
	module_make(&uvm, &b);
	abi_make(&abi);
	proof_make(set, is_alone ? 1 : 2, &abi, loaded, ret);
}

static void test_set(void **state)
{
	(void)state;
	auto_proof struct proof good = { 0 }, bad = { 0 }, alone = { 0 };
	prove_pair(0x77, NULL, false, &good);
	assert_int_equal(good.verdict, PROOF_EXACT);
	assert_true(good.basis == PROOF_BY_CRCS);
	assert_int_equal(good.needs.count, 1);
	assert_string_equal(good.needs.items[0], "drivers/gpu/drm/drm");
	prove_pair(0x78, NULL, false, &bad);
	assert_int_equal(bad.code, E_ABI);
	assert_non_null(strstr(bad.text, "nvidia_uvm: "));
	assert_non_null(strstr(bad.text, "nv_open 00000078/00000077"));
	assert_int_equal(bad.modules[1].verdict, PROOF_EXACT);
	prove_pair(0x77, NULL, true, &alone);
	assert_int_equal(alone.code, E_SYMBOL);
	assert_non_null(strstr(alone.text, "nothing exports nv_open"));
}

static void test_loaded(void **state)
{
	(void)state;
	auto_symvers struct symvers *loaded = symvers_new();
	struct symver nv = { .name = "nv_open", .owner = "nvidia", .namespace = "", .crc = 0x99, .has_crc = true };
	struct symver drm = { .name = "drm_open", .owner = "drm", .namespace = "", .crc = 5, .has_crc = true };
	symvers_add(loaded, &nv);
	symvers_add(loaded, &drm);
	auto_proof struct proof alone = { 0 }, both = { 0 };
	prove_pair(0x99, loaded, true, &alone);
	assert_int_equal(alone.verdict, PROOF_EXACT);
	assert_int_equal(alone.needs.count, 0);
	prove_pair(0x77, loaded, false, &both); // what will be loaded counts more than what is
	assert_int_equal(both.verdict, PROOF_EXACT);
}

static void test_signatures(void **state)
{
	(void)state;
	auto_signer struct signer known = signer_make("Known", NULL), other = signer_make("Other", NULL);
	const struct {
		const char *name;
		const struct signer *by;
		const char *hash;
		bool is_enforced;
		enum { WHOLE, ALTERED, CUT } damage; // CUT: the trailer claims fewer bytes than the signature has
		enum proof_verdict verdict;
		int code;
		const char *text;
	} rows[] = {
		{ "known key", &known, "sha256", true, WHOLE, PROOF_EXACT, 0, "" },
		{ "known key, other hash", &known, "sha512", true, WHOLE, PROOF_EXACT, 0,
		  "signed with sha512, only sha256 is" },
		{ "unknown key", &other, "sha256", true, WHOLE, PROOF_REFUSED, E_KEY_UNKNOWN,
		  "signed by CN=Other (serial ABCDEF)" },
		{ "unknown key, not enforced", &other, "sha256", false, WHOLE, PROOF_EXACT, 0, "" },
		{ "altered", &known, "sha256", false, ALTERED, PROOF_REFUSED, E_SIGNATURE_BAD,
		  "does not match this content" },
		{ "malformed, not enforced", &known, "sha256", false, CUT, PROOF_REFUSED, E_SIGNATURE_BAD,
		  "the CMS is damaged" },
		{ "malformed, enforced", &known, "sha256", true, CUT, PROOF_REFUSED, E_SIGNATURE_BAD,
		  "the CMS is damaged" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct forge_module ko = { .name = "nvidia", .vermagic = SAME, .imports = SYMBOLS(LAYOUT) };
		struct err err;
		size_t len, cert_len;
		auto_str char *plain = forge_ko(&ko, &len);
		char *file = signer_sign(rows[i].by, plain, len, rows[i].hash, SIGN_PLAIN, &len);
		auto_str char *cert = signer_cert(&known, true, &cert_len);
		auto_module struct module m = MODULE_NONE;
		auto_kernel_abi struct kernel_abi abi = { 0 };
		auto_proof struct proof proof = { 0 };
		const struct module *set[] = { &m };
		if (rows[i].damage == ALTERED)
			file[EI_PAD] = 1;
		if (rows[i].damage == CUT)
			file[len - strlen("~Module signature appended~\n") - 1]--;
		assert_int_equal(module_parse(file, len, "signed.ko", &m, &err), 0);
		abi_make(&abi);
		abi.is_sig_enforced = rows[i].is_enforced;
		abi.trusted = modsig_certs_new();
		assert_int_equal(modsig_certs_add(abi.trusted, cert, cert_len, "known.pem", &err), 1);
		proof_make(set, 1, &abi, NULL, &proof);
		expect(proof.verdict == rows[i].verdict && proof.code == rows[i].code, rows[i].name);
		expect(strstr(proof.text, rows[i].text), proof.text);
	}
}

struct kernel {
	const char *key, *revoked, *hash; // the one that it has, refuses, lacks
	const struct certs *certs;
};

static const struct certs *kernel_certs(void *kernel, const struct strv *ids)
{
	(void)ids;
	return ((const struct kernel *)kernel)->certs;
}

static int has_key(const void *kernel, const char *id)
{
	return str_eq(id, ((const struct kernel *)kernel)->key);
}

static int is_revoked(const void *kernel, const char *id)
{
	return str_eq(id, ((const struct kernel *)kernel)->revoked);
}

static char *lacks_hash(const void *kernel, const char *hash)
{
	return str_eq(hash, ((const struct kernel *)kernel)->hash) ? str_dup("it was left out") : NULL;
}

// What the running kernel says of who signed, with what, and whether the content is still that.
static void test_answers(void **state)
{
	(void)state;
	enum { INSIDE = SIGN_PLAIN & ~CMS_NOCERTS, BY_ID = SIGN_PLAIN | CMS_USE_KEYID };
	auto_signer struct signer ca = signer_make("CA", NULL), leaf = signer_issued("Leaf", &ca);
	static const char id[] = "1234310b300906035504030c024341"; // serial, and CN=CA
	char ca_id[2 * 20 + 1] = "";
	const ASN1_OCTET_STRING *octets = X509_get0_subject_key_id(ca.cert);
	for (int i = 0; i < ASN1_STRING_length(octets) && i < 20; i++)
		snprintf(ca_id + 2 * i, 3, "%02x", ASN1_STRING_get0_data(octets)[i]);
	const struct {
		const char *name;
		struct kernel kernel;
		const struct signer *certificate; // that firmware or shim shows; NULL = none
		unsigned flags;
		bool is_enforced, is_altered;
		int code;
		const char *text;
	} rows[] = {
		{ "it is there", { .key = id }, NULL, SIGN_PLAIN, true, false, 0, "" },
		{ "another is there",
		  { .key = "310b" },
		  NULL,
		  SIGN_PLAIN,
		  true,
		  false,
		  E_KEY_UNKNOWN,
		  "signed by a key of CN=CA (serial 1234) that this kernel does not have" },
		{ "not enforced", { .key = "310b" }, NULL, SIGN_PLAIN, false, false, 0, "" },
		{ "inside, it is there", { .key = id }, NULL, INSIDE, true, false, 0, "" },
		{ "inside, its issuer is there", { .key = ca_id }, NULL, INSIDE, true, false, 0, "" },
		{ "inside, neither is there",
		  { .key = "310b" },
		  NULL,
		  INSIDE,
		  true,
		  false,
		  E_KEY_UNKNOWN,
		  "CN=CA (serial 1234)" },
		{ "inside, neither is there, and shim shows the issuer",
		  { .key = "310b" },
		  &ca,
		  INSIDE,
		  true,
		  false,
		  E_KEY_UNKNOWN,
		  "CN=CA (serial 1234)" }, // a keyring that is not for modules
		{ "named by its key id, which is not there",
		  { .key = "310b" },
		  NULL,
		  BY_ID,
		  true,
		  false,
		  E_KEY_UNKNOWN,
		  "(serial unknown)" },
		{ "altered, and shim shows who signed",
		  { .key = id },
		  &leaf,
		  SIGN_PLAIN,
		  true,
		  true,
		  E_SIGNATURE_BAD,
		  "does not match this content" },
		{ "altered, not enforced", { .key = id }, &leaf, SIGN_PLAIN, false, true, E_SIGNATURE_BAD, "" },
		{ "altered, with the certificate inside",
		  { .key = "310b" },
		  NULL,
		  INSIDE,
		  true,
		  true,
		  E_SIGNATURE_BAD,
		  "the signature by CN=CA" },
		{ "altered, by a key that cannot be read", { .key = id }, NULL, SIGN_PLAIN, true, true, 0, "" },
		{ "revoked",
		  { .key = id, .revoked = id },
		  NULL,
		  SIGN_PLAIN,
		  false,
		  false,
		  E_KEY_REVOKED,
		  "CN=CA (serial 1234) that is revoked" },
		{ "its issuer is revoked",
		  { .key = id, .revoked = ca_id },
		  NULL,
		  INSIDE,
		  true,
		  false,
		  E_KEY_REVOKED,
		  "" },
		{ "no such hash",
		  { .key = id, .hash = "sha256" },
		  &leaf,
		  SIGN_PLAIN,
		  true,
		  false,
		  E_SIGNATURE_HASH,
		  "signed with sha256, which this kernel does not have: it was left out" },
		{ "no such hash, not enforced",
		  { .key = id, .hash = "sha256" },
		  &leaf,
		  SIGN_PLAIN,
		  false,
		  false,
		  0,
		  "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct forge_module ko = { .name = "nvidia", .vermagic = SAME, .imports = SYMBOLS(LAYOUT) };
		struct err err;
		size_t len, cert_len;
		auto_str char *plain = forge_ko(&ko, &len);
		char *file = signer_sign(&leaf, plain, len, "sha256", rows[i].flags, &len);
		auto_module struct module m = MODULE_NONE;
		auto_kernel_abi struct kernel_abi abi = { 0 };
		auto_proof struct proof proof = { 0 };
		auto_certs struct certs *certs = modsig_certs_new();
		auto_str char *cert = rows[i].certificate ? signer_cert(rows[i].certificate, false, &cert_len) : NULL;
		assert_true(!cert || modsig_certs_add(certs, cert, cert_len, "cert", &err) == 1);
		struct kernel kernel = rows[i].kernel;
		kernel.certs = certs;
		const struct kernel_answers answers = { .has_key = has_key,
							.is_revoked = is_revoked,
							.lacks_hash = lacks_hash,
							.certs = kernel_certs,
							.kernel = &kernel };
		const struct module *set[] = { &m };
		if (rows[i].is_altered)
			file[EI_PAD] = 1;
		assert_int_equal(module_parse(file, len, "signed.ko", &m, &err), 0);
		abi_make(&abi);
		abi.is_sig_enforced = rows[i].is_enforced;
		abi.answers = &answers;
		proof_make(set, 1, &abi, NULL, &proof);
		expect(proof.code == rows[i].code, rows[i].name);
		expect(strstr(proof.text, rows[i].text), proof.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_module), cmocka_unit_test(test_ten_symbols), cmocka_unit_test(test_set),
		cmocka_unit_test(test_loaded),     cmocka_unit_test(test_signatures),  cmocka_unit_test(test_answers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
