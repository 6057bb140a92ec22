// SPDX-License-Identifier: Apache-2.0
// Strings, string lists and ownership.
//
// Ownership has one idiom: a variable declared auto_X is released at the end of its scope; TAKE(p) gives the value away
// and leaves NULL behind. Out of memory aborts: a driver installer that cannot get a few kilobytes has no better plan.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAKE(p)                             \
	__extension__({                     \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})
#define TAKE_FD(fd)                \
	__extension__({            \
		int taken_ = (fd); \
		(fd) = -1;         \
		taken_;            \
	})
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
// Of a label in an asm statement: not by way of the global offset table, where ld for arm64 (binutils 2.40) takes all
// labels of a section that only this file knows for one.
#define EMBEDDED __attribute__((visibility("hidden")))

static inline void free_charp(char **p)
{
	free(*p);
}
static inline void close_fdp(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define auto_str __attribute__((cleanup(free_charp)))
#define auto_fd __attribute__((cleanup(close_fdp)))

void *mem_alloc(size_t size);                       // zeroed, never NULL
void *mem_grow(void *p, size_t count, size_t size); // realloc of count * size, overflow-checked, never NULL
char *str_dup(const char *s);                       // NULL stays NULL
void str_set(char **to, const char *text);          // replaces *to by a copy; text may be NULL or *to itself
char *str_ndup(const char *s, size_t len);
char *str_fmt(const char *fmt, ...) PRINTF(1, 2);
void str_add(char **s, const char *fmt, ...) PRINTF(2, 3); // append; *s may be NULL
char *str_trim(char *s);                                   // in place: blanks at both ends
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
static inline const char *str_plural(uint64_t count) // the end of "package%s"
{
	return count == 1 ? "" : "s";
}
static inline bool str_eq(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

// Whole string as an unsigned number in the given base (0: by prefix). False on anything else, overflow included.
bool str_u64(const char *s, int base, uint64_t *ret);
// Returns the value of the first line "KEY: VALUE" of a text as in proc, blanks trimmed; NULL = none. Caller frees.
char *str_proc_value(const char *text, const char *key);

// Does some part of the text match an extended regular expression? -1 = regex is none.
int str_matches(const char *s, const char *regex);

// Natural order of versions and releases: runs of digits compare as numbers (6.1.0-9 < 6.1.0-50), and '~' comes before
// the end (6.12~rc1 < 6.12). 0 for equal strings only.
int str_version_cmp(const char *a, const char *b);

// A list of strings; zero-initialised is empty. items ends with NULL once something was added.
struct strv {
	char **items;
	size_t count;
};
void strv_add(struct strv *v, char *take);
void strv_split(struct strv *v, const char *s, const char *separators); // empty fields are dropped
bool strv_has(const struct strv *v, const char *s);
void strv_sort(struct strv *v);
bool strv_has_sorted(const struct strv *v, const char *s); // after strv_sort()
char *strv_join(const struct strv *v, const char *separator);
void strv_done(struct strv *v);
#define auto_strv __attribute__((cleanup(strv_done)))
