// SPDX-License-Identifier: Apache-2.0
// One byte after the other through a stack of open containers. Each level has the rows of the table that still fit the
// keys down to it, as a set of bits; a value whose set is empty is passed over.
#include "base/formats/json_stream.h"

#include <ctype.h>

enum { DEPTH = 64, KEY_MAX = 320 };

struct level {
	bool is_array, is_record_list;
	bool is_whole;   // everything in here is kept
	bool has_output; // a comma precedes the next value
	uint32_t rows;   // of the table that fit so far
	unsigned keys;   // of them
};

enum state { VALUE, FIRST_KEY, KEY, COLON, AFTER, STRING, WORD };

struct text {
	char *data;
	size_t len, room;
};

struct json_stream {
	struct json_stream_table table;
	int (*take)(void *ctx, json_t *record, struct err *err);
	void *ctx;
	struct strv paths[2][JSON_STREAM_PATHS]; // of a record, of the rest
	struct level levels[DEPTH];
	unsigned depth, base; // base: depth at which the record began
	enum state state;
	unsigned line, lists;                        // lines that ended; lists of records that began
	bool in_record, is_key, is_escaped, is_kept; // kept: the value that is being read
	uint32_t rows;                               // for the value that comes next
	unsigned keys;
	bool is_whole;
	char key[KEY_MAX + 1];
	size_t key_len;
	struct text record, rest;
};

static uint32_t all_rows(const struct strv *paths)
{
	uint32_t rows = 0;
	for (unsigned i = 0; i < JSON_STREAM_PATHS; i++)
		rows |= paths[i].count ? 1u << i : 0;
	return rows;
}

static void begin_document(struct json_stream *s)
{
	s->state = VALUE;
	s->depth = s->base = s->keys = 0;
	s->in_record = !s->table.list;
	s->is_whole = false;
	s->rows = all_rows(s->paths[!s->in_record]);
}

struct json_stream *json_stream_new(const struct json_stream_table *table,
				    int (*take)(void *ctx, json_t *record, struct err *err), void *ctx)
{
	struct json_stream *s = mem_alloc(sizeof(*s));
	*s = (struct json_stream){ .table = *table, .take = take, .ctx = ctx };
	for (size_t i = 0; i < JSON_STREAM_PATHS && table->record && table->record[i]; i++)
		strv_split(&s->paths[0][i], table->record[i], " ");
	for (size_t i = 0; i < JSON_STREAM_PATHS && table->rest && table->rest[i]; i++)
		strv_split(&s->paths[1][i], table->rest[i], " ");
	begin_document(s);
	return s;
}

void json_stream_free(struct json_stream *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < JSON_STREAM_PATHS; i++) {
		strv_done(&s->paths[0][i]);
		strv_done(&s->paths[1][i]);
	}
	free(s->record.data);
	free(s->rest.data);
	free(s);
}

static int unexpected_byte(const struct json_stream *s, char c, struct err *err)
{
	return err_set(err, E_SERVER, "not valid JSON: byte 0x%02x where %s is expected, %u levels deep",
		       (unsigned char)c,
		       s->state == VALUE ? "a value" :
		       s->state == COLON ? "a colon" :
		       s->state == AFTER ? "a comma or an end" :
					   "a key",
		       s->depth);
}

static int keep_bytes(struct json_stream *s, const char *data, size_t len, struct err *err)
{
	struct text *t = s->in_record ? &s->record : &s->rest;
	if (t->len + len > JSON_STREAM_RECORD_MAX)
		return err_set(err, E_TOO_LARGE, "an object has more than the %u bytes allowed",
			       (unsigned)JSON_STREAM_RECORD_MAX);
	if (t->len + len > t->room) {
		t->room = (t->len + len) * 2;
		t->data = mem_grow(t->data, t->room, 1);
	}
	memcpy(t->data + t->len, data, len);
	t->len += len;
	return 0;
}

// The key has ended: which rows fit one key more; is_whole when one of them ends with it.
static void end_key(struct json_stream *s)
{
	const struct level *l = &s->levels[s->depth - 1];
	const struct strv *paths = s->paths[!s->in_record];
	bool is_known = s->key_len <= KEY_MAX; // longer ones than Kubernetes knows are passed over
	s->key[is_known ? s->key_len : 0] = '\0';
	s->state = COLON;
	s->rows = 0;
	s->keys = l->keys + 1;
	s->is_whole = l->is_whole && is_known;
	for (uint32_t left = is_known ? l->rows : 0; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);
		if (paths[i].count < s->keys)
			continue;
		const char *pattern = paths[i].items[s->keys - 1];
		size_t len = strlen(pattern);
		if (len && pattern[len - 1] == '*' ? strncmp(pattern, s->key, len - 1) != 0 : !str_eq(pattern, s->key))
			continue;
		s->rows |= 1u << i;
		s->is_whole = s->is_whole || paths[i].count == s->keys;
	}
}

// Is the value that begins with c kept? Of a row that goes on only a container can be.
static bool is_value_kept(const struct json_stream *s, char c)
{
	return s->is_whole || (s->rows && (c == '{' || c == '['));
}

// The comma and the key before a value that is kept.
static int keep_prefix(struct json_stream *s, struct err *err)
{
	if (s->depth == s->base)
		return 0;
	struct level *l = &s->levels[s->depth - 1];
	if (l->has_output && keep_bytes(s, ",", 1, err) < 0)
		return -1;
	l->has_output = true;
	if (l->is_array)
		return 0;
	return keep_bytes(s, "\"", 1, err) < 0 || keep_bytes(s, s->key, s->key_len, err) < 0 ||
			       keep_bytes(s, "\":", 2, err) < 0 ?
		       -1 :
		       0;
}

// A value has ended: what follows it, and whether it was a record.
static int end_value(struct json_stream *s, struct err *err)
{
	s->state = AFTER;
	if (s->in_record && s->depth == s->base) {
		json_error_t problem;
		auto_json json_t *record = json_loadb(s->record.data, s->record.len, JSON_REJECT_DUPLICATES, &problem);
		s->record.len = 0;
		if (!record)
			return err_set(err, E_SERVER, "an object is not valid JSON: %s", problem.text);
		if (s->take(s->ctx, record, err) < 0)
			return -1;
		s->in_record = !s->table.list;
		s->base = 0;
	}
	if (s->depth == 0 && !s->table.list)
		begin_document(s);
	return 0;
}

static int begin_container(struct json_stream *s, char c, struct err *err)
{
	if (s->depth == DEPTH)
		return err_set(err, E_SERVER, "nested more than %d levels deep", DEPTH);
	struct level *l = &s->levels[s->depth];
	*l = (struct level){ .is_array = c == '[', .is_whole = s->is_whole, .rows = s->rows, .keys = s->keys };
	if (s->table.list && !s->in_record && s->depth == 1 && c == '[' && str_eq(s->key, s->table.list)) {
		*l = (struct level){ .is_array = true, .is_record_list = true };
		s->lists++;
	}
	s->rows = l->rows;
	s->is_whole = l->is_whole;
	s->is_kept = is_value_kept(s, c);
	if (s->is_kept && (keep_prefix(s, err) < 0 || keep_bytes(s, &c, 1, err) < 0))
		return -1;
	if (!s->is_kept)
		l->rows = 0;
	s->depth++;
	s->state = l->is_array ? VALUE : FIRST_KEY;
	return 0;
}

static bool is_level_kept(const struct level *l)
{
	return l->is_whole || l->rows;
}

static int end_container(struct json_stream *s, char c, struct err *err)
{
	if (s->depth == 0 || s->levels[s->depth - 1].is_array != (c == ']'))
		return unexpected_byte(s, c, err);
	const struct level *l = &s->levels[s->depth - 1];
	if (is_level_kept(l) && keep_bytes(s, &c, 1, err) < 0)
		return -1;
	s->depth--;
	return end_value(s, err);
}

static int begin_value(struct json_stream *s, char c, struct err *err)
{
	const struct level *l = s->depth ? &s->levels[s->depth - 1] : NULL;
	if (l && l->is_array) {
		s->rows = l->rows;
		s->keys = l->keys;
		s->is_whole = l->is_whole;
	}
	if (s->depth == 2 && s->levels[1].is_record_list && c == '{') {
		s->in_record = true;
		s->base = s->depth;
		s->rows = all_rows(s->paths[0]);
		s->keys = 0;
		s->is_whole = false;
	}
	if (c == '{' || c == '[')
		return begin_container(s, c, err);
	if (c != '"' && c != '-' && !isalnum((unsigned char)c))
		return unexpected_byte(s, c, err);
	if (s->depth == s->base)
		return err_set(err, E_SERVER, "another value where an object is expected");
	s->is_kept = is_value_kept(s, c);
	s->is_key = s->is_escaped = false;
	s->state = c == '"' ? STRING : WORD;
	return s->is_kept ? (keep_prefix(s, err) < 0 ? -1 : keep_bytes(s, &c, 1, err)) : 0;
}

static int in_string(struct json_stream *s, char c, struct err *err)
{
	bool is_end = c == '"' && !s->is_escaped;
	s->is_escaped = c == '\\' && !s->is_escaped;
	if (s->is_key && is_end) {
		end_key(s);
		return 0;
	}
	if (s->is_key) {
		if (s->key_len < KEY_MAX)
			s->key[s->key_len] = c;
		s->key_len += s->key_len <= KEY_MAX;
		return 0;
	}
	if (s->is_kept && keep_bytes(s, &c, 1, err) < 0)
		return -1;
	return is_end ? end_value(s, err) : 0;
}

static int feed_byte(struct json_stream *s, char c, struct err *err)
{
	if (s->state == STRING)
		return in_string(s, c, err);
	if (s->state == WORD && (isalnum((unsigned char)c) || c == '+' || c == '-' || c == '.'))
		return s->is_kept ? keep_bytes(s, &c, 1, err) : 0;
	if (s->state == WORD && end_value(s, err) < 0)
		return -1;
	if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
		s->line += c == '\n';
		return 0;
	}
	const struct level *l = s->depth ? &s->levels[s->depth - 1] : NULL;
	switch (s->state) {
	case VALUE: // that of an array that has none is its end
		return c == ']' && l && l->is_array ? end_container(s, c, err) : begin_value(s, c, err);
	case FIRST_KEY:
		if (c == '}')
			return end_container(s, c, err);
		// fall through
	case KEY:
		if (c != '"')
			return unexpected_byte(s, c, err);
		s->is_key = true;
		s->is_escaped = false;
		s->key_len = 0;
		s->state = STRING;
		return 0;
	case COLON:
		if (c != ':')
			return unexpected_byte(s, c, err);
		s->state = VALUE;
		return 0;
	default:
		if (c == '}' || c == ']')
			return end_container(s, c, err);
		if (c != ',' || !l)
			return unexpected_byte(s, c, err);
		s->state = l->is_array ? VALUE : KEY;
		return 0;
	}
}

// The length of what can be skipped or kept whole: in a string, or in a key of an object of which nothing is kept.
static size_t plain_run(const struct json_stream *s, const char *p, size_t len)
{
	if (s->state != STRING || s->is_escaped)
		return 0;
	if (s->is_key && (is_level_kept(&s->levels[s->depth - 1]) || (s->table.list && s->depth == 1)))
		return 0;
	const char *quote = memchr(p, '"', len);
	size_t most = quote ? (size_t)(quote - p) : len;
	const char *slash = memchr(p, '\\', most);
	return slash ? (size_t)(slash - p) : most;
}

int json_stream_feed(struct json_stream *s, const void *data, size_t len, struct err *err)
{
	const char *p = data;
	for (size_t i = 0; i < len; i++) {
		size_t passed = plain_run(s, p + i, len - i); // most of a Node is text
		if (passed && !s->is_key && s->is_kept && keep_bytes(s, p + i, passed, err) < 0)
			return -1;
		i += passed;
		if (i < len && feed_byte(s, p[i], err) < 0)
			return -1;
	}
	return 0;
}

int json_stream_end(struct json_stream *s, json_t **ret_rest, struct err *err)
{
	bool is_over = s->table.list ? s->depth == 0 && s->state == AFTER : s->depth == 0 && s->state == VALUE;
	if (!is_over)
		return err_set(err, E_SERVER, "cut off in the middle, %u levels deep", s->depth);
	if (!ret_rest)
		return 0;
	json_error_t problem;
	json_t *rest =
		s->rest.len ? json_loadb(s->rest.data, s->rest.len, JSON_REJECT_DUPLICATES, &problem) : json_object();
	if (!rest)
		return err_set(err, E_SERVER, "not valid JSON: %s", problem.text);
	*ret_rest = rest;
	return 0;
}

unsigned json_stream_line(const struct json_stream *s)
{
	return s->line + 1;
}

unsigned json_stream_lists(const struct json_stream *s)
{
	return s->lists;
}
