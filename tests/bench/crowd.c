// SPDX-License-Identifier: Apache-2.0
// The kubelets and the agents of thousands of nodes in one process, against the API server of $KUBECONFIG.
//
//   crowd make COUNT             Node objects as kubelets and feature discovery write them
//   crowd beat SECONDS           each of them tells its status every five minutes, as a kubelet does
//   crowd play SECONDS [STATE COUNT]
//                                agents, until that many nodes are in the state. They choose, journal and write by the
//                                agent's own rules (cluster/agent/decide.h); what is made up is the work
//   crowd state STATE            how many nodes are in it
#include "cluster/agent/node_object.h"
#include "cluster/kube/api.h"
#include "cluster/node_state/annotations.h"
#include "tests/unit/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 20000, ACCEPT_MS = 10000, WORK_MS = 3000, PROBE_MS = 300, STEP_MS = 50, BEAT_MS = 300000 };

static const char BOOT[] = "6e0d5b0c-0a3e-4d8e-9d7f-0a1b2c3d4e5f";
static const struct target_hash OLD = { 0x1111, 0x1111 };

struct person {
	struct agent_node node; // whose watch is not used: one is enough for all
	char name[16], state[WORD_TEXT];
	struct agent_journal journal;
	struct agent_facts facts;
	struct agent_holders told;
	long since_ms, end_ms; // of the child; end 0 = there is none
	bool is_due;
};
static struct {
	struct kube *kube, *watch_kube;
	struct person *persons;
	unsigned count;
} crowd;

static void die(const char *what, const struct err *why)
{
	fprintf(stderr, "crowd: %s: %s\n", what, why->text);
	exit(1);
}

static struct kube *connect(void)
{
	struct err err = { 0 };
	struct kube *k = NULL;
	auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
	const char *path = getenv("KUBECONFIG");
	if (!path || kube_config_file(path, NULL, &c, &err) < 0 || kube_open(&c, &k, &err) < 0)
		die("KUBECONFIG", &err);
	return k;
}

// The agent's own keys and the coordinator's, as node_object.c reads them.
static void read_person(struct person *p, const json_t *metadata)
{
	const char *key;
	json_t *value;
	struct agent_node *n = &p->node;
	node_state_init(&n->m, p->name, json_string_value(json_object_get(metadata, "uid")));
	memset(n->value, 0, sizeof(n->value));
	json_object_foreach(json_object_get(metadata, "labels"), key, value)
	{
		node_state_label(&n->m, key, json_string_value(value));
	}
	json_object_foreach(json_object_get(metadata, "annotations"), key, value)
	{
		for (int i = 0; i < AGENT_KEYS; i++)
			if (str_eq(agent_key_names[i], key))
				snprintf(n->value[i], AGENT_VALUE, "%s", json_string_value(value));
		node_state_annotation(&n->m, key, json_string_value(value));
	}
	agent_move(&p->journal, n->m.uid);
	n->is_read = p->is_due = true;
}

static int take(void *ctx, json_t *node, struct err *err)
{
	(void)ctx, (void)err;
	const json_t *metadata = json_object_get(node, "metadata");
	const char *name = json_string_value(json_object_get(metadata, "name"));
	unsigned i = name && str_starts(name, "gpu") ? (unsigned)atoi(name + 3) : MOST;
	if (i >= MOST)
		return 0;
	struct person *p = &crowd.persons[i];
	if (!*p->name) {
		snprintf(p->name, sizeof(p->name), "%s", name);
		p->node = (struct agent_node){ .kube = crowd.kube, .name = p->name };
		p->facts = (struct agent_facts){ .is_known = true, .loaded = OLD, .store = { OLD } };
		snprintf(p->facts.version, sizeof(p->facts.version), "535.1");               // made up
		snprintf(p->facts.release, sizeof(p->facts.release), "6.1.0-1-cloud-amd64"); // made up
		snprintf(p->facts.srcversion, sizeof(p->facts.srcversion), "0123456789ABCDEF0123456");
		p->journal.current = OLD;
		crowd.count += 1;
	}
	read_person(p, metadata);
	return 0;
}

static int on_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	return str_eq(type, "DELETED") ? 0 : take(ctx, object, err);
}

#define OURS(o)                                                                   \
	o "metadata name", o "metadata uid", o "metadata labels " KEY_PREFIX "*", \
		o "metadata annotations " KEY_PREFIX "*"
static void list_all(char **ret_version)
{
	struct err err;
	static const char *const record[] = { OURS(""), NULL };
	struct kube_list list = { .path = "/api/v1/nodes", .record = record, .take = take };
	crowd.persons = mem_grow(NULL, MOST, sizeof(*crowd.persons));
	memset(crowd.persons, 0, MOST * sizeof(*crowd.persons));
	if (kube_list(crowd.kube, &list, ret_version, &err) < 0)
		die("list", &err);
}

// What a child for the order would have done.
static void reap(struct person *p, struct agent_end *ret)
{
	const struct order *order = &p->journal.order;
	p->end_ms = 0;
	*ret = (struct agent_end){ .is_ok = true };
	if (order->verb == VERB_STAGE) {
		p->facts.store[1] = p->facts.store[0];
		p->facts.store[0] = order->target_hash;
	} else if (agent_changes(order->verb)) {
		p->facts.loaded = order->target_hash;
		snprintf(p->facts.version, sizeof(p->facts.version), "535.2"); // made up
	}
}

static void act(struct person *p, const struct agent_end *end)
{
	for (;;) {
		struct agent_choice c;
		const struct agent_view v = { .journal = &p->journal,
					      .facts = &p->facts,
					      .end = end,
					      .boot = BOOT,
					      .is_read = true,
					      .go = p->node.m.record.go,
					      .phase = p->node.m.record.phase,
					      .is_running = p->end_ms != 0,
					      .is_meant = true,
					      .is_back_meant = true };
		agent_choose(&v, &c);
		if (c.act == AGENT_TAKE) {
			agent_take(&p->journal, &p->node.m.record.go);
		} else if (c.act == AGENT_FINISH) {
			agent_finish(&p->journal, &c);
			end = NULL;
		} else if (c.act == AGENT_RUN) {
			agent_begin(&p->journal, c.act, BOOT, &p->facts.loaded);
			p->since_ms = kube_now_ms();
			p->end_ms = p->since_ms + (p->journal.order.verb == VERB_VALIDATE ? PROBE_MS : WORK_MS);
		} else {
			return;
		}
	}
}

// Nobody uses these GPUs: "0" where somebody asks (cluster/agent/loop.c).
static void see_holders(struct person *p)
{
	enum node_phase phase = p->node.m.record.phase;
	bool is_exact = phase == PHASE_CORDONED || phase == PHASE_EVICTING || phase == PHASE_REPLACING ||
			phase == PHASE_RESTORING;
	p->told.is_coarse = !is_exact;
	p->told.is_published = is_exact || phase == PHASE_QUEUED || phase == PHASE_WAITING;
}

static void tell(struct person *p)
{
	struct err err;
	struct agent_annotations words;
	bool is_young = p->end_ms && kube_now_ms() - p->since_ms < ACCEPT_MS;
	agent_annotations(&p->journal, &p->facts, &p->told, BOOT, &words);
	if (is_young || !*words.value[AGENT_ACK])
		memcpy(words.value[AGENT_ACK], p->node.value[AGENT_ACK], AGENT_VALUE);
	if (is_young && !*words.value[AGENT_HOLDERS])
		memcpy(words.value[AGENT_HOLDERS], p->node.value[AGENT_HOLDERS], AGENT_VALUE);
	if (agent_node_tell(&p->node, &words, &err) < 0)
		fprintf(stderr, "crowd: %s: %s\n", p->name, err.text);
}

static void turn(struct person *p)
{
	struct agent_end end;
	bool has_end = p->end_ms && kube_now_ms() >= p->end_ms;
	bool is_old = p->end_ms && kube_now_ms() - p->since_ms >= ACCEPT_MS;
	if (!p->is_due && !has_end && !is_old)
		return;
	p->is_due = false;
	if (has_end)
		reap(p, &end);
	act(p, has_end ? &end : NULL);
	see_holders(p);
	tell(p);
}

static unsigned in_state(const char *state)
{
	unsigned count = 0;
	for (unsigned i = 0; i < MOST; i++)
		count += *crowd.persons[i].name &&
			 str_eq(node_phase_info(crowd.persons[i].node.m.record.phase)->name, state);
	return count;
}

static void play(long seconds, const char *state, unsigned wanted)
{
	struct err err;
	static const char *const record[] = { KUBE_EVENT, OURS("object "), NULL };
	struct kube_watch watch = { .path = "/api/v1/nodes", .record = record, .event = on_event };
	list_all(&watch.version);
	long end = kube_now_ms() + seconds * 1000, told = 0;
	while (kube_now_ms() < end && (!state || in_state(state) < wanted)) {
		if (!watch.own && kube_watch_begin(crowd.watch_kube, &watch, 1800, &err) < 0)
			die("watch", &err);
		if (kube_step(crowd.watch_kube, STEP_MS, &err) < 0 || kube_watch_look(&watch, &err) <= 0) {
			kube_watch_end(&watch);
			if (watch.is_gone)
				die("too slow for the watch", &(struct err){ .text = "410" });
		}
		for (unsigned i = 0; i < MOST; i++)
			if (*crowd.persons[i].name)
				turn(&crowd.persons[i]);
		if (state && kube_now_ms() - told > 10000) {
			told = kube_now_ms();
			fprintf(stderr, "        %u of %u are %s\n", in_state(state), wanted, state);
		}
	}
	kube_watch_done(&watch);
	if (state && in_state(state) < wanted) {
		fprintf(stderr, "crowd: %u of %u nodes are %s after %ld s\n", in_state(state), wanted, state, seconds);
		exit(1);
	}
}

static void make(unsigned count)
{
	struct err err;
	for (unsigned i = 0; i < count; i++) {
		auto_json json_t *node = node_make(i);
		if (api_create(crowd.kube, "/api/v1/nodes", node, NULL, &err) < 0)
			die("make", &err);
	}
}

static void beat(long seconds)
{
	struct err err;
	list_all(&(char *){ NULL });
	unsigned at = 0, count = crowd.count;
	for (long begin = kube_now_ms(), n = 0; kube_now_ms() - begin < seconds * 1000; n++) {
		while (!*crowd.persons[at % MOST].name)
			at++;
		auto_str char *path = str_fmt("/api/v1/nodes/%s/status", crowd.persons[at++ % MOST].name);
		auto_str char *now = str_fmt("2026-11-22T11:%02ld:%02ldZ", n / 60 % 60, n % 60);
		auto_json json_t *body = json_pack("{s:{s:[{s:s, s:s}]}}", "status", "conditions", "type",
						   "MemoryPressure", "lastHeartbeatTime", now);
		auto_kube_call struct kube_call call = {
			.method = "PATCH", .path = path, .type = "application/strategic-merge-patch+json", .body = body
		};
		if (kube_run(crowd.kube, &call, &err) < 0)
			die("beat", &err);
		long due = begin + (n + 1) * BEAT_MS / (long)count;
		if (due > kube_now_ms())
			kube_step(crowd.watch_kube, (int)(due - kube_now_ms()), &err);
	}
}

int main(int argc, char **argv)
{
	crowd.kube = connect();
	crowd.watch_kube = connect();
	const char *what = argc > 2 ? argv[1] : "";
	if (str_eq(what, "make"))
		make((unsigned)atoi(argv[2]));
	else if (str_eq(what, "beat"))
		beat(atol(argv[2]));
	else if (str_eq(what, "play"))
		play(atol(argv[2]), argc > 4 ? argv[3] : NULL, argc > 4 ? (unsigned)atoi(argv[4]) : 0);
	else
		fprintf(stderr, "usage: crowd make COUNT | beat SECONDS | play SECONDS [STATE COUNT]\n");
	kube_free(crowd.kube);
	kube_free(crowd.watch_kube);
	return str_eq(what, "make") || str_eq(what, "beat") || str_eq(what, "play") ? 0 : 2;
}
