// SPDX-License-Identifier: Apache-2.0
// The invariants of a rollout, checked on every request before it is applied (upgrade-design 4.4). They know the API
// and the design, but nothing of the code that they check.
//
// I1 limits, I2 cordons, I3 holders, I4 proofs, I5 deadlines, I6 evictions, I7 attempts, I8 halts, I9 owners, agents,
// I13 pods, I14 answers; seq: sequence numbers; fence: former leaders. Three are about a whole run, so tests check them
// at its end:
// I10 (writes a node) sim_rollout_test all_is_well, sim_farm_agent_test undisturbed; I11 (nothing changes, nothing is
// written) sim_rollout_test all_is_well; I12 (all come to rest) sim_seeds_test expect_node, and every kill.
#include "tests/sim/nvidia.h"

#include <stdio.h>

static const char *note(const json_t *node, const char *key)
{
	const char *value = json_string_value(json_object_get(sim_at(node, "metadata annotations"), key));
	return value ? value : "";
}
static bool is_node_cordoned(const json_t *node)
{
	return json_is_true(sim_at(node, "spec unschedulable"));
}
static const char *state(const json_t *node)
{
	const char *value = json_string_value(json_object_get(sim_at(node, "metadata labels"), "kmodsmith.io/state"));
	return value ? value : "";
}
static void report_broken_law(struct farm *f, const char *law, const struct sim_request *r, const char *what)
{
	strv_add(f->laws, str_fmt("%s at %ld ms: %s %s: %s", law, sim_now_ms(), r->client, r->path, what));
}
static bool is_coordinator_request(const struct sim_request *r)
{
	return str_starts(r->client, "boss");
}
static bool is_word_of(const char *text, const char *check_annotation_words)
{
	auto_str char *needle = str_fmt(" %s ", text);
	return *text && strstr(check_annotation_words, needle) != NULL;
}
static bool is_phase_disruptive(const char *name)
{
	return is_word_of(name, " cordoned waiting evicting replacing validating restoring releasing ");
}

static unsigned pool_limit(const struct farm *f, const char *key, unsigned or_else)
{
	const char *text =
		sim_text(sim_get(f->sim, "/api/v1/namespaces/kmodsmith/configmaps/" POLICY_NAME), "data " POLICY_KEY);
	auto_json json_t *policy = text ? json_loads(text, 0, NULL) : NULL;
	const json_t *pool = json_array_get(json_object_get(policy, "pools"), 0);
	const json_t *value = json_object_get(pool, key);
	return json_is_integer(value) ? (unsigned)json_integer_value(value) : or_else;
}

static bool waits_for_jobs(const struct farm *f)
{
	const char *text =
		sim_text(sim_get(f->sim, "/api/v1/namespaces/kmodsmith/configmaps/" POLICY_NAME), "data " POLICY_KEY);
	return text && strstr(text, "\"waitFor\"");
}

// I1: no more nodes at once than the policy allows.
static void check_limits(struct farm *f, const struct sim_request *r)
{
	unsigned busy = 0;
	if (is_phase_disruptive(state(r->before)) || !is_phase_disruptive(state(r->after)))
		return;
	for (unsigned i = 0; i < f->count; i++)
		busy += is_phase_disruptive(farm_state(f, i));
	unsigned waiting = waits_for_jobs(f) ? pool_limit(f, "maxWaiting", 1) : 0;
	if (busy + 1 > pool_limit(f, "maxParallel", 1) + waiting && !*note(r->before, "kmodsmith.io/cordon"))
		report_broken_law(f, "I1", r, "more nodes than maxParallel");
}

// I2: only a cordon of ours is removed, together with its receipt.
static void check_cordons(struct farm *f, const struct sim_request *r)
{
	const char *receipt = note(r->before, "kmodsmith.io/cordon");
	if (is_node_cordoned(r->before) && !is_node_cordoned(r->after) &&
	    (!*receipt || strstr(receipt, "\"prior\":true")))
		report_broken_law(f, "I2", r, "uncordons what it did not cordon");
	if (!is_node_cordoned(r->before) && is_node_cordoned(r->after) && !*note(r->after, "kmodsmith.io/cordon"))
		report_broken_law(f, "I2", r, "cordons without a receipt");
}

// I3: a driver in use is not replaced.
static void check_holders(struct farm *f, const struct sim_request *r)
{
	const char *go = note(r->after, "kmodsmith.io/go");
	bool is_new = !str_eq(go, note(r->before, "kmodsmith.io/go"));
	if (is_new && strstr(go, ":replace:") && !str_starts(note(r->before, "kmodsmith.io/agent.holders"), "0"))
		report_broken_law(f, "I3", r, "replaces under a holder");
}

static bool uses_gpu(const json_t *pod)
{
	const char *phase = sim_text(pod, "status phase"),
		   *kind = sim_text(json_array_get(sim_at(pod, "metadata ownerReferences"), 0), "kind");
	bool is_over = str_eq(phase, "Succeeded") || str_eq(phase, "Failed");
	const json_t *check_limits = sim_at(json_array_get(sim_at(pod, "spec containers"), 0), "resources limits");
	return !is_over && !str_eq(kind, "DaemonSet") && !str_eq(kind, "Node") &&
	       json_object_get(check_limits, "nvidia.com/gpu");
}

// I13: if the policy evicts pods that request a GPU, nothing is replaced before they are gone.
static void check_pods(struct farm *f, const struct sim_request *r)
{
	const char *go = note(r->after, "kmodsmith.io/go");
	const char *policy =
		sim_text(sim_get(f->sim, "/api/v1/namespaces/kmodsmith/configmaps/" POLICY_NAME), "data " POLICY_KEY);
	bool is_new = !str_eq(go, note(r->before, "kmodsmith.io/go"));
	if (!is_new || !strstr(go, ":replace:") || !policy || strstr(policy, "\"evict\""))
		return;
	auto_str char *path =
		str_fmt("/api/v1/pods?fieldSelector=spec.nodeName%%3D%s", sim_text(r->after, "metadata name"));
	auto_json json_t *list = sim_ask(f->sim, "GET", path, NULL);
	const json_t *items = json_object_get(list, "items");
	for (size_t i = 0; i < json_array_size(items); i++)
		if (uses_gpu(json_array_get(items, i)))
			report_broken_law(f, "I13", r, sim_text(json_array_get(items, i), "metadata name"));
}

// I4: once the driver was touched, a node returns to service only after the loaded driver was validated. A driver of
// NVIDIA's operator, on a node that it manages, is validated by the operator.
static void check_proofs(struct farm *f, const struct sim_request *r)
{
	char loaded[TARGET_HASH_TEXT] = "";
	if (!is_node_cordoned(r->before) || is_node_cordoned(r->after) ||
	    !strstr(note(r->before, "kmodsmith.io/cordon"), "\"touched\":true"))
		return;
	if (str_starts(note(r->before, "kmodsmith.io/agent.loaded"), "foreign ") &&
	    str_eq(note(r->before, NVIDIA_ENABLED), "true"))
		return;
	snprintf(loaded, sizeof(loaded), "%s", note(r->before, "kmodsmith.io/agent.loaded"));
	auto_str char *ok = str_fmt("%s:ok", loaded);
	if (!str_eq(note(r->before, "kmodsmith.io/agent.health"), ok))
		report_broken_law(f, "I4", r, "releases without a proof");
}

// I5: every state has a deadline.
static void check_deadlines(struct farm *f, const struct sim_request *r)
{
	const char *to = state(r->after);
	if ((is_phase_disruptive(to) || str_eq(to, "staging")) && !*note(r->after, "kmodsmith.io/deadline"))
		report_broken_law(f, "I5", r, "a state without a deadline");
}

// I6: only pods on nodes that are ours are evicted, by uid.
static void check_evictions(struct farm *f, const struct sim_request *r)
{
	const char *uid = sim_text(r->body, "deleteOptions preconditions uid");
	const char *name = sim_text(r->before, "spec nodeName");
	auto_str char *path = name ? api_node(name) : NULL;
	const json_t *node = path ? sim_get(f->sim, path) : NULL;
	const json_t *lease =
		sim_get(f->sim, "/apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator");
	if (!uid)
		report_broken_law(f, "I6", r, "an eviction without a uid");
	if (!node)
		return;
	const char *ledger = note(lease, "kmodsmith.io/slots"), *node_uid = sim_text(node, "metadata uid");
	if (!*note(node, "kmodsmith.io/cordon") || !is_node_cordoned(node) || !strstr(ledger, node_uid))
		report_broken_law(f, "I6", r, "an eviction from a node that is not ours");
}

// I14: no drain begins for an agent that has not answered the last order.
static void check_answers(struct farm *f, const struct sim_request *r)
{
	const char *was = state(r->before), *go = note(r->before, "kmodsmith.io/go");
	const char *ack = note(r->before, "kmodsmith.io/agent.ack");
	bool is_begun = str_eq(state(r->after), "evicting") && (str_eq(was, "cordoned") || str_eq(was, "waiting"));
	size_t number = strcspn(go, ":");
	if (is_begun && (!strstr(go, ":stage:") || strncmp(go, ack, number + 1) != 0 || !str_ends(ack, ":stage:done")))
		report_broken_law(f, "I14", r, "pods are to go for an agent that has not answered");
}

// I7: attempts to load a target are limited. Validations are counted in the same place, and change nothing.
static void check_attempts(struct farm *f, const struct sim_request *r)
{
	const char *go = note(r->after, "kmodsmith.io/go");
	bool is_new = !str_eq(go, note(r->before, "kmodsmith.io/go"));
	bool is_change = strstr(go, ":replace:") || strstr(go, ":load:");
	if (is_new && is_change && atoi(note(r->after, "kmodsmith.io/attempts")) > (int)pool_limit(f, "maxAttempts", 2))
		report_broken_law(f, "I7", r, "more attempts than allowed");
}

// I8: during a halt no node moves to the target.
static void check_halts(struct farm *f, const struct sim_request *r)
{
	const json_t *map = sim_get(f->sim, "/api/v1/namespaces/kmodsmith/configmaps/" ROLLOUT_STATUS_NAME);
	const char *text = sim_text(map, "data " ROLLOUT_STATUS_KEY);
	auto_json json_t *status = text ? json_loads(text, 0, NULL) : NULL;
	const json_t *pool = json_array_get(json_object_get(status, "pools"), 0);
	const char *target = sim_text(pool, "target aim"), *go = note(r->after, "kmodsmith.io/go");
	bool is_new = !str_eq(go, note(r->before, "kmodsmith.io/go"));
	if (json_is_true(json_object_get(pool, "halted")) && is_new && target && strstr(go, target) &&
	    (strstr(go, ":replace:") || strstr(go, ":load:")))
		report_broken_law(f, "I8", r, "moves to a target that is halted");
}

// I9: the coordinator writes its own keys, the cordon, and the labels that it borrows.
static void check_owners(struct farm *f, const struct sim_request *r, const char *part)
{
	static const char *const borrowed[] = { "nvidia.com/gpu.deploy.", NVIDIA_STATE,
						"cluster-autoscaler.kubernetes.io/scale-down-disabled",
						"karpenter.sh/do-not-disrupt" };
	const char *key;
	json_t *value;
	auto_str char *where = str_fmt("metadata %s", part);
	const json_t *was = sim_at(r->before, where), *is = sim_at(r->after, where);
	auto_json json_t *all = was ? json_copy((json_t *)(uintptr_t)was) : json_object();
	json_object_update_missing(all, (json_t *)(uintptr_t)is);
	json_object_foreach(all, key, value)
	{
		bool is_ours = str_starts(key, "kmodsmith.io/") && !str_starts(key, "kmodsmith.io/agent.");
		for (size_t i = 0; i < ARRAY_SIZE(borrowed); i++)
			is_ours = is_ours || str_starts(key, borrowed[i]);
		if (!is_ours && !json_equal(json_object_get(was, key), json_object_get(is, key)))
			report_broken_law(f, "I9", r, key);
	}
}

// I9: NVIDIA's label gets no value that starts its upgrade controller, and on a node that this one manages neither the
// label nor the cordon is changed.
static void check_annotation_words(struct farm *f, const struct sim_request *r)
{
	const json_t *was = json_object_get(sim_at(r->before, "metadata labels"), NVIDIA_STATE);
	const json_t *is = json_object_get(sim_at(r->after, "metadata labels"), NVIDIA_STATE);
	bool is_theirs = str_eq(note(r->before, NVIDIA_ENABLED), "true");
	if (is_theirs && !is_node_cordoned(r->before) && is_node_cordoned(r->after))
		report_broken_law(f, "I9", r, "cordons a node that NVIDIA's controller upgrades");
	if (was == is || json_equal(was, is))
		return;
	if (is && !str_eq(json_string_value(is), "upgrade-done"))
		report_broken_law(f, "I9", r, "a word that starts NVIDIA's upgrade controller");
	if (is_theirs)
		report_broken_law(f, "I9", r, "NVIDIA's label on a node that NVIDIA's controller upgrades");
}

// An Event of an agent about its own Node.
static bool is_own_event(const struct sim_request *r)
{
	const char *kind = sim_text(r->after, "involvedObject kind"), *name = sim_text(r->after, "involvedObject name");
	auto_str char *own = str_fmt("agent-%s.", name ? name : "");
	return str_eq(r->resource, "events") && !r->before && str_eq(kind, "Node") && str_starts(r->client, own);
}

// I9: an agent only writes its own keys, on its own Node.
static void check_agents(struct farm *f, const struct sim_request *r)
{
	auto_str char *own = str_fmt("agent-%s.", r->name ? r->name : "");
	auto_json json_t *was = json_deep_copy(r->before), *is = json_deep_copy(r->after);
	json_t *const both[] = { was, is };
	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		const char *key;
		void *next;
		json_t *value, *notes = sim_at(both[i], "metadata annotations");
		json_object_foreach_safe(notes, next, key, value) if (str_starts(key, "kmodsmith.io/agent."))
			json_object_del(notes, key);
		json_object_del(sim_at(both[i], "metadata"), "resourceVersion");
		if (json_object_size(notes) == 0)
			json_object_del(sim_at(both[i], "metadata"), "annotations");
	}
	bool is_node = str_eq(r->resource, "nodes") && str_starts(r->client, own) && json_equal(was, is);
	if (!is_node && !is_own_event(r))
		report_broken_law(f, "I9", r, "an agent writes what is not its own");
}

// A node's sequence number increases with every write, whoever wrote last (5.2): a late patch, after the next leader's,
// would decrease it.
static void check_order_numbers(struct farm *f, const struct sim_request *r)
{
	unsigned long was[2] = { 0, 0 }, is[2] = { 0, 0 };
	const char *before = note(r->before, "kmodsmith.io/seq"), *after = note(r->after, "kmodsmith.io/seq");
	sscanf(before, "%lu.%lu", &was[0], &was[1]);
	if (sscanf(after, "%lu.%lu", &is[0], &is[1]) != 2 || is[0] < was[0] || (is[0] == was[0] && is[1] <= was[1]))
		report_broken_law(f, "seq", r, "a write that does not count up");
}

// A former leader changes nothing any more (5.6). A request that was sent before and arrives late may count if its
// preconditions still hold: an eviction is bound to the pod's uid, a patch to the node's sequence number, the status to
// its resourceVersion, which the next leader reads before it acts (`unseen`). The other laws apply to it as well.
static void check_fence(struct farm *f, const struct sim_request *r)
{
	const json_t *lease =
		sim_get(f->sim, "/apis/coordination.k8s.io/v1/namespaces/kmodsmith/leases/kmodsmith-coordinator");
	const char *holder = sim_text(lease, "spec holderIdentity");
	auto_str char *own = str_fmt("%s_", r->client);
	bool is_map = str_eq(r->resource, "configmaps");
	bool is_deposed = holder && *holder && !str_starts(holder, own);
	if (is_deposed && !r->is_late)
		report_broken_law(f, "fence", r, "writes, and another one leads");
	if (!r->is_late && f->is_unseen && !is_map)
		report_broken_law(f, "fence", r, "acts, and has not read what a leader of before recorded");
	f->is_unseen = (f->is_unseen && !(is_map && !is_deposed)) || (is_map && is_deposed);
}

void laws_look(void *ctx, const struct sim_request *r)
{
	struct farm *f = ctx;
	bool is_read = str_eq(r->verb, "get") || str_eq(r->verb, "list") || str_eq(r->verb, "watch");
	if (str_starts(r->client, "agent-") && !is_read && r->status / 100 == 2)
		check_agents(f, r);
	if (!is_coordinator_request(r) || r->status / 100 != 2)
		return;
	bool is_map = str_eq(r->resource, "configmaps") && !is_read;
	if (str_eq(r->verb, "get") && strstr(r->path, "/configmaps/" ROLLOUT_STATUS_NAME))
		f->is_unseen = false;
	if (str_eq(r->verb, "evict") || is_map || str_eq(r->verb, "patch"))
		check_fence(f, r);
	if (str_eq(r->verb, "evict"))
		check_evictions(f, r);
	if (!str_eq(r->resource, "nodes") || !str_eq(r->verb, "patch"))
		return;
	check_order_numbers(f, r);
	check_limits(f, r);
	check_cordons(f, r);
	check_holders(f, r);
	check_pods(f, r);
	check_proofs(f, r);
	check_deadlines(f, r);
	check_answers(f, r);
	check_attempts(f, r);
	check_halts(f, r);
	check_owners(f, r, "labels");
	check_owners(f, r, "annotations");
	check_annotation_words(f, r);
}
