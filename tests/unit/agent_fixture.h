// SPDX-License-Identifier: Apache-2.0
// One real agent (cluster/agent/loop.c) on the simulated API server, and a machine that is what a test says: its
// policy, what is in its kernel and on its disk, who holds the driver, and how its children begin and end. What the
// agent does and complains of is a text, a line each:
//   begin stage 2.0 | did order 1.1: stage | trouble reading the policy: E_CONFIG WORDS
#pragma once
#include "cluster/agent/agent_journal.h"
#include "cluster/agent/loop.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

#define SEAT_POLICY(driver) "{\"pools\": [{\"name\": \"p\", \"target\": {\"driver\": \"" driver "\"}}]}"
static const char SEAT_NODE[] = "/api/v1/nodes/n1";

struct fixture {
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

static inline struct target fixture_target(const char *driver)
{
	struct target t = { .parameters = str_dup("") };
	snprintf(t.driver, sizeof(t.driver), "%s", driver);
	target_name(&t);
	return t;
}

static inline struct target_hash fixture_target_hash(const char *driver)
{
	struct target t = fixture_target(driver);
	struct target_hash ret = t.target_hash;
	target_done(&t);
	return ret;
}

static inline void fixture_log_(void *ctx, const char *what)
{
	struct fixture *s = ctx;
	str_add(&s->log, "did %s\n", what);
}

static inline void fixture_trouble_(void *ctx, const char *what, const struct err *why)
{
	struct fixture *s = ctx;
	str_add(&s->log, "trouble %s: %s %s\n", what, err_info(why->code)->name, why->text);
}

static inline int fixture_policy_(void *ctx, struct policy *ret, struct err *err)
{
	struct fixture *s = ctx;
	s->policies++;
	if (!s->policy)
		return err_set(err, E_NOT_FOUND, "there is no policy");
	if (!s->is_policy_new)
		return 0;
	s->is_policy_new = false;
	return policy_parse(s->policy, strlen(s->policy), ret, err) < 0 ? -1 : 1;
}

static inline int fixture_look_(void *ctx, const struct target *const *names, size_t count, struct agent_facts *ret,
				struct target *ret_new, struct err *err)
{
	struct fixture *s = ctx;
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
		*ret_new = fixture_target(s->found);
	return 0;
}

static inline void fixture_holders_(void *ctx, struct agent_holders *ret)
{
	struct fixture *s = ctx;
	s->counts++;
	ret->generation += ret->count != s->holders;
	ret->count = s->holders;
	strv_done(&ret->pods);
	for (int i = 0; i < s->holders; i++)
		strv_add(&ret->pods, str_fmt("pod-%d", i));
}

static inline int fixture_begin_(void *ctx, enum agent_work work, const struct target *target, struct err *err)
{
	static const char *const works[] = { "stage", "swap", "revive", "probe" };
	struct fixture *s = ctx;
	if (s->begin_code)
		return err_set(err, s->begin_code, "no room for a child");
	s->children++;
	str_add(&s->log, "begin %s %s\n", works[work], target ? target->driver : "nothing");
	return 0;
}

static inline bool fixture_ended_(void *ctx, struct agent_end *ret)
{
	struct fixture *s = ctx;
	bool has_end = s->has_end;
	*ret = s->end;
	s->has_end = false;
	return has_end;
}

static inline void fixture_open(struct fixture *s)
{
	struct err err;
	expect(agent_open(&s->site, &s->a, &err) == 0, err.text);
}

// Another process, on the same machine.
static inline void fixture_again(struct fixture *s)
{
	agent_done(&s->a);
	fixture_open(s);
	s->is_policy_new = true;
}

// Cordoned, with 1.0 in the kernel and on the disk, and a policy that wants 2.0.
static inline void fixture_begin(struct fixture *s)
{
	*s = (struct fixture){
		.sim = sim_new(NULL), .policy = SEAT_POLICY("2.0"), .is_policy_new = true, .found = "1.0"
	};
	folder_make(&s->folder);
	s->log = str_dup("");
	s->facts = (struct agent_facts){ .is_known = true,
					 .loaded = fixture_target_hash("1.0"),
					 .store = { fixture_target_hash("1.0") },
					 .version = "1.0",
					 .srcversion = "ABC",
					 .release = "6.1" };
	s->site = (struct agent_site){ .state = &s->folder.root,
				       .boot = "boot-1",
				       .node = "n1",
				       .kube = sim_client(s->sim, "agent"),
				       .machine = { s, fixture_policy_, fixture_look_, fixture_holders_, fixture_begin_,
						    fixture_ended_, fixture_log_, fixture_trouble_ } };
	sim_make(s->sim, "/api/v1/nodes", "{'metadata':{'name':'n1'},'spec':{'unschedulable':true}}");
	fixture_open(s);
}

static inline void fixture_end(struct fixture *s)
{
	agent_done(&s->a);
	kube_free(s->site.kube);
	sim_free(s->sim);
	folder_done(&s->folder);
	free(s->log);
	free(s->names);
}

static inline void fixture_run(struct fixture *s, long ms)
{
	for (long end = sim_now_ms() + ms; sim_now_ms() < end;)
		agent_turn(&s->a, 100);
}

// What was said since the last time.
static inline void fixture_expect_log(struct fixture *s, const char *lines, const char *row)
{
	if (!str_eq(s->log, lines))
		fail_msg("%s: '%s' was said, not '%s'", row, s->log, lines);
	free(s->log);
	s->log = str_dup("");
}

static inline const char *fixture_note(const struct fixture *s, const char *key)
{
	auto_str char *keys = str_fmt("metadata annotations kmodsmith.io/agent.%s", key);
	const char *text = sim_text(sim_get(s->sim, SEAT_NODE), keys);
	return text ? text : "";
}

static inline void fixture_order(struct fixture *s, const char *seq, const char *verb, const char *driver)
{
	char target_hash[TARGET_HASH_TEXT];
	const struct target_hash its = fixture_target_hash(driver);
	target_hash_text(&its, target_hash);
	sim_merge(s->sim, SEAT_NODE, "{'metadata':{'annotations':{'kmodsmith.io/go':'%s:%s:%s'}}}", seq, verb,
		  target_hash);
}

static inline void fixture_state(struct fixture *s, const char *state)
{
	sim_merge(s->sim, SEAT_NODE, "{'metadata':{'labels':{'kmodsmith.io/state':'%s'}}}", state);
}

// As the child ends; what it did to the machine is up to the caller.
static inline void fixture_child_ends(struct fixture *s, const char *code, enum failing failing)
{
	s->has_end = true;
	s->end = (struct agent_end){ .is_ok = !*code, .failing = failing };
	snprintf(s->end.code, sizeof(s->end.code), "%s", code);
}
