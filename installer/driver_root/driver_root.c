// SPDX-License-Identifier: Apache-2.0
#include "driver_root/driver_root.h"

#include "base/file/file.h"
#include "base/process/attribute.h"
#include "driver_root/generation.h"
#include "driver_root/root_record.h"
#include "driver_root/selinux.h"
#include "driver_root/source_tree.h"

#include <errno.h>
#include <fcntl.h>

#define PAYLOAD_FIRMWARE DRIVER_ROOT_PAYLOADS "/%s/" DRIVER_ROOT_FIRMWARE "/%s" // digest, file
static const char FIRMWARE[] = DRIVER_ROOT_FIRMWARE, SETTING[] = "sys/module/firmware_class/parameters/path";

int driver_root_open(struct driver_root *e, const char *dir, struct err *err)
{
	auto_strv struct strv parts = { 0 };
	strv_split(&parts, dir, "/");
	for (size_t i = 0; i < parts.count; i++)
		if (*parts.items[i] == '.')
			return err_set(err, E_USAGE, "--export '%s': no part of the path may begin with a dot", dir);
	if (*dir != '/' || parts.count < 2)
		return err_set(err, E_USAGE, "--export '%s' is not an absolute path with a parent directory", dir);
	e->dir = strv_join(&parts, "/");
	e->base = str_dup(parts.items[parts.count - 1]);
	e->parent = str_ndup(e->dir, strlen(e->dir) - strlen(e->base) - 1);
	return 0;
}

// What is only known between driver_root_prepare() and its end.
static void forget_prepared(struct driver_root *e)
{
	free(TAKE(e->made));
	free(TAKE(e->fwpath_before));
	free(TAKE(e->record_before));
	if (e->is_over)
		close_fdp(&e->below);
	e->is_over = false;
	e->is_switched = false;
}

void driver_root_done(struct driver_root *e)
{
	free(e->former);
	free(e->dir);
	free(e->parent);
	free(e->base);
	forget_prepared(e);
	*e = (struct driver_root){ 0 };
}

// What a change of mounts needs: the namespace, and the directory that holds the generations.
struct work {
	struct mount_ns mount_ns;
	struct root parent, payload, modules, sources;
	struct mount_point point;
	struct root_layout root_layout;
};
#define WORK_NONE                                  \
	((struct work){ .mount_ns = MOUNT_NS_NONE, \
			.parent = ROOT_NONE,       \
			.payload = ROOT_NONE,      \
			.modules = ROOT_NONE,      \
			.sources = ROOT_NONE })

static void work_done(struct work *w)
{
	root_layout_done(&w->root_layout);
	root_done(&w->sources);
	root_done(&w->modules);
	root_done(&w->payload);
	root_done(&w->parent);
	mount_ns_done(&w->mount_ns);
}
#define auto_work __attribute__((cleanup(work_done)))

static int work_open(const struct driver_root *e, struct work *w, struct err *err)
{
	w->point = (struct mount_point){ .mount_ns = &w->mount_ns, .parent = &w->parent, .name = e->base };
	return mount_ns_open(e->node, &w->mount_ns, err) < 0 ||
			       root_sub(e->node->host, e->parent, &w->parent, err) < 0 ?
		       -1 :
		       0;
}

static int open_payload(struct driver_root *e, const struct driver_root_request *request, struct work *w,
			struct err *err)
{
	auto_str char *path = str_fmt(DRIVER_ROOT_PAYLOADS "/%s", request->payload);
	auto_str char *sources = str_fmt(SOURCE_TREE_DIR, request->driver);
	if (root_sub(e->node->state, path, &w->payload, err) < 0)
		return -1;
	*e->sources = '\0';
	if (root_exists(&w->payload, sources))
		source_tree_key(request->payload, request->release, request->flavour, e->sources);
	return 0;
}

static int work_layout(const struct driver_root *e, const struct driver_root_request *request, struct work *w,
		       struct err *err)
{
	auto_str char *modules = request->modules ? str_fmt(DRIVER_ROOT_MODULES "/%s", request->modules) : NULL;
	auto_str char *sources = *e->sources ? str_fmt(DRIVER_ROOT_SOURCES "/%s", e->sources) : NULL;
	if ((modules && root_sub(e->node->state, modules, &w->modules, err) < 0) ||
	    (sources && root_sub(e->node->state, sources, &w->sources, err) < 0))
		return -1;
	struct root_content content = { .payload = &w->payload,
					.host = e->node->host,
					.modules = modules ? &w->modules : NULL,
					.sources = sources ? &w->sources : NULL,
					.release = request->release,
					.driver = request->driver };
	return root_layout_read(&content, &w->root_layout, err);
}

// The program for the hooks of containers (devices/cdi.h): that of this pod's image, if it has one. A payload of
// NVIDIA's files alone brings none, and another version's may be there. In the payload's tree, because it is exported
// read-only, and seen at once in a generation that is in place. A driver without it is better than none.
static void renew_program(const struct driver_root *e, const struct root *payload)
{
	auto_str char *own = NULL, *there = NULL;
	size_t len = 0, there_len = 0;
	struct err why;
	int r = root_read(e->node->kern, DRIVER_ROOT_PROGRAM, &own, &len, &why);
	if (r == 0 || (r > 0 && root_read(payload, DRIVER_ROOT_PROGRAM, &there, &there_len, &why) > 0 &&
		       len == there_len && memcmp(own, there, len) == 0))
		return;
	if (r < 0 || root_mkdirs(payload, "usr/libexec", 0755, &why) < 0 ||
	    root_write(payload, DRIVER_ROOT_PROGRAM, own, len, 0755, &why) < 0)
		progress_note(e->node->progress,
			      "the driver root does not get this program for the hooks of containers: %s", why.text);
}

// When everything is in place, a start does no more than this.
int driver_root_check(struct driver_root *e, const struct driver_root_request *request, char **ret_why, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	auto_str char *payload = str_fmt(DRIVER_ROOT_PAYLOADS "/%s", request->payload);
	auto_str char *modules = request->modules ? str_fmt(DRIVER_ROOT_MODULES "/%s", request->modules) : NULL;
	auto_mountinfo struct mountinfo now = { 0 };
	if (!root_exists(e->node->host, e->parent))
		*ret_why = str_dup("there is none yet");
	else if (!root_exists(e->node->state, payload))
		*ret_why = str_fmt("payload %.12s is not unpacked yet", request->payload);
	else if (modules && !root_exists(e->node->state, modules))
		*ret_why = str_dup("it lacks these modules");
	if (*ret_why)
		return 0;
	if (work_open(e, &w, err) < 0 || open_payload(e, request, &w, err) < 0)
		return -1;
	auto_str char *sources = *e->sources ? str_fmt(DRIVER_ROOT_SOURCES "/%s", e->sources) : NULL;
	if (sources && !root_exists(e->node->state, sources))
		*ret_why = str_dup("it lacks the sources for this kernel");
	if (*ret_why)
		return 0;
	if (work_layout(e, request, &w, err) < 0)
		return -1;
	int r = generation_check(&w.point, &w.root_layout, ret_why, err);
	if (r <= 0)
		return r;
	if (mount_ns_mounts(&w.mount_ns, &now, err) < 0)
		return -1;
	if (!generation_is_settled(&w.point, &now)) // a start was killed before the former one was removed from below
		*ret_why = str_dup("an earlier one is still mounted beneath it");
	return !*ret_why;
}

static int write_root_record(const struct driver_root *e, const struct driver_root_request *request,
			     const struct root_layout *layout, struct err *err)
{
	auto_root_record struct root_record x = { .dir = str_dup(e->dir),
						  .former = str_dup(e->former),
						  .driver = str_dup(request->driver),
						  .payload = str_dup(request->payload),
						  .modules = str_dup(request->modules),
						  .sources = *e->sources ? str_dup(e->sources) : NULL,
						  .generation = e->number };
	return root_record_write(e->node->host, e->node->boot, &x, layout, err);
}

int driver_root_confirm(struct driver_root *e, const struct driver_root_request *request, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	auto_root_record struct root_record now = { 0 };
	int r = root_record_read(e->node->host, e->node->boot, &now, err);
	if (r < 0 || open_payload(e, request, &w, err) < 0)
		return -1;
	renew_program(e, &w.payload);
	if (r > 0 && str_eq(now.dir, e->dir) && str_eq(now.payload, request->payload) &&
	    (!request->modules || str_eq(now.modules, request->modules)))
		return 0;
	return work_open(e, &w, err) < 0 || work_layout(e, request, &w, err) < 0 ?
		       -1 :
		       write_root_record(e, request, &w.root_layout, err);
}

// Names in parent of all generations, also of incomplete ones.
static int list_generations(const struct root *parent, const char *base, struct strv *ret, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(parent, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (generation_number(base, names.items[i]))
			strv_add(ret, str_dup(names.items[i]));
	return 0;
}

// One more than any existing number, so that no name is used twice.
static int choose_generation_name(struct driver_root *e, const struct work *w, struct err *err)
{
	auto_strv struct strv names = { 0 };
	e->number = root_record_generation(e->node->host) + 1;
	if (list_generations(&w->parent, e->base, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		unsigned number = generation_number(e->base, names.items[i]);
		e->number = number >= e->number ? number + 1 : e->number;
	}
	e->made = generation_name(e->base, e->number);
	return 0;
}

static int make_sources(const struct driver_root *e, const struct driver_root_request *request, const struct work *w,
			struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	if (!*e->sources)
		return 0;
	return root_mkdirs(e->node->state, DRIVER_ROOT_SOURCES, 0755, err) < 0 ||
			       root_sub(e->node->state, DRIVER_ROOT_SOURCES, &store, err) < 0 ||
			       source_tree_make(&w->payload, request->driver, request->flavour, &store, e->sources,
						err) < 0 ?
		       -1 :
		       0;
}

// If SELinux is enabled.
static int label_root(const struct driver_root *e, const struct driver_root_request *request, const struct work *w,
		      struct err *err)
{
	const struct {
		const char *kind, *hex;
	} trees[] = { { DRIVER_ROOT_PAYLOADS, request->payload },
		      { DRIVER_ROOT_MODULES, request->modules },
		      { DRIVER_ROOT_SOURCES, e->sources } };
	int due = selinux_is_enabled(e->node->kern, err);
	if (due <= 0)
		return due;
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
		auto_str char *path =
			trees[i].hex && *trees[i].hex ? str_fmt("%s/%s", trees[i].kind, trees[i].hex) : NULL;
		if (path && selinux_label_tree(e->node->sys, e->node->state, path, err) < 0)
			return -1;
	}
	// Still empty: files made in the root itself inherit the label of its directory.
	return selinux_label_tree(e->node->sys, &w->parent, e->made, err) < 0 ?
		       -1 :
		       selinux_label_nodes(e->node->sys, e->node->host, err);
}

int driver_root_prepare(struct driver_root *e, const struct driver_root_request *request, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (e->made)
		return 0;
	if (e->node->sys->record)
		return err_set(err, EOPNOTSUPP, "a recorded machine has no mounts, so nothing is exported");
	if (root_mkdirs(e->node->host, e->parent, 0755, err) < 0 || work_open(e, &w, err) < 0 ||
	    choose_generation_name(e, &w, err) < 0 || open_payload(e, request, &w, err) < 0 ||
	    root_layout_prepare(&w.payload, e->node->host, request->release, err) < 0 ||
	    make_sources(e, request, &w, err) < 0)
		return -1;
	renew_program(e, &w.payload);
	if (work_layout(e, request, &w, err) < 0 || generation_begin(&w.mount_ns, &w.parent, e->made, err) < 0)
		return -1;
	struct err why = { 0 }; // a root that some containers cannot read is better than none
	if (label_root(e, request, &w, &why) < 0)
		progress_note(e->node->progress, "SELinux may keep containers from reading the driver root: %s",
			      why.text);
	return generation_make(&w.mount_ns, &w.parent, e->made, &w.root_layout, err);
}

// A path is ours if it leads into the export, or into a generation beside it.
static bool is_own_firmware_path(const struct driver_root *e, const char *path)
{
	auto_str char *now = str_fmt("/%s/%s", e->dir, FIRMWARE), *next = str_fmt("/%s/.%s.", e->parent, e->base);
	auto_str char *former = e->former ? str_fmt("/%s/%s", e->former, FIRMWARE) : NULL;
	return str_eq(path, now) || str_eq(path, former) || (str_starts(path, next) && str_ends(path, FIRMWARE));
}

// An empty value cannot be written; the kernel treats an empty line as one.
static int write_firmware_path(const struct driver_root *e, const char *path, struct err *err)
{
	return attribute_set(e->node->sys, e->node->host, e->node->kern, SETTING, *path ? path : "\n", err);
}

// The kernel shows its path, and it is unset or ours.
static bool is_firmware_path_free(const struct driver_root *e, const struct firmware_path *search)
{
	return search->path && (!*search->path || is_own_firmware_path(e, search->path));
}

bool driver_root_has_firmware(const struct driver_root *e, const char *payload, const struct firmware_path *search,
			      const struct strv *names)
{
	for (size_t i = 0; i < names->count; i++) {
		auto_str char *path = str_fmt(PAYLOAD_FIRMWARE, payload, names->items[i]);
		if (!*payload || !root_exists(e->node->state, path))
			return false;
	}
	return is_firmware_path_free(e, search);
}

// 1 = the payload has firmware that the kernel finds nowhere else, or only by a path of ours that may be an old one.
static int needs_firmware_path(const struct driver_root *e, const struct driver_root_request *request,
			       const struct firmware_path *search, struct err *err)
{
	auto_str char *version = str_fmt("nvidia/%s", request->driver),
		      *dir = str_fmt(PAYLOAD_FIRMWARE, request->payload, version);
	auto_strv struct strv names = { 0 };
	bool is_missing = false;
	if (root_list(e->node->state, dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *name = str_fmt("%s/%s", version, names.items[i]);
		auto_str char *found = firmware_path_find(e->node->host, search, name);
		is_missing = is_missing || !found;
	}
	return names.count && (is_missing || (search->path && is_own_firmware_path(e, search->path)));
}

int driver_root_check_firmware_path(const struct driver_root *e, const struct driver_root_request *request,
				    struct err *err)
{
	auto_firmware_path struct firmware_path search = { 0 };
	if (firmware_path(e->node->host, e->node->kern, request->release, &search, err) < 0)
		return -1;
	int r = needs_firmware_path(e, request, &search, err);
	if (r <= 0 || !is_firmware_path_free(e, &search))
		return r < 0 ? -1 : 0;
	return attribute_check(e->node->host, e->node->kern, SETTING, err);
}

int driver_root_set_firmware_path(struct driver_root *e, const struct driver_root_request *request, struct err *err)
{
	auto_firmware_path struct firmware_path search = { 0 };
	if (firmware_path(e->node->host, e->node->kern, request->release, &search, err) < 0)
		return -1;
	int r = needs_firmware_path(e, request, &search, err);
	if (r <= 0)
		return r;
	if (!is_firmware_path_free(e, &search)) {
		progress_note(e->node->progress, "the kernel's firmware path is '%s', not set by kmodsmith: it stays",
			      search.path ? search.path : "not visible");
		return 0;
	}
	auto_str char *path = str_fmt("/%s/%s/%s", e->parent, e->is_switched ? e->base : e->made, FIRMWARE);
	if (str_eq(search.path, path))
		return 0;
	if (write_firmware_path(e, path, err) < 0)
		return -1;
	if (!e->fwpath_before)
		e->fwpath_before = str_dup(search.path);
	return 0;
}

int driver_root_switch(struct driver_root *e, const struct driver_root_request *request, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (work_open(e, &w, err) < 0 || open_payload(e, request, &w, err) < 0 ||
	    work_layout(e, request, &w, err) < 0 ||
	    root_read(e->node->host, ROOT_RECORD_FILE, &e->record_before, NULL, err) < 0 ||
	    generation_push(&w.point, e->made, &e->below, err) < 0)
		return -1;
	e->is_over = e->below >= 0;
	e->is_switched = true;
	return write_root_record(e, request, &w.root_layout, err) < 0 ? -1 :
									driver_root_set_firmware_path(e, request, err);
}

int driver_root_rollback(struct driver_root *e, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (!e->made)
		return 0;
	if (work_open(e, &w, err) < 0)
		return -1;
	if (e->is_switched &&
	    (generation_pop(&w.point, err) < 0 || root_record_restore(e->node->host, e->record_before, err) < 0))
		return -1;
	e->is_switched = false;
	if (e->fwpath_before && write_firmware_path(e, e->fwpath_before, err) < 0)
		return -1;
	if (generation_remove(&w.mount_ns, &w.parent, e->made, err) < 0)
		return -1;
	forget_prepared(e);
	return 0;
}

int driver_root_finish(struct driver_root *e, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (!e->is_over)
		return 0;
	if (work_open(e, &w, err) < 0 || generation_remove_lower(&w.point, e->below, err) < 0)
		return -1;
	close_fdp(&e->below);
	e->is_over = false;
	return 0;
}

struct collecting {
	const struct driver_root *e;
	struct work work;
	struct mount_users mount_users;
	bool has_mount_users; // looking at every process is expensive, and mostly there is nothing to remove
	size_t kept;
};

static void collecting_done(struct collecting *c)
{
	mount_users_done(&c->mount_users);
	work_done(&c->work);
}
#define auto_collecting __attribute__((cleanup(collecting_done)))

// 1 = in use, or unknown.
static int is_tree_used(struct collecting *c, const struct root *parent, const char *name, struct err *err)
{
	auto_mountinfo struct mountinfo now = { 0 };
	auto_fs_dir struct fs_dir fs_dir = { 0 };
	auto_str char *path = mount_ns_path(&c->work.mount_ns, parent->fd, name);
	if (!path)
		return 1;
	if (!c->has_mount_users && mount_users_read(c->e->node->kern, &c->mount_users, err) < 0)
		return -1;
	c->has_mount_users = true;
	if (c->mount_users.is_partial)
		return 1;
	if (mount_ns_mounts(&c->work.mount_ns, &now, err) < 0)
		return -1;
	mountinfo_locate(&now, path, &fs_dir);
	return mount_users_has(&c->mount_users, &fs_dir, path);
}

// After the generations, because each of them shows its trees.
static int collect_trees(struct collecting *c, const char *kind, const char *present, struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	if (!root_exists(c->e->node->state, kind))
		return 0;
	if (root_sub(c->e->node->state, kind, &store, err) < 0 || root_list(&store, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		if (!digest_is_hex(names.items[i]) || str_eq(names.items[i], present))
			continue;
		int used = is_tree_used(c, &store, names.items[i], err);
		if (used < 0 || (!used && root_rmtree(&store, names.items[i], err) < 0))
			return -1;
		c->kept += (size_t)used;
	}
	return 0;
}

int driver_root_gc(const struct driver_root *e, struct err *err)
{
	auto_collecting struct collecting c = { .e = e, .work = WORK_NONE };
	auto_root_record struct root_record now = { 0 };
	auto_strv struct strv names = { 0 };
	if (!root_exists(e->node->host, e->parent))
		return 1;
	if (root_record_read(e->node->host, e->node->boot, &now, err) < 0 || work_open(e, &c.work, err) < 0 ||
	    list_generations(&c.work.parent, e->base, &names, err) < 0)
		return -1;
	// Prepared generations: never put in place, or only as a copy. No other process has bound them.
	for (size_t i = 0; i < names.count; i++)
		if (generation_remove(&c.work.mount_ns, &c.work.parent, names.items[i], err) < 0)
			return -1;
	if (collect_trees(&c, DRIVER_ROOT_PAYLOADS, now.payload, err) < 0 ||
	    collect_trees(&c, DRIVER_ROOT_MODULES, now.modules, err) < 0 ||
	    collect_trees(&c, DRIVER_ROOT_SOURCES, now.sources, err) < 0)
		return -1;
	return !c.kept;
}

// A firmware file of the driver that the kernel finds only through this export. NULL = none.
static char *find_needed_firmware(const struct driver_root *e, const struct firmware_path *search, const char *driver)
{
	auto_str char *version = str_fmt("nvidia/%s", driver), *own = str_fmt("%s/", e->dir);
	auto_str char *dir = str_fmt("%s/" DRIVER_ROOT_FIRMWARE "/%s", e->dir, version);
	auto_strv struct strv names = { 0 }, dirs = { 0 };
	struct firmware_path others = *search;
	struct err ignored;
	for (size_t i = 0; i < search->dirs.count; i++) {
		const char *other = search->dirs.items[i];
		if (!str_starts(other + strspn(other, "/"), own))
			strv_add(&dirs, str_dup(other));
	}
	others.dirs = dirs;
	root_list(e->node->host, dir, &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *name = str_fmt("%s/%s", version, names.items[i]);
		auto_str char *found = firmware_path_find(e->node->host, &others, name);
		if (!found)
			return TAKE(name);
	}
	return NULL;
}

// 1 = the kernel's path leads here, and may be unset; 0 = it does not.
static int check_firmware_path(const struct driver_root *e, const char *release, const char *driver, struct err *err)
{
	auto_firmware_path struct firmware_path search = { 0 };
	if (firmware_path(e->node->host, e->node->kern, release, &search, err) < 0)
		return -1;
	if (!search.path || !*search.path || !is_own_firmware_path(e, search.path))
		return 0;
	auto_str char *needed = driver ? find_needed_firmware(e, &search, driver) : NULL;
	return needed ? err_set(err, E_FIRMWARE, "the loaded driver's firmware '%s' is only in the export /%s", needed,
				e->dir) :
			1;
}

// The directory stays: consumers and the kubelet may have bound it.
static int clear_driver_root(const struct driver_root *e, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (!root_exists(e->node->host, e->dir))
		return 0;
	return work_open(e, &w, err) < 0 || generation_clear(&w.point, false, err) < 0 ? -1 : 0;
}

// The record goes last: after a kill before that, the next start removes the rest.
int driver_root_withdraw(const struct driver_root *e, const char *release, const char *driver, bool is_last,
			 struct err *err)
{
	int has_path = is_last ? check_firmware_path(e, release, driver, err) : 0;
	if (has_path < 0)
		return -1;
	if (e->node->sys->record)
		return err_set(err, EOPNOTSUPP, "a recorded machine has no mounts, so nothing is withdrawn");
	if ((has_path > 0 && write_firmware_path(e, "", err) < 0) || clear_driver_root(e, err) < 0)
		return -1;
	int r = is_last ? root_record_restore(e->node->host, NULL, err) : root_record_drop_former(e->node->host, err);
	return r < 0 || driver_root_gc(e, err) < 0 ? -1 : 0;
}
