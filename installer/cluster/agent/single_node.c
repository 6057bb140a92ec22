// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent/single_node.h"

#include "cluster/coordinator/slot_ledger.h"
#include "cluster/rollout/merge_patch.h"
#include "cluster/rollout/rollout_status.h"

enum { SCHEMA = 1, EPOCH = 1 };
static const char DIR_NAME[] = "agent", FILE_NAME[] = "agent/self.json", UID[] = "self";

void self_done(struct self *s)
{
	json_decref(TAKE(s->doc));
}

int self_read(const struct root *state, struct self *ret, char **ret_why, struct err *err)
{
	*ret = (struct self){ 0 };
	*ret_why = NULL;
	member_init(&ret->m, UID, UID);
	int r = json_read(state, FILE_NAME, &ret->doc, err);
	if (r < 0 && err->code != E_CONFIG)
		return -1;
	if (r > 0 && json_integer_value(json_object_get(ret->doc, "schema")) == SCHEMA)
		return 1;
	if (r != 0)
		*ret_why = str_dup(r < 0 ? err->text : "its schema is another one");
	self_done(ret);
	return 0;
}

// What stands in the file, what the agent says, and what people say on the Node.
static void describe(const struct self *s, const struct agent_words *words, const struct facts *people,
		     struct member *ret)
{
	const char *key;
	json_t *value;
	member_init(ret, UID, UID);
	json_object_foreach(json_object_get(s->doc, "labels"), key, value) if (json_is_string(value))
		member_label(ret, key, json_string_value(value));
	json_object_foreach(json_object_get(s->doc, "annotations"), key, value) if (json_is_string(value))
		member_annotation(ret, key, json_string_value(value));
	for (int i = 0; i < AGENT_KEYS; i++)
		if (*words->value[i])
			member_annotation(ret, agent_key_names[i], words->value[i]);
	member_end(ret);
	struct facts *f = &ret->facts;
	f->is_ready = true;
	f->is_unschedulable = json_is_true(json_object_get(s->doc, "cordoned"));
	f->seen = (struct pods_seen){ .stay = member_stay(ret) };
	f->is_skipped = people->is_skipped;
	f->is_paused = people->is_paused;
	f->is_foreign = people->is_foreign;
	f->is_pinned = people->is_pinned;
	f->pin = people->pin;
	f->retry = people->retry;
}

static json_t *copy_of(const json_t *doc, const char *key)
{
	const json_t *value = json_object_get(doc, key);
	return value ? json_deep_copy(value) : json_object();
}

// With the patch in it; NULL = without one.
static json_t *make_doc(const struct self *s, const struct policy *p, const struct rollout *rollouts,
			const struct ledger *ledger, const struct patch *patch)
{
	auto_str char *slots = ledger_text(ledger);
	bool is_cordoned = json_is_true(json_object_get(s->doc, "cordoned"));
	json_t *labels = copy_of(s->doc, "labels"), *annotations = copy_of(s->doc, "annotations");
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
			 rollstatus_make(p, rollouts, json_object_get(s->doc, "status"), EPOCH));
}

// 1 = on the disk, 0 = it stood there already. What could not be written did not happen.
static int put_doc(struct self *s, const struct root *state, json_t *doc, struct err *err)
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

// Nobody else could lift a halt: somebody who asks for a retry means it.
static void lift(const struct member *m, struct rollout *r, int64_t now)
{
	if (!r->is_halted || !m->facts.retry || m->facts.retry == m->record.retry)
		return;
	r->is_halted = false;
	r->halt = (struct reason){ 0 };
	r->resumed = now;
}

static int decide(struct self *s, const struct root *state, const struct cluster *c, const struct slots *slots,
		  struct self_step *ret, struct err *err)
{
	auto_patch struct patch patch = { 0 };
	struct decision d;
	struct view v = slots_view(c, slots, 0);
	transition(&v, &d);
	if (!d.rule)
		return 0;
	patch_make(&s->m, &d, false, &patch);
	int r = put_doc(s, state, make_doc(s, c->policy, slots->rollouts, c->ledger, &patch), err);
	if (r > 0 && s->m.record.phase != d.next.phase)
		*ret = (struct self_step){ true, d.next.phase, d.next.reason };
	if (r > 0)
		s->m.record = d.next;
	return r;
}

int self_step(struct self *s, const struct root *state, const struct policy *policy, const struct agent_words *words,
	      const struct facts *people, int64_t now, struct self_step *ret, struct err *err)
{
	struct rollout rollout = { 0 };
	struct ledger ledger = { 0 };
	auto_slots struct slots slots = SLOTS_NONE;
	const char *text = json_string_value(json_object_get(s->doc, "slots"));
	*ret = (struct self_step){ 0 };
	describe(s, words, people, &s->m);
	ledger_parse(text && *text ? text : NULL, &ledger);
	if (rollstatus_read(json_object_get(s->doc, "status"), policy, &rollout, err) < 0) {
		ledger_done(&ledger);
		return -1;
	}
	lift(&s->m, &rollout, now);
	const struct cluster c = { policy, &rollout, &s->m, 1, &ledger, EPOCH, now, NULL, NULL, false };
	slots_plan(&c, &slots);
	bool is_granting = slots.granted || slots.freed;
	int r = put_doc(s, state, make_doc(s, policy, slots.rollouts, is_granting ? &slots.ledger : &ledger, NULL),
			err);
	if (r == 0)
		r = decide(s, state, &c, &slots, ret, err);
	ledger_done(&ledger);
	return r;
}
