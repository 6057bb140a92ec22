// SPDX-License-Identifier: Apache-2.0
#include "precompiled/payload/install_path.h"

#include <fnmatch.h>

// The directories that the usr merge moved below usr.
static const char *const merged[] = { "bin/", "sbin/", "lib/", "lib32/", "lib64/", "libx32/" };

char *install_path_usr_merged(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(merged); i++)
		if (str_starts(path, merged[i]))
			return str_fmt("usr/%s", path);
	return str_dup(path);
}

static bool is_unneeded(const char *path)
{
	// The licence must accompany the files.
	static const char *const unneeded[] = {
		"usr/share/man/*",     "usr/share/bug/*",  "usr/share/lintian/*", "usr/share/applications/*",
		"usr/share/icons/*",   "usr/share/info/*", "etc/alternatives/*",  "etc/init.d/*",
		"usr/lib/systemd/*",   "usr/share/doc/*",  "var/lib/dpkg/*",      "var/lib/rpm/*",
		"usr/lib/.build-id/*", "etc/ld.so.cache",  "usr/share/pixmaps/*", "usr/share/polkit-1/*",
	};
	if (fnmatch("usr/share/doc/*/copyright", path, 0) == 0 || fnmatch("usr/share/doc/*/LICENSE*", path, 0) == 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(unneeded); i++)
		if (fnmatch(unneeded[i], path, 0) == 0)
			return true;
	return false;
}

// Debian installs several drivers side by side and selects one with update-alternatives when a package is configured. A
// payload has one driver, at the place of those links (see the postinst of nvidia-alternative).
static const char *below_variant(const char *rest)
{
	static const char *const variants[] = { "current", "tesla", "legacy" };
	const char *slash = strchr(rest, '/');
	for (size_t i = 0; slash && i < ARRAY_SIZE(variants); i++)
		if (str_starts(rest, variants[i]))
			return slash + 1;
	return NULL;
}

// What an X server loads, where NVIDIA's container toolkit and our specification look for it.
static char *xorg_path(const char *name)
{
	static const struct {
		const char *name, *dir;
	} files[] = { { "nvidia_drv.so", "usr/lib/xorg/modules/drivers" },
		      { "libglxserver_nvidia.so", "usr/lib/xorg/modules/extensions" },
		      { "nvidia-drm-outputclass.conf", "usr/share/X11/xorg.conf.d" } };
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (str_starts(name, files[i].name))
			return str_fmt("%s/%s", files[i].dir, name);
	return NULL;
}

static char *debian_path(const char *path)
{
	static const char LIB[] = "usr/lib/", OWN[] = "nvidia/", ETC[] = "etc/nvidia/";
	const char *setting = str_starts(path, ETC) ? below_variant(path + strlen(ETC)) : NULL;
	if (setting)
		return xorg_path(setting);
	if (!str_starts(path, LIB))
		return NULL;
	const char *rest = path + strlen(LIB), *slash = strchr(rest, '/');
	const char *program = str_starts(rest, OWN) ? below_variant(rest + strlen(OWN)) : NULL;
	if (program && (strstr(program, ".so") || str_ends(program, ".ids")))
		return xorg_path(program);
	if (program)
		return str_fmt("usr/bin/%s", program);
	const char *library = slash && str_starts(slash + 1, OWN) ? below_variant(slash + 1 + strlen(OWN)) : NULL;
	if (!library || str_eq(library, "nvoptix.bin"))
		return library ? str_dup("usr/share/nvidia/nvoptix.bin") : NULL;
	const char *dir = str_starts(library, "libvdpau_")     ? "vdpau/" :
			  str_eq(library, "nvidia-drm_gbm.so") ? "gbm/" :
								 "";
	return str_fmt("usr/lib/%.*s/%s%s", (int)(slash - rest), rest, dir, library);
}

// usr/src/nvidia-VERSION, nvidia-open-VERSION, nvidia-current-VERSION: for dkms, with one module type or both.
static char *dkms_source_path(const char *path, const char *driver)
{
	static const char SRC[] = "usr/src/nvidia";
	const char *slash = str_starts(path, SRC) ? strchr(path + strlen(SRC), '/') : NULL;
	auto_str char *dir = slash ? str_ndup(path, (size_t)(slash - path)) : NULL, *end = str_fmt("-%s", driver);
	if (!dir || !str_ends(dir, end))
		return NULL;
	if (str_starts(slash, "/kernel/") || str_starts(slash, "/kernel-open/"))
		return str_fmt("usr/src/nvidia-%s%s", driver, slash);
	return str_fmt("usr/src/nvidia-%s/kernel%s%s", driver, strstr(dir, "open") ? "-open" : "", slash);
}

char *install_path_of(const char *path, const char *driver)
{
	auto_str char *plain = install_path_usr_merged(path);
	char *debian = debian_path(plain), *tree = debian ? NULL : dkms_source_path(plain, driver);
	if (debian && str_starts(debian, "usr/bin/") && (str_ends(debian, ".gz") || str_ends(debian, ".desktop"))) {
		free(debian);
		return NULL;
	}
	return debian ? debian : tree ? tree : is_unneeded(plain) ? NULL : TAKE(plain);
}
