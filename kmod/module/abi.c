// SPDX-License-Identifier: Apache-2.0
#include "kmod/module/abi.h"

#include "kmod/kernel_tree/compiler.h"

#include <elf.h>

void kernel_abi_done(struct kernel_abi *abi)
{
	free(abi->release);
	free(abi->banner);
	free(abi->build_id);
	free(abi->compiler);
	free(abi->vermagic);
	symvers_free(abi->symvers);
	free(abi->symvers_from);
	free(abi->sig_hash);
	modsig_certs_free(abi->trusted);
	*abi = (struct kernel_abi){ 0 };
}

// value may be the very text that it replaces.
static void replace_text(char **where, const char *value)
{
	char *copy = str_dup(value);
	free(*where);
	*where = copy;
}

void kernel_build_id(const char *banner, char ret[DIGEST_HEX + 1])
{
	auto_str char *copy = str_dup(banner);
	const char *line = str_trim(copy);
	digest_data(line, strlen(line), ret);
}

// The value of a line "KEY=VALUE", quotes taken off; NULL = not set.
static char *config_value(const char *config, size_t len, const char *key)
{
	size_t key_len = strlen(key);
	for (const char *line = config, *end = config + len; line < end;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		size_t size = (size_t)((stop ? stop : end) - line);
		if (size > key_len && memcmp(line, key, key_len) == 0 && line[key_len] == '=') {
			const char *value = line + key_len + 1;
			size -= key_len + 1;
			bool is_quoted = size >= 2 && value[0] == '"' && value[size - 1] == '"';
			return is_quoted ? str_ndup(value + 1, size - 2) : str_ndup(value, size);
		}
		line += size + 1;
	}
	return NULL;
}

static bool config_is(const char *config, size_t len, const char *key)
{
	auto_str char *value = config_value(config, len, key);
	return str_eq(value, "y");
}

// include/linux/vermagic.h; PREEMPT_BUILD since 5.16, PREEMPT before.
static char *vermagic_of(const char *release, const char *config, size_t len)
{
	char *s = str_fmt("%s ", release);
	if (config_is(config, len, "CONFIG_SMP"))
		str_add(&s, "SMP ");
	if (config_is(config, len, "CONFIG_PREEMPT_BUILD") || config_is(config, len, "CONFIG_PREEMPT"))
		str_add(&s, "preempt ");
	else if (config_is(config, len, "CONFIG_PREEMPT_RT"))
		str_add(&s, "preempt_rt ");
	if (config_is(config, len, "CONFIG_MODULE_UNLOAD"))
		str_add(&s, "mod_unload ");
	if (config_is(config, len, "CONFIG_MODVERSIONS"))
		str_add(&s, "modversions ");
	if (config_is(config, len, "CONFIG_ARM64"))
		str_add(&s, "aarch64");
	return s;
}

static int config_machine(const char *config, size_t len)
{
	if (config_is(config, len, "CONFIG_X86_64"))
		return EM_X86_64;
	return config_is(config, len, "CONFIG_ARM64") ? EM_AARCH64 : EM_NONE;
}

int kernel_abi_add_config(struct kernel_abi *abi, const char *release, const char *config, size_t len, struct err *err)
{
	if (!config_is(config, len, "CONFIG_MODULES"))
		return err_set(err, E_HEADERS_MISMATCH, "the configuration of %s is none of a kernel with modules",
			       release);
	bool has_randstruct = config_is(config, len, "CONFIG_RANDSTRUCT") ||
			      config_is(config, len, "CONFIG_GCC_PLUGIN_RANDSTRUCT"); // its seed is in vermagic
	replace_text(&abi->release, release);
	if (abi->machine == EM_NONE)
		abi->machine = config_machine(config, len);
	if (!abi->vermagic && abi->machine != EM_NONE && !has_randstruct)
		abi->vermagic = vermagic_of(abi->release, config, len);
	abi->has_modversions = config_is(config, len, "CONFIG_MODVERSIONS");
	abi->is_btf_mismatch_fatal = config_is(config, len, "CONFIG_DEBUG_INFO_BTF_MODULES") &&
				     !config_is(config, len, "CONFIG_MODULE_ALLOW_BTF_MISMATCH");
	abi->is_ns_required = !config_is(config, len, "CONFIG_MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS");
	abi->has_sig = config_is(config, len, "CONFIG_MODULE_SIG");
	abi->is_sig_enforced |= config_is(config, len, "CONFIG_MODULE_SIG_FORCE");
	free(abi->sig_hash);
	abi->sig_hash = config_value(config, len, "CONFIG_MODULE_SIG_HASH");
	if (!abi->compiler)
		abi->compiler = config_value(config, len, "CONFIG_CC_VERSION_TEXT");
	return 0;
}

int kernel_abi_add_tree(struct kernel_abi *abi, const char *release, const char *symvers, size_t symvers_len,
			const char *config, size_t config_len, struct err *err)
{
	auto_symvers struct symvers *table = symvers_new();
	if (symvers && symvers_add_text(table, symvers, symvers_len, "Module.symvers", err) < 0)
		return -1;
	if (kernel_abi_add_config(abi, release, config, config_len, err) < 0)
		return -1;
	if (symvers_count(table) && !abi->symvers) {
		abi->symvers = TAKE(table);
		abi->symvers_from = str_dup("Module.symvers");
	}
	return 0;
}

void kernel_abi_add_banner(struct kernel_abi *abi, const char *line)
{
	char id[DIGEST_HEX + 1];
	kernel_build_id(line, id);
	replace_text(&abi->banner, line);
	replace_text(&abi->build_id, id);
	if (!abi->compiler)
		abi->compiler = compiler_of_banner(line);
}

void kernel_abi_add_vmlinuz(struct kernel_abi *abi, struct vmlinuz *v)
{
	kernel_abi_add_banner(abi, v->banner);
	free(abi->release);
	abi->release = TAKE(v->release);
	abi->machine = v->machine;
	abi->has_modversions = v->has_crcs;
	if (abi->symvers)
		return;
	abi->symvers = TAKE(v->symvers);
	abi->symvers_from = str_dup("the kernel image");
}

void kernel_abi_add_module(struct kernel_abi *abi, const struct module *in_tree)
{
	replace_text(&abi->vermagic, in_tree->vermagic);
	abi->struct_size = in_tree->struct_size;
	abi->has_modversions = in_tree->has_versions;
	if (abi->machine == EM_NONE)
		abi->machine = in_tree->machine;
}
