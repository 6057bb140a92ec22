// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/metrics.h"

#include <sys/resource.h>

const unsigned metrics_bounds[METRICS_BOUNDS] = { 1, 5, 15, 60, 300, 900, 1800, 3600, 14400 };

void metrics_count_phase(struct counters *t, const struct phase_change *moved)
{
	struct counters_phase *p = &t->phases[moved->from];
	unsigned bound = 0;
	if (moved->to == PHASE_RESTORING)
		t->rollbacks[moved->failing]++;
	if (moved->seconds < 0) // its beginning is unknown
		return;
	while (bound < METRICS_BOUNDS && moved->seconds > metrics_bounds[bound])
		bound++;
	p->within[bound]++;
	p->count++;
	p->seconds += (double)moved->seconds;
}

static struct counters_pool find_pool_counters(const struct counters *t, const char *name)
{
	struct counters_pool pool = { 0 };
	for (size_t i = 0; i < POOLS_MOST; i++)
		if (str_eq(t->pools[i].name, name))
			return t->pools[i];
	memcpy(pool.name, name, sizeof(pool.name));
	return pool;
}

void metrics_count_pools(struct counters *t, const struct policy *policy, const struct sum *sums, long now_ms)
{
	struct counters_pool pools[POOLS_MOST] = { 0 };
	double passed = t->last_ms ? (double)(now_ms - t->last_ms) / 1000 : 0;
	for (size_t i = 0; i < policy->pool_count; i++) {
		pools[i] = find_pool_counters(t, policy->pools[i].name);
		pools[i].seconds += passed * pools[i].unavailable;
		pools[i].unavailable = sums[i].unavailable;
	}
	memcpy(t->pools, pools, sizeof(pools));
	t->last_ms = now_ms;
}

static void add_metric_head(char **text, const char *name, const char *type, const char *help)
{
	str_add(text, "# HELP kmodsmith_%s %s\n# TYPE kmodsmith_%s %s\n", name, help, name, type);
}

// Nodes without a pool are not counted: the rollout does not change them.
static void add_nodes(const struct coordinator *c, const struct slots *s, char **text)
{
	add_metric_head(text, "nodes", "gauge", "Nodes of a pool, by state of the rollout.");
	for (size_t p = 0; p < c->source.policy.pool_count; p++)
		for (enum node_phase phase = 0; phase < PHASE_COUNT; phase++) {
			unsigned count = 0;
			for (size_t i = 0; i < c->node_cache.count; i++)
				count +=
					s->node_plans[i].pool == (int)p && c->node_cache.nodes[i].record.phase == phase;
			str_add(text, "kmodsmith_nodes{pool=\"%s\",state=\"%s\"} %u\n", c->source.policy.pools[p].name,
				node_phase_info(phase)->name, count);
		}
}

// By the first thing that is not back.
static void add_unreleased(const struct coordinator *c, const struct slots *s, char **text)
{
	add_metric_head(text, "nodes_unreleased", "gauge",
			"Nodes that stay cordoned with a driver that works, by what is not back.");
	struct cluster cl = coordinator_cluster(c);
	for (size_t p = 0; p < c->source.policy.pool_count; p++) {
		unsigned counts[REASON_COUNT] = { 0 };
		for (size_t i = 0; i < c->node_cache.count; i++) {
			struct reason why;
			struct view v = scheduler_view(&cl, s, i);
			if (s->node_plans[i].pool == (int)p && transition_is_kept(&v, &why))
				counts[why.code]++;
		}
		for (enum reason_code code = REASON_NONE + 1; code < REASON_COUNT; code++)
			if (counts[code])
				str_add(text, "kmodsmith_nodes_unreleased{pool=\"%s\",reason=\"%s\"} %u\n",
					c->source.policy.pools[p].name, node_reason_info(code)->code, counts[code]);
	}
}

static void add_rollouts(const struct coordinator *c, const struct slots *s, char **text)
{
	add_metric_head(text, "rollout_info", "gauge", "Target of a pool, and the wave that is open.");
	for (size_t p = 0; p < c->source.policy.pool_count; p++) {
		const struct pool *pool = &c->source.policy.pools[p];
		char target_hash[TARGET_HASH_TEXT];
		target_hash_text(&s->rollouts[p].target, target_hash);
		str_add(text, "kmodsmith_rollout_info{pool=\"%s\",driver=\"%s\",target=\"%s\",wave=\"%s\"} 1\n",
			pool->name, pool->target.driver, target_hash, policy_wave_name(pool, s->rollouts[p].wave));
	}
	add_metric_head(text, "rollout_halted", "gauge", "1: the pool is halted, with the reason.");
	for (size_t p = 0; p < c->source.policy.pool_count; p++)
		str_add(text, "kmodsmith_rollout_halted{pool=\"%s\",reason=\"%s\"} %d\n",
			c->source.policy.pools[p].name, node_reason_info(s->rollouts[p].halt.code)->code,
			s->rollouts[p].is_halted);
}

static void add_slots(const struct coordinator *c, const struct slots *s, char **text)
{
	add_metric_head(text, "slots", "gauge",
			"Slots of a pool: used, waiting for jobs, the limit, and what is left of it.");
	for (size_t p = 0; p < c->source.policy.pool_count; p++) {
		const struct sum *sum = &s->sums[p];
		const struct {
			const char *kind;
			unsigned value;
		} rows[] = { { "used", sum->used },
			     { "waiting", sum->waiting },
			     { "limit", sum->parallel_limit },
			     { "free", sum->parallel_limit > sum->used ? sum->parallel_limit - sum->used : 0 } };
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
			str_add(text, "kmodsmith_slots{pool=\"%s\",kind=\"%s\"} %u\n", c->source.policy.pools[p].name,
				rows[i].kind, rows[i].value);
	}
	add_metric_head(text, "nodes_unavailable", "gauge", "Nodes that are down, cordoned, or being worked on.");
	for (size_t p = 0; p < c->source.policy.pool_count; p++)
		str_add(text, "kmodsmith_nodes_unavailable{pool=\"%s\"} %u\n", c->source.policy.pools[p].name,
			s->sums[p].unavailable);
}

static void add_transition_counters(const struct coordinator *c, const struct counters *t, char **text)
{
	add_metric_head(text, "phase_seconds", "histogram", "Time that nodes spent in a state.");
	for (enum node_phase phase = 0; phase < PHASE_COUNT; phase++) {
		const struct counters_phase *p = &t->phases[phase];
		const char *name = node_phase_info(phase)->name;
		unsigned long sum = 0;
		if (!p->count)
			continue;
		for (unsigned i = 0; i < METRICS_BOUNDS; i++)
			str_add(text, "kmodsmith_phase_seconds_bucket{phase=\"%s\",le=\"%u\"} %lu\n", name,
				metrics_bounds[i], sum += p->within[i]);
		str_add(text, "kmodsmith_phase_seconds_bucket{phase=\"%s\",le=\"+Inf\"} %lu\n", name, p->count);
		str_add(text, "kmodsmith_phase_seconds_sum{phase=\"%s\"} %.0f\n", name, p->seconds);
		str_add(text, "kmodsmith_phase_seconds_count{phase=\"%s\"} %lu\n", name, p->count);
	}
	add_metric_head(text, "node_unavailable_seconds_total", "counter",
			"Seconds that nodes were unavailable, for any cause.");
	for (size_t p = 0; p < c->source.policy.pool_count; p++)
		str_add(text, "kmodsmith_node_unavailable_seconds_total{pool=\"%s\"} %.0f\n", t->pools[p].name,
			t->pools[p].seconds);
	add_metric_head(text, "rollbacks_total", "counter",
			"Rollbacks of nodes, by class of the failure; none: no answer.");
	for (enum failing f = 0; f < FAILING_COUNT; f++)
		str_add(text, "kmodsmith_rollbacks_total{class=\"%s\"} %lu\n", failing_names[f], t->rollbacks[f]);
}

// Of both connections.
static void add_requests(const struct coordinator *c, char **text)
{
	const struct kube *const clients[] = { c->o.kube, c->o.lease_kube };
	static const char *const names[] = { "cluster", "lease" };
	add_metric_head(text, "api_requests_total", "counter",
			"Requests to the API server; code 0: no answer, or a watch.");
	for (size_t k = 0; k < ARRAY_SIZE(clients); k++) {
		size_t count;
		const struct kube_count *counts = kube_counts(clients[k], &count);
		for (size_t i = 0; i < count; i++)
			str_add(text, "kmodsmith_api_requests_total{connection=\"%s\",verb=\"%s\",code=\"%ld\"} %lu\n",
				names[k], counts[i].verb, counts[i].status, counts[i].count);
	}
}

static void add_counters(const struct coordinator *c, char **text)
{
	add_metric_head(text, "evictions_total", "counter", "Evictions that were requested, by result.");
	str_add(text, "kmodsmith_evictions_total{result=\"evicted\"} %lu\n", c->drain.evicted);
	str_add(text, "kmodsmith_evictions_total{result=\"blocked\"} %lu\n", c->drain.blocked);
	str_add(text, "kmodsmith_evictions_total{result=\"other\"} %lu\n",
		c->drain.asked - c->drain.evicted - c->drain.blocked);
	add_metric_head(text, "node_writes_total", "counter", "Patches of nodes.");
	str_add(text, "kmodsmith_node_writes_total %lu\n", c->writes);
	add_metric_head(text, "conflicts_total", "counter", "Patches of nodes that were refused as outdated.");
	str_add(text, "kmodsmith_conflicts_total %lu\n", c->conflicts);
}

static void add_process(const struct coordinator *c, char **text)
{
	struct rusage usage;
	add_metric_head(text, "leader", "gauge", "1: this coordinator leads.");
	str_add(text, "kmodsmith_leader %d\n", c->leader.is_leading);
	if (c->leader.is_leading) {
		add_metric_head(text, "policy_accepted", "gauge",
				"1: the current policy is in force; 0: it is refused.");
		str_add(text, "kmodsmith_policy_accepted %d\n", !c->source.refused.code);
	}
	add_metric_head(text, "resident_memory_max_bytes", "gauge", "Peak resident memory of this process.");
	if (getrusage(RUSAGE_SELF, &usage) == 0)
		str_add(text, "kmodsmith_resident_memory_max_bytes %lld\n", usage.ru_maxrss * 1024LL);
}

char *metrics_text(const struct coordinator *c, const struct slots *s, const struct counters *t)
{
	char *text = str_dup("");
	if (s) {
		add_nodes(c, s, &text);
		add_unreleased(c, s, &text);
		add_rollouts(c, s, &text);
		add_slots(c, s, &text);
		add_transition_counters(c, t, &text);
		add_counters(c, &text);
	}
	add_requests(c, &text);
	add_process(c, &text);
	return text;
}
