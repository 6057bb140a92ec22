// SPDX-License-Identifier: Apache-2.0
#include "base/process/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

enum { LINE_MAX_BYTES = sizeof(((struct err *)NULL)->text) - 1 }; // R-K4: short, but an error is never cut

static struct {
	enum log_level most;
	bool is_json;
	const char *step;
	bool is_line_open; // a progress line that has not ended
	int line_width;
} state = { .most = LOG_LEVEL_INFO };

static const char *const names[] = { "error", "warn", "info", "debug" };

void log_setup(enum log_level most, bool is_json)
{
	state.most = most;
	state.is_json = is_json;
}

bool log_is_on(enum log_level level)
{
	return level <= state.most;
}

bool log_is_json(void)
{
	return state.is_json;
}

const char *log_step(const char *step)
{
	const char *last = state.step;
	state.step = step;
	return last;
}

// Messages quote compilers, kernels and file names: a run of control characters becomes one blank, and the cut is
// between two characters.
static void one_line(const char *text, char ret[LINE_MAX_BYTES + 1])
{
	size_t len = 0;
	for (; *text && len < LINE_MAX_BYTES; text++) {
		bool is_control = (unsigned char)*text < ' ' || *text == 0x7f;
		if (!is_control)
			ret[len++] = *text;
		else if (len && ret[len - 1] != ' ')
			ret[len++] = ' ';
	}
	while (*text && len && ((unsigned char)*text & 0xc0) == 0x80)
		text = &ret[--len];
	ret[len] = '\0';
}

void log_end_line(void)
{
	if (state.is_line_open)
		fputc('\n', stderr);
	state.is_line_open = false;
}

bool log_rewrite(const char *text, bool is_last)
{
	if (state.is_json || state.most < LOG_LEVEL_INFO || !isatty(STDERR_FILENO))
		return false;
	int width = state.is_line_open ? state.line_width : 0; // nothing of a longer line before it is to be seen
	state.line_width = (int)strlen(text);
	fprintf(stderr, "\r%-*s", width, text);
	state.is_line_open = true;
	if (is_last)
		log_end_line();
	return true;
}

// systemd.exec(5): JOURNAL_STREAM is "DEVICE:INODE" of what a service's output is connected to. Asked for each line,
// because whoever inherited the variable may write elsewhere.
static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	struct stat st;
	if (!stream || fstat(STDERR_FILENO, &st) < 0)
		return false;
	auto_str char *ours = str_fmt("%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	return str_eq(stream, ours);
}

// Writes the prefix of a line: for the journal, which knows the program, the priority as sd-daemon(3) has it.
static const char *line_start(enum log_level level)
{
	static const char *const priorities[] = { "<3>", "<4>", "<6>", "<7>" };
	return is_journal() ? priorities[level] : "kmodsmith: ";
}

static void emit(enum log_level level, const char *text, const struct err *err, json_t *fields)
{
	const struct err_info *info = err ? err_info(err->code) : NULL;
	char msg[LINE_MAX_BYTES + 1];
	if (level > state.most)
		return;
	one_line(text, msg);
	log_end_line();
	if (!state.is_json) {
		const char *mark = level == LOG_LEVEL_INFO ? NULL : names[level];
		fprintf(stderr, "%s%s%s%s%s%s\n", line_start(level), mark ? mark : "", mark ? ": " : "",
			info ? info->name : "", info ? ": " : "", msg);
		return;
	}
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	struct tm utc;
	char ts[40];
	strftime(ts, sizeof(ts), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
	auto_str char *stamp = str_fmt("%s.%03ldZ", ts, now.tv_nsec / 1000000);
	auto_json json_t *line =
		json_pack("{s:s, s:s, s:o}", "ts", stamp, "level", names[level], "msg", json_text(msg));
	if (state.step)
		json_object_set_new(line, "step", json_text(state.step));
	if (info) {
		json_object_set_new(line, "code", json_text(info->name));
		json_object_set_new(line, "reason", json_text(info->reason));
		json_object_set_new(line, "retryable", json_boolean(info->retryable));
		json_object_set_new(line, "next", json_text(err_next_step(err)));
	}
	if (fields)
		json_object_update_missing(line, fields);
	auto_str char *json = json_dumps(line, JSON_COMPACT);
	fprintf(stderr, "%s\n", json ? json : "{}");
}

void log_line(enum log_level level, json_t *fields, const char *fmt, ...)
{
	char msg[1024];
	va_list args;
	va_start(args, fmt);
	vsnprintf(msg, sizeof(msg), fmt, args);
	va_end(args);
	emit(level, msg, NULL, fields);
}

void log_err(const struct err *err)
{
	char next[LINE_MAX_BYTES + 1];
	emit(LOG_LEVEL_ERROR, err->text, err, NULL);
	one_line(err_next_step(err), next);
	if (!state.is_json && state.most >= LOG_LEVEL_ERROR)
		fprintf(stderr, "%snext: %s\n", line_start(LOG_LEVEL_ERROR), next);
}
