// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/buildlog.h"

#include "base/file/file.h"
#include "kmod/sandbox/sandbox.h"

#include <regex.h>

// Nearest to the cause first. The compiler's own line says file and line, and full disks and memory end whatever runs;
// then the linker and the programs of the kernel's scripts/; then what could not be started or died; make's last words
// say nothing but a name.
static const char *const errors[] = {
	"^[^ :]+:[0-9]+:([0-9]+:)? *(fatal |internal compiler )?error: "
	"|^([{]standard input[}]|[^ :]+):([0-9]+:)? (Fatal e|E)rror: " // of the assembler
	"|(No space left on device|Disk quota exceeded|File size limit exceeded)"
	"|^([^ :]+( ERROR)?: )?(virtual memory exhausted|out of memory)|^[a-z]+: Cannot allocate memory$",
	"^(  |[*]{3} +)?(ERROR:|FATAL:|FAILED:?) |: undefined reference to "
	"|^[^ :]+:[0-9]+: (syntax error|(export|expand) undefined |redefinition of )" // genksyms
	"|^unrecognized (ELF|ET_REL|e_machine) "                                      // recordmcount
	"|^([^ :]+: )?error: [a-z_-]+: "                                              // objtool and gendwarfksyms
	"|^[^ :]*(cc1|gcc|clang|ld|collect2)[^ :/]*: (fatal |internal compiler )?error: "
	"|^[^ :]*ld([.](bfd|lld|gold))?(-[0-9]+)?: "
	"|^[^ :]*(fixdep|genksyms|gendwarfksyms|objtool|modpost|pahole|resolve_btfids|recordmcount): "
	"|: error while loading shared libraries: |: version `[^']+' not found \\(required by ",
	"^(/bin/)?(sh|bash): |No rule to make target |^[^ :]+:[0-9]+: [*]{3} .*Stop[.]$" // $(error) of a makefile
	"|^(Segmentation fault|Aborted|Bus error|Illegal instruction|Killed)"
	"|: (Permission denied|No such file or directory)$",
	"^[*]{3} ",
	"^make([[][0-9]+[]])?: [*]{3} ",
};

// The first real error in a line of compiler or make output; NULL = the line has none. rank: the lower, the nearer to
// the cause.
static char *find_error(const char *line, unsigned *ret_rank)
{
	static const char source[] = SANDBOX_WORK "/src/";
	if (!strstr(line, ": ") && !strstr(line, "*** ") &&
	    !strchr("ABFIKSou", *line)) // most lines need no expressions
		return NULL;
	for (unsigned i = 0; i < ARRAY_SIZE(errors); i++) {
		regex_t compiled;
		if (regcomp(&compiled, errors[i], REG_EXTENDED | REG_NOSUB) != 0)
			abort();
		bool is_match = regexec(&compiled, line, 0, NULL, 0) == 0;
		regfree(&compiled);
		if (!is_match || (i > 0 && strstr(line, "warning: ")))
			continue;
		*ret_rank = i;
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
	if (strstr(line, "Killed signal terminated program") || strstr(line, " terminated with signal 9 ") ||
	    str_ends(line, "Error 137") || str_ends(line, "] Killed"))
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
