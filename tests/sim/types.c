// SPDX-License-Identifier: Apache-2.0
// What the Go types of the real server do not take: where a text, a number or a moment has to be. Only fields that are
// written by somebody here.
#include "tests/sim/own.h"

#include <ctype.h>

static bool is_json_text(const json_t *value)
{
	return json_is_string(value);
}

static bool is_json_text_map(const json_t *value)
{
	const char *key;
	json_t *inner;
	auto_json json_t *own = json_deep_copy(value);
	json_object_foreach(own, key, inner)
	{
		if (!json_is_string(inner))
			return false;
	}
	return json_is_object(value);
}

static bool is_bool(const json_t *value)
{
	return json_is_boolean(value);
}

static bool is_json_number(const json_t *value)
{
	return json_is_integer(value);
}

// metav1.MicroTime: six digits of a second, no more and no less.
static bool is_json_time(const json_t *value)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddddd";
	const char *text = json_is_string(value) ? json_string_value(value) : "";
	for (size_t i = 0; i < sizeof(form) - 1; i++) {
		if (form[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != form[i])
			return false;
	}
	return str_eq(text + sizeof(form) - 1, "Z") || strlen(text) == sizeof(form) - 1 + 6;
}

bool sim_is_typed(const struct sim_kind *kind, const json_t *object)
{
	static const struct {
		const char *kind, *keys;
		bool (*is)(const json_t *value);
	} rows[] = {
		{ NULL, "metadata name", is_json_text },
		{ NULL, "metadata labels", is_json_text_map },
		{ NULL, "metadata annotations", is_json_text_map },
		{ "Node", "spec unschedulable", is_bool },
		{ "ConfigMap", "data", is_json_text_map },
		{ "Lease", "spec holderIdentity", is_json_text },
		{ "Lease", "spec leaseDurationSeconds", is_json_number },
		{ "Lease", "spec leaseTransitions", is_json_number },
		{ "Lease", "spec acquireTime", is_json_time },
		{ "Lease", "spec renewTime", is_json_time },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const json_t *value = sim_at(object, rows[i].keys);
		if ((!rows[i].kind || str_eq(rows[i].kind, kind->kind)) && value && !json_is_null(value) &&
		    !rows[i].is(value))
			return false;
	}
	return true;
}
