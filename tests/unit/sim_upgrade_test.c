// SPDX-License-Identifier: Apache-2.0
// A rollout that an earlier version left in the middle is finished by this one: its annotations, status, ledger and
// policy, and the journals of its agents, as recorded in tests/upgrade/COMMIT/cluster.json. With RECORD=FILE this
// version leaves one there.
#include "cluster/node_state/annotations.h"
#include "tests/sim/farm_agent.h"
#include "tests/unit/lawful.h"

#include <dirent.h>
#include <stdlib.h>

#define MINUTES(n) ((n)*60 * 1000L)
enum { NODES = 6 };
static const char policy[] = "{'schema':1,'mirror':true,'pools':[{'name':'gpus','maxUnavailable':'50%','maxParallel':2,"
			     "'drain':{'evict':'gpu'},'waves':[{'name':'first','count':3}],'target':{'driver':'535.2',"
			     "'parameters':{'NVreg_EnableMSI':'1'}}}]}";
// What a coordinator needs to go on, but the Nodes, whose status belongs to others.
static const char *const lists[] = { "/api/v1/namespaces/kmodsmith/configmaps",
				     "/apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases" };

struct scene {
	struct farm f;
	struct farm_agent agents[NODES];
	struct farm_coordinator coordinator;
};

static void scene_end(struct scene *s)
{
	farm_coordinator_kill(&s->coordinator);
	farm_agents_end(s->agents, NODES);
	farm_end(&s->f);
}

static json_t *record_node(const struct scene *s, unsigned i)
{
	struct err err;
	json_t *journal = NULL;
	char loaded[TARGET_HASH_TEXT], store[2][TARGET_HASH_TEXT];
	const struct farm_node *n = &s->f.nodes[i];
	assert_int_equal(json_read(&s->agents[i].state, "agent/journal.json", &journal, &err), 1);
	target_hash_text(&n->loaded, loaded);
	target_hash_text(&n->store[0], store[0]);
	target_hash_text(&n->store[1], store[1]);
	return json_pack("{s:O, s:o, s:s, s:[s, s]}", "object", s->f.objects[i], "journal", journal, "loaded", loaded,
			 "store", store[0], store[1]);
}

// One node is done, and one has lost its old driver and not got the new one when everything of ours ends.
static void record(const char *path)
{
	static struct scene s;
	auto_json json_t *all = json_pack("{s:[], s:{}}", "nodes", "lists");
	farm_begin(&s.f, NODES, policy);
	farm_agents_begin(&s.f, s.agents);
	farm_pod(&s.f, 4, "train-0");
	farm_coordinator_begin(&s.f, &s.coordinator, "before");
	assert_true(farm_until(&s.f, &s.coordinator, 1, "done", 1, MINUTES(30)));
	unsigned at = 0;
	while (s.agents[at].child.work != AGENT_WORK_SWAP || s.agents[at].child.steps != 1) {
		farm_run(&s.coordinator, 1, 100);
		at = (at + 1) % NODES;
	}
	for (unsigned i = 0; i < NODES; i++)
		json_array_append_new(json_object_get(all, "nodes"), record_node(&s, i));
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		json_object_set_new(json_object_get(all, "lists"), lists[i], sim_ask(s.f.sim, "GET", lists[i], NULL));
	json_object_set_new(all, "ms", json_integer(sim_now_ms()));
	assert_int_equal(json_dump_file(all, path, JSON_INDENT(1) | JSON_SORT_KEYS), 0);
	lawful(&s.f);
	scene_end(&s);
}

static void restore_node(struct scene *s, unsigned i, const json_t *was)
{
	struct err err;
	struct farm_node *n = &s->f.nodes[i];
	const json_t *object = json_object_get(was, "object"), *store = json_object_get(was, "store");
	auto_str char *path = str_fmt("/api/v1/nodes/%s", n->name);
	auto_json json_t *ours =
		json_pack("{s:{s:O, s:O}, s:{s:b}}", "metadata", "labels", sim_at(object, "metadata labels"),
			  "annotations", sim_at(object, "metadata annotations"), "spec", "unschedulable",
			  json_is_true(sim_at(object, "spec unschedulable")));
	auto_str char *json = json_dumps(ours, JSON_COMPACT);
	sim_merge(s->f.sim, path, "%s", json);
	assert_string_equal(sim_text(s->f.objects[i], "metadata uid"), sim_text(object, "metadata uid"));
	assert_true(target_hash_parse(sim_text(was, "loaded"), &n->loaded));
	for (size_t k = 0; k < ARRAY_SIZE(n->store); k++)
		assert_true(target_hash_parse(json_string_value(json_array_get(store, k)), &n->store[k]));
	assert_int_equal(root_mkdirs(&s->agents[i].state, "agent", 0755, &err), 0);
	assert_int_equal(json_write(&s->agents[i].state, "agent/journal.json", json_object_get(was, "journal"), &err),
			 0);
}

static void restore_list(struct scene *s, const char *path, const json_t *list)
{
	size_t i;
	json_t *item;
	json_array_foreach(json_object_get(list, "items"), i, item)
	{
		auto_str char *one = str_fmt("%s/%s", path, sim_text(item, "metadata name"));
		static const char *const given[] = { "uid", "resourceVersion", "creationTimestamp", "managedFields" };
		for (size_t k = 0; k < ARRAY_SIZE(given); k++)
			json_object_del(json_object_get(item, "metadata"), given[k]);
		auto_str char *json = json_dumps(item, JSON_COMPACT);
		if (sim_get(s->f.sim, one))
			sim_merge(s->f.sim, one, "%s", json);
		else
			sim_make(s->f.sim, path, "%s", json);
	}
}

// The machines ran on: an hour, or as long as an image takes to be pulled.
static void finish(const char *row, const json_t *all, long later_ms)
{
	static struct scene s;
	farm_begin(&s.f, NODES, policy);
	for (unsigned i = 0; i < NODES; i++)
		s.f.nodes[i].is_silent = true;
	sim_pass(json_integer_value(json_object_get(all, "ms")) + later_ms);
	farm_agents_begin(&s.f, s.agents);
	for (unsigned i = 0; i < NODES; i++)
		restore_node(&s, i, json_array_get(json_object_get(all, "nodes"), i));
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		restore_list(&s, lists[i], json_object_get(json_object_get(all, "lists"), lists[i]));
	farm_pod(&s.f, 4, "train-0");
	expect(farm_in(&s.f, "done") > 0 && farm_in(&s.f, "done") < NODES, row);
	farm_coordinator_begin(&s.f, &s.coordinator, "after");
	if (!farm_until(&s.f, &s.coordinator, 1, "done", NODES, MINUTES(60)))
		for (unsigned i = 0; i < NODES; i++)
			fail_msg("%s: %s is %s: %s; go %s, ack %s", row, s.f.nodes[i].name, farm_state(&s.f, i),
				 farm_note(&s.f, i, "kmodsmith.io/reason"), farm_note(&s.f, i, "kmodsmith.io/go"),
				 farm_note(&s.f, i, "kmodsmith.io/agent.ack"));
	struct target_hash target = farm_target(policy);
	for (unsigned i = 0; i < NODES; i++) {
		const json_t *was = sim_at(json_array_get(json_object_get(all, "nodes"), i), "object metadata");
		bool was_done =
			str_eq(json_string_value(json_object_get(sim_at(was, "labels"), KEY_PREFIX "state")), "done");
		const char *since = json_string_value(json_object_get(sim_at(was, "annotations"), KEY_PREFIX "since"));
		expect(target_hash_eq(&s.f.nodes[i].loaded, &target) && !farm_is_cordoned(&s.f, i), row);
		expect(!root_exists(&s.agents[i].state, "agent/journal.damaged"), row);
		expect(!was_done || str_eq(farm_note(&s.f, i, KEY_PREFIX "since"), since),
		       row); // it is not begun again
	}
	lawful(&s.f);
	scene_end(&s);
}

static void a_rollout_of_an_earlier_version_is_finished(void **state)
{
	(void)state;
	struct dirent *entry;
	unsigned count = 0;
	DIR *dir = opendir("tests/upgrade");
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		json_error_t problem;
		auto_str char *path = str_fmt("tests/upgrade/%s/cluster.json", entry->d_name);
		auto_json json_t *all = json_load_file(path, 0, &problem);
		if (!all)
			continue;
		count++;
		finish(entry->d_name, all, 30000);
		finish(entry->d_name, all, MINUTES(60));
	}
	closedir(dir);
	assert_true(count > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_rollout_of_an_earlier_version_is_finished) };
	const char *path = getenv("RECORD");
	if (path)
		record(path);
	return path ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
