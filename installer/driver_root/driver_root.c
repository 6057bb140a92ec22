// SPDX-License-Identifier: Apache-2.0
#include "driver_root/driver_root.h"

#include "base/file/file.h"

#include "driver_root/generation.h"
#include "driver_root/mount_users.h"
#include "driver_root/root_record.h"
#include "driver_root/selinux.h"
#include "driver_root/source_tree.h"

#include <errno.h>
#include <fcntl.h>

static const char FIRMWARE[] = EXPORT_FIRMWARE, SETTING[] = "sys/module/firmware_class/parameters/path";

int export_open(struct export *e, const char *dir, struct err *err)
{
	auto_strv struct strv parts = { 0 };
	strv_split(&parts, dir, "/");
	for (size_t i = 0; i < parts.count; i++)
		if (*parts.items[i] == '.')
			return err_set(err, E_USAGE, "--export '%s': no part of the path may begin with a dot", dir);
	if (*dir != '/' || parts.count < 2)
		return err_set(err, E_USAGE, "--export '%s' is no absolute path with a directory above it", dir);
	e->dir = strv_join(&parts, "/");
	e->base = str_dup(parts.items[parts.count - 1]);
	e->parent = str_ndup(e->dir, strlen(e->dir) - strlen(e->base) - 1);
	return 0;
}

// What is only known between export_prepare() and its end.
static void forget(struct export *e)
{
	free(TAKE(e->made));
	free(TAKE(e->fwpath_before));
	free(TAKE(e->record_before));
	if (e->is_over)
		close_fdp(&e->below);
	e->is_over = false;
	e->is_switched = false;
}

void export_done(struct export *e)
{
	free(e->former);
	free(e->dir);
	free(e->parent);
	free(e->base);
	forget(e);
	*e = (struct export){ 0 };
}

// Whatever a change of mounts needs: the namespace, and the directory that holds the generations.
struct work {
	struct space space;
	struct root parent, payload, modules, sources;
	struct pieces pieces;
};
#define WORK_NONE                             \
	((struct work){ .space = SPACE_NONE,  \
			.parent = ROOT_NONE,  \
			.payload = ROOT_NONE, \
			.modules = ROOT_NONE, \
			.sources = ROOT_NONE })

static void work_done(struct work *w)
{
	pieces_done(&w->pieces);
	root_done(&w->sources);
	root_done(&w->modules);
	root_done(&w->payload);
	root_done(&w->parent);
	space_done(&w->space);
}
#define auto_work __attribute__((cleanup(work_done)))

static int work_open(const struct export *e, struct work *w, struct err *err)
{
	return space_open(e->host, e->kern, e->sys, &w->space, err) < 0 ||
			       root_sub(e->host, e->parent, &w->parent, err) < 0 ?
		       -1 :
		       0;
}

static char *tree_path(const char *kind, const char *hex)
{
	return str_fmt("%s/%s", kind, hex);
}

static int open_payload(struct export *e, const struct export_wish *wish, struct work *w, struct err *err)
{
	auto_str char *path = tree_path(EXPORT_PAYLOADS, wish->payload);
	if (root_sub(e->state, path, &w->payload, err) < 0)
		return -1;
	*e->sources = '\0';
	if (srctree_is_in(&w->payload, wish->driver))
		srctree_key(wish->payload, wish->release, wish->flavour, e->sources);
	return 0;
}

static int open_sources(const struct export *e, struct work *w, struct err *err)
{
	auto_str char *path = tree_path(EXPORT_SOURCES, e->sources);
	return !*e->sources ? 0 : root_sub(e->state, path, &w->sources, err);
}

static int make_sources(const struct export *e, const struct export_wish *wish, const struct work *w, struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	if (!*e->sources)
		return 0;
	return root_mkdirs(e->state, EXPORT_SOURCES, 0755, err) < 0 ||
			       root_sub(e->state, EXPORT_SOURCES, &store, err) < 0 ||
			       srctree_make(&w->payload, wish->driver, wish->flavour, &store, e->sources, err) < 0 ?
		       -1 :
		       0;
}

static int work_pieces(const struct export *e, const struct export_wish *wish, struct work *w, struct err *err)
{
	auto_str char *modules = wish->modules ? tree_path(EXPORT_MODULES, wish->modules) : NULL;
	if ((modules && root_sub(e->state, modules, &w->modules, err) < 0) || open_sources(e, w, err) < 0)
		return -1;
	struct content content = { .payload = &w->payload,
				   .host = e->host,
				   .modules = modules ? &w->modules : NULL,
				   .sources = *e->sources ? &w->sources : NULL,
				   .release = wish->release,
				   .driver = wish->driver };
	return pieces_list(&content, &w->pieces, err);
}

static struct stack stack_of(const struct export *e, const struct work *w)
{
	return (struct stack){ .space = &w->space, .parent = &w->parent, .name = e->base, .source = GENERATION_SOURCE };
}

// A start was killed before the one beneath was taken away.
static int is_settled(const struct export *e, const struct work *w, char **ret_why, struct err *err)
{
	const struct stack stack = stack_of(e, w);
	auto_mounts struct mounts now = { 0 };
	if (space_mounts(&w->space, &now, err) < 0)
		return -1;
	if (!stack_is_settled(&stack, &now))
		*ret_why = str_dup("an earlier one lies beneath it");
	return !*ret_why;
}

// Of a start that finds everything in place this is all that happens.
int export_look(struct export *e, const struct export_wish *wish, char **ret_why, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	auto_str char *payload = tree_path(EXPORT_PAYLOADS, wish->payload);
	auto_str char *modules = wish->modules ? tree_path(EXPORT_MODULES, wish->modules) : NULL;
	if (!root_exists(e->host, e->parent))
		*ret_why = str_dup("there is none yet");
	else if (!root_exists(e->state, payload))
		*ret_why = str_fmt("payload %.12s is not unpacked yet", wish->payload);
	else if (modules && !root_exists(e->state, modules))
		*ret_why = str_dup("it lacks these modules");
	if (*ret_why)
		return 0;
	if (work_open(e, &w, err) < 0 || open_payload(e, wish, &w, err) < 0)
		return -1;
	auto_str char *sources = *e->sources ? tree_path(EXPORT_SOURCES, e->sources) : NULL;
	if (sources && !root_exists(e->state, sources)) {
		*ret_why = str_dup("it lacks the sources for this kernel");
		return 0;
	}
	if (work_pieces(e, wish, &w, err) < 0)
		return -1;
	int r = generation_check(&w.space, &w.parent, e->base, &w.pieces, ret_why, err);
	return r > 0 ? is_settled(e, &w, ret_why, err) : r;
}

int export_confirm(struct export *e, const struct export_wish *wish, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	auto_exported struct exported now = { 0 };
	int r = exported_record(e->host, e->boot, &now, err);
	if (r < 0)
		return -1;
	if (r > 0 && str_eq(now.dir, e->dir) && str_eq(now.payload, wish->payload) &&
	    (!wish->modules || str_eq(now.modules, wish->modules)))
		return 0;
	return work_open(e, &w, err) < 0 || open_payload(e, wish, &w, err) < 0 || work_pieces(e, wish, &w, err) < 0 ?
		       -1 :
		       exported_write(e, wish, &w.pieces, err);
}

// One more than any that is there, so that no name is used for two at a time.
static int choose_name(struct export *e, const struct work *w, struct err *err)
{
	auto_strv struct strv names = { 0 };
	e->number = exported_number(e->host) + 1;
	if (generation_list(&w->parent, e->base, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		unsigned number = generation_number(e->base, names.items[i]);
		e->number = number >= e->number ? number + 1 : e->number;
	}
	e->made = generation_name(e->base, e->number);
	return 0;
}

static int label(const struct export *e, const struct export_wish *wish, const struct work *w, struct err *err)
{
	const struct {
		const char *kind, *hex;
	} trees[] = { { EXPORT_PAYLOADS, wish->payload },
		      { EXPORT_MODULES, wish->modules },
		      { EXPORT_SOURCES, e->sources } };
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
		auto_str char *path = trees[i].hex && *trees[i].hex ? tree_path(trees[i].kind, trees[i].hex) : NULL;
		if (path && label_tree(e->sys, e->state, path, err) < 0)
			return -1;
	}
	// What is made in the root itself is born with the label of its directory.
	return label_one(e->sys, &w->parent, e->made, err) < 0 ? -1 : label_nodes(e->sys, e->host, err);
}

// A root that some containers cannot read is better than none.
static void label_where_due(const struct export *e, const struct export_wish *wish, const struct work *w)
{
	struct err why = { 0 };
	int due = label_is_due(e->kern, &why);
	if (due < 0 || (due > 0 && label(e, wish, w, &why) < 0))
		watch_note(e->watch, "SELinux may keep containers from what is exported: %s", why.text);
}

int export_prepare(struct export *e, const struct export_wish *wish, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (e->made)
		return 0;
	if (e->sys->record)
		return err_set(err, EOPNOTSUPP, "a recorded machine has no mounts, so nothing is exported");
	if (root_mkdirs(e->host, e->parent, 0755, err) < 0 || work_open(e, &w, err) < 0 ||
	    choose_name(e, &w, err) < 0 || open_payload(e, wish, &w, err) < 0 ||
	    pieces_prepare(&w.payload, e->host, wish->release, err) < 0 || make_sources(e, wish, &w, err) < 0 ||
	    work_pieces(e, wish, &w, err) < 0 || generation_begin(&w.space, &w.parent, e->made, err) < 0)
		return -1;
	label_where_due(e, wish, &w);
	return generation_make(&w.space, &w.parent, e->made, &w.pieces, err);
}

// Ours is what leads into the place of the exports, or beside it.
bool export_is_path(const struct export *e, const char *path)
{
	auto_str char *now = str_fmt("/%s/%s", e->dir, FIRMWARE), *next = str_fmt("/%s/.%s.", e->parent, e->base);
	auto_str char *former = e->former ? str_fmt("/%s/%s", e->former, FIRMWARE) : NULL;
	return str_eq(path, now) || str_eq(path, former) || (str_starts(path, next) && str_ends(path, FIRMWARE));
}

// The kernel takes the value as it is; nothing cannot be written, and is what a line without text is to it.
int export_unset_path(const struct export *e, struct err *err)
{
	return e->sys->attribute_set(e->sys, e->kern, SETTING, "\n") < 0 ? file_fail("set", SETTING, err) : 0;
}

// The kernel shows a setting, and nobody else has set it.
static bool is_free(const struct export *e, const struct firmware_search *search)
{
	return search->path && (!*search->path || export_is_path(e, search->path));
}

static char *firmware_of(const char *payload, const char *name)
{
	return str_fmt(EXPORT_PAYLOADS "/%s/%s/%s", payload, FIRMWARE, name);
}

bool export_brings(const struct export *e, const char *payload, const struct firmware_search *search,
		   const struct strv *names)
{
	for (size_t i = 0; i < names->count; i++) {
		auto_str char *path = firmware_of(payload, names->items[i]);
		if (!*payload || !root_exists(e->state, path))
			return false;
	}
	return is_free(e, search);
}

static int set_path(struct export *e, const struct firmware_search *search, const char *path, struct err *err)
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
static int needs_path(const struct export *e, const struct export_wish *wish, const struct firmware_search *search,
		      struct err *err)
{
	auto_str char *version = str_fmt("nvidia/%s", wish->driver), *dir = firmware_of(wish->payload, version);
	auto_strv struct strv names = { 0 };
	bool is_missing = false;
	if (root_list(e->state, dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *name = str_fmt("%s/%s", version, names.items[i]);
		auto_str char *found = firmware_find(e->host, search, name);
		is_missing = is_missing || !found;
	}
	return names.count && (is_missing || (search->path && export_is_path(e, search->path)));
}

int export_firmware(struct export *e, const struct export_wish *wish, struct err *err)
{
	auto_firmware_search struct firmware_search search = { 0 };
	if (firmware_search(e->host, e->kern, wish->release, &search, err) < 0)
		return -1;
	int r = needs_path(e, wish, &search, err);
	if (r <= 0)
		return r;
	if (!is_free(e, &search)) {
		watch_note(e->watch, "the kernel's firmware path is '%s', set by somebody else: it stays",
			   search.path ? search.path : "not to be seen");
		return 0;
	}
	auto_str char *path = str_fmt("/%s/%s/%s", e->parent, e->is_switched ? e->base : e->made, FIRMWARE);
	return set_path(e, &search, path, err);
}

static int put(struct export *e, const struct work *w, struct err *err)
{
	const struct stack stack = stack_of(e, w);
	if (stack_put(&stack, e->made, &e->below, err) < 0)
		return -1;
	e->is_over = e->below >= 0;
	e->is_switched = true;
	return 0;
}

int export_switch(struct export *e, const struct export_wish *wish, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (work_open(e, &w, err) < 0 || open_payload(e, wish, &w, err) < 0 || work_pieces(e, wish, &w, err) < 0 ||
	    exported_text(e->host, &e->record_before, err) < 0 || put(e, &w, err) < 0)
		return -1;
	return exported_write(e, wish, &w.pieces, err) < 0 ? -1 : export_firmware(e, wish, err);
}

static int take_off(struct export *e, const struct work *w, struct err *err)
{
	const struct stack stack = stack_of(e, w);
	if (!e->is_switched)
		return 0;
	return stack_pop(&stack, err) < 0 ? -1 : exported_restore(e->host, e->record_before, err);
}

int export_back(struct export *e, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (!e->made)
		return 0;
	if (work_open(e, &w, err) < 0 || take_off(e, &w, err) < 0)
		return -1;
	e->is_switched = false;
	if (e->fwpath_before && !*e->fwpath_before && export_unset_path(e, err) < 0)
		return -1;
	if (e->fwpath_before && *e->fwpath_before &&
	    e->sys->attribute_set(e->sys, e->kern, SETTING, e->fwpath_before) < 0)
		return file_fail("set", SETTING, err);
	if (generation_remove(&w.space, &w.parent, e->made, err) < 0)
		return -1;
	forget(e);
	return 0;
}

int export_settle(struct export *e, struct err *err)
{
	auto_work struct work w = WORK_NONE;
	if (!e->is_over)
		return 0;
	if (work_open(e, &w, err) < 0)
		return -1;
	const struct stack stack = stack_of(e, &w);
	if (stack_settle(&stack, e->below, err) < 0)
		return -1;
	close_fdp(&e->below);
	e->is_over = false;
	return 0;
}
