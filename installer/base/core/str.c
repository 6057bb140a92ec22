// SPDX-License-Identifier: Apache-2.0
#include "base/core/str.h"

#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>

void *mem_alloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);
	if (!p)
		abort();
	return p;
}

void *mem_grow(void *p, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes))
		abort();
	p = realloc(p, bytes ? bytes : 1);
	if (!p)
		abort();
	return p;
}

char *str_dup(const char *s)
{
	char *copy = s ? strdup(s) : NULL;
	if (s && !copy)
		abort();
	return copy;
}

void str_set(char **to, const char *text)
{
	char *copy = str_dup(text);
	free(*to);
	*to = copy;
}

char *str_ndup(const char *s, size_t len)
{
	char *copy = mem_alloc(len + 1);
	memcpy(copy, s, len);
	return copy;
}

char *str_fmt(const char *fmt, ...)
{
	va_list args;
	char *s;
	va_start(args, fmt);
	if (vasprintf(&s, fmt, args) < 0)
		abort();
	va_end(args);
	return s;
}

void str_add(char **s, const char *fmt, ...)
{
	va_list args;
	auto_str char *more = NULL;
	va_start(args, fmt);
	if (vasprintf(&more, fmt, args) < 0)
		abort();
	va_end(args);
	size_t old = *s ? strlen(*s) : 0, add = strlen(more);
	*s = mem_grow(*s, old + add + 1, 1);
	memcpy(*s + old, more, add + 1);
}

char *str_trim(char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	for (char *end = s + strlen(s); end > s && isspace((unsigned char)end[-1]);)
		*--end = '\0';
	return s;
}

bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix)
{
	size_t len = strlen(s), tail = strlen(suffix);
	return len >= tail && memcmp(s + len - tail, suffix, tail) == 0;
}

int str_matches(const char *s, const char *regex)
{
	regex_t compiled;
	if (regcomp(&compiled, regex, REG_EXTENDED | REG_NOSUB) != 0)
		return -1;
	int r = regexec(&compiled, s, 0, NULL, 0) == 0;
	regfree(&compiled);
	return r;
}

bool str_u64(const char *s, int base, uint64_t *ret)
{
	if (!s || !isxdigit((unsigned char)*s))
		return false;
	char *end;
	errno = 0;
	unsigned long long value = strtoull(s, &end, base);
	if (errno || *end)
		return false;
	*ret = value;
	return true;
}

// strverscmp would take "010" for a fraction and put "6.12~rc1" after "6.12".
int str_version_cmp(const char *a, const char *b)
{
	static const char digits[] = "0123456789";
	const char *x = a, *y = b;
	while (*x || *y) {
		if (isdigit((unsigned char)*x) && isdigit((unsigned char)*y)) {
			x += strspn(x, "0");
			y += strspn(y, "0");
			size_t x_len = strspn(x, digits), y_len = strspn(y, digits);
			int r = x_len == y_len ? strncmp(x, y, x_len) : x_len > y_len ? 1 : -1;
			if (r)
				return r;
			x += x_len;
			y += y_len;
		} else if (*x == *y) {
			x++;
			y++;
		} else {
			return (*x == '~' ? -1 : (unsigned char)*x) - (*y == '~' ? -1 : (unsigned char)*y);
		}
	}
	return strcmp(a, b);
}

void strv_add(struct strv *v, char *take)
{
	v->items = mem_grow(v->items, v->count + 2, sizeof(*v->items));
	v->items[v->count++] = take;
	v->items[v->count] = NULL;
}

void strv_split(struct strv *v, const char *s, const char *separators)
{
	while (*(s += strspn(s, separators))) {
		size_t len = strcspn(s, separators);
		strv_add(v, str_ndup(s, len));
		s += len;
	}
}

bool strv_has(const struct strv *v, const char *s)
{
	for (size_t i = 0; i < v->count; i++)
		if (str_eq(v->items[i], s))
			return true;
	return false;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void strv_sort(struct strv *v)
{
	if (v->count)
		qsort(v->items, v->count, sizeof(*v->items), compare_strings);
}

bool strv_has_sorted(const struct strv *v, const char *s)
{
	return v->count && bsearch(&s, v->items, v->count, sizeof(*v->items), compare_strings);
}

char *strv_join(const struct strv *v, const char *separator)
{
	size_t len = 0, gap = strlen(separator);
	for (size_t i = 0; i < v->count; i++)
		len += strlen(v->items[i]) + gap;
	char *s = mem_alloc(len + 1), *at = s;
	for (size_t i = 0; i < v->count; i++) {
		at = i ? stpcpy(at, separator) : at;
		at = stpcpy(at, v->items[i]);
	}
	return s;
}

void strv_done(struct strv *v)
{
	for (size_t i = 0; i < v->count; i++)
		free(v->items[i]);
	free(v->items);
	*v = (struct strv){ 0 };
}

char *str_proc_value(const char *text, const char *key)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		char *colon = strchr(lines.items[i], ':');
		if (!colon)
			continue;
		*colon = '\0';
		if (str_eq(str_trim(lines.items[i]), key))
			return str_dup(str_trim(colon + 1));
	}
	return NULL;
}
