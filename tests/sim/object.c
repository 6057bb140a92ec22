// SPDX-License-Identifier: Apache-2.0
// Validation and defaulting of an object on its way into the store.
#include "base/core/date.h"
#include "tests/sim/sim_internal.h"

#include <ctype.h>

// Types that the real server's Go types require: strings, numbers, times. Only of fields that are written here.

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

enum { NAME_MOST = 253, LABEL_MOST = 63, ANNOTATIONS_MOST = 256 << 10 };

void sim_set(json_t *object, const char *keys, json_t *take)
{
	auto_strv struct strv path = { 0 };
	strv_split(&path, keys, " ");
	for (size_t i = 0; i + 1 < path.count; i++) {
		json_t *next = json_object_get(object, path.items[i]);
		if (!next) {
			next = json_object();
			json_object_set_new(object, path.items[i], next);
		}
		object = next;
	}
	json_object_set_new(object, path.items[path.count - 1], take);
}

static void drop_nulls(json_t *value)
{
	const char *key;
	json_t *inner;
	void *next;
	json_object_foreach_safe(value, next, key, inner)
	{
		if (json_is_null(inner))
			json_object_del(value, key);
		else
			drop_nulls(inner);
	}
	size_t i;
	json_array_foreach(value, i, inner)
	{
		drop_nulls(inner);
	}
}

// Empty fields are dropped (omitempty of the Go types), but spec and status always stay.
static void sim_tidy(json_t *object)
{
	static const char *const maps[] = { "labels", "annotations", "finalizers" };
	drop_nulls(object);
	json_t *metadata = json_object_get(object, "metadata"), *spec = json_object_get(object, "spec");
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		const json_t *map = json_object_get(metadata, maps[i]);
		if (map && json_object_size(map) + json_array_size(map) == 0)
			json_object_del(metadata, maps[i]);
	}
	if (json_is_false(json_object_get(spec, "unschedulable")))
		json_object_del(spec, "unschedulable");
}

static void refuse_invalid(const struct sim_kind *kind, const char *name, const char *field, const char *value,
			   const char *why, struct sim_answer *a)
{
	auto_str char *message = str_fmt("Invalid value: \"%s\": %s", value ? value : "", why);
	sim_say_of(a, 422, "Invalid", kind, name, "%s%s%s \"%s\" is invalid: %s: %s", kind->kind,
		   *kind->group ? "." : "", kind->group, name, field, message);
	sim_say_cause(a, "FieldValueInvalid", message, field);
}

// Letters, digits, '-', '_' and '.', with a letter or a digit at both ends (apimachinery/pkg/util/validation).
static bool is_label_text(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool is_end = i == 0 || i + 1 == len;
		if (!isalnum((unsigned char)s[i]) && (is_end || !strchr("-_.", s[i])))
			return false;
	}
	return len <= LABEL_MOST;
}

static bool is_label_key_text(const char *key)
{
	const char *slash = strchr(key, '/'), *name = slash ? slash + 1 : key;
	return *name && is_label_text(name, strlen(name)) && (!slash || (slash > key && slash - key <= NAME_MOST));
}

static bool has_valid_map(const struct sim_kind *kind, const char *name, const json_t *object, const char *map,
			  struct sim_answer *a)
{
	const char *key;
	json_t *value;
	size_t bytes = 0;
	bool is_labels = str_eq(map, "labels");
	auto_str char *field = str_fmt("metadata.%s", map);
	json_object_foreach(json_object_get(json_object_get(object, "metadata"), map), key, value)
	{
		const char *text = json_string_value(value);
		bytes += strlen(key) + strlen(text);
		if (!is_label_key_text(key) || (is_labels && !is_label_text(text, strlen(text)))) {
			refuse_invalid(kind, name, field, is_label_key_text(key) ? text : key,
				       "a valid label must consist of alphanumeric characters", a);
			return false;
		}
	}
	if (!is_labels && bytes > ANNOTATIONS_MOST) {
		sim_say_of(a, 422, "Invalid", kind, name,
			   "%s \"%s\" is invalid: %s: Too long: may not be more than %d bytes", kind->kind, name, field,
			   ANNOTATIONS_MOST);
		sim_say_cause(a, "FieldValueTooLong", "Too long", field);
		return false;
	}
	return true;
}

static bool is_valid_lease(const struct sim_kind *kind, const char *name, const json_t *object, struct sim_answer *a)
{
	const json_t *duration = sim_at(object, "spec leaseDurationSeconds");
	if (!str_eq(kind->kind, "Lease") || !duration || json_integer_value(duration) > 0)
		return true;
	refuse_invalid(kind, name, "spec.leaseDurationSeconds", "0", "must be greater than 0", a);
	return false;
}

// An Event is in the namespace of its object, or in "default" for cluster-scoped objects.
static bool is_valid_event(const struct sim_kind *kind, const char *name, const json_t *object, const char *namespace,
			   struct sim_answer *a)
{
	const char *about = sim_text(object, "involvedObject namespace");
	if (!str_eq(kind->kind, "Event") || str_eq(about && *about ? about : "default", namespace))
		return true;
	refuse_invalid(kind, name, "involvedObject.namespace", about, "does not match event.namespace", a);
	return false;
}

bool sim_is_valid(const struct sim_kind *kind, const char *namespace, const char *name, const json_t *object,
		  struct sim_answer *a)
{
	if (!name || !*name || strlen(name) > NAME_MOST ||
	    name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.")]) {
		refuse_invalid(kind, name ? name : "", "metadata.name", name,
			       "a lowercase RFC 1123 subdomain must consist of", a);
		return false;
	}
	return has_valid_map(kind, name, object, "labels", a) && has_valid_map(kind, name, object, "annotations", a) &&
	       is_valid_lease(kind, name, object, a) && is_valid_event(kind, name, object, namespace, a);
}

static char *new_uid(struct sim *s)
{
	unsigned long long n = ++s->store.uids;
	return str_fmt("%08llx-0000-4000-8000-%012llx", n * 2654435761 & 0xffffffff, n);
}

json_t *sim_born(struct sim *s, const struct sim_kind *kind, const char *namespace, const json_t *body)
{
	json_t *object = json_deep_copy(body);
	auto_str char *version =
		str_fmt("%s%s%s", kind->group, *kind->group ? "/" : "", kind->version ? kind->version : "v1");
	auto_str char *uid = new_uid(s), *now = date_text((time_t)sim_time(s));
	sim_set(object, "kind", json_string(kind->kind));
	sim_set(object, "apiVersion", json_string(version));
	sim_set(object, "metadata uid", json_string(uid));
	sim_set(object, "metadata creationTimestamp", json_string(now));
	if (kind->is_namespaced)
		sim_set(object, "metadata namespace", json_string(namespace));
	if (kind->is_versioned)
		sim_set(object, "metadata generation", json_integer(1));
	if (((kind->has_status && !kind->version) || str_eq(kind->kind, "Lease")) && !json_object_get(object, "spec"))
		sim_set(object, "spec", json_object());
	if (kind == SIM_NAMESPACES) // until its controller has deleted the contents
		sim_set(object, "spec finalizers", json_pack("[s]", "kubernetes"));
	if (kind == SIM_NAMESPACES)
		sim_set(object, "status", json_pack("{s:s}", "phase", "Active"));
	else if (str_eq(kind->kind, "Pod"))
		sim_set(object, "status", json_pack("{s:s}", "phase", "Pending"));
	else if (kind == SIM_BUDGETS)
		sim_set(object, "status",
			json_pack("{s:i, s:i, s:i, s:i}", "disruptionsAllowed", 0, "currentHealthy", 0,
				  "desiredHealthy", 0, "expectedPods", 0));
	else if (kind->has_status && !kind->version && !json_object_get(object, "status"))
		sim_set(object, "status", json_object());
	sim_tidy(object);
	return object;
}

// Immutable fields and conflicts: resourceVersion first, like the server (Store.Update).
bool sim_may_follow(const struct sim_kind *kind, const char *name, const json_t *before, const json_t *after,
		    struct sim_answer *a)
{
	static const char *const fixed[] = { "uid", "namespace", "creationTimestamp" };
	const char *version = sim_text(after, "metadata resourceVersion");
	if (version && !str_eq(version, sim_text(before, "metadata resourceVersion"))) {
		sim_say_of(a, 409, "Conflict", kind, name,
			   "Operation cannot be fulfilled on %s%s%s \"%s\": the object has been modified; please apply "
			   "your "
			   "changes to the latest version and try again",
			   kind->resource, *kind->group ? "." : "", kind->group, name);
		return false;
	}
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++) {
		auto_str char *keys = str_fmt("metadata %s", fixed[i]), *field = str_fmt("metadata.%s", fixed[i]);
		const json_t *was = sim_at(before, keys), *is = sim_at(after, keys);
		if (!is || !was || json_equal(was, is))
			continue;
		refuse_invalid(kind, name, field, json_string_value(is), "field is immutable", a);
		return false;
	}
	return sim_is_valid(kind, sim_text(before, "metadata namespace"), name, after, a);
}

// The object that an update stores: the status subresource only changes status and metadata, an update of the object
// all but the status.
json_t *sim_next(const struct sim_kind *kind, const char *subresource, const json_t *before, const json_t *wanted)
{
	static const char *const kept[] = { "metadata uid",
					    "metadata namespace",
					    "metadata creationTimestamp",
					    "metadata deletionTimestamp",
					    "metadata deletionGracePeriodSeconds",
					    "metadata generation",
					    "metadata resourceVersion",
					    "kind",
					    "apiVersion",
					    "spec",
					    "status" };
	bool is_status = str_eq(subresource, "status");
	json_t *next = json_deep_copy(wanted);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		json_t *was = sim_at(before, kept[i]);
		bool is_open = (str_eq(kept[i], "spec") && !is_status) ||
			       (str_eq(kept[i], "status") && (is_status || !kind->has_status));
		if (was && !is_open)
			sim_set(next, kept[i], json_incref(was));
	}
	sim_tidy(next);
	if (kind->is_versioned && !json_equal(json_object_get(before, "spec"), json_object_get(next, "spec")))
		sim_set(next, "metadata generation",
			json_integer(json_integer_value(sim_at(before, "metadata generation")) + 1));
	return next;
}
