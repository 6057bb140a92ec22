// SPDX-License-Identifier: Apache-2.0
// What Prometheus reads of a coordinator, word by word: dashboards and alerts are written against these names, labels
// and numbers (upgrade-design 5.11).
#include "cluster/coordinator/metrics.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

#include <stdlib.h>

enum { NODES = 6, POOLS = 2 };
#define auto_client __attribute__((cleanup(kube_freep)))

struct scene {
	struct node_state nodes[NODES];
	struct wave waves[1];
	struct pool pools[POOLS];
	struct node_plan node_plans[NODES];
	struct sum sums[POOLS];
	struct rollout rollouts[POOLS];
	struct slots slots;
	struct counters counters;
	struct coordinator c;
};

// Pool a is in its canary, has room, and waits for a GPU; pool b is in its last wave, halted, with more under way than
// its limit allows.
static void make(struct scene *s, struct kube *kube, struct kube *lease_kube)
{
	static const enum node_phase phases[NODES] = { PHASE_EVICTING, PHASE_DONE, PHASE_DONE,
						       PHASE_UNKNOWN,  PHASE_HELD, PHASE_RELEASING };
	static const int pools[NODES] = { 0, 0, 1, 1, -1, 0 };
	*s = (struct scene){ .waves = { { .name = "canary" } },
			     .pools = { { .name = "a", .target.driver = "570.86.15", .wave_count = 1 },
					{ .name = "b", .target.driver = "535.261.03" } },
			     .sums = { { .used = 1, .waiting = 2, .parallel_limit = 4, .unavailable = 5 },
				       { .used = 3, .parallel_limit = 2, .unavailable = 6 } },
			     .rollouts = { { .target = { 0xabc, 0x12 } },
					   { .wave = 1, .is_halted = true, .halt.code = REASON_WAVE_FAILURES } } };
	for (int i = 0; i < NODES; i++) {
		s->nodes[i].record.phase = phases[i];
		s->node_plans[i].pool = pools[i];
	}
	s->nodes[5].record.receipt.is_there = s->nodes[5].facts.is_ready = true;
	s->nodes[5].record.go.verb = VERB_VALIDATE;
	memcpy(s->nodes[5].record.baseline, "gpu=8", sizeof("gpu=8"));
	s->pools[0].waves = s->waves;
	s->slots = (struct slots){ .node_plans = s->node_plans, .sums = s->sums, .rollouts = s->rollouts };
	s->counters = (struct counters){ .rollbacks = { [FAILING_PERMANENT] = 2, [FAILING_NONE] = 1 },
					 .pools = { { "a", 5, 61.4 }, { "b", 6, 7 } } };
	s->counters.phases[PHASE_EVICTING] =
		(struct counters_phase){ .within = { 0, 1, 0, 2, 0, 0, 0, 0, 0, 1 }, .count = 4, .seconds = 15123 };
	s->c = (struct coordinator){ .o = { .kube = kube, .lease_kube = lease_kube },
				     .source.policy = { .pools = s->pools, .pool_count = POOLS },
				     .node_cache = { .nodes = s->nodes, .count = NODES },
				     .leader.is_leading = true,
				     .drain = { .asked = 9, .evicted = 5, .blocked = 3 },
				     .writes = 41,
				     .conflicts = 2 };
}

// Without the prefix that each name has. The rows of states that no node is in are left out of *ret, and counted; so is
// what nobody can know: the memory.
static unsigned shorten(const char *text, char **ret)
{
	static const char prefix[] = "kmodsmith_";
	auto_strv struct strv lines = { 0 };
	unsigned empty = 0, memory_lines = 0;
	strv_split(&lines, text, "\n");
	*ret = str_dup("");
	for (size_t i = 0; i < lines.count; i++) {
		const char *line = lines.items[i], *name = strstr(line, prefix);
		expect(name, line);
		if (str_starts(line, "kmodsmith_nodes{") && str_ends(line, "} 0"))
			empty++;
		else if (str_starts(line, "kmodsmith_resident_memory_max_bytes "))
			memory_lines += atol(strchr(line, ' ') + 1) > 1 << 20;
		else
			str_add(ret, "%.*s%s\n", (int)(name - line), line, name + strlen(prefix));
	}
	assert_int_equal(memory_lines, 1);
	return empty;
}

static const char *const rollouts[] = {
	"# HELP nodes Nodes of a pool, by state of the rollout.",
	"# TYPE nodes gauge",
	"nodes{pool=\"a\",state=\"evicting\"} 1",
	"nodes{pool=\"a\",state=\"releasing\"} 1",
	"nodes{pool=\"a\",state=\"done\"} 1",
	"nodes{pool=\"b\",state=\"done\"} 1",
	"nodes{pool=\"b\",state=\"unknown\"} 1",
	"# HELP nodes_unreleased Nodes that stay cordoned with a driver that works, by what is not back.",
	"# TYPE nodes_unreleased gauge",
	"nodes_unreleased{pool=\"a\",reason=\"waits-for-allocatable\"} 1",
	"# HELP rollout_info Target of a pool, and the wave that is open.",
	"# TYPE rollout_info gauge",
	"rollout_info{pool=\"a\",driver=\"570.86.15\",target=\"0000000000000abc-0000000000000012\",wave=\"canary\"} 1",
	"rollout_info{pool=\"b\",driver=\"535.261.03\",target=\"none\",wave=\"rest\"} 1",
	"# HELP rollout_halted 1: the pool is halted, with the reason.",
	"# TYPE rollout_halted gauge",
	"rollout_halted{pool=\"a\",reason=\"none\"} 0",
	"rollout_halted{pool=\"b\",reason=\"wave-failures\"} 1",
	"# HELP slots Slots of a pool: used, waiting for jobs, the limit, and what is left of it.",
	"# TYPE slots gauge",
	"slots{pool=\"a\",kind=\"used\"} 1",
	"slots{pool=\"a\",kind=\"waiting\"} 2",
	"slots{pool=\"a\",kind=\"limit\"} 4",
	"slots{pool=\"a\",kind=\"free\"} 3",
	"slots{pool=\"b\",kind=\"used\"} 3",
	"slots{pool=\"b\",kind=\"waiting\"} 0",
	"slots{pool=\"b\",kind=\"limit\"} 2",
	"slots{pool=\"b\",kind=\"free\"} 0",
	"# HELP nodes_unavailable Nodes that are down, cordoned, or being worked on.",
	"# TYPE nodes_unavailable gauge",
	"nodes_unavailable{pool=\"a\"} 5",
	"nodes_unavailable{pool=\"b\"} 6",
	"# HELP phase_seconds Time that nodes spent in a state.",
	"# TYPE phase_seconds histogram",
	"phase_seconds_bucket{phase=\"evicting\",le=\"1\"} 0",
	"phase_seconds_bucket{phase=\"evicting\",le=\"5\"} 1",
	"phase_seconds_bucket{phase=\"evicting\",le=\"15\"} 1",
	"phase_seconds_bucket{phase=\"evicting\",le=\"60\"} 3",
	"phase_seconds_bucket{phase=\"evicting\",le=\"300\"} 3",
	"phase_seconds_bucket{phase=\"evicting\",le=\"900\"} 3",
	"phase_seconds_bucket{phase=\"evicting\",le=\"1800\"} 3",
	"phase_seconds_bucket{phase=\"evicting\",le=\"3600\"} 3",
	"phase_seconds_bucket{phase=\"evicting\",le=\"14400\"} 3",
	"phase_seconds_bucket{phase=\"evicting\",le=\"+Inf\"} 4",
	"phase_seconds_sum{phase=\"evicting\"} 15123",
	"phase_seconds_count{phase=\"evicting\"} 4",
	"# HELP node_unavailable_seconds_total Seconds that nodes were unavailable, for any cause.",
	"# TYPE node_unavailable_seconds_total counter",
	"node_unavailable_seconds_total{pool=\"a\"} 61",
	"node_unavailable_seconds_total{pool=\"b\"} 7",
	"# HELP rollbacks_total Rollbacks of nodes, by class of the failure; none: no answer.",
	"# TYPE rollbacks_total counter",
	"rollbacks_total{class=\"none\"} 1",
	"rollbacks_total{class=\"transient\"} 0",
	"rollbacks_total{class=\"busy\"} 0",
	"rollbacks_total{class=\"permanent\"} 2",
	"# HELP evictions_total Evictions that were requested, by result.",
	"# TYPE evictions_total counter",
	"evictions_total{result=\"evicted\"} 5",
	"evictions_total{result=\"blocked\"} 3",
	"evictions_total{result=\"other\"} 1",
	"# HELP node_writes_total Patches of nodes.",
	"# TYPE node_writes_total counter",
	"node_writes_total 41",
	"# HELP conflicts_total Patches of nodes that were refused as outdated.",
	"# TYPE conflicts_total counter",
	"conflicts_total 2",
	NULL,
};
static const char *const requests_head[] = {
	"# HELP api_requests_total Requests to the API server; code 0: no answer, or a watch.",
	"# TYPE api_requests_total counter",
	NULL,
};
static const char *const requests[] = {
	"api_requests_total{connection=\"cluster\",verb=\"GET\",code=\"404\"} 2",
	"api_requests_total{connection=\"cluster\",verb=\"GET\",code=\"0\"} 1",
	"api_requests_total{connection=\"lease\",verb=\"GET\",code=\"200\"} 1",
	NULL,
};
static const char *const leads[] = {
	"# HELP leader 1: this coordinator leads.",
	"# TYPE leader gauge",
	"leader 1",
	NULL,
};
static const char *const follows[] = {
	"# HELP leader 1: this coordinator leads.",
	"# TYPE leader gauge",
	"leader 0",
	NULL,
};
static const char *const accepted[] = {
	"# HELP policy_accepted 1: the current policy is in force; 0: it is refused.",
	"# TYPE policy_accepted gauge",
	"policy_accepted 1",
	NULL,
};
static const char *const refused[] = {
	"# HELP policy_accepted 1: the current policy is in force; 0: it is refused.",
	"# TYPE policy_accepted gauge",
	"policy_accepted 0",
	NULL,
};
static const char *const memory[] = {
	"# HELP resident_memory_max_bytes Peak resident memory of this process.",
	"# TYPE resident_memory_max_bytes gauge",
	NULL,
};

static void expect_metrics(const struct coordinator *c, const struct slots *slots, const struct counters *counters,
			   unsigned empty, const char *const *const parts[])
{
	auto_str char *text = metrics_text(c, slots, counters), *got = NULL, *want = str_dup("");
	for (size_t i = 0; parts[i]; i++)
		for (size_t n = 0; parts[i][n]; n++)
			str_add(&want, "%s\n", parts[i][n]);
	assert_int_equal(shorten(text, &got), empty);
	assert_string_equal(got, want);
}

static void a_leaders_metrics(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct scene s;
	auto_sim struct sim *sim = sim_new(NULL);
	auto_client struct kube *kube = sim_client(sim, "boss"), *lease_kube = sim_client(sim, "boss-lease");
	for (int i = 0; i < 2; i++)
		assert_int_equal(api_get(kube, "/api/v1/nodes/none", NULL, &err), 0);
	sim_fault(sim, &(struct sim_fault){ .what = SIM_CUT_BEFORE });
	auto_kube_call struct kube_call cut = { .path = "/api/v1/nodes/none", .deadline_ms = 500 };
	assert_int_equal(kube_run(kube, &cut, &err), -1);
	assert_int_equal(api_get(lease_kube, "/api/v1/nodes", NULL, &err), 1);
	make(&s, kube, lease_kube);
	expect_metrics(
		&s.c, &s.slots, &s.counters, POOLS * PHASE_COUNT - 5,
		(const char *const *const[]){ rollouts, requests_head, requests, leads, accepted, memory, NULL });
	err_set(&s.c.source.refused, E_CONFIG, "pools: is missing");
	expect_metrics(&s.c, &s.slots, &s.counters, POOLS * PHASE_COUNT - 5,
		       (const char *const *const[]){ rollouts, requests_head, requests, leads, refused, memory, NULL });
}

// What another one leads it does not know, and does not make up: an alert on "no node is done" would fire twice.
static void a_standbys_metrics(void **state)
{
	(void)state;
	struct scene s;
	auto_sim struct sim *sim = sim_new(NULL);
	auto_client struct kube *kube = sim_client(sim, "boss"), *lease_kube = sim_client(sim, "boss-lease");
	make(&s, kube, lease_kube);
	s.c.leader.is_leading = false;
	expect_metrics(&s.c, NULL, &s.counters, 0,
		       (const char *const *const[]){ requests_head, follows, memory, NULL });
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_leaders_metrics), cmocka_unit_test(a_standbys_metrics) };
	return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
