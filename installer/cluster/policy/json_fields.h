// SPDX-License-Identifier: Apache-2.0
// A JSON object read into a struct by a table, strictly: an unknown key, a wrong type and a value out of bounds are
// refused with the field's path.
#pragma once
#include "base/formats/json.h"

struct limit {
	unsigned value;
	bool is_percent;
};
#define LIMIT_NONE UINT32_MAX

enum field_type {
	FIELD_BOOL,
	FIELD_UINT,   // least..most
	FIELD_SPAN,   // seconds, or "90s", "30m", "2h", "7d"; least..most seconds
	FIELD_LIMIT,  // struct limit: a number, or "10%"
	FIELD_WORD,   // char[WORD_TEXT], not empty
	FIELD_TEXT,   // char *, not empty
	FIELD_CHOICE, // int, by the names, which end with NULL
	FIELD_OTHER,  // read by the owner of the table
};
struct field {
	const char *name; // NULL ends a table
	enum field_type type;
	size_t offset;
	unsigned least, most;
	const char *const *names;
};
int json_fields_read(const json_t *object, const struct field *table, const char *path, void *values, struct err *err);
static inline char *json_field_path(const char *path, const char *name)
{
	return *path ? str_fmt("%s.%s", path, name) : str_dup(name);
}
// Size of an array of objects; absent is 0. E_CONFIG: not an array, or too long.
int json_field_list(const json_t *object, const char *name, const char *path, size_t most, size_t *ret,
		    struct err *err);
