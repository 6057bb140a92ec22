// SPDX-License-Identifier: Apache-2.0
// A patch of a Node counts only if nobody was faster: what it was decided by is tested by the server with the write
// (upgrade-design 5.2; I2, I3, I4, and who was deposed). A decision and what happens on the Node before it is written,
// a row each.
#include "cluster/coordinator/node_cache.h"
#include "cluster/node_state/annotations.h"
#include "cluster/rollout/node_patch.h"
#include "cluster/rollout/rules_internal.h"
#include "tests/sim/sim.h"
#include "tests/unit/test.h"

#define PATH "/api/v1/nodes/n00"
#define OLD "00000000000000aa-0000000000000000"
#define RECEIPT "{\\'by\\':\\'kmodsmith\\',\\'prior\\':false,\\'touched\\':true,\\'again\\':0,\\'until\\':1800000600}"
#define NOTE(key, value) "{'metadata':{'annotations':{'kmodsmith.io/" key "':" value "}}}"
#define CORDONED "{'spec':{'unschedulable':true}}"
#define WORD(value) "{'metadata':{'labels':{'" UPGRADE_LABEL "':" value "}}}"
#define ENABLED(value) "{'metadata':{'annotations':{'nvidia.com/gpu-driver-upgrade-enabled':" value "}}}"
#define FREE "{'spec':{'unschedulable':null}}"

// Decisions

static void to_tell(const struct node_state *m, struct decision *d) // nothing but a reason
{
	d->next.reason.code = m->record.reason.code == REASON_JOBS ? REASON_HOLDERS : REASON_JOBS;
}
static void to_replace(const struct node_state *m, struct decision *d)
{
	d->next.phase = PHASE_REPLACING;
	d->next.go = (struct order){ { m->record.seq.epoch, m->record.seq.n + 1 }, VERB_REPLACE, { 2, 0 } };
}
static void to_cordon(const struct node_state *m, struct decision *d)
{
	(void)m;
	d->next.receipt = (struct receipt){ .is_there = true, .until = 1800000600 };
	d->cordon = CORDON_ON;
}
static void to_release(const struct node_state *m, struct decision *d)
{
	(void)m;
	d->next.phase = PHASE_RELEASING;
	d->next.receipt = (struct receipt){ 0 };
	d->cordon = CORDON_OFF;
}
static void to_drop_word(const struct node_state *m, struct decision *d) // into which NVIDIA's controller writes
{
	(void)m;
	d->drops_word = true;
}

enum { FIRST = 1, OURS, THEIRS }; // it has no number yet; our cordon and receipt; and NVIDIA's controller upgrades it
static const struct {
	const char *name;
	unsigned node;
	void (*decide)(const struct node_state *m, struct decision *d);
	const char *meanwhile; // a merge of the Node; NULL = nothing, "" = it is deleted, "new" = and made again
	bool is_written;
} rows[] = {
	{ "nothing happens before the order to replace is written", OURS, to_replace, NULL, true },
	{ "nothing happens before the cordon is written", 0, to_cordon, NULL, true },
	{ "nothing happens before the cordon is taken away", OURS, to_release, NULL, true },
	{ "nothing happens before the first write on a Node", FIRST, to_cordon, NULL, true },
	{ "somebody sets a label that is none of ours", OURS, to_replace, "{'metadata':{'labels':{'a':'b'}}}", true },
	{ "the next leader has written, and a reason comes late", OURS, to_tell, NOTE("seq", "'2.1'"), false },
	{ "the next leader has written, and the order to replace comes late", OURS, to_replace, NOTE("seq", "'2.1'"),
	  false },
	{ "the next leader has written, and the cordon comes late", 0, to_cordon, NOTE("seq", "'2.1'"), false },
	{ "the next leader has written, and the release comes late", OURS, to_release, NOTE("seq", "'2.1'"), false },
	{ "the same leader has written once more", OURS, to_replace, NOTE("seq", "'1.5'"), false },
	{ "somebody deletes the number", OURS, to_replace, NOTE("seq", "null"), false },
	{ "the Node is gone when a reason comes", OURS, to_tell, "", false },
	{ "another Node of the name is there when a reason comes", OURS, to_tell, "new", false },
	{ "another Node of the name is there when the order to replace comes", OURS, to_replace, "new", false },
	{ "another Node of the name is there when the release comes", OURS, to_release, "new", false },
	{ "another Node of the name is there when the first write comes", FIRST, to_cordon, "new", false },
	{ "a holder comes before the order to replace", OURS, to_replace, NOTE("agent.holders", "'1 8 u1'"), false },
	{ "holders come and go before the order to replace", OURS, to_replace, NOTE("agent.holders", "'0 9'"), false },
	{ "the agent stops to say who holds the driver before the order to replace", OURS, to_replace,
	  NOTE("agent.holders", "null"), false },
	{ "a holder comes before a reason is written, which is not about holders", OURS, to_tell,
	  NOTE("agent.holders", "'1 8 u1'"), true },
	{ "another driver is loaded before the release", OURS, to_release,
	  NOTE("agent.loaded", "'00000000000000bb-0000000000000000 535.3'"), false },
	{ "another driver is loaded before a reason is written", OURS, to_tell,
	  NOTE("agent.loaded", "'00000000000000bb-0000000000000000 535.3'"), true },
	{ "somebody cordons before our cordon", 0, to_cordon, CORDONED, false },
	{ "NVIDIA's operator takes the node over before our cordon", 0, to_cordon, ENABLED("'true'"), false },
	{ "NVIDIA's operator takes the node over before the order to replace", OURS, to_replace, ENABLED("'true'"),
	  false },
	{ "NVIDIA's operator takes the node over before our release", OURS, to_release, ENABLED("'true'"), true },
	{ "somebody uncordons before our release", OURS, to_release, FREE, false },
	{ "somebody uncordons before a reason is written", OURS, to_tell, FREE, true },
	{ "nothing happens before an old word of ours in NVIDIA's label goes", OURS, to_drop_word, NULL, true },
	{ "NVIDIA's controller goes on before an old word of ours goes", OURS, to_drop_word, WORD("'cordon-required'"),
	  false },
	{ "NVIDIA's operator takes the word away before us", OURS, to_drop_word, WORD("null"), false },
	{ "NVIDIA's controller goes on before the release of a node that it upgrades", THEIRS, to_release,
	  WORD("'cordon-required'"), false },
	{ "nothing happens before the release of a node that NVIDIA's controller upgrades", THEIRS, to_release, NULL,
	  true },
	{ "a word comes before the release of a node that nobody else upgrades", OURS, to_release,
	  WORD("'cordon-required'"), true },
	{ "somebody writes anything before the first write on a Node", FIRST, to_cordon,
	  "{'metadata':{'labels':{'a':'b'}}}", false },
};

static void make_node(struct sim *s, unsigned node)
{
	bool is_ours = node == OURS || node == THEIRS;
	auto_str char *ours = str_fmt(",'kmodsmith.io/cordon':'%s'%s", RECEIPT,
				      node == THEIRS ? ",'nvidia.com/gpu-driver-upgrade-enabled':'true'" : "");
	sim_make(s, "/api/v1/nodes",
		 "{'metadata':{'name':'n00','labels':{'" UPGRADE_LABEL
		 "':'upgrade-required'},'annotations':{%s'kmodsmith.io/agent.holders':'0 7',"
		 "'kmodsmith.io/agent.loaded':'" OLD " 535.1'%s}},'spec':{%s},"
		 "'status':{'conditions':[{'type':'Ready','status':'True'}]}}",
		 node == FIRST ? "" : "'kmodsmith.io/seq':'1.4',", is_ours ? ours : "",
		 is_ours ? "'unschedulable':true" : "");
}

static void meanwhile(struct sim *s, unsigned node, const char *what)
{
	if (!what)
		return;
	if (*what == '{') {
		sim_merge(s, PATH, "%s", what);
		return;
	}
	sim_delete(s, PATH);
	if (*what)
		make_node(s, node);
}

// What was decided, read back, and nothing that is not ours.
static void expect_written(struct sim *s, const struct decision *d, const json_t *before, const char *row)
{
	struct policy policy = POLICY_NONE;
	struct node_cache node_cache = NODE_CACHE_NONE;
	const json_t *after = sim_get(s, PATH);
	node_cache_put(&node_cache, after, &policy);
	const struct node_state *now = &node_cache.nodes[0];
	bool was_cordoned = json_is_true(sim_at(before, "spec unschedulable"));
	bool is_cordoned = d->cordon == CORDON_KEEP ? was_cordoned : d->cordon == CORDON_ON;
	expect(now->facts.is_unschedulable == is_cordoned, row);
	for (const struct node_key *key = node_keys; key->name; key++) {
		char is[KEY_TEXT] = "", due[KEY_TEXT] = "";
		key->text(&now->record, is, sizeof(is));
		key->text(&d->next, due, sizeof(due));
		expect(str_eq(is, due), row);
	}
	const json_t *word = json_object_get(sim_at(after, "metadata labels"), UPGRADE_LABEL);
	expect(d->drops_word ? !word :
			       json_equal(word, json_object_get(sim_at(before, "metadata labels"), UPGRADE_LABEL)),
	       row);
	expect(json_equal(sim_at(after, "status"), sim_at(before, "status")), row);
	const char *const kept[] = { "kmodsmith.io/agent.holders", "kmodsmith.io/agent.loaded" };
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		expect(json_equal(json_object_get(sim_at(after, "metadata annotations"), kept[i]),
				  json_object_get(sim_at(before, "metadata annotations"), kept[i])),
		       row);
	node_cache_done(&node_cache);
}

static void check(size_t i)
{
	struct err err = { 0 };
	struct decision d = { .rule = &drain_rules[0], .cordon = CORDON_KEEP };
	struct policy policy = POLICY_NONE;
	struct node_cache node_cache = NODE_CACHE_NONE;
	auto_node_patch struct node_patch patch = { 0 };
	auto_json json_t *now = NULL;
	auto_sim struct sim *s = sim_new(NULL);
	auto_kube struct kube *kube = sim_client(s, "boss1");
	make_node(s, rows[i].node);
	node_cache_put(&node_cache, sim_get(s, PATH), &policy);
	const struct node_state *m = &node_cache.nodes[0];
	expect(m->record.malformed == 0 && m->record.receipt.is_there == (rows[i].node >= OURS), rows[i].name);
	d.next = m->record;
	rows[i].decide(m, &d);
	d.next.has_phase = true;
	d.next.seq = (struct seq){ 1, m->record.seq.n + 1 };
	node_patch_make(m, &d, false, &patch);
	meanwhile(s, rows[i].node, rows[i].meanwhile);
	auto_json json_t *before = json_deep_copy(sim_get(s, PATH));
	const struct cache_entry *w = &node_cache.entries[0];
	const struct node_patch_seen seen = { w->version, w->loaded, w->holders };
	int r = node_patch_write(kube, m, &seen, &patch, &now, &err);
	expect(r == rows[i].is_written, rows[i].name);
	bool is_same = before ? json_equal(before, sim_get(s, PATH)) : !sim_get(s, PATH);
	expect(is_same == !rows[i].is_written, rows[i].name);
	if (rows[i].is_written)
		expect_written(s, &d, before, rows[i].name);
	node_cache_done(&node_cache);
}

static void what_was_decided_by_something_older_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(i);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(what_was_decided_by_something_older_is_refused) };
	return cmocka_run_group_tests_name("nodepatch", tests, NULL, NULL);
}
