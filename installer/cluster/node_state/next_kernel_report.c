// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/next_kernel_report.h"

#include "cluster/kube/api.h"

static bool is_kernel_bad(const struct kernel_report_entry *k)
{
	return k && (k->verdict == KERNEL_IMPOSSIBLE || (k->verdict == KERNEL_NEEDS_BUILD && k->code));
}

char *next_kernel_report_text(const struct kernel_report *f)
{
	const struct kernel_report_entry *k = kernel_report_next(f);
	if (!k)
		return NULL;
	return str_fmt("%s %.64s%s%s", kernel_verdict_name(k->verdict), k->release, k->code ? " " : "",
		       k->code ? err_info(k->code)->name : "");
}

// "impossible R E_X", "needs-build R E_X": with a code it was bad.
static bool was_annotation_bad(const char *text)
{
	return text && strstr(text, " E_");
}

static int write_event(struct kube *k, const char *node, const struct kernel_report_entry *next, bool was,
		       struct err *err)
{
	auto_str char *line = next ? kernel_report_line(next) : str_dup("the running kernel starts next"), *text = NULL;
	if (is_kernel_bad(next))
		text = str_fmt("%s; next step: %s", line, err_info(next->code)->next);
	struct api_event event = { .node = node,
				   .reason = is_kernel_bad(next) ? "NextKernelUnservable" : "NextKernelServable",
				   .message = text ? text : line,
				   .is_warning = is_kernel_bad(next),
				   .component = "kmodsmith" };
	return is_kernel_bad(next) || was ? api_event(k, &event, err) : 0;
}

int next_kernel_report_write(struct kube *k, const char *node, const struct kernel_report *f, struct err *err)
{
	auto_json json_t *object = NULL;
	auto_str char *path = api_node(node), *text = next_kernel_report_text(f);
	int r = api_get(k, path, &object, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_NOT_FOUND, "there is no Node '%s'; check NODE_NAME", node);
	const json_t *metadata = json_object_get(object, "metadata");
	const char *uid = json_string_value(json_object_get(metadata, "uid"));
	const char *before =
		json_string_value(json_object_get(json_object_get(metadata, "annotations"), NEXT_KERNEL_REPORT_KEY));
	if (str_eq(before, text) || before == text) // both absent
		return 0;
	// With its uid: a Node of the same name that is another machine now is not ours.
	auto_json json_t *patch = json_pack("{s:{s:s*, s:{s:o}}}", "metadata", "uid", uid, "annotations",
					    NEXT_KERNEL_REPORT_KEY, json_text(text));
	// First the Event: said twice is better than not at all.
	if (write_event(k, node, kernel_report_next(f), was_annotation_bad(before), err) < 0)
		return -1;
	r = api_merge(k, path, patch, NULL, err);
	return r == 0 ? err_set(err, E_CONFLICT, "the Node '%s' was replaced by another one of this name", node) : r;
}
