// SPDX-License-Identifier: Apache-2.0
// Compiled into a mutated copy of the product (mutate.py): which mutant is switched on, and which ones are reached.
//   MUTANT=N            number N runs in place of the original
//   MUTANT_TRACE=FILE   the number of each mutant that is reached is added to FILE, once a process
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int mutant_is(unsigned id);

static unsigned active;
static const char *trace;
static unsigned char seen[1 << 16];

__attribute__((constructor(101))) static void read_environment(void)
{
	const char *text = getenv("MUTANT");
	active = text ? (unsigned)strtoul(text, NULL, 10) : 0;
	trace = getenv("MUTANT_TRACE");
}

// Opened anew each time: a test may count its descriptors, or close them all.
static void tell(unsigned id)
{
	char line[16];
	int len = snprintf(line, sizeof(line), "%u\n", id),
	    fd = open(trace, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	if (write(fd, line, (size_t)len) != len)
		abort();
	close(fd);
}

int mutant_is(unsigned id)
{
	if (trace && id < sizeof(seen) && !seen[id]) {
		seen[id] = 1;
		tell(id);
	}
	return id == active;
}
