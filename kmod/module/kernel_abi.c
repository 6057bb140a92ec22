// SPDX-License-Identifier: Apache-2.0
#include "kmod/module/kernel_abi.h"

#include "base/archive/archive.h"
#include "base/file/file.h"
#include "kmod/kernel_tree/compiler.h"
#include "kmod/kernel_tree/tree.h"
#include "kmod/module/vmlinuz_cache.h"

#include <elf.h>
#include <fcntl.h>

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

static int add_config(struct kernel_abi *abi, const char *release, const char *config, size_t len, struct err *err)
{
	if (!config_is(config, len, "CONFIG_MODULES"))
		return err_set(err, E_HEADERS_MISMATCH, "the configuration of %s is not that of a kernel with modules",
			       release);
	bool has_randstruct = config_is(config, len, "CONFIG_RANDSTRUCT") ||
			      config_is(config, len, "CONFIG_GCC_PLUGIN_RANDSTRUCT"); // its seed is in vermagic
	replace_text(&abi->release, release);
	if (abi->machine == EM_NONE)
		abi->machine = config_is(config, len, "CONFIG_X86_64") ? EM_X86_64 :
			       config_is(config, len, "CONFIG_ARM64")  ? EM_AARCH64 :
									 EM_NONE;
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
	if (add_config(abi, release, config, config_len, err) < 0)
		return -1;
	if (table->count && !abi->symvers) {
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

enum { CONFIG_MAX = 16 << 20, DEPTH_MAX = 8 };

// The first of the paths that exists: 1 with its open descriptor, 0 = none. Each path has one %s, the release.
static int open_first(const struct root *root, const char *const *paths, size_t count, const char *release, int *ret_fd,
		      char **ret_path, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		const char *mark = strstr(paths[i], "%s");
		auto_str char *path = str_fmt("%.*s%s%s", (int)(mark - paths[i]), paths[i], release, mark + 2);
		if (!root_exists(root, path))
			continue;
		int fd = root_open(root, path, O_RDONLY, err);
		if (fd < 0)
			return -1;
		*ret_fd = fd;
		*ret_path = TAKE(path);
		return 1;
	}
	return 0;
}

static int read_abi_config(struct kernel_abi *abi, const struct root *host, const struct root *running,
			   const char *release, struct err *err)
{
	static const char *const paths[] = { "boot/config-%s",
					     "lib/modules/%s/config",
					     "usr/lib/modules/%s/config",
					     "lib/modules/%s/build/.config",
					     "usr/src/linux-headers-%s/.config",
					     "usr/src/kernels/%s/.config" };
	auto_fd int fd = -1;
	auto_str char *path = NULL;
	int r = open_first(host, paths, ARRAY_SIZE(paths), release, &fd, &path, err);
	if (r == 0 && running && root_exists(running, "proc/config.gz")) {
		path = str_dup("proc/config.gz");
		fd = root_open(running, path, O_RDONLY, err);
		r = fd < 0 ? -1 : 1;
	}
	auto_str char *raw = NULL, *text = NULL;
	size_t raw_len, len;
	if (r <= 0 || file_read(fd, path, &raw, &raw_len, err) < 0)
		return r <= 0 ? r : -1;
	if (archive_inflate(raw, raw_len, CONFIG_MAX, &text, &len, err) < 0)
		return err_wrap(err, "read '%s'", path);
	return add_config(abi, release, text, len, err);
}

static int read_abi_symvers(struct kernel_abi *abi, const struct root *host, const char *release, struct err *err)
{
	static const char *const paths[] = {
		"lib/modules/%s/build/Module.symvers",
		"usr/src/linux-headers-%s/Module.symvers",
		"usr/src/kernels/%s/Module.symvers",
		"lib/modules/%s/symvers.gz",
		"lib/modules/%s/symvers.xz",
		"lib/modules/%s/symvers.zst",
		"usr/lib/modules/%s/symvers.gz",
		"boot/symvers-%s.gz",
		"boot/symvers-%s.xz",
		"boot/symvers-%s.zst",
	};
	auto_fd int fd = -1;
	auto_str char *path = NULL;
	auto_symvers struct symvers *sv = symvers_new();
	int r = open_first(host, paths, ARRAY_SIZE(paths), release, &fd, &path, err);
	if (r <= 0 || symvers_add_file(sv, fd, path, err) < 0)
		return r <= 0 ? r : -1;
	if (!sv->count)
		return 0;
	abi->symvers = TAKE(sv);
	abi->symvers_from = TAKE(path);
	return 1;
}

// An image knows only its own symbols. Which module of the host provides the others, without their CRCs, is in
// modules.symbols: "alias symbol:drm_ioctl drm".
static int add_module_symbols(struct symvers *sv, const struct root *host, const char *release, struct err *err)
{
	static const char prefix[] = "alias symbol:";
	auto_str char *path = str_fmt("lib/modules/%s/modules.symbols", release), *text = NULL;
	if (root_read(host, path, &text, NULL, err) < 0)
		return -1;
	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		char *owner = str_starts(line, prefix) ? strchr(line + strlen(prefix), ' ') : NULL;
		if (!owner || !owner[1] || strchr(owner + 1, ' '))
			continue;
		*owner++ = '\0';
		symvers_add(sv, &(struct symver){ line + strlen(prefix), .owner = owner, .namespace = "" });
	}
	return 0;
}

int kernel_abi_open_image(const struct root *host, const char *release, int *ret, char **ret_path, struct err *err)
{
	static const char *const paths[] = { "lib/modules/%s/vmlinuz", "usr/lib/modules/%s/vmlinuz",
					     "boot/vmlinuz-%s" };
	return open_first(host, paths, ARRAY_SIZE(paths), release, ret, ret_path, err);
}

// 1 = it has symbols. An image in another format (a unified kernel image) is not an error: less is known then.
static int read_abi_image(struct kernel_abi *abi, const struct root *host, const struct root *running,
			  const struct root *state, const char *release, struct err *err)
{
	auto_fd int fd = -1;
	auto_str char *path = NULL;
	auto_vmlinuz struct vmlinuz v = { 0 };
	int r = kernel_abi_open_image(host, release, &fd, &path, err);
	if (r <= 0)
		return r;
	if (vmlinuz_cache_read(state, running, fd, path, &v, err) < 0)
		return err->code == E_ELF ? 0 : -1;
	if (!str_eq(v.release, release))
		return err_set(err, E_HEADERS_MISMATCH, "'%s' holds the kernel %s", path, v.release);
	// Of an image that tells nothing but its banner, that of the running kernel is better known.
	if (v.symvers || !abi->banner)
		kernel_abi_add_banner(abi, v.banner);
	free(abi->release);
	abi->release = TAKE(v.release);
	abi->machine = v.machine;
	if (!v.symvers)
		return 0;
	abi->has_modversions = v.has_crcs;
	if (!abi->symvers)
		abi->symvers = TAKE(v.symvers);
	free(abi->symvers_from);
	abi->symvers_from = TAKE(path);
	return add_module_symbols(abi->symvers, host, abi->release, err) < 0 ? -1 : 1;
}

// The first readable module below dir, depth first: 1 = found.
static int find_intree_module(struct kernel_abi *abi, const struct root *host, const char *dir, int depth)
{
	struct err err; // a directory or a module that cannot be read is no source
	auto_strv struct strv names = { 0 };
	if (depth > DEPTH_MAX || root_list(host, dir, &names, &err) <= 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", dir, names.items[i]);
		if (!str_ends(path, ".ko") && !str_ends(path, ".ko.xz") && !str_ends(path, ".ko.gz") &&
		    !str_ends(path, ".ko.zst")) {
			if (find_intree_module(abi, host, path, depth + 1) > 0)
				return 1;
			continue;
		}
		auto_module struct module m = MODULE_NONE;
		auto_fd int fd = root_open(host, path, O_RDONLY, &err);
		if (fd >= 0 && module_read(fd, path, &m, &err) == 0 && m.is_intree) {
			replace_text(&abi->vermagic, m.vermagic);
			abi->struct_size = m.struct_size;
			abi->has_modversions = m.has_versions;
			if (abi->machine == EM_NONE)
				abi->machine = m.machine;
			return 1;
		}
	}
	return 0;
}

void kernel_abi_add_running(struct kernel_abi *abi, const struct root *kern)
{
	struct err err;
	auto_str char *enforce = NULL;
	auto_str char *lockdown = NULL;
	if (root_line(kern, "sys/module/module/parameters/sig_enforce", &enforce, &err) > 0) {
		abi->has_sig = true;
		abi->is_sig_enforced = str_eq(enforce, "Y");
	}
	if (root_line(kern, "sys/kernel/security/lockdown", &lockdown, &err) > 0)
		abi->is_locked_down = !strstr(lockdown, "[none]");
}

int kernel_abi_read(struct kernel_abi *abi, const struct root *host, const struct root *kern, const struct root *state,
		    const char *release, struct err *err)
{
	auto_kernel_abi struct kernel_abi a = { 0 };
	auto_str char *running = NULL, *banner = NULL;
	if (root_line(kern, "proc/sys/kernel/osrelease", &running, err) < 0)
		return -1;
	if (!release && !running)
		return err_set(err, E_NOT_FOUND, "the release of the running kernel is unknown: '%s' has no proc",
			       *kern->name ? kern->name : "/");
	a.release = str_dup(release ? release : running);
	bool is_running = str_eq(a.release, running);
	struct err ignored;
	if (is_running && root_line(kern, "proc/version", &banner, &ignored) > 0)
		kernel_abi_add_banner(&a, banner);
	if (is_running)
		kernel_abi_add_running(&a, kern);
	auto_str char *tree = str_fmt("lib/modules/%s/kernel", a.release);
	const struct root *at_run = is_running ? kern : NULL;
	if (read_abi_config(&a, host, at_run, a.release, err) < 0)
		return -1;
	find_intree_module(&a, host, tree, 0);
	int r = read_abi_symvers(&a, host, a.release, err);
	if (r == 0)
		r = read_abi_image(&a, host, at_run, state, a.release, err);
	if (r < 0)
		return -1;
	// The banner of a kernel that is not running is in its image; headers do not have it.
	auto_kernel_abi struct kernel_abi image = { 0 };
	if (!a.banner && read_abi_image(&image, host, at_run, state, a.release, &ignored) >= 0 && image.banner)
		kernel_abi_add_banner(&a, image.banner);
	kernel_abi_done(abi);
	*abi = a;
	a = (struct kernel_abi){ 0 };
	return r;
}
