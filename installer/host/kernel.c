// SPDX-License-Identifier: Apache-2.0
#include "host/kernel.h"

#include "base/archive/archive.h"
#include "host/cgroup.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/utsname.h>

enum { CONFIG_MAX = 16 << 20 };

static const char secure_boot_var[] =
	"sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"; // EFI_GLOBAL_VARIABLE, UEFI 3.3

static uint64_t read_uint_file(const struct root *root, const char *path)
{
	struct err err;
	auto_str char *text = NULL;
	uint64_t value = 0;
	if (root_line(root, path, &text, &err) > 0)
		str_u64(text, 10, &value);
	return value;
}

static char *read_text_line(const struct root *root, const char *path)
{
	struct err err;
	char *text = NULL;
	root_line(root, path, &text, &err);
	return text;
}

static int require_line(const struct root *root, const char *path, char **ret, struct err *err)
{
	int r = root_line(root, path, ret, err);
	if (r != 0)
		return r;
	auto_str char *full = root_path(root, path);
	return err_set(err, ENOENT, "cannot identify the running kernel: '%s' does not exist", full);
}

static char *elf_arch(const struct root *host)
{
	struct err err;
	Elf64_Ehdr head;
	auto_fd int fd = root_open(host, "bin/sh", O_RDONLY, &err);
	if (fd < 0 || read(fd, &head, sizeof(head)) != sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
		return NULL;
	return head.e_machine == EM_X86_64  ? str_dup("x86_64") :
	       head.e_machine == EM_AARCH64 ? str_dup("aarch64") :
					      NULL;
}

static char *read_arch(const struct root *host, const struct root *kern)
{
	char *name = read_text_line(kern, "proc/sys/kernel/arch");
	if (!name)
		name = elf_arch(host);
	struct utsname u;
	return name || uname(&u) < 0 ? name : str_dup(u.machine);
}

static char *os_release_value(const char *text, const char *key)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, text, "\n");
	size_t len = strlen(key);
	for (size_t i = 0; i < lines.count; i++) {
		char *value = lines.items[i];
		if (strncmp(value, key, len) != 0 || value[len] != '=')
			continue;
		value = str_trim(value + len + 1);
		size_t end = strlen(value);
		if (end >= 2 && (*value == '"' || *value == '\'') && value[end - 1] == *value)
			return str_ndup(value + 1, end - 2);
		return str_dup(value);
	}
	return NULL;
}

static void read_distro(struct host *h, const struct root *host)
{
	static const char *const paths[] = { "etc/os-release", "usr/lib/os-release" };
	struct err err;
	auto_str char *text = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(paths) && !text; i++)
		root_read(host, paths[i], &text, NULL, &err);
	if (!text)
		return;
	h->distro_id = os_release_value(text, "ID");
	h->distro_version = os_release_value(text, "VERSION_ID");
}

static enum host_secure_boot read_secure_boot(const struct root *kern)
{
	enum { ATTRIBUTES = 4 };
	struct err err;
	auto_str char *data = NULL;
	size_t len = 0;
	if (root_read(kern, secure_boot_var, &data, &len, &err) > 0 && len == ATTRIBUTES + 1)
		return data[ATTRIBUTES] == 1 ? SECURE_BOOT_ON : SECURE_BOOT_OFF;
	// Without efivars the firmware may still have it on; without EFI it cannot exist.
	if (!root_exists(kern, "sys/firmware/efi"))
		return SECURE_BOOT_OFF;
	auto_strv struct strv vars = { 0 };
	root_list(kern, "sys/firmware/efi/efivars", &vars, &err);
	return vars.count ? SECURE_BOOT_OFF : SECURE_BOOT_UNKNOWN;
}

static enum host_lockdown read_lockdown(const struct root *kern)
{
	auto_str char *text =
		read_text_line(kern, "sys/kernel/security/lockdown"); // "none [integrity] confidentiality"
	if (!text)
		return LOCKDOWN_UNKNOWN;
	return strstr(text, "[integrity]")       ? LOCKDOWN_INTEGRITY :
	       strstr(text, "[confidentiality]") ? LOCKDOWN_CONFIDENTIALITY :
						   LOCKDOWN_NONE;
}

static void read_signing(struct host *h, const struct root *kern)
{
	auto_str char *enforced = read_text_line(kern, "sys/module/module/parameters/sig_enforce");
	h->is_sig_enforced = str_eq(enforced, "Y") || str_eq(enforced, "1");
	h->secure_boot = read_secure_boot(kern);
	h->lockdown = read_lockdown(kern);
}

static bool is_compiler(const char *name)
{
	size_t len = strlen(name);
	while (len && (isdigit((unsigned char)name[len - 1]) || name[len - 1] == '.'))
		len--;
	auto_str char *base = str_ndup(name, len && name[len] && name[len - 1] == '-' ? len - 1 : strlen(name));
	return str_eq(base, "gcc") || str_eq(base, "clang") || str_ends(base, "-linux-gnu-gcc");
}

static void read_host_compilers(struct host *h, const struct root *host)
{
	struct err err;
	auto_strv struct strv names = { 0 };
	root_list(host, "usr/bin", &names, &err);
	for (size_t i = 0; i < names.count; i++)
		if (is_compiler(names.items[i]))
			strv_add(&h->compilers, str_dup(names.items[i]));
}

// Members of a list such as "0-3,8".
static unsigned cpu_list_size(const char *list)
{
	unsigned count = 0, first, last;
	for (const char *s = list; s && *s; s = strchr(s, ','), s = s ? s + 1 : NULL) {
		int fields = sscanf(s, "%u-%u", &first, &last);
		count += fields == 2 && last >= first ? last - first + 1 : fields == 1;
	}
	return count;
}

static unsigned count_processors(const struct root *kern)
{
	static const char key[] = "Cpus_allowed_list:";
	struct err err;
	unsigned count = 0;
	auto_str char *status = NULL;
	if (root_read(kern, "proc/self/status", &status, NULL, &err) > 0) {
		char *at = strstr(status, key);
		if (at)
			at[strcspn(at, "\n")] = '\0';
		count = at ? cpu_list_size(str_trim(at + strlen(key))) : 0;
	}
	if (count == 0) {
		auto_str char *online = read_text_line(kern, "sys/devices/system/cpu/online");
		count = cpu_list_size(online);
	}
	return count ? count : 1;
}

static uint64_t read_memory_total(const struct root *kern)
{
	struct err err;
	unsigned long long kib = 0;
	auto_str char *text = NULL;
	if (root_read(kern, "proc/meminfo", &text, NULL, &err) > 0 && sscanf(text, "MemTotal: %llu kB", &kib) != 1)
		kib = 0;
	return kib * 1024;
}

int host_read(const struct root *host, const struct root *kern, struct host *ret, struct err *err)
{
	auto_host struct host h = { 0 };
	if (require_line(kern, "proc/sys/kernel/osrelease", &h.release, err) < 0 ||
	    require_line(kern, "proc/version", &h.banner, err) < 0 ||
	    cgroup_limits(kern, &h.cpu_max_milli, &h.memory_max_bytes, err) < 0)
		return -1;
	digest_data(h.banner, strlen(h.banner), h.build_id);
	h.arch = read_arch(host, kern);
	h.boot_id = read_text_line(kern, "proc/sys/kernel/random/boot_id");
	h.taint = read_uint_file(kern, "proc/sys/kernel/tainted");
	read_distro(&h, host);
	read_signing(&h, kern);
	h.headers = host_headers(host, h.release);
	read_host_compilers(&h, host);
	h.nproc = count_processors(kern);
	h.memory_total_bytes = read_memory_total(kern);
	*ret = h;
	h = (struct host){ 0 };
	return 0;
}

void host_done(struct host *h)
{
	free(h->release);
	free(h->banner);
	free(h->arch);
	free(h->boot_id);
	free(h->distro_id);
	free(h->distro_version);
	free(h->headers);
	free(h->config);
	free(h->config_source);
	strv_done(&h->compilers);
	*h = (struct host){ 0 };
}

static int read_running_config(const struct root *kern, const char *release, char **ret, struct err *err)
{
	auto_str char *running = read_text_line(kern, "proc/sys/kernel/osrelease"), *packed = NULL;
	size_t len, text_len;
	if (!str_eq(running, release))
		return 0;
	int r = root_read(kern, "proc/config.gz", &packed, &len, err);
	if (r <= 0)
		return r;
	return archive_inflate(packed, len, CONFIG_MAX, ret, &text_len, err) < 0 ?
		       err_wrap(err, "read proc/config.gz") :
		       1;
}

int host_read_config(const struct root *host, const struct root *kern, const char *release, char **ret,
		     char **ret_source, struct err *err)
{
	static const char *const forms[] = { "boot/config-%s", "lib/modules/%s/config",
					     "lib/modules/%s/build/.config" };
	auto_str char *path = str_dup("proc/config.gz"), *text = NULL;
	int r = read_running_config(kern, release, &text, err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(forms); i++) {
		const char *mark = strstr(forms[i], "%s");
		free(path);
		path = str_fmt("%.*s%s%s", (int)(mark - forms[i]), forms[i], release, mark + 2);
		r = root_read(host, path, &text, NULL, err);
	}
	if (r <= 0)
		return r;
	*ret = TAKE(text);
	if (ret_source)
		*ret_source = TAKE(path);
	return 1;
}

int host_load_config(struct host *h, const struct root *host, const struct root *kern, struct err *err)
{
	return h->config ? 1 : host_read_config(host, kern, h->release, &h->config, &h->config_source, err);
}

char *host_config_value(const char *config, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = config; at && (at = strstr(at, name)); at += len) {
		if ((at != config && at[-1] != '\n') || at[len] != '=')
			continue;
		const char *value = at + len + 1;
		size_t end = strcspn(value, "\n");
		bool is_quoted = end >= 2 && *value == '"' && value[end - 1] == '"';
		return is_quoted ? str_ndup(value + 1, end - 2) : str_ndup(value, end);
	}
	return NULL;
}

char *host_config(const struct host *h, const char *name)
{
	return host_config_value(h->config, name);
}

char *host_headers(const struct root *host, const char *release)
{
	auto_strv struct strv trees = { 0 };
	strv_add(&trees, str_fmt("lib/modules/%s/build", release));
	strv_add(&trees, str_fmt("usr/src/linux-headers-%s", release));
	strv_add(&trees, str_fmt("usr/src/kernels/%s", release));
	for (size_t i = 0; i < trees.count; i++) {
		auto_str char *makefile = str_fmt("%s/Makefile", trees.items[i]);
		auto_str char *autoconf = str_fmt("%s/include/generated/autoconf.h", trees.items[i]);
		if (root_exists(host, makefile) && root_exists(host, autoconf))
			return TAKE(trees.items[i]);
	}
	return NULL;
}

const char *host_signing_reason(const struct host *h)
{
	if (h->is_sig_enforced)
		return "module.sig_enforce is on";
	if (h->lockdown == LOCKDOWN_INTEGRITY)
		return "lockdown is integrity";
	return h->lockdown == LOCKDOWN_CONFIDENTIALITY ? "lockdown is confidentiality" : NULL;
}

const char *host_secure_boot_name(enum host_secure_boot s)
{
	static const char *const names[] = { "unknown", "off", "on" };
	return names[s];
}

const char *host_lockdown_name(enum host_lockdown l)
{
	static const char *const names[] = { "unknown", "none", "integrity", "confidentiality" };
	return names[l];
}
