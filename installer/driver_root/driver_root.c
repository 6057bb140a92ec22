// SPDX-License-Identifier: Apache-2.0
#include "driver_root/driver_root.h"

#include "base/file/file.h"
#include "driver_root/generation.h"
#include "driver_root/root_record.h"
#include "driver_root/selinux.h"
#include "driver_root/source_tree.h"

#include <errno.h>
#include <fcntl.h>

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
	return mount_ns_open(e->host, e->kern, e->sys, &w->mount_ns, err) < 0 ||
			       root_sub(e->host, e->parent, &w->parent, err) < 0 ?
		       -1 :
		       0;
}

static char *state_tree_path(const char *kind, const char *hex)
{
	return str_fmt("%s/%s", kind, hex);
}

static int open_payload(struct driver_root *e, const struct driver_root_request *request, struct work *w,
			struct err *err)
{
	auto_str char *path = state_tree_path(DRIVER_ROOT_PAYLOADS, request->payload);
	if (root_sub(e->state, path, &w->payload, err) < 0)
		return -1;
	*e->sources = '\0';
	if (source_tree_exists(&w->payload, request->driver))
		source_tree_key(request->payload, request->release, request->flavour, e->sources);
	return 0;
}

static int open_sources(const struct driver_root *e, struct work *w, struct err *err)
{
	auto_str char *path = state_tree_path(DRIVER_ROOT_SOURCES, e->sources);
	return !*e->sources ? 0 : root_sub(e->state, path, &w->sources, err);
}

static int make_sources(const struct driver_root *e, const struct driver_root_request *request, const struct work *w,
			struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	if (!*e->sources)
		return 0;
	return root_mkdirs(e->state, DRIVER_ROOT_SOURCES, 0755, err) < 0 ||
			       root_sub(e->state, DRIVER_ROOT_SOURCES, &store, err) < 0 ||
			       source_tree_make(&w->payload, request->driver, request->flavour, &store, e->sources,
						err) < 0 ?
		       -1 :
		       0;
}

static int work_layout(const struct driver_root *e, const struct driver_root_request *request, struct work *w,
		       struct err *err)
{
	auto_str char *modules = request->modules ? state_tree_path(DRIVER_ROOT_MODULES, request->modules) : NULL;
	if ((modules && root_sub(e->state, modules, &w->modules, err) < 0) || open_sources(e, w, err) < 0)
		return -1;
	struct root_content content = { .payload = &w->payload,
					.host = e->host,
					.modules = modules ? &w->modules : NULL,
					.sources = *e->sources ? &w->sources : NULL,
					.release = request->release,
					.driver = request->driver };
	return root_layout_read(&content, &w->root_layout, err);
}

static struct overmount root_overmount(const struct driver_root *e, const struct work *w)
{
	return (struct overmount){
		.mount_ns = &w->mount_ns, .parent = &w->parent, .name = e->base, .source = GENERATION_SOURCE
	};
}

// A start was killed before the one beneath was taken away.
static int is_root_settled(const struct driver_root *e, const struct work *w, char **ret_why, struct err *err)
{
	const struct overmount overmount = root_overmount(e, w);
	auto_mountinfo struct mountinfo now = { 0 };
	if (mount_ns_mounts(&w->mount_ns, &now, err) < 0)
		return -1;
	if (!overmount_is_settled(&overmount, &now))
		*ret_why = str_dup("an earlier one is still mounted beneath it");
	return !*ret_why;
}

// When everything is in place, a start does no more than this.
int driver_root_check(struct driver_root *e, const struct driver_root_request *request, char **ret_why, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	auto_str char *payload = state_tree_path(DRIVER_ROOT_PAYLOADS, request->payload);
	auto_str char *modules = request->modules ? state_tree_path(DRIVER_ROOT_MODULES, request->modules) : NULL;
	if (!root_exists(e->host, e->parent))
		*ret_why = str_dup("there is none yet");
	else if (!root_exists(e->state, payload))
		*ret_why = str_fmt("payload %.12s is not unpacked yet", request->payload);
	else if (modules && !root_exists(e->state, modules))
		*ret_why = str_dup("it lacks these modules");
	if (*ret_why)
		return 0;
	if (work_open(e, &w, err) < 0 || open_payload(e, request, &w, err) < 0)
		return -1;
	auto_str char *sources = *e->sources ? state_tree_path(DRIVER_ROOT_SOURCES, e->sources) : NULL;
	if (sources && !root_exists(e->state, sources)) {
		*ret_why = str_dup("it lacks the sources for this kernel");
		return 0;
	}
	if (work_layout(e, request, &w, err) < 0)
		return -1;
	int r = generation_check(&w.mount_ns, &w.parent, e->base, &w.root_layout, ret_why, err);
	return r > 0 ? is_root_settled(e, &w, ret_why, err) : r;
}

static int write_root_record(const struct driver_root *e, const struct driver_root_request *request,
			     const struct root_layout *layout, struct err *err)
{
	auto_root_record struct root_record x = { .dir = str_dup(e->dir),
						  .driver = str_dup(request->driver),
						  .payload = str_dup(request->payload),
						  .modules = str_dup(request->modules),
						  .sources = *e->sources ? str_dup(e->sources) : NULL,
						  .generation = e->number };
	return root_record_write(e->host, e->boot, &x, layout, err);
}

int driver_root_confirm(struct driver_root *e, const struct driver_root_request *request, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	auto_root_record struct root_record now = { 0 };
	int r = root_record_read(e->host, e->boot, &now, err);
	if (r < 0)
		return -1;
	if (r > 0 && str_eq(now.dir, e->dir) && str_eq(now.payload, request->payload) &&
	    (!request->modules || str_eq(now.modules, request->modules)))
		return 0;
	return work_open(e, &w, err) < 0 || open_payload(e, request, &w, err) < 0 ||
			       work_layout(e, request, &w, err) < 0 ?
		       -1 :
		       write_root_record(e, request, &w.root_layout, err);
}

// One more than any existing number, so that no name is used twice.
static int choose_generation_name(struct driver_root *e, const struct work *w, struct err *err)
{
	auto_strv struct strv names = { 0 };
	e->number = root_record_generation(e->host) + 1;
	if (generation_list(&w->parent, e->base, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		unsigned number = generation_number(e->base, names.items[i]);
		e->number = number >= e->number ? number + 1 : e->number;
	}
	e->made = generation_name(e->base, e->number);
	return 0;
}

static int label_trees(const struct driver_root *e, const struct driver_root_request *request, const struct work *w,
		       struct err *err)
{
	const struct {
		const char *kind, *hex;
	} trees[] = { { DRIVER_ROOT_PAYLOADS, request->payload },
		      { DRIVER_ROOT_MODULES, request->modules },
		      { DRIVER_ROOT_SOURCES, e->sources } };
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
		auto_str char *path =
			trees[i].hex && *trees[i].hex ? state_tree_path(trees[i].kind, trees[i].hex) : NULL;
		if (path && selinux_label_tree(e->sys, e->state, path, err) < 0)
			return -1;
	}
	// Files made in the root itself inherit the label of its directory.
	return selinux_label(e->sys, &w->parent, e->made, err) < 0 ? -1 : selinux_label_nodes(e->sys, e->host, err);
}

// A root that some containers cannot read is better than none.
static void label_if_enabled(const struct driver_root *e, const struct driver_root_request *request,
			     const struct work *w)
{
	struct err why = { 0 };
	int due = selinux_is_enabled(e->kern, &why);
	if (due < 0 || (due > 0 && label_trees(e, request, w, &why) < 0))
		progress_note(e->progress, "SELinux may keep containers from reading the driver root: %s", why.text);
}

int driver_root_prepare(struct driver_root *e, const struct driver_root_request *request, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (e->made)
		return 0;
	if (e->sys->record)
		return err_set(err, EOPNOTSUPP, "a recorded machine has no mounts, so nothing is exported");
	if (root_mkdirs(e->host, e->parent, 0755, err) < 0 || work_open(e, &w, err) < 0 ||
	    choose_generation_name(e, &w, err) < 0 || open_payload(e, request, &w, err) < 0 ||
	    root_layout_prepare(&w.payload, e->host, request->release, err) < 0 ||
	    make_sources(e, request, &w, err) < 0 || work_layout(e, request, &w, err) < 0 ||
	    generation_begin(&w.mount_ns, &w.parent, e->made, err) < 0)
		return -1;
	label_if_enabled(e, request, &w);
	return generation_make(&w.mount_ns, &w.parent, e->made, &w.root_layout, err);
}

// A path is ours if it leads into the export, or into a generation beside it.
bool driver_root_is_firmware_path(const struct driver_root *e, const char *path)
{
	auto_str char *now = str_fmt("/%s/%s", e->dir, FIRMWARE), *next = str_fmt("/%s/.%s.", e->parent, e->base);
	auto_str char *former = e->former ? str_fmt("/%s/%s", e->former, FIRMWARE) : NULL;
	return str_eq(path, now) || str_eq(path, former) || (str_starts(path, next) && str_ends(path, FIRMWARE));
}

// An empty value cannot be written; the kernel treats an empty line as one.
int driver_root_unset_firmware_path(const struct driver_root *e, struct err *err)
{
	return e->sys->attribute_set(e->sys, e->kern, SETTING, "\n") < 0 ? file_fail("set", SETTING, err) : 0;
}

// The kernel shows its path, and it is unset or ours.
static bool is_firmware_path_free(const struct driver_root *e, const struct firmware_path *search)
{
	return search->path && (!*search->path || driver_root_is_firmware_path(e, search->path));
}

static char *payload_firmware(const char *payload, const char *name)
{
	return str_fmt(DRIVER_ROOT_PAYLOADS "/%s/%s/%s", payload, FIRMWARE, name);
}

bool driver_root_has_firmware(const struct driver_root *e, const char *payload, const struct firmware_path *search,
			      const struct strv *names)
{
	for (size_t i = 0; i < names->count; i++) {
		auto_str char *path = payload_firmware(payload, names->items[i]);
		if (!*payload || !root_exists(e->state, path))
			return false;
	}
	return is_firmware_path_free(e, search);
}

static int set_firmware_path(struct driver_root *e, const struct firmware_path *search, const char *path,
			     struct err *err)
{
	if (str_eq(search->path, path))
		return 0;
	if (e->sys->attribute_set(e->sys, e->kern, SETTING, path) < 0)
		return file_fail("set", SETTING, err);
	if (!e->fwpath_before)
		e->fwpath_before = str_dup(search->path);
	return 0;
}

// 1 = the payload has firmware that the kernel finds nowhere else, or only by a path of ours that may be an old one.
static int needs_firmware_path(const struct driver_root *e, const struct driver_root_request *request,
			       const struct firmware_path *search, struct err *err)
{
	auto_str char *version = str_fmt("nvidia/%s", request->driver),
		      *dir = payload_firmware(request->payload, version);
	auto_strv struct strv names = { 0 };
	bool is_missing = false;
	if (root_list(e->state, dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *name = str_fmt("%s/%s", version, names.items[i]);
		auto_str char *found = firmware_path_find(e->host, search, name);
		is_missing = is_missing || !found;
	}
	return names.count && (is_missing || (search->path && driver_root_is_firmware_path(e, search->path)));
}

int driver_root_set_firmware_path(struct driver_root *e, const struct driver_root_request *request, struct err *err)
{
	auto_firmware_path struct firmware_path search = { 0 };
	if (firmware_path(e->host, e->kern, request->release, &search, err) < 0)
		return -1;
	int r = needs_firmware_path(e, request, &search, err);
	if (r <= 0)
		return r;
	if (!is_firmware_path_free(e, &search)) {
		progress_note(e->progress, "the kernel's firmware path is '%s', not set by kmodsmith: it stays",
			      search.path ? search.path : "not visible");
		return 0;
	}
	auto_str char *path = str_fmt("/%s/%s/%s", e->parent, e->is_switched ? e->base : e->made, FIRMWARE);
	return set_firmware_path(e, &search, path, err);
}

static int mount_generation(struct driver_root *e, const struct work *w, struct err *err)
{
	const struct overmount overmount = root_overmount(e, w);
	if (overmount_push(&overmount, e->made, &e->below, err) < 0)
		return -1;
	e->is_over = e->below >= 0;
	e->is_switched = true;
	return 0;
}

int driver_root_switch(struct driver_root *e, const struct driver_root_request *request, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (work_open(e, &w, err) < 0 || open_payload(e, request, &w, err) < 0 ||
	    work_layout(e, request, &w, err) < 0 || root_record_text(e->host, &e->record_before, err) < 0 ||
	    mount_generation(e, &w, err) < 0)
		return -1;
	return write_root_record(e, request, &w.root_layout, err) < 0 ? -1 :
									driver_root_set_firmware_path(e, request, err);
}

static int unmount_generation(struct driver_root *e, const struct work *w, struct err *err)
{
	const struct overmount overmount = root_overmount(e, w);
	if (!e->is_switched)
		return 0;
	return overmount_pop(&overmount, err) < 0 ? -1 : root_record_restore(e->host, e->record_before, err);
}

int driver_root_rollback(struct driver_root *e, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (!e->made)
		return 0;
	if (work_open(e, &w, err) < 0 || unmount_generation(e, &w, err) < 0)
		return -1;
	e->is_switched = false;
	if (e->fwpath_before && !*e->fwpath_before && driver_root_unset_firmware_path(e, err) < 0)
		return -1;
	if (e->fwpath_before && *e->fwpath_before &&
	    e->sys->attribute_set(e->sys, e->kern, SETTING, e->fwpath_before) < 0)
		return file_fail("set", SETTING, err);
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
	if (work_open(e, &w, err) < 0)
		return -1;
	const struct overmount overmount = root_overmount(e, &w);
	if (overmount_remove_lower(&overmount, e->below, err) < 0)
		return -1;
	close_fdp(&e->below);
	e->is_over = false;
	return 0;
}
