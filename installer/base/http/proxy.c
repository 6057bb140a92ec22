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
	if (a->family != net->family || bits > (a->family == AF_INET ? 32 : 128))
		return false;
	if (memcmp(a->bytes, net->bytes, whole) != 0)
		return false;
	return rest == 0 || ((a->bytes[whole] ^ net->bytes[whole]) >> (8 - rest)) == 0;
}

static bool is_domain(const char *host, const char *name)
{
	name += *name == '.';
	size_t h = strlen(host), n = strlen(name);
	h -= h > 0 && host[h - 1] == '.';
	n -= n > 0 && name[n - 1] == '.';
	if (n == 0 || n > h || strncasecmp(host + h - n, name, n) != 0)
		return false;
	return h == n || host[h - n - 1] == '.';
}

// An entry of no_proxy, which is cut into its parts.
static bool is_matched(char *entry, const char *host, unsigned port)
{
	if (str_eq(entry, "*"))
		return true;
	// A port follows the only colon, or one after a bracket: other colons belong to an IPv6 address.
	char *colon = strrchr(entry, ':');
	uint64_t number = 0, bits = 0;
	if (colon && str_u64(colon + 1, 10, &number) &&
	    (strchr(entry, ':') == colon || (colon > entry && colon[-1] == ']'))) {
		*colon = '\0';
		if (number != port)
			return false;
	}
	char *slash = strchr(entry, '/');
	if (slash) {
		if (!str_u64(slash + 1, 10, &bits))
			return false;
		*slash = '\0';
	}
	struct address a = parse_address(host), net = parse_address(entry);
	if (net.family == AF_UNSPEC)
		return !slash && a.family == AF_UNSPEC && is_domain(host, entry);
	return a.family != AF_UNSPEC && is_in_range(&a, &net, slash ? bits : net.family == AF_INET ? 32 : 128);
}

char *proxy_choose(const char *proxy, const char *no_proxy, const char *scheme, const char *host, unsigned port)
{
	auto_strv struct strv entries = { 0 };
	const char *chosen = proxy;
	if (!chosen)
		chosen = str_eq(scheme, "https") ? either_variable("https_proxy", "HTTPS_PROXY") :
						   either_variable("http_proxy", "HTTP_PROXY");
	if (!chosen)
		chosen = either_variable("all_proxy", "ALL_PROXY");
	if (!chosen || !*chosen)
		return NULL;
	const char *except = no_proxy ? no_proxy : either_variable("no_proxy", "NO_PROXY");
	strv_split(&entries, except ? except : "", ", \t\n");
	for (size_t i = 0; i < entries.count; i++)
		if (is_matched(entries.items[i], host, port))
			return NULL;
	return str_dup(chosen);
}
