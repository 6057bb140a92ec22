// SPDX-License-Identifier: Apache-2.0
// Compiled into a mutated copy of the product (mutate.py): which mutant is switched on, and which ones are reached.
//   MUTANT=N            number N runs in place of the original
//   MUTANT_TRACE=FILE   byte N of FILE becomes 1 when mutant N is reached
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int mutant_is(unsigned id);

#define MOST 4096u // mutants of a run

static unsigned active;
static unsigned char *reached;

// The file is mapped, so that a mutant that is reached makes no system call: some tests count them.
__attribute__((constructor(101))) static void read_environment(void)
{
	const char *text = getenv("MUTANT"), *trace = getenv("MUTANT_TRACE");
	active = text ? (unsigned)strtoul(text, NULL, 10) : 0;
	if (!trace)
		return;
	int fd = open(trace, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	void *map = MAP_FAILED;
	if (fd >= 0 && ftruncate(fd, MOST) == 0)
		map = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (map != MAP_FAILED)
		reached = map;
}

int mutant_is(unsigned id)
{
	if (reached && id < MOST)
		reached[id] = 1;
	return id == active;
}
