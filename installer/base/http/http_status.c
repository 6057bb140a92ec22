// SPDX-License-Identifier: Apache-2.0
// What the status of a reply means. Apart from the client, because a simulated one replies, too.
#include "base/http/http.h"

#include <ctype.h>

int http_status_error(const struct http_call *call, struct err *err)
{
	enum { WORDS = 160 };
	auto_str char *url = http_url_shown(call->url);
	auto_str char *elsewhere = call->elsewhere ? http_url_shown(call->elsewhere) : NULL;
	// The beginning of the reply on one line; HTML and binary data do no harm.
	auto_str char *text =
		str_ndup(call->reply ? call->reply : "", call->reply_len < WORDS ? call->reply_len : WORDS);
	for (char *p = text; *p; p++)
		if (!isprint((unsigned char)*p))
			*p = ' ';
	const char *words = str_trim(text), *method = call->method ? call->method : "GET";
	int code = call->status >= 500 ? E_SERVER : E_NETWORK;
	switch (call->status) {
	case 401:
	case 403:
	case 407:
		code = E_AUTH;
		break;
	case 404:
	case 410:
		code = E_NOT_FOUND;
		break;
	case 429:
		code = E_SERVER;
		break;
	default:
		break;
	}
	return err_set(err, code, "%s %s: %s%s%sstatus %ld%s%s", method, url, elsewhere ? "redirected to " : "",
		       elsewhere ? elsewhere : "", elsewhere ? ": " : "", call->status, *words ? ": " : "", words);
}
