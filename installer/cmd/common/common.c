// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/common.h"

#include "base/file/file.h"
#include "status/status.h"

#include <errno.h>
#include <fcntl.h>

const struct opt common_opts[] = {
	{ "root", 0, "DIR", "KMODSMITH_ROOT", OPT_STR, offsetof(struct common, root),
	  "work on a recorded machine: DIR holds its files, proc, sys and dev" },
	{ "host-root", 0, "DIR", "KMODSMITH_HOST_ROOT", OPT_STR, offsetof(struct common, host_root),
	  "where the host's files are; default /proc/1/root in a pod that has the host's process ids, else /" },
	{ "json", 0, NULL, NULL, OPT_FLAG, offsetof(struct common, is_json), "the result as JSON on standard output" },
	{ "log-format", 0, "text|json", "KMODSMITH_LOG_FORMAT", OPT_STR, offsetof(struct common, log_format),
	  "how events on standard error look" },
	{ "quiet", 'q', NULL, NULL, OPT_FLAG, offsetof(struct common, is_quiet),
	  "only errors and warnings: no table either, JSON as ever" },
	{ "verbose", 'v', NULL, NULL, OPT_FLAG, offsetof(struct common, is_verbose),
	  "also each program that is run, each request, and what was decided from what" },
	{ 0 },
};

// In a pod nothing of the host needs to be mounted: with the host's process ids its root can be reached (contract 1.5).
static int open_host(const struct common *common, struct machine *m, struct err *err)
{
	if (common->host_root)
		return root_init(&m->host, common->host_root, err);
	int r = m->is_recorded ? 0 : root_outside(&m->host, err);
	return r == 0 ? root_sub(&m->kern, ".", &m->host, err) : r;
}

int machine_open(const struct common *common, struct machine *ret, struct err *err)
{
	struct machine m = { .host = ROOT_NONE, .kern = ROOT_NONE, .is_recorded = common->root != NULL };
	if (root_init(&m.kern, common->root ? common->root : "/", err) < 0 || open_host(common, &m, err) < 0) {
		machine_done(&m);
		return -1;
	}
	m.sys = *sys_real();
	*ret = m;
	if (m.is_recorded)
		ret->sys = sys_recorder(&ret->kern);
	return 0;
}

void machine_done(struct machine *m)
{
	root_done(&m->host);
	root_done(&m->kern);
}

int job_unload_timeout_ms(unsigned seconds)
{
	enum { DEFAULT_S = 60, DAY_S = 24 * 60 * 60 };
	seconds = seconds ? seconds : DEFAULT_S;
	return (int)(seconds < DAY_S ? seconds : DAY_S) * 1000;
}

static size_t cell_width(const char *cell)
{
	return strcspn(cell, "\t");
}

void show_table(const struct strv *rows)
{
	size_t width[16] = { 0 };
	log_end_line();
	for (size_t r = 0; r < rows->count; r++) {
		const char *cell = rows->items[r];
		for (size_t c = 0; c < ARRAY_SIZE(width); c++) {
			size_t len = cell_width(cell);
			width[c] = len > width[c] ? len : width[c];
			if (!cell[len])
				break;
			cell += len + 1;
		}
	}
	for (size_t r = 0; r < rows->count; r++) {
		const char *cell = rows->items[r];
		for (size_t c = 0; c < ARRAY_SIZE(width); c++) {
			size_t len = cell_width(cell);
			if (!cell[len]) {
				printf("%s\n", cell);
				break;
			}
			printf("%-*.*s  ", (int)width[c], (int)len, cell);
			cell += len + 1;
		}
	}
}

// Where JSON goes when other text does not.
static FILE *results;

int show_json_only(struct err *err)
{
	auto_fd int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	auto_fd int none = file_open_arg("/dev/null", O_WRONLY, err);
	if (none < 0)
		return -1;
	if (kept < 0 || dup2(none, STDOUT_FILENO) < 0 || !(results = fdopen(kept, "w")))
		return err_set(err, errno, "--quiet: standard output");
	kept = -1;
	return 0;
}

FILE *show_results(void)
{
	return results ? results : stdout;
}

void show_json(const json_t *value)
{
	auto_str char *text = json_dumps(value, JSON_INDENT(2));
	log_end_line();
	fprintf(show_results(), "%s\n", text ? text : "null");
}

json_t *show_failure_json(const struct err *err)
{
	return json_pack("{s:o}", "error", status_json_error(err));
}

void show_progress(const char *what, unsigned done, unsigned total)
{
	static unsigned last = ~0U;
	unsigned percent = total ? 100 * done / total : 100;
	enum { QUARTER = 25 };
	if (percent == last)
		return;
	auto_str char *text = str_fmt("%s %3u%% (%u of %u)", what, percent, done, total);
	if (!log_rewrite(text, done >= total) && percent / QUARTER != last / QUARTER && done < total) {
		auto_json json_t *fields = json_pack("{s:s, s:I, s:I}", "progress", what, "done", (json_int_t)done,
						     "total", (json_int_t)total);
		log_line(LOG_LEVEL_INFO, fields, "%s %u%% (%u of %u)", what, percent, done, total);
	}
	last = percent;
}
