// SPDX-License-Identifier: Apache-2.0
// T84: what the coordinator keeps of thousands of Nodes, through the reader that it has.
#include "base/formats/json_stream.h"
#include "cluster/coordinator/node_cache.h"
#include "tests/unit/node.h"
#include "tests/unit/test.h"

#include <malloc.h>

enum { NODES = 5000, PAGE = 500, PER_NODE = 2048, PER_NODE_OF_MALLOC = 64, PIECE = 16384 };

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak)); // of ASan, whose malloc has no mallinfo2
static size_t allocated(void)
{
	struct mallinfo2 m = mallinfo2();
	return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() :
							 m.uordblks + m.hblkhd;
}

struct reader {
	struct node_cache node_cache;
	struct policy policy;
	size_t before, most, changed;
};

static int take(void *ctx, json_t *node, struct err *err)
{
	(void)err;
	struct reader *r = ctx;
	r->changed += node_cache_put(&r->node_cache, node, &r->policy);
	size_t now = allocated() - r->before;
	r->most = now > r->most ? now : r->most;
	return 0;
}

// As a server sends it, in the middle of a rollout.
static char *text_of(unsigned i, unsigned version)
{
	auto_json json_t *node = node_make(i), *fields = json_object();
	json_t *metadata = json_object_get(node, "metadata"), *notes = json_object_get(metadata, "annotations");
	auto_str char *uid = str_fmt("%08x-0000-4000-8000-000000000000", i), *number = str_fmt("%u", 1000 + version);
	static const char *const keys[][2] = {
		{ "kmodsmith.io/seq", "1.4" },
		{ "kmodsmith.io/go", "1.4:replace:00000000000000aa-0000000000000000" },
		{ "kmodsmith.io/target", "00000000000000aa-0000000000000000" },
		{ "kmodsmith.io/deadline", "2027-01-15T08:10:00Z" },
		{ "kmodsmith.io/cordon", "{\"by\":\"kmodsmith\",\"prior\":false}" },
		{ "kmodsmith.io/agent.loaded", "00000000000000bb-0000000000000000 535.216.03 - 6.1.0-56-cloud-amd64" },
		{ "kmodsmith.io/agent.store", "00000000000000aa-0000000000000000,00000000000000bb-0000000000000000" },
		{ "kmodsmith.io/agent.holders",
		  "2 3 6e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f 7e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f" },
	};
	for (size_t n = 0; n < ARRAY_SIZE(keys); n++)
		json_object_set_new(notes, keys[n][0], json_string(keys[n][1]));
	json_object_set_new(json_object_get(metadata, "labels"), "kmodsmith.io/state", json_string("replacing"));
	json_object_set(fields, "f:status", json_object_get(node, "status"));
	json_object_set_new(metadata, "uid", json_string(uid));
	json_object_set_new(metadata, "resourceVersion", json_string(number));
	json_object_set_new(metadata, "managedFields",
			    json_pack("[{s:s, s:O}]", "manager", "kubelet", "fieldsV1", fields));
	return json_dumps(node, JSON_COMPACT);
}

static void feed(struct json_stream *s, const char *text)
{
	struct err err = { 0 };
	for (size_t at = 0, len = strlen(text); at < len; at += PIECE)
		expect(json_stream_feed(s, text + at, len - at < PIECE ? len - at : PIECE, &err) == 0, err.text);
}

static size_t read_page(struct reader *r, unsigned from, unsigned to, unsigned version)
{
	struct err err = { 0 };
	auto_strv struct strv rows = { 0 };
	size_t bytes = 0;
	node_cache_record(&r->policy, false, &rows);
	const struct json_stream_table table = { .list = "items", .record = (const char *const *)rows.items };
	auto_json_stream struct json_stream *s = json_stream_new(&table, take, r);
	feed(s, "{\"items\":[");
	for (unsigned i = from; i < to; i++) {
		size_t held = allocated();
		auto_str char *text = text_of(i, version);
		held = allocated() - held; // is the test's own
		r->before += held;
		feed(s, text);
		feed(s, i + 1 < to ? "," : "]}");
		r->before -= held;
		bytes += strlen(text);
	}
	expect(json_stream_end(s, NULL, &err) == 0, err.text);
	return bytes;
}

static void t84_less_than_2_kib_a_node(void **state)
{
	(void)state;
	struct reader r = { .before = allocated() };
	size_t bytes = 0;
	for (unsigned i = 0; i < NODES; i += PAGE)
		bytes += read_page(&r, i, i + PAGE, 0);
	size_t kept = allocated() - r.before;
	// Without ASan what the C library keeps of its own counts as well.
	const size_t more = __sanitizer_get_current_allocated_bytes ? 1 : PER_NODE_OF_MALLOC;
	const size_t limit = NODES * (PER_NODE + more - 1);
	print_message("%zu bytes a node come, %zu are kept; at most %zu a node at once\n", bytes / NODES, kept / NODES,
		      r.most / NODES);
	assert_true(bytes / NODES > 12000);
	assert_int_equal(r.node_cache.count, NODES);
	assert_true(kept > NODES * sizeof(struct node_state)); // it was measured
	assert_true(kept < limit);
	assert_true(r.most < limit);
	size_t again = allocated();
	read_page(&r, 0, PAGE, 1);
	assert_true(allocated() < again + PAGE * more); // what is read anew takes the place of what was read
	node_cache_done(&r.node_cache);
}

static json_t *node_of(unsigned i, unsigned version)
{
	auto_str char *text = text_of(i, version);
	return json_loads(text, 0, NULL);
}

// S6: what a kubelet tells every five minutes is no reason to plan anything.
static void unused_fields_are_no_change(void **state)
{
	(void)state;
	struct reader r = { 0 };
	auto_json json_t *node = node_of(7, 0), *beat = node_of(7, 1), *cordoned = node_of(7, 2), *held = node_of(7, 3);
	json_object_set_new(json_array_get(json_object_get(json_object_get(beat, "status"), "conditions"), 0),
			    "lastHeartbeatTime", json_string("2026-11-22T10:05:00Z"));
	json_object_set_new(json_object_get(cordoned, "spec"), "unschedulable", json_true());
	json_object_set_new(json_object_get(held, "spec"), "unschedulable", json_true());
	json_object_set_new(json_object_get(json_object_get(held, "metadata"), "annotations"),
			    "kmodsmith.io/agent.holders", json_string("2 3 8e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f"));
	assert_true(node_cache_put(&r.node_cache, node, &r.policy));
	assert_false(node_cache_put(&r.node_cache, beat, &r.policy));
	assert_string_equal(r.node_cache.entries[0].version, "1001");
	assert_true(node_cache_put(&r.node_cache, cordoned, &r.policy));
	assert_false(node_cache_put(&r.node_cache, beat, &r.policy)); // late: it was read before that
	assert_true(r.node_cache.nodes[0].facts.is_unschedulable);
	assert_true(node_cache_put(&r.node_cache, held, &r.policy)); // as many, and others
	node_cache_done(&r.node_cache);
}

// Each is found by its name, whoever was forgotten before.
static void names(void **state)
{
	(void)state;
	enum { SOME = 300 };
	struct reader r = { 0 };
	for (unsigned i = 0; i < SOME; i++) {
		auto_json json_t *node = node_of(i, 0);
		node_cache_put(&r.node_cache, node, &r.policy);
	}
	for (unsigned i = 0; i < SOME; i += 3) {
		auto_json json_t *node = node_of(i, 0);
		node_cache_remove(&r.node_cache, node);
	}
	assert_int_equal(r.node_cache.count, SOME - SOME / 3);
	for (unsigned i = 0; i < SOME; i++) {
		auto_json json_t *node = node_of(i, 1);
		node_cache_put(&r.node_cache, node, &r.policy);
	}
	assert_int_equal(r.node_cache.count, SOME);
	for (unsigned i = 0; i < SOME; i++)
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(r.node_cache.entries[i].name, r.node_cache.entries[k].name);
	node_cache_done(&r.node_cache);
}

struct seen {
	json_t *labels;
};
static int see(void *ctx, json_t *node, struct err *err)
{
	(void)err;
	struct seen *s = ctx;
	json_decref(s->labels);
	s->labels = json_incref(json_object_get(json_object_get(node, "metadata"), "labels"));
	return 0;
}

// Of fifty labels those that are asked for, and all where the policy asks for more than there are rows.
static void only_labels_of_the_policy_are_kept(void **state)
{
	(void)state;
	struct err err = { 0 };
	static const char few[] =
		"{\"groupBy\":\"nvidia.com/gpu.clique\",\"zoneLabel\":\"topology.kubernetes.io/zone\",\"pools\":[{"
		"\"name\":\"a\",\"selector\":{\"nvidia.com/gpu.product\":\"NVIDIA-H100-80GB-HBM3\"},"
		"\"target\":{\"driver\":\"535.2\"}}]}";
	auto_str char *many = str_dup("{\"pools\":[{\"name\":\"a\",\"selector\":{");
	for (int i = 0; i < 30; i++)
		str_add(&many, "%s\"key%d\":\"x\"", i ? "," : "", i);
	str_add(&many, "},\"target\":{\"driver\":\"535.2\"}}]}");
	const char *const texts[] = { few, many };
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		auto_policy struct policy policy = POLICY_NONE;
		auto_strv struct strv rows = { 0 };
		struct seen seen = { 0 };
		expect(policy_parse(texts[i], strlen(texts[i]), &policy, &err) == 0, err.text);
		node_cache_record(&policy, false, &rows);
		const struct json_stream_table table = { .record = (const char *const *)rows.items };
		auto_json_stream struct json_stream *s = json_stream_new(&table, see, &seen);
		auto_str char *text = text_of(1, 0);
		feed(s, text);
		assert_non_null(json_object_get(seen.labels, "kmodsmith.io/state"));
		assert_non_null(json_object_get(seen.labels, "nvidia.com/gpu.deploy.dcgm"));
		assert_non_null(json_object_get(seen.labels, "nvidia.com/gpu.product"));
		assert_non_null(json_object_get(seen.labels, "topology.kubernetes.io/zone"));
		expect((json_object_get(seen.labels, "kubernetes.io/hostname") != NULL) == (i == 1), texts[i]);
		json_decref(seen.labels);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t84_less_than_2_kib_a_node),
		cmocka_unit_test(unused_fields_are_no_change),
		cmocka_unit_test(names),
		cmocka_unit_test(only_labels_of_the_policy_are_kept),
	};
	return cmocka_run_group_tests_name("fleet", tests, NULL, NULL);
}
