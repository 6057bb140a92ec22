// SPDX-License-Identifier: Apache-2.0
// libcurl could read the environment itself, but it knows neither HTTP_PROXY nor HOST:PORT in no_proxy, and it cannot
// tell afterwards which proxy it took.
#include "base/http/proxy.h"

#include <arpa/inet.h>
#include <strings.h>

static const char *either_variable(const char *lower, const char *upper)
{
	const char *value = getenv(lower);
	if (!value || !*value)
		value = getenv(upper);
	return value && *value ? value : NULL;
}

struct address {
	int family; // AF_UNSPEC = it is a name
	unsigned char bytes[16];
};

// "[::1]" and "::1" are the same.
static struct address parse_address(const char *host)
{
	struct address a = { .family = AF_UNSPEC };
	char bare[INET6_ADDRSTRLEN];
	size_t len = strlen(host), brackets = len > 1 && host[0] == '[' && host[len - 1] == ']';
	len -= 2 * brackets;
	if (len >= sizeof(bare))
		return a;
	memcpy(bare, host + brackets, len);
	bare[len] = '\0';
	if (inet_pton(AF_INET, bare, a.bytes) == 1)
		a.family = AF_INET;
	else if (inet_pton(AF_INET6, bare, a.bytes) == 1)
		a.family = AF_INET6;
	return a;
}

static bool is_in_range(const struct address *a, const struct address *net, uint64_t bits)
{
	size_t whole = bits / 8, rest = bits % 8;
	if (a->family != net->family || memcmp(a->bytes, net->bytes, whole) != 0)
		return false;
	return rest == 0 || ((a->bytes[whole] ^ net->bytes[whole]) >> (8 - rest)) == 0;
}

static bool is_domain(const char *host, const char *name)
{
	size_t h = strlen(host), n = strlen(name);
	h -= h > 0 && host[h - 1] == '.';
	n -= n > 0 && name[n - 1] == '.';
	if (n == 0 || n > h || strncasecmp(host + h - n, name, n) != 0)
		return false;
	return h == n || host[h - n - 1] == '.';
}

struct exception {           // an entry of no_proxy
	const char *name;    // "" = every host
	struct address net;  // in place of a name
	uint64_t bits, port; // port 0 = any
};

// Letters of other alphabets may be written in a name, which no URL has.
static bool is_name(const char *s)
{
	for (; *s; s++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_", *s) && !(*s & 0x80))
			return false;
	return true;
}

// Cuts an entry into its parts. false = it means nothing.
static bool parse_exception(char *entry, struct exception *ret)
{
	*ret = (struct exception){ .name = "" };
	if (str_eq(entry, "*"))
		return true;
	// A port follows the only colon, or one after a bracket: other colons belong to an IPv6 address.
	char *colon = strrchr(entry, ':'), *slash = strchr(entry, '/');
	if (colon && (strchr(entry, ':') == colon || (colon > entry && colon[-1] == ']'))) {
		if (!str_u64(colon + 1, 10, &ret->port) || ret->port == 0 || ret->port > UINT16_MAX)
			return false;
		*colon = '\0';
	}
	if (slash)
		*slash = '\0';
	ret->net = parse_address(entry);
	if (ret->net.family == AF_UNSPEC) { // "*.DOMAIN" is ".DOMAIN", as in Go's programs
		ret->name = entry + (str_starts(entry, "*.") ? 2 : *entry == '.');
		return !slash && *ret->name && is_name(ret->name);
	}
	uint64_t most = ret->net.family == AF_INET ? 32 : 128;
	ret->bits = most;
	return !slash || (str_u64(slash + 1, 10, &ret->bits) && ret->bits <= most);
}

static bool is_excepted(const struct exception *x, const char *host, unsigned port)
{
	if (x->port && x->port != port)
		return false;
	struct address a = parse_address(host);
	if (x->net.family != AF_UNSPEC)
		return a.family != AF_UNSPEC && is_in_range(&a, &x->net, x->bits);
	return !*x->name || (a.family == AF_UNSPEC && is_domain(host, x->name));
}

static void split_exceptions(const char *no_proxy, struct strv *ret)
{
	const char *list = no_proxy ? no_proxy : either_variable("no_proxy", "NO_PROXY");
	strv_split(ret, list ? list : "", ", \t\n");
}

static const char *find_proxy(const char *given, const char *scheme)
{
	if (given)
		return *given ? given : NULL;
	const char *value = str_eq(scheme, "https") ? either_variable("https_proxy", "HTTPS_PROXY") :
						      either_variable("http_proxy", "HTTP_PROXY");
	return value ? value : either_variable("all_proxy", "ALL_PROXY");
}

char *proxy_choose(const char *proxy, const char *no_proxy, const char *scheme, const char *host, unsigned port)
{
	auto_strv struct strv entries = { 0 };
	const char *chosen = find_proxy(proxy, scheme);
	if (!chosen)
		return NULL;
	split_exceptions(no_proxy, &entries);
	for (size_t i = 0; i < entries.count; i++) {
		struct exception x;
		if (parse_exception(entries.items[i], &x) && is_excepted(&x, host, port))
			return NULL;
	}
	return str_dup(chosen);
}

void proxy_unusable_exceptions(const char *proxy, const char *no_proxy, struct strv *ret)
{
	auto_strv struct strv entries = { 0 };
	if (find_proxy(proxy, "https") || find_proxy(proxy, "http"))
		split_exceptions(no_proxy, &entries);
	for (size_t i = 0; i < entries.count; i++) {
		auto_str char *whole = str_dup(entries.items[i]);
		struct exception x;
		if (!parse_exception(entries.items[i], &x))
			strv_add(ret, TAKE(whole));
	}
}
