// SPDX-License-Identifier: Apache-2.0
#include "precompiled/repository/retry.h"

#include "base/core/date.h"

enum { WAITS = 3, REFUSALS = 2, WAIT_MS = 100, WAIT_MAX_MS = 5000 };

int retry_is_due(struct remote_repository *r, const struct http_call *call, struct attempt *a, unsigned *ret_ms,
		 struct err *err)
{
	*ret_ms = 0;
	// Credentials belong to the original server: never send them to the target of a redirect.
	if (call->err.code == 0 && call->status == 401 && !call->elsewhere && r->on_unauthorized &&
	    a->refusals++ < REFUSALS)
		return r->on_unauthorized(r, call, err);
	// A connection lost after the server replied, or a server that is temporarily unavailable.
	bool is_passing = call->err.code ? call->err.code == E_NETWORK && call->status != 0 :
					   call->status == 429 || call->status >= 500;
	if (!is_passing || a->waits == WAITS)
		return 0;
	const char *after = call->err.code ? NULL : http_header(call, "Retry-After");
	uint64_t seconds = 0;
	unsigned ms = WAIT_MS << (2 * a->waits++);
	if (after && str_u64(after, 10, &seconds)) {
		if (seconds > WAIT_MAX_MS / 1000)
			return 0; // too long: leave it to the next run or another source
		ms = seconds ? (unsigned)seconds * 1000 : ms;
	}
	*ret_ms = ms;
	return 1;
}

int retry_wait(struct remote_repository *r, unsigned ms, struct err *err)
{
	for (long end = clock_ms() + (long)ms, left; (left = end - clock_ms()) > 0;)
		if (http_step(r->http, (int)left, err) < 0)
			return -1;
	return 0;
}

int retry_run(struct remote_repository *r, struct http_call *call, struct err *err)
{
	struct attempt a = { 0 };
	for (;;) {
		unsigned ms = 0;
		if (r->prepare)
			r->prepare(r, call);
		int failed = http_run(r->http, call, err);
		if (failed < 0 && call->err.code == 0) // it was never sent
			return -1;
		struct err why = *err;
		int again = retry_is_due(r, call, &a, &ms, err);
		if (again < 0)
			return -1;
		if (again == 0) {
			*err = why;
			return failed < 0 ? repository_unreached(r->repository.name, err) : 0;
		}
		http_end(call);
		if (retry_wait(r, ms, err) < 0)
			return -1;
	}
}

int retry_get(struct remote_repository *r, struct http_call *call, struct err *err)
{
	if (retry_run(r, call, err) < 0)
		return -1;
	if (call->status / 100 == 2)
		return 1;
	return call->status == 404 ? 0 : http_status_error(call, err);
}
