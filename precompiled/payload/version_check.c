// SPDX-License-Identifier: Apache-2.0
// File names tell what belongs together: NVIDIA puts the driver version into the name of each library that only works
// with modules of that version. Libraries with a version of their own (libnvidia-egl-wayland.so.1.1.13) ship with them;
// only a driver version starts with a number of three digits.
#include "precompiled/payload/version_check.h"

#include "base/file/file.h"
#include "base/linker/soname.h"
#include "precompiled/payload/install_path.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

enum { VERSION_MAX = 24 };

// Programs that talk to the modules, or to each other, through interfaces of exactly one version. persistenced and
// modprobe only use interfaces that are stable within a branch, and distributions package them separately.
static const struct program {
	const char *name;
	bool is_exact; // else the same branch is enough
} programs[] = {
	{ "nv-fabricmanager", true },       { "nvidia-imex", true },
	{ "nvidia-imex-ctl", true },        { "nvidia-smi", true },
	{ "nvidia-debugdump", true },       { "nvidia-cuda-mps-control", true },
	{ "nvidia-cuda-mps-server", true }, { "nvidia-gridd", true },
	{ "nv-hostengine-nscq", true },     { "nvidia-persistenced", false },
	{ "nvidia-modprobe", false },
};

static const struct program *find_program(const char *place)
{
	const char *slash = strrchr(place, '/'), *name = slash ? slash + 1 : place;
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (str_eq(programs[i].name, name))
			return &programs[i];
	return NULL;
}

static size_t count_digits_to(const char *p, const char *end)
{
	size_t n = 0;
	while (p + n < end && isdigit((unsigned char)p[n]))
		n++;
	return n;
}

// The length of NNN.NN or NNN.NN.NN at p, if it is not part of a longer number; 0 = none.
static size_t version_at(const char *p, const char *end)
{
	size_t major = count_digits_to(p, end), len = major;
	if (major != 3 || p + len >= end || p[len] != '.')
		return 0;
	size_t minor = count_digits_to(p + len + 1, end);
	if (minor < 2 || minor > 3)
		return 0;
	len += 1 + minor;
	size_t patch = p + len < end && p[len] == '.' ? count_digits_to(p + len + 1, end) : 0;
	len += patch == 2 ? 1 + patch : 0;
	return p + len < end && (p[len] == '.' || isalnum((unsigned char)p[len])) ? 0 : len;
}

// True = the program contains no version, or one that fits; else ret is the first.
static bool scan_for_version(const char *data, size_t size, const struct program *p, const char *driver,
			     char ret[VERSION_MAX])
{
	const char *end = data + size;
	size_t wanted = p->is_exact ? strlen(driver) : strcspn(driver, ".") + 1;
	*ret = '\0';
	for (const char *at = data; at < end; at++) {
		bool is_start = isdigit((unsigned char)*at) &&
				(at == data || (at[-1] != '.' && !isalnum((unsigned char)at[-1])));
		size_t len = is_start ? version_at(at, end) : 0;
		if (!len || len >= VERSION_MAX)
			continue;
		if ((p->is_exact ? len == wanted : len >= wanted) && memcmp(driver, at, wanted) == 0)
			return true;
		if (!*ret)
			snprintf(ret, VERSION_MAX, "%.*s", (int)len, at);
	}
	return !*ret;
}

static int refuse_version(const char *place, const char *found, const char *driver, struct err *err)
{
	return err_set(err, E_USAGE, "'%s' is for driver %s, %s was requested", place, found, driver);
}

static int check_program(const struct version_check *b, int fd, const char *place, struct err *err)
{
	const struct program *p = find_program(place);
	const void *map = NULL;
	size_t len = 0;
	char found[VERSION_MAX];
	if (!p)
		return 0;
	if (file_map(fd, place, &map, &len, err) < 0)
		return -1;
	bool is_right = !map || scan_for_version(map, len, p, b->driver, found);
	file_unmap(map, len);
	return is_right ? 0 : refuse_version(place, found, b->driver, err);
}

static int check_library(const struct version_check *b, int fd, const char *place, struct err *err)
{
	static const struct {
		const char *arch;
		unsigned machine;
	} known[] = { { "x86_64", EM_X86_64 }, { "aarch64", EM_AARCH64 } };
	auto_str char *dir = str_fmt("usr/lib/%s-linux-gnu/", b->arch);
	auto_soname struct soname s = { 0 };
	int r = str_starts(place, dir) ? soname_read(fd, place, &s, err) : 0;
	for (size_t i = 0; r > 0 && i < ARRAY_SIZE(known); i++)
		if (str_eq(known[i].arch, b->arch) && s.machine != known[i].machine)
			return err_set(err, E_ARCH, "'%s' is not for architecture %s", place, b->arch);
	return r < 0 ? -1 : 0;
}

// The length of the version at p: 535.261.03, 560.35; 0 = none.
static size_t version_len(const char *p)
{
	const char *end = p + strlen(p);
	size_t len = count_digits_to(p, end);
	if (len < 3 || p[len] != '.' || !count_digits_to(p + len + 1, end))
		return 0;
	for (size_t n; p[len] == '.' && (n = count_digits_to(p + len + 1, end)) > 0;)
		len += 1 + n;
	return len;
}

char *payload_version(const char *path)
{
	static const char FIRMWARE[] = "lib/firmware/nvidia/", SO[] = ".so.";
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *so = strstr(name, SO);
	bool is_ours = str_starts(name, "libcuda") || str_starts(name, "libnv") || strstr(name, "nvidia");
	const char *library = so && is_ours ? so + strlen(SO) : NULL, *dir = strstr(path, FIRMWARE);
	const char *firmware = dir ? dir + strlen(FIRMWARE) : NULL;
	size_t len = library ? version_len(library) : 0;
	if (len && !library[len])
		return str_ndup(library, len);
	len = firmware ? version_len(firmware) : 0;
	return len && (!firmware[len] || firmware[len] == '/') ? str_ndup(firmware, len) : NULL;
}

int version_check_file(const struct version_check *b, const struct root *root, const char *path, const char *place,
		       struct err *err)
{
	auto_str char *version = payload_version(place);
	auto_fd int fd = root_open(root, path, O_RDONLY | O_NOFOLLOW, err);
	if (fd < 0)
		return -1;
	if (version && !str_eq(version, b->driver))
		return refuse_version(place, version, b->driver, err);
	return check_program(b, fd, place, err) < 0 ? -1 : check_library(b, fd, place, err);
}
