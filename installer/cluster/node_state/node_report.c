// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/node_report.h"

#include "base/core/date.h"
#include "cluster/kube/api.h"

static void set_condition(struct node_condition *c, const char *status, const char *reason, char *take)
{
	c->status = status;
	c->reason = reason;
	c->message = take;
}

static const char *text_in(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "?";
}

// "E_X: text; next step: ...", NULL = it did not fail
static char *last_error(const json_t *status, const struct err_info **ret_info)
{
	const json_t *error = json_object_get(json_object_get(status, "last_run"), "error");
	*ret_info = json_is_object(error) ? err_info_by_name(text_in(error, "code")) : NULL;
	return json_is_object(error) ? str_fmt("%s: %s; next step: %s", text_in(error, "code"), text_in(error, "text"),
					       text_in(error, "next")) :
				       NULL;
}

static char *failed_check(const json_t *status)
{
	size_t i;
	const json_t *check;
	const char *next = json_string_value(json_object_get(status, "next"));
	json_array_foreach(json_object_get(status, "checks"), i, check)
	{
		if (json_is_false(json_object_get(check, "pass")))
			return str_fmt("%s: %s%s%s", text_in(check, "name"), text_in(check, "evidence"),
				       next ? "; next step: " : "", next ? next : "");
	}
	return str_dup("see `kmodsmith status` on the node");
}

static void describe_driver(const json_t *status, struct node_condition *ret)
{
	const char *state = status ? text_in(status, "state") : NULL;
	const json_t *driver = json_object_get(status, "driver"), *kernel = json_object_get(status, "kernel");
	const struct err_info *info;
	auto_str char *error = last_error(status, &info);
	if (!state) {
		set_condition(ret, "Unknown", "NoRunYet", str_dup("no run of kmodsmith has ended since the boot"));
	} else if (str_eq(state, "NO_GPU")) {
		set_condition(ret, "False", "NoGPU", str_dup("no NVIDIA function on this machine"));
		ret->is_correction = true;
	} else if (str_eq(state, "READY")) { // beside a failed last run: the driver from before works
		set_condition(ret, "True", "DriverReady",
			      str_fmt("driver %s (%s) in kernel %s%s%s", text_in(driver, "version"),
				      text_in(driver, "flavour"), text_in(kernel, "release"),
				      error ? "; the last run failed: " : "", error ? error : ""));
	} else if (json_is_object(
			   json_object_get(status, "run"))) { // without its step: there are many, one after another
		bool is_change = str_eq(state, "CHANGING");
		set_condition(ret, "False", is_change ? "DriverChanging" : "DriverInstalling",
			      str_dup(is_change ? "modules are being loaded or unloaded" : "an install is under way"));
	} else {
		set_condition(ret, "False", info ? info->reason : "DriverNotReady",
			      error ? TAKE(error) : failed_check(status));
	}
}

static void describe_next_kernel(const struct kernel_report *kernels, struct node_condition *ret)
{
	static const char *const reasons[] = { [KERNEL_READY] = "PackageReady",
					       [KERNEL_BUILDING] = "Building",
					       [KERNEL_NEEDS_BUILD] = "NeedsBuild",
					       [KERNEL_INCOMPLETE] = "KernelIncomplete",
					       [KERNEL_IMPOSSIBLE] = "Impossible" };
	const struct kernel_report_entry *next = kernels ? kernel_report_next(kernels) : NULL;
	if (!kernels) {
		set_condition(ret, "Unknown", "NotChecked", str_dup("the kernels were not checked since the boot"));
		ret->is_correction = true;
		return;
	}
	if (!next) {
		set_condition(ret, "True", "NoNewerKernel", str_dup(NO_NEWER_KERNEL));
		return;
	}
	auto_str char *line = kernel_report_line(next);
	const struct err_info *info = next->code ? err_info(next->code) : NULL;
	set_condition(ret, next->verdict == KERNEL_READY ? "True" : "False",
		      info ? info->reason : reasons[next->verdict],
		      str_fmt("%s%s%s", line, info ? "; next step: " : "", info ? info->next : ""));
}

void node_report_make(const json_t *status, const struct kernel_report *kernels, struct node_report *ret)
{
	*ret = (struct node_report){ .conditions = { [CONDITION_DRIVER].type = "NvidiaDriverReady",
						     [CONDITION_NEXT_KERNEL].type = "NvidiaDriverNextKernel" } };
	describe_driver(status, &ret->conditions[CONDITION_DRIVER]);
	describe_next_kernel(kernels, &ret->conditions[CONDITION_NEXT_KERNEL]);
	ret->is_ready = str_eq(ret->conditions[CONDITION_DRIVER].status, "True");
}

void node_report_done(struct node_report *r)
{
	for (size_t i = 0; i < NODE_CONDITIONS; i++)
		free(r->conditions[i].message);
	*r = (struct node_report){ 0 };
}

static void add_operation(json_t *patch, const char *op, const char *path, json_t *value)
{
	json_array_append_new(patch, json_pack("{s:s, s:s, s:o*}", "op", op, "path", path, "value", value));
}

static void add_condition(json_t *patch, const json_t *conditions, const struct node_condition *c, const char *now)
{
	enum { MESSAGE_MOST = 1000 };
	size_t i, at = SIZE_MAX;
	const json_t *entry, *old = NULL;
	auto_str char *message = str_fmt("%.*s", MESSAGE_MOST, c->message);
	json_array_foreach(conditions, i, entry)
	{
		if (str_eq(json_string_value(json_object_get(entry, "type")), c->type)) {
			old = entry;
			at = i;
		}
	}
	if (!old && c->is_correction)
		return;
	json_t *text = json_text(message), *since = json_object_get(old, "lastTransitionTime");
	bool is_same = str_eq(text_in(old, "status"), c->status);
	if (is_same && str_eq(text_in(old, "reason"), c->reason) && json_equal(json_object_get(old, "message"), text)) {
		json_decref(text);
		return;
	}
	json_t *value = json_pack("{s:s, s:s, s:s, s:o, s:s, s:o}", "type", c->type, "status", c->status, "reason",
				  c->reason, "message", text, "lastHeartbeatTime", now, "lastTransitionTime",
				  is_same && since ? json_incref(since) : json_string(now));
	auto_str char *path = old ? str_fmt("/status/conditions/%zu", at) : str_dup("/status/conditions/-");
	add_operation(patch, old ? "replace" : "add", path, value);
}

// Of the Node as it was read: positions in lists are of that version. *node: as it is then.
static int patch_node(struct kube *k, const char *path, json_t **node, json_t *operations, struct err *err)
{
	auto_json json_t *patch = json_array(), *reply = NULL;
	const json_t *metadata = json_object_get(*node, "metadata");
	add_operation(patch, "test", "/metadata/uid", json_incref(json_object_get(metadata, "uid")));
	add_operation(patch, "test", "/metadata/resourceVersion",
		      json_incref(json_object_get(metadata, "resourceVersion")));
	json_array_extend(patch, operations);
	int r = api_change(k, API_PATCH, path, patch, &reply, err);
	if (r > 0 && reply) {
		json_decref(*node);
		*node = TAKE(reply);
	}
	return r;
}

static int write_conditions(struct kube *k, const char *path, json_t **node, const struct node_report *r,
			    struct err *err)
{
	auto_json json_t *operations = json_array();
	auto_str char *now = date_text((time_t)kube_time(k)), *status = str_fmt("%s/status", path);
	const json_t *conditions = json_object_get(json_object_get(*node, "status"), "conditions");
	for (size_t i = 0; i < NODE_CONDITIONS; i++)
		add_condition(operations, conditions, &r->conditions[i], now);
	if (!json_array_size(operations))
		return 1;
	if (!conditions)
		json_array_insert_new(
			operations, 0,
			json_pack("{s:s, s:s, s:[]}", "op", "add", "path", "/status/conditions", "value"));
	return patch_node(k, status, node, operations, err);
}

static int remove_taint(struct kube *k, const char *path, json_t **node, struct err *err)
{
	auto_json json_t *operations = json_array();
	const json_t *taints = json_object_get(json_object_get(*node, "spec"), "taints");
	for (size_t i = json_array_size(taints); i-- > 0;) { // from the end: removing one moves those behind it
		auto_str char *at = str_fmt("/spec/taints/%zu", i);
		if (str_eq(json_string_value(json_object_get(json_array_get(taints, i), "key")), STARTUP_TAINT))
			add_operation(operations, "remove", at, NULL);
	}
	return json_array_size(operations) ? patch_node(k, path, node, operations, err) : 1;
}

int node_report_write(struct kube *k, const char *node, const struct node_report *r, struct err *err)
{
	struct err taint_err;
	auto_json json_t *object = NULL;
	auto_str char *name = http_escape(node), *path = api_node(name);
	int found = api_get(k, path, &object, err);
	if (found <= 0)
		return found < 0 ? -1 : err_set(err, E_NOT_FOUND, "there is no Node '%s'; check NODE_NAME", node);
	// First the taint, which keeps work away. A right that is missing for one of them does not cost the other.
	int taint = r->is_ready ? remove_taint(k, path, &object, &taint_err) : 1;
	int conditions = write_conditions(k, path, &object, r, err);
	if (conditions < 0)
		return err_wrap(err, "its conditions");
	if (taint < 0) {
		*err = taint_err;
		return err_wrap(err, "its taint " STARTUP_TAINT);
	}
	return taint > 0 && conditions > 0;
}
