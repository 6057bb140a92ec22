// SPDX-License-Identifier: Apache-2.0
// Time one job done in two ways, in turn, so that both meet the same machine; print medians and their ratio, by the
// clock and in processor time, which other work on the machine disturbs less.
//   lap RUNS TITLE NAME PREPARE COMMANDS NAME PREPARE COMMANDS
// COMMANDS are separated by ';' and their words by blanks; there is no shell. PREPARE runs before each lap, untimed. A
// command that fails ends everything, except after a leading '-'. Standard output goes to lap.NAME in $TMPDIR.
// With $BENCH_WHERE there is a row for report.py, too; the first word of TITLE is the budget's.
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS_MOST = 99, WORDS_MOST = 64, SIDES = 2, ARGS_FIRST = 3, ARGS_PER_SIDE = 3 };

struct side {
	const char *name, *prepare, *commands;
	double ms[RUNS_MOST], cpu_ms[RUNS_MOST];
	int output;
};

extern char **environ;

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double cpu_ms(void) // of all children so far
{
	struct rusage u;
	getrusage(RUSAGE_CHILDREN, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static void run_one(char *command, int output)
{
	char *words[WORDS_MOST + 1] = { 0 }, *rest = NULL;
	int may_fail = *command == '-', count = 0, status = 0;
	for (char *w = strtok_r(command + may_fail, " ", &rest); w && count < WORDS_MOST;
	     w = strtok_r(NULL, " ", &rest))
		words[count++] = w;
	posix_spawn_file_actions_t files;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, output, 1);
	posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
	pid_t pid = -1;
	int problem = count ? posix_spawnp(&pid, words[0], &files, NULL, words, environ) : 0;
	posix_spawn_file_actions_destroy(&files);
	if (count && !problem)
		waitpid(pid, &status, 0);
	if (problem || (status && !may_fail)) {
		fprintf(stderr, "lap: %s %s: %s %d\n", words[0], words[1] ? words[1] : "",
			problem ? "cannot start," : "wait status", problem ? problem : status);
		exit(1);
	}
}

static void run_all(const char *commands, int output)
{
	char *copy = strdup(commands), *rest = NULL;
	for (char *c = strtok_r(copy, ";", &rest); c; c = strtok_r(NULL, ";", &rest))
		run_one(c + strspn(c, " "), output);
	free(copy);
}

static void lap(struct side *s, int run)
{
	run_all(s->prepare, s->output);
	double start = now_ms(), cpu_start = cpu_ms();
	run_all(s->commands, s->output);
	s->ms[run] = now_ms() - start;
	s->cpu_ms[run] = cpu_ms() - cpu_start;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *ms, int runs)
{
	qsort(ms, (size_t)runs, sizeof(*ms), compare);
	return runs % 2 ? ms[runs / 2] : (ms[runs / 2 - 1] + ms[runs / 2]) / 2;
}

static void show(const char *title, struct side *sides, int runs)
{
	double wall[SIDES], cpu[SIDES];
	for (int i = 0; i < SIDES; i++) {
		wall[i] = median(sides[i].ms, runs);
		cpu[i] = median(sides[i].cpu_ms, runs);
	}
	printf("%s\n", title);
	for (int i = 0; i < SIDES; i++)
		printf("    %-26s %8.1f ms (%.1f to %.1f), processor %.1f ms\n", sides[i].name, wall[i], sides[i].ms[0],
		       sides[i].ms[runs - 1], cpu[i]);
	printf("    %-26s %8.2f, processor %.2f\n", "ratio", wall[0] / wall[1], cpu[0] / cpu[1]);
	const char *where = getenv("BENCH_WHERE");
	int id = (int)strcspn(title, " ");
	if (!where)
		return;
	printf("row\t%.*s\t%s\t%s\tms", id, title, title + id + strspn(title + id, " "), where);
	for (int i = 0; i < SIDES; i++) {
		if (i)
			printf("\t%s", sides[i].name);
		printf("\t%.2f\t%.2f\t%.2f\t%.2f", wall[i], sides[i].ms[0], sides[i].ms[runs - 1], cpu[i]);
	}
	putchar('\n');
}

static int open_output(const char *name)
{
	char path[256];
	const char *dir = getenv("TMPDIR");
	snprintf(path, sizeof(path), "%s/lap.%s", dir ? dir : "/tmp", name);
	return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

int main(int argc, char **argv)
{
	struct side sides[SIDES];
	int runs = argc == ARGS_FIRST + SIDES * ARGS_PER_SIDE ? atoi(argv[1]) : 0;
	if (runs < 1 || runs > RUNS_MOST) {
		fprintf(stderr, "usage: lap RUNS TITLE NAME PREPARE COMMANDS NAME PREPARE COMMANDS\n");
		return 2;
	}
	for (int i = 0; i < SIDES; i++) {
		char **at = argv + ARGS_FIRST + ARGS_PER_SIDE * i;
		sides[i] = (struct side){ .name = at[0], .prepare = at[1], .commands = at[2] };
		sides[i].output = open_output(at[0]);
		lap(&sides[i], 0); // fills the caches, and is overwritten
	}
	for (int run = 0; run < runs; run++)
		for (int i = 0; i < SIDES; i++)
			lap(&sides[(run + i) % SIDES], run);
	show(argv[2], sides, runs);
	return 0;
}
