// SPDX-License-Identifier: Apache-2.0
// The agent's turn: look, choose, journal, do, tell; and again when something has happened.
#include "base/log.h"
#include "cluster/keys.h"
#include "cmd/agent_own.h"
#include "cmd/serve.h"

#include <time.h>

enum {
	ACCEPT_MS = 2000, // an order that ends sooner is told once
	IDLE_MS = 1000,
	BUSY_MS = 200,
	LEAVE_MS = 20000,
	CHOICES_MOST = 8,
};

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

// Acts

// What was meant to be journaled and could not be did not happen.
static bool commit(struct agent *a, const struct agent_journal *before)
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

static bool take(struct agent *a)
{
	const struct order *go = &agent_orders(a)->go;
	const struct target *t = agent_meaning(a, &go->aim);
	if (t && aim_is(&go->aim))
		agent_learn(&a->journal, t);
	struct agent_journal before = a->journal;
	agent_take(&a->journal, go);
	if (!commit(a, &before))
		return false;
	log_info("order %u.%u: %s", go->seq.epoch, go->seq.n, verb_names[go->verb]);
	a->taken_ms = a->now_ms;
	a->look_ms = 0; // it is judged by what is so now
	return true;
}

static bool finish(struct agent *a, const struct agent_choice *c)
{
	struct agent_journal before = a->journal;
	agent_finish(&a->journal, c);
	if (!commit(a, &before))
		return false;
	a->has_end = false;
	log_info("%s: %s%s%s: %s", verb_names[a->journal.order.verb], result_names[c->result], c->code ? " " : "",
		 c->code ? c->code : "", c->rule);
	return true;
}

static bool cannot(struct agent *a, const struct err *why)
{
	const struct err_info *info = err_info(why->code);
	a->has_end = true;
	a->end = (struct agent_end){ .failing = agent_failing(info) };
	snprintf(a->end.code, sizeof(a->end.code), "%s", info->name);
	return true;
}

static enum agent_work work_of(const struct agent *a, enum agent_act act)
{
	if (act == AGENT_REVIVE)
		return AGENT_WORK_REVIVE;
	return act == AGENT_REVERT || agent_changes(a->journal.order.verb) ? AGENT_WORK_SWAP :
	       a->journal.order.verb == VERB_STAGE                         ? AGENT_WORK_STAGE :
									     AGENT_WORK_PROBE;
}

static bool run(struct agent *a, const struct agent_choice *c)
{
	struct err why;
	struct agent_journal *j = &a->journal;
	const struct aim aim = c->act == AGENT_REVERT ? j->previous :
			       c->act == AGENT_REVIVE ? j->current :
							j->order.aim;
	const struct target *t = agent_meaning(a, &aim);
	auto_strv struct strv words = { 0 };
	if (t)
		agent_learn(j, t);
	t = agent_known(j, &aim);
	struct agent_journal before = *j;
	agent_begin(j, c->act, a->site->boot, &a->facts.loaded);
	if (!commit(a, &before))
		return false;
	a->has_end = false;
	log_info("%s: %s", c->act == AGENT_REVIVE ? "boot" : verb_names[j->order.verb], c->rule);
	if (a->site->words(a->site->ctx, work_of(a, c->act), t, &words, &why) == 0 &&
	    agent_child_start(&a->child, c->act, &words, a->now_ms, &why) == 0)
		return true;
	log_err(&why);
	return c->act != AGENT_REVIVE && cannot(a, &why);
}

static void describe(const struct agent *a, struct agent_view *v)
{
	const struct agent_journal *j = &a->journal;
	const struct record *orders = agent_orders(a);
	int64_t since = j->step == AGENT_ACCEPTED ? a->taken_ms : a->start_ms;
	*v = (struct agent_view){ .journal = j,
				  .facts = &a->facts,
				  .end = a->has_end ? &a->end : NULL,
				  .boot = a->site->boot,
				  .is_read = orders != NULL,
				  .is_running = agent_child_is(&a->child),
				  .is_meant = agent_meaning(a, &j->order.aim) != NULL,
				  .is_back_meant = agent_meaning(a, &j->previous) != NULL,
				  .waited_s = (unsigned)((a->now_ms - since) / 1000) };
	if (!orders)
		return;
	if (!key_is_bad(orders, KEY_PREFIX "go")) // what means nothing orders nothing
		v->go = orders->go;
	v->phase = orders->phase;
	v->is_paused = a->node.is_read && a->node.m.facts.is_paused;
}

// True: something was done, and there may be more to do.
static bool act(struct agent *a)
{
	struct agent_view v;
	struct agent_choice c;
	describe(a, &v);
	agent_choose(&v, &c);
	switch (c.act) {
	case AGENT_TAKE:
		return take(a);
	case AGENT_FINISH:
		return finish(a, &c);
	case AGENT_RUN:
	case AGENT_REVERT:
	case AGENT_REVIVE:
		return run(a, &c);
	default:
		return false;
	}
}

// The end of a child that nobody ordered is only looked at.
static void reap(struct agent *a)
{
	enum agent_act done = a->child.act;
	struct agent_end end;
	if (!agent_child_is(&a->child) || !agent_child_ended(&a->child, a->now_ms, &end))
		return;
	a->end = end;
	a->has_end = done != AGENT_REVIVE;
	a->look_ms = 0;
}

static void tell(struct agent *a)
{
	struct err why;
	struct agent_words words;
	const struct agent_node *n = &a->node;
	bool is_young = agent_child_is(&a->child) && a->now_ms - a->child.since_ms < ACCEPT_MS;
	agent_words(&a->journal, &a->facts, &a->told, a->site->boot, &words);
	// What is not known, and what nobody asked about, stays as it was said.
	if (is_young || !*words.value[AGENT_ACK])
		memcpy(words.value[AGENT_ACK], n->value[AGENT_ACK], AGENT_VALUE);
	for (int i = AGENT_LOADED; !a->facts.is_known && i <= AGENT_STORE; i++)
		memcpy(words.value[i], n->value[i], AGENT_VALUE);
	int r = agent_node_tell(&a->node, &words, &why);
	if (r < 0)
		agent_complain(a, "the Node is not told", &why);
	else if (r > 0)
		*a->said = '\0';
}

static void recognise(struct agent *a)
{
	struct agent_journal before = a->journal;
	if (agent_is_self(a) || !a->node.is_read || !agent_move(&a->journal, a->node.m.uid))
		return;
	if (*before.node)
		log_info("the Node %s is another one now: orders begin anew", a->site->node);
	commit(a, &before);
}

static void turn(struct agent *a)
{
	a->now_ms = now_ms();
	reap(a);
	if (a->now_ms >= a->policy_ms)
		agent_read_policy(a);
	for (unsigned i = 0; i < CHOICES_MOST && a->now_ms >= a->hold_ms; i++) {
		if (a->now_ms >= a->look_ms)
			agent_see(a);
		recognise(a);
		agent_command(a);
		if (!act(a))
			break;
	}
	agent_see_holders(a);
	tell(a);
}

static int next_signal(const sigset_t *set)
{
	static const struct timespec none;
	for (int signal; (signal = sigtimedwait(set, NULL, &none)) > 0;)
		if (signal != SIGCHLD && signal != SIGPIPE)
			return signal;
	return 0;
}

static int open_agent(struct agent *a, struct err *err)
{
	auto_str char *why = NULL, *lost = NULL;
	if (agent_journal_read(a->site->place.state, &a->journal, &why, err) < 0)
		return -1;
	if (why)
		log_warn("the agent's journal is damaged, and nothing in it is believed: %s", why);
	if (self_read(a->site->place.state, &a->self, &lost, err) < 0)
		return -1;
	if (lost)
		log_warn("what this agent ordered itself is not known any more: %s", lost);
	agent_node_init(a->site->kube, a->site->node, &a->node);
	a->start_ms = a->taken_ms = now_ms();
	return 0;
}

static void agent_done(struct agent *a)
{
	agent_child_stop(&a->child, LEAVE_MS);
	agent_node_done(&a->node);
	agent_holders_done(&a->seen);
	agent_holders_done(&a->told);
	agent_journal_done(&a->journal);
	self_done(&a->self);
	policy_done(&a->policy);
}

int agent_loop(const struct agent_site *site, struct err *err)
{
	struct agent a = { .site = site, .policy = POLICY_NONE, .child = AGENT_CHILD_NONE };
	struct err why;
	sigset_t set;
	int signal = 0;
	if (open_agent(&a, err) < 0)
		return -1;
	serve_block(&set);
	while (!(signal = next_signal(&set))) {
		turn(&a);
		a.node.is_new = false;
		if (agent_node_wait(&a.node, agent_child_is(&a.child) ? BUSY_MS : IDLE_MS, &why) < 0)
			agent_complain(&a, "the Node is not seen", &why);
	}
	agent_done(&a);
	return signal;
}
