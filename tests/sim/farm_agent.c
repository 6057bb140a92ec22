// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/farm_agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TICK_MS = 500, STEP_MS = 2000, AGAIN_MS = 4000, STAGE_STEPS = 6 };

static struct farm_node *agent_node_of(const struct farm_agent *h)
{
	return &h->farm->nodes[h->at];
}

// A killed agent has no effect any more: its calls fail (faults.c), it writes another journal, and it starts no child.
void farm_agent_die(struct farm_agent *h, enum farm_agent_end how)
{
	if (!h->is_alive || h->is_dying)
		return;
	h->is_dying = true;
	h->how = how;
	h->site.state = &h->trash;
	sim_fault(h->farm->sim, &(struct sim_fault){ .what = SIM_DIE_BEFORE, .client = h->name });
	if (how == FARM_AGENT_KILLED && h->child.is_there && !h->child.is_over && !h->orphan.is_there)
		h->orphan = h->child;
	h->child = (struct farm_agent_child){ 0 };
	if (how != FARM_AGENT_KILLED)
		h->orphan = (struct farm_agent_child){ 0 };
	if (how != FARM_AGENT_BOOTED)
		return;
	agent_node_of(h)->loaded = TARGET_HASH_NONE;
	snprintf(h->boot, sizeof(h->boot), "boot-%u-%u", h->at, ++h->boots);
}

static void pass_moment(struct farm_agent *h)
{
	if (h->is_alive && !h->is_dying && ++h->moments == h->die_at)
		farm_agent_die(h, h->die_how);
}

// The machine of the agent

static int read_farm_policy(void *ctx, struct policy *ret, struct err *err)
{
	struct farm_agent *h = ctx;
	const json_t *map = sim_get(h->farm->sim, "/api/v1/namespaces/kmodsmith/configmaps/" ROLLOUT_STATUS_NAME);
	const char *version = sim_text(map, "metadata resourceVersion"), *text = sim_text(map, "data " POLICY_KEY);
	if (!text)
		return err_set(err, E_NOT_FOUND, "there is no policy");
	if (str_eq(version, h->seen))
		return 0;
	snprintf(h->seen, sizeof(h->seen), "%s", version);
	return policy_parse(text, strlen(text), ret, err) < 0 ? -1 : 1;
}

static const struct target *name_of(const struct target *const *names, size_t count,
				    const struct target_hash *target_hash)
{
	for (size_t i = 0; i < count; i++)
		if (target_hash_eq(&names[i]->target_hash, target_hash))
			return names[i];
	return NULL;
}

static int read_script_facts(void *ctx, const struct target *const *names, size_t count, struct agent_facts *ret,
			     struct target *ret_new, struct err *err)
{
	struct farm_agent *h = ctx;
	const struct farm_node *n = agent_node_of(h);
	size_t used = 0;
	(void)err;
	*ret = (struct agent_facts){ .is_known = true,
				     .is_empty = !target_hash_is_set(&n->loaded),
				     .loaded = n->loaded };
	*ret_new = (struct target){ 0 };
	const struct target *t = name_of(names, count, &n->loaded);
	if (!t && !ret->is_empty)
		farm_old(ret_new);
	snprintf(ret->version, sizeof(ret->version), "%s", ret->is_empty ? "" : t ? t->driver : ret_new->driver);
	snprintf(ret->release, sizeof(ret->release), "6.1.0");
	for (size_t i = 0; i < ARRAY_SIZE(n->store); i++)
		if (target_hash_is_set(&n->store[i]) && name_of(names, count, &n->store[i]))
			ret->store[used++] = n->store[i];
	return 0;
}

// Each pod that runs there uses the driver.
static int count_script_users(const struct farm_agent *h, struct strv *pods)
{
	int count = 0;
	size_t i;
	const json_t *pod;
	auto_json json_t *list = sim_ask(h->farm->sim, "GET", "/api/v1/pods", NULL);
	json_array_foreach(json_object_get(list, "items"), i, pod)
	{
		if (!str_eq(sim_text(pod, "spec nodeName"), agent_node_of(h)->name))
			continue;
		count++;
		if (pods)
			strv_add(pods, str_dup(sim_text(pod, "metadata uid")));
	}
	return target_hash_is_set(&agent_node_of(h)->loaded) ? count : 0;
}

static void read_script_holders(void *ctx, struct agent_holders *ret)
{
	struct farm_agent *h = ctx;
	struct strv pods = { 0 };
	int count = count_script_users(h, &pods);
	ret->generation += count != ret->count;
	ret->count = count;
	strv_done(&ret->pods);
	ret->pods = pods;
}

static void note_broken_law(struct farm_agent *h, const char *what)
{
	strv_add(h->farm->laws, str_fmt("at %ld ms: %s: %s", sim_now_ms(), h->name, what));
}

// The journal entry of a child before it starts, with everything to finish or undo it after a kill: the number of
// tries, the boot, and the driver that was loaded (T57, T76).
static bool is_journaled(struct farm_agent *h, enum agent_work work, const struct target *target)
{
	struct err err;
	auto_str char *why = NULL;
	auto_agent_journal struct agent_journal j = { 0 };
	if (agent_journal_read(h->site.state, &j, &why, &err) < 0 || why)
		return false;
	if (work == AGENT_WORK_REVIVE)
		return str_eq(j.revived, h->boot) && j.revivals > 0;
	bool is_first = j.step == AGENT_BEGUN && j.boots == 1 && j.tries == 1;
	const struct target_hash *target_hash = j.step == AGENT_BACK ? &j.previous : &j.order.target_hash;
	return (j.step == AGENT_BEGUN || j.step == AGENT_BACK) && str_eq(j.boot, h->boot) && j.boots > 0 &&
	       j.tries > 0 && (!target || target_hash_eq(target_hash, &target->target_hash)) &&
	       (!is_first || target_hash_eq(&j.previous, &agent_node_of(h)->loaded));
}

static int begin_script_child(void *ctx, enum agent_work work, const struct target *target, struct err *err)
{
	struct farm_agent *h = ctx;
	(void)err;
	if (!h->is_dying && !is_journaled(h, work, target))
		note_broken_law(h, "begins what is not journaled");
	pass_moment(h); // journaled, but not started
	if (h->is_dying)
		return 0;
	h->child = (struct farm_agent_child){ .is_there = true,
					      .work = work,
					      .target_hash = target ? target->target_hash : TARGET_HASH_NONE,
					      .begin_ms = sim_now_ms() };
	if (work == AGENT_WORK_SWAP && target_hash_is_set(&agent_node_of(h)->loaded) &&
	    !farm_is_cordoned(h->farm, h->at))
		note_broken_law(h, "changes the driver of a node that is not cordoned");
	pass_moment(h);
	return 0;
}

static bool script_child_has_ended(void *ctx, struct agent_end *ret)
{
	struct farm_agent *h = ctx;
	if (!h->child.is_over)
		return false;
	*ret = h->child.end;
	h->child = (struct farm_agent_child){ 0 };
	return true;
}

static void ignore_agent_log(void *ctx, const char *what)
{
	(void)ctx, (void)what;
}

static void ignore_agent_trouble(void *ctx, const char *what, const struct err *why)
{
	(void)ctx, (void)what, (void)why;
}

// Its children: effects after so many steps

static void end_script_child(struct farm_agent_child *c, enum failing failing, const char *code)
{
	c->is_over = true;
	c->end = (struct agent_end){ .is_ok = failing == FAILING_NONE, .failing = failing };
	snprintf(c->end.code, sizeof(c->end.code), "%s", code);
}

// Like `install`: a driver in use is not unloaded; a failure is undone, including an earlier unfinished change.
static void swap_script_driver(struct farm_agent *h, struct farm_agent_child *c)
{
	struct farm_node *n = agent_node_of(h);
	bool is_bad = target_hash_is_set(&h->farm->bad) && target_hash_eq(&c->target_hash, &h->farm->bad) &&
		      !h->farm->is_sick;
	switch (c->steps) {
	case 1:
		if (target_hash_eq(&n->loaded, &c->target_hash))
			end_script_child(c, FAILING_NONE, "");
		else if (count_script_users(h, NULL))
			end_script_child(c, FAILING_BUSY, "E_IN_USE");
		else
			n->loaded = TARGET_HASH_NONE;
		break;
	case 2:
		n->loaded = is_bad ? h->farm->old : c->target_hash;
		break;
	default:
		end_script_child(c, is_bad ? FAILING_PERMANENT : FAILING_NONE, is_bad ? "E_LOAD" : "");
	}
}

static void work(struct farm_agent *h, struct farm_agent_child *c)
{
	struct farm_node *n = agent_node_of(h);
	bool is_ill = h->farm->is_sick && target_hash_eq(&n->loaded, &h->farm->bad);
	if (!c->is_there || c->is_over || sim_now_ms() < c->begin_ms + (long)(c->steps + 1) * STEP_MS)
		return;
	c->steps++;
	if (c->work == AGENT_WORK_SWAP || c->work == AGENT_WORK_REVIVE)
		swap_script_driver(h, c);
	else if (c->work == AGENT_WORK_PROBE)
		end_script_child(c, is_ill ? FAILING_PERMANENT : FAILING_NONE, is_ill ? "E_NOT_READY" : "");
	else if (c->steps == STAGE_STEPS) {
		farm_store(n, &c->target_hash);
		end_script_child(c, FAILING_NONE, "");
	}
	pass_moment(h);
}

// Life cycle of the agent

static void start_agent(struct farm_agent *h)
{
	struct err err;
	snprintf(h->name, sizeof(h->name), "agent-%s.%u", agent_node_of(h)->name, h->lives++);
	h->seen[0] = '\0';
	h->site = (struct agent_site){
		.state = &h->state,
		.boot = h->boot,
		.node = agent_node_of(h)->name,
		.kube = sim_client(h->farm->sim, h->name),
		.machine = { h, read_farm_policy, read_script_facts, read_script_holders, begin_script_child,
			     script_child_has_ended, ignore_agent_log, ignore_agent_trouble },
	};
	if (agent_open(&h->site, &h->a, &err) < 0) {
		fprintf(stderr, "hand: %s\n", err.text);
		abort();
	}
	h->is_alive = true;
	h->is_dying = false;
}

static void bury_agent(struct farm_agent *h)
{
	agent_done(&h->a);
	kube_free(h->site.kube);
	h->is_alive = h->is_dying = false;
	h->due_ms = sim_now_ms() + AGAIN_MS;
}

static void tick_agents(void *ctx)
{
	struct farm_agent *h = ctx;
	if (h->farm->is_over)
		return;
	work(h, &h->orphan);
	if (h->orphan.is_over)
		h->orphan = (struct farm_agent_child){ 0 };
	if (h->orphan.is_there) // it has the node's lock
		h->child.begin_ms = sim_now_ms();
	work(h, &h->child);
	if (!h->is_alive && sim_now_ms() >= h->due_ms)
		start_agent(h);
	if (h->is_alive && !h->is_dying)
		agent_turn(&h->a, 0);
	if (h->is_dying)
		bury_agent(h);
	sim_after(TICK_MS, tick_agents, h);
}

static void make_state_dir(const char *path, struct root *ret)
{
	struct err err;
	if (mkdir(path, 0755) < 0 || root_init(ret, path, &err) < 0)
		abort();
}

void farm_agents_begin(struct farm *f, struct farm_agent *agents)
{
	struct target old = { 0 };
	farm_old(&old);
	f->old = old.target_hash;
	target_done(&old);
	for (unsigned i = 0; i < f->count; i++) {
		struct farm_agent *h = &agents[i];
		*h = (struct farm_agent){ .farm = f, .at = i, .state = ROOT_NONE, .trash = ROOT_NONE };
		f->nodes[i].is_silent = true;
		f->nodes[i].loaded = f->nodes[i].store[0] = f->old;
		snprintf(h->boot, sizeof(h->boot), "boot-%u-0", i);
		// Thousands of journals are written.
		snprintf(h->dir, sizeof(h->dir), "%s/kmodsmith-sim-XXXXXX",
			 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
		if (!mkdtemp(h->dir))
			abort();
		auto_str char *state = str_fmt("%s/state", h->dir), *trash = str_fmt("%s/trash", h->dir);
		make_state_dir(state, &h->state);
		make_state_dir(trash, &h->trash);
		sim_after(i, tick_agents, h);
	}
}

static void remove_state_dir(const struct farm_agent *h)
{
	static const char *const names[] = { "state/agent/journal.json", "state/agent", "state",
					     "trash/agent/journal.json", "trash/agent", "trash" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		auto_str char *path = str_fmt("%s/%s", h->dir, names[i]);
		remove(path);
	}
	remove(h->dir);
}

void farm_agents_end(struct farm_agent *agents, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct farm_agent *h = &agents[i];
		if (h->is_alive)
			bury_agent(h);
		root_done(&h->state);
		root_done(&h->trash);
		remove_state_dir(h);
	}
}
