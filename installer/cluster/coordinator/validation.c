// SPDX-License-Identifier: Apache-2.0
// The last word before an uncordon: pods of the user's in a namespace of their own, one for each node whose record says
// that it waits for it. What they say is read from there each time, so that another leader goes on; what nobody waits
// for is deleted, except a failed one, whose log people may want to read until the next attempt on that node.
#include "cluster/coordinator/coordinator_internal.h"
#include "cluster/coordinator/pods.h"
#include "cluster/coordinator/validation_pod.h"
#include "cluster/kube/api.h"

#include <stdio.h>

enum { LOOK_MS = 5000, IDLE_MS = 60000, AGAIN_MS = 30000 };

struct wanted { // copied: the nodes may change during a request
	char *node, *name, resources[RESOURCES_TEXT];
	const struct pool *pool;
	struct validation_job job, before;
	bool has_pod;
};
struct look {
	struct coordinator *c;
	struct wanted *wanted;
	size_t count;
	struct strv kept;  // uids of nodes that failed
	json_t *abandoned; // pods that are to be deleted
};

static void look_done(struct look *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->wanted[i].node);
		free(l->wanted[i].name);
	}
	free(l->wanted);
	strv_done(&l->kept);
	json_decref(l->abandoned);
}

static struct validation_pod pod_of(const struct wanted *w)
{
	return (struct validation_pod){ w->node, w->job.uid, w->job.order, w->resources, w->pool->job_deadline };
}

static void add_wanted(struct look *l, const struct view *v, const char *node)
{
	l->wanted = mem_grow(l->wanted, l->count + 1, sizeof(*l->wanted));
	struct wanted *w = &l->wanted[l->count++];
	*w = (struct wanted){ .node = str_dup(node), .pool = v->pool, .job = { .order = v->m->record.go.seq } };
	memcpy(w->resources, v->m->facts.allocatable, sizeof(w->resources));
	memcpy(w->job.uid, v->m->uid, sizeof(w->job.uid));
	w->job = v->job ? *v->job : w->job;
	w->before = w->job;
	const struct validation_pod p = pod_of(w);
	w->name = validation_pod_name(&p);
}

// True: one of them was not looked for yet.
static bool collect_wanted(struct look *l, const struct cluster *cl, const struct slots *s)
{
	bool is_new = false;
	for (size_t i = 0; i < cl->count; i++) {
		const struct record *r = &cl->nodes[i].record;
		if (target_hash_is_set(&r->failed))
			strv_add(&l->kept, str_dup(cl->nodes[i].uid));
		if (r->phase != PHASE_RELEASING)
			continue;
		struct view v = scheduler_view(cl, s, i);
		if (!transition_runs_job(&v))
			continue;
		add_wanted(l, &v, l->c->node_cache.entries[i].name);
		is_new = is_new || !v.job;
	}
	return is_new;
}

static int take_pod(void *ctx, json_t *pod, struct err *err)
{
	struct look *l = ctx;
	const json_t *metadata = json_object_get(pod, "metadata");
	const char *uid = json_string_value(json_object_get(json_object_get(metadata, "labels"), VALIDATION_LABEL));
	const char *name = json_string_value(json_object_get(metadata, "name"));
	bool is_over = validation_pod_is_over(pod), is_kept = is_over && strv_has(&l->kept, uid ? uid : "");
	(void)err;
	for (size_t i = 0; i < l->count; i++) {
		struct wanted *w = &l->wanted[i];
		if (!str_eq(w->job.uid, uid))
			continue;
		is_kept = str_eq(w->name, name);
		if (!is_kept)
			continue;
		char text[OBJECT_TEXT];
		w->has_pod = true;
		w->job.state = validation_pod_judge(pod, w->pool->job_deadline, kube_time(l->c->o.kube), text);
		if (*text || w->job.state != JOB_WAITS) // what was said of the one before it stays meanwhile
			memcpy(w->job.text, text, sizeof(text));
		if (is_over && w->job.state == JOB_WAITS) { // it says nothing about the driver: another one is made
			w->job.retry_ms = kube_now_ms() + AGAIN_MS;
			is_kept = false;
		}
	}
	l->c->validations.has_pods = true;
	if (!is_kept && !json_object_get(metadata, "deletionTimestamp"))
		json_array_append(l->abandoned, pod);
	return 0;
}

static int list_pods(struct look *l, struct err *err)
{
	static const char *const record[] = { "metadata name",   "metadata uid",
					      "metadata labels", "metadata deletionTimestamp",
					      "status",          NULL };
	auto_str char *path = str_fmt("/api/v1/namespaces/%s/pods", l->c->validations.namespace), *version = NULL;
	struct kube_list list = {
		.path = path, .query = "labelSelector=" VALIDATION_QUERY, .record = record, .take = take_pod, .ctx = l
	};
	l->c->validations.has_pods = false;
	return kube_list(l->c->o.kube, &list, &version, err);
}

static void delete_pods(const struct look *l)
{
	for (size_t i = 0; i < json_array_size(l->abandoned); i++) {
		struct err why;
		const json_t *metadata = json_object_get(json_array_get(l->abandoned, i), "metadata");
		auto_str char *path = str_fmt("/api/v1/namespaces/%s/pods/%s", l->c->validations.namespace,
					      json_string_value(json_object_get(metadata, "name")));
		if (api_delete(l->c->o.kube, path, json_string_value(json_object_get(metadata, "uid")), &why) < 0)
			coordinator_report_trouble(l->c, "deleting the pod of a validation", &why);
	}
}

// The server's message without what everybody knows: 'pods "NAME" is forbidden: exceeded quota: ...'.
static int create_pod(const struct look *l, const struct wanted *w, const json_t *template, struct err *err)
{
	static const char known[] = " is forbidden: ";
	auto_json json_t *pod = NULL;
	const struct validation_pod p = pod_of(w);
	if (validation_pod_make(template, &p, &pod, err) < 0)
		return -1;
	auto_str char *path = str_fmt("/api/v1/namespaces/%s/pods", l->c->validations.namespace);
	auto_kube_call struct kube_call call = { .method = "POST", .path = path, .body = pod };
	if (kube_run(l->c->o.kube, &call, err) == 0 || call.status == 409)
		return 0;
	const char *rest = call.message ? strstr(call.message, known) : NULL;
	return call.message ? err_set(err, err->code, "%s", rest ? rest + strlen(known) : call.message) : -1;
}

static void set_waiting(struct wanted *w, const struct err *why)
{
	w->job.state = JOB_WAITS;
	if (why)
		validation_pod_say(why->text, w->job.text);
}

static void start_job(struct look *l, struct wanted *w)
{
	struct err why;
	auto_json json_t *template = NULL;
	auto_str char *path =
		str_fmt("/api/v1/namespaces/%s/podtemplates/%s", l->c->validations.namespace, w->pool->job);
	int r = api_get(l->c->o.kube, path, &template, &why);
	if (r == 0)
		r = err_set(&why, E_NOT_FOUND, "there is no PodTemplate %s/%s", l->c->validations.namespace,
			    w->pool->job);
	r = r < 0 ? -1 : create_pod(l, w, template, &why);
	l->c->validations.has_pods = true;
	w->job.retry_ms = kube_now_ms() + AGAIN_MS;
	set_waiting(w, r < 0 ? &why : NULL);
	if (r < 0)
		coordinator_report_trouble(l->c, "a validation", &why);
}

// Has it passed or failed, then its pod is not needed any more: somebody may have deleted it.
static bool is_pod_missing(const struct wanted *w)
{
	bool is_over = w->job.state == JOB_PASSED || w->job.state == JOB_FAILED || w->job.state == JOB_LATE;
	return !w->has_pod && !is_over && w->job.retry_ms <= kube_now_ms();
}

static bool uses_validations(const struct policy *p)
{
	bool is = false;
	for (size_t i = 0; i < p->pool_count; i++)
		is = is || p->pools[i].job;
	return is;
}

// What was seen, for the next plan. True: it differs.
static bool keep_jobs(struct look *l)
{
	struct validations *v = &l->c->validations;
	bool is_other = false;
	free(v->jobs);
	v->jobs = l->count ? mem_alloc(l->count * sizeof(*v->jobs)) : NULL;
	v->count = l->count;
	for (size_t i = 0; i < l->count; i++) {
		const struct validation_job *now = &l->wanted[i].job, *before = &l->wanted[i].before;
		v->jobs[i] = *now;
		is_other = is_other || now->state != before->state || !str_eq(now->text, before->text);
	}
	return is_other;
}

bool validation_check(struct coordinator *c, const struct cluster *cl, const struct slots *s)
{
	struct validations *v = &c->validations;
	struct err why;
	__attribute__((cleanup(look_done))) struct look l = { .c = c, .abandoned = json_array() };
	bool is_new = collect_wanted(&l, cl, s);
	// Without anybody who waits: those of an earlier leader, or that one of its requests made late.
	if (!l.count && !v->has_pods && !uses_validations(&c->source.policy))
		return false;
	if (!is_new && kube_now_ms() < v->due_ms)
		return false;
	v->due_ms = kube_now_ms() + (l.count ? LOOK_MS : IDLE_MS);
	if (list_pods(&l, &why) < 0) {
		coordinator_report_trouble(c, "the pods of validations", &why);
		v->has_pods = true;
		for (size_t i = 0; i < l.count; i++)
			if (l.wanted[i].job.state == JOB_UNSEEN)
				set_waiting(&l.wanted[i], &why);
		return keep_jobs(&l);
	}
	delete_pods(&l);
	for (size_t i = 0; i < l.count; i++)
		if (is_pod_missing(&l.wanted[i]))
			start_job(&l, &l.wanted[i]);
	return keep_jobs(&l);
}
