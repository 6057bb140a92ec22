// SPDX-License-Identifier: Apache-2.0
// Only reads: no lock is taken, no directory is made, and what cannot be read is said.
#include "acquire/compile.h"
#include "base/file/file.h"
#include "base/process/boot_record.h"
#include "cluster/kube/api.h"
#include "cluster/node_state/annotations.h"
#include "cmd/node/support.h"

#include <errno.h>
#include <fcntl.h>

void support_done(struct support *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->files[i].name);
		free(s->files[i].text);
	}
	free(s->files);
	free(s->missing);
}

void support_add(struct support *s, const char *name, const char *about, char *take)
{
	s->files = mem_grow(s->files, s->count + 1, sizeof(*s->files));
	s->files[s->count++] = (struct support_file){ str_dup(name), take, about };
}

void support_add_missing(struct support *s, const char *name, const char *why)
{
	str_add(&s->missing, "%s: %s\n", name, why);
}

// The end of what is longer: in a log it is what matters. It begins with a whole line, so that no part of a secret is
// left whose beginning would have told.
static char *read_end(int fd, const char *name, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return file_fail("look at", name, err), NULL;
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_SYSTEM, "'%s' is no regular file", name), NULL;
	off_t left_out = st.st_size > SUPPORT_FILE_MOST ? st.st_size - SUPPORT_FILE_MOST : 0;
	auto_str char *text = mem_alloc(SUPPORT_FILE_MOST + 1);
	size_t len = 0;
	lseek(fd, left_out, SEEK_SET);
	for (ssize_t n = 1; n > 0 && len < SUPPORT_FILE_MOST; len += (size_t)(n > 0 ? n : 0)) {
		n = read(fd, text + len, SUPPORT_FILE_MOST - len);
		if (n < 0 && errno != EINTR)
			return file_fail("read", name, err), NULL;
	}
	for (size_t i = 0; i < len; i++)
		text[i] = (char)(text[i] ? text[i] : '?'); // damaged
	if (left_out) {
		const char *line = strchr(text, '\n');
		return str_fmt("(cut: only the end of %lld bytes)\n%s", (long long)st.st_size, line ? line + 1 : "");
	}
	return TAKE(text);
}

static void add_file(struct support *s, const struct root *root, const char *path, const char *name, const char *about)
{
	struct err err;
	auto_fd int fd = root_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, &err);
	char *text = fd < 0 ? NULL : read_end(fd, path, &err);
	if (text)
		support_add(s, name, about, text);
	else
		support_add_missing(s, name, err.text);
}

// Files alone; no more than a directory of this kind has when nothing is wrong with it.
static void add_directory(struct support *s, const struct root *root, const char *dir, const char *into,
			  const char *about)
{
	enum { ENTRIES_MOST = 64 };
	auto_strv struct strv names = { 0 };
	struct err err = { 0 };
	struct stat st;
	int r = root_list(root, dir, &names, &err);
	if (r <= 0 && names.count == 0)
		support_add_missing(s, into, r < 0 ? err.text : "there is nothing");
	for (size_t i = 0, added = 0; i < names.count && added < ENTRIES_MOST; i++) {
		auto_str char *path = str_fmt("%s/%s", dir, names.items[i]),
			      *name = str_fmt("%s/%s", into, names.items[i]);
		if (*names.items[i] == '.' || str_ends(path, "lock") || root_stat(root, path, &st, &err) <= 0 ||
		    S_ISDIR(st.st_mode))
			continue;
		add_file(s, root, path, name, about);
		added++;
	}
}

static void add_parameters(struct support *s)
{
	auto_strv struct strv modules = { 0 };
	auto_str char *text = NULL;
	const struct root *kern = &s->machine->kern;
	struct err err;
	if (root_list(kern, "sys/module", &modules, &err) < 0)
		support_add_missing(s, "parameters.txt", err.text);
	for (size_t i = 0; i < modules.count; i++) {
		auto_str char *dir = str_fmt("sys/module/%s/parameters", modules.items[i]);
		auto_strv struct strv names = { 0 };
		if (!str_starts(modules.items[i], "nvidia") && !str_starts(modules.items[i], "nouveau"))
			continue;
		str_add(&text, "%s\n", modules.items[i]);
		root_list(kern, dir, &names, &err);
		for (size_t n = 0; n < names.count; n++) {
			auto_str char *path = str_fmt("%s/%s", dir, names.items[n]), *value = NULL;
			bool is_read = root_line(kern, path, &value, &err) > 0;
			str_add(&text, "  %s=%s\n", names.items[n], is_read ? value : "(cannot be read)");
		}
	}
	if (text)
		support_add(s, "parameters.txt", "parameters of the loaded modules", TAKE(text));
}

static void add_compile_log(struct support *s)
{
	auto_strv struct strv names = { 0 };
	auto_str char *newest = NULL;
	struct timespec at = { 0 };
	struct stat st;
	struct err err;
	root_list(s->state, COMPILE_LOGS, &names, &err);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt(COMPILE_LOGS "/%s", names.items[i]);
		if (root_stat(s->state, path, &st, &err) <= 0 || !S_ISREG(st.st_mode) ||
		    (newest && (st.st_mtim.tv_sec < at.tv_sec ||
				(st.st_mtim.tv_sec == at.tv_sec && st.st_mtim.tv_nsec < at.tv_nsec))))
			continue;
		at = st.st_mtim;
		str_set(&newest, path);
	}
	if (newest)
		add_file(s, s->state, newest, "state/compile.log", "what the compiler said last");
	else
		support_add_missing(s, "state/compile.log", "nothing was compiled here");
}

void support_read_files(struct support *s)
{
	const struct root *host = &s->machine->host, *kern = &s->machine->kern, *state = s->state;
	const struct {
		const struct root *root;
		const char *path, *name, *about;
	} files[] = {
		{ host, "etc/os-release", "os-release", "the distribution" },
		{ kern, "proc/version", "proc/version", "the kernel" },
		{ kern, "proc/cmdline", "proc/cmdline", "its command line" },
		{ kern, "proc/modules", "proc/modules", "its modules" },
		{ kern, "proc/sys/kernel/tainted", "proc/tainted", "its taints" },
		{ kern, "proc/driver/nvidia/version", "proc/nvidia-version", "the loaded driver" },
		{ kern, "proc/driver/nvidia/params", "proc/nvidia-params", "what it was loaded with" },
		{ state, "journal", "state/journal", "changes of this node, and what failed" },
		{ state, "gpus.json", "state/gpus.json", "the last check of the GPUs" },
		{ state, "roots.json", "state/roots.json", "packages that stay" },
		{ state, "store/index.json", "state/store.json", "packages of the store, with their digests" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (files[i].root->fd >= 0)
			add_file(s, files[i].root, files[i].path, files[i].name, files[i].about);
	if (state->fd >= 0)
		add_compile_log(s);
	else
		support_add_missing(s, "state", "there is no state directory, or it cannot be read; see --state-dir");
	add_parameters(s);
	add_directory(s, host, BOOT_RECORD_DIR, "run", "what kmodsmith measured in this boot");
	add_directory(s, host, "etc/modprobe.d", "etc-modprobe.d", "options of modules, of this machine");
	add_directory(s, host, "usr/lib/modprobe.d", "usr-lib-modprobe.d", "options of modules, of packages");
}

static bool has_word(const char *line, const char *const *words)
{
	for (; *words; words++)
		if (strcasestr(line, *words))
			return true;
	return false;
}

// Lines that follow the beginning of a crash belong to it.
static char *driver_lines(char *log)
{
	enum { CRASH_LINES = 80 };
	static const char *const driver[] = { "nvrm",     "nvidia", "xid",      "nouveau",
					      "firmware", "vfio",   "lockdown", "module verification",
					      NULL },
				 *const crash[] = { "BUG:",     "Oops",        "general protection", "Call Trace",
						    "WARNING:", "soft lockup", "blocked for more",   NULL };
	char *text = NULL, *rest = log;
	size_t crash_left = 0, len = 0;
	auto_strv struct strv lines = { 0 };
	for (const char *line; (line = strsep(&rest, "\n"));) {
		if (has_word(line, crash))
			crash_left = CRASH_LINES;
		if (crash_left || has_word(line, driver))
			strv_add(&lines, str_dup(line));
		crash_left -= crash_left > 0;
	}
	size_t first = lines.count;
	while (first && (len += strlen(lines.items[first - 1]) + 1) <= SUPPORT_FILE_MOST)
		first--;
	if (first)
		str_add(&text, "(cut: %zu lines before)\n", first);
	for (size_t i = first; i < lines.count; i++)
		str_add(&text, "%s\n", lines.items[i]);
	return text;
}

void support_read_kernel_log(struct support *s)
{
	enum { LOG_MOST = 32 << 20, RECORD_MOST = 8192 };
	static const char name[] = "kernel.log";
	struct err err;
	auto_fd int fd = root_open(&s->machine->kern, "dev/kmsg", O_RDONLY | O_NONBLOCK, &err);
	auto_str char *log = mem_alloc(LOG_MOST + 1);
	size_t len = 0;
	ssize_t n = 0;
	if (fd < 0)
		return support_add_missing(s, name, err.text);
	while (len + RECORD_MOST <= LOG_MOST) {
		n = read(fd, log + len, RECORD_MOST);
		if (n == 0 || (n < 0 && errno != EPIPE && errno != EINTR)) // EPIPE: older records were overwritten
			break;
		len += (size_t)(n > 0 ? n : 0);
	}
	if (n < 0 && errno != EAGAIN)
		support_add_missing(s, name, strerror(errno));
	char *text = driver_lines(log);
	if (text)
		support_add(s, name, "what the kernel said of the driver, and of crashes", text);
	else
		support_add_missing(s, name, "no line of the driver");
}

static json_t *own_keys(const json_t *object)
{
	const char *key;
	json_t *value, *own = json_object();
	json_object_foreach((json_t *)(uintptr_t)object, key,
			    value) if (str_starts(key, KEY_PREFIX) || str_starts(key, "nvidia.com/"))
		json_object_set(own, key, value);
	return own;
}

static void add_json(struct support *s, const char *name, const char *about, const json_t *value)
{
	char *text = json_dumps(value, JSON_INDENT(2));
	if (text && strlen(text) <= SUPPORT_FILE_MOST)
		support_add(s, name, about, TAKE(text));
	else
		support_add_missing(s, name, "it is too long");
	free(text);
}

// false: the cluster does not answer.
static bool add_node(struct support *s, struct kube *kube, const char *node)
{
	static const char name[] = "cluster/node.json";
	struct err err;
	auto_json json_t *object = NULL;
	auto_str char *path = api_node(node);
	int r = api_get(kube, path, &object, &err);
	if (r <= 0) {
		support_add_missing(s, name, r < 0 ? err.text : "the cluster has no Node of this name");
		return r == 0 || (err.code != E_TIMEOUT && err.code != E_NETWORK && err.code != E_TLS);
	}
	const json_t *metadata = json_object_get(object, "metadata"), *spec = json_object_get(object, "spec");
	auto_json json_t *shown = json_pack(
		"{s:o, s:o, s:O*, s:O*, s:O*}", "annotations", own_keys(json_object_get(metadata, "annotations")),
		"labels", own_keys(json_object_get(metadata, "labels")), "unschedulable",
		json_object_get(spec, "unschedulable"), "taints", json_object_get(spec, "taints"), "conditions",
		json_object_get(json_object_get(object, "status"), "conditions"));
	add_json(s, name, "the Node: conditions, annotations and labels of drivers", shown);
	return true;
}

static int take_event(void *ctx, json_t *event, struct err *err)
{
	enum { EVENTS_MOST = 1000 };
	(void)err;
	if (json_array_size(ctx) < EVENTS_MOST)
		json_array_append(ctx, event);
	return 0;
}

static void add_events(struct support *s, struct kube *kube, const char *node)
{
	static const char name[] = "cluster/events.json";
	static const char *const keys[] = { "type",           "reason",        "message", "count",
					    "firstTimestamp", "lastTimestamp", "source",  NULL };
	struct err err;
	auto_json json_t *events = json_array();
	auto_str char *query = str_fmt("fieldSelector=involvedObject.name%%3D%s", node), *version = NULL;
	struct kube_list list = { .path = "/api/v1/namespaces/default/events",
				  .query = query,
				  .record = keys,
				  .take = take_event,
				  .ctx = events };
	if (kube_list(kube, &list, &version, &err) < 0)
		support_add_missing(s, name, err.text);
	else
		add_json(s, name, "the Node's Events", events);
}

void support_read_cluster(struct support *s, const char *kubeconfig, const char *node)
{
	enum { DEADLINE_MS = 5000 };
	struct err err;
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	auto_kube struct kube *kube = NULL;
	int r = kube_config_find(kubeconfig, &s->machine->kern, &config, &err);
	config.deadline_ms = DEADLINE_MS;
	if (r == 0)
		support_add_missing(s, "cluster", "no cluster: no --kubeconfig, and no pod with a service account");
	else if (r < 0 || kube_open(&config, &kube, &err) < 0)
		support_add_missing(s, "cluster", err.text);
	else if (add_node(s, kube, node))
		add_events(s, kube, node);
}
