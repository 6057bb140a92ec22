// SPDX-License-Identifier: Apache-2.0
#include "host/kernel.h"

#include "base/archive/archive.h"
#include "kmod/build/jobs.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/utsname.h>

enum { CONFIG_MAX = 16 << 20 };

static const char secure_boot_var[] =
	"sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"; // EFI_GLOBAL_VARIABLE, UEFI 3.3

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

static char *read_arch(const struct root *host, const struct root *kern)
{
	struct err err;
	Elf64_Ehdr head;
	struct utsname u;
	char *name = read_text_line(kern, "proc/sys/kernel/arch");
	if (name)
		return name;
	auto_fd int fd = root_open(host, "bin/sh", O_RDONLY, &err);
	if (fd >= 0 && read(fd, &head, sizeof(head)) == sizeof(head) && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
	    (head.e_machine == EM_X86_64 || head.e_machine == EM_AARCH64))
		return str_dup(head.e_machine == EM_X86_64 ? "x86_64" : "aarch64");
	return uname(&u) < 0 ? NULL : str_dup(u.machine);
}

char *host_os_release(const struct root *host, const char *key)
{
	static const char *const paths[] = { "etc/os-release", "usr/lib/os-release" };
	struct err err;
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(paths) && !text; i++)
		root_read(host, paths[i], &text, NULL, &err);
	strv_split(&lines, text ? text : "", "\n");
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

static bool is_compiler(const char *name)
{
	size_t len = strlen(name);
	while (len && (isdigit((unsigned char)name[len - 1]) || name[len - 1] == '.'))
		len--;
	auto_str char *base = str_ndup(name, len && name[len] && name[len - 1] == '-' ? len - 1 : strlen(name));
	return str_eq(base, "gcc") || str_eq(base, "clang") || str_ends(base, "-linux-gnu-gcc");
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

static char *find_headers(const struct root *host, const char *release)
{
	static const char *const before[] = { "lib/modules/", "usr/src/linux-headers-", "usr/src/kernels/" };
	for (size_t i = 0; i < ARRAY_SIZE(before); i++) {
		auto_str char *tree = str_fmt("%s%s%s", before[i], release, i == 0 ? "/build" : "");
		auto_str char *makefile = str_fmt("%s/Makefile", tree);
		auto_str char *autoconf = str_fmt("%s/include/generated/autoconf.h", tree);
		if (root_exists(host, makefile) && root_exists(host, autoconf))
			return TAKE(tree);
	}
	return NULL;
}

int host_read_release(const struct root *kern, char **ret, struct err *err)
{
	return require_line(kern, "proc/sys/kernel/osrelease", ret, err);
}

int host_read(const struct root *host, const struct root *kern, struct host *ret, struct err *err)
{
	auto_host struct host h = { 0 };
	struct jobs_facts limits = { 0 };
	struct err ignored;
	unsigned long long kib;
	if (host_read_release(kern, &h.release, err) < 0 || require_line(kern, "proc/version", &h.banner, err) < 0 ||
	    jobs_limits(kern, &limits, err) < 0)
		return -1;
	h.cpu_max_milli = limits.cpu_period_us ? (unsigned)(limits.cpu_quota_us * 1000 / limits.cpu_period_us) : 0;
	h.memory_max_bytes = limits.memory_max_bytes;
	digest_data(h.banner, strlen(h.banner), h.build_id);
	h.arch = read_arch(host, kern);
	h.boot_id = read_text_line(kern, "proc/sys/kernel/random/boot_id");
	auto_str char *taint = read_text_line(kern, "proc/sys/kernel/tainted");
	str_u64(taint, 10, &h.taint);
	h.distro_id = host_os_release(host, "ID");
	h.distro_version = host_os_release(host, "VERSION_ID");
	auto_str char *enforced = read_text_line(kern, "sys/module/module/parameters/sig_enforce");
	h.is_sig_enforced = str_eq(enforced, "Y") || str_eq(enforced, "1");
	h.secure_boot = read_secure_boot(kern);
	h.lockdown = read_lockdown(kern);
	h.headers = find_headers(host, h.release);
	auto_strv struct strv programs = { 0 };
	root_list(host, "usr/bin", &programs, &ignored);
	for (size_t i = 0; i < programs.count; i++)
		if (is_compiler(programs.items[i]))
			strv_add(&h.compilers, str_dup(programs.items[i]));
	h.nproc = count_processors(kern);
	auto_str char *meminfo = NULL;
	if (root_read(kern, "proc/meminfo", &meminfo, NULL, &ignored) > 0 &&
	    sscanf(meminfo, "MemTotal: %llu kB", &kib) == 1)
		h.memory_total_bytes = kib * 1024;
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

int host_read_config(const struct root *host, const struct root *kern, const char *release, char **ret,
		     char **ret_source, struct err *err)
{
	static const char *const forms[] = { "boot/config-%s", "lib/modules/%s/config",
					     "lib/modules/%s/build/.config" };
	auto_str char *running = read_text_line(kern, "proc/sys/kernel/osrelease"), *packed = NULL, *text = NULL;
	auto_str char *path = str_dup("proc/config.gz");
	size_t len, text_len;
	int r = str_eq(running, release) ? root_read(kern, path, &packed, &len, err) : 0;
	if (r > 0 && archive_inflate(packed, len, CONFIG_MAX, &text, &text_len, err) < 0)
		return err_wrap(err, "read proc/config.gz");
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

char *host_config(const char *config, const char *name)
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
