// SPDX-License-Identifier: Apache-2.0
// What the status of a reply means. Apart from the client, because a simulated one replies, too.
#include "base/http/http.h"

#include <ctype.h>

// The beginning of a reply on one line; HTML and binary data do no harm.
static char *first_words(const struct http_call *c)
{
	enum { WORDS = 160 };
	size_t len = c->reply_len < WORDS ? c->reply_len : WORDS;
	char *text = str_ndup(c->reply ? c->reply : "", len);
	for (char *p = text; *p; p++)
		if (!isprint((unsigned char)*p))
			*p = ' ';
	return text;
}

static int code_of_status(long status)
{
	switch (status) {
	case 401:
	case 403:
	case 407:
		return E_AUTH;
	case 404:
	case 410:
		return E_NOT_FOUND;
	case 429:
		return E_SERVER;
	default:
		return status >= 500 ? E_SERVER : E_NETWORK;
	}
}

int http_status_error(const struct http_call *call, struct err *err)
{
	auto_str char *url = http_url_shown(call->url), *text = first_words(call);
	const char *words = str_trim(text), *method = call->method ? call->method : "GET";
	auto_str char *elsewhere = call->elsewhere ? http_url_shown(call->elsewhere) : NULL;
	return err_set(err, code_of_status(call->status), "%s %s: %s%s%sstatus %ld%s%s", method, url,
		       elsewhere ? "redirected to " : "", elsewhere ? elsewhere : "", elsewhere ? ": " : "",
		       call->status, *words ? ": " : "", words);
}
