// SPDX-License-Identifier: Apache-2.0
// The scheduler places the pod, as it does those of a DaemonSet: by the name of the node, and with every taint
// tolerated. A spec.nodeName would do without it, but the scheduler allocates the devices of DRA, counts those of the
// device plugin, and says what is missing while the pod waits; the kubelet alone would refuse the pod for good.
#include "cluster/coordinator/validation_pod.h"

#include "base/core/date.h"
#include "cluster/coordinator/pods.h"

#include <inttypes.h>
#include <stdio.h>

static const json_t *at(const json_t *object, const char *key)
{
	return json_object_get(object, key);
}
static const char *text_at(const json_t *object, const char *key)
{
	const char *value = json_string_value(at(object, key));
	return value ? value : "";
}

char *validation_pod_name(const struct validation_pod *p)
{
	enum { NODE_MOST = 40 };
	auto_str char *attempt = str_fmt("%s %u.%u", p->uid, p->order.epoch, p->order.n);
	auto_str char *node = str_fmt("%.*s", NODE_MOST, p->node);
	for (char *c = node; *c; c++)
		*c = *c == '.' ? '-' : *c;
	return str_fmt("%s-%016" PRIx64, node, target_hash_of_text(attempt));
}

static int refuse_field(const char *path, const char *field, struct err *err)
{
	return err_set(err, E_CONFIG, "%s%s is not allowed in a validation", path, field);
}

// The profile baseline of the namespace refuses most of it, too, with less to read.
static int check_volumes(const json_t *spec, struct err *err)
{
	const json_t *volumes = at(spec, "volumes");
	for (size_t i = 0; i < json_array_size(volumes); i++) {
		const json_t *volume = json_array_get(volumes, i), *sources = at(at(volume, "projected"), "sources");
		auto_str char *path = str_fmt("template.spec.volumes[%zu].", i);
		if (at(volume, "hostPath"))
			return refuse_field(path, "hostPath", err);
		for (size_t k = 0; k < json_array_size(sources); k++)
			if (at(json_array_get(sources, k), "serviceAccountToken"))
				return refuse_field(path, "projected.sources.serviceAccountToken", err);
	}
	return 0;
}

static int check_template(const json_t *spec, struct err *err)
{
	static const char *const flags[] = { "hostNetwork", "hostPID", "hostIPC" }, *const lists[] = {
		"containers", "initContainers"
	};
	static const char *const accounts[] = { "serviceAccountName", "serviceAccount" };
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (json_is_true(at(spec, flags[i])))
			return refuse_field("template.spec.", flags[i], err);
	for (size_t i = 0; i < ARRAY_SIZE(accounts); i++)
		if (*text_at(spec, accounts[i]) && !str_eq(text_at(spec, accounts[i]), "default"))
			return refuse_field("template.spec.", accounts[i], err);
	if (*text_at(spec, "nodeName"))
		return refuse_field("template.spec.", "nodeName", err);
	for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
		for (size_t i = 0; i < json_array_size(at(spec, lists[l])); i++) {
			const json_t *container = json_array_get(at(spec, lists[l]), i);
			auto_str char *path = str_fmt("template.spec.%s[%zu].", lists[l], i);
			if (json_is_true(at(at(container, "securityContext"), "privileged")))
				return refuse_field(path, "securityContext.privileged", err);
		}
	if (!json_array_size(at(spec, "containers")))
		return err_set(err, E_CONFIG, "template.spec.containers: is missing");
	return check_volumes(spec, err);
}

static json_t *object_in(json_t *object, const char *key) // made where there is none
{
	if (!json_is_object(at(object, key)))
		json_object_set_new(object, key, json_object());
	return json_object_get(object, key);
}

static void add_gpus(json_t *spec, const char *allocatable)
{
	auto_strv struct strv parts = { 0 };
	json_t *container = json_array_get(at(spec, "containers"), 0);
	if (pod_asks_for_gpu(spec) || at(spec, "resourceClaims"))
		return;
	json_t *limits = object_in(object_in(container, "resources"), "limits");
	strv_split(&parts, allocatable, ",");
	for (size_t i = 0; i < parts.count; i++) {
		size_t len = strcspn(parts.items[i], "=");
		auto_str char *name = str_fmt("nvidia.com/%.*s", (int)len, parts.items[i]);
		if (parts.items[i][len])
			json_object_set_new(limits, name, json_string(parts.items[i] + len + 1));
	}
}

int validation_pod_make(const json_t *template, const struct validation_pod *p, json_t **ret, struct err *err)
{
	static const char *const lists[] = { "containers", "initContainers" };
	auto_json json_t *own = json_deep_copy(at(template, "template"));
	json_t *spec = json_object_get(own, "spec"), *metadata = object_in(own, "metadata");
	if (check_template(spec, err) < 0)
		return -1;
	auto_json json_t *set = json_pack(
		"{s:s, s:b, s:i, s:[{s:s}], s:{s:{s:{s:[{s:[{s:s, s:s, s:[s]}]}]}}}}", "restartPolicy", "Never",
		"automountServiceAccountToken", 0, "activeDeadlineSeconds", (int)p->deadline, "tolerations", "operator",
		"Exists", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
		"nodeSelectorTerms", "matchFields", "key", "metadata.name", "operator", "In", "values", p->node);
	json_object_update(spec, set);
	// The end of a log comes with the status: it needs no right to read logs, and outlives them.
	for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
		for (size_t i = 0; i < json_array_size(at(spec, lists[l])); i++)
			json_object_set_new(json_array_get(at(spec, lists[l]), i), "terminationMessagePolicy",
					    json_string("FallbackToLogsOnError"));
	add_gpus(spec, p->allocatable);
	auto_str char *name = validation_pod_name(p);
	auto_json json_t *labels = json_incref(object_in(metadata, "labels"));
	json_object_set_new(labels, VALIDATION_LABEL, json_string(p->uid));
	*ret = json_pack("{s:s, s:s, s:{s:s, s:O, s:O*}, s:O}", "apiVersion", "v1", "kind", "Pod", "metadata", "name",
			 name, "labels", labels, "annotations", at(metadata, "annotations"), "spec", spec);
	return 0;
}

bool validation_pod_is_over(const json_t *pod)
{
	const char *phase = text_at(at(pod, "status"), "phase");
	return str_eq(phase, "Succeeded") || str_eq(phase, "Failed");
}

static void copy_plain(const char *from, size_t len, char text[OBJECT_TEXT])
{
	size_t begin = strlen(text);
	for (size_t i = 0; i < len && begin + i < OBJECT_TEXT - 1; i++)
		text[begin + i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : strchr("\t\r\n", from[i]) ? ' ' : '?';
}

void validation_pod_say(const char *what, char text[OBJECT_TEXT])
{
	memset(text, 0, OBJECT_TEXT);
	copy_plain(what, strlen(what), text);
}

// As much as there is room for, from the beginning of a line if there is one.
static void add_end_of_log(const char *log, char text[OBJECT_TEXT])
{
	size_t room = OBJECT_TEXT - 1 - strlen(text), len = strlen(log);
	while (len && strchr(" \t\r\n", log[len - 1]))
		len--;
	size_t from = len > room ? len - room : 0;
	const char *line = memchr(log + from, '\n', len - from);
	if (from && log[from - 1] != '\n' && line)
		from = (size_t)(line + 1 - log);
	copy_plain(log + from, len - from, text);
}

struct containers { // of a pod, its init containers first
	bool has_run;
	const json_t *failed; // the state of the first that ended with an error
	const char *waits, *why;
};

// How a container ended is not known after a reboot (containerd: "Unknown"; kubelet: "ContainerStatusUnknown").
static void judge_containers(const json_t *list, struct containers *ret)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *state = at(json_array_get(list, i), "state"), *ended = at(state, "terminated");
		bool is_known = ended && !str_ends(text_at(ended, "reason"), "Unknown");
		ret->has_run = ret->has_run || is_known || at(state, "running");
		if (is_known && !ret->failed && json_integer_value(at(ended, "exitCode")))
			ret->failed = ended;
		if (at(state, "waiting") && !*ret->waits) {
			ret->waits = text_at(at(state, "waiting"), "reason");
			ret->why = text_at(at(state, "waiting"), "message");
		}
	}
}

static void set_text(const char *head, const char *rest, char text[OBJECT_TEXT])
{
	auto_str char *both = str_fmt("%s%s%s", head, *head && *rest ? ": " : "", rest);
	validation_pod_say(both, text);
}

static void name_wait(const json_t *status, const struct containers *c, char text[OBJECT_TEXT])
{
	const json_t *conditions = at(status, "conditions");
	for (size_t i = 0; i < json_array_size(conditions); i++) {
		const json_t *one = json_array_get(conditions, i);
		if (str_eq(text_at(one, "type"), "PodScheduled") && str_eq(text_at(one, "status"), "False")) {
			set_text("", text_at(one, "message"), text);
			return;
		}
	}
	set_text(c->waits, c->why, text);
}

// Failed because a container did, or ended by the kubelet at its deadline: that is about the driver. Evicted,
// preempted, refused by the kubelet, deleted or lost in a reboot is not.
static enum job_state judge_failed(const json_t *status, const struct containers *c, unsigned deadline,
				   char text[OBJECT_TEXT])
{
	const char *reason = text_at(status, "reason");
	if (str_eq(reason, "DeadlineExceeded") && c->has_run) {
		snprintf(text, OBJECT_TEXT, "after %u s", deadline);
		return JOB_LATE;
	}
	if (*reason || !c->failed) {
		set_text(*reason ? reason : "it ended without an exit status", text_at(status, "message"), text);
		return JOB_WAITS;
	}
	int code = (int)json_integer_value(at(c->failed, "exitCode"));
	const char *log = text_at(c->failed, "message");
	auto_str char *head = str_fmt("exit %d%s", code, *log ? ": " : "");
	validation_pod_say(head, text);
	add_end_of_log(log, text);
	return JOB_FAILED;
}

enum job_state validation_pod_judge(const json_t *pod, unsigned deadline, int64_t now, char text[OBJECT_TEXT])
{
	enum { KUBELET_S = 120 }; // it ends a pod at its deadline, after a grace period
	const json_t *status = at(pod, "status");
	const char *phase = text_at(status, "phase");
	struct containers c = { .waits = "", .why = "" };
	time_t start;
	memset(text, 0, OBJECT_TEXT);
	judge_containers(at(status, "initContainerStatuses"), &c);
	judge_containers(at(status, "containerStatuses"), &c);
	if (str_eq(phase, "Succeeded"))
		return JOB_PASSED;
	if (at(at(pod, "metadata"), "deletionTimestamp")) {
		set_text("it is being deleted", "", text);
		return JOB_WAITS;
	}
	if (str_eq(phase, "Failed"))
		return judge_failed(status, &c, deadline, text);
	if (!c.has_run) {
		name_wait(status, &c, text);
		return JOB_WAITS;
	}
	if (!date_parse(text_at(status, "startTime"), &start) || now < (int64_t)start + deadline + KUBELET_S)
		return JOB_RUNS;
	snprintf(text, OBJECT_TEXT, "after %u s, and it was not ended either", deadline);
	return JOB_LATE;
}
