// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/helper.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// With glibc 2.34 dlopen() moved into libc.so.6 and the start of a program changed. Programs linked there need that
// version, and hosts with Linux 4.18 have 2.28. So the versions that the architecture began with are named, which newer
// ones keep; the Makefile adds libdl.so.2, where the functions were before and which newer ones have, empty.
#ifdef __x86_64__
#define OLDEST "GLIBC_2.2.5"
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall helper_start\n");
#else // arm64
#define OLDEST "GLIBC_2.17"
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tb helper_start\n");
#endif
__asm__(".symver dlopen, dlopen@" OLDEST "\n.symver dlsym, dlsym@" OLDEST "\n.symver dlerror, dlerror@" OLDEST
	"\n.symver __libc_start_main, __libc_start_main@" OLDEST);

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
		      void (*linker_fini)(void), void *stack_end);
void helper_start(long *stack);

void helper_at(const char *tag, const char *fmt, ...)
{
	char text[HELPER_TEXT];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	dprintf(STDOUT_FILENO, "%s\t%s\n", tag, text);
}

void helper_outcome(struct helper_gpu *gpu, const char *outcome, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(gpu->reason, sizeof(gpu->reason), fmt, args);
	va_end(args);
	gpu->outcome = outcome;
}

void helper_note(struct helper_gpu *gpu, const char *fmt, ...)
{
	size_t len = strlen(gpu->note);
	va_list args;
	if (len && len + 2 < sizeof(gpu->note)) {
		memcpy(gpu->note + len, "; ", 3);
		len += 2;
	}
	va_start(args, fmt);
	vsnprintf(gpu->note + len, sizeof(gpu->note) - len, fmt, args);
	va_end(args);
}

static void add_text(char *line, size_t size, const char *key, const char *value)
{
	size_t len = strlen(line);
	if (!*value)
		return;
	snprintf(line + len, size - len, "\t%s=", key);
	for (len = strlen(line); *value && len + 1 < size; value++)
		line[len++] = *value == '\t' || *value == '\n' ? ' ' : *value;
	line[len] = '\0';
}

static void add_number(char *line, size_t size, const char *key, int value)
{
	size_t len = strlen(line);
	if (value >= 0)
		snprintf(line + len, size - len, "\t%s=%d", key, value);
}

void helper_print(const struct helper_gpu *gpu)
{
	char line[3 * HELPER_TEXT];
	snprintf(line, sizeof(line), "gpu\t%s\t%s", gpu->address, gpu->outcome);
	add_text(line, sizeof(line), "uuid", gpu->uuid);
	add_text(line, sizeof(line), "name", gpu->name);
	add_number(line, sizeof(line), "mig", gpu->mig);
	add_number(line, sizeof(line), "compute_mode", gpu->compute_mode);
	add_number(line, sizeof(line), "fabric", gpu->fabric);
	add_number(line, sizeof(line), "recovery", gpu->recovery);
	add_number(line, sizeof(line), "reset_due", gpu->reset_due);
	add_text(line, sizeof(line), "note", gpu->note);
	add_text(line, sizeof(line), "reason", gpu->reason);
	dprintf(STDOUT_FILENO, "%s\n", line);
}

void *helper_load(const char *dir, const char *name, const char *version)
{
	char path[4096];
	struct helper_gpu all = HELPER_GPU("*");
	snprintf(path, sizeof(path), "%s/%s.%s", dir, name, version);
	helper_at("at", "load %s", path);
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (lib)
		return lib;
	const char *why = dlerror();
	helper_outcome(&all, "untested", "the library cannot be loaded: %s", why ? why : path);
	helper_print(&all);
	return NULL;
}

void *helper_find(void *lib, const char *function)
{
	return dlsym(lib, function);
}

static int helper_main(int argc, char **argv, char **env)
{
	(void)env;
	if (argc >= 5 && strcmp(argv[1], "answer") == 0)
		helper_answer(argv[2], argv[3], argv + 4);
	else if (argc == 7 && strcmp(argv[1], "compute") == 0)
		helper_compute(argv[2], argv[3], argv[4], argv[5], *argv[6] == '1');
	else
		_exit(2);
	_exit(0); // what the libraries would do at exit() may hang, and the kernel gives back all they have
}

__attribute__((used, visibility("hidden"))) void helper_start(long *stack)
{
	__libc_start_main(helper_main, (int)*stack, (char **)(stack + 1), NULL, NULL, NULL, stack);
}
