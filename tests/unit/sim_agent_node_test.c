// SPDX-License-Identifier: Apache-2.0
// How an agent watches its own Node and what it writes there: also when the API server has forgotten the earlier
// versions (T59), is unreachable, or has another Node of that name.
#include "cluster/agent/node_object.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

static void wait_s(struct agent_node *n, int seconds)
{
	struct err err = { 0 };
	for (int i = 0; i < seconds; i++) {
		n->is_new = false; // as an agent that has looked at it
		agent_node_wait(n, 1000, &err);
	}
}

// The Node did not change since, so its own version is forgotten, too: to watch from there is refused for ever.
static void a_quiet_node_is_watched_again(void **state)
{
	(void)state;
	struct agent_node n;
	auto_sim struct sim *s = sim_new(NULL);
	sim_make(s, "/api/v1/nodes", "{'metadata':{'name':'mine'}}");
	sim_make(s, "/api/v1/nodes", "{'metadata':{'name':'noise'}}");
	auto_kube struct kube *kube = sim_client(s, "agent");
	agent_node_init(kube, "mine", &n);
	wait_s(&n, 5);
	assert_true(n.is_read);
	for (int i = 0; i < 3; i++)
		sim_merge(s, "/api/v1/nodes/noise", "{'metadata':{'labels':{'turn':'%d'}}}", i);
	sim_compact(s);
	sim_fault(s, &(struct sim_fault){ .what = SIM_WATCH_GONE, .client = "agent" });
	sim_merge(s, "/api/v1/nodes/mine", "{'metadata':{'labels':{'a':'b'}}}");
	sim_merge(s, "/api/v1/nodes/noise", "{'metadata':{'labels':{'turn':'last'}}}");
	sim_compact(s);
	wait_s(&n, 10);
	size_t watches = sim_count(s, "agent", "watch");
	wait_s(&n, 30);
	assert_int_equal(sim_count(s, "agent", "watch"), watches); // it stays
	sim_merge(s, "/api/v1/nodes/mine", "{'metadata':{'annotations':{'kmodsmith.io/go':'1.1:stage:%016x-%016x'}}}",
		  1, 1);
	wait_s(&n, 5);
	assert_int_equal(n.m.record.go.verb, VERB_STAGE);
	agent_node_done(&n);
}

struct scene {
	struct sim *sim;
	struct kube *kube;
	struct agent_node n;
	struct agent_annotations words;
};

static void begin(struct scene *s, const char *metadata)
{
	*s = (struct scene){ .sim = sim_new(NULL) };
	s->kube = sim_client(s->sim, "agent");
	agent_node_init(s->kube, "mine", &s->n);
	sim_make(s->sim, "/api/v1/nodes", "{'metadata':{'name':'mine'%s}}", metadata);
}

static void end(struct scene *s)
{
	agent_node_done(&s->n);
	kube_free(s->kube);
	sim_free(s->sim);
}

static void say(struct scene *s, enum agent_key key, const char *value)
{
	snprintf(s->words.value[key], AGENT_VALUE, "%s", value);
}

static int tell(struct scene *s)
{
	struct err err;
	return agent_node_tell(&s->n, &s->words, &err);
}

static const char *note(const struct scene *s, const char *key)
{
	auto_str char *keys = str_fmt("metadata annotations %s", key);
	return sim_text(sim_get(s->sim, "/api/v1/nodes/mine"), keys);
}

// A watch ends by itself after half an hour, a little later on each node. The Node is read before the next one: only so
// it is seen that versions have gone back.
static void a_day_of_an_idle_node(void **state)
{
	(void)state;
	struct scene s;
	size_t count;
	begin(&s, "");
	wait_s(&s.n, 24 * 3600);
	assert_in_range(sim_count(s.sim, "agent", "watch"), 36, 49);
	assert_int_equal(sim_count(s.sim, "agent", NULL), 2 * sim_count(s.sim, "agent", "watch"));
	const struct sim_call *calls = sim_log(s.sim, &count);
	for (size_t i = 0; i < count; i += 2)
		assert_string_equal(calls[i].path, "/api/v1/nodes/mine");
	for (size_t i = 1; i < count; i += 2)
		expect(strstr(calls[i].path, "/api/v1/nodes?") && strstr(calls[i].path, "metadata.name%3Dmine"),
		       calls[i].path);
	end(&s);
}

static void only_differences_are_written(void **state)
{
	(void)state;
	struct scene s;
	begin(&s, ",'annotations':{'other.io/x':'1','kmodsmith.io/agent.store':'a,b','kmodsmith.io/agent.health':'h'}");
	say(&s, AGENT_STORE, "a,b");
	say(&s, AGENT_ACK, "1.1:stage:done");
	assert_int_equal(tell(&s), 0); // what stands there is not known yet
	assert_int_equal(sim_count(s.sim, "agent", NULL), 0);
	wait_s(&s.n, 2);
	assert_int_equal(tell(&s), 1);
	assert_string_equal(note(&s, "kmodsmith.io/agent.ack"), "1.1:stage:done");
	assert_string_equal(note(&s, "kmodsmith.io/agent.store"), "a,b");
	assert_null(note(&s, "kmodsmith.io/agent.health")); // that is not said any more
	assert_string_equal(note(&s, "other.io/x"), "1");
	assert_int_equal(tell(&s), 0); // also before the watch has brought it
	wait_s(&s.n, 2);
	assert_int_equal(tell(&s), 0);
	assert_int_equal(sim_count(s.sim, "agent", "patch"), 1);
	sim_merge(s.sim, "/api/v1/nodes/mine", "{'metadata':{'annotations':{'kmodsmith.io/agent.ack':null}}}");
	wait_s(&s.n, 2);
	assert_int_equal(tell(&s), 1); // what somebody took away is written again
	assert_string_equal(note(&s, "kmodsmith.io/agent.ack"), "1.1:stage:done");
	end(&s);
}

// The same up to where ours ends, and more behind it.
static void a_value_that_is_too_long_is_replaced(void **state)
{
	(void)state;
	struct scene s;
	auto_str char *most = str_dup("");
	for (int i = 0; i < AGENT_VALUE - 1; i++)
		str_add(&most, "x");
	auto_str char *metadata = str_fmt(",'annotations':{'kmodsmith.io/agent.store':'%syyy'}", most);
	begin(&s, metadata);
	say(&s, AGENT_STORE, most);
	wait_s(&s.n, 2);
	assert_int_equal(tell(&s), 1);
	assert_string_equal(note(&s, "kmodsmith.io/agent.store"), most);
	assert_int_equal(tell(&s), 0);
	wait_s(&s.n, 2);
	assert_int_equal(tell(&s), 0);
	end(&s);
}

static void a_deleted_node_is_not_written(void **state)
{
	(void)state;
	struct scene s;
	begin(&s, "");
	wait_s(&s.n, 2);
	assert_true(s.n.is_read);
	sim_delete(s.sim, "/api/v1/nodes/mine");
	wait_s(&s.n, 2);
	assert_false(s.n.is_read);
	say(&s, AGENT_ACK, "1.1:stage:done");
	assert_int_equal(tell(&s), 0);
	sim_make(s.sim, "/api/v1/nodes", "{'metadata':{'name':'mine','labels':{'kmodsmith.io/state':'staging'}}}");
	wait_s(&s.n, 2);
	assert_true(s.n.is_read);
	assert_int_equal(s.n.m.record.phase, PHASE_STAGING);
	assert_string_equal(s.n.m.uid, sim_text(sim_get(s.sim, "/api/v1/nodes/mine"), "metadata uid"));
	assert_int_equal(tell(&s), 1);
	end(&s);
}

// Before its watch has said so: the patch names the uid that was read.
static void another_node_with_the_same_name_is_not_written(void **state)
{
	(void)state;
	for (int is_there = 0; is_there < 2; is_there++) {
		struct scene s;
		begin(&s, "");
		wait_s(&s.n, 2);
		sim_delete(s.sim, "/api/v1/nodes/mine");
		if (is_there)
			sim_make(s.sim, "/api/v1/nodes", "{'metadata':{'name':'mine'}}");
		say(&s, AGENT_ACK, "1.1:stage:done");
		assert_int_equal(tell(&s), -1);
		assert_false(s.n.is_read);
		assert_null(note(&s, "kmodsmith.io/agent.ack"));
		size_t gets = sim_count(s.sim, "agent", "get");
		wait_s(&s.n, 3); // it is read anew
		assert_true(sim_count(s.sim, "agent", "get") > gets);
		assert_int_equal(s.n.is_read, is_there);
		end(&s);
	}
}

// Refusals at every turn: from a second to half a minute between them, and a patch likewise.
static void failures_back_off(void **state)
{
	(void)state;
	struct scene s;
	begin(&s, "");
	struct sim_fault no = { .what = SIM_STATUS, .status = 403, .client = "agent", .verb = "get", .times = 10000 };
	sim_fault(s.sim, &no);
	wait_s(&s.n, 10);
	assert_in_range(sim_count(s.sim, "agent", NULL), 2, 5);
	wait_s(&s.n, 600);
	size_t before = sim_count(s.sim, "agent", NULL);
	wait_s(&s.n, 600);
	assert_in_range(sim_count(s.sim, "agent", NULL) - before, 600 / 48, 600 / 16);
	sim_heal(s.sim);
	wait_s(&s.n, 50);
	assert_true(s.n.is_read);
	assert_int_equal(s.n.failures, 0); // and what fails next is tried again soon
	no.verb = "patch";
	sim_fault(s.sim, &no);
	say(&s, AGENT_ACK, "1.1:stage:done");
	for (int i = 0; i < 1200; i++) {
		before = i < 600 ? sim_count(s.sim, "agent", "patch") : before;
		tell(&s);
		wait_s(&s.n, 1);
	}
	assert_in_range(before, 600 / 48, 600 / 16 + 5); // also while all that is read goes well
	assert_in_range(sim_count(s.sim, "agent", "patch") - before, 600 / 48, 600 / 16);
	sim_heal(s.sim);
	for (int i = 0; i < 50; i++) {
		tell(&s);
		wait_s(&s.n, 1);
	}
	assert_string_equal(note(&s, "kmodsmith.io/agent.ack"), "1.1:stage:done");
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_quiet_node_is_watched_again),
		cmocka_unit_test(a_day_of_an_idle_node),
		cmocka_unit_test(only_differences_are_written),
		cmocka_unit_test(a_value_that_is_too_long_is_replaced),
		cmocka_unit_test(a_deleted_node_is_not_written),
		cmocka_unit_test(another_node_with_the_same_name_is_not_written),
		cmocka_unit_test(failures_back_off),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
