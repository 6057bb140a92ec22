// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/depindex.h"

#include "kmod/module/elf.h"

#include <arpa/inet.h>

// From kmod's libkmod-index.h. The number that leads to a node has flags for what the node contains.
static const uint32_t MAGIC = 0xB007F457, VERSION = 0x00020001, PREFIX = 0x80000000, VALUES = 0x40000000,
		      CHILDREN = 0x20000000;
enum { ROOT_AT = 8 };

struct line {
	char *name;
	const char *text; // what it leads to
	size_t order;
};

struct output {
	char *data;
	size_t len;
};

char *depindex_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *end = strstr(base, ".ko");
	auto_str char *name = end ? str_ndup(base, (size_t)(end - base)) : str_dup(base);
	return module_kernel_name(name);
}

static void put_raw(struct output *o, const void *data, size_t len)
{
	o->data = mem_grow(o->data, o->len + len, 1);
	memcpy(o->data + o->len, data, len);
	o->len += len;
}

static void put_number(struct output *o, uint32_t number)
{
	number = htonl(number);
	put_raw(o, &number, sizeof(number));
}

// A node's children come before it, so that it can say where they are.
static uint32_t put_index_node(struct output *o, const struct line *lines, size_t count, size_t at)
{
	uint32_t where[128] = { 0 }, flags = 0;
	const char *first = lines[0].name, *last = lines[count - 1].name;
	size_t end = at, values = 0;
	while (first[end] && first[end] == last[end]) // they are sorted, so all have this prefix
		end++;
	while (values < count && !lines[values].name[end])
		values++;
	for (size_t i = values, n; i < count; i += n) {
		for (n = 1; i + n < count && lines[i + n].name[end] == lines[i].name[end]; n++)
			;
		where[(unsigned char)lines[i].name[end] & 127] = put_index_node(o, lines + i, n, end + 1);
	}
	uint32_t offset = (uint32_t)o->len;
	if (end > at) {
		put_raw(o, first + at, end - at);
		put_raw(o, "", 1);
		flags |= PREFIX;
	}
	if (values < count) {
		unsigned char from = (unsigned char)lines[values].name[end], to = (unsigned char)last[end];
		put_raw(o, &from, 1);
		put_raw(o, &to, 1);
		for (unsigned c = from; c <= to; c++)
			put_number(o, where[c]);
		flags |= CHILDREN;
	}
	if (values) {
		put_number(o, (uint32_t)values);
		flags |= VALUES;
	}
	for (size_t i = 0; i < values; i++) {
		put_number(o, (uint32_t)lines[i].order); // priority, among all that match
		put_raw(o, lines[i].text, strlen(lines[i].text) + 1);
	}
	return offset | flags;
}

static int compare_lines(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	int r = strcmp(x->name, y->name);
	return r != 0 ? r : x->order < y->order ? -1 : x->order > y->order;
}

struct dep_index {
	struct line *lines;
	size_t count;
};

static void add_index_line(struct dep_index *x, char *take_name, const char *text)
{
	auto_str char *name = take_name;
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p > 127)
			return;
	if (!*name)
		return;
	x->lines = mem_grow(x->lines, x->count + 1, sizeof(*x->lines));
	x->lines[x->count] = (struct line){ .name = TAKE(name), .text = text, .order = x->count };
	x->count++;
}

static char *finish_index(struct dep_index *x, size_t *ret_len)
{
	struct output o = { 0 };
	if (x->count)
		qsort(x->lines, x->count, sizeof(*x->lines), compare_lines);
	put_number(&o, MAGIC);
	put_number(&o, VERSION);
	put_number(&o, 0);
	uint32_t root = htonl(x->count ? put_index_node(&o, x->lines, x->count, 0) : 0);
	memcpy(o.data + ROOT_AT, &root, sizeof(root));
	for (size_t i = 0; i < x->count; i++)
		free(x->lines[i].name);
	free(x->lines);
	*ret_len = o.len;
	return o.data;
}

char *depindex_make(const struct strv *from, size_t *ret_len)
{
	struct dep_index x = { 0 };
	for (size_t i = 0; i < from->count; i++) {
		auto_str char *path = str_ndup(from->items[i], strcspn(from->items[i], ":"));
		add_index_line(&x, depindex_name(path), from->items[i]);
	}
	return finish_index(&x, ret_len);
}

// '-' and '_' are the same to modprobe, except in a set of characters (alias_normalize of libkmod-util.c).
static char *normalize_alias(const char *alias, size_t len)
{
	bool is_set = false;
	char *ret = str_ndup(alias, len);
	for (char *p = ret; *p; p++) {
		is_set = *p == '[' || (is_set && *p != ']');
		*p = *p == '-' && !is_set ? '_' : *p;
	}
	return ret;
}

char *depindex_aliases(const struct strv *from, size_t *ret_len)
{
	static const char ALIAS[] = "alias ";
	struct dep_index x = { 0 };
	for (size_t i = 0; i < from->count; i++) {
		const char *alias = from->items[i] + strlen(ALIAS);
		const char *module = str_starts(from->items[i], ALIAS) ? strchr(alias, ' ') : NULL;
		if (module)
			add_index_line(&x, normalize_alias(alias, (size_t)(module - alias)), module + 1);
	}
	return finish_index(&x, ret_len);
}
