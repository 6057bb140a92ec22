// SPDX-License-Identifier: Apache-2.0
#include "cluster/shared_build/build_lease.h"

#include "base/file/digest.h"
#include "cluster/kube/api.h"

static const char KEY_NOTE[] = "kmodsmith.io/compile", OUTCOME_NOTE[] = "kmodsmith.io/outcome";

void build_lease_init(struct kube *kube, const char *namespace, const char *key, const char *holder,
		      unsigned duration_s, struct build_lease *ret)
{
	enum { NAME_HEX = 24 };
	char digest[DIGEST_HEX + 1];
	digest_data(key, strlen(key), digest);
	auto_str char *name = str_fmt("kmodsmith-compile-%.*s", NAME_HEX, digest);
	*ret = (struct build_lease){ .key = str_dup(key) };
	lease_init(kube, namespace, name, holder, duration_s, &ret->lease);
}

void build_lease_done(struct build_lease *b)
{
	lease_done(&b->lease);
	free(b->key);
	*b = (struct build_lease){ 0 };
}

const char *build_lease_outcome(const struct build_lease *b)
{
	return lease_note(&b->lease, OUTCOME_NOTE);
}

static json_t *outcome_annotations(const struct build_lease *b, const char *outcome)
{
	return json_pack("{s:o, s:o*}", KEY_NOTE, json_text(b->key), OUTCOME_NOTE, outcome ? json_text(outcome) : NULL);
}

int build_lease_read(struct build_lease *b, struct err *err)
{
	if (lease_read(&b->lease, err) < 0)
		return -1;
	return !lease_is_free(&b->lease);
}

int build_lease_try(struct build_lease *b, struct err *err)
{
	if (lease_read(&b->lease, err) < 0)
		return -1;
	if (!lease_is_free(&b->lease))
		return 0;
	int r = lease_write(&b->lease, LEASE_TAKE, outcome_annotations(b, NULL), err);
	b->is_held = r > 0;
	b->renewed_ms = kube_now_ms();
	return r;
}

static int on_lease_event(void *ctx, const char *type, json_t *object, struct err *err)
{
	(void)err, (void)object;
	bool *is_changed = ctx;
	*is_changed = *is_changed || str_eq(type, "MODIFIED") || str_eq(type, "DELETED");
	return 0;
}

// Watches this one Lease until it changes. A renewal is a change too: cheap, and it shows that the holder is alive.
static int watch_build_lease(struct build_lease *b, unsigned ms, struct err *err)
{
	static const char *const record[] = { KUBE_EVENT, NULL };
	bool is_changed = false;
	auto_str char *path = api_path(API_LEASE, b->lease.namespace, NULL);
	auto_str char *query = str_fmt("fieldSelector=metadata.name%%3D%s", b->lease.name);
	auto_kube_watch struct kube_watch w = { .path = path,
						.query = query,
						.record = record,
						.event = on_lease_event,
						.ctx = &is_changed,
						.version = str_dup(b->lease.version) };
	long end = kube_now_ms() + ms;
	if (kube_watch_begin(b->lease.kube, &w, ms / 1000 + 1, err) < 0)
		return -1;
	int r;
	for (long left; (r = kube_watch_look(&w, err)) > 0 && !is_changed && (left = end - kube_now_ms()) > 0;)
		if (kube_step(b->lease.kube, (int)left, err) < 0)
			return -1;
	return r < 0 ? -1 : 0;
}

int build_lease_wait(struct build_lease *b, unsigned ms, struct err *err)
{
	struct err ignored;
	long end = kube_now_ms() + ms;
	while (b->lease.other && kube_now_ms() < end) {
		long left = end - kube_now_ms();
		if (watch_build_lease(b, (unsigned)left, &ignored) < 0) // without a watch it is read again
			kube_sleep(1000);
		if (lease_read(&b->lease, err) < 0)
			return -1;
	}
	return !b->lease.other;
}

int build_lease_renew(struct build_lease *b, struct err *err)
{
	long due_ms = (long)b->lease.duration_s * 1000 / 4;
	if (!b->is_held || kube_now_ms() - b->renewed_ms < due_ms)
		return b->is_held;
	int r = lease_write(&b->lease, LEASE_KEEP, outcome_annotations(b, NULL), err);
	b->renewed_ms = kube_now_ms(); // a server that does not answer is not asked every time
	if (r == 0)
		b->is_held = false;
	return r;
}

int build_lease_release(struct build_lease *b, const char *outcome, struct err *err)
{
	enum { OUTCOME_MAX = 256 };
	if (!b->is_held)
		return 0;
	b->is_held = false;
	auto_str char *text = outcome ? str_ndup(outcome, strnlen(outcome, OUTCOME_MAX)) : NULL;
	return lease_write(&b->lease, LEASE_LEAVE, outcome_annotations(b, text), err) < 0 ? -1 : 0;
}
