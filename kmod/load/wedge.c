// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/wedge.h"

#include "kmod/load/bounded.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

enum { RECORD_MAX = 8192, LINES_MAX = 256 };

int load_log_start(const struct root *kern)
{
	struct err err; // without a log errno alone decides
	int fd = root_open(kern, "dev/kmsg", O_RDONLY | O_NONBLOCK, &err);
	if (fd >= 0)
		lseek(fd, 0, SEEK_END);
	return fd;
}

// A record escapes newlines; the driver writes its paragraphs with "NVRM: " in front of each line.
static char *unescape_kmsg(const char *text, size_t len)
{
	static const char newline[] = "\\x0a", prefix[] = "NVRM: ";
	auto_str char *line = str_ndup(text, len);
	char *to = line;
	for (const char *from = line; *from;) {
		if (!str_starts(from, newline)) {
			*to++ = *from++;
			continue;
		}
		from += sizeof(newline) - 1;
		if (str_starts(from, prefix))
			from += sizeof(prefix) - 1;
		*to++ = ' ';
	}
	*to = '\0';
	return str_dup(str_trim(line));
}

// "priority,sequence,time,flags;text", then lines that start with a blank and tell of the device.
static void take_records(const char *data, size_t len, struct strv *ret)
{
	for (const char *line = data, *end = data + len, *stop; line < end; line = stop + 1) {
		stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop)
			stop = end;
		const char *text = memchr(line, ';', (size_t)(stop - line));
		if (*line != ' ' && text && ret->count < LINES_MAX)
			strv_add(ret, unescape_kmsg(text + 1, (size_t)(stop - text - 1)));
	}
}

void load_log_lines(int fd, struct strv *ret)
{
	char record[RECORD_MAX];
	for (int i = 0; fd >= 0 && i < LINES_MAX; i++) {
		ssize_t n = read(fd, record, sizeof(record));
		if (n > 0)
			take_records(record, (size_t)n, ret);
		else if (n == 0 || (errno != EPIPE && errno != EINTR)) // EPIPE: older records were overwritten, go on
			return;
	}
}

// Lines "[<0>] function+0x1c/0x40 [module]" of proc/PID/stack as "function [module], caller": the innermost few.
static char *frames_of(const char *stack)
{
	enum { FRAMES_MOST = 5 };
	auto_strv struct strv lines = { 0 }, frames = { 0 };
	strv_split(&lines, stack, "\n");
	for (size_t i = 0; i < lines.count && frames.count < FRAMES_MOST; i++) {
		const char *name = strstr(lines.items[i], "] ");
		name = name ? name + 2 : lines.items[i];
		const char *module = strchr(name, ' ');
		strv_add(&frames, str_fmt("%.*s%s", (int)strcspn(name, "+ "), name, module ? module : ""));
	}
	return frames.count ? strv_join(&frames, ", ") : NULL;
}

int wedge_explain(const struct module_call *c, const char *what, const char *stack, const struct strv *lines,
		  struct err *err)
{
	auto_str char *frames = stack ? frames_of(stack) : NULL;
	auto_str char *log = lines->count ? strv_join(lines, " | ") : NULL;
	return err_set(err, E_WEDGED, "%s '%s': %s%s%.240s%s%s", c->verb, c->name, what, frames ? "; it is in " : "",
		       frames ? frames : "", log ? "; kernel: " : "", log ? log : "");
}

// Every architecture's die() numbers the oops: "Oops: 0002 [#1] PREEMPT SMP", "invalid opcode: 0000 [#1]".
static bool is_numbered(const char *line)
{
	const char *mark = strstr(line, " [#");
	return mark && isdigit((unsigned char)mark[3]);
}

bool wedge_oops(const struct strv *lines, struct strv *ret)
{
	static const char *const words[] = { "BUG: ", "kernel BUG at ", "Unable to handle kernel ", "RIP: ", "pc : " };
	bool is_oops = false;
	for (size_t i = 0; i < lines->count; i++) {
		bool is_numbered_line = is_numbered(lines->items[i]), is_told = is_numbered_line;
		for (size_t w = 0; w < ARRAY_SIZE(words); w++)
			is_told = is_told || str_starts(lines->items[i], words[w]);
		if (is_told)
			strv_add(ret, str_dup(lines->items[i]));
		is_oops = is_oops || is_numbered_line;
	}
	return is_oops;
}

// That some task oopsed in this boot (TAINT_DIE of the kernel's include/linux/panic.h).
static bool is_tainted(const struct root *kern)
{
	enum { TAINT_DIE = 1 << 7 };
	struct err ignored;
	auto_str char *value = NULL;
	return root_line(kern, "proc/sys/kernel/tainted", &value, &ignored) > 0 &&
	       (strtoul(value, NULL, 10) & TAINT_DIE);
}

static int report_died(const struct module_call *c, bool was_tainted, pid_t child, const struct strv *lines,
		       struct err *err)
{
	auto_strv struct strv told = { 0 };
	bool is_oops = wedge_oops(lines, &told);
	if (!is_oops && !(is_tainted(c->kern) && (!was_tainted || c->log < 0)))
		return err_set(err, EINTR, "%s '%s': its process %d was killed, and the kernel log has no oops",
			       c->verb, c->name, (int)child);
	auto_str char *what = str_fmt("the kernel oopsed in it and killed process %d", (int)child);
	return wedge_explain(c, what, NULL, &told, err);
}

static int report_late(const struct module_call *c, pid_t child, const char *stack, const struct strv *lines,
		       struct err *err)
{
	auto_str char *what = str_fmt("the kernel did not return within %g s; process %d is stuck in it",
				      c->timeout_ms / 1e3, (int)child);
	return wedge_explain(c, what, stack, lines, err);
}

int wedge_guard(const struct module_call *c, struct strv *lines, int *ret_error, struct err *err)
{
	struct bounded_result result;
	struct err ignored; // without the right to read the stack the rest still tells enough
	auto_str char *stack = NULL;
	bool was_tainted = is_tainted(c->kern);
	if (bounded_call(c->call, c->ctx, c->timeout_ms, &result, err) < 0)
		return err_wrap(err, "%s '%s'", c->verb, c->name);
	if (result.end == BOUNDED_LATE) {
		auto_str char *path = str_fmt("proc/%d/stack", (int)result.child);
		root_read(c->kern, path, &stack, NULL, &ignored);
	}
	load_log_lines(c->log, lines);
	if (result.end == BOUNDED_LATE)
		return report_late(c, result.child, stack, lines, err);
	if (result.end == BOUNDED_DIED)
		return report_died(c, was_tainted, result.child, lines, err);
	*ret_error = result.error;
	return 0;
}
