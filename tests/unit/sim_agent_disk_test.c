// SPDX-License-Identifier: Apache-2.0
// The disk of a node is full, so its agent cannot write its journal: it starts nothing and says so on its Node, the
// working driver stays, and once there is room it continues without help.
#include "base/core/date.h"
#include "kmod/sandbox/jail.h"
#include "tests/sim/farm_agent.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#define MINUTES(n) ((n)*60 * 1000L)
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':1,'target':{'driver':'535.2'}}]}";
static const char self[] = "{'mode':'self','pools':[{'name':'gpus','target':{'driver':'535.2'}}]}";
static const char TROUBLE[] = "kmodsmith.io/agent.trouble";

static bool has_mounts; // of our own, which takes root

struct scene {
	struct farm f;
	struct farm_agent farm_agent;
	struct farm_coordinator coordinator;
	char *state;
};

static void scene_begin(struct scene *s, const char *policy)
{
	struct err err;
	if (!has_mounts)
		skip();
	farm_begin(&s->f, 1, policy);
	farm_agents_begin(&s->f, &s->farm_agent);
	s->state = str_fmt("%s/state", s->farm_agent.dir);
	root_done(&s->farm_agent.state);
	assert_int_equal(mount("state", s->state, "tmpfs", 0, "size=64k"), 0);
	assert_int_equal(root_init(&s->farm_agent.state, s->state, &err), 0);
	farm_coordinator_begin(&s->f, &s->coordinator, "boss");
}

static void scene_end(struct scene *s)
{
	if (s->f.laws->count)
		fail_msg("%zu laws were broken, first: %s", s->f.laws->count, s->f.laws->items[0]);
	farm_coordinator_kill(&s->coordinator);
	umount2(s->state, MNT_DETACH);
	farm_agents_end(&s->farm_agent, 1);
	farm_end(&s->f);
	free(s->state);
}

static void fill(const struct scene *s)
{
	static const char zeros[512];
	auto_str char *path = str_fmt("%s/filler", s->state);
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
}

static void make_room(const struct scene *s)
{
	auto_str char *path = str_fmt("%s/filler", s->state);
	assert_int_equal(unlink(path), 0);
}

static unsigned events(const struct scene *s)
{
	unsigned count = 0;
	size_t i;
	const json_t *item;
	auto_json json_t *list = sim_ask(s->f.sim, "GET", "/api/v1/namespaces/default/events", NULL);
	json_array_foreach(json_object_get(list, "items"), i, item) count +=
		str_eq(sim_text(item, "reason"), "AgentTrouble") && str_eq(sim_text(item, "type"), "Warning");
	return count;
}

static void expect_stuck(const struct scene *s)
{
	const char *trouble = farm_note(&s->f, 0, TROUBLE);
	expect(str_starts(trouble, "E_NO_SPACE: ") && strstr(trouble, "No space left on device"), trouble);
	assert_int_equal(events(s), 1);
	assert_true(target_hash_eq(&s->f.nodes[0].loaded, &s->f.old));
}

static void expect_done(const struct scene *s)
{
	struct target_hash target = farm_target(plain);
	assert_string_equal(farm_note(&s->f, 0, TROUBLE), "");
	assert_int_equal(events(s), 1);
	assert_true(target_hash_eq(&s->f.nodes[0].loaded, &target));
	assert_false(farm_is_cordoned(&s->f, 0));
}

static void a_full_disk_before_the_first_order(void **state)
{
	(void)state;
	struct scene s;
	scene_begin(&s, plain);
	fill(&s);
	farm_run(&s.coordinator, 1, MINUTES(20));
	expect_stuck(&s);
	assert_false(farm_is_cordoned(&s.f, 0));
	make_room(&s);
	assert_true(farm_until(&s.f, &s.coordinator, 1, "done", 1, MINUTES(30)));
	farm_run(&s.coordinator, 1, MINUTES(1));
	expect_done(&s);
	scene_end(&s);
}

// The order to replace the driver is given, and cannot be taken: a node that does not answer then is not trusted before
// somebody has looked at it.
static void a_full_disk_at_the_replacement(void **state)
{
	(void)state;
	struct scene s;
	scene_begin(&s, plain);
	farm_pod(&s.f, 0, "train-0");
	assert_true(farm_until(&s.f, &s.coordinator, 1, "evicting", 1, MINUTES(30)));
	fill(&s);
	farm_run(&s.coordinator, 1, MINUTES(20));
	expect_stuck(&s);
	assert_string_equal(farm_state(&s.f, 0), "failed");
	assert_true(farm_is_cordoned(&s.f, 0));
	make_room(&s);
	farm_run(&s.coordinator, 1, MINUTES(1));
	assert_string_equal(farm_note(&s.f, 0, TROUBLE), "");
	// Its pool is halted, since all of its nodes have failed: that comes first, and the retry is not forgotten.
	sim_merge(s.f.sim, "/api/v1/nodes/n00", "{'metadata':{'annotations':{'kmodsmith.io/retry':'1'}}}");
	farm_run(&s.coordinator, 1, MINUTES(1));
	assert_string_equal(farm_state(&s.f, 0), "failed");
	assert_string_equal(farm_note(&s.f, 0, "kmodsmith.io/reason"), "agent-silent");
	auto_str char *now = date_text((time_t)kube_time(s.coordinator.c.o.kube));
	sim_merge(s.f.sim, "/api/v1/namespaces/kmodsmith/configmaps/" POLICY_NAME,
		  "{'metadata':{'annotations':{'kmodsmith.io/resume':'gpus@%s'}}}", now);
	assert_true(farm_until(&s.f, &s.coordinator, 1, "done", 1, MINUTES(60)));
	farm_run(&s.coordinator, 1, MINUTES(1));
	expect_done(&s);
	scene_end(&s);
}

// Its own orders cannot be written down either.
static void a_full_disk_in_mode_self(void **state)
{
	(void)state;
	struct scene s;
	scene_begin(&s, self);
	fill(&s);
	farm_run(&s.coordinator, 1, MINUTES(10));
	expect_stuck(&s);
	make_room(&s);
	farm_run(&s.coordinator, 1, MINUTES(20));
	expect_done(&s);
	strv_done(s.f.laws); // which are of nodes that are cordoned first
	scene_end(&s);
}

// It is not told again and again, and not for longer than it lasts, also where nothing is to be written any more.
static void a_full_disk_for_a_moment(void **state)
{
	(void)state;
	struct scene s;
	scene_begin(&s, plain);
	assert_true(farm_until(&s.f, &s.coordinator, 1, "staging", 1, MINUTES(30)));
	fill(&s);
	farm_run(&s.coordinator, 1, MINUTES(2));
	expect_stuck(&s);
	farm_policy(&s.f, "{'pools':[]}");
	make_room(&s);
	farm_run(&s.coordinator, 1, MINUTES(1));
	assert_string_equal(farm_note(&s.f, 0, TROUBLE), "");
	scene_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_disk_before_the_first_order),
		cmocka_unit_test(a_full_disk_at_the_replacement),
		cmocka_unit_test(a_full_disk_in_mode_self),
		cmocka_unit_test(a_full_disk_for_a_moment),
	};
	has_mounts = unshare(CLONE_NEWNS) == 0 && sandbox_make_private() == 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
