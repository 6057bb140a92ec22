// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/next_kernel_report.h"

#include "cluster/kube/api.h"

static bool is_bad(const struct forecast_kernel *k)
{
	return k && (k->verdict == FORECAST_IMPOSSIBLE || (k->verdict == FORECAST_NEEDS_BUILD && k->code));
}

char *nodereport_text(const struct forecast *f)
{
	const struct forecast_kernel *k = forecast_next(f);
	if (!k)
		return NULL;
	return str_fmt("%s %.64s%s%s", forecast_verdict_name(k->verdict), k->release, k->code ? " " : "",
		       k->code ? err_info(k->code)->name : "");
}

// "impossible R E_X", "needs-build R E_X": with a code it was bad.
static bool was_bad(const char *text)
{
	return text && strstr(text, " E_");
}

static int tell(struct kube *k, const char *node, const struct forecast_kernel *next, bool was, struct err *err)
{
	auto_str char *line = next ? forecast_text(next) : str_dup("the running kernel starts next"), *text = NULL;
	if (is_bad(next))
		text = str_fmt("%s; next step: %s", line, err_info(next->code)->next);
	struct api_event event = { .node = node,
				   .reason = is_bad(next) ? "NextKernelUnservable" : "NextKernelServable",
				   .message = text ? text : line,
				   .is_warning = is_bad(next),
				   .component = "kmodsmith" };
	return is_bad(next) || was ? api_event(k, &event, err) : 0;
}

int nodereport_tell(struct kube *k, const char *node, const struct forecast *f, struct err *err)
{
	auto_json json_t *object = NULL;
	auto_str char *path = api_node(node), *text = nodereport_text(f);
	int r = api_get(k, path, &object, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_NOT_FOUND, "there is no Node '%s'; NODE_NAME says who we are", node);
	const json_t *metadata = json_object_get(object, "metadata");
	const char *uid = json_string_value(json_object_get(metadata, "uid"));
	const char *before =
		json_string_value(json_object_get(json_object_get(metadata, "annotations"), NODEREPORT_KEY));
	if (str_eq(before, text) || before == text) // both absent
		return 0;
	// With its uid: a Node of the same name that is another machine now is not ours.
	auto_json json_t *patch = json_pack("{s:{s:s*, s:{s:o}}}", "metadata", "uid", uid, "annotations",
					    NODEREPORT_KEY, json_text(text));
	// First the Event: said twice is better than not at all.
	if (tell(k, node, forecast_next(f), was_bad(before), err) < 0)
		return -1;
	r = api_merge(k, path, patch, NULL, err);
	return r == 0 ? err_set(err, E_CONFLICT, "the Node '%s' is another one by now", node) : r;
}
