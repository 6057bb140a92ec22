// SPDX-License-Identifier: Apache-2.0
#include "cluster/shared_build/shared_build.h"

#include "base/core/date.h"
#include "base/file/digest.h"
#include "base/file/file.h"
#include "base/file/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>

enum { DURATION_S = 60, WAIT_S = 3600 };

// What the Lease says of a compile, for those who wait for it: "failed CODE: text", "kept CODE: text", "made".
static const char FAILED[] = "failed ", KEPT[] = "kept ", MADE[] = "made";

static int open_share_kube(struct shared_build *s, struct err *err)
{
	const struct shared_build_request *r = &s->request;
	const char *where = r->lease ? r->lease : "auto";
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	if (str_eq(where, "off"))
		return 0;
	int found = r->kubeconfig ? kube_config_file(r->kubeconfig, NULL, &config, err) :
				    kube_config_pod(r->kern, environ, &config, err);
	if (found < 0 || (found == 0 && !config.server && str_eq(where, "auto")))
		return found;
	if (!config.server)
		return err_set(
			err, E_USAGE,
			"--compile-lease %s: this is not a pod with a service account, and --kubeconfig was not given",
			where);
	auto_str char *host = NULL;
	const char *node = getenv("NODE_NAME");
	if ((!node && root_line(r->kern, "proc/sys/kernel/hostname", &host, err) < 0) ||
	    kube_open(&config, &s->kube, err) < 0)
		return -1;
	build_lease_init(s->kube, str_eq(where, "auto") ? BUILD_LEASE_NAMESPACE : where, s->key,
			 node ? node :
			 host ? host :
				"node",
			 r->lease_duration_s ? r->lease_duration_s : DURATION_S, &s->lease);
	return 0;
}

// What a package must be to serve all who ask with this key.
static char *share_key(const struct shared_build_request *w)
{
	auto_strv struct strv modules = { 0 };
	for (size_t i = 0; i < w->modules->count; i++)
		strv_add(&modules, str_dup(w->modules->items[i]));
	strv_sort(&modules);
	auto_str char *names = strv_join(&modules, ",");
	return str_fmt("%s %s %s %s %s %s %s", w->source->version, module_type_name(w->flavour), w->release,
		       *w->build_id ? w->build_id : "-", w->arch, w->source->digest, names && *names ? names : "all");
}

// 1 = the store or a source has it by now: of this source, where no driver was named.
static int find_shared_package(struct shared_build *s)
{
	struct acquire *o = s->request.acquire;
	struct err why;
	char *before = TAKE(o->why_not);
	const char *source = o->want.source;
	o->want.source = s->request.source->digest;
	int r = acquire_find(o, false, &why);
	o->want.source = source;
	free(o->why_not);
	o->why_not = before;
	return r > 0;
}

static int note_shared_package(struct shared_build *s, const char *who)
{
	progress_end(s->request.progress, "share", "%s made it", who);
	return 1;
}

// It failed there for a reason that is no accident; here it would fail the same way, an hour later.
static int has_failed_elsewhere(const struct shared_build *s, const char *who, struct err *err)
{
	const char *text = build_lease_outcome(&s->lease);
	if (!text || !str_starts(text, FAILED))
		return 0;
	text += strlen(FAILED);
	auto_str char *name = str_ndup(text, strcspn(text, ":"));
	const struct err_info *info = err_info_by_name(name);
	if (!info || info->retryable)
		return 0;
	err_set(err, info->code, "%s compiled it for all: %s", who, text);
	return 1;
}

// There is a package by now, and it does not come here. One after the other in line would wait for the next in vain.
static bool must_compile_alone(const struct shared_build *s, const char *who)
{
	const char *text = build_lease_outcome(&s->lease);
	bool is_kept = text && str_starts(text, KEPT);
	if (is_kept)
		progress_note(s->request.progress,
			      "%s cannot push what it compiles (%s); this node compiles for itself", who,
			      text + strlen(KEPT));
	else if (str_eq(text, MADE))
		progress_note(s->request.progress,
			      "%s pushed it, and this node does not find it, or not believe it; it compiles for itself",
			      who);
	return is_kept || str_eq(text, MADE);
}

// Who cannot push keeps nobody waiting. It compiles, and tries again when there is a package.
static void check_push_or_tell(struct shared_build *s)
{
	struct err err, ignored;
	if (shared_build_check_push(s, &err) == 0)
		return;
	auto_str char *outcome = str_fmt("%s%s: %s", KEPT, err_info(err.code)->name, err.text);
	progress_note(s->request.progress, "%s cannot be pushed to, each node compiles for itself: %s: %s",
		      s->request.repository, err_info(err.code)->name, err.text);
	build_lease_release(&s->lease, outcome, &ignored);
}

// What the one who had the Lease left: 1 = found, 0 = compile, 2 = another turn, 3 = it is hopeless.
static int after_lease(struct shared_build *s, const char *who, struct err *err)
{
	if (find_shared_package(s))
		return note_shared_package(s, who);
	if (has_failed_elsewhere(s, who, err))
		return 3;
	return must_compile_alone(s, who) ? 0 : 2;
}

// One turn of who is no builder, with the same answers. left_s: until it compiles for itself.
static int follower_turn(struct shared_build *s, long *begun_s, long left_s, struct err *why, struct err *err)
{
	enum { PAUSE_S = 2 };
	struct progress *w = s->request.progress;
	unsigned patience_s = s->lease.lease.duration_s;
	int r = build_lease_read(&s->lease, why);
	if (r < 0)
		return -1;
	auto_str char *who = str_dup(r > 0 ? s->lease.lease.other : "a builder");
	if (left_s <= 0 || (r == 0 && clock_ms() / 1000 - *begun_s >= patience_s)) {
		progress_note(w, "%s; this node compiles for itself",
			      r > 0 ? "the builder takes too long" : "no builder has begun with it");
		return 0;
	}
	if (r > 0) {
		progress_note(w, "%s compiles it; waiting for the package", who);
		unsigned bound = patience_s + 1;
		r = build_lease_wait(&s->lease, (left_s < bound ? (unsigned)left_s : bound) * 1000, why);
		*begun_s = clock_ms() / 1000;
		return r < 0 ? -1 : r == 0 ? 2 : after_lease(s, who, err);
	}
	nanosleep(&(struct timespec){ .tv_sec = PAUSE_S }, NULL);
	return find_shared_package(s) ? note_shared_package(s, who) : 2;
}

// One turn with the Lease: 1 = found, 0 = compile, 2 = another turn, 3 = it is hopeless.
static int builder_turn(struct shared_build *s, long end, struct err *why, struct err *err)
{
	struct progress *w = s->request.progress;
	int r = build_lease_try(&s->lease, why);
	if (r < 0)
		return -1;
	if (r > 0 && find_shared_package(s)) { // between our look and the Lease
		struct err ignored;
		build_lease_release(&s->lease, NULL, &ignored);
		return note_shared_package(s, "another node");
	}
	if (r > 0) {
		check_push_or_tell(s);
		return 0;
	}
	auto_str char *who = str_dup(s->lease.lease.other ? s->lease.lease.other : "another node");
	long left = end - clock_ms() / 1000;
	if (left <= 0) {
		progress_note(w, "%s compiles for too long; this node compiles for itself", who);
		return 0;
	}
	progress_note(w, "%s compiles it; waiting for the package", who);
	unsigned bound = s->lease.lease.duration_s + 1;
	r = build_lease_wait(&s->lease, (left < bound ? (unsigned)left : bound) * 1000, why);
	return r < 0 ? -1 : r == 0 ? 2 : after_lease(s, who, err);
}

static int enter_lease(struct shared_build *s, struct err *err)
{
	struct err why;
	long begun = clock_ms() / 1000, end = begun + (s->request.timeout_s ? (long)s->request.timeout_s : WAIT_S);
	int r;
	if (!s->request.is_builder)
		progress_note(s->request.progress, "waiting for a builder, at most %u s until one begins",
			      s->lease.lease.duration_s);
	while ((r = s->request.is_builder ? builder_turn(s, end, &why, err) :
					    follower_turn(s, &begun, end - clock_ms() / 1000, &why, err)) == 2)
		;
	if (r < 0)
		progress_note(s->request.progress, "no Lease (%s); this node compiles for itself", why.text);
	return r == 3 ? -1 : r > 0;
}

static int open_compile_lock(struct shared_build *s, struct err *err)
{
	const struct root *state = s->request.state;
	char digest[DIGEST_HEX + 1];
	digest_data(s->key, strlen(s->key), digest);
	auto_str char *name = str_fmt("compile-%.24s", digest);
	auto_root struct root locks = ROOT_NONE;
	if (root_mkdirs(state, "locks", 0755, err) < 0 || root_sub(state, "locks", &locks, err) < 0)
		return -1;
	s->lock = lockfile_open(locks.fd, name, O_RDWR);
	return s->lock < 0 ? file_fail("open", name, err) : 0;
}

static int enter_lock(struct shared_build *s)
{
	long end = clock_ms() / 1000 + (s->request.timeout_s ? (long)s->request.timeout_s : WAIT_S);
	bool is_waiting = false;
	struct err why;
	if (open_compile_lock(s, &why) < 0) {
		progress_note(s->request.progress, "no lock (%s); this process compiles for itself", why.text);
		return 0;
	}
	while (flock(s->lock, LOCK_EX | LOCK_NB) < 0 && (errno == EWOULDBLOCK || errno == EINTR) &&
	       clock_ms() / 1000 < end) {
		if (!is_waiting)
			progress_note(s->request.progress, "another process compiles it; waiting for the package");
		is_waiting = true;
		nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
	}
	if (!is_waiting || !find_shared_package(s))
		return 0;
	close_fdp(&s->lock);
	s->lock = -1;
	return note_shared_package(s, "another process");
}

static int enter_shared_build(void *ctx, struct err *err)
{
	struct shared_build *s = ctx;
	progress_enter(s->request.progress, "share");
	return s->kube ? enter_lease(s, err) : enter_lock(s);
}

static void renew_shared_build(void *ctx)
{
	struct shared_build *s = ctx;
	struct err why;
	if (!s->kube || !s->lease.is_held)
		return;
	int r = build_lease_renew(&s->lease, &why);
	if (r <= 0)
		progress_note(s->request.progress, "the Lease %s: %s",
			      r < 0 ? "could not be renewed" : "is another node's now",
			      r < 0 ? why.text : "both compile");
}

static void leave_shared_build(void *ctx, const struct package *made, const struct err *why)
{
	struct shared_build *s = ctx;
	struct progress *w = s->request.progress;
	struct err err;
	auto_str char *outcome = NULL;
	if (made && !s->request.is_builder) {
		progress_end(w, "share", "kept on this node, which is not a builder");
	} else if (!made) {
		outcome = str_fmt("%s%s: %s", FAILED, err_info(why->code)->name, why->text);
	} else if (shared_build_push(s, made, &err) < 0) {
		outcome = str_fmt("%s%s: %s", KEPT, err_info(err.code)->name, err.text);
		progress_note(w, "the package is not shared, and serves this node alone: %s: %s",
			      err_info(err.code)->name, err.text);
	} else {
		outcome = str_dup(MADE);
		progress_end(w, "share", "pushed to %s", s->request.repository);
	}
	if (s->kube && build_lease_release(&s->lease, outcome, &err) < 0)
		progress_note(w, "the Lease stays until it runs out: %s", err.text);
	close_fdp(&s->lock);
	s->lock = -1;
}

int shared_build_open(const struct shared_build_request *request, struct shared_build *ret, struct err *err)
{
	auto_shared_build struct shared_build s = SHARED_BUILD_NONE;
	s.request = *request;
	s.key = share_key(request);
	if ((request->is_builder && signers_open(request->keys, "kmodsmith", &s.signers, err) < 0) ||
	    open_share_kube(&s, err) < 0)
		return -1;
	*ret = s;
	ret->gate = (struct compile_gate){
		.enter = enter_shared_build, .tick = renew_shared_build, .leave = leave_shared_build, .ctx = ret
	};
	s = SHARED_BUILD_NONE;
	return 0;
}

void shared_build_done(struct shared_build *s)
{
	build_lease_done(&s->lease);
	kube_free(s->kube);
	signers_done(&s->signers);
	free(s->key);
	close_fdp(&s->lock);
	*s = SHARED_BUILD_NONE;
}
