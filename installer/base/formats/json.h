// SPDX-License-Identifier: Apache-2.0
// JSON is jansson; this header is the only door to it.
#pragma once
#include "base/file/root.h"

#include <jansson.h>

#define auto_json __attribute__((cleanup(json_decrefp)))

// 1 = read, 0 = absent. Duplicate keys are refused.
int json_read(const struct root *root, const char *path, json_t **ret, struct err *err);
int json_write(const struct root *root, const char *path, const json_t *value, struct err *err);
int json_put(const struct root *root, const char *path, const json_t *value, struct err *err); // as root_put()
json_t *json_text(const char *s); // a string, or null where s is NULL; bytes that are not UTF-8 become '?'
json_t *json_strv(const struct strv *v);
char *json_text_dup(const json_t *object, const char *key); // NULL = there is no string. Caller frees
void json_strv_read(const json_t *array, struct strv *ret); // adds its strings
