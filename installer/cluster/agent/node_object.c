// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent/node_object.h"

#include "cluster/kube/api.h"
#include "cluster/kube/clock.h"
#include "cluster/node_state/annotations.h"

#include <stdio.h>

enum { WATCH_S = 1800, WATCH_SPREAD_S = 600, BACKOFF_MS = 1000, DOUBLINGS = 5, ASK_MS = 8000, TRY_MS = 4000 };

#define OURS(prefix)                                                                                        \
	prefix "metadata uid", prefix "metadata resourceVersion", prefix "metadata labels " KEY_PREFIX "*", \
		prefix "metadata annotations " KEY_PREFIX "*", prefix "spec unschedulable"
static const char *const NODE[] = { OURS(""), NULL };
static const char *const EVENT[] = { KUBE_EVENT, OURS("object "), NULL };

static int on_own_node_event(void *ctx, const char *type, json_t *object, struct err *err);

void agent_node_init(struct kube *kube, const char *name, struct agent_node *ret)
{
	auto_str char *escaped = http_escape(name);
	*ret = (struct agent_node){ .kube = kube, .name = name };
	ret->watch = (struct kube_watch){ .path = "/api/v1/nodes",
					  .query = str_fmt("fieldSelector=metadata.name%%3D%s", escaped),
					  .record = EVENT,
					  .event = on_own_node_event,
					  .ctx = ret };
}

void agent_node_done(struct agent_node *n)
{
	free((char *)(uintptr_t)n->watch.query);
	kube_watch_done(&n->watch);
}

static void keep_node_object(struct agent_node *n, const json_t *object)
{
	const char *key;
	json_t *value, *metadata = json_object_get(object, "metadata");
	const char *uid = json_string_value(json_object_get(metadata, "uid"));
	node_state_init(&n->m, n->name, uid ? uid : "");
	n->m.facts.is_unschedulable = json_is_true(json_object_get(json_object_get(object, "spec"), "unschedulable"));
	memset(n->value, 0, sizeof(n->value));
	memset(n->is_odd, 0, sizeof(n->is_odd));
	json_object_foreach(json_object_get(metadata, "labels"), key, value) if (json_is_string(value))
		node_state_label(&n->m, key, json_string_value(value));
	json_object_foreach(json_object_get(metadata, "annotations"), key, value)
	{
		const char *text = json_string_value(value);
		if (!text)
			continue;
		for (int i = 0; i < AGENT_KEYS; i++)
			if (str_eq(agent_key_names[i], key)) {
				n->is_odd[i] = strlen(text) >= AGENT_VALUE;
				snprintf(n->value[i], AGENT_VALUE, "%s", text);
			}
		node_state_annotation(&n->m, key, text);
	}
	n->is_read = uid != NULL;
	n->is_new = true;
}

static int on_own_node_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	(void)err;
	struct agent_node *n = ctx;
	if (str_eq(type, "DELETED"))
		n->is_read = false;
	else
		keep_node_object(n, object);
	return 0;
}

static int on_node_object(void *ctx, json_t *object, struct err *err)
{
	struct agent_node *n = ctx;
	const char *version =
		json_string_value(json_object_get(json_object_get(object, "metadata"), "resourceVersion"));
	if (!version)
		return err_set(err, E_KUBE, "the Node '%s' has no resourceVersion", n->name);
	keep_node_object(n, object);
	free(n->watch.version);
	n->watch.version = str_dup(version);
	return 0;
}

static int read_own_node(struct agent_node *n, struct err *err)
{
	auto_str char *escaped = http_escape(n->name), *path = api_node(escaped);
	const struct json_stream_table table = { .record = NODE };
	auto_kube_call struct kube_call call = {
		.path = path, .table = &table, .take = on_node_object, .ctx = n, .deadline_ms = ASK_MS, .try_ms = TRY_MS
	};
	return kube_run(n->kube, &call, err);
}

// Nodes that lost the API together reconnect one by one, each at its own time.
static long retry_time(const struct agent_node *n, unsigned failures)
{
	unsigned turn = failures < DOUBLINGS ? failures : DOUBLINGS;
	long most = (long)BACKOFF_MS << turn;
	return kube_now_ms() + most / 2 + (long)(target_hash_of_text(n->name) % (uint64_t)most);
}

static int count_node_failure(struct agent_node *n)
{
	kube_watch_end(&n->watch);
	n->again_ms = retry_time(n, n->failures++);
	return -1;
}

int agent_node_wait(struct agent_node *n, int wait_ms, struct err *err)
{
	if (!n->watch.own && kube_now_ms() < n->again_ms) {
		kube_sleep(wait_ms);
		return 0;
	}
	if (!n->watch.own) {
		unsigned seconds = WATCH_S + (unsigned)(target_hash_of_text(n->name) % WATCH_SPREAD_S);
		bool is_gone = n->watch.is_gone;
		// Each time: if etcd was restored from a backup, a watch from the version that is known hears nothing.
		if (read_own_node(n, err) < 0) {
			n->is_read = n->is_read && err->code != E_NOT_FOUND;
			return count_node_failure(n);
		}
		if (is_gone) // an unchanged Node has a version that is just as old: watch from any version
			free(TAKE(n->watch.version));
		if (kube_watch_begin(n->kube, &n->watch, seconds, err) < 0)
			return count_node_failure(n);
	}
	if (!n->is_new && kube_step(n->kube, wait_ms, err) < 0)
		return count_node_failure(n);
	int r = kube_watch_look(&n->watch, err);
	if (r < 0)
		return count_node_failure(n);
	if (r == 0)
		kube_watch_end(&n->watch);
	else if (n->failures) { // reachable again, also for writes
		n->failures = n->refusals = 0;
		n->tell_ms = 0;
	}
	return 0;
}

int agent_node_tell(struct agent_node *n, const struct agent_annotations *words, struct err *err)
{
	if (!n->is_read || kube_now_ms() < n->tell_ms)
		return 0;
	auto_json json_t *annotations = json_object();
	for (int i = 0; i < AGENT_KEYS; i++)
		if (n->is_odd[i] || !str_eq(n->value[i], words->value[i]))
			json_object_set_new(annotations, agent_key_names[i],
					    *words->value[i] ? json_text(words->value[i]) : json_null());
	if (!json_object_size(annotations))
		return 0;
	auto_str char *escaped = http_escape(n->name), *path = api_node(escaped);
	auto_json json_t *body = json_pack("{s:{s:s, s:O}}", "metadata", "uid", n->m.uid, "annotations", annotations);
	auto_kube_call struct kube_call call = { .method = "PATCH",
						 .path = path,
						 .type = "application/merge-patch+json",
						 .body = body,
						 .deadline_ms = ASK_MS,
						 .try_ms = TRY_MS,
						 .is_repeatable = true };
	if (kube_run(n->kube, &call, err) < 0) {
		if (err->code == E_CONFLICT || call.status == 404) { // replaced or gone: its content is unknown
			n->is_read = false;
			kube_watch_end(&n->watch);
			free(TAKE(n->watch.version));
		}
		n->tell_ms = retry_time(n, n->refusals++);
		return -1;
	}
	n->tell_ms = 0;
	n->refusals = 0;
	memcpy(n->value, words->value, sizeof(n->value)); // until the watch reports it
	memset(n->is_odd, 0, sizeof(n->is_odd));
	return 1;
}
