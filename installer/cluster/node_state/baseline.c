// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/baseline.h"

#include <inttypes.h>
#include <stdio.h>

#define VENDOR "nvidia.com/"

static bool is_gpu_resource(const char *name)
{
	return str_starts(name, "gpu") || str_starts(name, "mig-");
}

// A quantity as the API server writes whole numbers: "8", and "1k" for a thousand. 0 = none, or no such number.
static uint64_t read_quantity(const char *text)
{
	static const char suffixes[] = "kMG";
	size_t digits = text ? strspn(text, "0123456789") : 0;
	auto_str char *number = str_ndup(text ? text : "", digits);
	uint64_t count;
	if (!str_u64(number, 10, &count) || count > UINT32_MAX)
		return 0;
	const char *suffix = text[digits] ? strchr(suffixes, text[digits]) : NULL;
	if (text[digits] && (!suffix || text[digits + 1]))
		return 0;
	for (const char *s = suffixes; suffix && s <= suffix; s++)
		count *= 1000;
	return count;
}

void baseline_read_resources(const json_t *allocatable, char ret[RESOURCES_TEXT])
{
	auto_strv struct strv found = { 0 };
	const char *name;
	json_t *amount;
	size_t len = 0;
	json_object_foreach((json_t *)(uintptr_t)allocatable, name, amount)
	{
		uint64_t count = read_quantity(json_string_value(amount));
		if (count && str_starts(name, VENDOR) && is_gpu_resource(name + strlen(VENDOR)))
			strv_add(&found, str_fmt("%s=%" PRIu64, name + strlen(VENDOR), count));
	}
	strv_sort(&found);
	memset(ret, 0, RESOURCES_TEXT); // nodes are compared as memory
	for (size_t i = 0; i < found.count; i++)
		if (len + 1 + strlen(found.items[i]) < RESOURCES_TEXT)
			len += (size_t)snprintf(ret + len, RESOURCES_TEXT - len, "%s%s", len ? "," : "",
						found.items[i]);
}

// The next word of a list, and its number; false = the end. *ret_count 0: a word without one.
static bool next_entry(const char **at, char ret[BASELINE_TEXT], uint64_t *ret_count)
{
	size_t len = strcspn(*at, ",");
	if (!len)
		return false;
	snprintf(ret, BASELINE_TEXT, "%.*s", (int)len, *at);
	*at += len + ((*at)[len] == ',');
	char *equals = strchr(ret, '=');
	*ret_count = 0;
	if (equals) {
		*equals = '\0';
		*ret_count = read_quantity(equals + 1);
	}
	return true;
}

static bool find_entry(const char *list, const char *name, uint64_t *ret_count)
{
	char entry[BASELINE_TEXT];
	for (const char *at = list; next_entry(&at, entry, ret_count);)
		if (str_eq(entry, name))
			return true;
	*ret_count = 0;
	return false;
}

bool baseline_has(const char *baseline, const char *word)
{
	uint64_t count;
	return find_entry(baseline, word, &count);
}

uint64_t baseline_count(const char *baseline, const char *word)
{
	uint64_t count;
	find_entry(baseline, word, &count);
	return count;
}

void baseline_add(char baseline[BASELINE_TEXT], const char *word)
{
	size_t len = strlen(baseline);
	if (len + 1 + strlen(word) < BASELINE_TEXT)
		snprintf(baseline + len, BASELINE_TEXT - len, "%s%s", len ? "," : "", word);
}

bool baseline_is_allocatable(const char *baseline, const char *now, char ret_short[SHORTAGE_TEXT])
{
	char entry[BASELINE_TEXT];
	uint64_t count, other, renamed = 0, missing = 0;
	for (const char *at = now; next_entry(&at, entry, &count);)
		renamed += find_entry(baseline, entry, &other) ? 0 : count;
	memset(ret_short, 0, SHORTAGE_TEXT);
	for (const char *at = baseline; next_entry(&at, entry, &count);) {
		if (!is_gpu_resource(entry))
			continue;
		find_entry(now, entry, &other);
		if (other >= count)
			continue;
		if (!*ret_short)
			snprintf(ret_short, SHORTAGE_TEXT, VENDOR "%.36s %" PRIu64 " of %" PRIu64, entry, other, count);
		missing += other ? count - other : 0;
	}
	return !*ret_short || (renamed && renamed >= missing);
}
