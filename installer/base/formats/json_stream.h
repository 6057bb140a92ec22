// SPDX-License-Identifier: Apache-2.0
// JSON as it arrives, of which only named parts are kept: of a list of thousands of objects, or of a stream of events
// without end, one reduced object at a time is in memory. What is kept is JSON again and is read by jansson, strictly;
// of skipped parts only the nesting is checked.
#pragma once
#include "base/formats/json.h"

struct json_stream_table {
	const char *list; // key of the outermost object whose array holds the records; NULL = each document is a record
	// What is kept: keys from the outside to the inside, blanks between them; "*" at the end of a key stands for
	// the rest of it. Elements of an array count as the array. What the last key names is kept whole. NULL ends.
	const char *const *record;
	const char *const *rest; // of the outermost object, without the list; NULL = nothing
};

enum { JSON_STREAM_PATHS = 32, JSON_STREAM_RECORD_MAX = 256 << 10 }; // most rows of a table; bytes kept of one record

struct json_stream;
// take: called for each record; borrowed; negative with err ends all.
struct json_stream *json_stream_new(const struct json_stream_table *table,
				    int (*take)(void *ctx, json_t *record, struct err *err), void *ctx);
void json_stream_free(struct json_stream *s);
// E_SERVER: not valid JSON; E_TOO_LARGE.
int json_stream_feed(struct json_stream *s, const void *data, size_t len, struct err *err);
// Nothing follows. *ret_rest (may be NULL): what is kept of the outermost object. E_SERVER: cut in the middle.
int json_stream_end(struct json_stream *s, json_t **ret_rest, struct err *err);
// For messages about a file: the line that is being read, from 1, and how many lists of records there were.
unsigned json_stream_line(const struct json_stream *s);
unsigned json_stream_lists(const struct json_stream *s);
static inline void json_stream_freep(struct json_stream **s)
{
	json_stream_free(*s);
}
#define auto_json_stream __attribute__((cleanup(json_stream_freep)))
