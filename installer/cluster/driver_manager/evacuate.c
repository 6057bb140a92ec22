// SPDX-License-Identifier: Apache-2.0
#include "cluster/driver_manager/evacuate.h"

#include "cluster/coordinator/drain.h"
#include "cluster/coordinator/pods.h"
#include "cluster/kube/api.h"
#include "cluster/node_state/operands.h"
#include "cluster/rollout/transition.h"

#include <errno.h>
#include <stdio.h>

enum { TRIES = 10, STEP_MS = 500 };

static const json_t *labels_of(const json_t *object)
{
	return json_object_get(json_object_get(object, "metadata"), "labels");
}
static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}
static const char *annotation(const json_t *object, const char *key)
{
	return text(json_object_get(json_object_get(object, "metadata"), "annotations"), key);
}

static void note_event(const struct evacuation *e, char *take)
{
	if (e->note)
		e->note(e->ctx, take);
	free(take);
}

// Sleeps in short steps: after a signal there is little time left to undo what was done.
static int sleep_checked(const struct evacuation *e, long ms, struct err *err)
{
	for (long end = kube_now_ms() + ms, left; (left = end - kube_now_ms()) > 0;) {
		if (e->is_ended && e->is_ended(e->ctx))
			return err_set(err, EINTR, "interrupted by a signal");
		if (kube_step(e->kube, (int)(left < STEP_MS ? left : STEP_MS), err) < 0)
			return -1;
	}
	return 0;
}

// The Node

struct edit {
	json_t *labels, *annotations;
	enum cordon cordon;
};

static int read_evacuated_node(const struct evacuation *e, json_t **ret, struct err *err)
{
	auto_str char *path = api_node(e->node);
	int r = api_get(e->kube, path, ret, err);
	return r == 0 ? err_set(err, E_NOT_FOUND, "there is no Node '%s'; check NODE_NAME", e->node) : r;
}

// Decided by what the Node is, and written only if it has not changed since. 1 = changed, 0 = nothing to change.
static int change_node(const struct evacuation *e,
		       void (*decide)(const struct evacuation *e, const json_t *node, struct edit *edit),
		       struct err *err)
{
	auto_str char *path = api_node(e->node);
	for (int i = 0; i < TRIES; i++) {
		auto_json json_t *node = NULL, *labels = json_object(), *annotations = json_object();
		struct edit edit = { .labels = labels, .annotations = annotations, .cordon = CORDON_KEEP };
		if (read_evacuated_node(e, &node, err) < 0)
			return -1;
		decide(e, node, &edit);
		if (!json_object_size(labels) && !json_object_size(annotations) && edit.cordon == CORDON_KEEP)
			return 0;
		const json_t *metadata = json_object_get(node, "metadata");
		auto_json json_t *patch =
			json_pack("{s:{s:O, s:O, s:O, s:O}}", "metadata", "uid", json_object_get(metadata, "uid"),
				  "resourceVersion", json_object_get(metadata, "resourceVersion"), "labels", labels,
				  "annotations", annotations);
		if (!patch)
			return err_set(err, E_KUBE, "the Node '%s' has no uid or no resourceVersion", e->node);
		if (edit.cordon != CORDON_KEEP)
			json_object_set_new(patch, "spec",
					    json_pack("{s:o}", "unschedulable",
						      edit.cordon == CORDON_ON ? json_true() : json_null()));
		int r = api_change(e->kube, API_MERGE, path, patch, NULL, err);
		if (r != 0)
			return r;
	}
	return err_set(err, E_CONFLICT, "the Node '%s' was changed by others during each of %d attempts", e->node,
		       TRIES);
}

static void edit_label(const json_t *node, const char *label, char *(*change)(const char *value), struct edit *edit)
{
	auto_str char *value = change(text(labels_of(node), label));
	if (value)
		json_object_set_new(edit->labels, label, json_string(value));
}

static void edit_pause_clients(const struct evacuation *e, const json_t *node, struct edit *edit)
{
	for (const struct borrowed *o = operands; o->key; o++)
		if (!o->is_last)
			edit_label(node, o->key, operand_pause, edit);
	if (e->label)
		edit_label(node, e->label, operand_pause, edit);
}

static void edit_pause_last(const struct evacuation *e, const json_t *node, struct edit *edit)
{
	(void)e;
	for (const struct borrowed *o = operands; o->key; o++)
		if (o->is_last)
			edit_label(node, o->key, operand_pause, edit);
}

static void edit_cordon(const struct evacuation *e, const json_t *node, struct edit *edit)
{
	(void)e;
	if (json_is_true(json_object_get(json_object_get(node, "spec"), "unschedulable")))
		return;
	edit->cordon = CORDON_ON;
	json_object_set_new(edit->annotations, EVACUATE_CORDON, json_string("true"));
}

static void edit_restore(const struct evacuation *e, const json_t *node, struct edit *edit)
{
	for (const struct borrowed *o = operands; o->key; o++)
		edit_label(node, o->key, operand_resume, edit);
	if (e->label)
		edit_label(node, e->label, operand_resume, edit);
	if (!annotation(node, EVACUATE_CORDON))
		return;
	json_object_set_new(edit->annotations, EVACUATE_CORDON, json_null());
	if (json_is_true(json_object_get(json_object_get(node, "spec"), "unschedulable")))
		edit->cordon = CORDON_OFF;
}

static void edit_say_installed(const struct evacuation *e, const json_t *node, struct edit *edit)
{
	(void)e, (void)node;
	json_object_set_new(edit->labels, OPERAND_DRIVER, json_string("pre-installed"));
}

int evacuate_begin(struct evacuation *e, struct err *err)
{
	auto_json json_t *node = NULL;
	if (read_evacuated_node(e, &node, err) < 0)
		return -1;
	if (!str_eq(annotation(node, EVACUATE_UPGRADES), "true"))
		return 0;
	if (e->may_evict || e->may_drain)
		note_event(e, str_fmt("no pod is evicted: the operator's upgrade controller does that (%s)",
				      EVACUATE_UPGRADES));
	e->may_evict = e->may_drain = false;
	return 0;
}

int evacuate_restore(const struct evacuation *e, struct err *err)
{
	return change_node(e, edit_restore, err);
}

int evacuate_mark_preinstalled(const struct evacuation *e, struct err *err)
{
	return change_node(e, edit_say_installed, err) < 0 ? -1 : 0;
}

// Its pods

static int add_pod_item(void *ctx, json_t *pod, struct err *err)
{
	(void)err;
	const json_t *uid = json_object_get(json_object_get(pod, "metadata"), "uid");
	for (size_t i = 0; i < json_array_size(ctx); i++) // a list that started over has some pods twice
		if (json_equal(json_object_get(json_object_get(json_array_get(ctx, i), "metadata"), "uid"), uid))
			return 0;
	json_array_append(ctx, pod);
	return 0;
}

static int list_selected_pods(const struct evacuation *e, const char *selector, json_t **ret, struct err *err)
{
	static const char *const record[] = { PODS_RECORD, "spec nodeSelector", NULL };
	auto_str char *name = http_escape(e->node), *labels = selector ? http_escape(selector) : NULL;
	auto_str char *query = str_fmt("fieldSelector=spec.nodeName%%3D%s%s%s", name, labels ? "&labelSelector=" : "",
				       labels ? labels : "");
	json_decref(*ret);
	*ret = json_array();
	struct kube_list list = {
		.path = "/api/v1/pods", .query = query, .record = record, .take = add_pod_item, .ctx = *ret
	};
	auto_str char *version = NULL;
	return kube_list(e->kube, &list, &version, err);
}

static char *pod_full_name(const json_t *pod)
{
	const json_t *m = json_object_get(pod, "metadata");
	return str_fmt("%s/%s", text(m, "namespace"), text(m, "name"));
}

// Pausing the label ends the pod. Not so a site's own DaemonSet that runs where an operand does not: its selector says
// "false", and that stays.
static bool is_ended_by(const json_t *selector, const char *label)
{
	auto_str char *paused = operand_pause(text(selector, label));
	return paused != NULL;
}

// It belongs to a DaemonSet whose nodeSelector has a label that is paused in this stage.
static bool is_operand_of_stage(const struct evacuation *e, const json_t *pod, bool is_last)
{
	const json_t *selector = json_object_get(json_object_get(pod, "spec"), "nodeSelector");
	const json_t *owners = json_object_get(json_object_get(pod, "metadata"), "ownerReferences"), *owner = NULL;
	for (size_t i = 0; i < json_array_size(owners) && !owner; i++)
		if (json_is_true(json_object_get(json_array_get(owners, i), "controller")))
			owner = json_array_get(owners, i);
	if (!str_eq(text(owner, "kind"), "DaemonSet"))
		return false;
	for (const struct borrowed *o = operands; o->key; o++)
		if (o->is_last == is_last && is_ended_by(selector, o->key))
			return true;
	return e->label && !is_last && is_ended_by(selector, e->label);
}

static bool is_api_unreachable(const struct err *err)
{
	return err->code == E_NETWORK || err->code == E_TIMEOUT;
}

// 1 = listed; 0 = no answer, and there is time left to ask again: giving up here would undo the evacuation, and the
// next run would evict the same pods a second time.
static int list_pods_until(const struct evacuation *e, const char *selector, long end, json_t **ret, struct err *err)
{
	if (list_selected_pods(e, selector, ret, err) == 0)
		return 1;
	json_array_clear(*ret); // of a list that broke off
	return is_api_unreachable(err) && kube_now_ms() < end ? 0 : -1;
}

// The stages of an evacuation: operands that use a GPU, claims of pods, DRA's plugin. Pods give their claims back while
// the plugin is there (KDM evictKubeletPlugin()).
enum stage { STAGE_CLIENTS, STAGE_CLAIMS, STAGE_LAST };
static bool is_waited_for(const struct evacuation *e, const json_t *pod, enum stage stage)
{
	const char *phase = text(json_object_get(pod, "status"), "phase");
	if (stage != STAGE_CLAIMS)
		return is_operand_of_stage(e, pod, stage == STAGE_LAST);
	// A pod with admin access is not evicted; one that ends gives its claim back, too.
	bool is_ending = json_object_get(json_object_get(pod, "metadata"), "deletionTimestamp") != NULL;
	return !str_eq(phase, "Succeeded") && !str_eq(phase, "Failed") && drain_claims_gpu(e->kube, pod, is_ending);
}

static int wait_stage(const struct evacuation *e, enum stage stage, struct err *err)
{
	auto_json json_t *pods = NULL;
	for (long end = kube_now_ms() + EVACUATE_OPERANDS_S * 1000L;;) {
		auto_str char *left = NULL;
		int r = list_pods_until(e, NULL, end, &pods, err);
		for (size_t i = 0; i < json_array_size(pods) && !left; i++)
			if (is_waited_for(e, json_array_get(pods, i), stage))
				left = pod_full_name(json_array_get(pods, i));
		if (r < 0 || (r > 0 && !left))
			return r < 0 ? -1 : 0;
		if (r > 0 && kube_now_ms() >= end)
			return stage == STAGE_CLAIMS ?
				       err_set(err, E_IN_USE, "%s still has a GPU claim", left) :
				       err_set(err, E_IN_USE,
					       "operand %s did not end within %d s after its label was changed", left,
					       EVACUATE_OPERANDS_S);
		if (sleep_checked(e, EVACUATE_LOOK_MS, err) < 0)
			return -1;
	}
}

struct look {
	unsigned left, stuck; // pods in the way; of these, those that must not or cannot be evicted
	bool is_asking;       // evict those that go
	enum evict evict;
	struct err why; // of the first that is stuck, else of the first that is left
};

static int evict_one(const struct evacuation *e, const json_t *pod, struct look *l, struct err *err)
{
	const json_t *m = json_object_get(pod, "metadata");
	struct api_eviction done;
	auto_str char *name = pod_full_name(pod);
	if (api_evict(e->kube, text(m, "namespace"), text(m, "name"), text(m, "uid"), &done, err) < 0)
		return is_api_unreachable(err) ? 0 :
						 err_wrap(err, "evict %s", name); // it is there still, and asked again
	bool is_refused = done.what == API_BLOCKED || done.what == API_REFUSED;
	if (is_refused && !*l->why.text)
		err_set(&l->why, E_IN_USE, "%s: %s", name, done.why.text);
	else if (done.what == API_EVICTED)
		note_event(e, str_fmt("evicted %s", name));
	return 0;
}

static int judge_pods(const struct evacuation *e, const json_t *pods, struct look *l, struct err *err)
{
	struct pool pool = { .evict = l->evict, .is_forced = e->is_forced, .deletes_empty_dir = e->deletes_empty_dir };
	const struct pod_rules rules = { &pool, e->holders, e->own_uid, NULL };
	for (size_t i = 0; i < json_array_size(pods); i++) {
		const json_t *pod = json_array_get(pods, i);
		char why[OBJECT_TEXT];
		bool is_claim = l->evict == EVICT_GPU && drain_claims_gpu(e->kube, pod, false);
		enum pod_verdict verdict = pod_judge(pod, &rules, is_claim, why);
		bool is_fixed = verdict == POD_FIXED && !is_operand_of_stage(e, pod, false) &&
				!is_operand_of_stage(e, pod, true);
		l->left += pod_has_to_go(verdict) || is_fixed;
		if (verdict == POD_GOES && l->is_asking && evict_one(e, pod, l, err) < 0)
			return -1;
		if (!pod_has_to_go(verdict) && !is_fixed)
			continue;
		bool is_stuck = is_fixed || verdict == POD_STUCK;
		auto_str char *name = pod_full_name(pod);
		l->stuck += is_stuck;
		if (!*l->why.text || (is_stuck && l->stuck == 1))
			err_set(&l->why, E_IN_USE, "%s", *why ? why : name);
	}
	return 0;
}

static bool has_selector(const struct evacuation *e)
{
	return e->selector && *e->selector;
}

int evacuate_check(const struct evacuation *e, struct err *err)
{
	struct look l = { .evict = EVICT_GPU };
	auto_json json_t *pods = NULL;
	if (e->may_drain && has_selector(e) && list_selected_pods(e, e->selector, &pods, err) < 0)
		return err_wrap(err, "the drain's selector '%s'", e->selector);
	if (list_selected_pods(e, NULL, &pods, err) < 0 || judge_pods(e, pods, &l, err) < 0)
		return -1;
	if (l.stuck || (l.left && !e->may_evict && !e->may_drain)) {
		*err = l.why;
		return err_wrap(err, l.stuck ? "a pod that uses the GPU must not be evicted" :
					       "pods use the GPUs, and nothing allows to evict them here "
					       "(ENABLE_GPU_POD_EVICTION, ENABLE_AUTO_DRAIN, " EVACUATE_UPGRADES ")");
	}
	return 0;
}

static int evict_selected_pods(const struct evacuation *e, enum evict what, const char *selector, struct err *err)
{
	auto_json json_t *pods = NULL;
	unsigned seconds = e->timeout_s ? e->timeout_s : EVACUATE_PODS_S;
	for (long end = kube_now_ms() + seconds * 1000L;;) {
		struct look first = { .evict = what }, l = { .evict = what, .is_asking = true };
		int r = list_pods_until(e, selector, end, &pods, err);
		// Checked before the first eviction: all pods or none, as kubectl drain does.
		if (r < 0 || judge_pods(e, pods, &first, err) < 0 || (!first.stuck && judge_pods(e, pods, &l, err) < 0))
			return -1;
		if (r > 0 && !first.left)
			return 0;
		if (first.stuck || (r > 0 && kube_now_ms() >= end)) {
			*err = first.stuck ? first.why : l.why;
			return err_wrap(err, "%u pod(s) are left%s", first.left,
					first.stuck ? "" : " after the deadline");
		}
		if (sleep_checked(e, EVACUATE_LOOK_MS, err) < 0)
			return -1;
	}
}

// 1 = DRA's plugin is deployed here.
static int has_dra_plugin(const struct evacuation *e, struct err *err)
{
	auto_json json_t *node = NULL;
	if (read_evacuated_node(e, &node, err) < 0)
		return -1;
	for (const struct borrowed *o = operands; o->key; o++) {
		const char *value = text(labels_of(node), o->key);
		if (o->is_last && value && *value && !str_eq(value, "false"))
			return 1;
	}
	return 0;
}

static int cordon_evacuated_node(const struct evacuation *e, struct err *err)
{
	int r = change_node(e, edit_cordon, err);
	if (r > 0)
		note_event(e, str_fmt("cordoned node %s", e->node));
	return r < 0 ? -1 : 0;
}

int evacuate_run(const struct evacuation *e, struct err *err)
{
	int dra = has_dra_plugin(e, err);
	bool evicts = e->may_evict || (dra > 0 && e->may_drain);
	if (dra < 0 || (evicts && cordon_evacuated_node(e, err) < 0))
		return -1;
	int r = change_node(e, edit_pause_clients, err);
	if (r > 0)
		note_event(e, str_fmt("paused the operands of node %s", e->node));
	if (r < 0 || wait_stage(e, STAGE_CLIENTS, err) < 0 ||
	    (evicts && evict_selected_pods(e, EVICT_GPU, NULL, err) < 0))
		return -1;
	if (dra == 0)
		return 0;
	if (wait_stage(e, STAGE_CLAIMS, err) < 0 || change_node(e, edit_pause_last, err) < 0)
		return -1;
	return wait_stage(e, STAGE_LAST, err);
}

int evacuate_drain(const struct evacuation *e, struct err *err)
{
	if (cordon_evacuated_node(e, err) < 0)
		return -1;
	return evict_selected_pods(e, EVICT_ALL, has_selector(e) ? e->selector : NULL, err);
}
