// SPDX-License-Identifier: Apache-2.0
#include "driver_root/root_layout.h"

#include "daemons/daemon_rules.h"
#include "daemons/syslog.h"
#include "daemons/vgpu_guest.h"
#include "driver_root/source_tree.h"

#include <errno.h>
#include <fcntl.h>

static const char FIRMWARE[] = "lib/firmware";

void root_layout_done(struct root_layout *p)
{
	for (size_t i = 0; i < p->count; i++) {
		free(p->items[i].path);
		free(p->items[i].source);
	}
	free(p->items);
	*p = (struct root_layout){ 0 };
}

static struct root_entry *add_root_entry(struct root_layout *p, const struct root *from, const char *path,
					 const char *source)
{
	p->items = mem_grow(p->items, p->count + 1, sizeof(*p->items));
	p->items[p->count] =
		(struct root_entry){ .path = str_dup(path), .is_link = !from, .from = from, .source = str_dup(source) };
	return &p->items[p->count++];
}

// The machine's own, and what only the payload's package needs.
static bool is_machine_dir(const char *name)
{
	static const char *const others[] = { "dev", "proc", "sys", "tmp" };
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (str_eq(name, others[i]))
			return false;
	return *name != '.';
}

static int add_payload_entries(const struct root *payload, struct root_layout *p, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(payload, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		auto_str char *target = NULL;
		if (!is_machine_dir(name))
			continue;
		int r = root_readlink(payload, name, &target, err);
		if (r < 0)
			return -1;
		// An absolute link would lead a consumer out of this root, which it sees as a directory.
		if (r > 0)
			add_root_entry(p, NULL, name, target + strspn(target, "/"));
		else
			add_root_entry(p, payload, name, name)->is_read_only = true;
	}
	return 0;
}

// Directories of the host that this payload's daemons write to or read from, and where they see them: in parallel.
static void list_run_dirs(const struct root *payload, struct strv *ret_sources, struct strv *ret_paths)
{
	auto_strv struct strv dirs = { 0 };
	daemon_dirs(payload, &dirs);
	for (size_t i = 0; i < dirs.count; i++) {
		strv_add(ret_sources, str_fmt("run/%s", dirs.items[i]));
		strv_add(ret_paths, str_fmt("run/%s", dirs.items[i]));
	}
	if (dirs.count) {
		strv_add(ret_sources, str_dup(SYSLOG_DIR));
		strv_add(ret_paths, str_dup(SYSLOG_SEEN));
	}
	if (vgpu_guest_is_served(payload)) {
		strv_add(ret_sources, str_dup(GUEST_CONFIG));
		strv_add(ret_paths, str_dup("etc/nvidia"));
	}
}

// The kernel's own modules stay where the machine has them; only the index beside them is made anew.
static int add_modules_dir(const struct root_content *c, struct root_layout *p, struct err *err)
{
	auto_str char *dir = str_fmt("lib/modules/%s", c->release);
	auto_strv struct strv names = { 0 };
	add_root_entry(p, c->modules, dir, ".")->is_read_only = true;
	if (root_list(c->modules, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", dir, names.items[i]);
		struct stat st;
		int r = root_stat(c->host, path, &st, err);
		if (r < 0)
			return -1;
		if (r > 0 && S_ISDIR(st.st_mode))
			add_root_entry(p, c->host, path, path)->is_read_only = true;
	}
	return 0;
}

int root_layout_prepare(const struct root *payload, const struct root *host, const char *release, struct err *err)
{
	auto_str char *modules = str_fmt("lib/modules/%s", release);
	auto_strv struct strv sources = { 0 }, paths = { 0 };
	if (root_mkdirs(payload, FIRMWARE, 0755, err) < 0 || root_mkdirs(payload, modules, 0755, err) < 0)
		return -1;
	list_run_dirs(payload, &sources, &paths);
	for (size_t i = 0; i < sources.count; i++)
		if (root_mkdirs(payload, paths.items[i], 0755, err) < 0 ||
		    root_mkdirs(host, sources.items[i], 0755, err) < 0)
			return -1;
	// Daemons write to /var/run, which is /run wherever there is one.
	if (!sources.count || root_exists(payload, "var/run"))
		return 0;
	return root_mkdirs(payload, "var", 0755, err) < 0 ? -1 : root_symlink(payload, "../run", "var/run", err);
}

static int measure_entry(struct root_entry *p, struct err *err)
{
	struct stat st;
	bool is_skipped = p->is_link || p->is_own || (p->is_made && !root_exists(p->from, p->source));
	auto_fd int fd = is_skipped ? -1 : root_open(p->from, p->source, O_PATH, err);
	if (is_skipped)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? -1 : err_set(err, errno, "look at '%s'", p->source);
	p->dev = st.st_dev;
	p->ino = st.st_ino;
	return 0;
}

int root_layout_read(const struct root_content *c, struct root_layout *ret, struct err *err)
{
	auto_root_layout struct root_layout p = { 0 };
	auto_strv struct strv sources = { 0 }, paths = { 0 };
	if (add_payload_entries(c->payload, &p, err) < 0)
		return -1;
	add_root_entry(&p, c->host, "dev", "dev")->is_whole = true;
	add_root_entry(&p, c->host, "proc", "proc");
	add_root_entry(&p, c->host, "sys", "sys");
	list_run_dirs(c->payload, &sources, &paths);
	for (size_t i = 0; i < sources.count; i++)
		add_root_entry(&p, c->host, paths.items[i], sources.items[i])->is_made = true;
	// The root has a tmp of its own instead of the machine's: programs that run after a chroot need one, and
	// consumers look there for what they make (the pipes of MPS).
	p.items = mem_grow(p.items, p.count + 1, sizeof(*p.items));
	p.items[p.count++] = (struct root_entry){ .path = str_dup("tmp"), .is_own = true };
	if (c->sources) {
		auto_str char *dir = str_fmt(SOURCE_TREE_DIR, c->driver);
		add_root_entry(&p, c->sources, dir, ".");
	}
	if (c->modules && add_modules_dir(c, &p, err) < 0)
		return -1;
	for (size_t i = 0; i < p.count; i++)
		if (measure_entry(&p.items[i], err) < 0)
			return -1;
	*ret = p;
	p = (struct root_layout){ 0 };
	return 0;
}
