// SPDX-License-Identifier: Apache-2.0
// What people and an API server say: policies, kubeconfigs, Nodes, Pods, Leases, and records of the agent.
#include "cluster/agent/agent_journal.h"
#include "cluster/agent/single_node.h"
#include "cluster/coordinator/pods.h"
#include "cluster/kube/kubeconfig.h"
#include "cluster/kube/lease.h"
#include "cluster/policy/node_list.h"
#include "cluster/policy/policy.h"
#include "cluster/rollout/rollout_status.h"
#include "cluster/rollout/undo.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>

static const char POLICY[] = "{\"pools\":[{\"name\":\"a\",\"selector\":{\"gpu\":\"yes\"},\"target\":{\"driver\":"
			     "\"535.261.03\"},\"drain\":{\"waitFor\":\"job=yes\"}},{\"name\":\"b\",\"target\":"
			     "{\"driver\":\"550.1\"}}]}";

static void policy_of_the_rest(struct policy *p)
{
	struct err err;
	if (policy_parse(POLICY, strlen(POLICY), p, &err) < 0)
		abort();
}

FUZZ_TARGET(policy)
{
	struct err err;
	auto_policy struct policy p = POLICY_NONE;
	if (!FUZZ(policy_parse(data, len, &p, &err)))
		return 0;
	for (size_t i = 0; i < p.pool_count; i++)
		for (int64_t now = 1800000000; now < 1800000000 + 7 * 24 * 3600; now += 5 * 3600) {
			int64_t next = policy_window_next(&p.pools[i], now, 60);
			if (policy_window_is_open(&p.pools[i], now, 60) ? next != 0 : next && next <= now)
				abort();
		}
	return 1;
}

FUZZ_TARGET(kubeconfig)
{
	struct err err;
	const struct root *root = fuzz_file("kubeconfig", data, len);
	auto_str char *path = root_path(root, "kubeconfig");
	auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
	return FUZZ(kube_config_file(path, NULL, &c, &err)) && c.server;
}

FUZZ_TARGET(nodes)
{
	struct err err;
	auto_policy struct policy p = POLICY_NONE;
	auto_node_list struct node_list r = { 0 };
	policy_of_the_rest(&p);
	auto_fd int fd = root_open(fuzz_file("nodes", data, len), "nodes", O_RDONLY, &err);
	int taken = FUZZ(node_list_read(fd, "nodes", &p, &r, &err));
	for (size_t i = 0; i < r.count; i++)
		policy_pool(&p, &r.nodes[i]);
	return taken;
}

static json_t *object(const char *data, size_t len)
{
	json_t *json = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL);
	if (json && !json_is_object(json)) {
		json_decref(json);
		return NULL;
	}
	return json;
}

FUZZ_TARGET(pod) // parts: pod, holders
{
	size_t pod_len, holders_len;
	auto_str char *text = fuzz_part(data, len, "pod", true, &pod_len),
		      *holders = fuzz_part(data, len, "holders", false, &holders_len);
	auto_policy struct policy p = POLICY_NONE;
	auto_strv struct strv claims = { 0 };
	auto_json json_t *pod = object(text, pod_len);
	char why[OBJECT_TEXT] = "";
	if (!pod)
		return 0;
	policy_of_the_rest(&p);
	const struct pod_rules rules = { .pool = &p.pools[0], .holders = *holders ? holders : NULL };
	enum pod_verdict v = pod_judge(pod, &rules, len % 2, why);
	pod_is_job(pod, &p.pools[0]);
	pod_claims(pod, &claims);
	return v != POD_STAYS;
}

FUZZ_TARGET(lease)
{
	auto_json json_t *json = object(data, len);
	struct lease l = { 0 };
	if (!json)
		return 0;
	lease_init(NULL, "ns", "name", "me", 15, &l);
	lease_saw(&l, json);
	lease_is_free(&l);
	struct slot_ledger ledger = { 0 };
	int taken = scheduler_ledger_parse(lease_note(&l, "kmodsmith.io/slots"), &ledger) && l.version;
	scheduler_ledger_done(&ledger);
	lease_done(&l);
	return taken;
}

FUZZ_TARGET(rollout_status)
{
	struct err err;
	auto_json json_t *json = object(data, len);
	auto_policy struct policy p = POLICY_NONE;
	struct rollout rollouts[2];
	memset(rollouts, 0, sizeof(rollouts));
	policy_of_the_rest(&p);
	int taken = json && FUZZ(rollout_status_read(json, &p, rollouts, &err));
	if (taken) {
		auto_json json_t *back = rollout_status_make(&p, rollouts, json, 1);
		if (!back)
			abort();
	}
	return taken;
}

FUZZ_TARGET(undo)
{
	struct err err;
	auto_str char *note = str_ndup(data, len);
	auto_policy struct policy p = POLICY_NONE, undone = POLICY_NONE;
	auto_json json_t *document = json_loads(POLICY, 0, NULL), *replaced = json_object();
	auto_strv struct strv words = { 0 };
	policy_of_the_rest(&p);
	auto_str char *rest = undo_note(note, "a", NULL, NULL);
	if (rest && !*rest)
		abort();
	int r = FUZZ(undo_apply(note, &p, document, &words, replaced, &err));
	return r && words.count && FUZZ(policy_read(document, &undone, &err));
}

FUZZ_TARGET(agent_records)
{
	static const char *const paths[] = { "agent/journal.json", "agent/self.json", NULL };
	struct err err = { 0 };
	auto_agent_journal struct agent_journal j = { 0 };
	auto_str char *why = NULL, *why_not = NULL;
	struct single_node s = { 0 };
	const struct root *root = fuzz_tree(data, len, paths);
	int r = agent_journal_read(root, &j, &why, &err);
	int taken = r > 0;
	if (taken && agent_journal_write(root, &j, &err) < 0)
		abort();
	taken |= single_node_read(root, &s, &why_not, &err) > 0;
	single_node_done(&s);
	return taken;
}
