// SPDX-License-Identifier: Apache-2.0
// What belongs together is told by names alone: NVIDIA puts the version into the name of each library that only works
// with the modules of the same one. Libraries with a version of their own (libnvidia-egl-wayland.so.1.1.13) ship beside
// them; a driver version differs from theirs in a first number of three digits.
#include "precompiled/payload.h"

#include "base/archive.h"

#include <ctype.h>

static size_t digits(const char *p)
{
	size_t n = 0;
	while (isdigit((unsigned char)p[n]))
		n++;
	return n;
}

// How long the version at p is: 535.261.03, 560.35; 0 = there is none.
static size_t version_len(const char *p)
{
	size_t major = digits(p), len = major;
	if (major < 3 || p[major] != '.' || !digits(p + major + 1))
		return 0;
	while (p[len] == '.' && digits(p + len + 1))
		len += 1 + digits(p + len + 1);
	return len;
}

static const char *of_library(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *so = strstr(name, ".so.");
	bool is_ours = str_starts(name, "libcuda") || str_starts(name, "libnv") || strstr(name, "nvidia");
	return so && is_ours ? so + strlen(".so.") : NULL;
}

static const char *of_firmware(const char *path)
{
	static const char DIR[] = "lib/firmware/nvidia/";
	const char *at = strstr(path, DIR);
	return at ? at + strlen(DIR) : NULL;
}

char *payload_version(const char *path)
{
	const char *library = of_library(path), *firmware = of_firmware(path);
	size_t len = library ? version_len(library) : 0;
	if (len && !library[len])
		return str_ndup(library, len);
	len = firmware ? version_len(firmware) : 0;
	return len && (!firmware[len] || firmware[len] == '/') ? str_ndup(firmware, len) : NULL;
}

struct stray { // the first file of another version
	const char *driver;
	char *path, *version;
};

static void stray_done(struct stray *s)
{
	free(s->path);
	free(s->version);
}
#define auto_stray __attribute__((cleanup(stray_done)))

static bool look(void *ctx, const char *path)
{
	struct stray *s = ctx;
	auto_str char *version = payload_version(path);
	if (version && !s->path && !str_eq(version, s->driver)) {
		s->path = str_dup(path);
		s->version = TAKE(version);
	}
	return !s->path;
}

int payload_unpack(const struct strv *files, const char *driver, const struct root *into, struct err *err)
{
	auto_stray struct stray stray = { .driver = driver };
	if (archive_unpack_files(files, into, look, &stray, err) < 0)
		return -1;
	return stray.path ? err_set(err, E_USAGE, "the files have '%s' of driver %s, wanted is %s", stray.path,
				    stray.version, driver) :
			    0;
}
