// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator/policy_source.h"

#include "cluster/kube/api.h"
#include "cluster/rollout/operator_requests.h"
#include "cluster/rollout/undo.h"

enum { WATCH_S = 300, KIND_MS = 60 * 1000 };

static void accept_policy(struct policy_source *p, struct policy *take, const json_t *doc)
{
	policy_done(&p->policy);
	p->policy = *take;
	*take = POLICY_NONE;
	p->pauses = p->policy.is_paused;
	free(p->text);
	p->text = doc ? json_dumps(doc, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
	p->has_policy = true;
}

// The document with the undo of that annotation applied, which is what agents read.
static int accept_document(struct policy_source *p, const json_t *document, const char *note, struct err *err)
{
	auto_policy struct policy now = POLICY_NONE, undone = POLICY_NONE;
	auto_strv struct strv words = { 0 };
	auto_json json_t *own = json_deep_copy(document), *replaced = json_object();
	if (policy_read(own, &now, err) < 0)
		return -1;
	int r = note ? undo_apply(note, &now, own, &words, replaced, err) : 0;
	if (r < 0 || (r > 0 && policy_read(own, &undone, err) < 0))
		return -1;
	// The way back to a driver that is known takes no longer than it has to.
	for (size_t i = 0; i < undone.pool_count; i++)
		if (json_object_get(replaced, undone.pools[i].name))
			free(TAKE(undone.pools[i].job));
	accept_policy(p, r > 0 ? &undone : &now, own);
	strv_done(&p->undone);
	p->undone = words;
	words = (struct strv){ 0 };
	json_decref(TAKE(p->replaced));
	p->replaced = r > 0 ? TAKE(replaced) : NULL;
	return 0;
}

const json_t *policy_source_object(const struct policy_source *p, char **ret_path)
{
	if (ret_path)
		*ret_path = api_path(p->object ? API_DRIVER_ROLLOUT : API_CONFIGMAP, p->namespace, POLICY_NAME);
	return p->object ? p->object : p->map;
}

const char *policy_source_annotation(const struct policy_source *p, const char *key)
{
	const json_t *metadata = json_object_get(policy_source_object(p, NULL), "metadata");
	return json_string_value(json_object_get(json_object_get(metadata, "annotations"), key));
}

const char *policy_source_kind(const struct policy_source *p)
{
	return p->object ? DRIVER_ROLLOUT_KIND : p->map ? "ConfigMap" : NULL;
}

// No policy is one without pools: nodes in progress are released (T27).
static int accept_offered(struct policy_source *p, struct err *err)
{
	auto_policy struct policy none = { .schema = POLICY_SCHEMA };
	auto_json json_t *doc = NULL;
	const char *json = api_configmap_value(p->map, POLICY_KEY);
	const char *yaml = api_configmap_value(p->map, POLICY_KEY_YAML), *text = json ? json : yaml;
	if (p->object) {
		doc = json_deep_copy(json_object_get(p->object, "spec"));
		if (!doc)
			return err_set(err, E_CONFIG, "the " DRIVER_ROLLOUT_KIND " %s has no spec", POLICY_NAME);
	} else if (p->map && !json == !yaml) {
		return err_set(err, E_CONFIG, "the ConfigMap %s has %s " POLICY_KEY " %s " POLICY_KEY_YAML, POLICY_NAME,
			       json ? "both" : "neither", json ? "and" : "nor");
	} else if (text && policy_document(text, strlen(text), &doc, err) < 0) {
		return -1;
	}
	if (doc)
		return accept_document(p, doc, policy_source_annotation(p, UNDO_NOTE), err);
	accept_policy(p, &none, NULL);
	strv_done(&p->undone);
	json_decref(TAKE(p->replaced));
	return 0;
}

// The policy that was in force before, here or under another leader, with the undo of now: one that was added since
// then applies, and one that was removed by a resume does not.
static int accept_last(struct policy_source *p, const json_t *status, struct err *err)
{
	const char *text = p->has_policy ? p->text : api_configmap_value(status, POLICY_KEY);
	const char *undone = api_configmap_value(status, ROLLOUT_STATUS_UNDONE_KEY);
	if (!text)
		return p->has_policy ? 0 : err_set(err, E_CONFIG, "no policy was accepted before");
	if (!p->has_policy) {
		json_decref(p->replaced);
		p->replaced = undone ? json_loads(undone, JSON_REJECT_DUPLICATES, NULL) : NULL;
	}
	auto_json json_t *same = NULL;
	if (policy_document(text, strlen(text), &same, err) < 0)
		return -1;
	auto_json json_t *doc = json_deep_copy(same);
	undo_revert(doc, p->replaced);
	if (accept_document(p, doc, policy_source_annotation(p, UNDO_NOTE), err) == 0)
		return 0;
	auto_policy struct policy unchanged = POLICY_NONE; // it is unknown whether the undo still applies: it stays
	if (policy_read(same, &unchanged, err) < 0)
		return -1;
	accept_policy(p, &unchanged, same);
	return 0;
}

static void choose_policy(struct policy_source *p, const json_t *status, struct err *blind)
{
	struct err why = { 0 };
	p->refused = (struct err){ 0 };
	if (accept_offered(p, &p->refused) < 0) {
		policy_source_trouble(p, "the policy is refused", &p->refused);
		if (accept_last(p, status, &why) < 0 && !p->has_policy)
			err_set(blind, E_CONFIG, "the policy is refused, and there is no last good one (%s): %s",
				why.text, p->refused.text);
	}
	if (p->object && p->map) {
		err_set(&why, E_CONFIG, "there is a " DRIVER_ROLLOUT_KIND ", and the ConfigMap %s is ignored",
			POLICY_NAME);
		policy_source_trouble(p, "the policy", &why);
	}
	if (p->policy.mode == MODE_SELF) {
		err_set(&why, E_CONFIG, "mode is self: agents work without a coordinator, and nothing is begun");
		policy_source_trouble(p, "the policy", &why);
	}
	const char *pause = policy_source_annotation(p, gate_keys[GATE_PAUSE]);
	p->policy.is_paused = p->pauses || p->policy.mode == MODE_SELF || (pause && !str_eq(pause, "false"));
}

static int ignore_object(void *ctx, json_t *object, struct err *err)
{
	(void)ctx, (void)object, (void)err;
	return 0;
}

// The version is taken before the read, so that the watch misses no change.
static int read_list_version(struct policy_source *p, struct kube_watch *w, struct err *err)
{
	static const char *const record[] = { "metadata name", NULL };
	struct kube_list list = { .path = w->path, .query = w->query, .record = record, .take = ignore_object };
	char *version = NULL;
	if (kube_list(p->kube, &list, &version, err) < 0)
		return -1;
	free(w->version);
	w->version = version;
	return 0;
}

// If the CustomResourceDefinition is not installed, or our role has no rule for it, the policy is the ConfigMap. But if
// a DriverRollout was in force and may not be read any more, it may still exist.
static int check_driver_rollout_crd(struct policy_source *p, const json_t *status, struct err *err)
{
	const char *kind = api_configmap_value(status, ROLLOUT_STATUS_KIND_KEY);
	bool had_object = p->object || str_eq(kind, DRIVER_ROLLOUT_KIND);
	p->kind_ms = kube_now_ms() + KIND_MS;
	p->has_kind = read_list_version(p, &p->objects, err) == 0;
	if (p->has_kind || err->code == E_NOT_FOUND)
		return 0;
	return err->code == E_AUTH && !had_object ? 0 : -1;
}

int policy_source_load(struct policy_source *p, const json_t *status, bool is_watched, struct err *blind,
		       struct err *err)
{
	json_t *map = NULL, *object = NULL;
	auto_str char *map_path = api_path(API_CONFIGMAP, p->namespace, POLICY_NAME),
		      *path = api_path(API_DRIVER_ROLLOUT, p->namespace, POLICY_NAME);
	if (is_watched) {
		kube_watch_end(&p->maps);
		kube_watch_end(&p->objects);
	}
	if ((is_watched && read_list_version(p, &p->maps, err) < 0) || api_get(p->kube, map_path, &map, err) < 0)
		return -1;
	json_decref(p->map);
	p->map = map;
	if (check_driver_rollout_crd(p, status, err) < 0 || (p->has_kind && api_get(p->kube, path, &object, err) < 0))
		return -1;
	json_decref(p->object);
	json_decref(TAKE(p->object_said));
	p->object = object;
	choose_policy(p, status, blind);
	return 0;
}

static int on_configmap_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	struct policy_source *p = ctx;
	(void)type, (void)object, (void)err;
	p->is_stale = true;
	return 0;
}

// We write its status ourselves, which is not a change.
bool policy_source_put(struct policy_source *p, const json_t *object)
{
	static const char *const parts[] = { "uid", "generation", "annotations" };
	const json_t *now = json_object_get(object, "metadata"), *known = json_object_get(p->object, "metadata");
	bool is_same = known != NULL;
	for (size_t i = 0; is_same && i < ARRAY_SIZE(parts); i++) {
		const json_t *a = json_object_get(now, parts[i]), *b = json_object_get(known, parts[i]);
		is_same = a == b || json_equal(a, b);
	}
	p->is_stale = p->is_stale || !is_same;
	return is_same;
}

static int on_driver_rollout_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	struct policy_source *p = ctx;
	(void)err;
	if (str_eq(type, "DELETED"))
		p->is_stale = true;
	else
		policy_source_put(p, object);
	return 0;
}

void policy_source_init(struct kube *kube, const char *namespace,
			void (*trouble)(void *ctx, const char *what, const struct err *err), void *ctx,
			struct policy_source *ret)
{
	static const char *const map_event[] = { KUBE_EVENT, NULL };
	static const char *const object_event[] = { KUBE_EVENT, "object metadata uid", "object metadata generation",
						    "object metadata annotations", NULL };
	static const char query[] = "fieldSelector=metadata.name%3D" POLICY_NAME;
	*ret = (struct policy_source){ .kube = kube,
				       .namespace = namespace,
				       .trouble = trouble,
				       .ctx = ctx,
				       .policy = POLICY_NONE,
				       .maps_path = api_path(API_CONFIGMAP, namespace, NULL),
				       .objects_path = api_path(API_DRIVER_ROLLOUT, namespace, NULL) };
	ret->maps = (struct kube_watch){
		.path = ret->maps_path, .query = query, .record = map_event, .event = on_configmap_event, .ctx = ret
	};
	ret->objects = (struct kube_watch){ .path = ret->objects_path,
					    .query = query,
					    .record = object_event,
					    .event = on_driver_rollout_event,
					    .ctx = ret };
}

void policy_source_done(struct policy_source *p)
{
	kube_watch_done(&p->maps);
	kube_watch_done(&p->objects);
	policy_done(&p->policy);
	strv_done(&p->undone);
	json_decref(p->replaced);
	json_decref(p->map);
	json_decref(p->object);
	json_decref(p->object_said);
	free(p->text);
	free(p->told);
	free(p->maps_path);
	free(p->objects_path);
	*p = (struct policy_source){ 0 };
}

static int watch_objects(struct policy_source *p, struct err *err)
{
	return p->has_kind ? kube_watch_begin(p->kube, &p->objects, WATCH_S, err) : 0;
}

int policy_source_watch(struct policy_source *p, struct err *err)
{
	return kube_watch_begin(p->kube, &p->maps, WATCH_S, err) < 0 ? -1 : watch_objects(p, err);
}

static int resume_watch(struct policy_source *p, struct kube_watch *w, struct err *err)
{
	int r = kube_watch_look(w, err);
	p->is_stale = p->is_stale || (r <= 0 && w->is_gone);
	if (r > 0 || w->is_gone)
		return 0;
	if (r < 0)
		policy_source_trouble(p, "a watch", err);
	return kube_watch_begin(p->kube, w, WATCH_S, err);
}

// The CustomResourceDefinition may be installed at any time.
int policy_source_resume(struct policy_source *p, const json_t *status, struct err *err)
{
	if (resume_watch(p, &p->maps, err) < 0)
		return -1;
	if (p->has_kind)
		return resume_watch(p, &p->objects, err);
	if (kube_now_ms() < p->kind_ms)
		return 0;
	if (check_driver_rollout_crd(p, status, err) < 0)
		policy_source_trouble(p, "looking for the kind " DRIVER_ROLLOUT_KIND, err);
	p->is_stale = p->is_stale || p->has_kind;
	return 0;
}

static void record_event(struct policy_source *p, const json_t *object, const char *reason, const char *message)
{
	struct err why;
	const json_t *uid = json_object_get(json_object_get(object, "metadata"), "uid");
	bool is_map = object == p->map;
	const struct api_object of = { is_map ? "v1" : DRIVER_ROLLOUT_VERSION,
				       is_map ? "ConfigMap" : DRIVER_ROLLOUT_KIND, p->namespace, POLICY_NAME,
				       json_string_value(uid) };
	const struct api_event event = { .of = &of,
					 .reason = reason,
					 .message = message,
					 .is_warning = !str_eq(reason, "PolicyAccepted"),
					 .component = "kmodsmith-coordinator" };
	if (object && api_event(p->kube, &event, &why) < 0)
		policy_source_trouble(p, "an event", &why);
}

void policy_source_report(struct policy_source *p, const struct node_state *nodes, size_t count,
			  const struct err *blind)
{
	const json_t *source = policy_source_object(p, NULL);
	const char *refusal = p->refused.code ? p->refused.text : NULL;
	bool is_doubled = p->object && p->map;
	if (is_doubled && !p->has_told_double)
		record_event(p, p->map, "PolicyIgnored", "the " DRIVER_ROLLOUT_KIND " of the same name is the policy");
	p->has_told_double = is_doubled;
	if (source && !(refusal ? str_eq(refusal, p->told) : !p->told)) {
		auto_str char *message =
			!refusal    ? str_dup("it is in force") :
			blind->code ? str_fmt("%s; nothing is done until it is corrected", refusal) :
				      str_fmt("%s; the last good policy stays in force until it is corrected", refusal);
		record_event(p, source, refusal ? "PolicyRefused" : "PolicyAccepted", message);
		free(p->told);
		p->told = str_dup(refusal);
	}
	// Each node carries its reason; their number is reported once, in the log and on the policy.
	struct err why;
	size_t held = 0;
	const char *first = "";
	for (size_t i = 0; i < count; i++) {
		const struct node_state *m = &nodes[i];
		bool is_held = node_state_is_foreign(m) && policy_pool(&p->policy, m);
		first = is_held && !held ? m->name : first;
		held += is_held;
	}
	if (held && held != p->told_foreign) {
		err_set(&why, E_HOST_DRIVER,
			"NVIDIA's operator manages the driver on %zu of the nodes that the policy selects (%s%s): "
			"these are held, the others continue; see kmodsmith-operator(7)",
			held, first, held > 1 ? ", ..." : "");
		policy_source_trouble(p, "the policy", &why);
		record_event(p, source, "NodesOfOtherOperator", why.text);
	}
	p->told_foreign = held;
}
