// SPDX-License-Identifier: Apache-2.0
#include "cluster/metrics.h"

static void head(char **text, const char *name, const char *type, const char *help)
{
	str_add(text, "# HELP kmodsmith_%s %s\n# TYPE kmodsmith_%s %s\n", name, help, name, type);
}

// Nodes that no pool has are not counted: nobody moves them.
static void add_nodes(const struct coordinator *c, const struct slots *s, char **text)
{
	head(text, "nodes", "gauge", "Nodes of a pool in a state of the roll-out.");
	for (size_t p = 0; p < c->policy.pool_count; p++)
		for (enum phase phase = 0; phase < PHASE_COUNT; phase++) {
			unsigned count = 0;
			for (size_t i = 0; i < c->fleet.count; i++)
				count += s->seats[i].pool == (int)p && c->fleet.members[i].record.phase == phase;
			str_add(text, "kmodsmith_nodes{pool=\"%s\",state=\"%s\"} %u\n", c->policy.pools[p].name,
				phase_info(phase)->name, count);
		}
}

static void add_rollouts(const struct coordinator *c, const struct slots *s, char **text)
{
	head(text, "rollout_info", "gauge", "What a pool goes to, and the wave that is open.");
	for (size_t p = 0; p < c->policy.pool_count; p++) {
		const struct pool *pool = &c->policy.pools[p];
		char aim[AIM_TEXT];
		aim_text(&s->rollouts[p].target, aim);
		str_add(text, "kmodsmith_rollout_info{pool=\"%s\",driver=\"%s\",target=\"%s\",wave=\"%s\"} 1\n",
			pool->name, pool->target.driver, aim, slots_wave_name(pool, s->rollouts[p].wave));
	}
	head(text, "rollout_halted", "gauge", "1: no node moves to the target, for that reason.");
	for (size_t p = 0; p < c->policy.pool_count; p++)
		str_add(text, "kmodsmith_rollout_halted{pool=\"%s\",reason=\"%s\"} %d\n", c->policy.pools[p].name,
			reason_info(s->rollouts[p].halt.code)->code, s->rollouts[p].is_halted);
}

static void add_slots(const struct coordinator *c, const struct slots *s, char **text)
{
	head(text, "slots", "gauge", "Nodes that are worked on, that wait for jobs, and the limit of the first.");
	for (size_t p = 0; p < c->policy.pool_count; p++) {
		const struct sum *sum = &s->sums[p];
		const struct {
			const char *kind;
			unsigned value;
		} rows[] = { { "used", sum->used }, { "waiting", sum->waiting }, { "limit", sum->parallel_limit } };
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
			str_add(text, "kmodsmith_slots{pool=\"%s\",kind=\"%s\"} %u\n", c->policy.pools[p].name,
				rows[i].kind, rows[i].value);
	}
	head(text, "nodes_unavailable", "gauge", "Nodes that are down, cordoned by anybody, or worked on.");
	for (size_t p = 0; p < c->policy.pool_count; p++)
		str_add(text, "kmodsmith_nodes_unavailable{pool=\"%s\"} %u\n", c->policy.pools[p].name,
			s->sums[p].unavailable);
}

static void add_counters(const struct coordinator *c, char **text)
{
	head(text, "evictions_total", "counter", "Evictions that were asked for, by what came of them.");
	str_add(text, "kmodsmith_evictions_total{result=\"evicted\"} %lu\n", c->drain.evicted);
	str_add(text, "kmodsmith_evictions_total{result=\"blocked\"} %lu\n", c->drain.blocked);
	str_add(text, "kmodsmith_evictions_total{result=\"other\"} %lu\n",
		c->drain.asked - c->drain.evicted - c->drain.blocked);
	head(text, "node_writes_total", "counter", "Patches of nodes.");
	str_add(text, "kmodsmith_node_writes_total %lu\n", c->writes);
	head(text, "conflicts_total", "counter", "Patches of nodes that came too late.");
	str_add(text, "kmodsmith_conflicts_total %lu\n", c->conflicts);
	head(text, "leader", "gauge", "1: this coordinator leads.");
	str_add(text, "kmodsmith_leader %d\n", c->leader.is_leading);
}

char *metrics_text(const struct coordinator *c, const struct slots *s)
{
	char *text = str_dup("");
	add_nodes(c, s, &text);
	add_rollouts(c, s, &text);
	add_slots(c, s, &text);
	add_counters(c, &text);
	return text;
}
