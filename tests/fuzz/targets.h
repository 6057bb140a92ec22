// SPDX-License-Identifier: Apache-2.0
// What is fed to the parsers of hostile files, by a fuzzer and by the replay of the corpus in the unit tier.
#pragma once
#include "kmod/prove.h"

#include <stdlib.h>

static inline char *fuzz_copy(const uint8_t *data, size_t len) // exactly as long, so that ASan sees every byte too far
{
	char *copy = malloc(len ? len : 1);
	if (!copy)
		abort();
	if (len)
		memcpy(copy, data, len);
	return copy;
}

// Read every string that came out of a parse.
static inline size_t fuzz_touch(const struct symvers *sv)
{
	size_t sum = 0;
	for (size_t i = 0; i < symvers_count(sv); i++) {
		const struct symver *s = symvers_at(sv, i);
		sum += strlen(s->name) + strlen(s->owner) + strlen(s->namespace);
		if (symvers_find(sv, s->name) != s)
			abort();
	}
	return sum;
}

static inline int fuzz_module(const uint8_t *data, size_t len)
{
	static const char symvers[] =
		"0x1\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n0x2\tkfree\tvmlinux\tEXPORT_SYMBOL\t\n";
	static const char config[] = "CONFIG_MODULES=y\nCONFIG_X86_64=y\nCONFIG_MODVERSIONS=y\nCONFIG_MODULE_SIG=y\n";
	struct err err;
	auto_module struct module m = MODULE_NONE;
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_proof struct proof proof = { 0 };
	const struct module *set[] = { &m };
	if (module_parse(fuzz_copy(data, len), len, "fuzz.ko", &m, &err) < 0) {
		if (err.code != E_ELF && err.code != E_ARCH)
			abort();
		return 0;
	}
	fuzz_touch(m.exports);
	if (kernel_abi_add_tree(&abi, "6.1", symvers, sizeof(symvers) - 1, config, sizeof(config) - 1, &err) < 0)
		abort();
	abi.trusted = certs_new();
	abi.is_sig_enforced = len % 2;
	prove_modules(set, 1, &abi, NULL, &proof);
	if (!proof.text)
		abort();
	return 0;
}

static inline int fuzz_vmlinuz(const uint8_t *data, size_t len)
{
	struct err err;
	auto_vmlinuz struct vmlinuz v = { 0 };
	auto_str char *copy = fuzz_copy(data, len);
	if (vmlinuz_parse(copy, len, "fuzz", &v, &err) < 0) {
		if (err.code != E_ELF && err.code != E_ARCH)
			abort();
		return 0;
	}
	fuzz_touch(v.symvers);
	return 0;
}
