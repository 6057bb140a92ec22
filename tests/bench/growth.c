// SPDX-License-Identifier: Apache-2.0
// What growth.sh needs of C: the processor time and the peak memory of a command, and a crowd of idle processes.
//   growth run RUNS PREPARE COMMAND     medians: milliseconds of processor time, KiB of peak memory
//   growth crowd COUNT                  processes that do nothing; "ready" once all are there, gone with its input
// PREPARE and COMMAND are words separated by blanks; there is no shell. PREPARE runs before each lap, unmeasured, and
// may be empty. A command that fails ends everything, except after a leading '-'. What they print is thrown away.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNS_MOST = 99, WORDS_MOST = 64 };

extern char **environ;

// wait4() counts the process with all that it waited for: programs that the command starts are its cost, too.
static struct rusage run(const char *command)
{
	struct rusage used = { 0 };
	int may_fail = *command == '-', count = 0, status = 0;
	char *words[WORDS_MOST + 1] = { 0 }, *copy = strdup(command + may_fail), *rest = NULL;
	for (char *w = strtok_r(copy, " ", &rest); w && count < WORDS_MOST; w = strtok_r(NULL, " ", &rest))
		words[count++] = w;
	posix_spawn_file_actions_t files;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	pid_t pid = -1;
	int problem = count ? posix_spawnp(&pid, words[0], &files, NULL, words, environ) : 0;
	if (count && !problem)
		wait4(pid, &status, 0, &used);
	if (problem || (status && !may_fail)) {
		fprintf(stderr, "growth: %s: %s %d\n", command, problem ? "cannot start," : "wait status",
			problem ? problem : status);
		exit(1);
	}
	posix_spawn_file_actions_destroy(&files);
	free(copy);
	return used;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), compare);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void measure(int runs, const char *prepare, const char *command)
{
	double ms[RUNS_MOST], kib[RUNS_MOST];
	for (int i = -1; i < runs; i++) { // the first one fills the caches
		int at = i < 0 ? 0 : i;
		run(prepare);
		struct rusage used = run(command);
		ms[at] = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
			 (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
		kib[at] = (double)used.ru_maxrss;
	}
	printf("%.2f %.0f\n", median(ms, runs), median(kib, runs));
}

static int crowd(int count)
{
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();
		if (pid < 0) {
			perror("growth: fork");
			kill(0, SIGTERM);
		}
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	puts("ready");
	fflush(stdout);
	char byte;
	return read(0, &byte, 1) < 0;
}

int main(int argc, char **argv)
{
	int number = argc > 2 ? atoi(argv[2]) : 0;
	if (argc == 5 && strcmp(argv[1], "run") == 0 && number > 0 && number <= RUNS_MOST) {
		measure(number, argv[3], argv[4]);
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "crowd") == 0 && number > 0)
		return crowd(number);
	fprintf(stderr, "usage: growth run RUNS PREPARE COMMAND | growth crowd COUNT\n");
	return 2;
}
