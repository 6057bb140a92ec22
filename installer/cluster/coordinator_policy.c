// SPDX-License-Identifier: Apache-2.0
// Which policy is in force: what stands in the ConfigMap when it means something, else the last one that did. That one
// is kept beside the status, so that neither a typo nor a newer schema is taken for "no policy" after a restart; agents
// read it there, too.
#include "cluster/api.h"
#include "cluster/coordinator_own.h"

static bool is_noted_true(const json_t *map, const char *key)
{
	const json_t *notes = json_object_get(json_object_get(map, "metadata"), "annotations");
	return str_eq(json_string_value(json_object_get(notes, key)), "true");
}

static void accept(struct coordinator *c, struct policy *take, const json_t *doc)
{
	policy_done(&c->policy);
	c->policy = *take;
	*take = POLICY_NONE;
	c->pauses = c->policy.is_paused;
	free(c->policy_text);
	c->policy_text = doc ? json_dumps(doc, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
	c->has_policy = true;
}

// No policy is one without pools: nodes in flight are released (T27).
static int take_offered(struct coordinator *c, struct err *err)
{
	auto_policy struct policy now = { .schema = POLICY_SCHEMA };
	auto_json json_t *doc = NULL;
	const char *json = coordinator_datum(c->policy_map, POLICY_KEY);
	const char *yaml = coordinator_datum(c->policy_map, POLICY_KEY_YAML), *text = json ? json : yaml;
	if (c->policy_map && !json == !yaml)
		return err_set(err, E_CONFIG, "the ConfigMap %s has %s " POLICY_KEY " %s " POLICY_KEY_YAML, POLICY_NAME,
			       json ? "both" : "neither", json ? "and" : "nor");
	if (text && (policy_document(text, strlen(text), &doc, err) < 0 || policy_read(doc, &now, err) < 0))
		return -1;
	accept(c, &now, doc);
	return 0;
}

static int take_kept(struct coordinator *c, struct err *err)
{
	auto_policy struct policy kept = POLICY_NONE;
	auto_json json_t *doc = NULL;
	const char *text = coordinator_datum(c->status_map, POLICY_KEY);
	if (!text)
		return err_set(err, E_CONFIG, "none was accepted before");
	if (policy_document(text, strlen(text), &doc, err) < 0 || policy_read(doc, &kept, err) < 0)
		return -1;
	accept(c, &kept, doc);
	return 0;
}

void policy_choose(struct coordinator *c)
{
	struct err why = { 0 };
	c->refused = (struct err){ 0 };
	if (take_offered(c, &c->refused) < 0) {
		coordinator_say(c, "the policy is refused", &c->refused);
		if (!c->has_policy && take_kept(c, &why) < 0)
			err_set(&c->blind, E_CONFIG, "the policy is refused, and there is no last good one (%s): %s",
				why.text, c->refused.text);
	}
	if (c->policy.mode == MODE_SELF) {
		err_set(&why, E_CONFIG, "its mode is self: nodes ask no coordinator, and nothing is begun");
		coordinator_say(c, "the policy", &why);
	}
	c->policy.is_paused =
		c->pauses || c->policy.mode == MODE_SELF || is_noted_true(c->policy_map, gate_keys[GATE_PAUSE]);
}

void policy_tell(struct coordinator *c)
{
	struct err why;
	const json_t *metadata = json_object_get(c->policy_map, "metadata");
	const char *refusal = c->refused.code ? c->refused.text : NULL;
	const struct api_object of = { "v1", "ConfigMap", c->o.namespace, POLICY_NAME,
				       json_string_value(json_object_get(metadata, "uid")) };
	if (!c->policy_map || (refusal ? str_eq(refusal, c->told) : !c->told))
		return;
	auto_str char *message =
		!refusal      ? str_dup("it is in force") :
		c->blind.code ? str_fmt("%s; nothing is done until it is mended", refusal) :
				str_fmt("%s; the last good policy stays in force until it is mended", refusal);
	const struct api_event event = { .of = &of,
					 .reason = refusal ? "PolicyRefused" : "PolicyAccepted",
					 .message = message,
					 .is_warning = refusal,
					 .component = "kmodsmith-coordinator" };
	if (api_event(c->o.kube, &event, &why) < 0) {
		coordinator_say(c, "an event", &why);
		return;
	}
	free(c->told);
	c->told = str_dup(refusal);
}
