// SPDX-License-Identifier: Apache-2.0
// One real agent (cluster/agent/loop.c) on the simulated API server, and a machine that is what a test says: its
// policy, what is in its kernel and on its disk, who holds the driver, and how its children begin and end. What the
// agent does and complains of is a text, a line each:
//   begin stage 2.0 | did order 1.1: stage | trouble the policy is not read: E_CONFIG WORDS
#pragma once
#include "cluster/agent/agent_journal.h"
#include "cluster/agent/loop.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

#define SEAT_POLICY(driver) "{\"pools\": [{\"name\": \"p\", \"target\": {\"driver\": \"" driver "\"}}]}"
static const char SEAT_NODE[] = "/api/v1/nodes/n1";

struct seat {
	struct folder folder;
	struct sim *sim;
	struct agent_site site;
	struct agent a;
	char *log;
	// the machine
	const char *policy; // NULL = it cannot be read
	bool is_policy_new;
	struct agent_facts facts;
	const char *found; // driver of what is loaded and has no name yet; NULL = it has one
	int look_code, begin_code, children;
	bool has_end;
	struct agent_end end;
	int holders; // with as many pods: "pod-0", ...
	unsigned policies, looks, counts;
	char *names; // of the last look: "2.0 1.0"
};

static inline struct target seat_target(const char *driver)
{
	struct target t = { .parameters = str_dup("") };
	snprintf(t.driver, sizeof(t.driver), "%s", driver);
	target_name(&t);
	return t;
}

static inline struct aim seat_aim(const char *driver)
{
	struct target t = seat_target(driver);
	struct aim ret = t.aim;
	target_done(&t);
	return ret;
}

static inline void seat_log_(void *ctx, const char *what)
{
	struct seat *s = ctx;
	str_add(&s->log, "did %s\n", what);
}

static inline void seat_trouble_(void *ctx, const char *what, const struct err *why)
{
	struct seat *s = ctx;
	str_add(&s->log, "trouble %s: %s %s\n", what, err_info(why->code)->name, why->text);
}

static inline int seat_policy_(void *ctx, struct policy *ret, struct err *err)
{
	struct seat *s = ctx;
	s->policies++;
	if (!s->policy)
		return err_set(err, E_NOT_FOUND, "there is no policy");
	if (!s->is_policy_new)
		return 0;
	s->is_policy_new = false;
	return policy_parse(s->policy, strlen(s->policy), ret, err) < 0 ? -1 : 1;
}

static inline int seat_look_(void *ctx, const struct target *const *names, size_t count, struct agent_facts *ret,
			     struct target *ret_new, struct err *err)
{
	struct seat *s = ctx;
	s->looks++;
	*ret_new = (struct target){ 0 };
	if (s->look_code)
		return err_set(err, s->look_code, "the disk is gone");
	free(TAKE(s->names));
	s->names = str_dup("");
	for (size_t i = 0; i < count; i++)
		str_add(&s->names, "%s%s", i ? " " : "", names[i]->driver);
	*ret = s->facts;
	if (s->found)
		*ret_new = seat_target(s->found);
	return 0;
}

static inline void seat_holders_(void *ctx, struct agent_holders *ret)
{
	struct seat *s = ctx;
	s->counts++;
	ret->generation += ret->count != s->holders;
	ret->count = s->holders;
	strv_done(&ret->pods);
	for (int i = 0; i < s->holders; i++)
		strv_add(&ret->pods, str_fmt("pod-%d", i));
}

static inline int seat_begin_(void *ctx, enum agent_work work, const struct target *target, struct err *err)
{
	static const char *const works[] = { "stage", "swap", "revive", "probe" };
	struct seat *s = ctx;
	if (s->begin_code)
		return err_set(err, s->begin_code, "no room for a child");
	s->children++;
	str_add(&s->log, "begin %s %s\n", works[work], target ? target->driver : "nothing");
	return 0;
}

static inline bool seat_ended_(void *ctx, struct agent_end *ret)
{
	struct seat *s = ctx;
	bool has_end = s->has_end;
	*ret = s->end;
	s->has_end = false;
	return has_end;
}

static inline void seat_open(struct seat *s)
{
	struct err err;
	expect(agent_open(&s->site, &s->a, &err) == 0, err.text);
}

// Another process, on the same machine.
static inline void seat_again(struct seat *s)
{
	agent_done(&s->a);
	seat_open(s);
	s->is_policy_new = true;
}

// With 1.0 in the kernel and on the disk, and a policy that wants 2.0.
static inline void seat_begin(struct seat *s)
{
	*s = (struct seat){ .sim = sim_new(NULL), .policy = SEAT_POLICY("2.0"), .is_policy_new = true, .found = "1.0" };
	folder_make(&s->folder);
	s->log = str_dup("");
	s->facts = (struct agent_facts){ .is_known = true,
					 .loaded = seat_aim("1.0"),
					 .store = { seat_aim("1.0") },
					 .version = "1.0",
					 .srcversion = "ABC",
					 .release = "6.1" };
	s->site = (struct agent_site){ .state = &s->folder.root,
				       .boot = "boot-1",
				       .node = "n1",
				       .kube = sim_client(s->sim, "agent"),
				       .machine = { s, seat_policy_, seat_look_, seat_holders_, seat_begin_,
						    seat_ended_, seat_log_, seat_trouble_ } };
	sim_make(s->sim, "/api/v1/nodes", "{'metadata':{'name':'n1'}}");
	seat_open(s);
}

static inline void seat_end(struct seat *s)
{
	agent_done(&s->a);
	kube_free(s->site.kube);
	sim_free(s->sim);
	folder_done(&s->folder);
	free(s->log);
	free(s->names);
}

static inline void seat_run(struct seat *s, long ms)
{
	for (long end = sim_now_ms() + ms; sim_now_ms() < end;)
		agent_turn(&s->a, 100);
}

// What was said since the last time.
static inline void seat_expect_log(struct seat *s, const char *lines, const char *row)
{
	if (!str_eq(s->log, lines))
		fail_msg("%s: '%s' was said, not '%s'", row, s->log, lines);
	free(s->log);
	s->log = str_dup("");
}

static inline const char *seat_note(const struct seat *s, const char *key)
{
	auto_str char *keys = str_fmt("metadata annotations kmodsmith.io/agent.%s", key);
	const char *text = sim_text(sim_get(s->sim, SEAT_NODE), keys);
	return text ? text : "";
}

static inline void seat_order(struct seat *s, const char *seq, const char *verb, const char *driver)
{
	char aim[AIM_TEXT];
	const struct aim its = seat_aim(driver);
	aim_text(&its, aim);
	sim_merge(s->sim, SEAT_NODE, "{'metadata':{'annotations':{'kmodsmith.io/go':'%s:%s:%s'}}}", seq, verb, aim);
}

static inline void seat_state(struct seat *s, const char *state)
{
	sim_merge(s->sim, SEAT_NODE, "{'metadata':{'labels':{'kmodsmith.io/state':'%s'}}}", state);
}

// As the child ends; what it did to the machine is up to the caller.
static inline void seat_child_ends(struct seat *s, const char *code, enum failing failing)
{
	s->has_end = true;
	s->end = (struct agent_end){ .is_ok = !*code, .failing = failing };
	snprintf(s->end.code, sizeof(s->end.code), "%s", code);
}
