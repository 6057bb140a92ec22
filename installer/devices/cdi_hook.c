// SPDX-License-Identifier: Apache-2.0
#include "devices/cdi_hook.h"

#include "base/formats/json.h"
#include "base/linker/ldcache.h"

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
