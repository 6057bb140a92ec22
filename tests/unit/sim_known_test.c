// SPDX-License-Identifier: Apache-2.0
// What the coordinator reads of its own maps, and what it says where one means nothing: nothing is done by guesses, and
// all goes on when it is mended. T59, T83.
#include "tests/unit/heard.h"

static const char own[] = "{'mode':'self','pools':[{'name':'gpus','target':{'driver':'535.2'}}]}";

static void begin_once(struct farm *f, struct farm_coordinator *coordinator, struct heard *h)
{
	begin(f, coordinator, h);
	h->is_each_once = true;
}

static void events_of_policy(const struct farm *f, char **ret)
{
	auto_json json_t *list = sim_ask(f->sim, "GET", "/api/v1/namespaces/kmodsmith/events", NULL);
	const json_t *items = json_object_get(list, "items");
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *event = json_array_get(items, i);
		str_add(ret, "%s %s %s\n", sim_text(event, "type"), sim_text(event, "reason"),
			sim_text(event, "message"));
	}
}

// What was recorded may be of a later version, or of nobody: it is not written over.
static void a_status_that_means_nothing_stops_all(void **state)
{
	(void)state;
	static const struct {
		const char *name, *status, *said;
	} rows[] = {
		{ "no JSON", "{\\n\\n!", "the rollout's status: line 3 of the rollout's status is not JSON: " },
		{ "twice the same key", "{\\\"schema\\\":1,\\\"schema\\\":1}",
		  "the rollout's status: line 1 of the rollout's status is not JSON: duplicate object key" },
		{ "of a later version", "{\\\"schema\\\":2,\\\"pools\\\":[]}",
		  "the rollout's status: schema 2 of the rollout's status is newer than 1, which this version "
		  "supports" },
		{ "a pool of nonsense",
		  "{\\\"schema\\\":1,\\\"pools\\\":[{\\\"name\\\":\\\"gpus\\\",\\\"target\\\":7}]}",
		  "the rollout's status: the status of pool 'gpus' is not valid" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct heard h;
		farm_begin(&f, 1, plain);
		sim_make(f.sim, MAPS,
			 "{\"metadata\":{\"name\":\"kmodsmith-rollout\"},\"data\":{\"status.json\":\"%s\"}}",
			 rows[i].status);
		auto_str char *before =
			str_dup(sim_text(sim_get(f.sim, MAPS "/kmodsmith-rollout"), "metadata resourceVersion"));
		begin_once(&f, &coordinator, &h);
		farm_run(&coordinator, 1, MINUTES(2));
		expect(str_starts(h.troubles, rows[i].said), h.troubles);
		expect(h.blind > 0 && h.blind == h.rests, rows[i].name);
		expect(str_eq(farm_state(&f, 0), ""), rows[i].name);
		expect(str_eq(sim_text(sim_get(f.sim, MAPS "/kmodsmith-rollout"), "metadata resourceVersion"), before),
		       rows[i].name);
		sim_merge(f.sim, MAPS "/kmodsmith-rollout", "{'data':{'status.json':null}}");
		farm_policy(&f, plain);
		sim_merge(f.sim, MAPS "/" POLICY_NAME, "{'metadata':{'labels':{'touched':'1'}}}");
		expect(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(40)), rows[i].name);
		end(&f, &coordinator, &h);
	}
}

// In words of the object, on it and to whoever logs; and that it is mended, once.
static void a_policy_that_means_nothing_is_said(void **state)
{
	(void)state;
	static const struct {
		const char *name, *data, *said;
	} rows[] = {
		{ "both keys", "'policy.json':'{}','policy.yaml':'pools: []'",
		  "the ConfigMap kmodsmith-policy has both policy.json and policy.yaml" },
		{ "neither key", "'policy.json':null,'note':'x'",
		  "the ConfigMap kmodsmith-policy has neither policy.json nor policy.yaml" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct heard h;
		auto_str char *events = str_dup("");
		farm_begin(&f, 1, plain);
		sim_merge(f.sim, MAPS "/" POLICY_NAME, "{'data':{%s}}", rows[i].data);
		begin_once(&f, &coordinator, &h);
		farm_run(&coordinator, 1, MINUTES(1));
		auto_str char *said = str_fmt("the policy is refused: %s\n", rows[i].said);
		expect(str_eq(h.troubles, said), h.troubles);
		expect(h.blind > 0 && h.blind == h.rests && str_eq(farm_state(&f, 0), ""), rows[i].name);
		expect(str_starts(coordinator.c.blind.text, "the policy is refused, and there is no last good one "
							    "(no policy was accepted before): the ConfigMap"),
		       coordinator.c.blind.text);
		sim_merge(f.sim, MAPS "/" POLICY_NAME, "{'data':{'policy.yaml':null}}");
		farm_policy(&f, plain);
		expect(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(40)), rows[i].name);
		events_of_policy(&f, &events);
		auto_str char *refused =
			str_fmt("Warning PolicyRefused %s; nothing is done until it is corrected\n", rows[i].said);
		expect(strstr(events, refused), events);
		expect(strstr(events, "Normal PolicyAccepted it is in force\n"), events);
		expect(strlen(events) == strlen(refused) + strlen("Normal PolicyAccepted it is in force\n"), events);
		end(&f, &coordinator, &h);
	}
}

static void a_policy_for_nodes_alone_begins_nothing(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	farm_begin(&f, 1, own);
	begin_once(&f, &coordinator, &h);
	farm_run(&coordinator, 1, MINUTES(5));
	assert_string_equal(h.troubles,
			    "the policy: mode is self: agents work without a coordinator, and nothing is begun\n");
	assert_string_equal(farm_state(&f, 0), "");
	assert_int_equal(h.blind, 0);
	farm_policy(&f, plain);
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	end(&f, &coordinator, &h);
}

static size_t asked(const struct farm *f, const char *verb, const char *path)
{
	size_t count, found = 0;
	const struct sim_call *log = sim_log(f->sim, &count);
	for (size_t i = 0; i < count; i++)
		found += str_eq(log[i].client, "boss") && str_eq(log[i].verb, verb) && strstr(log[i].path, path);
	return found;
}

// Each watch is asked for anew after five minutes, from where it was: no list comes of it. The kind that is not
// installed is looked for each minute.
static void watches_go_on(void **state)
{
	(void)state;
	struct farm f;
	struct farm_coordinator coordinator;
	struct heard h;
	farm_begin(&f, 1, plain);
	begin_once(&f, &coordinator, &h);
	assert_true(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)));
	size_t nodes = asked(&f, "watch", "/api/v1/nodes"), maps = asked(&f, "watch", MAPS);
	size_t lists = asked(&f, "list", "/api/v1/nodes"), gets = asked(&f, "get", MAPS);
	size_t calls = sim_count(f.sim, "boss", NULL);
	farm_run(&coordinator, 1, MINUTES(20));
	assert_in_range(asked(&f, "watch", "/api/v1/nodes") - nodes, 3, 5);
	assert_in_range(asked(&f, "watch", MAPS) - maps, 3, 5);
	assert_int_equal(asked(&f, "list", "/api/v1/nodes"), lists);
	assert_int_equal(asked(&f, "get", MAPS), gets);
	assert_in_range(sim_count(f.sim, "boss", NULL) - calls, 19 + 6, 21 + 15); // and nothing else
	assert_string_equal(h.troubles, "");
	end(&f, &coordinator, &h);
}

// It is said and asked for again, and goes on from where it was: nothing has to be listed anew.
static void a_watch_that_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *name, *resource;
		enum sim_break what;
		long status;
		const char *said;
	} rows[] = {
		{ "nodes", "nodes", SIM_STATUS, 403,
		  "a watch: GET http://sim/api/v1/nodes: status 403: broken on purpose\n" },
		{ "nodes, by a server that is ill", "nodes", SIM_STATUS, 500,
		  "a watch: GET http://sim/api/v1/nodes: status 500: broken on purpose\n" },
		{ "nodes, and nobody answers", "nodes", SIM_CUT_BEFORE, 0,
		  "a watch: "
		  "http://sim/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=" },
		{ "maps", "configmaps", SIM_STATUS, 403,
		  "a watch: GET http://sim" MAPS ": status 403: broken on purpose\n" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct heard h;
		farm_begin(&f, 1, plain);
		begin_once(&f, &coordinator, &h);
		sim_fault(f.sim, &(struct sim_fault){ .what = rows[i].what,
						      .client = "boss",
						      .verb = "watch",
						      .resource = rows[i].resource,
						      .status = rows[i].status,
						      .times = 100000 });
		farm_run(&coordinator, 1, MINUTES(2));
		expect(str_starts(h.troubles, rows[i].said), h.troubles);
		sim_heal(f.sim);
		expect(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(5)), rows[i].name);
		expect(asked(&f, "list", "/api/v1/nodes") == 1, rows[i].name);
		end(&f, &coordinator, &h);
	}
}

// What is kept of a Node is acted on at once, and what is not is no reason to plan anything. S6.
static void only_news_are_planned_for(void **state)
{
	(void)state;
	static const struct {
		const char *name, *merge;
		bool is_news;
	} rows[] = {
		{ "a heartbeat", "{'metadata':{'annotations':{'example.org/beat':'1'}}}", false },
		{ "a label of others", "{'metadata':{'labels':{'example.org/rack':'7'}}}", false },
		{ "somebody skips it", "{'metadata':{'labels':{'kmodsmith.io/skip':'true'}}}", true },
		{ "its agent says who holds the driver",
		  "{'metadata':{'annotations':{'kmodsmith.io/agent.holders':'1 9 u7'}}}", true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct farm f;
		struct farm_coordinator coordinator;
		struct heard h;
		farm_begin(&f, 1, plain);
		begin_once(&f, &coordinator, &h);
		expect(farm_until(&f, &coordinator, 1, "done", 1, MINUTES(30)), rows[i].name);
		f.nodes[0].is_silent = true;
		farm_run(&coordinator, 1, MINUTES(1));
		for (unsigned before = h.rests; h.rests == before;) // just decided: the next time is 5 s away
			farm_run(&coordinator, 1, 100);
		unsigned planned = h.rests;
		sim_merge(f.sim, "/api/v1/nodes/n00", "%s", rows[i].merge);
		farm_run(&coordinator, 1, SECONDS(2));
		expect((h.rests > planned) == rows[i].is_news, rows[i].name);
		end(&f, &coordinator, &h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_status_that_means_nothing_stops_all),
		cmocka_unit_test(a_policy_that_means_nothing_is_said),
		cmocka_unit_test(a_policy_for_nodes_alone_begins_nothing),
		cmocka_unit_test(watches_go_on),
		cmocka_unit_test(a_watch_that_is_refused),
		cmocka_unit_test(only_news_are_planned_for),
	};
	return cmocka_run_group_tests_name("known", tests, NULL, NULL);
}
