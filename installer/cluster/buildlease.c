// SPDX-License-Identifier: Apache-2.0
#include "cluster/buildlease.h"

#include "base/digest.h"
#include "cluster/api.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

static const char KEY_NOTE[] = "kmodsmith.io/compile", OUTCOME_NOTE[] = "kmodsmith.io/outcome";

void buildlease_init(struct kube *kube, const char *namespace, const char *key, const char *holder, unsigned duration_s,
		     struct buildlease *ret)
{
	enum { NAME_HEX = 24 };
	char digest[DIGEST_HEX + 1];
	uint64_t random = 0;
	digest_data(key, strlen(key), digest);
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint64_t)getpid();
	*ret = (struct buildlease){ .kube = kube,
				    .namespace = str_dup(namespace),
				    .name = str_fmt("kmodsmith-compile-%.*s", NAME_HEX, digest),
				    .holder = str_fmt("%s_%016llx", holder, (unsigned long long)random),
				    .key = str_dup(key),
				    .duration_s = duration_s };
}

static void forget(struct buildlease *b)
{
	json_decref(TAKE(b->seen));
	free(TAKE(b->other));
	free(TAKE(b->outcome));
}

void buildlease_done(struct buildlease *b)
{
	forget(b);
	free(b->namespace);
	free(b->name);
	free(b->holder);
	free(b->key);
	*b = (struct buildlease){ 0 };
}

static const char *version_of(const json_t *lease)
{
	return json_string_value(json_object_get(json_object_get(lease, "metadata"), "resourceVersion"));
}

// Takes lease.
static void look(struct buildlease *b, json_t *lease)
{
	bool is_same = b->seen && lease && str_eq(version_of(b->seen), version_of(lease));
	long since = is_same ? b->seen_ms : kube_now_ms();
	const json_t *notes = json_object_get(json_object_get(lease, "metadata"), "annotations");
	const char *holder = json_string_value(json_object_get(json_object_get(lease, "spec"), "holderIdentity"));
	forget(b);
	b->seen = lease;
	b->seen_ms = since;
	b->other = holder && *holder && !str_eq(holder, b->holder) ? str_dup(holder) : NULL;
	b->outcome = str_dup(json_string_value(json_object_get(notes, OUTCOME_NOTE)));
}

static int read_lease(struct buildlease *b, struct err *err)
{
	auto_str char *path = api_lease(b->namespace, b->name);
	json_t *lease = NULL;
	int r = api_get(b->kube, path, &lease, err);
	if (r >= 0)
		look(b, lease);
	return r;
}

static char *moment(void) // MicroTime of RFC 3339
{
	char text[64];
	struct timespec t;
	struct tm tm;
	clock_gettime(CLOCK_REALTIME, &t);
	gmtime_r(&t.tv_sec, &tm);
	size_t len = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + len, sizeof(text) - len, ".%06ldZ", t.tv_nsec / 1000);
	return str_dup(text);
}

// The Lease as we want it: with the version that was seen, so that whoever was faster wins.
static json_t *wanted(const struct buildlease *b, bool is_new_holder, bool is_held, const char *outcome)
{
	auto_str char *now = moment();
	json_int_t changes = json_integer_value(json_object_get(json_object_get(b->seen, "spec"), "leaseTransitions"));
	const char *since = json_string_value(json_object_get(json_object_get(b->seen, "spec"), "acquireTime"));
	json_t *lease =
		json_pack("{s:s, s:s, s:{s:s, s:s*, s:{s:o, s:o*}}, s:{s:s, s:i, s:s, s:s, s:I}}", "apiVersion",
			  "coordination.k8s.io/v1", "kind", "Lease", "metadata", "name", b->name, "resourceVersion",
			  b->seen ? version_of(b->seen) : NULL, "annotations", KEY_NOTE, json_text(b->key),
			  OUTCOME_NOTE, outcome ? json_text(outcome) : NULL, "spec", "holderIdentity",
			  is_held ? b->holder : "", "leaseDurationSeconds", (int)b->duration_s, "renewTime", now,
			  "acquireTime", is_new_holder || !since ? now : since, "leaseTransitions",
			  is_new_holder && b->seen ? changes + 1 : changes);
	return lease;
}

// 1 = written, 0 = somebody was faster.
static int write_lease(struct buildlease *b, const json_t *lease, struct err *err)
{
	auto_str char *path = api_lease(b->namespace, b->seen ? b->name : NULL);
	json_t *now = NULL;
	int r = b->seen ? api_replace(b->kube, path, lease, &now, err) : api_create(b->kube, path, lease, &now, err);
	if (r > 0)
		look(b, now);
	return r;
}

static bool is_free(const struct buildlease *b)
{
	json_int_t s = json_integer_value(json_object_get(json_object_get(b->seen, "spec"), "leaseDurationSeconds"));
	long duration_ms = (long)(s > 0 && s < 3600 ? s : b->duration_s) * 1000;
	return !b->other || kube_now_ms() - b->seen_ms > duration_ms;
}

int buildlease_try(struct buildlease *b, struct err *err)
{
	if (read_lease(b, err) < 0)
		return -1;
	if (!is_free(b))
		return 0;
	auto_json json_t *lease = wanted(b, true, true, NULL);
	int r = write_lease(b, lease, err);
	b->is_held = r > 0;
	b->renewed_ms = kube_now_ms();
	return r;
}

static int on_change(void *ctx, const char *type, json_t *object, struct err *err)
{
	(void)err, (void)object;
	bool *is_changed = ctx;
	*is_changed = *is_changed || str_eq(type, "MODIFIED") || str_eq(type, "DELETED");
	return 0;
}

// A watch on this one Lease, until it says something. Renewals do, too: they are cheap, and somebody lives.
static int watch_it(struct buildlease *b, unsigned ms, struct err *err)
{
	static const char *const record[] = { KUBE_EVENT, NULL };
	bool is_changed = false;
	auto_str char *path = api_lease(b->namespace, NULL);
	auto_str char *query = str_fmt("fieldSelector=metadata.name%%3D%s", b->name);
	auto_kube_watch struct kube_watch w = { .path = path,
						.query = query,
						.record = record,
						.event = on_change,
						.ctx = &is_changed,
						.version = str_dup(version_of(b->seen)) };
	long end = kube_now_ms() + ms;
	if (kube_watch_begin(b->kube, &w, ms / 1000 + 1, err) < 0)
		return -1;
	for (int r = 1; r > 0 && !is_changed && kube_now_ms() < end;) {
		if (kube_step(b->kube, (int)(end - kube_now_ms()), err) < 0)
			return -1;
		r = kube_watch_look(&w, err);
		if (r < 0)
			return -1;
	}
	return 0;
}

int buildlease_wait(struct buildlease *b, unsigned ms, struct err *err)
{
	struct err ignored;
	long end = kube_now_ms() + ms;
	while (b->other && kube_now_ms() < end) {
		long left = end - kube_now_ms();
		if (watch_it(b, (unsigned)left, &ignored) < 0) // what cannot be watched is looked at
			nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
		if (read_lease(b, err) < 0)
			return -1;
	}
	return !b->other;
}

int buildlease_renew(struct buildlease *b, struct err *err)
{
	long due_ms = (long)b->duration_s * 1000 / 4;
	if (!b->is_held || kube_now_ms() - b->renewed_ms < due_ms)
		return b->is_held;
	auto_json json_t *lease = wanted(b, false, true, NULL);
	int r = write_lease(b, lease, err);
	b->renewed_ms = kube_now_ms(); // a server that does not answer is not asked at every turn
	if (r == 0)
		b->is_held = false;
	return r;
}

int buildlease_release(struct buildlease *b, const char *outcome, struct err *err)
{
	enum { OUTCOME_MAX = 256 };
	if (!b->is_held)
		return 0;
	b->is_held = false;
	auto_str char *text = outcome ? str_ndup(outcome, strnlen(outcome, OUTCOME_MAX)) : NULL;
	auto_json json_t *lease = wanted(b, false, false, text);
	return write_lease(b, lease, err) < 0 ? -1 : 0;
}
