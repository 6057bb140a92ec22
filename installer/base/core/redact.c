// SPDX-License-Identifier: Apache-2.0
// Line by line, because regexec() takes memory and time for all of the text that it is given.
#include "base/core/redact.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <regex.h>
#include <strings.h>

#define REMOVED "(removed)"
#define SECRET_NAME "pass(word|wd|phrase)|secret|token|credential|api[-_]?key|authorization|pin-value|private[-_]?key"
#define NAMED "((" SECRET_NAME ")[[:alnum:]_.-]*"

// Without any of these a line has nothing for the rules, which take much longer.
#define HINT SECRET_NAME "|://|bearer|basic|eyJ"

// Removes what a match has behind its first group.
static const struct rule {
	const char *pattern, *with;
} rules[] = {
	{ "(://)[^[:space:]\"'/<>]*@", REMOVED "@" },
	{ "(://[^[:space:]\"'?<>]*[?])[^[:space:]\"'<>]+", REMOVED },
	{ NAMED "\\\\?[\"']?[[:blank:]]*[=:][[:blank:]]*\\\\?\")([^\"\\]|\\\\.)+", REMOVED }, // also JSON in JSON
	{ NAMED "[[:blank:]]*=[[:blank:]]*'?)[^[:space:]\"']+", REMOVED },
	{ NAMED ":[[:blank:]]*)[^[:blank:]\"][^\"]*", REMOVED },
	{ "((bearer|basic)[[:blank:]]+)[[:alnum:]_.~+/=-]{8,}", REMOVED },
	{ "()eyJ[[:alnum:]_-]{8,}[[:alnum:]_.-]*", REMOVED }, // a JSON web token
};

struct text { // that grows
	char *data;
	size_t len, room;
};

static void add_bytes(struct text *t, const char *data, size_t len)
{
	if (t->len + len + 1 > t->room) {
		t->room = 2 * (t->len + len + 1);
		t->data = mem_grow(t->data, t->room, 1);
	}
	memcpy(t->data + t->len, data, len);
	t->len += len;
	t->data[t->len] = '\0';
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static void compile_pattern(regex_t *x, const char *pattern, int flags)
{
	if (regcomp(x, pattern, REG_EXTENDED | REG_ICASE | flags) != 0) // they are ours
		abort();
}

void redact_done(struct redact *r)
{
	strv_done(&r->secrets);
	strv_done(&r->names);
	strv_done(&r->addresses);
}

void redact_add_environment(struct redact *r, char *const *env)
{
	enum { SHORTEST = 4 }; // "yes" is no secret
	regex_t secret;
	compile_pattern(&secret, "^[^=]*(" SECRET_NAME ")[^=]*=[^/]", REG_NOSUB); // a path is none
	for (; *env; env++) {
		const char *value = strchr(*env, '=');
		if (value && strlen(value + 1) >= SHORTEST && regexec(&secret, *env, 0, NULL, 0) == 0)
			strv_add(&r->secrets, str_dup(value + 1));
	}
	regfree(&secret);
}

void redact_add_name(struct redact *r, const char *name)
{
	enum { SHORTEST = 3 };
	if (name && strlen(name) >= SHORTEST && !str_eq(name, "localhost") && !strv_has(&r->names, name))
		strv_add(&r->names, str_dup(name));
}

void redact_add_hosts(struct redact *r, const char *text)
{
	static const char end[] = "/?#,\"'`<> \t\r\n\\", letters[] = "abcdefghijklmnopqrstuvwxyz";
	for (const char *at = text; (at = strstr(at, "://"));) {
		at += strlen("://");
		auto_str char *whole = str_ndup(at, strcspn(at, end));
		const char *credentials = strrchr(whole, '@'), *from = credentials ? credentials + 1 : whole;
		auto_str char *host = str_ndup(from, strcspn(from, ":"));
		if (host[strcspn(host, letters)])
			redact_add_name(r, host);
	}
}

// A private key ends with the next line that says so; one that is cut, with the text.
static char *without_keys(const char *text)
{
	static const char begin[] = "-----BEGIN ", end[] = "-----END ", mark[] = "PRIVATE KEY-----";
	struct text to = { 0 };
	add_bytes(&to, "", 0);
	for (const char *at = text, *next; *at; at = next) {
		const char *first = strstr(at, mark), *from = first;
		if (!first) {
			add_bytes(&to, at, strlen(at));
			break;
		}
		while (from > at && !str_starts(from, begin) && !str_starts(from, end))
			from--;
		bool is_begun = str_starts(from, begin);
		const char *last = is_begun ? strstr(first + 1, mark) : first;
		add_bytes(&to, at, is_begun ? (size_t)(from - at) : 0); // all before it may be a key that was cut
		add_bytes(&to, REMOVED, strlen(REMOVED));
		next = last ? last + strlen(mark) : at + strlen(at);
	}
	return to.data;
}

static void apply_rule(const regex_t *x, const char *with, char **line)
{
	regmatch_t m[2];
	struct text to = { 0 };
	const char *at = *line;
	while (regexec(x, at, ARRAY_SIZE(m), m, 0) == 0) {
		add_bytes(&to, at, (size_t)m[1].rm_eo);
		add_bytes(&to, with, strlen(with));
		at += m[0].rm_eo;
	}
	add_bytes(&to, at, strlen(at));
	free(*line);
	*line = to.data;
}

static void remove_secret(const char *secret, char **line)
{
	struct text to = { 0 };
	const char *at = *line;
	for (const char *found; (found = strstr(at, secret)); at = found + strlen(secret)) {
		add_bytes(&to, at, (size_t)(found - at));
		add_bytes(&to, REMOVED, strlen(REMOVED));
	}
	add_bytes(&to, at, strlen(at));
	free(*line);
	*line = to.data;
}

static char *without_secrets(const struct redact *r, const char *text)
{
	auto_str char *safe = without_keys(text);
	regex_t compiled[ARRAY_SIZE(rules)], hint;
	struct text to = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		compile_pattern(&compiled[i], rules[i].pattern, 0);
	compile_pattern(&hint, HINT, REG_NOSUB);
	add_bytes(&to, "", 0);
	for (const char *at = safe; *at;) {
		size_t len = strcspn(at, "\n");
		auto_str char *line = str_ndup(at, len);
		for (size_t i = 0; i < r->secrets.count; i++)
			remove_secret(r->secrets.items[i], &line);
		bool has_hint = regexec(&hint, line, 0, NULL, 0) == 0;
		for (size_t i = 0; has_hint && i < ARRAY_SIZE(rules); i++)
			apply_rule(&compiled[i], rules[i].with, &line);
		add_bytes(&to, line, strlen(line));
		add_bytes(&to, "\n", at[len] == '\n');
		at += len + (at[len] == '\n');
	}
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		regfree(&compiled[i]);
	regfree(&hint);
	return to.data;
}

// Six to eight bytes, as of Ethernet and InfiniBand: "52:54:00:12:34:56", "01-52-54-00-12-34-56". 0 = none.
static size_t mac_length(const char *at)
{
	enum { FEWEST = 6, MOST = 8, WIDTH = 3 };
	char separator = isxdigit((unsigned char)at[0]) && isxdigit((unsigned char)at[1]) ? at[2] : '\0';
	size_t len = 0;
	if (separator != ':' && separator != '-')
		return 0;
	while (isxdigit((unsigned char)at[len]) && isxdigit((unsigned char)at[len + 1])) {
		len += WIDTH;
		if (at[len - 1] != separator)
			break;
	}
	bool is_whole = len && at[len - 1] != separator && !is_word(at[len - 1]);
	return is_whole && len / WIDTH >= FEWEST && len / WIDTH <= MOST ? len - 1 : 0;
}

static size_t ip_length(const char *at)
{
	static const char v6[] = "0123456789abcdefABCDEF:.", v4[] = "0123456789.";
	unsigned char ignored[sizeof(struct in6_addr)];
	for (int i = 0; i < 2; i++) {
		size_t len = strspn(at, i ? v4 : v6);
		while (len && strchr(".", at[len - 1])) // of the sentence
			len--;
		if (!i && len && at[len - 1] == ':' && (len < 2 || at[len - 2] != ':'))
			len--;
		char word[INET6_ADDRSTRLEN] = { 0 };
		if (len < 3 || len >= sizeof(word) || is_word(at[len]))
			continue;
		memcpy(word, at, len);
		if (inet_pton(i ? AF_INET : AF_INET6, word, ignored) == 1)
			return len;
	}
	return 0;
}

static void add_numbered(struct text *to, struct strv *known, const char *at, size_t len, const char *what)
{
	auto_str char *word = str_ndup(at, len);
	size_t i = 0;
	while (i < known->count && strcasecmp(known->items[i], word) != 0)
		i++;
	if (i == known->count)
		strv_add(known, str_dup(word));
	auto_str char *number = str_fmt("%s-%zu", what, i + 1);
	add_bytes(to, number, strlen(number));
}

static char *without_names(struct redact *r, const char *text)
{
	struct text to = { 0 };
	add_bytes(&to, "", 0);
	for (const char *at = text; *at;) {
		bool is_begin = at == text || !is_word(at[-1]), is_address = is_begin && (at == text || at[-1] != '.');
		size_t len = 0, most = 0;
		for (size_t i = 0; is_begin && i < r->names.count; i++) {
			len = strlen(r->names.items[i]);
			if (len > most && strncasecmp(at, r->names.items[i], len) == 0 && !is_word(at[len]))
				most = len;
		}
		if (most)
			add_numbered(&to, &r->names, at, most, "host");
		else if (is_address && ((most = mac_length(at)) || (most = ip_length(at))))
			add_numbered(&to, &r->addresses, at, most, "address");
		else
			add_bytes(&to, at, most = 1);
		at += most;
	}
	return to.data;
}

char *redact_text(struct redact *r, const char *text)
{
	char *safe = without_secrets(r, text);
	if (!r->is_anonymous)
		return safe;
	auto_str char *named = safe;
	return without_names(r, named);
}
