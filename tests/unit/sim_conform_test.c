// SPDX-License-Identifier: Apache-2.0
// The simulated server gives the answers of a real one: the same rows that tests/cluster/conform.bats sends to that.
#include "tests/cluster/conform_watch.h"
#include "tests/sim/sim.h"

// Something happens, and is forgotten, too: what was read last is too old then.
static void forget(void *ctx)
{
	sim_make(ctx, MAPS, "{'metadata': {'name': 'noise'}}");
	sim_compact(ctx);
}

static void begin(struct conform *c, struct sim **s)
{
	*s = sim_new(&(struct sim_options){ .is_bare = true });
	sim_make(*s, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		 "{'metadata':{'name':'driverrollouts.kmodsmith.io'}}");
	*c = (struct conform){ .kube = sim_client(*s, "a"), .age = forget, .ctx = *s, .kept = json_object() };
}

static void end(struct conform *c, struct sim *s)
{
	kube_free(c->kube);
	json_decref(c->kept);
	sim_free(s);
}

static void test_requests(void **state)
{
	(void)state;
	struct conform c;
	struct sim *s;
	begin(&c, &s);
	conform_requests(&c);
	end(&c, s);
}

static void test_watches(void **state)
{
	(void)state;
	struct conform c;
	struct sim *s;
	begin(&c, &s);
	conform_changes(&c);
	conform_first(&c);
	sim_compact(s);
	conform_old(&c);
	end(&c, s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_requests), cmocka_unit_test(test_watches) };
	return cmocka_run_group_tests_name("sim_conform", tests, NULL, NULL);
}
