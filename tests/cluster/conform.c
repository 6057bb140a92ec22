// SPDX-License-Identifier: Apache-2.0
// The rows of conform_rows.h against the API server of $KUBECONFIG, which compacts its etcd every few seconds.
#include "tests/cluster/conform_watch.h"

#include <poll.h>

// Twice the interval of helper.bash, and something has to happen meanwhile.
static void outlive_compaction(void *ctx)
{
	struct err err = { 0 };
	const struct conform *c = ctx;
	for (int i = 0; i < 26; i++) {
		auto_str char *text = str_fmt("{'metadata': {'name': 'noise-%d'}}", i);
		auto_json json_t *body = conform_parse(text);
		expect(api_create(c->kube, MAPS, body, NULL, &err) == 1, err.text);
		poll(NULL, 0, 500);
	}
}

static void test_requests(void **state)
{
	conform_requests(*state);
}

static void test_watches(void **state)
{
	conform_changes(*state);
	conform_first(*state);
	conform_old(*state);
}

int main(void)
{
	struct err err = { 0 };
	struct conform c = { .age = outlive_compaction, .ctx = &c, .kept = json_object() };
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	const char *path = getenv("KUBECONFIG");
	if (!path || kube_config_file(path, NULL, &config, &err) < 0 || kube_open(&config, &c.kube, &err) < 0) {
		fprintf(stderr, "usage: KUBECONFIG=FILE conform; %s\n", err.text);
		return 2;
	}
	const struct CMUnitTest tests[] = { cmocka_unit_test_prestate(test_requests, &c),
					    cmocka_unit_test_prestate(test_watches, &c) };
	int failed = cmocka_run_group_tests_name("conform", tests, NULL, NULL);
	json_decref(c.kept);
	kube_free(c.kube);
	return failed;
}
