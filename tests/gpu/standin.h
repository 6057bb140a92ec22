// SPDX-License-Identifier: Apache-2.0
// Stand-ins for NVIDIA's libraries, which do as the file "behaviour" in the directory of LD_LIBRARY_PATH says, in lines
// of a word and what is to be done for it:
//
//   nvmlInit_v2 9            this function returns 9
//   0000:3b:00.0 hang        what is asked about this GPU: hang, crash, exit, flood, cut, fork, or an error's number
//   load crash               the same, when the library is loaded
//   recovery 1               a fact
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What stands for a word; NULL = nothing.
static const char *behaviour(const char *word)
{
	static char text[4096];
	char path[4096];
	size_t len = strlen(word);
	const char *dir = getenv("LD_LIBRARY_PATH");
	snprintf(path, sizeof(path), "%s/behaviour", dir ? dir : "");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (strncmp(line, word, len) == 0 && line[len] == ' ')
			return line + len + 1;
	return NULL;
}

static unsigned fact(const char *word, unsigned otherwise)
{
	const char *value = behaviour(word);
	return value ? (unsigned)atoi(value) : otherwise;
}

// Our pid in the file "pid" of that directory.
static void hang(void)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/pid", getenv("LD_LIBRARY_PATH"));
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	dprintf(fd, "%d", (int)getpid());
	close(fd);
	for (;;)
		pause();
}

static void start_child(void)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/pid", getenv("LD_LIBRARY_PATH"));
	if (fork() == 0)
		hang();
	while (access(path, F_OK) < 0)
		usleep(1000);
}

// What a function returns for a word.
static int act(const char *word)
{
	const char *what = behaviour(word);
	if (!what)
		return 0;
	if (strcmp(what, "hang") == 0)
		hang();
	if (strcmp(what, "fork") == 0)
		start_child();
	if (strcmp(what, "crash") == 0)
		raise(SIGSEGV);
	if (strcmp(what, "exit") == 0) {
		dprintf(2, "the library gives up\n");
		_exit(3);
	}
	if (strcmp(what, "cut") == 0) {
		dprintf(1, "gpu\t0000:3b:00.0\twor");
		_exit(0);
	}
	if (strcmp(what, "flood") == 0)
		for (;;)
			dprintf(1, "a line of no use, and then the same line once more\n");
	return atoi(what);
}

__attribute__((constructor)) static void load(void)
{
	act("load");
}
