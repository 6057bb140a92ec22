// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent/loop.h"
#include "cluster/kube/api.h"
#include "cluster/kube/clock.h"
#include "cluster/node_state/annotations.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

enum {
	LOOK_MS = 60000, // drift is seen so late
	POLICY_MS = 5000,
	RETRY_MS = 10000, // of what cannot be read or written on this node
	EXACT_MS = 2000,
	COARSE_MS = 15000,
	HYSTERESIS_MS = 60000,
	ACCEPT_MS = 10000, // an order that ends sooner is reported once (S5); waited for three times a minute
	BUSY_MS = 200,
	STEPS_MOST = 16,
	CHOICES_MOST = 8,
	TROUBLE_TEXT = 220, // beside the name of its error
};

// What a coordinator orders, or the agent itself; NULL = not known.
static const struct record *agent_orders(const struct agent *a)
{
	if (a->policy.mode == MODE_SELF)
		return &a->self.m.record;
	return a->node.is_read ? &a->node.m.record : NULL;
}

static void agent_log_trouble_once(struct agent *a, const char *what, const struct err *why)
{
	auto_str char *text = str_fmt("%s: %s", what, why->text);
	if (strncmp(a->said, text, sizeof(a->said) - 1) == 0)
		return;
	snprintf(a->said, sizeof(a->said), "%s", text);
	a->site->machine.trouble(a->site->machine.ctx, what, why);
}

// Nothing is started until this is over.
static void agent_stuck(struct agent *a, bool *is_it, const char *what, const struct err *why)
{
	a->hold_ms = a->now_ms + RETRY_MS;
	*is_it = true;
	snprintf(a->trouble, sizeof(a->trouble), "%s: %.*s", err_info(why->code)->name, TROUBLE_TEXT, why->text);
	agent_log_trouble_once(a, what, why);
}

static void agent_unstuck(struct agent *a, bool *is_it)
{
	*is_it = false;
	if (!a->is_unwritten && !a->is_unordered)
		*a->trouble = '\0';
}

// The policy

// A policy that cannot be read changes nothing: the one before stays in force.
static void agent_read_policy(struct agent *a)
{
	struct err why;
	auto_policy struct policy policy = POLICY_NONE;
	a->policy_ms = a->now_ms + POLICY_MS;
	int r = a->site->machine.policy(a->site->machine.ctx, &policy, &why);
	if (r < 0)
		agent_log_trouble_once(a, "reading the policy", &why);
	if (r <= 0)
		return;
	policy_done(&a->policy);
	a->policy = policy;
	policy = POLICY_NONE;
	a->look_ms = 0;
}

// What this node has

// NULL = unknown: no policy names it.
static const struct target *agent_target_of(const struct agent *a, const struct target_hash *target_hash)
{
	for (size_t i = 0; i < a->policy.pool_count; i++)
		if (target_hash_eq(&a->policy.pools[i].target.target_hash, target_hash))
			return &a->policy.pools[i].target;
	return agent_known(&a->journal, target_hash);
}

static size_t add_known_target(const struct target **names, size_t count, const struct target *t)
{
	for (size_t i = 0; t && i < count; i++)
		if (target_hash_eq(&names[i]->target_hash, &t->target_hash))
			return count;
	if (t)
		names[count++] = t;
	return count;
}

// The order comes first if it has just been carried out, else what works here.
static size_t known_targets(const struct agent *a, const struct target **names)
{
	const struct agent_journal *j = &a->journal;
	bool is_new = a->has_end && a->end.is_ok && agent_changes(j->order.verb) && j->step == AGENT_BEGUN;
	size_t count = add_known_target(names, 0, agent_target_of(a, is_new ? &j->order.target_hash : &j->current));
	count = add_known_target(names, count, agent_target_of(a, &j->order.target_hash));
	for (size_t i = 0; i < a->policy.pool_count; i++)
		count = add_known_target(names, count, &a->policy.pools[i].target);
	for (size_t i = 0; i < j->known_count; i++)
		count = add_known_target(names, count, &j->known[i]);
	return count;
}

// False: nothing may be started.
static bool agent_write(struct agent *a)
{
	struct err why;
	if (agent_journal_write(a->site->state, &a->journal, &why) == 0) {
		agent_unstuck(a, &a->is_unwritten);
		return true;
	}
	agent_stuck(a, &a->is_unwritten, "nothing is begun, because the journal cannot be written", &why);
	return false;
}

// What was found loaded is what works here until an order says otherwise, and a restore can name it.
static void adopt_loaded_driver(struct agent *a, const struct target *found)
{
	struct agent_journal *j = &a->journal;
	const struct agent_facts *f = &a->facts;
	bool is_ours = !f->is_empty && !f->is_foreign, is_changing = j->step == AGENT_BEGUN || j->step == AGENT_BACK;
	const struct target *t = *found->driver ? found : agent_target_of(a, &f->loaded);
	bool is_new = is_ours && t && agent_learn(j, t);
	if (!is_ours || is_changing || target_hash_eq(&j->current, &f->loaded))
		return;
	j->current = f->loaded;
	if (!agent_write(a) && is_new)
		a->look_ms = a->now_ms + RETRY_MS;
}

static void agent_refresh_facts(struct agent *a)
{
	struct err why;
	struct target found = { 0 };
	const struct agent_machine *m = &a->site->machine;
	const struct target **names = mem_alloc((a->policy.pool_count + a->journal.known_count + 3) * sizeof(*names));
	a->look_ms = a->now_ms + LOOK_MS;
	if (m->look(m->ctx, names, known_targets(a, names), &a->facts, &found, &why) < 0) {
		a->look_ms = a->now_ms + RETRY_MS;
		agent_log_trouble_once(a, "reading the state of this node", &why);
	} else {
		adopt_loaded_driver(a, &found);
	}
	target_done(&found);
	free(names);
}

// Holders, on demand (5.2): exactly while the coordinator waits for them to go, roughly while it only chooses nodes.

enum asked { ASKED_NOT, ASKED_COARSE, ASKED_EXACT };
static enum asked holders_asked_for(const struct agent *a)
{
	const struct record *orders = agent_orders(a);
	switch (orders ? orders->phase : PHASE_IDLE) {
	case PHASE_CORDONED:
	case PHASE_EVICTING:
	case PHASE_REPLACING:
	case PHASE_RESTORING:
		return ASKED_EXACT;
	case PHASE_QUEUED:
	case PHASE_WAITING:
		return ASKED_COARSE;
	case PHASE_HELD: // until the pod that must not be evicted is gone
		return orders->reason.code == REASON_HOLDER_PROTECTED ? ASKED_COARSE : ASKED_NOT;
	default:
		return ASKED_NOT;
	}
}

static void copy_holders(const struct agent_holders *from, bool is_coarse, struct agent_holders *to)
{
	agent_holders_done(to);
	*to = (struct agent_holders){
		.is_published = true, .is_coarse = is_coarse, .count = from->count, .generation = from->generation
	};
	for (size_t i = 0; i < from->pods.count; i++) // coarsely: a snapshot of this moment
		strv_add(&to->pods, str_dup(from->pods.items[i]));
}

static void agent_refresh_holders(struct agent *a)
{
	enum asked how = holders_asked_for(a);
	if (how == ASKED_NOT) {
		agent_holders_done(&a->told);
		a->holders_ms = 0;
		return;
	}
	bool is_due = how == ASKED_EXACT && (!a->told.is_published || a->told.is_coarse);
	if (a->now_ms < a->holders_ms && !is_due)
		return;
	a->site->machine.holders(a->site->machine.ctx, &a->seen);
	a->holders_ms = a->now_ms + (how == ASKED_EXACT ? EXACT_MS : COARSE_MS);
	if (how == ASKED_EXACT) {
		copy_holders(&a->seen, false, &a->told);
		return;
	}
	// With hysteresis: a node whose jobs come and go must not write all day.
	bool is_first = !a->told.is_published || !a->told.is_coarse;
	if (!is_first && (a->seen.count != 0) == (a->told.count != 0))
		a->coarse_ms = a->now_ms;
	if (is_first || a->now_ms - a->coarse_ms >= HYSTERESIS_MS) {
		copy_holders(&a->seen, true, &a->told);
		a->coarse_ms = a->now_ms;
	}
}

static void post_event(struct agent *a, const char *reason, const char *message, bool is_warning)
{
	struct err why;
	const struct api_event event = { .node = a->site->node,
					 .uid = a->node.m.uid,
					 .reason = reason,
					 .message = message,
					 .is_warning = is_warning,
					 .component = "kmodsmith-agent" };
	if (api_event(a->site->kube, &event, &why) < 0)
		agent_log_trouble_once(a, "an event", &why);
}

// Mode self: the agent that is its own coordinator

// In the log, and as an Event if the Node can be read. The texts of the rules are about cordons and evictions, which do
// not exist in this mode.
static void report_step(struct agent *a, const struct single_node_step *step)
{
	const char *name = node_phase_info(step->to)->name;
	const struct node_reason_info *info = node_reason_info(step->reason.code);
	auto_str char *cause = step->reason.code == REASON_NONE ?
				       str_dup("") :
				       str_fmt(" (%s%s%s; next: %s)", info->code, *step->reason.object ? " " : "",
					       step->reason.object, info->next);
	auto_str char *message = str_fmt("mode self: %s%s", name, cause);
	if (step->to == PHASE_CORDONED || step->to == PHASE_RELEASING)
		return;
	auto_str char *reason = str_fmt("Rollout%c%s", toupper((unsigned char)*name), name + 1);
	a->site->machine.did(a->site->machine.ctx, message);
	if (a->node.is_read)
		post_event(a, reason, message,
			   step->to == PHASE_FAILED || step->to == PHASE_HELD || step->to == PHASE_ROLLEDBACK ||
				   step->to == PHASE_RESTORING);
}

// Decides from what the agent would report to a coordinator, and from nothing else.
static void agent_command(struct agent *a)
{
	static const struct node_facts nobody;
	struct agent_annotations words;
	struct single_node_step step;
	struct err why;
	if (a->policy.mode != MODE_SELF || !a->facts.is_known)
		return;
	agent_annotations(&a->journal, &a->facts, &a->told, a->site->boot, &words);
	for (int i = 0; i < STEPS_MOST; i++) {
		int r = single_node_step(&a->self, a->site->state, &a->policy, &words,
					 a->node.is_read ? &a->node.m.facts : &nobody, kube_wall_s(), &step, &why);
		if (r < 0)
			agent_stuck(a, &a->is_unordered, "nothing is ordered", &why);
		else if (a->is_unordered)
			agent_unstuck(a, &a->is_unordered);
		if (r <= 0)
			return;
		if (step.is_move)
			report_step(a, &step);
	}
}

// Acts

static void log_agent_event(const struct agent *a, const char *fmt, ...) PRINTF(2, 3);
static void log_agent_event(const struct agent *a, const char *fmt, ...)
{
	char text[256];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	a->site->machine.did(a->site->machine.ctx, text);
}

// What could not be journaled did not happen.
static bool commit_journal(struct agent *a, const struct agent_journal *before)
{
	if (agent_write(a))
		return true;
	struct target *known = a->journal.known;
	size_t count = a->journal.known_count;
	a->journal = *before;
	a->journal.known = known;
	a->journal.known_count = count;
	return false;
}

static bool take_order(struct agent *a)
{
	const struct order *go = &agent_orders(a)->go;
	const struct target *t = agent_target_of(a, &go->target_hash);
	if (t && target_hash_is_set(&go->target_hash))
		agent_learn(&a->journal, t);
	struct agent_journal before = a->journal;
	agent_take(&a->journal, go);
	if (!commit_journal(a, &before))
		return false;
	log_agent_event(a, "order %u.%u: %s", go->seq.epoch, go->seq.n, verb_names[go->verb]);
	a->taken_ms = a->now_ms;
	a->look_ms = 0; // the order is judged by the present state
	return true;
}

static bool finish_order(struct agent *a, const struct agent_choice *c)
{
	struct agent_journal before = a->journal;
	agent_finish(&a->journal, c);
	if (!commit_journal(a, &before))
		return false;
	a->has_end = false;
	log_agent_event(a, "%s: %s%s%s: %s", verb_names[a->journal.order.verb], result_names[c->result],
			c->code ? " " : "", c->code ? c->code : "", c->rule);
	return true;
}

static bool run_child(struct agent *a, const struct agent_choice *c)
{
	struct err why;
	struct agent_journal *j = &a->journal;
	const struct target_hash target_hash = c->act == AGENT_REVERT ? j->previous :
					       c->act == AGENT_REVIVE ? j->current :
									j->order.target_hash;
	const struct target *t = agent_target_of(a, &target_hash);
	const struct agent_machine *m = &a->site->machine;
	if (t)
		agent_learn(j, t);
	t = agent_known(j, &target_hash);
	struct agent_journal before = *j;
	agent_begin(j, c->act, a->site->boot, &a->facts.loaded);
	if (!commit_journal(a, &before))
		return false;
	a->has_end = false;
	log_agent_event(a, "%s: %s", c->act == AGENT_REVIVE ? "boot" : verb_names[j->order.verb], c->rule);
	enum agent_work work = c->act == AGENT_REVIVE                                 ? AGENT_WORK_REVIVE :
			       c->act == AGENT_REVERT || agent_changes(j->order.verb) ? AGENT_WORK_SWAP :
			       j->order.verb == VERB_STAGE                            ? AGENT_WORK_STAGE :
											AGENT_WORK_PROBE;
	if (m->begin(m->ctx, work, t, &why) == 0) {
		a->running = c->act;
		a->begun_ms = a->now_ms;
		return true;
	}
	m->trouble(m->ctx, "starting the worker", &why);
	if (c->act == AGENT_REVIVE)
		return false;
	const struct err_info *info = err_info(why.code);
	a->has_end = true;
	a->end = (struct agent_end){ .failing = agent_failing(info) };
	snprintf(a->end.code, sizeof(a->end.code), "%s", info->name);
	return true;
}

// True: something was done, and there may be more to do.
static bool act_on_choice(struct agent *a)
{
	const struct agent_journal *j = &a->journal;
	const struct record *orders = agent_orders(a);
	int64_t since = j->step == AGENT_ACCEPTED ? a->taken_ms : a->start_ms;
	struct agent_view v = { .journal = j,
				.facts = &a->facts,
				.end = a->has_end ? &a->end : NULL,
				.boot = a->site->boot,
				.is_read = orders != NULL,
				.is_running = a->running != AGENT_WAIT,
				.is_meant = agent_target_of(a, &j->order.target_hash) != NULL,
				.is_back_meant = agent_target_of(a, &j->previous) != NULL,
				.waited_s = (unsigned)((a->now_ms - since) / 1000) };
	if (orders) {
		if (!node_key_is_malformed(orders, KEY_PREFIX "go")) // a malformed order is ignored
			v.go = orders->go;
		v.phase = orders->phase;
		v.is_paused = a->node.is_read && a->node.m.facts.is_paused;
		v.is_cordoned = a->policy.mode == MODE_SELF || a->node.m.facts.is_unschedulable;
	}
	struct agent_choice c;
	agent_choose(&v, &c);
	switch (c.act) {
	case AGENT_TAKE:
		return take_order(a);
	case AGENT_FINISH:
		return finish_order(a, &c);
	case AGENT_RUN:
	case AGENT_REVERT:
	case AGENT_REVIVE:
		return run_child(a, &c);
	default:
		return false;
	}
}

// The end of a worker without an order is only noticed.
static void reap_child(struct agent *a)
{
	const struct agent_machine *m = &a->site->machine;
	struct agent_end end;
	if (!a->running || !m->ended(m->ctx, &end))
		return;
	a->end = end;
	a->has_end = a->running != AGENT_REVIVE;
	if (a->running == AGENT_REVIVE && !end.is_crash) {
		a->journal.revivals = 0; // whether it worked or not: once a boot
		agent_write(a);
	}
	a->running = AGENT_WAIT;
	a->look_ms = 0;
}

// The order on the Node is not newer than one that was carried out and taken back: etcd was restored from a backup. The
// coordinator has to count on from here.
static bool is_order_passed(const struct agent *a)
{
	const struct record *orders = a->policy.mode != MODE_SELF ? agent_orders(a) : NULL;
	return orders && orders->go.verb != VERB_NONE && a->journal.step == AGENT_IDLE &&
	       node_seq_cmp(orders->go.seq, a->journal.order.seq) <= 0;
}

static void write_agent_annotations(struct agent *a)
{
	struct err why;
	struct agent_annotations words;
	const struct agent_node *n = &a->node;
	bool is_young = a->running && a->now_ms - a->begun_ms < ACCEPT_MS;
	bool is_news = *a->trouble && !*n->value[AGENT_TROUBLE];
	agent_annotations(&a->journal, &a->facts, &a->told, a->site->boot, &words);
	snprintf(words.value[AGENT_TROUBLE], AGENT_VALUE, "%s", a->trouble);
	if (is_order_passed(a))
		snprintf(words.value[AGENT_ACK], AGENT_VALUE, "%u.%u:%s:%s", a->journal.order.seq.epoch,
			 a->journal.order.seq.n, verb_names[VERB_NONE], result_names[RESULT_DONE]);
	// What is unknown or was not requested stays as it is on the Node.
	if (is_young || !*words.value[AGENT_ACK])
		memcpy(words.value[AGENT_ACK], n->value[AGENT_ACK], AGENT_VALUE);
	if (is_young && !*words.value[AGENT_HOLDERS]) // removed together with the report of the worker's end
		memcpy(words.value[AGENT_HOLDERS], n->value[AGENT_HOLDERS], AGENT_VALUE);
	for (int i = AGENT_LOADED; !a->facts.is_known && i <= AGENT_GPUS; i++)
		memcpy(words.value[i], n->value[i], AGENT_VALUE);
	int r = agent_node_tell(&a->node, &words, &why);
	if (r < 0)
		agent_log_trouble_once(a, "writing to the Node", &why);
	else if (r > 0)
		*a->said = '\0';
	if (r <= 0 || !is_news)
		return;
	// An Event once; the annotation shows how long it lasts.
	auto_str char *message = str_fmt("the agent begins nothing, and the driver stays as it is: %s", a->trouble);
	post_event(a, "AgentTrouble", message, true);
}

static void notice_replaced_node(struct agent *a)
{
	struct agent_journal before = a->journal;
	if (a->policy.mode == MODE_SELF || !a->node.is_read || !agent_move(&a->journal, a->node.m.uid))
		return;
	if (*before.node)
		log_agent_event(a, "the Node %s was replaced by another one of this name: its orders start over",
				a->site->node);
	commit_journal(a, &before);
}

void agent_turn(struct agent *a, int wait_ms)
{
	struct err why;
	a->now_ms = kube_now_ms();
	reap_child(a);
	if (a->now_ms >= a->policy_ms)
		agent_read_policy(a);
	if (a->is_unwritten && a->now_ms >= a->hold_ms) // reported no longer than it lasts
		agent_write(a);
	for (unsigned i = 0; i < CHOICES_MOST && a->now_ms >= a->hold_ms; i++) {
		if (a->now_ms >= a->look_ms)
			agent_refresh_facts(a);
		notice_replaced_node(a);
		agent_command(a);
		if (!act_on_choice(a))
			break;
	}
	agent_refresh_holders(a);
	write_agent_annotations(a);
	a->node.is_new = false;
	if (agent_node_wait(&a->node, a->running && wait_ms > BUSY_MS ? BUSY_MS : wait_ms, &why) < 0)
		agent_log_trouble_once(a, "watching the Node", &why);
}

int agent_open(const struct agent_site *site, struct agent *ret, struct err *err)
{
	auto_str char *why = NULL, *lost = NULL;
	struct err damage;
	*ret = (struct agent){ .site = site, .policy = POLICY_NONE };
	if (agent_journal_read(site->state, &ret->journal, &why, err) < 0)
		return -1;
	if (why) {
		err_set(&damage, E_CONFIG, "%s", why);
		site->machine.trouble(site->machine.ctx, "the agent's journal is damaged and ignored", &damage);
	}
	if (single_node_read(site->state, &ret->self, &lost, err) < 0) {
		agent_journal_done(&ret->journal);
		return -1;
	}
	if (lost) {
		err_set(&damage, E_CONFIG, "%s", lost);
		site->machine.trouble(site->machine.ctx, "the record of the agent's own orders is lost", &damage);
	}
	agent_node_init(site->kube, site->node, &ret->node);
	ret->start_ms = ret->taken_ms = kube_now_ms();
	return 0;
}

void agent_done(struct agent *a)
{
	agent_node_done(&a->node);
	agent_holders_done(&a->seen);
	agent_holders_done(&a->told);
	agent_journal_done(&a->journal);
	single_node_done(&a->self);
	policy_done(&a->policy);
}
