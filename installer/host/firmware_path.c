// SPDX-License-Identifier: Apache-2.0
#include "host/firmware_path.h"

#include "base/process/attribute.h"
#include "host/kernel.h"

#include <fcntl.h>

static const char parameter[] = "sys/module/firmware_class/parameters/path";

void firmware_path_done(struct firmware_path *s)
{
	free(s->path);
	strv_done(&s->dirs);
	strv_done(&s->endings);
	*s = (struct firmware_path){ 0 };
}

static int read_search(const struct root *host, const struct root *kern, const char *release, struct firmware_path *s,
		       struct err *err)
{
	size_t len = 0;
	strv_add(&s->endings, str_dup(""));
	int r = root_read(kern, parameter, &s->path, &len, err);
	if (r < 0)
		return -1;
	if (r > 0) {
		// sysfs adds one newline; a second one came from `echo` and is part of the value.
		if (len && s->path[len - 1] == '\n')
			s->path[len - 1] = '\0';
		// An empty string cannot be written there, so this is an unset path.
		if (str_eq(s->path, "\n"))
			*s->path = '\0';
		s->is_path_writable = attribute_is_writable(host ? host : kern, kern, parameter);
	}
	// Before 6.5 the kernel treats a newline as part of the directory name.
	bool is_cut = str_version_cmp(release, "6.5") >= 0;
	if (s->path && *s->path)
		strv_add(&s->dirs, str_ndup(s->path, is_cut ? strcspn(s->path, "\n") : strlen(s->path)));
	strv_add(&s->dirs, str_fmt("lib/firmware/updates/%s", release));
	strv_add(&s->dirs, str_dup("lib/firmware/updates"));
	strv_add(&s->dirs, str_fmt("lib/firmware/%s", release));
	strv_add(&s->dirs, str_dup("lib/firmware"));
	// If the configuration cannot be read, assume that the kernel finds uncompressed files only.
	auto_str char *config = NULL;
	r = host ? host_read_config(host, kern, release, &config, NULL, err) : 0;
	if (r <= 0)
		return r;
	s->is_sure = true;
	// Since 5.19 each compression has its own option; before that, FW_LOADER_COMPRESS means xz.
	auto_str char *any = host_config(config, "CONFIG_FW_LOADER_COMPRESS");
	auto_str char *zstd = host_config(config, "CONFIG_FW_LOADER_COMPRESS_ZSTD");
	auto_str char *xz = host_config(config, "CONFIG_FW_LOADER_COMPRESS_XZ");
	if (str_eq(zstd, "y"))
		strv_add(&s->endings, str_dup(".zst"));
	if (str_eq(xz, "y") || (str_eq(any, "y") && str_version_cmp(release, "5.19") < 0))
		strv_add(&s->endings, str_dup(".xz"));
	return 0;
}

int firmware_path(const struct root *host, const struct root *kern, const char *release, struct firmware_path *ret,
		  struct err *err)
{
	auto_firmware_path struct firmware_path s = { 0 };
	if (read_search(host, kern, release, &s, err) < 0)
		return err_wrap(err, "read where the kernel looks for firmware");
	*ret = s;
	s = (struct firmware_path){ 0 };
	return 0;
}

// The first file of the name; unless is_any, the first one that the kernel accepts: regular, and not empty.
static char *find_file(const struct root *host, const struct firmware_path *s, const char *name, bool is_any,
		       struct stat *ret)
{
	for (size_t e = 0; e < s->endings.count; e++)
		for (size_t d = 0; d < s->dirs.count; d++) {
			struct err err;
			auto_str char *path = str_fmt("%s/%s%s", s->dirs.items[d], name, s->endings.items[e]);
			auto_fd int fd = root_open(host, path, O_PATH, &err);
			if (fd >= 0 && fstat(fd, ret) == 0 && (is_any || (S_ISREG(ret->st_mode) && ret->st_size > 0)))
				return TAKE(path);
		}
	return NULL;
}

char *firmware_path_find(const struct root *host, const struct firmware_path *s, const char *name)
{
	struct stat st;
	return find_file(host, s, name, false, &st);
}

char *firmware_path_unusable(const struct root *host, const struct firmware_path *s, const char *name)
{
	struct stat st;
	auto_str char *path = find_file(host, s, name, true, &st);
	return path ? str_fmt("'%s%s' is %s", *path == '/' ? "" : "/", path,
			      S_ISREG(st.st_mode) ? "empty" : "no regular file") :
		      NULL;
}

void firmware_path_versions(const struct root *host, const struct firmware_path *s, struct strv *ret)
{
	for (size_t d = 0; d < s->dirs.count; d++) {
		struct err err;
		auto_strv struct strv names = { 0 };
		auto_str char *dir = str_fmt("%s/nvidia", s->dirs.items[d]);
		root_list(host, dir, &names, &err);
		for (size_t i = 0; i < names.count; i++) // not linux-firmware's chip directories: "ga102"
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
