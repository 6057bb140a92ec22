// SPDX-License-Identifier: Apache-2.0
// The simulated server through the real client: what comes, when on its clock, and what each kind of fault does. That
// its answers are those of a real server is what tests/cluster/conform.c shows.
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

#define auto_client __attribute__((cleanup(kube_freep)))

static json_t *parse(const char *text)
{
	auto_str char *json = quoted(text);
	json_t *value = json_loads(json, 0, NULL);
	expect(value != NULL, text);
	return value;
}

static void make_nodes(struct sim *s, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		sim_make(s, "/api/v1/nodes", "{'metadata': {'name': 'n%03u', 'labels': {'set': '%c'}}}", i,
			 'a' + i % 2);
}

struct seen {
	char *text;
	unsigned count;
};

static int take(void *ctx, json_t *object, struct err *err)
{
	(void)err;
	struct seen *seen = ctx;
	auto_str char *text = json_dumps(object, JSON_COMPACT);
	seen->count++;
	free(seen->text);
	seen->text = TAKE(text);
	return 0;
}

static const char *const RECORD[] = { "metadata name", "metadata annotations kmodsmith.io/*", NULL };

static void test_list(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_sim struct sim *s = sim_new(NULL);
	auto_client struct kube *k = sim_client(s, "a");
	make_nodes(s, 25);
	struct seen seen = { 0 };
	auto_str char *version = NULL;
	struct kube_list list = { .path = "/api/v1/nodes", .record = RECORD, .limit = 10, .take = take, .ctx = &seen };
	expect(kube_list(k, &list, &version, &err) == 0, err.text);
	assert_int_equal(seen.count, 25);
	assert_int_equal(list.pages, 3);
	assert_string_equal(seen.text, "{\"metadata\":{\"name\":\"n024\"}}"); // what was not asked for is not there
	seen.count = 0;
	list.query = "labelSelector=set%3Db&fieldSelector=metadata.name%21%3Dn001";
	free(TAKE(version));
	expect(kube_list(k, &list, &version, &err) == 0, err.text);
	assert_int_equal(seen.count, 11);
	assert_int_equal(sim_count(s, "a", "list"), 5);
	seen.count = 0;
	sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS, .status = 410, .verb = "list", .nth = 2 });
	free(TAKE(version));
	expect(kube_list(k, &list, &version, &err) == 0, err.text);
	assert_int_equal(seen.count, 10 + 11); // the first page came again
	free(seen.text);
}

struct events {
	char *text;
};

static int on_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	(void)err;
	struct events *e = ctx;
	str_add(&e->text, "%c:%s ", *type, sim_text(object, "metadata name"));
	return 0;
}

static const char *const EVENT[] = { KUBE_EVENT, "object metadata name", NULL };

struct view {
	struct events events;
	struct kube_watch w;
};

static void view_open(struct view *v, struct sim *s, struct kube *k, unsigned seconds)
{
	struct err err = { 0 };
	auto_json json_t *list = sim_ask(s, "GET", "/api/v1/nodes", NULL);
	*v = (struct view){ 0 };
	v->w = (struct kube_watch){ .path = "/api/v1/nodes",
				    .record = EVENT,
				    .event = on_event,
				    .ctx = &v->events,
				    .version = str_dup(sim_text(list, "metadata resourceVersion")) };
	expect(kube_watch_begin(k, &v->w, seconds, &err) == 0, err.text);
}

static void view_close(struct view *v)
{
	kube_watch_done(&v->w);
	free(v->events.text);
}

static void annotate(struct sim *s, const char *node, const char *value)
{
	auto_str char *path = api_node(node);
	sim_merge(s, path, "{'metadata': {'annotations': {'kmodsmith.io/x': '%s'}}}", value);
}

static void test_watch(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct view v;
	auto_sim struct sim *s = sim_new(NULL);
	auto_client struct kube *k = sim_client(s, "a");
	make_nodes(s, 2);
	view_open(&v, s, k, 300);
	annotate(s, "n000", "1");
	annotate(s, "n000", "1"); // nothing changes: nothing is told
	sim_delete(s, "/api/v1/nodes/n001");
	sim_make(s, "/api/v1/nodes", "{'metadata': {'name': 'n002'}}");
	long begin = sim_now_ms();
	expect(kube_step(k, 1000, &err) == 0, err.text);
	assert_string_equal(v.events.text, "M:n000 D:n001 A:n002 ");
	assert_int_equal(sim_now_ms(), begin); // it had not to be waited for
	auto_str char *version = str_dup(v.w.version);
	sim_make(s, "/api/v1/namespaces/default/configmaps", "{'metadata': {'name': 'other'}}");
	expect(kube_step(k, 1000, &err) == 0, err.text);
	assert_int_equal(sim_now_ms(), begin + 1000);
	assert_string_equal(v.w.version, version);
	for (int i = 0; i < 10 && !v.w.bookmarks; i++)
		expect(kube_step(k, 30000, &err) == 0, err.text);
	assert_string_not_equal(v.w.version, version); // a bookmark moves it past what happens elsewhere
	assert_int_equal(kube_watch_look(&v.w, &err), 1);
	for (int i = 0; i < 40 && kube_watch_look(&v.w, &err) == 1; i++)
		expect(kube_step(k, 30000, &err) == 0, err.text);
	assert_int_equal(kube_watch_look(&v.w, &err), 0);
	assert_in_range(sim_now_ms() - begin, 299000, 301000);
	annotate(s, "n000", "2");
	sim_compact(s);
	expect(kube_watch_begin(k, &v.w, 60, &err) == 0 && kube_step(k, 0, &err) == 0, err.text);
	assert_int_equal(kube_watch_look(&v.w, &err), 0);
	assert_true(v.w.is_gone);
	view_close(&v);
}

static int patch_go(struct kube *k, const char *value, struct err *err)
{
	auto_json json_t *body = parse("{'metadata': {'annotations': {'kmodsmith.io/go': ''}}}");
	json_object_set_new(sim_at(body, "metadata annotations"), "kmodsmith.io/go", json_string(value));
	return api_change(k, API_MERGE, "/api/v1/nodes/n000", body, NULL, err);
}

static void test_call_faults(void **state)
{
	(void)state;
	static const struct {
		struct sim_fault fault;
		int result, code;
		bool is_done;
		unsigned calls; // that were tried
	} rows[] = {
		{ { .what = SIM_CUT_BEFORE }, 1, 0, true, 2 },
		{ { .what = SIM_CUT_AFTER }, 1, 0, true, 2 },
		{ { .what = SIM_CUT_BEFORE, .times = 99 }, -1, E_NETWORK, false, 0 },
		{ { .what = SIM_CUT_AFTER, .times = 99 }, -1, E_NETWORK, true, 0 },
		{ { .what = SIM_STATUS, .status = 500 }, 1, 0, true, 2 },
		{ { .what = SIM_STATUS, .status = 500, .times = 99 }, -1, E_KUBE, false, 0 },
		{ { .what = SIM_STATUS, .status = 429, .retry_s = 7 }, 1, 0, true, 2 },
		{ { .what = SIM_STATUS, .status = 403 }, -1, E_AUTH, false, 1 },
		{ { .what = SIM_TRUNCATE }, -1, E_KUBE, true, 1 },
		{ { .what = SIM_SLOW, .late_ms = 7000 }, 1, 0, true, 1 },
		{ { .what = SIM_SLOW, .late_ms = 20000 }, 1, 0, true, 2 }, // longer than one try
		{ { .what = SIM_SLOW, .late_ms = 20000, .times = 99 }, -1, E_TIMEOUT, true, 0 },
		{ { .what = SIM_DIE_BEFORE }, -1, E_SYSTEM, false, 1 },
		{ { .what = SIM_DIE_AFTER }, -1, E_SYSTEM, true, 1 },
		{ { .what = SIM_STATUS, .status = 500, .verb = "get" }, 1, 0, true, 1 },
		{ { .what = SIM_STATUS, .status = 500, .client = "b" }, 1, 0, true, 1 },
		{ { .what = SIM_STATUS, .status = 500, .resource = "pods" }, 1, 0, true, 1 },
		{ { .what = SIM_STATUS, .status = 403, .nth = 2 }, 1, 0, true, 1 },
		{ { .what = SIM_PARTITION, .to_ms = 5000 }, 1, 0, true, 0 },
		{ { .what = SIM_PARTITION }, -1, E_NETWORK, false, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_sim struct sim *s = sim_new(NULL);
		auto_client struct kube *k = sim_client(s, "a");
		make_nodes(s, 1);
		sim_fault(s, &rows[i].fault);
		auto_str char *value = str_fmt("row %zu", i);
		int r = patch_go(k, value, &err);
		auto_str char *row = str_fmt("row %zu: %d after %zu calls and %ld ms: %s", i, r,
					     sim_count(s, "a", NULL), sim_now_ms(), err.text);
		expect(r == rows[i].result && (!rows[i].code || err.code == rows[i].code), row);
		const char *is = sim_text(sim_get(s, "/api/v1/nodes/n000"), "metadata annotations kmodsmith.io/go");
		expect(str_eq(is, value) == rows[i].is_done, row);
		expect(!rows[i].calls || sim_count(s, "a", NULL) == rows[i].calls, row);
		expect(rows[i].fault.retry_s * 1000 + rows[i].fault.late_ms == 0 || sim_now_ms() >= 7000, row);
	}
}

static void test_the_dead_stay_dead(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_sim struct sim *s = sim_new(NULL);
	auto_client struct kube *a = sim_client(s, "a"), *b = sim_client(s, "b");
	make_nodes(s, 1);
	const struct sim_fault *f =
		sim_fault(s, &(struct sim_fault){ .what = SIM_DIE_AFTER, .client = "a", .verb = "patch", .nth = 2 });
	assert_int_equal(patch_go(a, "1", &err), 1);
	assert_int_equal(f->hits, 0);
	assert_int_equal(patch_go(a, "2", &err), -1);
	assert_int_equal(f->hits, 1);
	assert_int_equal(patch_go(a, "3", &err), -1);
	assert_int_equal(api_get(a, "/api/v1/nodes/n000", NULL, &err), -1);
	assert_string_equal(sim_text(sim_get(s, "/api/v1/nodes/n000"), "metadata annotations kmodsmith.io/go"), "2");
	assert_int_equal(patch_go(b, "4", &err), 1);
	sim_heal(s); // and so does a new process of that name
	assert_int_equal(patch_go(a, "5", &err), 1);
	size_t count;
	auto_str char *text = NULL;
	const struct sim_call *calls = sim_log(s, &count);
	for (size_t i = 0; i < count; i++)
		str_add(&text, "%s %s %ld, ", calls[i].client, calls[i].verb, calls[i].status);
	assert_string_equal(text, "a patch 200, a patch 0, a patch 0, a get 0, b patch 200, a patch 200, ");
}

static void test_watch_faults(void **state)
{
	(void)state;
	static const struct {
		struct sim_fault fault;
		const char *events;
		int result, code;
		bool is_gone;
		unsigned bookmarks;
	} rows[] = {
		{ { .what = SIM_NOTHING }, "M:n000 M:n001 M:n000 ", 1, 0, false, 1 },
		{ { .what = SIM_WATCH_TWICE, .nth = 2 }, "M:n000 M:n001 M:n001 M:n000 ", 1, 0, false, 1 },
		{ { .what = SIM_WATCH_SWAP }, "M:n001 M:n000 M:n000 ", 1, 0, false, 1 },
		{ { .what = SIM_WATCH_SWAP, .nth = 3 }, "M:n000 M:n001 M:n000 ", 1, 0, false, 1 },
		{ { .what = SIM_WATCH_DROP, .nth = 2 }, "M:n000 ", -1, E_NETWORK, false, 0 },
		{ { .what = SIM_WATCH_GONE, .nth = 3 }, "M:n000 M:n001 ", 0, 0, true, 0 },
		{ { .what = SIM_WATCH_NO_BOOKMARKS }, "M:n000 M:n001 M:n000 ", 1, 0, false, 0 },
		{ { .what = SIM_WATCH_LATE, .late_ms = 5000 }, "M:n000 M:n001 M:n000 ", 1, 0, false, 1 },
		{ { .what = SIM_WATCH_LATE, .late_ms = 500000 }, NULL, 1, 0, false, 1 },
		{ { .what = SIM_PARTITION, .from_ms = 100, .to_ms = 30000 }, NULL, -1, E_NETWORK, false, 0 },
		{ { .what = SIM_PARTITION, .from_ms = 100 }, NULL, 1, 0, false, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		struct view v;
		auto_sim struct sim *s = sim_new(NULL);
		auto_client struct kube *k = sim_client(s, "a");
		make_nodes(s, 2);
		sim_fault(s, &rows[i].fault);
		view_open(&v, s, k, 300);
		sim_pass(200);
		annotate(s, "n000", "1");
		annotate(s, "n001", "1");
		annotate(s, "n000", "2");
		int r = 1;
		for (int turn = 0; turn < 10 && r == 1; turn++) {
			expect(kube_step(k, 10000, &err) == 0, err.text);
			r = kube_watch_look(&v.w, &err);
		}
		auto_str char *row =
			str_fmt("row %zu: %d, %s, %u bookmarks: %s", i, r, v.events.text, v.w.bookmarks, err.text);
		expect(r == rows[i].result && (!rows[i].code || err.code == rows[i].code), row);
		expect(v.events.text ? str_eq(v.events.text, rows[i].events) : !rows[i].events, row);
		expect(v.w.is_gone == rows[i].is_gone && v.w.bookmarks == rows[i].bookmarks, row);
		view_close(&v);
	}
}

static void make_pod(struct sim *s, const char *name, const char *metadata, bool is_ready)
{
	auto_str char *path = str_fmt("/api/v1/namespaces/jobs/pods/%s/status", name);
	sim_make(s, "/api/v1/namespaces/jobs/pods",
		 "{'metadata': {'name': '%s', 'labels': {'app': 'db'}%s}, 'spec': {'nodeName': 'n000', "
		 "'terminationGracePeriodSeconds': 20}}",
		 name, metadata);
	sim_merge(s, path, "{'status': {'phase': 'Running', 'conditions': [{'type': 'Ready', 'status': '%s'}]}}",
		  is_ready ? "True" : "False");
}

static const json_t *pod(struct sim *s, const char *name)
{
	auto_str char *path = str_fmt("/api/v1/namespaces/jobs/pods/%s", name);
	return sim_get(s, path);
}

static void evict(struct sim *s, struct kube *k, const char *name, const char *uid, enum api_evicted want)
{
	struct err err = { 0 };
	struct api_eviction e;
	auto_str char *own = str_dup(sim_text(pod(s, name), "metadata uid"));
	expect(api_evict(k, "jobs", name, uid ? uid : own ? own : "none", &e, &err) == 0, err.text);
	auto_str char *row = str_fmt("%s: %d, %s", name, (int)e.what, e.why.text);
	expect(e.what == want, row);
	expect(want != API_BLOCKED || strstr(e.why.text, "The disruption budget keep-db needs "), row);
}

static void test_pods_end(void **state)
{
	(void)state;
	auto_sim struct sim *s = sim_new(NULL);
	auto_client struct kube *k = sim_client(s, "a");
	make_pod(s, "plain", "", true);
	make_pod(s, "kept", ", 'finalizers': ['jobs/keep']", true);
	evict(s, k, "plain", "another", API_OTHER);
	assert_null(sim_at(pod(s, "plain"), "metadata deletionTimestamp"));
	evict(s, k, "plain", NULL, API_EVICTED);
	evict(s, k, "plain", NULL, API_EVICTED); // on its way already
	evict(s, k, "kept", NULL, API_EVICTED);
	assert_non_null(sim_at(pod(s, "plain"), "metadata deletionTimestamp"));
	sim_pass(19000);
	assert_non_null(pod(s, "plain"));
	sim_pass(1000);
	assert_null(pod(s, "plain"));
	assert_non_null(pod(s, "kept"));
	sim_merge(s, "/api/v1/namespaces/jobs/pods/kept", "{'metadata': {'finalizers': null}}");
	assert_null(pod(s, "kept"));
	evict(s, k, "kept", NULL, API_GONE);
}

static void test_budgets(void **state)
{
	(void)state;
	auto_sim struct sim *s = sim_new(NULL);
	auto_client struct kube *k = sim_client(s, "a");
	sim_make(s, "/apis/policy/v1/namespaces/jobs/poddisruptionbudgets",
		 "{'metadata': {'name': 'keep-db'}, 'spec': {'minAvailable': '50%%', 'selector': {'matchLabels': "
		 "{'app': "
		 "'db'}}}}");
	make_pod(s, "a", "", true);
	make_pod(s, "b", "", true);
	make_pod(s, "c", "", false);
	evict(s, k, "a", NULL, API_BLOCKED); // two of three are wanted, and there are two
	evict(s, k, "c", NULL, API_EVICTED); // it does not count
	sim_pass(60000);
	evict(s, k, "a", NULL, API_EVICTED);
	evict(s, k, "b", NULL, API_BLOCKED);
	sim_delete(s, "/apis/policy/v1/namespaces/jobs/poddisruptionbudgets/keep-db");
	evict(s, k, "b", NULL, API_EVICTED);
}

struct watcher {
	char *text;
	struct sim *sim;
	long at_ms;
};

static void on_request(void *ctx, const struct sim_request *r)
{
	struct watcher *w = ctx;
	static const char keys[] = "metadata annotations kmodsmith.io/go";
	const char *before = sim_text(r->before, keys), *after = sim_text(r->after, keys);
	str_add(&w->text, "%s %s %s %s>%s %ld\n", r->client, r->verb, r->name ? r->name : "*", before ? before : "-",
		after ? after : "-", r->status);
}

static void test_seen(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct watcher w = { 0 };
	auto_sim struct sim *s = sim_new(&(struct sim_options){ .seen = on_request, .ctx = &w });
	auto_client struct kube *k = sim_client(s, "a");
	auto_json json_t *stale = parse("[{'op': 'test', 'path': '/metadata/uid', 'value': 'x'}]");
	make_nodes(s, 1);
	assert_int_equal(patch_go(k, "1", &err), 1);
	sim_fault(s, &(struct sim_fault){ .what = SIM_CUT_AFTER });
	assert_int_equal(patch_go(k, "2", &err), 1);
	assert_int_equal(api_change(k, API_PATCH, "/api/v1/nodes/n000", stale, NULL, &err), 0);
	assert_int_equal(api_get(k, "/api/v1/nodes/n001", NULL, &err), 0);
	assert_string_equal(w.text, "admin create * ->- 201\na patch n000 ->1 200\na patch n000 1>2 200\n"
				    "a patch n000 2>2 200\na patch n000 2>2 422\na get n001 ->- 404\n");
	free(w.text);
}

static void on_time(void *ctx)
{
	struct watcher *w = ctx;
	w->at_ms = sim_now_ms();
	annotate(w->sim, "n000", "by a timer");
}

// What is due runs while somebody waits, also for a call; and a watch wakes for what it did.
static void test_clock(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct view v;
	struct watcher w = { 0 };
	auto_sim struct sim *s = sim_new(&(struct sim_options){ .ahead_s = 3600 });
	auto_client struct kube *k = sim_client(s, "a");
	make_nodes(s, 1);
	w.sim = s;
	assert_int_equal(kube_time(k), SIM_EPOCH);
	assert_int_equal(api_get(k, "/api/v1/nodes/n000", NULL, &err), 1);
	assert_int_equal(kube_time(k), SIM_EPOCH + 3600); // learnt from the answer
	view_open(&v, s, k, 300);
	sim_after(4000, on_time, &w);
	long begin = sim_now_ms();
	expect(kube_step(k, 60000, &err) == 0, err.text);
	assert_int_equal(w.at_ms, begin + 4000);
	assert_int_equal(sim_now_ms(), begin + 4000);
	assert_string_equal(v.events.text, "M:n000 ");
	sim_after(1000, on_time, &w);
	sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS, .status = 429, .retry_s = 5 });
	begin = sim_now_ms();
	assert_int_equal(patch_go(k, "1", &err), 1);
	assert_int_equal(w.at_ms, begin + 1000);
	assert_in_range(sim_now_ms(), begin + 5000, begin + 5100);
	view_close(&v);
}

// The same program, the same seed: the same time to the millisecond. Another seed: other waits.
static void test_same_again(void **state)
{
	(void)state;
	long took[3];
	for (unsigned i = 0; i < ARRAY_SIZE(took); i++) {
		struct err err = { 0 };
		auto_sim struct sim *s = sim_new(&(struct sim_options){ .seed = 1 + i / 2 });
		auto_client struct kube *k = sim_client(s, "a");
		make_nodes(s, 1);
		sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS, .status = 503, .times = 4 });
		assert_int_equal(patch_go(k, "1", &err), 1);
		took[i] = sim_now_ms();
	}
	assert_int_equal(took[0], took[1]);
	assert_int_not_equal(took[0], took[2]);
}

// Anything may fail now and then: every write is done in the end, and a second run has the same hits.
static void test_by_chance(void **state)
{
	(void)state;
	enum { WRITES = 60 };
	static const enum sim_break kinds[] = { SIM_CUT_BEFORE, SIM_CUT_AFTER, SIM_STATUS };
	unsigned hits[2][ARRAY_SIZE(kinds)];
	for (unsigned run = 0; run < 2; run++) {
		const struct sim_fault *rows[ARRAY_SIZE(kinds)];
		auto_sim struct sim *s = sim_new(&(struct sim_options){ .seed = 7 });
		auto_client struct kube *k = sim_client(s, "a");
		make_nodes(s, 1);
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			rows[i] = sim_fault(s, &(struct sim_fault){ .what = kinds[i], .status = 503, .one_in = 6 });
		for (unsigned i = 0; i < WRITES; i++) {
			struct err err = { 0 };
			auto_str char *value = str_fmt("%u", i);
			expect(patch_go(k, value, &err) == 1, err.text);
			assert_string_equal(
				sim_text(sim_get(s, "/api/v1/nodes/n000"), "metadata annotations kmodsmith.io/go"),
				value);
		}
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			hits[run][i] = rows[i]->hits;
	}
	assert_memory_equal(hits[0], hits[1], sizeof(hits[0]));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		assert_in_range(hits[0][i], 1, WRITES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),         cmocka_unit_test(test_watch),
		cmocka_unit_test(test_call_faults),  cmocka_unit_test(test_the_dead_stay_dead),
		cmocka_unit_test(test_watch_faults), cmocka_unit_test(test_pods_end),
		cmocka_unit_test(test_budgets),      cmocka_unit_test(test_seen),
		cmocka_unit_test(test_clock),        cmocka_unit_test(test_same_again),
		cmocka_unit_test(test_by_chance),
	};
	return cmocka_run_group_tests_name("sim_server", tests, NULL, NULL);
}
