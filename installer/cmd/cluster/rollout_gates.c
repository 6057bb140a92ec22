// SPDX-License-Identifier: Apache-2.0
// rollout pause, resume, approve, abort, undo: requests of users as annotations of the policy (operator_requests.h),
// never as an edit of it. After a conflict it is read again. rollout retry: of nodes, and a halted pool's policy.
#include "base/core/date.h"
#include "cluster/kube/api.h"
#include "cluster/node_state/annotations.h"
#include "cluster/rollout/operator_requests.h"
#include "cluster/rollout/undo.h"
#include "cmd/cluster/rollout.h"

#include <stdio.h>
#include <sys/utsname.h>

struct operator_request {
	const struct cluster_values *values;
	const char *pool, *wave;
	char *what;     // for the user
	json_t *target; // of an undo; NULL = none
	bool is_quiet;  // another document follows
	int (*say)(struct operator_request *s, const struct coordinator *c, json_t *patch, struct err *err);
};

static const struct pool *find_pool(const struct coordinator *c, const char *name, size_t *ret_at, struct err *err)
{
	for (size_t i = 0; i < c->source.policy.pool_count; i++) {
		*ret_at = i;
		if (str_eq(c->source.policy.pools[i].name, name))
			return &c->source.policy.pools[i];
	}
	err_set(err, E_NOT_FOUND, "the policy has no pool '%s'", name);
	return NULL;
}

static void set_annotation(json_t *patch, const char *key, const char *value) // NULL = it is removed
{
	json_object_set_new(json_object_get(json_object_get(patch, "metadata"), "annotations"), key, json_text(value));
}

// Replaces the pool's entry in the list; word NULL: removes it.
static void set_gate_word(const struct coordinator *c, json_t *patch, enum gate gate, const char *pool,
			  const char *word)
{
	auto_strv struct strv words = { 0 };
	size_t len, pool_len = strlen(pool);
	for (const char *at = policy_source_annotation(&c->source, gate_keys[gate]), *part;
	     at && (part = node_word_cut(&at, ',', &len));) {
		bool is_its = len > pool_len && memcmp(part, pool, pool_len) == 0 && strchr(":@", part[pool_len]);
		if (!is_its && len)
			strv_add(&words, str_ndup(part, len));
	}
	if (word)
		strv_add(&words, str_dup(word));
	auto_str char *list = words.count ? strv_join(&words, ",") : NULL;
	set_annotation(patch, gate_keys[gate], list);
}

// "TIME by USER@HOST", for people; in a pod there is no user. A pause that is there already stays somebody else's.
static int request_pause(struct operator_request *s, const struct coordinator *c, json_t *patch, struct err *err)
{
	struct utsname machine = { 0 };
	const char *user = getenv("USER"), *there = policy_source_annotation(&c->source, gate_keys[GATE_PAUSE]);
	auto_str char *now = date_text((time_t)kube_time(c->o.kube));
	(void)err;
	uname(&machine);
	auto_str char *value = str_fmt("%s by %s%s%s", now, user ? user : "", user ? "@" : "", machine.nodename);
	if (!there || str_eq(there, "false"))
		set_annotation(patch, gate_keys[GATE_PAUSE], value);
	s->what = str_dup("paused: no new node is begun; nodes in progress continue");
	return 0;
}

static int request_resume(struct operator_request *s, const struct coordinator *c, json_t *patch, struct err *err)
{
	auto_str char *now = date_text((time_t)kube_time(c->o.kube)), *word = NULL;
	size_t at;
	set_annotation(patch, gate_keys[GATE_PAUSE], NULL);
	if (s->pool) {
		if (!find_pool(c, s->pool, &at, err))
			return -1;
		word = str_fmt("%s@%s", s->pool, now);
		set_gate_word(c, patch, GATE_RESUME, s->pool, word);
		set_gate_word(c, patch, GATE_ABORT, s->pool, NULL);
		auto_str char *undo = undo_note(policy_source_annotation(&c->source, UNDO_NOTE), s->pool, NULL, NULL);
		set_annotation(patch, UNDO_NOTE, undo);
	}
	// The document itself is not edited: a GitOps controller would revert that.
	const char *still = c->source.pauses ? "; the policy itself is still paused: set paused to false there" : "";
	s->what = s->pool          ? str_fmt("pool %s: resumed; earlier failures do not count%s", s->pool, still) :
		  c->source.pauses ? str_fmt("the pause annotation is removed%s", still) :
				     str_dup("no longer paused");
	return 0;
}

static int request_approve(struct operator_request *s, const struct coordinator *c, json_t *patch, struct err *err)
{
	char target_hash[TARGET_HASH_TEXT];
	size_t at;
	const struct pool *pool = find_pool(c, s->pool, &at, err);
	if (!pool)
		return -1;
	unsigned w = 0;
	while (w <= pool->wave_count && !str_eq(policy_wave_name(pool, w), s->wave))
		w++;
	if (w > pool->wave_count)
		return err_set(err, E_NOT_FOUND, "pool '%s' has no wave '%s'", s->pool, s->wave);
	target_hash_text(&pool->target.target_hash, target_hash);
	auto_str char *word = str_fmt("%s:%s@%s", s->pool, s->wave, target_hash);
	set_gate_word(c, patch, GATE_APPROVE, s->pool, word);
	s->what = str_fmt("pool %s: wave %s and those before it are approved for driver %s", s->pool, s->wave,
			  pool->target.driver);
	return 0;
}

static int request_abort(struct operator_request *s, const struct coordinator *c, json_t *patch, struct err *err)
{
	char target_hash[TARGET_HASH_TEXT];
	size_t at;
	const struct pool *pool = find_pool(c, s->pool, &at, err);
	if (!pool)
		return -1;
	target_hash_text(&pool->target.target_hash, target_hash);
	auto_str char *word = str_fmt("%s@%s", s->pool, target_hash);
	set_gate_word(c, patch, GATE_ABORT, s->pool, word);
	s->what = str_fmt("pool %s: driver %s is aborted; drains are cancelled, replacements in progress finish",
			  s->pool, pool->target.driver);
	return 0;
}

static int request_undo(struct operator_request *s, const struct coordinator *c, json_t *patch, struct err *err)
{
	size_t at;
	const json_t *recorded = json_object_get(c->status_doc, "pools"), *stable = NULL;
	const struct pool *pool = find_pool(c, s->pool, &at, err);
	if (!pool)
		return -1;
	for (size_t i = 0; i < json_array_size(recorded); i++) {
		const json_t *its = json_array_get(recorded, i);
		if (str_eq(json_string_value(json_object_get(its, "name")), s->pool)) {
			stable = json_object_get(json_object_get(its, "stable"), "as");
			break;
		}
	}
	if (!stable || target_hash_eq(&c->rollouts[at].stable, &pool->target.target_hash))
		return err_set(err, E_NOT_FOUND,
			       "pool '%s' has had no driver on all its nodes %s that it could go back to", s->pool,
			       stable ? "before this one" : "yet");
	auto_str char *note =
		undo_note(policy_source_annotation(&c->source, UNDO_NOTE), s->pool, &pool->target.target_hash, stable);
	set_annotation(patch, UNDO_NOTE, note);
	json_decref(s->target);
	s->target = json_deep_copy(stable);
	s->what = str_fmt(
		"pool %s: the target is driver %s again, until the policy changes; commit this target to the policy:",
		s->pool, json_string_value(json_object_get(stable, "driver")));
	return 0;
}

// 1 = written, 0 = another process wrote in between.
static int write_request_once(struct operator_request *s, struct err *err)
{
	auto_kube struct kube *kube = NULL;
	auto_coordinator struct coordinator c = { 0 };
	if (cluster_look(s->values, &kube, &c, err) < 0)
		return -1;
	auto_str char *path = NULL;
	const json_t *metadata = json_object_get(policy_source_object(&c.source, &path), "metadata");
	if (!metadata)
		return err_set(err, E_NOT_FOUND,
			       "there is neither a " DRIVER_ROLLOUT_KIND " nor a ConfigMap %s in namespace %s",
			       POLICY_NAME, c.o.namespace);
	const char *version = json_string_value(json_object_get(metadata, "resourceVersion"));
	auto_json json_t *patch = json_pack("{s:{s:s, s:{}}}", "metadata", "resourceVersion", version, "annotations");
	free(TAKE(s->what));
	return s->say(s, &c, patch, err) < 0 ? -1 : api_change(kube, API_MERGE, path, patch, NULL, err);
}

static int write_request(struct operator_request *s, struct err *err)
{
	enum { TRIES = 5 };
	int r = 0;
	for (int i = 0; i < TRIES && r == 0; i++)
		r = write_request_once(s, err);
	if (r == 0)
		r = err_set(err, E_CONFLICT, "another process keeps writing to the policy %s", POLICY_NAME);
	if (r > 0 && s->is_quiet) {
		log_info("%s", s->what);
	} else if (r > 0 && s->values->common.is_json) {
		auto_json json_t *json = json_pack("{s:s, s:O*}", "said", s->what, "target", s->target);
		show_json(json);
	} else if (r > 0) {
		auto_str char *target = s->target ? json_dumps(s->target, JSON_SORT_KEYS) : NULL; // YAML, too
		printf("%s\n", s->what);
		if (target)
			printf("target: %s\n", target);
	}
	json_decref(s->target);
	free(TAKE(s->what));
	return r < 0 ? -1 : 0;
}

struct pause_values {
	struct cluster_values cluster;
	bool is_waiting, is_missing_ok;
	unsigned timeout;
};

static const struct opt pause_opts[] = {
	{ "wait", 0, NULL, NULL, OPT_FLAG, offsetof(struct pause_values, is_waiting),
	  "then wait until no node is being drained or replaced, as before an uninstall" },
	{ "timeout", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct pause_values, timeout),
	  "with --wait: how long; exit status 75 after it; default: for ever" },
	{ "ignore-not-found", 0, NULL, NULL, OPT_FLAG, offsetof(struct pause_values, is_missing_ok),
	  "without a policy there is nothing to pause, and no error" },
	{ 0 },
};

static int run_pause(void *values, char **args, size_t count, struct err *err)
{
	const struct pause_values *v = values;
	(void)args, (void)count;
	if (v->timeout && !v->is_waiting)
		return err_set(err, E_USAGE, "--timeout requires --wait");
	struct operator_request request = { .values = &v->cluster,
					    .say = request_pause,
					    .is_quiet = v->is_waiting && v->cluster.common.is_json };
	if (write_request(&request, err) < 0) {
		if (err->code != E_NOT_FOUND || !v->is_missing_ok)
			return -1;
		log_info("%s: nothing is paused", err->text);
		return 0;
	}
	return v->is_waiting ? rollout_wait_idle(&v->cluster, v->timeout, err) : 0;
}
static int run_resume(void *values, char **args, size_t count, struct err *err)
{
	return write_request(
		&(struct operator_request){ .values = values, .pool = count ? args[0] : NULL, .say = request_resume },
		err);
}
static int run_approve(void *values, char **args, size_t count, struct err *err)
{
	(void)count;
	return write_request(
		&(struct operator_request){
			.values = values, .pool = args[0], .wave = args[1], .say = request_approve },
		err);
}
static int run_abort(void *values, char **args, size_t count, struct err *err)
{
	(void)count;
	return write_request(&(struct operator_request){ .values = values, .pool = args[0], .say = request_abort },
			     err);
}
static int run_undo(void *values, char **args, size_t count, struct err *err)
{
	(void)count;
	return write_request(&(struct operator_request){ .values = values, .pool = args[0], .say = request_undo }, err);
}

// Nodes that go on only if somebody says so.
static bool needs_retry(const struct node_state *m, const struct node_plan *plan)
{
	enum node_phase phase = m->record.phase;
	return phase == PHASE_FAILED || phase == PHASE_HELD || phase == PHASE_ROLLEDBACK || phase == PHASE_UNKNOWN ||
	       plan->refused == REASON_FAILED_TARGET || plan->refused == REASON_ATTEMPTS_SPENT;
}

// What the name of a pool or of a node means; a pool's comes first.
struct retry {
	const struct cluster *cluster;
	const struct slots *slots;
	const char *name;
	int pool; // index; -1 = the node has none
	bool is_node;
};

static bool is_meant(const struct retry *r, size_t at)
{
	const struct node_plan *plan = &r->slots->node_plans[at];
	return r->is_node ? str_eq(r->cluster->nodes[at].name, r->name) :
			    plan->pool == r->pool && needs_retry(&r->cluster->nodes[at], plan);
}

static int find_retry(struct retry *r, struct err *err)
{
	const struct policy *policy = r->cluster->policy;
	for (r->pool = 0; (size_t)r->pool < policy->pool_count; r->pool++) {
		if (str_eq(policy->pools[r->pool].name, r->name))
			return 0;
	}
	r->is_node = true;
	for (size_t at = 0; at < r->cluster->count; at++) {
		const struct node_state *m = &r->cluster->nodes[at];
		if (!is_meant(r, at))
			continue;
		r->pool = r->slots->node_plans[at].pool;
		if (policy->mode == MODE_SELF || needs_retry(m, &r->slots->node_plans[at])) // its own agent knows
			return 0;
		return err_set(err, E_NOT_FOUND, "node '%s' is %s: there is nothing to try again", m->name,
			       node_phase_info(m->record.phase)->name);
	}
	return err_set(err, E_NOT_FOUND, "'%s' is neither a pool of the policy nor a node", r->name);
}

// 1 = annotated, 0 = the node is gone. The nonce is the time.
static int annotate_retry(struct kube *kube, const struct node_state *m, const char *nonce, struct err *err)
{
	auto_str char *path = api_node(m->name);
	auto_json json_t *patch =
		json_pack("{s:{s:s, s:{s:s}}}", "metadata", "uid", m->uid, "annotations", KEY_PREFIX "retry", nonce);
	return api_change(kube, API_MERGE, path, patch, NULL, err);
}

static void show_retry(const struct retry *r, const struct strv *nodes, const char *resumed, bool is_json)
{
	if (is_json) {
		auto_json json_t *json =
			json_pack("{s:o, s:o}", "retried", json_strv(nodes), "resumed", json_text(resumed));
		show_json(json);
		return;
	}
	for (size_t i = 0; i < nodes->count; i++)
		printf("node %s: one more attempt\n", nodes->items[i]);
	if (!nodes->count)
		printf("%s: no node waits for a retry\n", r->name);
	if (r->cluster->policy->is_paused)
		printf("the policy is paused, and no node is begun\n  next: `kmodsmith rollout resume`\n");
}

static int run_retry(void *values, char **args, size_t count, struct err *err)
{
	const struct cluster_values *v = values;
	auto_kube struct kube *kube = NULL;
	auto_coordinator struct coordinator c = { 0 };
	auto_slots struct slots slots = SLOTS_NONE;
	auto_strv struct strv nodes = { 0 };
	(void)count;
	if (cluster_look(v, &kube, &c, err) < 0)
		return -1;
	const struct cluster cluster = coordinator_cluster(&c);
	scheduler_plan(&cluster, &slots);
	struct retry retry = { .cluster = &cluster, .slots = &slots, .name = args[0] };
	if (find_retry(&retry, err) < 0)
		return -1;
	auto_str char *nonce = date_text((time_t)kube_time(kube));
	for (size_t i = 0; i < cluster.count; i++) {
		int r = is_meant(&retry, i) ? annotate_retry(kube, &cluster.nodes[i], nonce, err) : 0;
		if (r < 0)
			return -1;
		if (r > 0)
			strv_add(&nodes, str_dup(cluster.nodes[i].name));
	}
	bool is_halted = retry.pool >= 0 && cluster.rollouts[retry.pool].is_halted;
	struct operator_request resume = { .values = v, .say = request_resume, .is_quiet = true };
	resume.pool = is_halted ? cluster.policy->pools[retry.pool].name : NULL;
	if (is_halted && write_request(&resume, err) < 0)
		return -1;
	show_retry(&retry, &nodes, resume.pool, v->common.is_json);
	return 0;
}

static void offer_retry(const void *values, const char *option, size_t argument, struct strv *ret)
{
	cluster_offer_nodes(values, option, argument, ret);
	if (argument == 0)
		cluster_offer_pools(values, option, argument, ret);
}

#define GATE(verb, args_, least, most, offer_, help_, about_)                                 \
	const struct cmd cmd_rollout_##verb = { .name = "rollout " #verb,                     \
						.args = (args_),                              \
						.args_min = (least),                          \
						.args_max = (most),                           \
						.help = (help_),                              \
						.about = (about_),                            \
						.opts = { cluster_opts, common_opts },        \
						.values_size = sizeof(struct cluster_values), \
						.run = run_##verb,                            \
						.offer = (offer_) }
const struct cmd cmd_rollout_pause = {
	.name = "rollout pause",
	.help = "begin no further nodes, in all pools",
	.about = "Nodes in progress are finished. `kmodsmith rollout resume` ends the pause. The chart does this,\n"
		 "with --wait, before it is uninstalled, so that no node stays cordoned.\n\n"
		 "  kmodsmith rollout pause --kubeconfig admin.conf --namespace kmodsmith\n"
		 "  kmodsmith rollout pause --wait --timeout 3600\n",
	.opts = { pause_opts, cluster_opts, common_opts },
	.values_size = sizeof(struct pause_values),
	.run = run_pause,
};
GATE(resume, "[POOL]", 0, 1, cluster_offer_pools, "continue after a pause, a halt or an abort",
     "Without a pool: ends the pause. With one: also lifts its halt and its abort, and earlier failures do not count "
     "any more.\n\n"
     "  kmodsmith rollout resume gpus --kubeconfig admin.conf --namespace kmodsmith\n");
GATE(retry, "POOL|NODE", 1, 1, offer_retry, "try again where a node failed, is held or went back",
     "Each of these nodes gets one more attempt at the target, and its drains are counted from zero (the annotation "
     "kmodsmith.io/retry).\nIf their pool is halted, it is resumed, too.\n\n"
     "  kmodsmith rollout retry gpu-7 --kubeconfig admin.conf --namespace kmodsmith\n"
     "  kubectl kmodsmith retry gpus                    # all such nodes of a pool\n");
GATE(approve, "POOL WAVE", 2, 2, cluster_offer_pools, "approve a wave that waits for it",
     "A wave waits if the policy says so (approval: manual), and if the one before it tested too few nodes "
     "(wave-untested).\nThe last one is called rest. The approval is for the current target only, and covers earlier "
     "waves, too.\n\n"
     "  kmodsmith rollout approve gpus main --kubeconfig admin.conf --namespace kmodsmith\n");
GATE(abort, "POOL", 1, 1, cluster_offer_pools,
     "abort the target: drains are cancelled, replacements in progress finish",
     "For the current target of the policy. Nodes that have it keep it; see kmodsmith-rollout-undo(8).\n\n"
     "  kmodsmith rollout abort gpus --kubeconfig admin.conf --namespace kmodsmith\n");
GATE(undo, "POOL", 1, 1, cluster_offer_pools, "make the last driver that all nodes had the target again",
     "Nodes that moved go back the same way, with slots, drain and validation; drains for the undone target are "
     "cancelled.\nThe policy itself is not edited, since a GitOps controller would revert that: an annotation on its "
     "object names the\nundone target, and is in force until the policy has another target for the pool. Commit the "
     "target that\nis printed (JSON, which is YAML, too).\n`kmodsmith rollout resume POOL` ends the undo.\n\n"
     "  kmodsmith rollout undo gpus --kubeconfig admin.conf --namespace kmodsmith\n");
