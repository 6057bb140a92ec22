// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/driver_daemonsets.h"

#include "cluster/kube/client.h"

#include <stdio.h>

static void clear_daemonset(struct driver_daemonsets *d, size_t at)
{
	free(d->items[at].name);
	strv_done(&d->items[at].selector);
	d->items[at] = d->items[--d->count];
}

void driver_daemonsets_done(struct driver_daemonsets *d)
{
	while (d->count)
		clear_daemonset(d, 0);
	free(d->items);
	*d = (struct driver_daemonsets){ 0 };
}

void driver_daemonsets_record(bool is_event, struct strv *ret)
{
	static const char *const event[] = { KUBE_EVENT };
	static const char *const rows[] = { "metadata name", "metadata namespace", "metadata ownerReferences kind",
					    "metadata ownerReferences apiVersion", "spec template spec nodeSelector" };
	for (size_t i = 0; is_event && i < ARRAY_SIZE(event); i++)
		strv_add(ret, str_dup(event[i]));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		strv_add(ret, str_fmt("%s%s", is_event ? "object " : "", rows[i]));
}

static char *daemonset_name(const json_t *object)
{
	const json_t *metadata = json_object_get(object, "metadata");
	const char *namespace = json_string_value(json_object_get(metadata, "namespace"));
	const char *name = json_string_value(json_object_get(metadata, "name"));
	return namespace && name ? str_fmt("%s/%s", namespace, name) : NULL;
}

static bool is_nvidias(const json_t *object)
{
	const json_t *owners = json_object_get(json_object_get(object, "metadata"), "ownerReferences");
	for (size_t i = 0; i < json_array_size(owners); i++) {
		const json_t *owner = json_array_get(owners, i);
		const char *kind = json_string_value(json_object_get(owner, "kind"));
		const char *version = json_string_value(json_object_get(owner, "apiVersion"));
		if (version && str_starts(version, "nvidia.com/") &&
		    (str_eq(kind, "ClusterPolicy") || str_eq(kind, "NVIDIADriver")))
			return true;
	}
	return false;
}

static void read_selector(const json_t *object, struct strv *ret)
{
	const json_t *template = json_object_get(json_object_get(object, "spec"), "template");
	const json_t *selector = json_object_get(json_object_get(template, "spec"), "nodeSelector");
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)(uintptr_t)selector, key, value)
	{
		if (json_is_string(value))
			strv_add(ret, str_fmt("%s=%s", key, json_string_value(value)));
	}
	strv_sort(ret);
}

static size_t find_daemonset(const struct driver_daemonsets *d, const char *name)
{
	size_t at = 0;
	while (at < d->count && !str_eq(d->items[at].name, name))
		at++;
	return at;
}

static bool is_same_selector(const struct strv *a, const struct strv *b)
{
	bool is = a->count == b->count;
	for (size_t i = 0; is && i < a->count; i++)
		is = str_eq(a->items[i], b->items[i]);
	return is;
}

bool driver_daemonsets_put(struct driver_daemonsets *d, const json_t *object)
{
	auto_strv struct strv selector = { 0 };
	auto_str char *name = daemonset_name(object);
	size_t at = name ? find_daemonset(d, name) : d->count;
	if (!name || !is_nvidias(object))
		return driver_daemonsets_remove(d, object);
	read_selector(object, &selector);
	if (at < d->count && is_same_selector(&d->items[at].selector, &selector))
		return false;
	if (at == d->count) {
		d->items = mem_grow(d->items, d->count + 1, sizeof(*d->items));
		memset(&d->items[d->count++], 0, sizeof(*d->items));
		d->items[at].name = TAKE(name);
	}
	strv_done(&d->items[at].selector);
	d->items[at].selector = selector;
	selector = (struct strv){ 0 };
	return true;
}

bool driver_daemonsets_remove(struct driver_daemonsets *d, const json_t *object)
{
	auto_str char *name = daemonset_name(object);
	size_t at = name ? find_daemonset(d, name) : d->count;
	if (at == d->count)
		return false;
	clear_daemonset(d, at);
	return true;
}

// The bit of a term, which is the policy's from then on; none where there is no room.
static uint64_t term_of(struct strv *terms, const char *term)
{
	enum { TERMS_MOST = 64 };
	size_t at = 0;
	while (at < terms->count && !str_eq(terms->items[at], term))
		at++;
	if (at == TERMS_MOST)
		return 0;
	if (at == terms->count)
		strv_add(terms, str_dup(term));
	return UINT64_C(1) << at;
}

void driver_daemonsets_apply(const struct driver_daemonsets *d, struct policy *policy)
{
	free(policy->driver_sets);
	policy->driver_sets = NULL;
	policy->driver_set_count = 0;
	if (policy->beside == BESIDE_ALLOW || !d->count)
		return;
	policy->driver_sets = mem_alloc(d->count * sizeof(*policy->driver_sets));
	for (size_t i = 0; i < d->count; i++) {
		struct driver_set *to = &policy->driver_sets[policy->driver_set_count++];
		snprintf(to->name, sizeof(to->name), "%s", d->items[i].name);
		for (size_t k = 0; k < d->items[i].selector.count; k++)
			to->terms |= term_of(&policy->terms, d->items[i].selector.items[k]);
	}
}
