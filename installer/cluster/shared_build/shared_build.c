// SPDX-License-Identifier: Apache-2.0
#include "cluster/shared_build/shared_build.h"

#include "base/core/date.h"
#include "base/file/digest.h"
#include "base/file/file.h"
#include "base/file/lockfile.h"
#include "precompiled/package/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>

enum { DURATION_S = 60, WAIT_S = 3600 };

// What the Lease says about a compile, for those who wait for it: "failed CODE: text", "kept CODE: text", "made".
static const char FAILED[] = "failed ", KEPT[] = "kept ", MADE[] = "made";

static int open_share_kube(struct shared_build *s, struct err *err)
{
	const struct shared_build_request *r = &s->request;
	const char *where = r->lease ? r->lease : "auto";
	auto_kube_config struct kube_config config = KUBE_CONFIG_NONE;
	if (str_eq(where, "off"))
		return 0;
	int found = kube_config_find(r->kubeconfig, r->acquire->node->kern, &config, err);
	if (found < 0 || (found == 0 && str_eq(where, "auto")))
		return found;
	if (found == 0)
		return err_set(
			err, E_USAGE,
			"--compile-lease %s: this is not a pod with a service account, and --kubeconfig was not given",
			where);
	auto_str char *host = NULL;
	const char *node = getenv("NODE_NAME");
	if ((!node && root_line(r->acquire->node->kern, "proc/sys/kernel/hostname", &host, err) < 0) ||
	    kube_open(&config, &s->kube, err) < 0)
		return -1;
	build_lease_init(s->kube, str_eq(where, "auto") ? BUILD_LEASE_NAMESPACE : where, s->key,
			 node ? node :
			 host ? host :
				"node",
			 r->lease_duration_s ? r->lease_duration_s : DURATION_S, &s->lease);
	return 0;
}

// All that a package must match to serve everybody who asks with this key.
static char *share_key(const struct shared_build_request *w)
{
	const struct package_want *want = &w->acquire->want;
	auto_strv struct strv modules = { 0 };
	for (size_t i = 0; i < want->modules->count; i++)
		strv_add(&modules, str_dup(want->modules->items[i]));
	strv_sort(&modules);
	auto_str char *names = strv_join(&modules, ",");
	return str_fmt("%s %s %s %s %s %s %s", w->source->version, module_type_name(w->flavour), want->release,
		       want->build_id && *want->build_id ? want->build_id : "-", want->arch, w->source->digest,
		       names && *names ? names : "all");
}

static struct progress *progress_of(const struct shared_build *s)
{
	return s->request.acquire->node->progress;
}

// 1 = the store or a source has it by now, of this source: `who` made it.
static int find_shared_package(struct shared_build *s, const char *who)
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
	if (r > 0)
		progress_end(progress_of(s), "share", "%s made it", who);
	return r > 0;
}

// How a look at the Lease ends; TURN_FAILED: the Lease cannot be used.
enum turn { TURN_FAILED = -1, TURN_COMPILE, TURN_FOUND, TURN_AGAIN, TURN_HOPELESS };

// Waits until the holder has left the Lease, and goes by what it left there.
static enum turn wait_for_holder(struct shared_build *s, const char *who, long left_s, struct err *why, struct err *err)
{
	struct progress *w = progress_of(s);
	unsigned most_s = s->lease.lease.duration_s + 1;
	progress_note(w, "%s compiles it; waiting for the package", who);
	int r = build_lease_wait(&s->lease, (left_s < most_s ? (unsigned)left_s : most_s) * 1000, why);
	s->idle_s = clock_ms() / 1000;
	if (r <= 0)
		return r < 0 ? TURN_FAILED : TURN_AGAIN;
	if (find_shared_package(s, who))
		return TURN_FOUND;
	const char *outcome = build_lease_outcome(&s->lease);
	if (!outcome)
		return TURN_AGAIN;
	// A failure there that is not retryable would only repeat itself here, an hour later.
	if (str_starts(outcome, FAILED)) {
		const char *text = outcome + strlen(FAILED);
		auto_str char *name = str_ndup(text, strcspn(text, ":"));
		const struct err_info *info = err_info_by_name(name);
		if (!info || info->retryable)
			return TURN_AGAIN;
		err_set(err, info->code, "%s compiled it for all: %s", who, text);
		return TURN_HOPELESS;
	}
	// The package exists and does not get here: everybody compiles now, instead of one after the other in vain.
	if (str_starts(outcome, KEPT))
		progress_note(w, "%s cannot push what it compiles (%s); this node compiles for itself", who,
			      outcome + strlen(KEPT));
	else if (str_eq(outcome, MADE))
		progress_note(w,
			      "%s pushed it, and this node does not find it, or not believe it; it compiles for itself",
			      who);
	else
		return TURN_AGAIN;
	return TURN_COMPILE;
}

// One turn of a node that is not a builder. left_s: until it compiles for itself.
static enum turn follower_turn(struct shared_build *s, long left_s, struct err *why, struct err *err)
{
	enum { PAUSE_S = 2 };
	struct progress *w = progress_of(s);
	int r = build_lease_read(&s->lease, why);
	if (r < 0)
		return TURN_FAILED;
	auto_str char *who = str_dup(r > 0 ? s->lease.lease.other : "a builder");
	if (left_s <= 0 || (r == 0 && clock_ms() / 1000 - s->idle_s >= s->lease.lease.duration_s)) {
		progress_note(w, "%s; this node compiles for itself",
			      r > 0 ? "the builder takes too long" : "no builder has begun with it");
		return TURN_COMPILE;
	}
	if (r > 0)
		return wait_for_holder(s, who, left_s, why, err);
	nanosleep(&(struct timespec){ .tv_sec = PAUSE_S }, NULL);
	return find_shared_package(s, who) ? TURN_FOUND : TURN_AGAIN;
}

// Whether the repository takes a push: what is to be made, as text, in a blob that nothing refers to.
static int check_push(const struct shared_build *s, struct err *err)
{
	const struct shared_build_request *w = &s->request;
	struct oci_descriptor d = { .media_type = (char[]){ "text/plain" }, .size = strlen(s->key) };
	auto_repository struct repository *to = NULL;
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_layout struct layout layout = LAYOUT_NONE;
	if (repository_open(w->repository, w->remote, &to, err) < 0 ||
	    scratch_make(w->acquire->node->state, "share", &work, err) < 0 ||
	    layout_make(&work.root, &layout, err) < 0 ||
	    layout_blob_put(&layout, s->key, strlen(s->key), d.digest, err) < 0)
		return -1;
	return repository_put_blob(to, &layout, &d, err);
}

// One turn of a builder. end: when it compiles even without the Lease.
static enum turn builder_turn(struct shared_build *s, long end, struct err *why, struct err *err)
{
	struct progress *w = progress_of(s);
	struct err push, ignored;
	int r = build_lease_try(&s->lease, why);
	if (r < 0)
		return TURN_FAILED;
	if (r == 0) {
		auto_str char *who = str_dup(s->lease.lease.other ? s->lease.lease.other : "another node");
		long left = end - clock_ms() / 1000;
		if (left > 0)
			return wait_for_holder(s, who, left, why, err);
		progress_note(w, "%s compiles for too long; this node compiles for itself", who);
		return TURN_COMPILE;
	}
	if (find_shared_package(s, "another node")) { // made between our last look and the Lease
		build_lease_release(&s->lease, NULL, &ignored);
		return TURN_FOUND;
	}
	// A node that cannot push keeps nobody waiting; it tries again once there is a package.
	if (check_push(s, &push) < 0) {
		auto_str char *outcome = str_fmt("%s%s: %s", KEPT, err_info(push.code)->name, push.text);
		progress_note(w, "%s cannot be pushed to, each node compiles for itself: %s: %s", s->request.repository,
			      err_info(push.code)->name, push.text);
		build_lease_release(&s->lease, outcome, &ignored);
	}
	return TURN_COMPILE;
}

static int enter_lease(struct shared_build *s, struct err *err)
{
	struct err why;
	enum turn turn;
	s->idle_s = clock_ms() / 1000;
	long end = s->idle_s + (s->request.timeout_s ? (long)s->request.timeout_s : WAIT_S);
	if (!s->request.is_builder)
		progress_note(progress_of(s), "waiting for a builder, at most %u s until one begins",
			      s->lease.lease.duration_s);
	do
		turn = s->request.is_builder ? builder_turn(s, end, &why, err) :
					       follower_turn(s, end - clock_ms() / 1000, &why, err);
	while (turn == TURN_AGAIN);
	if (turn == TURN_FAILED)
		progress_note(progress_of(s), "no Lease (%s); this node compiles for itself", why.text);
	return turn == TURN_HOPELESS ? -1 : turn == TURN_FOUND;
}

static int open_compile_lock(struct shared_build *s, struct err *err)
{
	const struct root *state = s->request.acquire->node->state;
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
		progress_note(progress_of(s), "no lock (%s); this process compiles for itself", why.text);
		return 0;
	}
	while (flock(s->lock, LOCK_EX | LOCK_NB) < 0 && (errno == EWOULDBLOCK || errno == EINTR) &&
	       clock_ms() / 1000 < end) {
		if (!is_waiting)
			progress_note(progress_of(s), "another process compiles it; waiting for the package");
		is_waiting = true;
		nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
	}
	if (!is_waiting || !find_shared_package(s, "another process"))
		return 0;
	close_fdp(&s->lock);
	s->lock = -1;
	return 1;
}

static int enter_shared_build(void *ctx, struct err *err)
{
	struct shared_build *s = ctx;
	progress_enter(progress_of(s), "share");
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
		progress_note(progress_of(s), "the Lease %s: %s",
			      r < 0 ? "could not be renewed" : "is another node's now",
			      r < 0 ? why.text : "both compile");
}

// Signs what was made, and pushes it.
static int push_package(const struct shared_build *s, const struct package *made, struct err *err)
{
	const struct shared_build_request *w = &s->request;
	const struct layout *store = &w->acquire->store.layout;
	auto_str char *from_name = repository_name(REPOSITORY_LAYOUT, store->root.name);
	auto_str char *tag = package_tag(&made->key);
	auto_repository struct repository *from = NULL, *to = NULL;
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_layout struct layout layout = LAYOUT_NONE;
	for (size_t i = 0; i < s->signers.count; i++)
		if (signature_make(store, &made->manifest, &s->signers.makers[i], err) < 0)
			return -1;
	if (repository_open(from_name, w->remote, &from, err) < 0 ||
	    repository_open(w->repository, w->remote, &to, err) < 0 ||
	    scratch_make(w->acquire->node->state, "share", &work, err) < 0 || layout_make(&work.root, &layout, err) < 0)
		return -1;
	int r = copy_to_layout(from, tag, &layout, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_NOT_FOUND, "the store has no %s", tag);
	return copy_to_repository(&layout, to, NULL, NULL, err);
}

// Signed and kept until the package is there.
static void keep_beside(void *ctx, const struct root *tree, const struct asset_key *key)
{
	struct shared_build *s = ctx;
	const struct shared_build_request *w = &s->request;
	auto_oci_descriptor struct oci_descriptor manifest = { 0 };
	struct err err;
	if (!w->is_builder)
		return;
	int r = s->beside.root.fd >= 0 ? 0 :
		scratch_make(w->acquire->node->state, "share", &s->beside_work, &err) < 0 ?
					 -1 :
					 layout_make(&s->beside_work.root, &s->beside, &err);
	r = r < 0 ? -1 : asset_create(&s->beside, tree, key, &manifest, &err);
	for (size_t i = 0; i < s->signers.count && r == 0; i++)
		r = signature_make(&s->beside, &manifest, &s->signers.makers[i], &err);
	if (r < 0)
		progress_note(progress_of(s), "the %s of this compile will not be shared: %s: %s", key->kind->name,
			      err_info(err.code)->name, err.text);
}

static void note_pushed(void *ctx, const char *text)
{
	const struct shared_build *s = ctx;
	if (!str_starts(text, "sha256-")) // signatures
		progress_note(progress_of(s), "pushed %s to %s, too", text, s->request.repository);
}

static void push_beside(struct shared_build *s)
{
	const struct shared_build_request *w = &s->request;
	auto_repository struct repository *to = NULL;
	struct err err;
	if (s->beside.root.fd >= 0 && (repository_open(w->repository, w->remote, &to, &err) < 0 ||
				       copy_to_repository(&s->beside, to, note_pushed, s, &err) < 0))
		progress_note(progress_of(s), "what this compile made besides the package is not shared: %s: %s",
			      err_info(err.code)->name, err.text);
}

static void leave_shared_build(void *ctx, const struct package *made, const struct err *why)
{
	struct shared_build *s = ctx;
	struct progress *w = progress_of(s);
	struct err err;
	auto_str char *outcome = NULL;
	bool is_pushed = false;
	if (made && !s->request.is_builder) {
		progress_end(w, "share", "kept on this node, which is not a builder");
	} else if (!made) {
		outcome = str_fmt("%s%s: %s", FAILED, err_info(why->code)->name, why->text);
	} else if (push_package(s, made, &err) < 0) {
		outcome = str_fmt("%s%s: %s", KEPT, err_info(err.code)->name, err.text);
		progress_note(w, "the package is not shared, and serves this node alone: %s: %s",
			      err_info(err.code)->name, err.text);
	} else {
		outcome = str_dup(MADE);
		progress_end(w, "share", "pushed to %s", s->request.repository);
		is_pushed = true;
	}
	if (s->kube && build_lease_release(&s->lease, outcome, &err) < 0)
		progress_note(w, "the Lease stays until it runs out: %s", err.text);
	close_fdp(&s->lock);
	s->lock = -1;
	if (is_pushed)
		push_beside(s);
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
	ret->gate = (struct compile_gate){ .enter = enter_shared_build,
					   .beside = keep_beside,
					   .tick = renew_shared_build,
					   .leave = leave_shared_build,
					   .ctx = ret };
	s = SHARED_BUILD_NONE;
	return 0;
}

void shared_build_done(struct shared_build *s)
{
	build_lease_done(&s->lease);
	kube_free(s->kube);
	signers_done(&s->signers);
	free(s->key);
	layout_done(&s->beside);
	scratch_done(&s->beside_work);
	close_fdp(&s->lock);
	*s = SHARED_BUILD_NONE;
}
