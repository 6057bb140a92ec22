// SPDX-License-Identifier: Apache-2.0
#include "kmod/forkserver/forkserver.h"

#include "base/file/copy.h"

#define LOG FORKSERVER_DIR "/log"
enum { LOG_BYTES = 1 << 20, SERVERS = 48, FEWEST = 4, SERVER_BYTES = 64 << 20 };

// The library and the check are in the program.
__asm__(".pushsection .rodata\n"
	"forkserver_library: .incbin \"" FORKSERVER_LIBRARY "\"\nforkserver_library_end:\n"
	"forkserver_check: .incbin \"kmod/forkserver/check.sh\"\nforkserver_check_end:\n.popsection");
extern const char forkserver_library[] EMBEDDED, forkserver_library_end[] EMBEDDED;
extern const char forkserver_check[] EMBEDDED, forkserver_check_end[] EMBEDDED;

int forkserver_prepare(const struct root *job, struct err *err)
{
	size_t library = (size_t)((uintptr_t)forkserver_library_end - (uintptr_t)forkserver_library),
	       check = (size_t)((uintptr_t)forkserver_check_end - (uintptr_t)forkserver_check);
	if (root_rmtree(job, FORKSERVER_DIR, err) < 0 || root_mkdirs(job, FORKSERVER_DIR, 0755, err) < 0 ||
	    root_put(job, FORKSERVER_DIR "/preload.so", forkserver_library, library, 0755, err) < 0)
		return -1;
	return root_put(job, FORKSERVER_CHECK, forkserver_check, check, 0755, err);
}

unsigned forkserver_most(uint64_t bytes)
{
	uint64_t fitting = bytes / SERVER_BYTES;
	return fitting >= SERVERS ? SERVERS : fitting >= FEWEST ? (unsigned)fitting : 0;
}

size_t forkserver_count(const struct root *job)
{
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	struct err absent;
	size_t count = 0;
	if (job->fd < 0 || root_read_most(job, LOG, LOG_BYTES, &text, NULL, &absent) <= 0)
		return 0;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++)
		count += str_eq(lines.items[i], "forked");
	return count;
}
