// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/farm.h"

#include "cluster/node_state/annotations.h"

#include <stdio.h>

enum { TICK_MS = 1000, WORK_MS = 15000, STEP_MS = 500 };

static const json_t *node_of(const struct farm *f, unsigned i)
{
	return f->objects[i];
}

// With thousands of nodes only those that changed are processed.
static void on_sim_request(void *ctx, const struct sim_request *r)
{
	struct farm *f = ctx;
	laws_look(f, r);
	liveness_hear(f, r);
	const char *name = sim_text(r->after ? r->after : r->before, "metadata name");
	if (!str_eq(r->resource, "nodes") || !name || *name != 'n')
		return;
	unsigned i = (unsigned)atoi(name + 1);
	if (i >= f->count || !str_eq(f->nodes[i].name, name) || r->after == f->objects[i])
		return;
	liveness_look(f, r, &f->nodes[i]);
	json_decref(f->objects[i]);
	f->objects[i] = json_incref((json_t *)(uintptr_t)r->after);
	f->nodes[i].is_told = false;
}

const char *farm_note(const struct farm *f, unsigned i, const char *key)
{
	const json_t *notes = sim_at(node_of(f, i), "metadata annotations");
	const char *value = json_string_value(json_object_get(notes, key));
	return value ? value : "";
}

const char *farm_state(const struct farm *f, unsigned i)
{
	const char *value =
		json_string_value(json_object_get(sim_at(node_of(f, i), "metadata labels"), KEY_PREFIX "state"));
	return value ? value : "";
}

bool farm_is_cordoned(const struct farm *f, unsigned i)
{
	return json_is_true(sim_at(node_of(f, i), "spec unschedulable"));
}

unsigned farm_in(const struct farm *f, const char *state)
{
	unsigned count = 0;
	for (unsigned i = 0; i < f->count; i++)
		count += str_eq(farm_state(f, i), state);
	return count;
}

void farm_store(struct farm_node *n, const struct target_hash *target_hash)
{
	if (target_hash_eq(&n->store[0], target_hash) || target_hash_eq(&n->store[1], target_hash))
		return;
	n->store[1] = n->store[0];
	n->store[0] = *target_hash;
}

static void forget_xids(struct farm_node *n)
{
	char *fault = strstr(n->gpus, " 0000:");
	if (fault)
		*fault = '\0';
}

// The result of an order at the end of its time: "done", or "failed:CLASS:CODE".
static const char *outcome(struct farm *f, struct farm_node *n, enum verb verb, const struct target_hash *target_hash)
{
	bool is_bad = target_hash_is_set(&f->bad) && target_hash_eq(target_hash, &f->bad);
	switch (verb) {
	case VERB_STAGE:
		farm_store(n, target_hash);
		return "done";
	case VERB_REPLACE:
	case VERB_LOAD:
	case VERB_RESTORE:
		if (n->holders)
			return "failed:busy:E_IN_USE";
		if (is_bad && !f->is_sick)
			return "failed:permanent:E_LOAD";
		if (n->is_unfit && !target_hash_eq(target_hash, &f->old))
			return "failed:permanent:E_GPU_START";
		n->loaded = *target_hash;
		forget_xids(n);
		return "done";
	default:
		return is_bad ? "failed:permanent:E_NOT_READY" : "done";
	}
}

static void write_node_report(struct farm *f, struct farm_node *n, const char *ack, bool is_ill)
{
	char loaded[TARGET_HASH_TEXT], first[TARGET_HASH_TEXT], second[TARGET_HASH_TEXT];
	target_hash_text(&n->loaded, loaded);
	target_hash_text(&n->store[0], first);
	target_hash_text(&n->store[1], second);
	auto_str char *version = target_hash_is_set(&n->loaded) ? str_fmt("%s 535.1", loaded) : str_dup("none");
	auto_str char *both =
		str_fmt("%s%s%s", target_hash_is_set(&n->store[0]) ? first : "",
			target_hash_is_set(&n->store[1]) ? "," : "", target_hash_is_set(&n->store[1]) ? second : "");
	auto_str char *health = target_hash_is_set(&n->loaded) ?
					str_fmt("%s:%s", loaded, is_ill ? "fail:E_NOT_READY" : "ok") :
					str_dup("");
	auto_str char *now =
		str_fmt("%s %s %s %s %d%s %s", ack, version, both, health, n->holders, n->held_by, n->gpus);
	if (str_eq(now, n->said))
		return;
	free(n->said);
	n->said = TAKE(now);
	auto_str char *path = api_node(n->name);
	sim_merge(f->sim, path,
		  "{'metadata':{'annotations':{'kmodsmith.io/agent.ack':'%s','kmodsmith.io/agent.loaded':'%s',"
		  "'kmodsmith.io/agent.store':'%s','kmodsmith.io/agent.health':'%s','kmodsmith.io/agent.holders':'%d "
		  "1%s'}}}",
		  ack, version, both, health, n->holders, n->held_by);
	if (*n->gpus)
		sim_merge(f->sim, path, "{'metadata':{'annotations':{'kmodsmith.io/agent.gpus':'%s'}}}", n->gpus);
}

static void obey_order(struct farm *f, unsigned i)
{
	struct farm_node *n = &f->nodes[i];
	struct record r = { 0 };
	const char *go = farm_note(f, i, KEY_PREFIX "go");
	for (unsigned k = 0; node_keys[k].name; k++)
		if (str_eq(node_keys[k].name, KEY_PREFIX "go"))
			node_keys[k].parse(go, &r);
	bool is_ill = f->is_sick && target_hash_is_set(&f->bad) && target_hash_eq(&n->loaded, &f->bad);
	if (!*go || r.go.verb == VERB_NONE) {
		write_node_report(f, n, "", is_ill);
		return;
	}
	if (!str_eq(go, n->go)) {
		snprintf(n->go, sizeof(n->go), "%s", go);
		n->busy_until_ms = sim_now_ms() + WORK_MS;
	}
	const char *what = "accepted";
	if (n->busy_until_ms && sim_now_ms() >= n->busy_until_ms) {
		what = outcome(f, n, r.go.verb, &r.go.target_hash);
		is_ill = f->is_sick && target_hash_is_set(&f->bad) && target_hash_eq(&n->loaded, &f->bad);
	}
	if (n->busy_until_ms)
		snprintf(n->ack, sizeof(n->ack), "%u.%u:%s:%s", r.go.seq.epoch, r.go.seq.n, verb_names[r.go.verb],
			 what);
	if (!str_eq(what, "accepted"))
		n->busy_until_ms = 0;
	write_node_report(f, n, n->ack, is_ill);
}

// Is there something to do, or to report?
static bool is_node_due(struct farm_node *n)
{
	bool is_same = target_hash_eq(&n->loaded, &n->then.loaded) && target_hash_eq(&n->store[0], &n->then.store[0]) &&
		       target_hash_eq(&n->store[1], &n->then.store[1]) && n->holders == n->then.holders;
	bool was_told = n->is_told;
	n->is_told = true;
	n->then.loaded = n->loaded;
	memcpy(n->then.store, n->store, sizeof(n->store));
	n->then.holders = n->holders;
	return !is_same || !was_told || n->busy_until_ms;
}

static void tick_farm(void *ctx)
{
	struct farm *f = ctx;
	if (f->is_over)
		return;
	for (unsigned i = 0; i < f->count; i++)
		if (!f->nodes[i].is_silent && node_of(f, i) && is_node_due(&f->nodes[i]))
			obey_order(f, i);
	liveness_pass(f, TICK_MS);
	sim_after(TICK_MS, tick_farm, f);
}

static char *quote_policy(const char *policy)
{
	char *text = str_dup(policy);
	for (char *p = text; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	return text;
}

struct target_hash farm_target(const char *policy)
{
	struct err err;
	auto_policy struct policy p = POLICY_NONE;
	auto_str char *text = quote_policy(policy);
	if (policy_parse(text, strlen(text), &p, &err) < 0) {
		fprintf(stderr, "farm: %s\n", err.text);
		abort();
	}
	return p.pools[0].target.target_hash;
}

void farm_old(struct target *ret)
{
	*ret = (struct target){ .driver = "535.1", .parameters = str_dup("") };
	target_name(ret);
}

void farm_policy(struct farm *f, const char *policy)
{
	auto_str char *text = quote_policy(policy);
	auto_json json_t *body =
		json_pack("{s:{s:s}, s:{s:s}}", "metadata", "name", POLICY_NAME, "data", POLICY_KEY, text);
	auto_str char *json = json_dumps(body, JSON_COMPACT);
	auto_str char *path = api_path(API_CONFIGMAP, "kmodsmith", POLICY_NAME),
		      *all = api_path(API_CONFIGMAP, "kmodsmith", NULL);
	if (sim_get(f->sim, path))
		sim_merge(f->sim, path, "%s", json);
	else
		sim_make(f->sim, all, "%s", json);
}

void farm_begin(struct farm *f, unsigned nodes, const char *policy)
{
	farm_begin_by(f, nodes, policy, 0);
}

void farm_begin_by(struct farm *f, unsigned nodes, const char *policy, unsigned seed)
{
	const struct sim_options o = { .seen = on_sim_request, .ctx = f, .seed = seed };
	*f = (struct farm){ .nodes = mem_alloc(nodes * sizeof(*f->nodes)),
			    .objects = mem_alloc(nodes * sizeof(json_t *)),
			    .count = nodes,
			    .old = { 1, 1 },
			    .laws = mem_alloc(sizeof(*f->laws)) };
	f->sim = sim_new(&o);
	farm_policy(f, policy);
	for (unsigned i = 0; i < nodes; i++) {
		struct farm_node *n = &f->nodes[i];
		snprintf(n->name, sizeof(n->name), "n%02u", i);
		n->loaded = n->store[0] = f->old;
		sim_make(f->sim, "/api/v1/nodes",
			 "{'metadata':{'name':'%s','labels':{'nvidia.com/gpu.deploy.dcgm':'true'}},"
			 "'status':{'conditions':[{'type':'Ready','status':'True'}]}}",
			 n->name);
	}
	sim_after(TICK_MS, tick_farm, f);
}

void farm_end(struct farm *f)
{
	f->is_over = true;
	sim_free(f->sim);
	for (unsigned i = 0; i < f->count; i++) {
		free(f->nodes[i].said);
		json_decref(f->objects[i]);
	}
	free(f->nodes);
	free(f->objects);
	strv_done(f->laws);
	free(f->laws);
}

void farm_restore(struct farm *f, uint64_t version)
{
	sim_restore(f->sim, version);
	for (unsigned i = 0; i < f->count; i++) {
		auto_str char *path = api_node(f->nodes[i].name);
		json_decref(f->objects[i]);
		f->objects[i] = json_incref((json_t *)(uintptr_t)sim_get(f->sim, path));
		free(TAKE(f->nodes[i].said)); // the agent reads its Node again, and carries out what it finds there
		f->nodes[i].go[0] = '\0';
		f->nodes[i].is_told = false;
	}
}

void farm_pod(struct farm *f, unsigned node, const char *name)
{
	sim_make(f->sim, "/api/v1/namespaces/default/pods",
		 "{'metadata':{'name':'%s','namespace':'default','labels':{'app':'%s'},'ownerReferences':[{'apiVersion'"
		 ":'apps/v1',"
		 "'kind':'ReplicaSet','name':'x','uid':'x','controller':true}]},'spec':{'nodeName':'%s',"
		 "'containers':[{'name':'c','image':'i','resources':{'limits':{'nvidia.com/gpu':'1'}}}]}}",
		 name, name, f->nodes[node].name);
	auto_str char *path = str_fmt("/api/v1/namespaces/default/pods/%s/status", name);
	sim_merge(f->sim, path, "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}}");
}

void farm_pod_that_stays(struct farm *f, unsigned node, const char *name)
{
	auto_str char *path = str_fmt("/api/v1/namespaces/default/pods/%s", name);
	farm_pod(f, node, name);
	sim_merge(f->sim, path, "{'metadata':{'finalizers':['example.com/keep']}}");
}

void farm_coordinator_begin(struct farm *f, struct farm_coordinator *b, const char *name)
{
	farm_coordinator_begin_in(f, b, name, "kmodsmith");
}

void farm_coordinator_begin_in(struct farm *f, struct farm_coordinator *b, const char *name, const char *namespace)
{
	auto_str char *lease = str_fmt("%s-lease", name);
	*b = (struct farm_coordinator){ .farm = f,
					.kube = sim_client_within(f->sim, name, COORDINATOR_CALL_MS),
					.lease_kube = sim_client_within(f->sim, lease, COORDINATOR_CALL_MS) };
	const struct coordinator_options o = {
		.kube = b->kube, .lease_kube = b->lease_kube, .namespace = namespace, .holder = name
	};
	coordinator_init(&o, &b->c);
}

void farm_coordinator_kill(struct farm_coordinator *b)
{
	if (!b->kube)
		return;
	coordinator_done(&b->c);
	kube_free(b->kube);
	kube_free(b->lease_kube);
	*b = (struct farm_coordinator){ .is_dead = true };
}

static void turn_coordinator(struct farm_coordinator *b, int wait_ms)
{
	struct err err;
	if (!b->is_dead && coordinator_turn(&b->c, wait_ms, &err) < 0)
		farm_coordinator_kill(b);
}

static void turn_coordinator_beside(void *ctx)
{
	struct farm_coordinator *b = ctx;
	if (b->is_dead || b->farm->is_over)
		return;
	turn_coordinator(b, 0);
	sim_after(STEP_MS, turn_coordinator_beside, b);
}

void farm_coordinator_run_beside(struct farm_coordinator *b)
{
	sim_after(STEP_MS, turn_coordinator_beside, b);
}

void farm_run(struct farm_coordinator *coordinators, size_t count, long ms)
{
	for (long end = sim_now_ms() + ms; sim_now_ms() < end;) {
		long before = sim_now_ms();
		for (size_t i = 0; i < count; i++)
			turn_coordinator(&coordinators[i], STEP_MS);
		if (sim_now_ms() == before)
			sim_pass(100);
	}
}

bool farm_until(struct farm *f, struct farm_coordinator *coordinators, size_t count, const char *state, unsigned nodes,
		long ms)
{
	enum { SLICE_MS = 1000 };
	for (long end = sim_now_ms() + ms; sim_now_ms() < end;) {
		if (farm_in(f, state) >= nodes)
			return true;
		farm_run(coordinators, count, SLICE_MS);
	}
	return farm_in(f, state) >= nodes;
}
