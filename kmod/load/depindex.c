// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/depindex.h"

#include "kmod/module/elf.h"

#include <arpa/inet.h>

// From kmod's libkmod-index.h. What a node has is told by the number that leads to it.
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

// How far all names from `at` on are the same. They are sorted, so the first and the last tell.
static size_t common_prefix(const struct line *lines, size_t count, size_t at)
{
	const char *a = lines[0].name + at, *b = lines[count - 1].name + at;
	size_t n = 0;
	while (a[n] && a[n] == b[n])
		n++;
	return n;
}

static uint32_t put_index_node(struct output *o, const struct line *lines, size_t count, size_t at);

// The nodes below, and then where they are, by the character that leads to each; 0 = none does.
static void put_children(struct output *o, const struct line *lines, size_t count, size_t at, uint32_t where[128])
{
	for (size_t i = 0, n; i < count; i += n) {
		unsigned char c = (unsigned char)lines[i].name[at] & 127;
		for (n = 1; i + n < count && lines[i + n].name[at] == lines[i].name[at]; n++)
			;
		where[c] = put_index_node(o, lines + i, n, at + 1);
	}
}

static void put_where(struct output *o, const uint32_t where[128], unsigned char first, unsigned char last)
{
	put_raw(o, &first, 1);
	put_raw(o, &last, 1);
	for (unsigned c = first; c <= last; c++)
		put_number(o, where[c]);
}

// Its children come before a node, so that it can say where they are.
static uint32_t put_index_node(struct output *o, const struct line *lines, size_t count, size_t at)
{
	uint32_t where[128] = { 0 }, flags = 0;
	size_t prefix = common_prefix(lines, count, at), end = at + prefix, values = 0;
	while (values < count && !lines[values].name[end])
		values++;
	if (values < count)
		put_children(o, lines + values, count - values, end, where);
	uint32_t offset = (uint32_t)o->len;
	if (prefix) {
		put_raw(o, lines[0].name + at, prefix);
		put_raw(o, "", 1);
		flags |= PREFIX;
	}
	if (values < count) {
		put_where(o, where, (unsigned char)lines[values].name[end], (unsigned char)lines[count - 1].name[end]);
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

static bool is_ascii_name(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name > 127)
			return false;
	return true;
}

struct dep_index {
	struct line *lines;
	size_t count;
};

static void add_index_line(struct dep_index *x, char *take_name, const char *text)
{
	if (*take_name && is_ascii_name(take_name)) {
		x->lines = mem_grow(x->lines, x->count + 1, sizeof(*x->lines));
		x->lines[x->count] = (struct line){ .name = take_name, .text = text, .order = x->count };
		x->count++;
	} else {
		free(take_name);
	}
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
