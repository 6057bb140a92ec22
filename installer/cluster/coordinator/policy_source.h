// SPDX-License-Identifier: Apache-2.0
// Which policy is in force: the DriverRollout, or the ConfigMap if there is none, if it is valid, else the last valid
// one. That one is kept beside the rollout's status, so that neither a typo nor a newer schema becomes "no policy"
// after a restart; agents read it there, too.
#pragma once
#include "cluster/kube/client.h"
#include "cluster/rollout/rollout_status.h"

#define POLICY_NAME "kmodsmith-policy"
#define POLICY_KEY "policy.json"
#define POLICY_KEY_YAML "policy.yaml"

struct policy_source {
	struct kube *kube;
	const char *namespace;
	void (*trouble)(void *ctx, const char *what, const struct err *err); // it is retried; NULL = not reported
	void *ctx;

	struct policy policy; // in force: the last one that was accepted
	char *text;           // its document as JSON, which agents read; NULL = none
	bool has_policy;      // since the start, one was accepted or there was none
	bool pauses;          // `paused` of the policy in force, whatever annotations say
	struct strv undone;   // a line per pool whose target `rollout undo` replaces
	json_t *replaced;     // by the undo: {"POOL": target}; NULL = none
	struct err refused;   // why the present policy is not in force; code 0 = it is

	json_t *map;    // the ConfigMap as it was read; NULL = there is none
	json_t *object; // the DriverRollout, likewise; it has precedence
	bool is_stale;  // one of them changed since then
	bool has_kind;  // the CustomResourceDefinition is installed, and we may read it
	long kind_ms;   // when it is looked for again
	struct kube_watch maps, objects;
	char *maps_path, *objects_path;

	json_t *object_said;  // the DriverRollout's status as last written; NULL = not since the last full read
	long object_ms;       // no write of its status before that
	char *told;           // the refusal of the last Event; NULL = none
	bool has_told_double; // that the ConfigMap is ignored because of a DriverRollout
	size_t told_foreign;  // nodes that NVIDIA's operator manages, as last reported
};
// Everything is borrowed, and *ret must not move from then on.
void policy_source_init(struct kube *kube, const char *namespace,
			void (*trouble)(void *ctx, const char *what, const struct err *err), void *ctx,
			struct policy_source *ret);
void policy_source_done(struct policy_source *p);

// Reads both objects and chooses. status: the ConfigMap with the rollout's status, NULL = there is none. blind: why
// nothing may be done, as no policy was ever accepted. With is_watched, policy_source_watch() hears of each later
// change.
int policy_source_load(struct policy_source *p, const json_t *status, bool is_watched, struct err *blind,
		       struct err *err);
int policy_source_watch(struct policy_source *p, struct err *err);
int policy_source_resume(struct policy_source *p, const json_t *status, struct err *err); // watches that ended
// The current DriverRollout; false = users have changed it, and everything is read again.
bool policy_source_put(struct policy_source *p, const json_t *object);
// As Events on the object with the policy, each once.
void policy_source_report(struct policy_source *p, const struct node_state *nodes, size_t count,
			  const struct err *blind);
static inline void policy_source_trouble(const struct policy_source *p, const char *what, const struct err *err)
{
	if (p->trouble)
		p->trouble(p->ctx, what, err);
}

// The object with the policy, in force or refused, and its annotations: the DriverRollout, else the ConfigMap, else
// NULL. ret_path: its API path, caller frees; may be NULL.
const json_t *policy_source_object(const struct policy_source *p, char **ret_path);
const char *policy_source_kind(const struct policy_source *p); // of that object
const char *policy_source_annotation(const struct policy_source *p, const char *key);
