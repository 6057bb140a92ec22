// SPDX-License-Identifier: Apache-2.0
// What a proof rests on: CRCs, the build of the kernel, or nothing; and that it says so.
#include "kmod/module/proof.h"
#include "tests/unit/forge.h"
#include "tests/unit/test.h"

static const char RELEASE[] = "7.3.4-cloud-amd64";
static const char CONFIG[] = "CONFIG_MODULES=y\nCONFIG_X86_64=y\nCONFIG_SMP=y\nCONFIG_MODULE_UNLOAD=y\n";
static const char SYMVERS[] = "0x00000001\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n"
			      "0x00000002\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n"
			      "0x00000000\tasm_symbol\tvmlinux\tEXPORT_SYMBOL\t\n";
static const char BUILD[] = "75b83788bfc2aaaa", OTHER[] = "71d9926bb242aaaa";

static void test_basis(void **state)
{
	(void)state;
	static const struct forge_symver kfree[] = { { "kfree", 2, NULL, false }, { 0 } },
					 no_crc[] = { { "asm_symbol", 9, NULL, false }, { 0 } },
					 unknown[] = { { "gone", 2, NULL, false }, { 0 } };
	static const struct {
		const char *name, *made_for, *build_id;
		const struct forge_symver *imports;
		bool has_modversions, has_symvers;
		enum proof_basis basis;
		const char *text;
	} rows[] = {
		{ "CRCs", BUILD, BUILD, kfree, true, true, PROOF_BY_CRCS,
		  "nvidia: built for 7.3.4-cloud-amd64; all 1 CRCs equal Module.symvers" },
		{ "a kernel without CRCs, made for this build", BUILD, BUILD, kfree, false, true, PROOF_BY_BUILD,
		  "built for this very build of 7.3.4-cloud-amd64 (build id 75b83788bfc2); there are no CRCs to "
		  "compare" },
		{ "a kernel without CRCs, made for another build", OTHER, BUILD, kfree, false, true, PROOF_BY_NOTHING,
		  "nvidia: proved nothing: built for 7.3.4-cloud-amd64, a kernel without symbol versions: only names "
		  "could be "
		  "compared" },
		{ "nobody says for which build", NULL, BUILD, kfree, false, true, PROOF_BY_NOTHING,
		  "proved nothing: " },
		{ "nobody knows which build runs", BUILD, NULL, kfree, false, true, PROOF_BY_NOTHING,
		  "proved nothing: " },
		{ "neither", NULL, NULL, kfree, false, true, PROOF_BY_NOTHING, "proved nothing: " },
		{ "neither headers nor an image", NULL, BUILD, kfree, true, false, PROOF_BY_NOTHING,
		  "proved nothing: built for 7.3.4-cloud-amd64, and neither headers nor symbols of that kernel can be "
		  "read" },
		{ "neither headers nor an image, made for this build", BUILD, BUILD, kfree, true, false, PROOF_BY_BUILD,
		  "this very build" },
		{ "imports without CRCs alone", NULL, BUILD, no_crc, true, true, PROOF_BY_NOTHING,
		  "proved nothing: built for 7.3.4-cloud-amd64, and it imports nothing that has a CRC" },
		{ "what does not fit is not made to fit", BUILD, BUILD, unknown, false, true, PROOF_BY_NOTHING,
		  "nothing exports gone" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		size_t len;
		auto_kernel_abi struct kernel_abi abi = { 0 };
		auto_module struct module m = MODULE_NONE;
		auto_proof struct proof proof = { 0 };
		const struct module *set[] = { &m };
		auto_str char *config =
			str_fmt("%s%s", CONFIG, rows[i].has_modversions ? "CONFIG_MODVERSIONS=y\n" : "");
		auto_str char *vermagic =
			str_fmt("%s SMP mod_unload %s", RELEASE, rows[i].has_modversions ? "modversions " : "");
		const struct forge_module ko = { .name = "nvidia",
						 .vermagic = vermagic,
						 .imports = rows[i].imports,
						 .has_no_versions = !rows[i].has_modversions };
		char *data = forge_ko(&ko, &len);
		assert_int_equal(module_parse(data, len, "nvidia.ko", &m, &err), 0);
		assert_int_equal(kernel_abi_add_tree(&abi, RELEASE, rows[i].has_symvers ? SYMVERS : NULL,
						     sizeof(SYMVERS) - 1, config, strlen(config), &err),
				 0);
		proof_make(set, 1, &abi, NULL, &proof);
		proof_add_build(&proof, RELEASE, rows[i].made_for, rows[i].build_id);
		if (proof.basis != rows[i].basis || !strstr(proof.text, rows[i].text))
			fail_msg("%s: %s: '%s'", rows[i].name, proof_basis_name(proof.basis), proof.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_basis) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
