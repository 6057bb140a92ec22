// SPDX-License-Identifier: Apache-2.0
#include "cluster/kube/lease.h"

#include "cluster/kube/api.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

void lease_init(struct kube *kube, const char *namespace, const char *name, const char *holder, unsigned duration_s,
		struct lease *ret)
{
	uint64_t random = 0;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint64_t)getpid();
	*ret = (struct lease){ .kube = kube,
			       .namespace = str_dup(namespace),
			       .name = str_dup(name),
			       .holder = str_fmt("%s_%016llx", holder, (unsigned long long)random),
			       .duration_s = duration_s };
}

void lease_done(struct lease *l)
{
	json_decref(l->seen);
	free(l->other);
	free(l->namespace);
	free(l->name);
	free(l->holder);
	*l = (struct lease){ 0 };
}

static const json_t *lease_spec(const struct lease *l, const char *key)
{
	return json_object_get(json_object_get(l->seen, "spec"), key);
}

const char *lease_note(const struct lease *l, const char *key)
{
	const json_t *metadata = json_object_get(l->seen, "metadata");
	return json_string_value(json_object_get(json_object_get(metadata, "annotations"), key));
}

// Takes lease.
static void keep_seen_lease(struct lease *l, json_t *lease)
{
	const char *version = json_string_value(json_object_get(json_object_get(lease, "metadata"), "resourceVersion"));
	if (!str_eq(l->version, version))
		l->seen_ms = kube_now_ms();
	json_decref(l->seen);
	l->seen = lease;
	l->version = version;
	json_int_t changes = json_integer_value(lease_spec(l, "leaseTransitions"));
	l->transitions = changes < 0 || changes > INT32_MAX ? 0 : (uint32_t)changes;
	const char *holder = json_string_value(lease_spec(l, "holderIdentity"));
	free(l->other);
	l->other = holder && *holder && !str_eq(holder, l->holder) ? str_dup(holder) : NULL;
}

int lease_read(struct lease *l, struct err *err)
{
	auto_str char *path = api_path(API_LEASE, l->namespace, l->name);
	json_t *lease = NULL;
	int r = api_get(l->kube, path, &lease, err);
	if (r >= 0)
		keep_seen_lease(l, lease);
	return r;
}

void lease_saw(struct lease *l, json_t *lease)
{
	keep_seen_lease(l, lease ? json_incref(lease) : NULL);
}

bool lease_is_free(const struct lease *l)
{
	json_int_t s = json_integer_value(lease_spec(l, "leaseDurationSeconds"));
	long duration_ms = (long)(s > 0 && s < 3600 ? s : l->duration_s) * 1000;
	return !l->other || kube_now_ms() - l->seen_ms > duration_ms;
}

// MicroTime of the API: RFC 3339 with microseconds. Borrowed until so many later writes.
static const char *next_renew_time(struct lease *l)
{
	char *text = l->sent[l->writes++ % LEASE_SENT];
	struct timespec t;
	struct tm tm;
	clock_gettime(CLOCK_REALTIME, &t);
	gmtime_r(&t.tv_sec, &tm);
	size_t len = strftime(text, LEASE_TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + len, LEASE_TIME_TEXT - len, ".%06ldZ", t.tv_nsec / 1000);
	return text;
}

static int write_lease_object(struct lease *l, enum lease_hold hold, json_t *notes, struct err *err)
{
	auto_str char *path = api_path(API_LEASE, l->namespace, l->seen ? l->name : NULL);
	const char *now = next_renew_time(l);
	const char *since = json_string_value(lease_spec(l, "acquireTime"));
	bool is_new = hold == LEASE_TAKE;
	auto_json json_t *lease = json_pack(
		"{s:s, s:s, s:{s:s, s:s*, s:o}, s:{s:s, s:i, s:s, s:s, s:I}}", "apiVersion", "coordination.k8s.io/v1",
		"kind", "Lease", "metadata", "name", l->name, "resourceVersion", l->version, "annotations", notes,
		"spec", "holderIdentity", hold == LEASE_LEAVE ? "" : l->holder, "leaseDurationSeconds",
		(int)l->duration_s, "renewTime", now, "acquireTime", is_new || !since ? now : since, "leaseTransitions",
		(json_int_t)l->transitions + (is_new && l->seen ? 1 : 0));
	json_t *written = NULL;
	int r = l->seen ? api_change(l->kube, API_REPLACE, path, lease, &written, err) :
			  api_create(l->kube, path, lease, &written, err);
	if (r > 0) {
		keep_seen_lease(l, written);
		memset(l->sent, 0, sizeof(l->sent)); // a backup may have them, too
	}
	return r;
}

static bool is_own_write(const struct lease *l)
{
	const char *time = json_string_value(lease_spec(l, "renewTime"));
	bool is_sent = false;
	for (size_t i = 0; i < LEASE_SENT && time; i++)
		is_sent = is_sent || str_eq(time, l->sent[i]);
	return is_sent;
}

int lease_write(struct lease *l, enum lease_hold hold, json_t *notes, struct err *err)
{
	auto_json json_t *same = notes;
	int r = write_lease_object(l, hold, json_incref(same), err);
	if (r != 0)
		return r;
	// The faster writer may be ourselves.
	if (lease_read(l, err) < 0)
		return -1;
	if (!str_eq(json_string_value(lease_spec(l, "holderIdentity")), l->holder))
		return 0;
	bool is_lost = !is_own_write(l);
	l->resets += is_lost;
	json_t *there = json_object_get(json_object_get(l->seen, "metadata"), "annotations");
	auto_json json_t *kept = hold != LEASE_KEEP || !is_lost ? json_incref(same) :
				 there                          ? json_incref(there) :
								  json_object();
	return write_lease_object(l, hold == LEASE_TAKE ? LEASE_KEEP : hold, json_incref(kept), err);
}
