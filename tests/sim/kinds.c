// SPDX-License-Identifier: Apache-2.0
// The API's resources and their paths. Source of the columns: registry/*/*/strategy.go of kubernetes 1.36
// (AllowCreateOnUpdate, AllowUnconditionalUpdate), and the field labels of apis/core/v1/conversion.go.
#include "tests/sim/sim_internal.h"

#include <ctype.h>

// clang-format off
const struct sim_kind sim_kinds[SIM_KINDS] = {
	{ .resource = "nodes", .kind = "Node", .group = "", .has_status = true, .selectable = "spec.unschedulable" },
	{ .resource = "pods", .kind = "Pod", .group = "", .is_namespaced = true, .has_status = true,
	  .selectable = "spec.nodeName status.phase" },
	{ .resource = "configmaps", .kind = "ConfigMap", .group = "", .is_namespaced = true },
	{ .resource = "events", .kind = "Event", .group = "", .is_namespaced = true, .is_made_by_put = true,
	  .selectable = "involvedObject.name involvedObject.kind reason" },
	{ .resource = "leases", .kind = "Lease", .group = "coordination.k8s.io", .is_namespaced = true,
	  .is_made_by_put = true, .needs_version = true },
	{ .resource = "poddisruptionbudgets", .kind = "PodDisruptionBudget", .group = "policy", .is_namespaced = true,
	  .needs_version = true, .has_status = true, .is_versioned = true },
	{ .resource = "resourceclaims", .kind = "ResourceClaim", .group = "resource.k8s.io", .is_namespaced = true,
	  .has_status = true },
	{ .resource = "daemonsets", .kind = "DaemonSet", .group = "apps", .is_namespaced = true, .has_status = true,
	  .is_versioned = true },
	{ .resource = "namespaces", .kind = "Namespace", .group = "", .has_status = true },
	{ .resource = "customresourcedefinitions", .kind = "CustomResourceDefinition",
	  .group = "apiextensions.k8s.io" },
	{ .resource = "resourceslices", .kind = "ResourceSlice", .group = "resource.k8s.io",
	  .selectable = "spec.nodeName spec.driver" },
	{ .resource = "podtemplates", .kind = "PodTemplate", .group = "", .is_namespaced = true },
	{ .resource = "driverrollouts", .kind = "DriverRollout", .group = "kmodsmith.io", .version = "v1alpha1",
	  .is_namespaced = true, .needs_version = true, .has_status = true, .is_versioned = true },
};
// clang-format on

static int hex_digit(char c)
{
	return isdigit((unsigned char)c)  ? c - '0' :
	       isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 :
					    -1;
}

static char *unescape_query(const char *s, size_t len)
{
	char *text = str_ndup(s, len), *to = text;
	for (const char *p = text; *p; p++) {
		bool is_escape = *p == '%' && hex_digit(p[1]) >= 0 && hex_digit(p[2]) >= 0;
		*to++ = (char)(is_escape ? hex_digit(p[1]) * 16 + hex_digit(p[2]) : *p == '+' ? ' ' : *p);
		p += is_escape ? 2 : 0;
	}
	*to = '\0';
	return text;
}

static void take_parameter(struct sim_path *p, const char *name, char *take)
{
	auto_str char *value = take;
	const struct {
		const char *name;
		char **text;
		uint64_t *number;
		bool *is;
	} known[] = {
		{ "labelSelector", &p->labels, NULL, NULL }, { "fieldSelector", &p->fields, NULL, NULL },
		{ "continue", &p->next, NULL, NULL },        { "resourceVersion", &p->version, NULL, NULL },
		{ "limit", NULL, &p->limit, NULL },          { "timeoutSeconds", NULL, &p->timeout_s, NULL },
		{ "watch", NULL, NULL, &p->is_watch },       { "allowWatchBookmarks", NULL, NULL, &p->has_bookmarks },
	};
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (!str_eq(known[i].name, name))
			continue;
		if (known[i].text && !*known[i].text)
			*known[i].text = TAKE(value);
		else if (known[i].number)
			str_u64(value, 10, known[i].number);
		else if (known[i].is)
			*known[i].is = str_eq(value, "1") || str_eq(value, "true");
	}
}

static void parse_query(const char *query, struct sim_path *p)
{
	auto_strv struct strv parts = { 0 };
	strv_split(&parts, query, "&");
	for (size_t i = 0; i < parts.count; i++) {
		const char *part = parts.items[i], *is = strchr(part, '=');
		auto_str char *name = unescape_query(part, is ? (size_t)(is - part) : strlen(part));
		take_parameter(p, name, is ? unescape_query(is + 1, strlen(is + 1)) : str_dup("true"));
	}
}

// "/api/v1/..." or "/apis/GROUP/VERSION/...": the rest, and the group.
static bool parse_group(const struct strv *parts, size_t *at, const char **group, const char **version)
{
	*version = "v1";
	if (parts->count >= 3 && str_eq(parts->items[0], "api") && str_eq(parts->items[1], "v1")) {
		*group = "";
		*at = 2;
		return true;
	}
	if (parts->count < 4 || !str_eq(parts->items[0], "apis"))
		return false;
	*version = parts->items[2];
	*group = parts->items[1];
	*at = 3;
	return true;
}

static bool is_kind_installed(const struct sim_kind *kind)
{
	auto_str char *name = str_fmt("%s.%s", kind->resource, kind->group);
	return !kind->version || sim_store_get(&sim_current()->store, SIM_DEFINITIONS, name);
}

bool sim_path_parse(const char *path, struct sim_path *ret)
{
	const char *query = strchr(path, '?'), *group, *version;
	auto_str char *plain = str_ndup(path, query ? (size_t)(query - path) : strlen(path));
	auto_strv struct strv parts = { 0 };
	size_t at;
	*ret = (struct sim_path){ 0 };
	if (query)
		parse_query(query + 1, ret);
	strv_split(&parts, plain, "/");
	if (!parse_group(&parts, &at, &group, &version))
		return false;
	if (str_eq(parts.items[at], "namespaces") && at + 2 < parts.count) {
		ret->namespace = unescape_query(parts.items[at + 1], strlen(parts.items[at + 1]));
		at += 2;
	}
	for (size_t i = 0; i < SIM_KINDS; i++) {
		const struct sim_kind *kind = &sim_kinds[i];
		if (str_eq(kind->group, group) && str_eq(kind->resource, parts.items[at]) &&
		    str_eq(kind->version ? kind->version : "v1", version) && is_kind_installed(kind))
			ret->kind = kind;
	}
	if (at + 1 < parts.count)
		ret->name = unescape_query(parts.items[at + 1], strlen(parts.items[at + 1]));
	if (at + 2 < parts.count)
		ret->subresource = str_dup(parts.items[at + 2]);
	bool is_placed = ret->kind && (ret->kind->is_namespaced ? ret->namespace || !ret->name : !ret->namespace);
	return is_placed && at + 3 >= parts.count;
}

void sim_path_done(struct sim_path *p)
{
	free(p->namespace);
	free(p->name);
	free(p->subresource);
	free(p->labels);
	free(p->fields);
	free(p->next);
	free(p->version);
	*p = (struct sim_path){ 0 };
}

char *sim_key(const struct sim_kind *kind, const char *namespace, const char *name)
{
	return kind->is_namespaced ? str_fmt("%s/%s", namespace ? namespace : "", name) : str_dup(name);
}
