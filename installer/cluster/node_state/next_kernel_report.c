// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/next_kernel_report.h"

#include "cluster/kube/api.h"

static int write_event(struct kube *k, const char *node, const struct kernel_report_entry *next, bool is_bad,
		       struct err *err)
{
	auto_str char *line = next ? kernel_report_line(next) : str_dup(NO_NEWER_KERNEL), *text = NULL;
	if (is_bad)
		text = str_fmt("%s; next step: %s", line, err_info(next->code)->next);
	struct api_event event = { .node = node,
				   .reason = is_bad ? "NextKernelUnservable" : "NextKernelServable",
				   .message = text ? text : line,
				   .is_warning = is_bad,
				   .component = "kmodsmith" };
	return api_event(k, &event, err);
}

int next_kernel_report_write(struct kube *k, const char *node, const struct kernel_report *f, struct err *err)
{
	auto_json json_t *object = NULL;
	auto_str char *path = api_node(node), *text = NULL;
	const struct kernel_report_entry *next = kernel_report_next(f);
	int r = api_get(k, path, &object, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_NOT_FOUND, "there is no Node '%s'; check NODE_NAME", node);
	const json_t *metadata = json_object_get(object, "metadata");
	const char *uid = json_string_value(json_object_get(metadata, "uid"));
	const char *before =
		json_string_value(json_object_get(json_object_get(metadata, "annotations"), NEXT_KERNEL_REPORT_KEY));
	if (next)
		text = str_fmt("%s %.64s%s%s", kernel_verdict_name(next->verdict), next->release, next->code ? " " : "",
			       next->code ? err_info(next->code)->name : "");
	if (str_eq(before, text) || before == text) // both absent
		return 0;
	bool is_bad =
		next && (next->verdict == KERNEL_IMPOSSIBLE || (next->verdict == KERNEL_NEEDS_BUILD && next->code));
	bool was_bad = before && strstr(before, " E_"); // "impossible R E_X", "needs-build R E_X"
	// The Event comes first: better twice than not at all.
	if ((is_bad || was_bad) && write_event(k, node, next, is_bad, err) < 0)
		return -1;
	// With its uid: a Node of the same name that is another machine now is not ours.
	auto_json json_t *patch = json_pack("{s:{s:s*, s:{s:o}}}", "metadata", "uid", uid, "annotations",
					    NEXT_KERNEL_REPORT_KEY, json_text(text));
	r = api_change(k, API_MERGE, path, patch, NULL, err);
	return r == 0 ? err_set(err, E_CONFLICT, "the Node '%s' was replaced by another one of this name", node) : r;
}
