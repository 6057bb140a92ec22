// SPDX-License-Identifier: Apache-2.0
#include "cluster/driver_manager/upgrade_hold.h"

#include "base/core/date.h"
#include "cluster/driver_manager/driver_pod.h"
#include "cluster/kube/api.h"
#include "cluster/node_state/states.h"

static const char LIFTED[] = "lifted";
enum { TURNS = 12 };

void upgrade_hold_done(struct upgrade_hold *h)
{
	free(h->pod);
	free(h->target);
	free(h->reason);
	*h = (struct upgrade_hold){ 0 };
}

static json_t *time_json(int64_t s)
{
	auto_str char *text = s ? date_text((time_t)s) : NULL;
	return json_text(text);
}

char *upgrade_hold_text(const struct upgrade_hold *h)
{
	auto_json json_t *json =
		json_pack("{s:s, s:o, s:o, s:I, s:o, s:o, s:o}", "state", h->is_held ? "held" : LIFTED, "pod",
			  json_text(h->pod), "target", json_text(h->target), "generation", (json_int_t)h->set, "since",
			  time_json(h->since_s), "until", time_json(h->until_s), "reason", json_text(h->reason));
	return json_dumps(json, JSON_COMPACT);
}

static int64_t parse_time(const json_t *receipt, const char *key)
{
	time_t s = 0;
	const char *text = json_string_value(json_object_get(receipt, key));
	return text && date_parse(text, &s) ? s : 0;
}

void upgrade_hold_parse(const char *text, struct upgrade_hold *ret)
{
	auto_json json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	*ret = (struct upgrade_hold){
		.is_held = !str_eq(json_string_value(json_object_get(json, "state")), LIFTED),
		.pod = json_text_dup(json, "pod"),
		.target = json_text_dup(json, "target"),
		.reason = json_text_dup(json, "reason"),
		.set = json_integer_value(json_object_get(json, "generation")),
		.since_s = parse_time(json, "since"),
		.until_s = parse_time(json, "until"),
	};
}

// What the controller does with the node from upgrade-required on is not ours to stop; before that it acts for a node
// without the label at once. So the label comes first, and goes only when all is known.
static enum upgrade_hold_act decide_target(const struct upgrade_hold_view *v)
{
	const struct upgrade_hold *r = v->receipt;
	bool is_same = r && r->set == v->generation;
	if (!is_same)
		return HOLD_BEGIN;
	if (!v->label) // lifted before, or by somebody who wants it so
		return r->is_held ? HOLD_LIFT : HOLD_NOTHING;
	if (v->proof == HOLD_PROVEN || v->now_s >= r->until_s)
		return HOLD_LIFT;
	return v->proof == HOLD_REFUSED ? HOLD_KEEP : HOLD_PROVE;
}

enum upgrade_hold_act upgrade_hold_decide(const struct upgrade_hold_view *v)
{
	const struct upgrade_hold *r = v->receipt;
	bool is_ours = v->label && r && r->is_held;
	if (v->label && !is_ours)
		return HOLD_NOTHING;
	if (!v->hold_s)
		return r ? HOLD_FORGET : HOLD_NOTHING;
	if (v->when != HOLD_SERVING && !r)
		return HOLD_NOTHING;
	bool is_at_rest = is_ours && !r->set && str_eq(r->pod, v->pod);
	if (is_at_rest && !v->is_required && v->when == HOLD_SERVING)
		return HOLD_NOTHING;
	if (v->set == HOLD_SET_UNREAD)
		return HOLD_ASK;
	if (v->set == HOLD_SET_OTHER)
		return r ? HOLD_FORGET : HOLD_NOTHING;
	if (v->when == HOLD_LEAVING || (v->when == HOLD_STARTING && !(is_ours && v->is_required)))
		return HOLD_NOTHING; // its successor goes on from there
	return v->is_required ? decide_target(v) : HOLD_REST;
}

// One look

struct look {
	const struct upgrade_hold_request *request;
	struct upgrade_hold_view view;
	struct upgrade_hold receipt; // as the Node has it
	json_t *node, *pod, *set, *next;
	enum upgrade_hold_proof proof;
	int64_t proven; // generation that it is of
	struct err refused;
};

static void look_done(struct look *l)
{
	upgrade_hold_done(&l->receipt);
	json_decref(l->node);
	json_decref(l->pod);
	json_decref(l->set);
	json_decref(l->next);
}
#define auto_look __attribute__((cleanup(look_done)))

static void take_json(json_t **to, json_t *take)
{
	json_decref(*to);
	*to = take;
}
static const json_t *metadata(const json_t *object, const char *key)
{
	return json_object_get(json_object_get(object, "metadata"), key);
}
static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static int read_held_node(struct look *l, struct err *err)
{
	const struct upgrade_hold_request *q = l->request;
	auto_str char *path = api_node(q->node);
	json_t *node = NULL;
	int r = api_get(q->kube, path, &node, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_NOT_FOUND, "there is no Node '%s'; check NODE_NAME", q->node);
	take_json(&l->node, node);
	const json_t *labels = metadata(node, "labels");
	const char *receipt = text(metadata(node, "annotations"), UPGRADE_HOLD);
	upgrade_hold_done(&l->receipt);
	if (receipt)
		upgrade_hold_parse(receipt, &l->receipt);
	l->view = (struct upgrade_hold_view){
		.label = text(labels, UPGRADE_SKIP),
		.receipt = receipt ? &l->receipt : NULL,
		.is_required = str_eq(text(labels, UPGRADE_LABEL), "upgrade-required"),
		.pod = q->pod,
		.when = q->when,
		.hold_s = q->hold_s,
		.now_s = kube_time(q->kube),
	};
	return 0;
}

static bool is_selected(const json_t *node, const json_t *selector)
{
	const char *key;
	const json_t *value;
	json_object_foreach((json_t *)(uintptr_t)selector, key, value)
	{
		if (!str_eq(text(metadata(node, "labels"), key), json_string_value(value)))
			return false;
	}
	return true;
}

static bool is_of_operator(const json_t *set)
{
	const json_t *owner = driver_pod_owner(set);
	const char *kind = text(owner, "kind"), *version = text(owner, "apiVersion");
	return version && str_starts(version, "nvidia.com/") &&
	       (str_eq(kind, "ClusterPolicy") || str_eq(kind, "NVIDIADriver"));
}

static int read_set(struct look *l, struct err *err)
{
	const struct upgrade_hold_request *q = l->request;
	json_t *set = NULL;
	if (!l->pod && driver_pod_read(q->kube, q->namespace, q->node, q->pod, true, &l->pod, err) < 0)
		return -1;
	const json_t *owner = driver_pod_owner(l->pod);
	auto_str char *path =
		str_fmt("/apis/apps/v1/namespaces/%s/daemonsets/%s", q->namespace, owner ? text(owner, "name") : "");
	bool is_owned = str_eq(text(owner, "kind"), "DaemonSet");
	if (is_owned && api_get(q->kube, path, &set, err) < 0)
		return -1;
	take_json(&l->set, set);
	take_json(&l->next, driver_pod_next(l->pod, set));
	const json_t *selector = json_object_get(json_object_get(l->next, "spec"), "nodeSelector");
	bool is_ours = set && json_equal(metadata(set, "uid"), json_object_get(owner, "uid")) &&
		       !metadata(set, "deletionTimestamp") && is_of_operator(set) && is_selected(l->node, selector) &&
		       driver_pod_is_same_image(l->pod, l->next);
	l->view.set = is_ours ? HOLD_SET_OURS : HOLD_SET_OTHER;
	l->view.generation = json_integer_value(metadata(set, "generation"));
	l->view.proof = l->proven == l->view.generation ? l->proof : HOLD_UNPROVEN;
	return 0;
}

static void prove_target(struct look *l)
{
	const struct upgrade_hold_request *q = l->request;
	bool is_proven = q->prove(q->ctx, l->pod, l->next, &l->refused) >= 0;
	l->proof = is_proven ? HOLD_PROVEN : HOLD_REFUSED;
	l->proven = l->view.generation;
}

static char *reason_of(const struct look *l, enum upgrade_hold_act act)
{
	switch (act) {
	case HOLD_BEGIN:
		return str_dup("it is being fetched and proven");
	case HOLD_KEEP:
		return str_fmt("%s: %s", err_info(l->refused.code)->name, l->refused.text);
	case HOLD_LIFT:
		return str_dup(!l->view.label               ? "somebody removed the label" :
			       l->view.proof == HOLD_PROVEN ? "it is proven, and in this node's store" :
							      "it is not proven, but the deadline is over");
	default:
		return str_dup("no other driver is wanted");
	}
}

static void fill_receipt(const struct look *l, enum upgrade_hold_act act, struct upgrade_hold *ret)
{
	const struct upgrade_hold_view *v = &l->view;
	bool is_new = act == HOLD_BEGIN || act == HOLD_REST;
	*ret = (struct upgrade_hold){
		.is_held = act != HOLD_LIFT,
		.pod = str_dup(v->pod),
		.target = act == HOLD_REST ? NULL : str_dup(driver_pod_image(l->next)),
		.reason = reason_of(l, act),
		.set = act == HOLD_REST ? 0 : v->generation,
		.since_s = is_new ? v->now_s : l->receipt.since_s,
		.until_s = act == HOLD_BEGIN ? v->now_s + v->hold_s :
			   act == HOLD_REST  ? 0 :
					       l->receipt.until_s,
	};
}

// 1 = written, 0 = the Node was changed meanwhile.
static int write_receipt(struct look *l, enum upgrade_hold_act act, struct err *err)
{
	const struct upgrade_hold_request *q = l->request;
	auto_str char *path = api_node(q->node), *value = NULL;
	auto_upgrade_hold struct upgrade_hold now = { 0 };
	if (act != HOLD_FORGET) {
		fill_receipt(l, act, &now);
		value = upgrade_hold_text(&now);
	}
	auto_json json_t *patch = json_pack(
		"{s:{s:O, s:O, s:{s:o}, s:{s:o}}}", "metadata", "uid", metadata(l->node, "uid"), "resourceVersion",
		metadata(l->node, "resourceVersion"), "labels", UPGRADE_SKIP,
		now.is_held ? json_string("true") : json_null(), "annotations", UPGRADE_HOLD, json_text(value));
	if (!patch)
		return err_set(err, E_KUBE, "the Node '%s' has no uid or no resourceVersion", q->node);
	int r = api_change(q->kube, API_MERGE, path, patch, NULL, err);
	if (r > 0) {
		upgrade_hold_done(&l->receipt);
		l->receipt = now;
		now = (struct upgrade_hold){ 0 };
	}
	return r;
}

// 1 = over, 0 = look again.
static int take_turn(struct look *l, struct err *err)
{
	if (read_held_node(l, err) < 0)
		return -1;
	enum upgrade_hold_act act = upgrade_hold_decide(&l->view);
	if (act == HOLD_ASK) {
		if (read_set(l, err) < 0)
			return -1;
		act = upgrade_hold_decide(&l->view);
	}
	if (act == HOLD_PROVE) {
		prove_target(l);
		return 0;
	}
	auto_str char *reason = reason_of(l, act);
	if (act == HOLD_NOTHING || (act == HOLD_KEEP && str_eq(reason, l->receipt.reason)))
		return 1;
	int r = write_receipt(l, act, err);
	return r < 0 ? -1 : r > 0 && act != HOLD_BEGIN;
}

int upgrade_hold_look(const struct upgrade_hold_request *request, struct upgrade_hold *ret, struct err *err)
{
	auto_look struct look l = { .request = request };
	int r = 0;
	for (unsigned i = 0; i < TURNS && r == 0; i++)
		r = take_turn(&l, err);
	if (r <= 0)
		return r < 0 ? -1 :
			       err_set(err, E_CONFLICT,
				       "the Node '%s' was changed by others during each of %d attempts", request->node,
				       TURNS);
	*ret = l.receipt;
	l.receipt = (struct upgrade_hold){ 0 };
	if (!l.view.is_required) // of a target that is not wanted any more
		str_set(&ret->target, NULL);
	return ret->target && ret->is_held;
}
