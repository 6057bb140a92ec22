// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent/single_node.h"

#include "base/process/state_file.h"
#include "cluster/rollout/node_patch.h"
#include "cluster/rollout/rollout_status.h"

enum { SCHEMA = 1, EPOCH = 1 };
static const char DIR_NAME[] = "agent", FILE_NAME[] = "agent/self.json", DAMAGED[] = "agent/self.damaged",
		  UID[] = "self";

void single_node_done(struct single_node *s)
{
	json_decref(TAKE(s->doc));
}

int single_node_read(const struct root *state, struct single_node *ret, char **ret_why, struct err *err)
{
	*ret = (struct single_node){ 0 };
	*ret_why = NULL;
	node_state_init(&ret->m, UID, UID);
	int r = state_file_read(state, FILE_NAME, &ret->doc, err);
	if (r < 0 && err->code != E_CONFIG)
		return -1;
	if (r > 0 && json_integer_value(json_object_get(ret->doc, "schema")) == SCHEMA)
		return 1;
	if (r != 0) {
		struct err ignored; // only kept for diagnosis; the next write would replace it
		*ret_why = str_dup(r < 0 ? err->text : "unknown schema");
		if (root_rmtree(state, DAMAGED, &ignored) >= 0)
			root_rename(state, FILE_NAME, DAMAGED, &ignored);
	}
	single_node_done(ret);
	return 0;
}

// From the file, from what the agent reports, and from what users say on the Node.
static void describe_node(const struct single_node *s, const struct agent_annotations *words,
			  const struct node_facts *people, struct node_state *ret)
{
	const char *key;
	json_t *value;
	node_state_init(ret, UID, UID);
	json_object_foreach(json_object_get(s->doc, "labels"), key, value) if (json_is_string(value))
		node_state_label(ret, key, json_string_value(value));
	json_object_foreach(json_object_get(s->doc, "annotations"), key, value) if (json_is_string(value))
		node_state_annotation(ret, key, json_string_value(value));
	for (int i = 0; i < AGENT_KEYS; i++)
		if (*words->value[i])
			node_state_annotation(ret, agent_key_names[i], words->value[i]);
	struct node_facts *f = &ret->facts;
	f->is_ready = true;
	f->is_unschedulable = json_is_true(json_object_get(s->doc, "cordoned"));
	f->seen = (struct pods_seen){ .stay = node_state_stay(ret) };
	f->is_skipped = people->is_skipped;
	f->is_paused = people->is_paused;
	f->is_foreign = people->is_foreign;
	f->is_pinned = people->is_pinned;
	f->pin = people->pin;
	f->retry = people->retry;
}

static json_t *doc_member_copy(const json_t *doc, const char *key)
{
	const json_t *value = json_object_get(doc, key);
	return value ? json_deep_copy(value) : json_object();
}

// With the changes of the patch; NULL = none.
static json_t *make_self_doc(const struct single_node *s, const struct policy *p, const struct rollout *rollouts,
			     const struct slot_ledger *ledger, const struct node_patch *patch)
{
	auto_str char *slots = scheduler_ledger_text(ledger);
	bool is_cordoned = json_is_true(json_object_get(s->doc, "cordoned"));
	json_t *labels = doc_member_copy(s->doc, "labels"), *annotations = doc_member_copy(s->doc, "annotations");
	for (size_t i = 0; patch && i < patch->count; i++) {
		const struct change *c = &patch->changes[i];
		json_t *object = c->is_label ? labels : annotations;
		if (c->value)
			json_object_set_new(object, c->key, json_string(c->value));
		else
			json_object_del(object, c->key);
	}
	if (patch && patch->cordon != CORDON_KEEP)
		is_cordoned = patch->cordon == CORDON_ON;
	return json_pack("{s:i, s:b, s:o, s:o, s:s, s:o}", "schema", SCHEMA, "cordoned", is_cordoned, "labels", labels,
			 "annotations", annotations, "slots", slots, "status",
			 rollout_status_make(p, rollouts, json_object_get(s->doc, "status"), EPOCH));
}

// 1 = written, 0 = nothing changed. What could not be written did not happen.
static int write_self_doc(struct single_node *s, const struct root *state, json_t *doc, struct err *err)
{
	auto_json json_t *mine = doc;
	if (!mine)
		return err_set(err, E_SYSTEM, "the agent's own record cannot be written as JSON");
	if (json_equal(mine, s->doc))
		return 0;
	if (root_mkdirs(state, DIR_NAME, 0755, err) < 0 || json_write(state, FILE_NAME, mine, err) < 0)
		return -1;
	json_decref(s->doc);
	s->doc = TAKE(mine);
	return 1;
}

static int decide_step(struct single_node *s, const struct root *state, const struct cluster *c,
		       const struct slots *slots, struct single_node_step *ret, struct err *err)
{
	auto_node_patch struct node_patch patch = { 0 };
	struct decision d;
	struct view v = scheduler_view(c, slots, 0);
	transition(&v, &d);
	if (!d.rule)
		return 0;
	node_patch_make(&s->m, &d, false, &patch);
	int r = write_self_doc(s, state, make_self_doc(s, c->policy, slots->rollouts, c->ledger, &patch), err);
	if (r > 0 && s->m.record.phase != d.next.phase)
		*ret = (struct single_node_step){ true, d.next.phase, d.next.reason };
	if (r > 0)
		s->m.record = d.next;
	return r;
}

int single_node_step(struct single_node *s, const struct root *state, const struct policy *policy,
		     const struct agent_annotations *words, const struct node_facts *people, int64_t now,
		     struct single_node_step *ret, struct err *err)
{
	struct rollout rollout = { 0 };
	struct slot_ledger ledger = { 0 };
	auto_slots struct slots slots = SLOTS_NONE;
	const char *text = json_string_value(json_object_get(s->doc, "slots"));
	*ret = (struct single_node_step){ 0 };
	describe_node(s, words, people, &s->m);
	scheduler_ledger_parse(text && *text ? text : NULL, &ledger);
	if (rollout_status_read(json_object_get(s->doc, "status"), policy, &rollout, err) < 0) {
		scheduler_ledger_done(&ledger);
		return -1;
	}
	bool is_retry = s->m.facts.retry && s->m.facts.retry != s->m.record.retry;
	if (rollout.is_halted && is_retry) { // there is no coordinator to resume it
		rollout.is_halted = false;
		rollout.halt = (struct reason){ 0 };
		rollout.resumed = now;
	}
	const struct cluster c = { policy, &rollout, &s->m, 1, &ledger, EPOCH, now, NULL, NULL, false, 0, NULL, 0 };
	scheduler_plan(&c, &slots);
	bool is_granting = slots.granted || slots.freed;
	int r = write_self_doc(
		s, state, make_self_doc(s, policy, slots.rollouts, is_granting ? &slots.ledger : &ledger, NULL), err);
	if (r == 0)
		r = decide_step(s, state, &c, &slots, ret, err);
	scheduler_ledger_done(&ledger);
	return r;
}
