// SPDX-License-Identifier: Apache-2.0
// Authentication at a registry: none, user and password, or a token that another server issues for them (or without
// them). The first request is anonymous; the 401 reply says what is needed. A token is kept for its stated lifetime,
// one for pull and one for push.
#include "precompiled/repository/registry.h"

#include "base/core/date.h"

#include <strings.h>

// A token without a lifetime is good for a minute; one that is about to expire is not used.
enum { TOKEN_MAX = 1 << 20, LIFE_S = 60, LIFE_MAX_S = 3600, EARLY_S = 5 };

static struct token *token_of(struct registry *g)
{
	return &g->tokens[g->is_pushing];
}

void registry_auth_prepare(struct remote_repository *r, struct http_call *call)
{
	struct registry *g = (struct registry *)r;
	const struct token *t = token_of(g);
	call->user = call->password = call->bearer = NULL;
	if (!http_is_same_origin(g->base, call->url)) // an upload may go to another server
		return;
	if (g->is_basic) {
		call->user = g->account.user;
		call->password = g->account.password;
	} else if (t->text && clock_ms() < t->until_ms) {
		call->bearer = t->text;
	}
}

void registry_auth_forget(struct registry *g)
{
	for (size_t i = 0; i < ARRAY_SIZE(g->tokens); i++)
		free(TAKE(g->tokens[i].text));
	credentials_done(&g->account);
}

struct challenge { // Bearer realm="..",service="..",scope=".."
	char *realm, *service, *scope;
	bool is_bearer;
};

static void challenge_done(struct challenge *c)
{
	free(c->realm);
	free(c->service);
	free(c->scope);
}
#define auto_challenge __attribute__((cleanup(challenge_done)))

static void set_parameter(struct challenge *c, const char *name, size_t len, char *value)
{
	const struct {
		const char *name;
		char **at;
	} rows[] = { { "realm", &c->realm }, { "service", &c->service }, { "scope", &c->scope } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strlen(rows[i].name) == len && strncasecmp(name, rows[i].name, len) == 0 && !*rows[i].at) {
			*rows[i].at = value;
			return;
		}
	}
	free(value);
}

// One value, quoted or not; *p moves past it.
static char *parse_value(const char **p)
{
	char *value = str_dup("");
	size_t len = 0;
	if (**p != '"') {
		len = strcspn(*p, ", \t");
		free(value);
		value = str_ndup(*p, len);
		*p += len;
		return value;
	}
	value = mem_grow(value, strlen(*p) + 1, 1);
	for ((*p)++; **p && **p != '"'; (*p)++) {
		if (**p == '\\' && (*p)[1])
			(*p)++;
		value[len++] = **p;
	}
	value[len] = '\0';
	*p += **p == '"';
	return value;
}

static bool parse_challenge(const char *text, struct challenge *ret)
{
	bool is_bearer = strncasecmp(text, "Bearer ", 7) == 0, is_basic = strncasecmp(text, "Basic", 5) == 0;
	if (!is_bearer && !is_basic)
		return false;
	ret->is_bearer = is_bearer;
	const char *p = text + strcspn(text, " ");
	for (;;) {
		p += strspn(p, ", \t");
		size_t len = strcspn(p, "=, \t");
		if (len == 0 || p[len] != '=')
			return true; // the end, or the next challenge of the same header
		const char *name = p;
		p += len + 1;
		set_parameter(ret, name, len, parse_value(&p));
	}
}

// Prefer a token among several challenges: with both, the password is meant for the token server.
static bool find_challenge(const struct http_call *call, struct challenge *ret)
{
	const char *text;
	bool is_found = false;
	for (size_t i = 0; (text = http_header_at(call, "WWW-Authenticate", i)) && !(is_found && ret->is_bearer); i++) {
		struct challenge c = { 0 };
		if (parse_challenge(text, &c) && (!is_found || c.is_bearer)) {
			challenge_done(ret);
			*ret = c;
			is_found = true;
		} else {
			challenge_done(&c);
		}
	}
	return is_found;
}

static int look_up_credentials(struct registry *g, struct err *err)
{
	if (g->has_looked)
		return 0;
	// Docker Hub's credentials are stored under another host name.
	const char *host = str_eq(g->host, "registry-1.docker.io") ? "index.docker.io" : g->host;
	if (credentials_find(g->credentials, host, g->name, &g->account, err) < 0)
		return -1;
	g->has_looked = true;
	return 0;
}

static int refuse_credentials(const struct registry *g, const struct http_call *call, struct err *err)
{
	auto_str char *file = credentials_file(g->credentials), *used = NULL;
	http_status_error(call, err);
	if (g->account.origin)
		used = str_fmt("with credentials from %s", g->account.origin);
	else
		used = str_fmt("without credentials: %s%s%s has no entry for '%s'", file ? "'" : "",
			       file ? file : "no file", file ? "'" : "", g->host);
	return err_set(err, E_AUTH, "%s (%s)", err->text, used);
}

static char *token_url(const struct registry *g, const struct challenge *c, const char *scope)
{
	auto_str char *service = http_escape(c->service ? c->service : ""), *escaped = http_escape(scope), *text = NULL;
	str_add(&text, "service=%s&scope=%s", service, escaped);
	if (g->account.identity) {
		auto_str char *identity = http_escape(g->account.identity);
		str_add(&text, "&grant_type=refresh_token&client_id=kmodsmith&refresh_token=%s", identity);
	}
	return TAKE(text);
}

static int read_token(const struct http_call *call, struct token *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	auto_str char *shown = http_url_shown(call->url);
	if (oci_json(call->reply ? call->reply : "", call->reply_len, shown, &json, err) < 0)
		return err_code(err, E_AUTH);
	const char *text = json_string_value(json_object_get(json, "token"));
	if (!text || !*text)
		text = json_string_value(json_object_get(json, "access_token"));
	if (!text || !*text || strpbrk(text, "\r\n"))
		return err_set(err, E_AUTH, "%s: the reply has neither token nor access_token", shown);
	json_int_t life = json_integer_value(json_object_get(json, "expires_in"));
	life = life <= 0 ? LIFE_S : life < LIFE_MAX_S ? life : LIFE_MAX_S;
	free(ret->text);
	ret->text = str_dup(text);
	ret->until_ms = clock_ms() + (long)(life > 2 * EARLY_S ? life - EARLY_S : life) * 1000;
	return 1;
}

static int ask_token(struct registry *g, const struct challenge *c, const char *scope, struct token *ret,
		     struct err *err)
{
	auto_str char *text = token_url(g, c, scope), *url = NULL;
	auto_strv struct strv headers = { 0 };
	const char *mark = strchr(c->realm, '?') ? "&" : "?";
	struct http_call asked = { .max = TOKEN_MAX };
	if (g->account.identity) {
		strv_add(&headers, str_dup("Content-Type: application/x-www-form-urlencoded"));
		url = str_dup(c->realm);
		asked.method = "POST";
		asked.headers = &headers;
		asked.body = text;
		asked.body_size = strlen(text);
	} else {
		url = str_fmt("%s%s%s", c->realm, mark, text);
		asked.user = g->account.user;
		asked.password = g->account.password;
	}
	asked.url = url;
	// A separate retry count: an overloaded token server must not trigger another authentication.
	struct remote_repository plain = { .http = g->remote.http };
	auto_http_call struct http_call call = asked;
	if (retry_run(&plain, &call, err) < 0)
		return -1;
	if (call.status == 400 || call.status == 401 || call.status == 403)
		return refuse_credentials(g, &call, err);
	return call.status / 100 == 2 ? read_token(&call, ret, err) : http_status_error(&call, err);
}

// The password is sent to the realm, so its transport must not be weaker than the registry's own.
static int check_realm(const struct registry *g, const struct challenge *c, struct err *err)
{
	if (c->realm &&
	    (str_starts(c->realm, "https://") || (str_starts(c->realm, "http://") && str_starts(g->base, "http://"))))
		return 0;
	return err_set(err, E_AUTH, "%s: refusing to request a token from '%s'", g->base, c->realm ? c->realm : "");
}

static int use_basic_auth(struct registry *g, const struct http_call *call, struct err *err)
{
	if (g->is_basic || !g->account.user)
		return refuse_credentials(g, call, err);
	g->is_basic = true;
	return 1;
}

int registry_auth_refused(struct remote_repository *r, const struct http_call *call, struct err *err)
{
	struct registry *g = (struct registry *)r;
	auto_challenge struct challenge c = { 0 };
	if (!http_is_same_origin(g->base, call->url))
		return http_status_error(call, err);
	if (look_up_credentials(g, err) < 0)
		return -1;
	if (!find_challenge(call, &c))
		return refuse_credentials(g, call, err);
	if (!c.is_bearer)
		return use_basic_auth(g, call, err);
	if (check_realm(g, &c, err) < 0)
		return -1;
	struct token *token = token_of(g);
	auto_str char *own = str_fmt("repository:%s:pull%s", g->name, g->is_pushing ? ",push" : "");
	return ask_token(g, &c, c.scope && *c.scope ? c.scope : own, token, err) < 0 ? -1 : 1;
}
