// SPDX-License-Identifier: Apache-2.0
// Whoever guesses tokens must neither keep the API server busy nor others out. So one token of each address waits for
// its verdict, in turn with those of other addresses; and who was let in has a place of their own, which no refusal
// takes, and is reviewed again without queueing.
#include "cmd/container/login.h"

#include "base/core/date.h"
#include "base/file/digest.h"
#include "cluster/kube/access.h"
#include "cluster/node_state/annotations.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

enum { ADMITTED = 32, ASKED = 8, LOGIN_MS = 60000, FAILURE_MS = 1000, REVIEW_MS = 50 };

struct entry {
	char digest[DIGEST_HEX + 1]; // of the token; "" = free
	char *token;                 // while it waits for its verdict; else NULL
	char user[OBJECT_TEXT];      // "" = nobody's
	char address[INET6_ADDRSTRLEN];
	long since_ms, until_ms; // it waits since; the verdict holds until
};

struct login {
	pthread_mutex_t lock; // of all below but kube and review_ms
	struct entry admitted[ADMITTED], asked[ASKED];
	struct err failure; // of the last review
	long failure_ms;    // until then nobody is reviewed
	struct kube *kube;
	long review_ms; // of the last one
	int event;
};

int login_open(struct kube *kube, struct login **ret, struct err *err)
{
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (event < 0) {
		kube_free(kube);
		return err_set(err, errno, "wait for logins");
	}
	struct login *l = mem_alloc(sizeof(*l));
	l->kube = kube;
	l->event = event;
	pthread_mutex_init(&l->lock, NULL);
	*ret = l;
	return 0;
}

static void entry_free(struct entry *e)
{
	free(e->token);
	*e = (struct entry){ 0 };
}

void login_close(struct login *l)
{
	if (!l)
		return;
	for (struct entry *e = l->admitted; e < l->admitted + ADMITTED; e++)
		entry_free(e);
	for (struct entry *e = l->asked; e < l->asked + ASKED; e++)
		entry_free(e);
	kube_free(l->kube);
	close_fdp(&l->event);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

int login_fd(const struct login *l)
{
	return l->event;
}

static struct entry *find_entry(struct entry *entries, size_t count, const char *digest)
{
	for (struct entry *e = entries; e < entries + count; e++)
		if (str_eq(e->digest, digest))
			return e;
	return NULL;
}

static void queue_entry(struct login *l, struct entry *e, const char *token)
{
	e->token = str_dup(token);
	e->since_ms = clock_ms();
	eventfd_write(l->event, 1);
}

// NULL = one of this address waits, or too many others do.
static struct entry *take_place(struct login *l, const char *address)
{
	struct entry *oldest = NULL;
	for (struct entry *e = l->asked; e < l->asked + ASKED; e++) {
		if (e->token && str_eq(e->address, address))
			return NULL;
		if (!e->token && (!oldest || e->until_ms < oldest->until_ms))
			oldest = e;
	}
	if (oldest)
		entry_free(oldest);
	return oldest;
}

// A token that could not be in a header, or in JSON, was issued by nobody.
static bool is_token(const char *text)
{
	for (; *text; text++)
		if (!isgraph((unsigned char)*text))
			return false;
	return true;
}

static int refuse(struct http_server_answer *ret, const struct entry *e, const char *token)
{
	enum { UNAUTHORIZED = 401, FORBIDDEN = 403 };
	bool is_known = e && *e->user;
	ret->status = is_known ? FORBIDDEN : UNAUTHORIZED;
	ret->text = is_known ? str_fmt("%s may not list nodes\n", e->user) :
			       str_dup(token ? "this token is not valid, or no longer\n" :
					       "a bearer token is required, of a user who may list nodes\n");
	return 0;
}

static int check_entry(struct login *l, const struct http_server_request *request, struct http_server_answer *ret,
		       struct err *err)
{
	char digest[DIGEST_HEX + 1];
	long now = clock_ms();
	digest_data(request->token, strlen(request->token), digest);
	struct entry *e = find_entry(l->admitted, ADMITTED, digest);
	if (e && now < e->until_ms)
		return 1;
	if (now < l->failure_ms) {
		*err = l->failure;
		return -1;
	}
	e = e ? e : find_entry(l->asked, ASKED, digest);
	if (e && !e->token && now < e->until_ms)
		return refuse(ret, e, request->token);
	if (!e && (e = take_place(l, request->address)))
		snprintf(e->address, sizeof(e->address), "%s", request->address);
	if (!e) {
		ret->text = str_dup("too many requests; try again in a moment\n");
		return 0;
	}
	memcpy(e->digest, digest, sizeof(digest));
	if (!e->token)
		queue_entry(l, e, request->token);
	ret->is_later = true;
	return 0;
}

int login_check(struct login *l, const struct http_server_request *request, struct http_server_answer *ret,
		struct err *err)
{
	enum { UNAVAILABLE = 503 };
	if (!request->token || !is_token(request->token))
		return refuse(ret, NULL, request->token);
	pthread_mutex_lock(&l->lock);
	int may = check_entry(l, request, ret, err);
	pthread_mutex_unlock(&l->lock);
	if (may < 0)
		ret->status = UNAVAILABLE;
	return may;
}

static struct entry *find_waiting(struct entry *entries, size_t count)
{
	struct entry *first = NULL;
	for (struct entry *e = entries; e < entries + count; e++)
		if (e->token && (!first || e->since_ms < first->since_ms))
			first = e;
	return first;
}

static struct entry *find_next(struct login *l)
{
	struct entry *e = find_waiting(l->admitted, ADMITTED);
	return e ? e : find_waiting(l->asked, ASKED);
}

// In place of the one whose verdict is the oldest; of a free place it is 0.
static void admit(struct login *l, struct entry *e)
{
	struct entry *place = l->admitted;
	for (struct entry *other = l->admitted; other < l->admitted + ADMITTED; other++)
		place = other->until_ms < place->until_ms ? other : place;
	entry_free(place);
	*place = *e;
	*e = (struct entry){ 0 };
}

static void note_verdict(struct login *l, struct entry *e, bool may, const char *user)
{
	bool was_admitted = e >= l->admitted && e < l->admitted + ADMITTED;
	free(TAKE(e->token));
	e->until_ms = l->review_ms + LOGIN_MS;
	snprintf(e->user, sizeof(e->user), "%s", user ? user : "");
	if (may && !was_admitted)
		admit(l, e);
	else if (!may && was_admitted)
		entry_free(e);
}

// Whoever waits is told at once: their own reviews would wait for the same deadline, one after the other.
static void note_failure(struct login *l, const struct err *why)
{
	l->failure = *why;
	l->failure_ms = l->review_ms + FAILURE_MS;
	for (struct entry *e = l->admitted; e < l->admitted + ADMITTED; e++)
		free(TAKE(e->token));
	for (struct entry *e = l->asked; e < l->asked + ASKED; e++)
		if (e->token)
			entry_free(e);
}

int login_review(struct login *l, bool *ret_is_news)
{
	static const struct access_want look = { "list", "", "nodes" };
	auto_str char *user = NULL;
	struct err err;
	eventfd_t ignored;
	eventfd_read(l->event, &ignored);
	*ret_is_news = false;
	long left = l->review_ms + REVIEW_MS - clock_ms();
	pthread_mutex_lock(&l->lock);
	struct entry *e = find_next(l); // nobody else changes one that waits
	pthread_mutex_unlock(&l->lock);
	if (!e || left > 0)
		return e ? (int)left : -1;
	int may = access_review(l->kube, e->token, &look, &user, &err);
	l->review_ms = clock_ms();
	*ret_is_news = true;
	pthread_mutex_lock(&l->lock);
	if (may < 0)
		note_failure(l, &err);
	else
		note_verdict(l, e, may > 0, user);
	bool is_more = find_next(l) != NULL;
	pthread_mutex_unlock(&l->lock);
	return is_more ? REVIEW_MS : -1;
}
