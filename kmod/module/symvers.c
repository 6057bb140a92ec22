// SPDX-License-Identifier: Apache-2.0
// Entries in the order of adding, and an open-addressing hash of their indices. Strings live in blocks of the table:
// a whole Module.symvers is one block, cut up in place.
#include "kmod/module/symvers.h"

#include "base/archive/archive.h"
#include "base/file/file.h"

enum { BLOCK = 65536, TEXT_MAX = 64 << 20 };

struct block {
	struct block *next;
	size_t used, room;
	char text[];
};

struct symvers *symvers_new(void)
{
	return mem_alloc(sizeof(struct symvers));
}

void symvers_free(struct symvers *sv)
{
	if (!sv)
		return;
	for (struct block *b = sv->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(sv->items);
	free(sv->slots);
	free(sv);
}

static char *keep_string(struct symvers *sv, const char *s, size_t len)
{
	struct block *b = sv->blocks;
	if (!b || b->room - b->used < len + 1) {
		size_t room = len + 1 > BLOCK ? len + 1 : BLOCK;
		b = mem_alloc(sizeof(*b) + room);
		b->room = room;
		b->next = sv->blocks;
		sv->blocks = b;
	}
	char *copy = b->text + b->used;
	memcpy(copy, s, len);
	copy[len] = '\0';
	b->used += len + 1;
	return copy;
}

// The slot that holds name, or the free one where it belongs.
static uint32_t *find_slot(const struct symvers *sv, const char *name)
{
	uint32_t hash = 2166136261U; // FNV-1a
	for (const char *p = name; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619U;
	size_t mask = sv->slot_count - 1, at = (hash ^ hash >> 15) & mask;
	while (sv->slots[at] && !str_eq(sv->items[sv->slots[at] - 1].name, name))
		at = (at + 1) & mask;
	return &sv->slots[at];
}

static void fill_slots(struct symvers *sv)
{
	sv->slot_count = 2 * sv->room;
	free(sv->slots);
	sv->slots = mem_alloc(sv->slot_count * sizeof(*sv->slots));
	for (size_t i = 0; i < sv->count; i++)
		*find_slot(sv, sv->items[i].name) = (uint32_t)i + 1;
}

// Strings of symbol must live in blocks.
static void put_symbol(struct symvers *sv, const struct symver *symbol)
{
	if (sv->count == sv->room) {
		sv->room = sv->room ? 2 * sv->room : 256;
		sv->items = mem_grow(sv->items, sv->room, sizeof(*sv->items));
		fill_slots(sv);
	}
	uint32_t *place = find_slot(sv, symbol->name);
	if (*place)
		return;
	sv->items[sv->count++] = *symbol;
	*place = (uint32_t)sv->count;
}

void symvers_add(struct symvers *sv, const struct symver *symbol)
{
	struct symver copy = *symbol;
	const struct symver *last = sv->count ? &sv->items[sv->count - 1] : NULL;
	if (symvers_find(sv, symbol->name))
		return;
	copy.name = keep_string(sv, symbol->name, strlen(symbol->name));
	// Symbols come owner by owner, so the strings of the last one usually serve again.
	copy.owner = last && str_eq(last->owner, symbol->owner) ? last->owner :
								  keep_string(sv, symbol->owner, strlen(symbol->owner));
	copy.namespace = last && str_eq(last->namespace, symbol->namespace) ?
				 last->namespace :
				 keep_string(sv, symbol->namespace, strlen(symbol->namespace));
	put_symbol(sv, &copy);
}

void symvers_add_all(struct symvers *sv, const struct symvers *from)
{
	for (size_t i = 0; from && i < from->count; i++)
		symvers_add(sv, &from->items[i]);
}

// CRC \t symbol \t owner \t kind [\t namespace]; the line is cut up in place.
static bool parse_line(char *line, struct symver *ret)
{
	char *field[5] = { line, NULL, NULL, NULL, NULL };
	size_t count = 1;
	for (char *tab = strchr(line, '\t'); tab && count < 5; tab = strchr(tab + 1, '\t')) {
		*tab = '\0';
		field[count++] = tab + 1;
	}
	uint64_t crc;
	if (count < 4 || !str_starts(field[0], "0x") || !str_u64(field[0] + 2, 16, &crc) || crc > UINT32_MAX ||
	    !*field[1] || !*field[2] || !str_starts(field[3], "EXPORT_"))
		return false;
	*ret = (struct symver){ .name = field[1],
				.owner = field[2],
				.namespace = field[4] ? field[4] : "",
				.crc = (uint32_t)crc,
				.has_crc = crc != 0, // without modversions every CRC is written as zero
				.is_gpl = str_ends(field[3], "_GPL") };
	return true;
}

static int add_lines(struct symvers *sv, char *text, size_t len, const char *name, struct err *err)
{
	size_t number = 1;
	for (char *line = text, *end = text + len, *stop; line < end; line = stop + 1, number++) {
		struct symver symbol;
		stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop)
			stop = end;
		*stop = '\0';
		if (!*line)
			continue;
		if (!parse_line(line, &symbol))
			return err_set(err, E_HEADERS_MISMATCH, "%s: line %zu is not a symbol version: '%.80s'", name,
				       number, line);
		put_symbol(sv, &symbol);
	}
	return 0;
}

int symvers_add_text(struct symvers *sv, const char *text, size_t len, const char *name, struct err *err)
{
	size_t before = sv->count;
	if (add_lines(sv, keep_string(sv, text, len), len, name, err) == 0)
		return 0;
	if (sv->count > before) {
		sv->count = before;
		fill_slots(sv);
	}
	return -1;
}

int symvers_add_file(struct symvers *sv, int fd, const char *name, struct err *err)
{
	auto_str char *raw = NULL;
	auto_str char *text = NULL;
	size_t raw_len, len;
	if (file_read(fd, name, &raw, &raw_len, err) < 0)
		return -1;
	if (archive_inflate(raw, raw_len, TEXT_MAX, &text, &len, err) < 0)
		return err_wrap(err, "read '%s'", name);
	return symvers_add_text(sv, text, len, name, err);
}

const struct symver *symvers_find(const struct symvers *sv, const char *name)
{
	if (!sv || !sv->count)
		return NULL;
	uint32_t found = *find_slot(sv, name);
	return found ? &sv->items[found - 1] : NULL;
}
