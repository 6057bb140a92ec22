// SPDX-License-Identifier: Apache-2.0
// Which policy is in force: the DriverRollout, or the ConfigMap if there is none, if it is valid, else the last valid
// one. That one is kept beside the status, so that neither a typo nor a newer schema becomes "no policy" after a
// restart; agents read it there, too.
#include "cluster/coordinator/coordinator_internal.h"
#include "cluster/kube/api.h"
#include "cluster/rollout/operator_requests.h"
#include "cluster/rollout/undo.h"

static const char *source_annotation(const json_t *object, const char *key)
{
	const json_t *notes = json_object_get(json_object_get(object, "metadata"), "annotations");
	return json_string_value(json_object_get(notes, key));
}

static void accept_policy(struct coordinator *c, struct policy *take, const json_t *doc)
{
	policy_done(&c->policy);
	c->policy = *take;
	*take = POLICY_NONE;
	c->pauses = c->policy.is_paused;
	free(c->policy_text);
	c->policy_text = doc ? json_dumps(doc, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
	c->has_policy = true;
}

// The document with the undo of that annotation applied, which is what agents read.
static int accept_document(struct coordinator *c, const json_t *document, const char *note, struct err *err)
{
	auto_policy struct policy now = POLICY_NONE, undone = POLICY_NONE;
	auto_strv struct strv words = { 0 };
	auto_json json_t *own = json_deep_copy(document), *replaced = json_object();
	if (policy_read(own, &now, err) < 0)
		return -1;
	int r = note ? undo_apply(note, &now, own, &words, replaced, err) : 0;
	if (r < 0 || (r > 0 && policy_read(own, &undone, err) < 0))
		return -1;
	// The way back to a driver that is known takes no longer than it has to.
	for (size_t i = 0; i < undone.pool_count; i++)
		if (json_object_get(replaced, undone.pools[i].name))
			free(TAKE(undone.pools[i].job));
	accept_policy(c, r > 0 ? &undone : &now, own);
	strv_done(&c->undone);
	c->undone = words;
	words = (struct strv){ 0 };
	json_decref(TAKE(c->replaced));
	c->replaced = r > 0 ? TAKE(replaced) : NULL;
	return 0;
}

const json_t *coordinator_source(const struct coordinator *c, char **ret_path)
{
	if (ret_path)
		*ret_path =
			api_path(c->policy_object ? API_DRIVER_ROLLOUT : API_CONFIGMAP, c->o.namespace, POLICY_NAME);
	return c->policy_object ? c->policy_object : c->policy_map;
}

// No policy is one without pools: nodes in progress are released (T27).
static int accept_offered(struct coordinator *c, struct err *err)
{
	auto_policy struct policy none = { .schema = POLICY_SCHEMA };
	auto_json json_t *doc = NULL;
	const char *json = coordinator_configmap_value(c->policy_map, POLICY_KEY);
	const char *yaml = coordinator_configmap_value(c->policy_map, POLICY_KEY_YAML), *text = json ? json : yaml;
	if (c->policy_object) {
		doc = json_deep_copy(json_object_get(c->policy_object, "spec"));
		if (!doc)
			return err_set(err, E_CONFIG, "the " DRIVER_ROLLOUT_KIND " %s has no spec", POLICY_NAME);
	} else if (c->policy_map && !json == !yaml) {
		return err_set(err, E_CONFIG, "the ConfigMap %s has %s " POLICY_KEY " %s " POLICY_KEY_YAML, POLICY_NAME,
			       json ? "both" : "neither", json ? "and" : "nor");
	} else if (text && policy_document(text, strlen(text), &doc, err) < 0) {
		return -1;
	}
	if (doc)
		return accept_document(c, doc, source_annotation(coordinator_source(c, NULL), UNDO_NOTE), err);
	accept_policy(c, &none, NULL);
	strv_done(&c->undone);
	json_decref(TAKE(c->replaced));
	return 0;
}

// The policy that was in force before, here or under another leader, with the undo of now: one that was added since
// then applies, and one that was removed by a resume does not.
static int accept_last(struct coordinator *c, struct err *err)
{
	const char *text = c->has_policy ? c->policy_text : coordinator_configmap_value(c->status_map, POLICY_KEY);
	const char *undone = coordinator_configmap_value(c->status_map, ROLLOUT_STATUS_UNDONE_KEY);
	if (!text)
		return c->has_policy ? 0 : err_set(err, E_CONFIG, "no policy was accepted before");
	if (!c->has_policy) {
		json_decref(c->replaced);
		c->replaced = undone ? json_loads(undone, JSON_REJECT_DUPLICATES, NULL) : NULL;
	}
	auto_json json_t *same = NULL;
	if (policy_document(text, strlen(text), &same, err) < 0)
		return -1;
	auto_json json_t *doc = json_deep_copy(same);
	undo_revert(doc, c->replaced);
	if (accept_document(c, doc, source_annotation(coordinator_source(c, NULL), UNDO_NOTE), err) == 0)
		return 0;
	auto_policy struct policy unchanged = POLICY_NONE; // it is unknown whether the undo still applies: it stays
	if (policy_read(same, &unchanged, err) < 0)
		return -1;
	accept_policy(c, &unchanged, same);
	return 0;
}

void policy_in_force_choose(struct coordinator *c)
{
	struct err why = { 0 };
	c->refused = (struct err){ 0 };
	if (accept_offered(c, &c->refused) < 0) {
		coordinator_report_trouble(c, "the policy is refused", &c->refused);
		if (accept_last(c, &why) < 0 && !c->has_policy)
			err_set(&c->blind, E_CONFIG, "the policy is refused, and there is no last good one (%s): %s",
				why.text, c->refused.text);
	}
	if (c->policy_object && c->policy_map) {
		err_set(&why, E_CONFIG, "there is a " DRIVER_ROLLOUT_KIND ", and the ConfigMap %s is ignored",
			POLICY_NAME);
		coordinator_report_trouble(c, "the policy", &why);
	}
	if (c->policy.mode == MODE_SELF) {
		err_set(&why, E_CONFIG, "mode is self: agents work without a coordinator, and nothing is begun");
		coordinator_report_trouble(c, "the policy", &why);
	}
	const char *pause = source_annotation(coordinator_source(c, NULL), gate_keys[GATE_PAUSE]);
	c->policy.is_paused = c->pauses || c->policy.mode == MODE_SELF || (pause && !str_eq(pause, "false"));
}

static void record_event(struct coordinator *c, const json_t *object, const char *reason, const char *message)
{
	struct err why;
	const json_t *uid = json_object_get(json_object_get(object, "metadata"), "uid");
	bool is_map = object == c->policy_map;
	const struct api_object of = { is_map ? "v1" : DRIVER_ROLLOUT_VERSION,
				       is_map ? "ConfigMap" : DRIVER_ROLLOUT_KIND, c->o.namespace, POLICY_NAME,
				       json_string_value(uid) };
	const struct api_event event = { .of = &of,
					 .reason = reason,
					 .message = message,
					 .is_warning = !str_eq(reason, "PolicyAccepted"),
					 .component = "kmodsmith-coordinator" };
	if (object && api_event(c->o.kube, &event, &why) < 0)
		coordinator_report_trouble(c, "an event", &why);
}

void policy_in_force_report(struct coordinator *c)
{
	const json_t *source = coordinator_source(c, NULL);
	const char *refusal = c->refused.code ? c->refused.text : NULL;
	bool is_doubled = c->policy_object && c->policy_map;
	if (is_doubled && !c->has_told_double)
		record_event(c, c->policy_map, "PolicyIgnored",
			     "the " DRIVER_ROLLOUT_KIND " of the same name is the policy");
	c->has_told_double = is_doubled;
	if (source && !(refusal ? str_eq(refusal, c->told) : !c->told)) {
		auto_str char *message =
			!refusal ? str_dup("it is in force") :
			c->blind.code ?
				   str_fmt("%s; nothing is done until it is corrected", refusal) :
				   str_fmt("%s; the last good policy stays in force until it is corrected", refusal);
		record_event(c, source, refusal ? "PolicyRefused" : "PolicyAccepted", message);
		free(c->told);
		c->told = str_dup(refusal);
	}
	// Each node carries its reason; their number is reported once, in the log and on the policy.
	struct err why;
	size_t count = 0;
	const char *first = "";
	for (size_t i = 0; i < c->node_cache.count; i++) {
		const struct node_state *m = &c->node_cache.nodes[i];
		bool is_held = node_state_is_foreign(m) && policy_pool(&c->policy, m);
		first = is_held && !count ? c->node_cache.entries[i].name : first;
		count += is_held;
	}
	if (count && count != c->told_foreign) {
		err_set(&why, E_HOST_DRIVER,
			"NVIDIA's operator manages the driver on %zu of the nodes that the policy selects (%s%s): "
			"these are held, the others continue; see kmodsmith-operator(7)",
			count, first, count > 1 ? ", ..." : "");
		coordinator_report_trouble(c, "the policy", &why);
		record_event(c, source, "NodesOfOtherOperator", why.text);
	}
	c->told_foreign = count;
}
