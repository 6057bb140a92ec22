// SPDX-License-Identifier: Apache-2.0
#include "acquire/compile.h"
#include "base/core/date.h"
#include "cmd/common/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

struct values {
	struct common common;
	char *state_dir;
};

static const struct opt opts[] = {
	{ "state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, state_dir),
	  "state directory of the compile; default /var/lib/kmodsmith of the host" },
	{ 0 },
};

struct log_file {
	char *name; // "535.261.03-open-6.1.0-56-cloud-amd64.log"
	struct stat st;
};

struct log_files {
	struct log_file *items;
	size_t count;
};

static void log_files_done(struct log_files *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->items[i].name);
	free(l->items);
}

static int compare_age(const void *a, const void *b)
{
	const struct timespec *x = &((const struct log_file *)a)->st.st_mtim,
			      *y = &((const struct log_file *)b)->st.st_mtim;
	return x->tv_sec != y->tv_sec ? (x->tv_sec < y->tv_sec) - (x->tv_sec > y->tv_sec) :
					(x->tv_nsec < y->tv_nsec) - (x->tv_nsec > y->tv_nsec);
}

// Lists the logs with the word in their names, the newest first.
static int list_logs(const struct root *state, const char *word, struct log_files *ret, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(state, COMPILE_LOGS, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		struct err ignored;
		struct stat st;
		auto_str char *path = str_fmt(COMPILE_LOGS "/%s", names.items[i]);
		auto_fd int fd = root_open(state, path, O_PATH | O_NOFOLLOW, &ignored);
		if (!strstr(names.items[i], word) || fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		ret->items = mem_grow(ret->items, ret->count + 1, sizeof(*ret->items));
		ret->items[ret->count++] = (struct log_file){ .name = str_dup(names.items[i]), .st = st };
	}
	if (ret->count)
		qsort(ret->items, ret->count, sizeof(*ret->items), compare_age);
	return 0;
}

static json_t *logs_json(const struct root *state, const struct log_files *l)
{
	json_t *list = json_array();
	for (size_t i = 0; i < l->count; i++) {
		auto_str char *name = str_fmt(COMPILE_LOGS "/%s", l->items[i].name), *path = root_path(state, name),
			      *time = date_text(l->items[i].st.st_mtime);
		json_array_append_new(list, json_pack("{s:o, s:s, s:I}", "path", json_text(path), "time", time, "bytes",
						      (json_int_t)l->items[i].st.st_size));
	}
	return list;
}

static int print_log(const struct root *state, const struct log_files *l, struct err *err)
{
	char part[1 << 16];
	ssize_t n;
	auto_str char *name = str_fmt(COMPILE_LOGS "/%s", l->items[0].name), *path = root_path(state, name);
	auto_fd int fd = root_open(state, name, O_RDONLY, err);
	if (fd < 0)
		return -1;
	log_info("%s%s", path, l->count > 1 ? ", the newest of:" : "");
	for (size_t i = 0; l->count > 1 && i < l->count; i++)
		log_info("  %s", l->items[i].name);
	while ((n = read(fd, part, sizeof(part))) > 0)
		fwrite(part, 1, (size_t)n, stdout);
	return n < 0 ? err_set(err, errno, "read '%s'", path) : 0;
}

static int run_logs(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_root struct root state = ROOT_NONE;
	__attribute__((cleanup(log_files_done))) struct log_files logs = { 0 };
	if (machine_open(&v->common, &m, err) < 0 || job_state_existing(v->state_dir, &m, &state, err) < 0 ||
	    (state.fd >= 0 && list_logs(&state, count ? args[0] : "", &logs, err) < 0))
		return -1;
	if (v->common.is_json) {
		auto_json json_t *list = logs_json(&state, &logs);
		show_json(list);
		return 0;
	}
	if (logs.count)
		return print_log(&state, &logs, err);
	err_set(err, E_NOT_FOUND, "no log of a compile%s%s in '%s/%s'", count ? " of " : "", count ? args[0] : "",
		state.fd >= 0 ? state.name : m.host.name, state.fd >= 0 ? COMPILE_LOGS : JOB_STATE "/" COMPILE_LOGS);
	return err_next(
		err, "only a compile on this machine leaves one, in its --state-dir; `kmodsmith status` says what the "
		     "last run came to");
}

const struct cmd cmd_logs = {
	.name = "logs",
	.args = "[NAME]",
	.args_max = 1,
	.help = "what the compiler said in a compile on this machine",
	.about = "Prints the newest log of a compile; NAME chooses by a part of its name: a driver version, a\n"
		 "kernel. With --json it lists them.\n\n"
		 "  kmodsmith logs\n"
		 "  kmodsmith logs 6.1.0-56-cloud-amd64 | grep -m 1 error:\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_logs,
};
