// SPDX-License-Identifier: Apache-2.0
#include "host/firmware_path.h"

#include "host/kernel.h"

#include <fcntl.h>
#include <sys/statvfs.h>

static const char parameter[] = "sys/module/firmware_class/parameters/path";

void firmware_path_done(struct firmware_path *s)
{
	free(s->path);
	strv_done(&s->dirs);
	strv_done(&s->endings);
	*s = (struct firmware_path){ 0 };
}

// sysfs adds one newline; a second one came from `echo` and is part of the value.
static int read_parameter(const struct root *kern, struct firmware_path *s, struct err *err)
{
	struct statvfs fs;
	size_t len = 0;
	int r = root_read(kern, parameter, &s->path, &len, err);
	if (r <= 0)
		return r;
	if (len && s->path[len - 1] == '\n')
		s->path[len - 1] = '\0';
	// An empty string cannot be written there, so this is an unset path.
	if (str_eq(s->path, "\n"))
		*s->path = '\0';
	auto_fd int fd = root_open(kern, parameter, O_PATH, err);
	s->is_path_writable = fd >= 0 && fstatvfs(fd, &fs) == 0 && !(fs.f_flag & ST_RDONLY);
	return 0;
}

// Before 6.5 the kernel treats a newline as part of the directory name.
static void add_parameter_dirs(struct firmware_path *s, const char *release)
{
	bool is_cut = str_version_cmp(release, "6.5") >= 0;
	if (s->path && *s->path)
		strv_add(&s->dirs, str_ndup(s->path, is_cut ? strcspn(s->path, "\n") : strlen(s->path)));
}

// Since 5.19 each compression has its own option; before that, FW_LOADER_COMPRESS means xz. If the configuration
// cannot be read, assume that the kernel finds uncompressed files only.
static int read_endings(const struct root *host, const struct root *kern, const char *release, struct firmware_path *s,
			struct err *err)
{
	auto_str char *config = NULL, *any = NULL, *zstd = NULL, *xz = NULL;
	int r = host_read_config(host, kern, release, &config, NULL, err);
	if (r <= 0)
		return r;
	s->is_sure = true;
	any = host_config_value(config, "CONFIG_FW_LOADER_COMPRESS");
	zstd = host_config_value(config, "CONFIG_FW_LOADER_COMPRESS_ZSTD");
	xz = host_config_value(config, "CONFIG_FW_LOADER_COMPRESS_XZ");
	if (str_eq(zstd, "y"))
		strv_add(&s->endings, str_dup(".zst"));
	if (str_eq(xz, "y") || (str_eq(any, "y") && str_version_cmp(release, "5.19") < 0))
		strv_add(&s->endings, str_dup(".xz"));
	return 0;
}

int firmware_path_plain(const struct root *kern, const char *release, struct firmware_path *ret, struct err *err)
{
	auto_firmware_path struct firmware_path s = { 0 };
	strv_add(&s.endings, str_dup(""));
	if (read_parameter(kern, &s, err) < 0)
		return err_wrap(err, "read where the kernel looks for firmware");
	add_parameter_dirs(&s, release);
	strv_add(&s.dirs, str_fmt("lib/firmware/updates/%s", release));
	strv_add(&s.dirs, str_dup("lib/firmware/updates"));
	strv_add(&s.dirs, str_fmt("lib/firmware/%s", release));
	strv_add(&s.dirs, str_dup("lib/firmware"));
	*ret = s;
	s = (struct firmware_path){ 0 };
	return 0;
}

int firmware_path(const struct root *host, const struct root *kern, const char *release, struct firmware_path *ret,
		  struct err *err)
{
	if (firmware_path_plain(kern, release, ret, err) < 0)
		return -1;
	if (read_endings(host, kern, release, ret, err) < 0)
		return err_wrap(err, "read where the kernel looks for firmware");
	return 0;
}

// The kernel accepts only regular files that are not empty.
static bool is_firmware_file(const struct root *host, const char *path)
{
	struct err err;
	struct stat st;
	auto_fd int fd = root_open(host, path, O_PATH, &err);
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
}

char *firmware_path_find(const struct root *host, const struct firmware_path *s, const char *name)
{
	for (size_t e = 0; e < s->endings.count; e++)
		for (size_t d = 0; d < s->dirs.count; d++) {
			auto_str char *path = str_fmt("%s/%s%s", s->dirs.items[d], name, s->endings.items[e]);
			if (is_firmware_file(host, path))
				return TAKE(path);
		}
	return NULL;
}

void firmware_path_versions(const struct root *host, const struct firmware_path *s, struct strv *ret)
{
	for (size_t d = 0; d < s->dirs.count; d++) {
		struct err err;
		auto_strv struct strv names = { 0 };
		auto_str char *dir = str_fmt("%s/nvidia", s->dirs.items[d]);
		root_list(host, dir, &names, &err);
		for (size_t i = 0; i < names.count; i++) // linux-firmware has folders of chips beside: "ga102"
			if (strspn(names.items[i], "0123456789.") == strlen(names.items[i]) &&
			    !strv_has(ret, names.items[i]))
				strv_add(ret, str_dup(names.items[i]));
	}
}

char *firmware_path_text(const struct firmware_path *s)
{
	char *text = NULL;
	for (size_t d = 0; d < s->dirs.count; d++)
		str_add(&text, "%s%s%s", d ? ", " : "", *s->dirs.items[d] == '/' ? "" : "/", s->dirs.items[d]);
	if (!s->path)
		str_add(&text, "; the kernel has no path parameter");
	else
		str_add(&text, "; firmware_class.path is %s%s%s%s", *s->path ? "'" : "unset", s->path,
			*s->path ? "'" : "", s->is_path_writable ? "" : " and is read-only here");
	for (char *c = text; *c; c++) // a newline in the parameter
		*c = *c == '\n' ? '?' : *c;
	return text;
}
