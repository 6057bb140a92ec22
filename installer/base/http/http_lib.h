// SPDX-License-Identifier: Apache-2.0
// libcurl, loaded with the first request. With its 25 or so libraries it costs a start 3 ms, and the starts that matter
// (the requested driver is loaded, a probe, a status) make no request.
#pragma once
#include "base/core/err.h"

#include <curl/curl.h>

#define HTTP_LIB(X)            \
	X(easy_cleanup)        \
	X(easy_escape)         \
	X(easy_getinfo)        \
	X(easy_header)         \
	X(easy_init)           \
	X(easy_setopt)         \
	X(easy_strerror)       \
	X(free)                \
	X(global_cleanup)      \
	X(global_init)         \
	X(multi_add_handle)    \
	X(multi_cleanup)       \
	X(multi_info_read)     \
	X(multi_init)          \
	X(multi_perform)       \
	X(multi_poll)          \
	X(multi_remove_handle) \
	X(multi_strerror)      \
	X(slist_append)        \
	X(slist_free_all)      \
	X(url)                 \
	X(url_cleanup)         \
	X(url_get)             \
	X(url_set)

struct http_lib { // curl.easy_init is curl_easy_init, and so on
#define X(name) __typeof__(curl_##name) *(name);
	HTTP_LIB(X)
#undef X
};
extern struct http_lib curl;

int http_lib_load(struct err *err); // once; 0, or why it cannot be loaded
