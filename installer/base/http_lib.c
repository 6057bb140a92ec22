// SPDX-License-Identifier: Apache-2.0
#include "base/http_lib.h"

#include <dlfcn.h>

static const char FILE_NAME[] = "libcurl.so.4";

struct http_lib curl;

int http_lib_load(struct err *err)
{
	if (curl.global_init)
		return 0;
	struct http_lib lib;
	void *file = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
	if (!file)
		return err_set(err, E_NOT_FOUND, "a remote source needs libcurl: %s", dlerror());
#define X(name)                                           \
	*(void **)&lib.name = dlsym(file, "curl_" #name); \
	if (!lib.name)                                    \
		return err_set(err, E_NOT_FOUND, "libcurl is too old: %s", dlerror());
	HTTP_LIB(X)
#undef X
	curl = lib;
	return 0;
}
