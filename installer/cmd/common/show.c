// SPDX-License-Identifier: Apache-2.0
// How results, phases and status look, as text and as JSON.
#include "base/core/date.h"
#include "base/file/file.h"
#include "cmd/common/common.h"
#include "status/status.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>

void show_table(const struct strv *rows)
{
	size_t width[16] = { 0 };
	log_end_line();
	for (size_t r = 0; r < rows->count; r++) {
		const char *cell = rows->items[r];
		for (size_t c = 0; c < ARRAY_SIZE(width); c++) {
			size_t len = strcspn(cell, "\t");
			width[c] = len > width[c] ? len : width[c];
			if (!cell[len])
				break;
			cell += len + 1;
		}
	}
	for (size_t r = 0; r < rows->count; r++) {
		const char *cell = rows->items[r];
		for (size_t c = 0; c < ARRAY_SIZE(width); c++) {
			size_t len = strcspn(cell, "\t");
			if (!cell[len]) {
				printf("%s\n", cell);
				break;
			}
			printf("%-*.*s  ", (int)width[c], (int)len, cell);
			cell += len + 1;
		}
	}
}

// Where JSON goes if other text is suppressed.
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

static const char *command = "kmodsmith"; // what was typed is no command

void show_command(const char *name)
{
	command = name;
}

// "store ls": "StoreLs"
static char *document_kind(void)
{
	char *kind = str_dup(command), *to = kind;
	bool is_first = true;
	for (const char *c = command; *c; c++) {
		bool is_letter = isalnum((unsigned char)*c);
		if (is_letter)
			*to++ = (char)(is_first ? toupper((unsigned char)*c) : *c);
		is_first = !is_letter;
	}
	*to = 0;
	return kind;
}

static void print_json(const json_t *value)
{
	auto_str char *text = json_dumps(value, JSON_INDENT(2));
	log_end_line();
	fprintf(show_results(), "%s\n", text ? text : "null");
}

void show_json(const json_t *value)
{
	auto_str char *kind = document_kind();
	auto_json json_t *whole = json_pack("{s:s, s:s}", "apiVersion", SHOW_JSON_VERSION, "kind", kind);
	if (json_is_object(value))
		json_object_update(whole, (json_t *)(uintptr_t)value);
	else
		json_object_set(whole, "items", (json_t *)(uintptr_t)value);
	print_json(whole);
}

int show_output_dir(const char *output, struct root *ret, const char **ret_name, struct err *err)
{
	const char *slash = strrchr(output, '/');
	*ret_name = slash ? slash + 1 : output;
	auto_str char *folder = !slash          ? str_dup(".") :
				slash == output ? str_dup("/") :
						  str_ndup(output, (size_t)(slash - output));
	if (!**ret_name)
		return err_set(err, E_USAGE, "--output '%s' is not a file", output);
	return root_init(ret, folder, err);
}

int show_json_as(const json_t *value, const char *output, struct err *err)
{
	auto_root struct root dir = ROOT_NONE;
	const char *name;
	if (!output || str_eq(output, "-")) {
		print_json(value);
		return 0;
	}
	return show_output_dir(output, &dir, &name, err) < 0 ? -1 : json_write(&dir, name, value, err);
}

json_t *show_failure_json(const struct err *err)
{
	return json_pack("{s:o}", "error", status_json_error(err));
}

// units, rest: what stands after the numbers.
static void show_part(const char *what, unsigned done, unsigned total, const char *units, const char *rest)
{
	static unsigned last = ~0U;
	unsigned percent = total ? (unsigned)(100ULL * done / total) : 100;
	enum { QUARTER = 25 };
	if (percent == last)
		return;
	auto_str char *text = str_fmt("%s %3u%% (%u of %u%s%s)", what, percent, done, total, units, rest);
	if (!log_rewrite(text, done >= total) && percent / QUARTER != last / QUARTER && done < total) {
		auto_json json_t *fields = json_pack("{s:s, s:I, s:I}", "progress", what, "done", (json_int_t)done,
						     "total", (json_int_t)total);
		log_line(LOG_LEVEL_INFO, fields, "%s %u%% (%u of %u%s%s)", what, percent, done, total, units, rest);
	}
	last = percent;
}

void show_progress(const char *what, unsigned done, unsigned total)
{
	show_part(what, done, total, "", "");
}

void show_bytes(const char *what, uint64_t done, uint64_t total)
{
	enum { MIB = 20, WORTH_MIB = 16, SECOND_MS = 1000 }; // short steps need no progress bar
	static uint64_t from, before;
	static long begun_ms;
	if (total >> MIB < WORTH_MIB)
		return;
	if (!begun_ms || done < before) { // another one; what was there already took no time
		begun_ms = clock_ms();
		from = done;
	}
	before = done;
	long took_ms = clock_ms() - begun_ms;
	double rate = took_ms >= SECOND_MS ? (double)(done - from) / (double)took_ms : 0; // bytes a millisecond
	auto_str char *rest = rate > 0 ? str_fmt(", %.1f MiB/s, %.0f s left", rate * SECOND_MS / (1 << MIB),
						 (double)(total - done) / rate / SECOND_MS) :
					 str_dup("");
	show_part(what, (unsigned)(done >> MIB), (unsigned)(total >> MIB), " MiB", rest);
}

static void log_enter(void *ctx, const char *name)
{
	(void)ctx;
	log_step(name);
}

static void log_phase(void *ctx, const struct phase *p)
{
	(void)ctx;
	const char *within = log_step(p->name);
	if (log_is_json()) {
		auto_json json_t *fields = json_pack("{s:f}", "seconds", p->seconds);
		json_object_update(fields, p->facts);
		log_line(LOG_LEVEL_INFO, fields, "%s", p->note);
	} else {
		log_info("%-9s %8.3f s  %s", p->name, p->seconds, p->note);
	}
	log_step(within);
}

void show_note(void *ctx, const char *text)
{
	(void)ctx;
	log_info("%s", text);
}

static void log_progress(void *ctx, const char *what, unsigned done, unsigned total)
{
	(void)ctx;
	show_progress(what, done, total);
}

struct progress show_progress_log(void)
{
	return (struct progress){ .enter = log_enter, .phase = log_phase, .progress = log_progress, .note = show_note };
}

void show_status(const struct status *s)
{
	auto_strv struct strv rows = { 0 };
	for (size_t i = 0; i < s->count; i++)
		strv_add(&rows, str_fmt("%s\t%s\t%s", s->checks[i].is_ok ? "pass" : "FAIL", s->checks[i].name,
					s->checks[i].evidence));
	for (size_t i = 0; i < s->optional.count; i++)
		strv_add(&rows, str_fmt("note\toptional\t%s: not loaded, %s: %s", s->optional.items[i].module,
					s->optional.items[i].code, s->optional.items[i].text));
	show_table(&rows);
	printf("%s\n", !s->has_gpu ? "NO_GPU: no NVIDIA function on this machine, nothing to do" :
		       s->is_ready ? "ready" :
				     "NOT READY");
}
