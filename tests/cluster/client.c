// SPDX-License-Identifier: Apache-2.0
// What client.bats names, one test a run: our client against the API server of $KUBECONFIG.
#include "cluster/kube/api.h"

#include "tests/unit/test.h"

#include <malloc.h>
#include <poll.h>

static struct kube *kube;
static const char EVENTS[] = "/api/v1/namespaces/default/events";

static json_t *parse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static json_t *parse(const char *fmt, ...)
{
	va_list args;
	char *text = NULL;
	va_start(args, fmt);
	assert_true(vasprintf(&text, fmt, args) >= 0);
	va_end(args);
	for (char *p = text; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	json_t *value = json_loads(text, 0, NULL);
	assert_non_null(value);
	free(text);
	return value;
}

static const char *metadata(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(json_object_get(object, "metadata"), key));
}

static void make(const char *path, const char *object)
{
	struct err err = { 0 };
	auto_json json_t *body = parse("%s", object);
	expect(api_create(kube, path, body, NULL, &err) == 1, err.text);
}

static void make_nodes(const char *prefix, int count, const char *status)
{
	for (int i = 0; i < count; i++) {
		auto_str char *text = str_fmt("{'metadata': {'name': '%s%03d', 'labels': {'set': '%s'}}, 'status': %s}",
					      prefix, i, prefix, status);
		make("/api/v1/nodes", text);
	}
}

static void remove_object(const char *path)
{
	struct err err = { 0 };
	auto_kube_call struct kube_call call = { .method = "DELETE", .path = path };
	expect(kube_run(kube, &call, &err) == 0, err.text);
}

static void test_objects(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_json json_t *made = NULL, *found = NULL, *later = NULL;
	auto_str char *path = api_path(API_LEASE, "default", "one"), *all = api_path(API_LEASE, "default", NULL);
	auto_json json_t *lease =
		parse("{'apiVersion': 'coordination.k8s.io/v1', 'kind': 'Lease', 'metadata': {'name': "
		      "'one'}, 'spec': {'holderIdentity': 'a', 'leaseDurationSeconds': 15}}");
	assert_int_equal(api_get(kube, path, NULL, &err), 0);
	expect(api_create(kube, all, lease, &made, &err) == 1, err.text);
	assert_int_equal(api_create(kube, all, lease, NULL, &err), 0);
	assert_int_equal(api_get(kube, path, &found, &err), 1);
	assert_string_equal(metadata(found, "uid"), metadata(made, "uid"));
	json_object_set_new(json_object_get(found, "spec"), "holderIdentity", json_string("b"));
	expect(api_change(kube, API_REPLACE, path, found, &later, &err) == 1, err.text);
	assert_string_not_equal(metadata(later, "resourceVersion"), metadata(made, "resourceVersion"));
	assert_int_equal(api_change(kube, API_REPLACE, path, found, NULL, &err), 0); // read before that
	remove_object(path);
	assert_int_equal(api_change(kube, API_REPLACE, path, later, NULL, &err), 0); // gone

	auto_str char *map = api_path(API_CONFIGMAP, "default", "policy");
	make("/api/v1/namespaces/default/configmaps", "{'metadata': {'name': 'policy'}, 'data': {'pools': '[]'}}");
	auto_json json_t *config = NULL;
	assert_int_equal(api_get(kube, map, &config, &err), 1);
	assert_string_equal(json_string_value(json_object_get(json_object_get(config, "data"), "pools")), "[]");
}

struct seen {
	struct strv names;
	size_t bytes; // of what was handed over
	size_t largest;
	const char *wait_at; // after this name
};

// Until etcd has forgotten what is old now: it does so twice the interval of helper.bash later, if something happens.
static void outlive_compaction(void)
{
	struct err err = { 0 };
	struct kube *shared = kube;
	auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
	expect(kube_config_file(getenv("KUBECONFIG"), NULL, &c, &err) == 0 && kube_open(&c, &kube, &err) == 0,
	       err.text);
	for (int i = 0; i < 26; i++) {
		auto_str char *text = str_fmt("{'metadata': {'name': 'noise-%d-%d'}}", getpid(), i);
		make("/api/v1/namespaces/default/configmaps", text);
		poll(NULL, 0, 500);
	}
	kube_free(kube);
	kube = shared;
}

static int see(void *ctx, json_t *object, struct err *err)
{
	(void)err;
	struct seen *s = ctx;
	auto_str char *text = json_dumps(object, JSON_COMPACT);
	size_t len = strlen(text);
	s->bytes += len;
	s->largest = len > s->largest ? len : s->largest;
	strv_add(&s->names, str_dup(metadata(object, "name")));
	if (str_eq(s->wait_at, metadata(object, "name"))) { // the first page
		s->wait_at = NULL;
		outlive_compaction();
	}
	return 0;
}

static const char *const NODE[] = { "metadata name", "metadata uid", "metadata annotations kmodsmith.io/*",
				    "spec unschedulable", NULL };

static void list_set(const char *path, const char *set, unsigned limit, struct seen *seen, unsigned *ret_pages)
{
	struct err err = { 0 };
	auto_str char *query = str_fmt("labelSelector=set%%3D%s", set), *version = NULL;
	struct kube_list list = {
		.path = path, .query = query, .record = NODE, .limit = limit, .take = see, .ctx = seen
	};
	expect(kube_list(kube, &list, &version, &err) == 0, err.text);
	assert_true(strtoull(version, NULL, 10) > 0);
	*ret_pages = list.pages;
}

static void test_pages(void **state)
{
	(void)state;
	unsigned pages = 0;
	struct seen seen = { 0 };
	make_nodes("p", 25, "{}");
	list_set("/api/v1/nodes", "p", 10, &seen, &pages);
	assert_int_equal(pages, 3);
	assert_int_equal(seen.names.count, 25);
	for (size_t i = 0; i < 25; i++) {
		auto_str char *name = str_fmt("p%03zu", i);
		assert_string_equal(seen.names.items[i], name);
	}
	strv_done(&seen.names);
}

static void test_expired(void **state)
{
	(void)state;
	unsigned pages = 0;
	struct seen seen = { .wait_at = "e004" };
	for (int i = 0; i < 12; i++) { // of which the API server keeps no cache: pages come from etcd
		auto_str char *text =
			str_fmt("{'metadata': {'name': 'e%03d', 'labels': {'set': 'e'}}, 'involvedObject': "
				"{'namespace': 'default'}}",
				i);
		make(EVENTS, text);
	}
	list_set(EVENTS, "e", 5, &seen, &pages);
	expect(seen.names.count == 17 && pages == 4, "the first page came again");
	assert_string_equal(seen.names.items[5], "e000");
	assert_string_equal(seen.names.items[16], "e011");
	strv_done(&seen.names);
}

static long high_water_kib(void)
{
	struct err err = { 0 };
	auto_str char *text = NULL;
	auto_root struct root self = ROOT_NONE;
	expect(root_init(&self, "/proc/self", &err) == 0 && root_read(&self, "status", &text, NULL, &err) > 0,
	       err.text);
	return strtol(strstr(text, "VmHWM:") + 6, NULL, 10);
}

// What a coordinator keeps of a node is its own; here names are kept, and the rest is what a list costs on its way.
static void test_memory(void **state)
{
	(void)state;
	enum { NODES = 500, PER_NODE = 2048 };
	unsigned pages = 0;
	struct seen seen = { 0 };
	auto_str char *images = str_dup("");
	for (int i = 0; i < 50; i++)
		str_add(&images, "%s{'names': ['registry.test/%0380d'], 'sizeBytes': 1000}", *images ? ", " : "", i);
	auto_str char *status = str_fmt("{'images': [%s]}", images);
	make_nodes("m", NODES, status);
	struct seen first = { 0 };
	list_set("/api/v1/nodes", "m", 10, &first, &pages); // libraries and buffers that are there for any list
	long before = high_water_kib();
	strv_done(&first.names);
	list_set("/api/v1/nodes", "m", NODES, &seen, &pages);
	long grown = high_water_kib() - before;
	assert_true(pages <= 2);
	assert_int_equal(seen.names.count, NODES);
	auto_str char *measured =
		str_fmt("%d nodes in one page: %ld KiB more, at most %zu bytes at once", NODES, grown, seen.largest);
	puts(measured);
	expect(grown * 1024 < (long)NODES * PER_NODE, measured);
	expect(seen.largest < PER_NODE, measured);
	strv_done(&seen.names);
}

struct events {
	char *text;
	const char *only;
};

static int on_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	(void)err;
	struct events *e = ctx;
	const char *name = metadata(object, "name");
	const json_t *annotations = json_object_get(json_object_get(object, "metadata"), "annotations");
	const char *value = json_string_value(json_object_get(annotations, "kmodsmith.io/x"));
	if (str_starts(name, e->only))
		str_add(&e->text, "%s %s %s\n", type, name, value ? value : "-");
	return 0;
}

static const char *const EVENT[] = { KUBE_EVENT, "object metadata name", "object metadata annotations kmodsmith.io/*",
				     NULL };

static void begin_watch(struct kube_watch *w, unsigned seconds)
{
	struct err err = { 0 };
	expect(kube_watch_begin(kube, w, seconds, &err) == 0, err.text);
	for (int i = 0; i < 5; i++)
		expect(kube_step(kube, 100, &err) == 0, err.text);
}

static void run_watch(struct kube_watch *w, const char *until)
{
	struct err err = { 0 };
	struct events *e = w->ctx;
	int r = 1;
	while (r > 0 && !(until && e->text && strstr(e->text, until))) {
		expect(kube_step(kube, 200, &err) == 0, err.text);
		r = kube_watch_look(w, &err);
	}
	expect(r >= 0, err.text);
}

static void annotate(const char *node, const char *value)
{
	struct err err = { 0 };
	auto_str char *path = api_node(node);
	auto_json json_t *patch = parse("{'metadata': {'annotations': {'kmodsmith.io/x': '%s'}}}", value);
	expect(api_change(kube, API_MERGE, path, patch, NULL, &err) == 1, err.text);
}

static void test_watch(void **state)
{
	(void)state;
	auto_json json_t *list = NULL;
	struct err err = { 0 };
	struct events e = { .only = "w" };
	make_nodes("w", 1, "{}");
	assert_int_equal(api_get(kube, "/api/v1/nodes?limit=1", &list, &err), 1);
	auto_kube_watch struct kube_watch w = { .path = "/api/v1/nodes",
						.record = EVENT,
						.event = on_event,
						.ctx = &e,
						.version = str_dup(metadata(list, "resourceVersion")) };
	annotate("w000", "one");
	annotate("w000", "two");
	remove_object("/api/v1/nodes/w000");
	begin_watch(&w, 20);
	run_watch(&w, "DELETED");
	assert_string_equal(e.text, "MODIFIED w000 one\nMODIFIED w000 two\nDELETED w000 two\n");
	free(TAKE(e.text));
	kube_watch_end(&w); // else it goes on whenever anything is asked
	auto_str char *version = str_dup(w.version);
	w.query = "labelSelector=set%3Dnone";
	begin_watch(&w, 6);
	make_nodes("other", 1, "{}");
	run_watch(&w, NULL); // of its own nothing happens; what does elsewhere moves the version before the end
	assert_null(e.text);
	assert_string_not_equal(w.version, version);
	auto_str char *now = str_fmt("%u bookmarks, gone %d, %s then %s", w.bookmarks, w.is_gone, version, w.version);
	expect(w.bookmarks > 0 && !w.is_gone, now);
	outlive_compaction();
	auto_kube_watch struct kube_watch old = {
		.path = EVENTS, .record = EVENT, .event = on_event, .ctx = &e, .version = str_dup("1")
	};
	begin_watch(&old, 5);
	run_watch(&old, NULL);
	assert_true(old.is_gone);
	free(e.text);
}

static void test_patches(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_json json_t *node = NULL, *after = NULL;
	make_nodes("t", 1, "{}");
	annotate("t000", "old");
	auto_str char *path = api_node("t000");
	assert_int_equal(api_get(kube, path, &node, &err), 1);
	static const struct {
		const char *operations;
		int want;
	} rows[] = {
		{ "[{'op': 'test', 'path': '/metadata/annotations/kmodsmith.io~1x', 'value': 'other'},"
		  "{'op': 'add', 'path': '/metadata/annotations/kmodsmith.io~1x', 'value': 'lost'}]",
		  0 },
		{ "[{'op': 'test', 'path': '/metadata/uid', 'value': '0'},"
		  "{'op': 'add', 'path': '/metadata/annotations/kmodsmith.io~1x', 'value': 'lost'}]",
		  0 },
		{ "[{'op': 'test', 'path': '/metadata/annotations/kmodsmith.io~1x', 'value': 'old'},"
		  "{'op': 'test', 'path': '/spec/unschedulable', 'value': null},"
		  "{'op': 'add', 'path': '/spec/unschedulable', 'value': true},"
		  "{'op': 'add', 'path': '/metadata/annotations/kmodsmith.io~1x', 'value': 'new'}]",
		  1 },
		{ "[{'op': 'test', 'path': '/spec/unschedulable', 'value': null}]", 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_json json_t *operations = parse("%s", rows[i].operations);
		expect(api_change(kube, API_PATCH, path, operations, NULL, &err) == rows[i].want, err.text);
	}
	auto_json json_t *other = parse("{'metadata': {'uid': '11111111-2222-3333-4444-555555555555', 'annotations': "
					"{'kmodsmith.io/x': 'lost'}}}");
	expect(api_change(kube, API_MERGE, path, other, NULL, &err) == 0, err.text);
	auto_json json_t *own =
		parse("{'metadata': {'uid': '%s', 'annotations': {'kmodsmith.io/y': 'mine'}}}", metadata(node, "uid"));
	expect(api_change(kube, API_MERGE, path, own, NULL, &err) == 1, err.text);
	auto_json json_t *stale =
		parse("{'metadata': {'resourceVersion': '%s', 'annotations': {'kmodsmith.io/y': 'lost'}}}",
		      metadata(node, "resourceVersion"));
	expect(api_change(kube, API_MERGE, path, stale, NULL, &err) == 0, err.text);
	assert_int_equal(api_get(kube, path, &after, &err), 1);
	const json_t *annotations = json_object_get(json_object_get(after, "metadata"), "annotations");
	assert_string_equal(json_string_value(json_object_get(annotations, "kmodsmith.io/x")), "new");
	assert_string_equal(json_string_value(json_object_get(annotations, "kmodsmith.io/y")), "mine");
	assert_int_equal(api_change(kube, API_MERGE, "/api/v1/nodes/absent", own, NULL, &err), 0);
}

static json_t *make_pod(const char *name)
{
	struct err err = { 0 };
	json_t *pod = NULL;
	auto_str char *path = str_fmt("/api/v1/namespaces/default/pods");
	auto_json json_t *body =
		parse("{'metadata': {'name': '%s', 'labels': {'app': '%s'}}, 'spec': {'nodeName': 'n', "
		      "'containers': [{'name': 'c', 'image': 'i'}]}}",
		      name, name);
	expect(api_create(kube, path, body, &pod, &err) == 1, err.text);
	return pod;
}

static void test_eviction(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct api_eviction e;
	auto_json json_t *pod = make_pod("web"), *after = NULL;
	expect(api_evict(kube, "default", "web", "11111111-2222-3333-4444-555555555555", &e, &err) == 0, err.text);
	assert_int_equal(e.what, API_OTHER);
	assert_int_equal(api_get(kube, "/api/v1/namespaces/default/pods/web", &after, &err), 1);
	assert_null(metadata(after, "deletionTimestamp"));
	expect(api_evict(kube, "default", "web", metadata(pod, "uid"), &e, &err) == 0, err.text);
	assert_int_equal(e.what, API_EVICTED);
	auto_json json_t *gone = NULL;
	if (api_get(kube, "/api/v1/namespaces/default/pods/web", &gone, &err) > 0) // until a kubelet says that it ended
		assert_non_null(metadata(gone, "deletionTimestamp"));
	expect(api_evict(kube, "default", "nobody", metadata(pod, "uid"), &e, &err) == 0, err.text);
	assert_int_equal(e.what, API_GONE);
}

static void test_budget(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct api_eviction e;
	auto_json json_t *pod = make_pod("db");
	make("/apis/policy/v1/namespaces/default/poddisruptionbudgets",
	     "{'metadata': {'name': 'keep-db'}, 'spec': {'minAvailable': 1, 'selector': {'matchLabels': {'app': "
	     "'db'}}}}");
	auto_json json_t *running = parse("{'status': {'phase': 'Running', 'conditions': [{'type': 'Ready', 'status': "
					  "'True'}]}}");
	auto_kube_call struct kube_call call = { .method = "PATCH",
						 .type = "application/merge-patch+json",
						 .body = running,
						 .path = "/api/v1/namespaces/default/pods/db/status" };
	expect(kube_run(kube, &call, &err) == 0, err.text);
	expect(api_evict(kube, "default", "db", metadata(pod, "uid"), &e, &err) == 0, err.text);
	assert_int_equal(e.what, API_BLOCKED);
	expect(strstr(e.why.text, "The disruption budget keep-db "), e.why.text);
	printf("%s; after %u ms\n", e.why.text, e.retry_ms);
}

static void test_event(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_json json_t *list = NULL;
	struct api_event event = {
		.node = "ev000", .reason = "Tested", .message = "it \"works\"", .component = "kmodsmith"
	};
	make_nodes("ev", 1, "{}");
	expect(api_event(kube, &event, &err) == 0, err.text);
	assert_int_equal(api_get(kube, "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dev000",
				 &list, &err),
			 1);
	json_t *items = json_object_get(list, "items");
	assert_int_equal(json_array_size(items), 1);
	json_t *got = json_array_get(items, 0);
	assert_string_equal(json_string_value(json_object_get(got, "message")), "it \"works\"");
	assert_string_equal(json_string_value(json_object_get(got, "type")), "Normal");
}

static void test_rights(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct kube *other = NULL;
	auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
	auto_json json_t *body =
		parse("{'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': {}}");
	make("/api/v1/namespaces/default/serviceaccounts", "{'metadata': {'name': 'nobody'}}");
	auto_kube_call struct kube_call call = { .method = "POST",
						 .body = body,
						 .path = "/api/v1/namespaces/default/serviceaccounts/nobody/token" };
	expect(kube_run(kube, &call, &err) == 0, err.text);
	const char *token = json_string_value(json_object_get(json_object_get(call.reply, "status"), "token"));
	for (int is_right = 0; is_right < 2; is_right++) {
		expect(kube_config_file(getenv("KUBECONFIG"), NULL, &c, &err) == 0, err.text);
		free(TAKE(c.certificate));
		free(TAKE(c.key));
		c.token = str_dup(is_right ? token : "made up");
		assert_int_equal(kube_open(&c, &other, &err), 0);
		assert_int_equal(api_get(other, "/api/v1/nodes", NULL, &err), -1);
		assert_int_equal(err.code, E_AUTH);
		expect(strstr(err.text, is_right ? "system:serviceaccount:default:nobody" : "status 401"), err.text);
		kube_free(TAKE(other));
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		struct CMUnitTest test;
	} all[] = {
		{ "objects", cmocka_unit_test(test_objects) },   { "pages", cmocka_unit_test(test_pages) },
		{ "memory", cmocka_unit_test(test_memory) },     { "expired", cmocka_unit_test(test_expired) },
		{ "watch", cmocka_unit_test(test_watch) },       { "patches", cmocka_unit_test(test_patches) },
		{ "eviction", cmocka_unit_test(test_eviction) }, { "budget", cmocka_unit_test(test_budget) },
		{ "event", cmocka_unit_test(test_event) },       { "rights", cmocka_unit_test(test_rights) },
	};
	struct err err = { 0 };
	auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
	const char *path = getenv("KUBECONFIG");
	if (argc != 2 || !path || kube_config_file(path, NULL, &c, &err) < 0 || kube_open(&c, &kube, &err) < 0) {
		fprintf(stderr, "usage: KUBECONFIG=FILE client TEST; %s\n", err.text);
		return 2;
	}
	int failed = 2;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const struct CMUnitTest tests[] = { all[i].test };
		if (str_eq(argv[1], all[i].name))
			failed = cmocka_run_group_tests_name(all[i].name, tests, NULL, NULL);
	}
	kube_free(kube);
	return failed;
}
