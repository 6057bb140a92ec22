// SPDX-License-Identifier: Apache-2.0
#include "devices/cdi_hook.h"

#include "base/formats/json.h"
#include "base/linker/ldcache.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>

static const char CONF_DIR[] = "etc/ld.so.conf.d", CONF[] = "etc/ld.so.conf.d/00-kmodsmith.conf";

// config.json of a bundle, whose root's path is absolute or below the bundle.
static int bundle_root(const struct root *machine, const char *bundle, char **ret, struct err *err)
{
	auto_str char *config = str_fmt("%s/config.json", bundle);
	auto_json json_t *json = NULL;
	int r = json_read(machine, config, &json, err);
	if (r < 0)
		return -1;
	const char *path = json_string_value(json_object_get(json_object_get(json, "root"), "path"));
	if (!path || !*path)
		return err_set(err, E_CONFIG, "'%s' %s", config, r ? "has no root" : "does not exist");
	*ret = *path == '/' ? str_dup(path) : str_fmt("%s/%s", bundle, path);
	return 0;
}

int cdi_hook_open(const struct root *machine, const char *state, size_t len, struct root *ret, struct err *err)
{
	json_error_t problem;
	auto_json json_t *json = json_loadb(state, len, JSON_REJECT_DUPLICATES, &problem);
	auto_str char *path = NULL;
	const char *bundle = json_string_value(json_object_get(json, "bundle"));
	if (!json)
		return err_set(err, E_CONFIG, "the state on standard input is not valid JSON: %s", problem.text);
	if (!bundle || *bundle != '/')
		return err_set(err, E_CONFIG, "the state on standard input has no absolute path of a bundle");
	if (bundle_root(machine, bundle, &path, err) < 0 || root_sub(machine, path, ret, err) < 0)
		return err_wrap(err, "find the container's root");
	return 0;
}

// 1 = make it, 0 = it exists already, or something else has its name.
static int is_link_due(const struct root *root, const char *path, const char *target, struct strv *ret_kept,
		       struct err *err)
{
	struct stat st;
	auto_str char *now = NULL;
	int r = root_stat(root, path, &st, err);
	if (r <= 0)
		return r < 0 ? -1 : 1;
	if (S_ISLNK(st.st_mode))
		return root_readlink(root, path, &now, err) < 0 ? -1 : !str_eq(now, target);
	if (S_ISREG(st.st_mode) && st.st_size == 0)
		return 1;
	strv_add(ret_kept, str_dup(path));
	return 0;
}

int cdi_hook_link(const struct root *root, const char *link, struct strv *ret_kept, struct err *err)
{
	const char *gap = strstr(link, "::"), *path = gap ? gap + 2 : "", *slash = strrchr(path, '/');
	auto_str char *target = gap ? str_ndup(link, (size_t)(gap - link)) : NULL;
	const char *name =
		target && str_starts(target, "../") ? target + 3 : target; // of its directory, or of the one above
	if (!name || !*name || strchr(name, '/') || *path != '/' || slash == path || !slash[1])
		return err_set(err, E_USAGE, "'%s' is not TARGET::PATH: a name, and an absolute path below a directory",
			       link);
	auto_str char *dir = str_ndup(path, (size_t)(slash - path));
	if (root_mkdirs(root, dir, 0755, err) < 0)
		return -1;
	int r = is_link_due(root, path, target, ret_kept, err);
	return r <= 0 ? r : root_symlink(root, target, path, err);
}

static bool read_branch(const char *version, uint64_t *ret)
{
	auto_str char *branch = str_ndup(version, strcspn(version, "."));
	return version[strlen(branch)] == '.' && str_u64(branch, 10, ret);
}

// One libcuda.so.MAJOR.MINOR: more than one tells nothing.
const char *cdi_hook_compat(const struct root *root, const char *driver)
{
	static const char dir[] = "/usr/local/cuda/compat", prefix[] = "libcuda.so.";
	enum { NAMES_MOST = 1000 };
	auto_strv struct strv names = { 0 };
	uint64_t branch, own;
	size_t found = 0, at = 0;
	struct err ignored;
	if (root_list_most(root, dir, NAMES_MOST, &names, &ignored) < 0)
		return NULL;
	for (size_t i = 0; i < names.count; i++) {
		if (!str_starts(names.items[i], prefix) || !strchr(names.items[i] + strlen(prefix), '.'))
			continue;
		at = i;
		found++;
	}
	bool is_later = found == 1 && read_branch(names.items[at] + strlen(prefix), &branch) &&
			read_branch(driver, &own) && branch > own;
	return is_later ? dir : NULL;
}

int cdi_hook_ldcache(const struct root *root, const struct strv *folders, struct err *err)
{
	auto_strv struct strv known = { 0 };
	auto_str char *text = NULL;
	if (!root_exists(root, "lib64/ld-linux-x86-64.so.2") && !root_exists(root, "lib/ld-linux-aarch64.so.1"))
		return 0;
	if (ldcache_conf_dirs(root, &known, err) < 0)
		return -1;
	for (size_t i = 0; i < folders->count; i++)
		if (!strv_has(&known, folders->items[i] + strspn(folders->items[i], "/")))
			str_add(&text, "%s\n", folders->items[i]);
	if (text &&
	    (root_mkdirs(root, CONF_DIR, 0755, err) < 0 || root_put(root, CONF, text, strlen(text), 0644, err) < 0))
		return -1;
	return ldcache_write(root, folders, err) < 0 ? -1 : 1;
}

static const char DRIVER_DIR[] = "proc/driver", NVIDIA[] = "nvidia", PARAMS[] = "proc/driver/nvidia/params";

// Returns params that tell NVIDIA's libraries not to create or correct device nodes; NULL = they say so already.
static char *fixed_params(const char *text)
{
	static const char allowed[] = "ModifyDeviceFiles: 1\n";
	const char *found = strstr(text, allowed);
	while (found && found != text && found[-1] != '\n')
		found = strstr(found + 1, allowed);
	if (!found)
		return NULL;
	return str_fmt("%.*sModifyDeviceFiles: 0\n%s", (int)(found - text), text, found + strlen(allowed));
}

// For a moment a tmpfs covers the directory, to hold the file that is mounted over the one below; procfs takes no new
// files, and nothing of the image is used for it.
static int cover_params(const struct root *root, const struct sys *sys, int at, const char *text, struct err *err)
{
	auto_fd int dir = root_open(root, DRIVER_DIR, O_PATH | O_DIRECTORY, err);
	auto_fd int covered = dir < 0 ? -1 : openat(dir, NVIDIA, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (covered < 0 || sys->mount_tmpfs(sys, covered, "kmodsmith", "size=64k,mode=0755") < 0)
		return dir < 0 ? -1 : err_set(err, errno, "mount a tmpfs at '%s/nvidia'", DRIVER_DIR);
	int r = root_put(root, PARAMS, text, strlen(text), 0444, err);
	auto_fd int from = r < 0 ? -1 : root_open(root, PARAMS, O_PATH, err);
	if (from >= 0 && sys->mount_bind(sys, from, at, false) < 0)
		r = err_set(err, errno, "mount over '%s'", PARAMS);
	if (sys->mount_detach(sys, dir, NVIDIA) < 0 && r == 0)
		r = err_set(err, errno, "unmount '%s/nvidia'", DRIVER_DIR);
	return from < 0 || r < 0 ? -1 : 0;
}

static bool is_same_directory(const struct root *a, const struct root *b)
{
	struct stat x, y;
	return fstat(a->fd, &x) == 0 && fstat(b->fd, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int cdi_hook_fix_nodes(const struct root *machine, const struct root *root, const struct sys *sys, struct err *err)
{
	auto_str char *text = NULL;
	int r = root_read(machine, PARAMS, &text, NULL, err);
	auto_str char *fixed = r > 0 ? fixed_params(text) : NULL;
	if (r < 0 || !fixed || !root_exists(root, PARAMS) || is_same_directory(machine, root))
		return r < 0 ? -1 : 0;
	auto_fd int at = root_open(root, PARAMS, O_PATH, err);
	if (at < 0 || cover_params(root, sys, at, fixed, err) < 0)
		return -1;
	auto_fd int now = root_open(root, PARAMS, O_PATH, err);
	if (now < 0)
		return -1;
	return sys->mount_read_only(sys, now) < 0 ? err_set(err, errno, "make '%s' read-only", PARAMS) : 1;
}

int cdi_hook_own_gpus(const struct root *root, struct err *err)
{
	static const char dir[] = "etc/nvidia/nvidia-application-profiles-rc.d";
	enum { NAMES_MOST = 10000, MASK_BITS = 64 };
	auto_strv struct strv names = { 0 };
	uint64_t mask = 0, number;
	if (root_list_most(root, "dev", NAMES_MOST, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		struct stat st;
		auto_str char *node = str_fmt("dev/%s", names.items[i]);
		if (str_starts(names.items[i], NVIDIA) && str_u64(names.items[i] + strlen(NVIDIA), 10, &number) &&
		    root_stat(root, node, &st, err) > 0 && S_ISCHR(st.st_mode) && minor(st.st_rdev) < MASK_BITS)
			mask |= 1ULL << minor(st.st_rdev);
	}
	if (!mask)
		return 0;
	auto_str char *file = str_fmt("%s/10-container.conf", dir);
	auto_str char *text = str_fmt(
		"{\"profiles\": [{\"name\": \"_container_\", \"settings\": [\"EGLVisibleDGPUDevices\", 0x%llx]}],\n"
		" \"rules\": [{\"pattern\": [], \"profile\": \"_container_\"}]}\n",
		(unsigned long long)mask);
	return root_mkdirs(root, dir, 0755, err) < 0 || root_put(root, file, text, strlen(text), 0444, err) < 0 ? -1 :
														  1;
}
