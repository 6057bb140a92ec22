// SPDX-License-Identifier: Apache-2.0
// Nodes as the API server and `kubectl get nodes -o json` write them: what is taken of each, and a list that is none is
// refused with the item, so that `rollout plan` shows no plan of half a cluster.
#include "cluster/policy/node_list.h"
#include "tests/unit/test.h"

#include <sys/mman.h>

#define POLICY                                                                                   \
	"{\"groupBy\":\"rack\",\"zoneLabel\":\"zone\",\"pools\":[{\"name\":\"a\",\"selector\":{" \
	"\"gpu\":\"h100\"},\"target\":{\"driver\":\"535.1\"}}]}"
#define NODE(name, uid) "{'metadata':{'name':'" name "','uid':'" uid "'}}"
#define UID_39 "012345678901234567890123456789012345678"
#define READY(status) \
	"'status':{'conditions':[{'type':'DiskPressure','status':'False'},{'type':'Ready','status':" status "}]}"

static int parse_list(const char *text, const struct policy *p, struct node_list *ret, struct err *err)
{
	auto_fd int fd = memfd_create("nodes", MFD_CLOEXEC);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return node_list_read(fd, "nodes", p, ret, err);
}

static int read_list(const char *text, struct node_list *ret, struct err *err)
{
	auto_policy struct policy p = POLICY_NONE;
	auto_str char *json = quoted(text);
	expect(policy_parse(POLICY, strlen(POLICY), &p, err) == 0, err->text);
	return parse_list(json, &p, ret, err);
}

static void invalid_lists(void **state)
{
	(void)state;
	static const struct {
		const char *text, *error;
	} rows[] = {
		{ "", "line 1 is not JSON: " },
		{ "{\n'items':[\n}", "line 3 is not JSON: " },
		{ "{'items':[],'items':[]}", "items: must be a list" }, // and not two of them
		{ "{'items':[" NODE("a", "1") "]", "line 1 is not JSON: cut off" },
		{ "{'items':[{'metadata':{'name':'a','name':'b'}}]}", "duplicate object key" },
		{ "[]", "items: must be a list of at most 20000 nodes" },
		{ "{}", "items: must be a list" },
		{ "{'items':{}}", "items: must be a list" },
		{ "{'metadata':{'resourceVersion':''}}", "items: must be a list" },
		{ "{'metadata':{'name':'a'}}", "items[0]: metadata: must have a name and a uid" },
		{ "{'items':[" NODE("a", "1") ",{}]}", "items[1]: metadata: must have a name and a uid" },
		{ "{'items':[" NODE("", "1") "]}", "items[0]: metadata: must have a name and a uid" },
		{ "{'items':[" NODE("a", "") "]}", "items[0]: metadata: must have a name and a uid" },
		{ "{'items':[{'metadata':{'name':'a'}}]}", "items[0]: metadata: must have" },
		{ "{'items':[{'metadata':{'name':7,'uid':'1'}}]}", "items[0]: metadata: must have" },
		{ "{'items':[" NODE("a", UID_39 "0") "]}", "items[0]: metadata: must have" },
		{ "{'items':[" NODE("a", "1") "," NODE("b", "2") "," NODE("c", "1") "]}",
		  "items[2].metadata.uid: node 'a' has the same one" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_node_list struct node_list r = { 0 };
		struct err err = { 0 };
		expect(read_list(rows[i].text, &r, &err) < 0 && err.code == E_CONFIG, rows[i].text);
		expect(strstr(err.text, rows[i].error), err.text);
		expect(!r.count && !r.nodes, rows[i].text);
	}
}

// As `kubectl get node NAME -o json` writes it.
static void a_node_alone(void **state)
{
	(void)state;
	auto_node_list struct node_list r = { 0 };
	struct err err = { 0 };
	expect(read_list("{'kind':'Node','spec':{'unschedulable':true},'metadata':{'name':'a','uid':'1'}}", &r, &err) ==
		       0,
	       err.text);
	assert_int_equal(r.count, 1);
	assert_string_equal(r.nodes[0].name, "a");
	assert_true(r.nodes[0].facts.is_unschedulable);
}

static void the_longest_list(void **state)
{
	(void)state;
	for (size_t more = 0; more < 2; more++) {
		auto_node_list struct node_list r = { 0 };
		struct err err = { 0 };
		auto_policy struct policy p = POLICY_NONE;
		auto_json json_t *list = json_pack("{s:[]}", "items");
		for (size_t i = 0; i < NODE_LIST_MOST + more; i++) {
			auto_str char *name = str_fmt("n%zu", i);
			json_array_append_new(json_object_get(list, "items"),
					      json_pack("{s:{s:s, s:s}}", "metadata", "name", name, "uid", name));
		}
		auto_str char *text = json_dumps(list, JSON_COMPACT);
		assert_int_equal(parse_list(text, &p, &r, &err), more ? -1 : 0);
		assert_int_equal(r.count, more ? 0 : NODE_LIST_MOST);
		assert_true(!more || strstr(err.text, "at most 20000 nodes"));
	}
}

static void fields_of_a_node(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_node_list struct node_list r = { 0 };
	expect(read_list("{'kind':'NodeList','items':[" NODE(
				 "bare",
				 "1") ","
				      "{'metadata':{'name':'full','uid':'2','deletionTimestamp':'2027-01-15T08:00:00Z',"
				      "'labels':{'gpu':'h100','rack':'r1','zone':'z1','number':7,'kmodsmith.io/"
				      "state':'queued',"
				      "'kmodsmith.io/skip':'true'},"
				      "'annotations':{'kmodsmith.io/pause':'true','kmodsmith.io/agent.holders':'3',"
				      "'kmodsmith.io/retry':7}},"
				      "'spec':{'unschedulable':true}," READY(
					      "'True'") "},"
							"{'metadata':{'name':'third','uid':'" UID_39
							"'},'spec':{'unschedulable':'yes'}}]}",
			 &r, &err) == 0,
	       err.text);
	assert_int_equal(r.count, 3);
	const struct node_state *bare = &r.nodes[0], *full = &r.nodes[1], *third = &r.nodes[2];
	assert_string_equal(bare->name, "bare");
	assert_string_equal(bare->uid, "1");
	assert_true(!bare->facts.is_ready && !bare->facts.is_unschedulable && !bare->facts.is_deleting);
	assert_true(!bare->facts.terms && !bare->facts.group && !bare->facts.zone && !bare->record.has_phase);
	assert_string_equal(full->name, "full");
	assert_true(full->facts.is_ready && full->facts.is_unschedulable && full->facts.is_deleting);
	assert_true(full->facts.is_skipped && full->facts.is_paused && !full->facts.retry);
	assert_int_equal(full->facts.terms, 1);
	assert_true(full->facts.group == target_hash_of_text("r1") && full->facts.zone == target_hash_of_text("z1"));
	assert_int_equal(full->record.phase, PHASE_QUEUED);
	assert_int_equal(full->report.holders, 3);
	assert_string_equal(third->uid, UID_39);
	assert_false(third->facts.is_unschedulable);
}

// One key of ours that means nothing: the state is unknown, and nobody touches the node (T13).
static void an_invalid_state_is_unknown(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_node_list struct node_list r = { 0 };
	expect(read_list("{'items':[{'metadata':{'name':'a','uid':'1','labels':{'kmodsmith.io/state':'idle'},"
			 "'annotations':{'kmodsmith.io/deadline':'soon'}}}]}",
			 &r, &err) == 0,
	       err.text);
	assert_int_equal(r.nodes[0].record.phase, PHASE_UNKNOWN);
}

static void ready_by_the_condition(void **state)
{
	(void)state;
	static const struct {
		const char *status;
		bool is_ready;
	} rows[] = {
		{ "{" READY("'True'") "}", true },
		{ "{" READY("'False'") "}", false },
		{ "{" READY("'Unknown'") "}", false }, // the kubelet is silent
		{ "{" READY("true") "}", false },
		{ "{'status':{'conditions':[{'type':'DiskPressure','status':'True'}]}}", false },
		{ "{'status':{'conditions':[]}}", false },
		{ "{'status':{'conditions':'Ready'}}", false },
		{ "{}", false },
	};
	auto_policy struct policy p = POLICY_NONE;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_state m;
		struct err err = { 0 };
		auto_str char *text = quoted(rows[i].status);
		auto_json json_t *node = json_loads(text, 0, NULL);
		json_object_set_new(node, "metadata", json_pack("{s:s}", "uid", "1"));
		expect(node_list_read_node(node, "a", &p, &m, &err) == 0, err.text);
		expect(m.facts.is_ready == rows[i].is_ready, rows[i].status);
	}
}

// Which of NVIDIA's DaemonSets serves a node decides that it is none of ours; where none does, nothing is said.
static void driver_daemonsets_match_by_selector(void **state)
{
	(void)state;
	static const char *const labels[] = { "h100", "l4", "a30" }, *const served[] = { "driver-h", "driver-l", "" };
	auto_policy struct policy p = POLICY_NONE;
	strv_add(&p.terms, str_dup("gpu=h100"));
	strv_add(&p.terms, str_dup("gpu=l4"));
	p.driver_sets = mem_alloc(2 * sizeof(*p.driver_sets));
	p.driver_sets[p.driver_set_count++] = (struct driver_set){ .name = "driver-h", .terms = 1 };
	p.driver_sets[p.driver_set_count++] = (struct driver_set){ .name = "driver-l", .terms = 2 };
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		struct node_state m;
		struct err err = { 0 };
		auto_json json_t *node =
			json_pack("{s:{s:s, s:{s:s}}}", "metadata", "uid", "1", "labels", "gpu", labels[i]);
		expect(node_list_read_node(node, "a", &p, &m, &err) == 0, err.text);
		assert_string_equal(m.facts.driver_set, served[i]);
		expect(node_state_is_foreign(&m) == (*served[i] != '\0'), labels[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(invalid_lists),
		cmocka_unit_test(a_node_alone),
		cmocka_unit_test(the_longest_list),
		cmocka_unit_test(fields_of_a_node),
		cmocka_unit_test(an_invalid_state_is_unknown),
		cmocka_unit_test(ready_by_the_condition),
		cmocka_unit_test(driver_daemonsets_match_by_selector),
	};
	return cmocka_run_group_tests_name("roster", tests, NULL, NULL);
}
