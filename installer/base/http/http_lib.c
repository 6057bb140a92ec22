// SPDX-License-Identifier: Apache-2.0
#include "base/http/http_lib.h"

#include <dlfcn.h>
#include <netdb.h>

struct http_lib curl;

#ifdef KMODSMITH_STATIC
// The build for foreign roots (`make static`) makes no requests and loads no code from the machine that it runs on.
// libcrypto's calls for names, providers and engines end here (ld --wrap): glibc's own would need the files of the very
// glibc that it was linked with.
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret);
void __wrap_freeaddrinfo(struct addrinfo *list);
struct hostent *__wrap_gethostbyname(const char *name);
void *__wrap_dlopen(const char *file, int mode);

int http_lib_load(struct err *err)
{
	return err_set(err, E_NOT_FOUND, "kmodsmith-static has no remote sources; use the normal build");
}

int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
	(void)name, (void)service, (void)hints, (void)ret;
	return EAI_FAIL;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
	(void)list;
}

struct hostent *__wrap_gethostbyname(const char *name)
{
	(void)name;
	return NULL;
}

void *__wrap_dlopen(const char *file, int mode)
{
	(void)file, (void)mode;
	return NULL;
}
#else
static const char FILE_NAME[] = "libcurl.so.4";

int http_lib_load(struct err *err)
{
	if (curl.global_init)
		return 0;
	struct http_lib lib;
	// Lazily: to find every function that 25 libraries call of each other costs 1 MiB of memory of our own.
	void *file = dlopen(FILE_NAME, RTLD_LAZY | RTLD_LOCAL);
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
#endif
