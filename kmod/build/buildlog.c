// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/buildlog.h"

#include "base/file/file.h"
#include "kmod/sandbox/sandbox.h"

#include <regex.h>

// Nearest to the cause first. The compiler's own line says file and line; make's last words say nothing but a name.
static const struct {
	unsigned rank;
	const char *regex;
} errors[] = {
	{ 0, "^[^ :]+:[0-9]+:([0-9]+:)? *(fatal |internal )?error: " },
	{ 0, "No space left on device" },
	{ 1, "^ERROR: modpost: " },
	{ 1, ": undefined reference to " },
	{ 1, "^[^ :]*(cc1|gcc|clang|ld|objtool|modpost)[^ :/]*: (fatal )?error: " },
	{ 1, "^[^ :]*ld(\\.bfd|\\.lld)?: " },
	{ 2, "^(/bin/)?(sh|bash): " },
	{ 2, "No rule to make target " },
	{ 2, ": (Permission denied|No such file or directory)$" },
	{ 3, "^\\*\\*\\* " },
	{ 4, "^make(\\[[0-9]+\\])?: \\*\\*\\* " },
};

// The first real error in a line of compiler or make output; NULL = the line has none. rank: the lower, the nearer to
// the cause (a compiler's "file:line: error", then modpost and linker, then make's own "*** ...").
static char *find_error(const char *line, unsigned *ret_rank)
{
	static const char source[] = SANDBOX_WORK "/src/";
	if (!strstr(line, ": ") && !strstr(line, "*** ")) // most lines: no need for expressions
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		regex_t compiled;
		if (regcomp(&compiled, errors[i].regex, REG_EXTENDED | REG_NOSUB) != 0)
			abort();
		bool is_match = regexec(&compiled, line, 0, NULL, 0) == 0;
		regfree(&compiled);
		if (!is_match)
			continue;
		*ret_rank = errors[i].rank;
		return str_dup(str_starts(line, source) ? line + strlen(source) : line);
	}
	return NULL;
}

// A compile must not fill the disk with its output.
static void write_log_line(struct buildlog *log, const char *line)
{
	static const char CUT[] = "[cut off: the compile says more than 64 MiB]";
	struct err ignored;
	size_t len = strlen(line) + 1;
	if (log->fd < 0 || log->written > BUILDLOG_MOST)
		return;
	log->written += len;
	if (log->written > BUILDLOG_MOST)
		line = CUT;
	file_write(log->fd, "the log", line, strlen(line), &ignored);
	file_write(log->fd, "the log", "\n", 1, &ignored);
}

// Kbuild's line of one, or that of NVIDIA's own Makefiles: " [ nvidia            ]  CC           src/...".
static bool is_object(const char *line)
{
	const char *own = str_starts(line, " [ ") ? strstr(line, " ]  ") : NULL;
	return str_starts(line, "  CC [M]  ") || (own && (str_starts(own, " ]  CC ") || str_starts(own, " ]  CXX ")));
}

void buildlog_line(void *buildlog, const char *line)
{
	struct buildlog *log = buildlog;
	write_log_line(log, line);
	if (is_object(line)) {
		if (log->done < log->total)
			log->done++;
		if (log->progress)
			log->progress(log->ctx, log->done, log->total);
		return;
	}
	if (log->probe && str_starts(line, " CONFTEST: "))
		log->probe(log->probe_ctx);
	if (strstr(line, "Killed signal terminated program") || str_ends(line, "Error 137"))
		log->is_killed = true;
	unsigned rank = 0;
	auto_str char *error = find_error(line, &rank);
	if (error && (!log->error || rank < log->rank)) {
		free(log->error);
		log->error = TAKE(error);
		log->rank = rank;
	}
}

void buildlog_done(struct buildlog *log)
{
	free(log->error);
	log->error = NULL;
}
