// SPDX-License-Identifier: Apache-2.0
// rollout status, why: what the coordinator of a cluster sees, and what it will do next.
#include "base/core/date.h"
#include "cluster/coordinator/agent_pod.h"
#include "cluster/kube/api.h"
#include "cluster/rollout/operator_requests.h"
#include "cmd/cluster/cluster.h"
#include "cmd/cluster/rollout.h"

#include <stdio.h>
#include <unistd.h>

// No blocker is recorded yet: list its pods, without an eviction.
static void check_node_pods(struct coordinator *c, const char *node)
{
	struct err why;
	size_t at = 0;
	while (at < c->node_cache.count && !str_eq(c->node_cache.entries[at].name, node))
		at++;
	const struct node_state *m = at < c->node_cache.count ? &c->node_cache.nodes[at] : NULL;
	const struct pool *pool = m ? policy_pool(&c->source.policy, m) : NULL;
	enum node_phase phase = m ? m->record.phase : PHASE_IDLE;
	bool is_drained = phase == PHASE_CORDONED || phase == PHASE_WAITING || phase == PHASE_EVICTING;
	if (pool && is_drained && !*m->record.reason.object &&
	    drain_check_pods(&c->drain, &c->node_cache, at, pool, false, kube_time(c->o.kube), &why) < 0)
		log_warn("cannot list the pods of %s: %s", node, why.text);
}

struct seen { // of the cluster, at one time
	struct kube *kube;
	struct coordinator c;
	struct slots slots;
	struct cluster cluster;
};

static void seen_done(struct seen *s)
{
	scheduler_slots_done(&s->slots);
	coordinator_done(&s->c);
	kube_free(s->kube);
}
#define auto_seen __attribute__((cleanup(seen_done)))

static int look(const struct cluster_values *v, struct seen *ret, struct err *err)
{
	if (cluster_look(v, &ret->kube, &ret->c, err) < 0)
		return -1;
	if (ret->c.blind.code) {
		*err = ret->c.blind;
		return err_wrap(err, "nothing is done");
	}
	return 0;
}

static void plan(struct seen *s)
{
	s->cluster = coordinator_cluster(&s->c);
	scheduler_plan(&s->cluster, &s->slots);
}

// Why no node is begun, whatever else is in the way, and since when and by whom, as far as that was noted; NULL = it
// is not paused. Caller frees.
static char *pause_text(const struct coordinator *c)
{
	time_t since;
	const char *note = policy_source_annotation(&c->source, gate_keys[GATE_PAUSE]);
	auto_str char *date = note ? str_ndup(note, strcspn(note, " ")) : NULL;
	if (c->source.pauses)
		return str_dup("by the policy itself (paused: true)");
	if (!note || str_eq(note, "false"))
		return NULL;
	return date_parse(date, &since) ? str_fmt("since %s", note) :
					  str_fmt("by the annotation %s=%s", gate_keys[GATE_PAUSE], note);
}

// Why nothing happens at all: nobody leads. NULL = somebody does. The Lease has the clock of who wrote it: a difference
// of a minute says nothing. Caller frees.
static char *leaderless_text(const struct coordinator *c)
{
	enum { CLOCKS_APART_S = 60, DATE_TEXT = 19 };
	time_t renewed;
	const json_t *spec = json_object_get(c->leader.lease.seen, "spec");
	const char *holder = json_string_value(json_object_get(spec, "holderIdentity"));
	const char *time = json_string_value(json_object_get(spec, "renewTime"));
	auto_str char *date = time && strlen(time) > DATE_TEXT ? str_fmt("%.*sZ", DATE_TEXT, time) : NULL;
	if (!c->leader.lease.seen)
		return str_fmt("there is no Lease " LEADER_LEASE " in the namespace %s", c->o.namespace);
	if (!holder || !*holder)
		return str_fmt("the Lease " LEADER_LEASE " was given back at %s", date ? date : "an unknown time");
	if (!date || !date_parse(date, &renewed) || kube_time(c->o.kube) <= renewed + LEADER_LEASE_S + CLOCKS_APART_S)
		return NULL;
	return str_fmt("%s has not renewed the Lease " LEADER_LEASE " since %s", holder, date);
}

// Of a node whose agent says nothing: what its pod waits for. NULL = it speaks, or that is not known. Caller frees.
static char *silent_agent_text(struct seen *s, const char *node)
{
	struct err why;
	char *text = NULL;
	size_t at = 0;
	while (at < s->cluster.count && !str_eq(s->cluster.nodes[at].name, node))
		at++;
	if (at == s->cluster.count)
		return NULL;
	struct view v = scheduler_view(&s->cluster, &s->slots, at);
	struct decision d;
	transition(&v, &d);
	enum reason_code code = d.rule ? d.next.reason.code : d.waits.code;
	if ((code == REASON_NO_REPORT || code == REASON_AGENT_SILENT) &&
	    agent_pod_text(s->kube, s->c.o.namespace, node, &text, &why) < 0)
		log_warn("cannot list the pods of the namespace %s: %s", s->c.o.namespace, why.text);
	return text;
}

static json_t *policy_json(const struct coordinator *c)
{
	const struct policy_source *p = &c->source;
	auto_str char *paused = pause_text(c), *leaderless = leaderless_text(c);
	return json_pack("{s:b, s:o, s:o, s:b, s:o, s:o, s:o}", "accepted", !p->refused.code, "refusal",
			 json_text(p->refused.code ? p->refused.text : NULL), "kind", json_text(policy_source_kind(p)),
			 "ignoresConfigMap", p->object && p->map, "undone", json_strv(&p->undone), "paused",
			 json_text(paused), "nobodyLeads", json_text(leaderless));
}

static void show_policy(const struct coordinator *c)
{
	const struct policy_source *p = &c->source;
	auto_str char *paused = pause_text(c), *leaderless = leaderless_text(c);
	if (leaderless)
		printf("nobody leads: %s\n  next: see the pods of the coordinator: `kubectl -n %s get pods`\n",
		       leaderless, c->o.namespace);
	if (paused)
		printf("paused %s: no further node is begun\n  next: %s\n", paused,
		       p->pauses ? "set paused to false in the policy" : "`kmodsmith rollout resume`");
	if (p->object && p->map)
		printf("policy: there is a " DRIVER_ROLLOUT_KIND ", and the ConfigMap " POLICY_NAME " is ignored\n");
	for (size_t i = 0; i < p->undone.count; i++)
		printf("policy: %s\n", p->undone.items[i]);
	if (p->refused.code)
		printf("policy: refused, the last good one stays in force: %s\n", p->refused.text);
}

static void show(const struct seen *s, const struct rollout_filter *filter, bool is_json)
{
	auto_json json_t *policy = policy_json(&s->c);
	if (!is_json)
		show_policy(&s->c);
	rollout_show_pools(&s->cluster, &s->slots, filter, policy, is_json);
}

struct status_values {
	struct cluster_values cluster;
	struct strv pools, states;
	char *until;
	bool is_watch;
	unsigned interval, timeout;
};

static const struct opt status_opts[] = {
	{ "watch", 'w', NULL, NULL, OPT_FLAG, offsetof(struct status_values, is_watch),
	  "go on showing it until all nodes are done; exit status 1 if it is halted, 75 at --timeout" },
	{ "until", 0, "done|idle", NULL, OPT_STR, offsetof(struct status_values, until),
	  "with --watch: what ends it; idle: no node is being drained or replaced, as before an uninstall; default "
	  "done" },
	{ "interval", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct status_values, interval),
	  "with --watch: how often the cluster is asked; default 10" },
	{ "timeout", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct status_values, timeout),
	  "with --watch: how long; default: for ever" },
	{ "pool", 0, "NAME,...", NULL, OPT_LIST, offsetof(struct status_values, pools), "only these pools" },
	{ "state", 0, "STATE,...", NULL, OPT_LIST, offsetof(struct status_values, states),
	  "only nodes in these states, such as failed,rolledback" },
	{ 0 },
};

static int check_status_values(const struct status_values *v, struct err *err)
{
	if (!v->is_watch && (v->interval || v->timeout || v->until))
		return err_set(err, E_USAGE, "%s requires --watch",
			       v->until    ? "--until" :
			       v->interval ? "--interval" :
					     "--timeout");
	for (size_t i = 0; i < v->states.count; i++) {
		auto_strv struct strv known = { 0 };
		for (int p = 0; p < PHASE_COUNT; p++)
			strv_add(&known, str_dup(node_phase_info((enum node_phase)p)->name));
		auto_str char *names = strv_join(&known, ", ");
		if (!strv_has(&known, v->states.items[i]))
			return err_set(err, E_USAGE, "--state: '%s' is none of %s", v->states.items[i], names);
	}
	return 0;
}

static int check_pools(const struct policy *policy, const struct strv *names, struct err *err)
{
	for (size_t i = 0; i < names->count; i++) {
		bool is_there = false;
		for (size_t p = 0; p < policy->pool_count; p++)
			is_there |= str_eq(policy->pools[p].name, names->items[i]);
		if (!is_there)
			return err_set(err, E_NOT_FOUND, "--pool: the policy has no pool '%s'", names->items[i]);
	}
	return 0;
}

// No node of these pools is on the way from a cordon to an uncordon, or has ours.
static bool is_idle(const struct seen *s, const struct rollout_filter *filter)
{
	for (size_t i = 0; i < s->cluster.count; i++) {
		const struct record *record = &s->cluster.nodes[i].record;
		int pool = s->slots.node_plans[i].pool;
		if (rollout_filter_has_pool(filter, pool < 0 ? NULL : s->cluster.policy->pools[pool].name) &&
		    (node_phase_info(record->phase)->is_disruptive || record->receipt.is_there))
			return false;
	}
	return true;
}

// 1 = every node of these pools is done, 0 = not yet, negative = it does not get there without somebody.
static int is_complete(const struct seen *s, const struct rollout_filter *filter, struct err *err)
{
	const struct policy *policy = s->cluster.policy;
	bool is = true;
	if (s->c.source.refused.code) {
		*err = s->c.source.refused;
		return err_wrap(err, "the policy is refused, and the last good one stays in force");
	}
	for (size_t i = 0; i < policy->pool_count; i++) {
		const struct sum *sum = &s->slots.sums[i];
		const struct rollout *r = &s->slots.rollouts[i];
		if (!rollout_filter_has_pool(filter, policy->pools[i].name))
			continue;
		if (sum->done == sum->total)
			continue;
		if (r->is_halted || r->is_aborted)
			return err_set(err, E_ROLLOUT_HALTED, "pool %s is %s: %u of %u nodes are done, %u failed: %s",
				       policy->pools[i].name, r->is_halted ? "halted" : "aborted", sum->done,
				       sum->total, sum->failed,
				       node_reason_info(r->is_halted ? r->halt.code : REASON_ABORTED)->text);
		if (sum->done + sum->failed >= sum->total && !sum->used && !sum->waiting)
			return err_set(err, E_ROLLOUT_HALTED,
				       "pool %s has no node left to begin: %u of %u nodes are done, %u failed",
				       policy->pools[i].name, sum->done, sum->total, sum->failed);
		is = false;
	}
	return is;
}

// A screen of its own for each look on a terminal; elsewhere each pool's line when it has changed.
static void show_change(const struct seen *s, const struct rollout_filter *filter, struct strv *before)
{
	auto_str char *now = date_text(time(NULL));
	auto_strv struct strv lines = { 0 };
	const char *terminal = getenv("TERM");
	bool is_screen = isatty(STDOUT_FILENO) && terminal && !str_eq(terminal, "dumb");
	if (is_screen) {
		printf("\033[H\033[J%s\n", now);
		show(s, filter, false);
	}
	for (size_t i = 0; i < s->cluster.policy->pool_count; i++) {
		char *line = rollout_pool_line(&s->cluster, &s->slots, i);
		bool is_told =
			strv_has(before, line) || !rollout_filter_has_pool(filter, s->cluster.policy->pools[i].name);
		if (!is_told && !is_screen)
			printf("%s %s\n", now, line);
		strv_add(&lines, line);
	}
	fflush(stdout);
	strv_done(before);
	*before = lines;
	lines = (struct strv){ 0 };
}

// One look: 1 = complete, 0 = not yet. is_last: if it is, that is the end.
static int watch_once(const struct status_values *v, const struct rollout_filter *filter, bool is_last,
		      struct strv *before, struct err *err)
{
	auto_seen struct seen s = { .slots = SLOTS_NONE };
	if (look(&v->cluster, &s, err) < 0)
		return -1;
	if (!policy_source_object(&s.c.source, NULL))
		return err_set(err, E_NOT_FOUND, "there is no policy in the namespace %s", kube_namespace(s.kube));
	plan(&s);
	if (check_pools(s.cluster.policy, &v->pools, err) < 0)
		return -1;
	int r = v->until && str_eq(v->until, "idle") ? is_idle(&s, filter) : is_complete(&s, filter, err);
	if (!v->cluster.common.is_json)
		show_change(&s, filter, before);
	else if (r > 0 && is_last) // an error is a document of its own
		show(&s, filter, true);
	return r;
}

static int watch_rollout(const struct status_values *v, const struct rollout_filter *filter, struct err *err)
{
	enum { INTERVAL_S = 10, SECOND_MS = 1000 };
	auto_strv struct strv before = { 0 };
	long pause = (long)(v->interval ? v->interval : INTERVAL_S) * SECOND_MS;
	long end = clock_ms() + (long)v->timeout * SECOND_MS, left;
	// A coordinator that has not seen a pause yet may begin one more node: it is idle once that was seen twice.
	int enough = v->until && str_eq(v->until, "idle") ? 2 : 1, times = 0;
	for (bool has_seen = false;; has_seen = true) {
		int r = watch_once(v, filter, times + 1 == enough, &before, err);
		times = r > 0 ? times + 1 : 0;
		if (times == enough)
			return 0;
		if (r < 0 && (!has_seen || !err_info(err->code)->retryable))
			return -1;
		if (r < 0) // an API server that restarts is no end of a rollout
			log_warn("%s; asking again", err->text);
		left = end - clock_ms();
		if (v->timeout && left <= 0)
			return err_set(err, E_ROLLOUT_PENDING, "not all nodes are %s after %u s",
				       v->until ? v->until : "done", v->timeout);
		pause = v->timeout && left < pause ? left : pause;
		nanosleep(&(struct timespec){ .tv_sec = pause / SECOND_MS, .tv_nsec = pause % SECOND_MS * 1000000 },
			  NULL);
	}
}

int rollout_wait_idle(const struct cluster_values *v, unsigned timeout_s, struct err *err)
{
	char until[] = "idle";
	const struct status_values values = { .cluster = *v, .until = until, .is_watch = true, .timeout = timeout_s };
	return watch_rollout(&values, &(struct rollout_filter){ 0 }, err);
}

static int run_rollout_status(void *values, char **args, size_t count, struct err *err)
{
	const struct status_values *v = values;
	const struct rollout_filter filter = { .pools = &v->pools, .states = &v->states };
	auto_seen struct seen s = { .slots = SLOTS_NONE };
	(void)args, (void)count;
	if (check_status_values(v, err) < 0)
		return -1;
	if (v->is_watch)
		return watch_rollout(v, &filter, err);
	if (look(&v->cluster, &s, err) < 0)
		return -1;
	if (!policy_source_object(&s.c.source, NULL))
		cluster_warn_no_policy(s.kube);
	plan(&s);
	if (check_pools(s.cluster.policy, &v->pools, err) < 0)
		return -1;
	show(&s, &filter, v->cluster.common.is_json);
	return 0;
}

static int run_rollout_why(void *values, char **args, size_t count, struct err *err)
{
	const struct cluster_values *v = values;
	auto_seen struct seen s = { .slots = SLOTS_NONE };
	(void)count;
	if (look(v, &s, err) < 0)
		return -1;
	if (!policy_source_object(&s.c.source, NULL))
		cluster_warn_no_policy(s.kube);
	if (!v->common.is_json)
		show_policy(&s.c);
	check_node_pods(&s.c, args[0]);
	plan(&s);
	auto_json json_t *policy = policy_json(&s.c);
	auto_str char *silent = silent_agent_text(&s, args[0]);
	return rollout_show_why(&s.cluster, &s.slots, args[0], silent, policy, v->common.is_json, err);
}

const struct cmd cmd_rollout_status = {
	.name = "rollout status",
	.help = "show the rollout: each pool, and each node with its state, its reason and the next step",
	.about = "Reads the policy, the recorded status, the ledger of slots and all nodes from the cluster, and\n"
		 "decides as the coordinator does. Pods are not considered. Nothing is changed.\n\n"
		 "With --watch it goes on until all nodes are done, for people (a screen that is drawn anew) and for\n"
		 "pipelines (a line when a pool changes; with --json one document at the end). Its exit status is 0\n"
		 "when all nodes are done; a rollout that is halted or aborted is E_ROLLOUT_HALTED, one that is not\n"
		 "done at --timeout E_ROLLOUT_PENDING, and a policy that the coordinator refuses its error.\n\n"
		 "  kmodsmith rollout status --kubeconfig admin.conf --namespace kmodsmith\n"
		 "  kmodsmith rollout status --state failed,rolledback\n"
		 "  kmodsmith rollout status --watch --pool training --timeout 7200\n",
	.opts = { status_opts, cluster_opts, common_opts },
	.values_size = sizeof(struct status_values),
	.run = run_rollout_status,
	.offer = cluster_offer_pools,
};

const struct cmd cmd_rollout_why = {
	.name = "rollout why",
	.args = "NODE",
	.args_min = 1,
	.args_max = 1,
	.help = "explain the state of a node: every rule of its state, and every condition for a slot",
	.about = "Shows the rules that the coordinator evaluates, and since when the node is in its state, what\n"
		 "happens at the deadline, how many drains there were, and why the last one ended. If a node is\n"
		 "being drained and no blocker is recorded yet, its pods are listed. If its agent says nothing, the\n"
		 "reason names the agent's pod and what that waits for.\n\n"
		 "  kmodsmith rollout why gpu-17 --kubeconfig admin.conf --namespace kmodsmith\n",
	.opts = { cluster_opts, common_opts },
	.values_size = sizeof(struct cluster_values),
	.run = run_rollout_why,
	.offer = cluster_offer_nodes,
};
