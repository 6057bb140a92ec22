// SPDX-License-Identifier: Apache-2.0
// A registry, through the distribution API. Differences between registries and from the specification are documented
// where they are handled.
#include "base/core/date.h"
#include "precompiled/repository/credentials.h"
#include "precompiled/repository/retry.h"

#include <strings.h>

static const char ACCEPT[] = "Accept: " OCI_MANIFEST ", " OCI_INDEX, ACCEPT_INDEX[] = "Accept: " OCI_INDEX;
enum { TAG_MAX = 128, PAGES = 10000 };

struct token {
	char *text;    // NULL = none
	long until_ms; // not used after this time
};

struct registry {
	struct remote_repository remote;
	char *host, *name; // "registry.example:5000", "kmod/nvidia"
	char *base;        // https://HOST/v2/NAME
	char *credentials; // file; NULL = the default one
	struct credentials account;
	bool has_looked;        // credentials were looked up
	bool is_basic;          // the registry uses basic authentication
	bool is_pushing;        // then one token is used for everything
	struct token tokens[2]; // for pull; for pull and push
};

// Authentication: none, user and password, or a token that another server issues for them (or without them). The first
// request is anonymous; the 401 reply says what is needed. A token is kept for its stated lifetime, one for pull and
// one for push. A token without a lifetime is good for a minute; one that is about to expire is not used.
enum { TOKEN_MAX = 1 << 20, LIFE_S = 60, LIFE_MAX_S = 3600, EARLY_S = 5 };

static void add_credentials(struct remote_repository *r, struct http_call *call)
{
	struct registry *g = (struct registry *)r;
	const struct token *t = &g->tokens[g->is_pushing];
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

struct challenge {                                      // Bearer realm="..",service="..",scope=".."
	enum { WAY_UNKNOWN, WAY_BASIC, WAY_TOKEN } way; // the stronger, the later
	char *realm, *service, *scope;
};

static void challenge_done(struct challenge *c)
{
	free(c->realm);
	free(c->service);
	free(c->scope);
	*c = (struct challenge){ 0 };
}
#define auto_challenge __attribute__((cleanup(challenge_done)))

// One value, quoted or not; *p moves past it.
static char *parse_value(const char **p)
{
	const char *begin = *p;
	if (*begin != '"') {
		*p += strcspn(begin, ", \t");
		return str_ndup(begin, (size_t)(*p - begin));
	}
	for ((*p)++; **p && **p != '"'; (*p)++)
		*p += **p == '\\' && (*p)[1];
	char *value = mem_alloc((size_t)(*p - begin) + 1), *out = value;
	for (const char *in = begin + 1; in < *p; in++) {
		in += *in == '\\' && in + 1 < *p;
		*out++ = *in;
	}
	*p += **p == '"';
	return value;
}

static void parse_parameter(const char *name, size_t len, const char **p, struct challenge *c)
{
	const struct {
		const char *name;
		char **at;
	} rows[] = { { "realm", &c->realm }, { "service", &c->service }, { "scope", &c->scope } };
	auto_str char *value = parse_value(p);
	for (size_t i = 0; i < ARRAY_SIZE(rows) && value; i++)
		if (strlen(rows[i].name) == len && strncasecmp(name, rows[i].name, len) == 0 && !*rows[i].at)
			*rows[i].at = TAKE(value);
}

// The strongest one stays. A token that nobody issues is of no use.
static void offer_challenge(struct challenge *c, struct challenge *best)
{
	bool is_usable = c->way != WAY_TOKEN || (c->realm && *c->realm);
	if (is_usable && c->way > best->way) {
		challenge_done(best);
		*best = *c;
		*c = (struct challenge){ 0 };
	}
	challenge_done(c);
}

// A field may have several challenges, each a scheme and parameters or a single value (RFC 9110, 11.6.1): a comma says
// nothing, and a word is a parameter's name if "=" follows.
static void parse_challenges(const char *text, struct challenge *best)
{
	auto_challenge struct challenge c = { 0 };
	bool is_begun = false; // the word before was a scheme
	for (const char *p = text + strspn(text, ", \t"); *p;) {
		const char *word = p;
		size_t len = strcspn(p, "=, \t\"");
		p += len;
		const char *next = p + strspn(p, " \t");
		if (*next == '=') {
			p = next + 1 + strspn(next + 1, " \t");
			parse_parameter(word, len, &p, &c);
			is_begun = false;
		} else if (len == 0) { // a quoted string without a name
			free(parse_value(&p));
		} else if (is_begun) { // the value of Negotiate
			is_begun = false;
		} else {
			offer_challenge(&c, best);
			c.way = len == 6 && strncasecmp(word, "Bearer", len) == 0 ? WAY_TOKEN :
				len == 5 && strncasecmp(word, "Basic", len) == 0  ? WAY_BASIC :
										    WAY_UNKNOWN;
			is_begun = *next != ',';
		}
		p += strspn(p, ", \t");
	}
	offer_challenge(&c, best);
}

// With both a password and a token, the password is meant for the token server.
static void find_challenge(const struct http_call *call, struct challenge *ret)
{
	const char *text;
	for (size_t i = 0; (text = http_header_at(call, "WWW-Authenticate", i)); i++)
		parse_challenges(text, ret);
}

static int refuse_credentials(const struct registry *g, const struct http_call *call, struct err *err)
{
	auto_str char *places = credentials_places(g->credentials), *used = NULL;
	http_status_error(call, err);
	if (g->account.origin)
		used = str_fmt("with credentials from %s", g->account.origin);
	else
		used = str_fmt("without credentials: no entry for '%s' in %s%s%s", g->host,
			       places ? places : "any file", g->account.failure ? "; " : "",
			       g->account.failure ? g->account.failure : "");
	return err_set(err, E_AUTH, "%s (%s)", err->text, used);
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

static int ask_token(struct registry *g, const struct challenge *c, struct err *err)
{
	auto_str char *own = str_fmt("repository:%s:pull%s", g->name, g->is_pushing ? ",push" : ""), *text = NULL;
	auto_str char *service = http_escape(c->service ? c->service : ""),
		      *scope = http_escape(c->scope && *c->scope ? c->scope : own), *url = NULL;
	auto_strv struct strv headers = { 0 };
	struct http_call asked = { .max = TOKEN_MAX };
	str_add(&text, "service=%s&scope=%s", service, scope);
	if (g->account.identity) {
		auto_str char *identity = http_escape(g->account.identity);
		str_add(&text, "&grant_type=refresh_token&client_id=kmodsmith&refresh_token=%s", identity);
		strv_add(&headers, str_dup("Content-Type: application/x-www-form-urlencoded"));
		url = str_dup(c->realm);
		asked.method = "POST";
		asked.headers = &headers;
		asked.body = text;
		asked.body_size = strlen(text);
	} else {
		url = str_fmt("%s%s%s", c->realm, strchr(c->realm, '?') ? "&" : "?", text);
		asked.user = g->account.user;
		asked.password = g->account.password;
	}
	asked.url = url;
	// A separate retry count: an overloaded token server must not trigger another authentication.
	struct remote_repository plain = { .repository = { .name = g->remote.repository.name },
					   .http = g->remote.http };
	auto_http_call struct http_call call = asked;
	if (retry_run(&plain, &call, err) < 0)
		return -1;
	if (call.status == 400 || call.status == 401 || call.status == 403)
		return refuse_credentials(g, &call, err);
	return call.status / 100 == 2 ? read_token(&call, &g->tokens[g->is_pushing], err) :
					http_status_error(&call, err);
}

static int handle_unauthorized(struct remote_repository *r, const struct http_call *call, struct err *err)
{
	struct registry *g = (struct registry *)r;
	auto_challenge struct challenge c = { 0 };
	if (!http_is_same_origin(g->base, call->url))
		return http_status_error(call, err);
	// Docker Hub's credentials are stored under another host name.
	const char *host = str_eq(g->host, "registry-1.docker.io") ? "index.docker.io" : g->host;
	if (!g->has_looked && credentials_find(g->credentials, host, g->name, &g->account, err) < 0)
		return -1;
	g->has_looked = true;
	find_challenge(call, &c);
	if (c.way == WAY_UNKNOWN || (c.way == WAY_BASIC && (g->is_basic || !g->account.user)))
		return refuse_credentials(g, call, err);
	if (c.way == WAY_BASIC) {
		g->is_basic = true;
		return 1;
	}
	// The password is sent to the realm, so its transport must not be weaker than the registry's own.
	if (!str_starts(c.realm, "https://") && !(str_starts(c.realm, "http://") && str_starts(g->base, "http://")))
		return err_set(err, E_AUTH, "%s: refusing to request a token from '%s'", g->base, c.realm);
	return ask_token(g, &c, err);
}

// A tag or digest that the API accepts. Registries answer 404 to anything else, and it must not alter the URL.
static bool is_reference(const char *ref)
{
	char hex[DIGEST_HEX + 1];
	if (oci_digest_parse(ref, hex))
		return true;
	size_t len = strspn(ref, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
	return ref[0] != '.' && ref[0] != '-' && len > 0 && len <= TAG_MAX && ref[len] == '\0';
}

// 1 = found, 0 = absent.
static int registry_get(struct registry *g, const char *url, const char *accept, size_t max, struct http_call *call,
			struct err *err)
{
	auto_strv struct strv headers = { 0 };
	if (accept)
		strv_add(&headers, str_dup(accept));
	*call = (struct http_call){ .url = url, .headers = &headers, .max = max };
	int r = retry_get(&g->remote, call, err);
	call->headers = NULL;
	call->reply = r > 0 && !call->reply ? str_dup("") : call->reply;
	return r;
}

// Without Accept, docker-registry answers 404 for existing manifests.
static int registry_manifest(struct repository *r, const char *ref, char **ret, size_t *ret_len, struct err *err)
{
	struct registry *g = (struct registry *)r;
	auto_str char *url = str_fmt("%s/manifests/%s", g->base, ref);
	auto_http_call struct http_call call = { 0 };
	int found = is_reference(ref) ? registry_get(g, url, ACCEPT, OCI_DOCUMENT_MAX, &call, err) : 0;
	if (found <= 0)
		return found;
	*ret_len = call.reply_len;
	*ret = TAKE(call.reply);
	return 1;
}

static int registry_document(struct repository *r, const struct oci_descriptor *d, char **ret, size_t *ret_len,
			     struct err *err)
{
	struct registry *g = (struct registry *)r;
	auto_str char *url = str_fmt("%s/blobs/sha256:%s", g->base, d->digest);
	auto_http_call struct http_call call = { 0 };
	int found = registry_get(g, url, NULL, (size_t)d->size, &call, err);
	if (found <= 0)
		return found;
	*ret_len = call.reply_len;
	*ret = TAKE(call.reply);
	return 1;
}

// The URL of the next page: Link: </v2/x/tags/list?last=b>; rel="next". NULL = last page.
static char *next_page(const struct http_call *call)
{
	const char *link = http_header(call, "Link"), *open = link ? strchr(link, '<') : NULL;
	const char *close = open ? strchr(open, '>') : NULL;
	if (!close || !strstr(close, "next"))
		return NULL;
	auto_str char *reference = str_ndup(open + 1, (size_t)(close - open - 1));
	char *url = http_join(call->url, reference);
	if (url && http_is_same_origin(url, call->url) && !str_eq(url, call->url))
		return url;
	free(url);
	return NULL;
}

static int add_tags(const struct http_call *call, const char *name, struct strv *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	size_t i;
	json_t *tag;
	if (oci_json(call->reply, call->reply_len, name, &json, err) < 0)
		return -1;
	const json_t *tags = json_object_get(json, "tags"); // null if there are none
	if (!json_is_object(json) || (tags && !json_is_array(tags) && !json_is_null(tags)))
		return err_set(err, E_MANIFEST, "'%s' is not a list of tags", name);
	json_array_foreach((json_t *)(uintptr_t)tags, i, tag)
	{
		if (json_is_string(tag))
			strv_add(ret, str_dup(json_string_value(tag)));
	}
	return 0;
}

// docker-registry 2.8 ignores n and sends everything at once; others use pages.
static int registry_tags(struct repository *r, struct strv *ret, struct err *err)
{
	struct registry *g = (struct registry *)r;
	auto_strv struct strv all = { 0 };
	auto_str char *url = str_fmt("%s/tags/list?n=1000", g->base), *name = str_fmt("%s/tags/list", g->base);
	for (int page = 0; url && page < PAGES; page++) {
		auto_http_call struct http_call call = { 0 };
		int found = registry_get(g, url, NULL, OCI_DOCUMENT_MAX, &call, err);
		if (found < 0 || (found > 0 && add_tags(&call, name, &all, err) < 0))
			return -1;
		char *next = found > 0 ? next_page(&call) : NULL;
		free(url);
		url = next;
	}
	*ret = all;
	all = (struct strv){ 0 };
	return 0;
}

// A registry without this API answers 404 or some other page; then only the fallback tag is used.
static int registry_referrers(struct repository *r, const char *hex, struct oci_index *ret, struct err *err)
{
	struct registry *g = (struct registry *)r;
	auto_str char *url = str_fmt("%s/referrers/sha256:%s", g->base, hex);
	auto_strv struct strv headers = { 0 };
	auto_http_call struct http_call call = { .url = url, .headers = &headers, .max = OCI_DOCUMENT_MAX };
	strv_add(&headers, str_dup(ACCEPT_INDEX));
	if (retry_run(&g->remote, &call, err) < 0)
		return -1;
	const char *type = http_header(&call, "Content-Type");
	if (call.status == 200 && type && str_starts(type, OCI_INDEX))
		return oci_index_parse(call.reply ? call.reply : "", call.reply_len, url, ret, err);
	bool is_refused = call.status == 401 || call.status == 403 || call.status == 429 || call.status >= 500;
	return is_refused ? http_status_error(&call, err) : 0;
}

static int registry_begin(struct repository *r, struct blob_transfer *t, struct err *err)
{
	struct registry *g = (struct registry *)r;
	auto_str char *url = str_fmt("%s/blobs/sha256:%s", g->base, t->part->digest);
	return download_begin(&g->remote, t, url, err);
}

// Writing: a blob in one request after opening an upload, a manifest by tag or digest. If the registry has no referrers
// API, we maintain the index under the fallback tag.
enum { TRIES = 3, REPLY_MAX = 1 << 16 };

static int registry_has_blob(struct repository *r, const char *hex, struct err *err)
{
	struct registry *g = (struct registry *)r;
	auto_str char *url = str_fmt("%s/blobs/sha256:%s", g->base, hex);
	auto_http_call struct http_call call = { .url = url, .method = "HEAD", .max = REPLY_MAX };
	return retry_get(&g->remote, &call, err);
}

static int open_upload(struct registry *g, const char *hex, char **ret, struct err *err)
{
	auto_str char *url = str_fmt("%s/blobs/uploads/", g->base);
	auto_http_call struct http_call call = { .url = url, .method = "POST", .max = REPLY_MAX };
	if (retry_run(&g->remote, &call, err) < 0)
		return -1;
	if (call.status != 202)
		return http_status_error(&call, err);
	// The location may be relative to the request, and may have a query already.
	const char *location = http_header(&call, "Location");
	auto_str char *place = location ? http_join(call.url, location) : NULL;
	if (!place)
		return err_set(err, E_NETWORK, "%s: the reply has no upload location", url);
	*ret = str_fmt("%s%cdigest=sha256%%3A%s", place, strchr(place, '?') ? '&' : '?', hex);
	return 0;
}

// 1 = the registry has it, 0 = try another upload (a failed upload is lost).
static int upload_blob(struct registry *g, int fd, const struct oci_descriptor *d, struct attempt *a, struct err *err)
{
	auto_str char *place = NULL;
	auto_strv struct strv headers = { 0 };
	unsigned ms = 0;
	if (open_upload(g, d->digest, &place, err) < 0)
		return -1;
	strv_add(&headers, str_dup("Content-Type: application/octet-stream"));
	auto_http_call struct http_call call = { .url = place,
						 .method = "PUT",
						 .headers = &headers,
						 .body = d->size ? NULL : "",
						 .body_fd = fd,
						 .body_size = d->size,
						 .max = REPLY_MAX };
	add_credentials(&g->remote, &call);
	int r = http_run(g->remote.http, &call, err);
	if (r < 0 && call.err.code == 0)
		return -1;
	if (r == 0 && call.status / 100 == 2)
		return 1;
	struct err why = *err;
	int again = retry_is_due(&g->remote, &call, a, &ms, err);
	if (again > 0)
		return retry_wait(&g->remote, ms, err);
	if (again == 0 && r < 0)
		*err = why;
	return again < 0 || r < 0 ? -1 : http_status_error(&call, err);
}

static int registry_put_blob(struct repository *r, const struct layout *from, const struct oci_descriptor *d,
			     struct err *err)
{
	struct registry *g = (struct registry *)r;
	struct attempt a = { 0 };
	g->is_pushing = true;
	int done = registry_has_blob(r, d->digest, err);
	if (done != 0)
		return done < 0 ? -1 : 0;
	auto_fd int fd = layout_blob_open(from, d->digest, err);
	if (fd < 0)
		return -1;
	while (done == 0)
		done = upload_blob(g, fd, d, &a, err);
	return done < 0 ? -1 : 0;
}

static int upload_manifest(struct registry *g, const char *ref, const char *data, size_t len, const char *media_type,
			   bool *ret_is_listed, struct err *err)
{
	auto_str char *url = str_fmt("%s/manifests/%s", g->base, ref);
	auto_strv struct strv headers = { 0 };
	strv_add(&headers, str_fmt("Content-Type: %s", media_type));
	auto_http_call struct http_call call = {
		.url = url, .method = "PUT", .headers = &headers, .body = data, .body_size = len, .max = REPLY_MAX
	};
	if (retry_run(&g->remote, &call, err) < 0)
		return -1;
	if (call.status / 100 != 2)
		return http_status_error(&call, err);
	*ret_is_listed = http_header(&call, "OCI-Subject") != NULL;
	return 0;
}

// Adds the manifest to the index and checks again that it is there: another client may be writing too.
static int list_under_fallback_tag(struct registry *g, const struct oci_manifest *m, const struct oci_descriptor *d,
				   struct err *err)
{
	struct repository *r = &g->remote.repository;
	auto_str char *tag = str_fmt("sha256-%s", m->subject.digest), *name = str_fmt("%s:%s", r->name, tag),
		      *ref = oci_digest_text(d->digest);
	for (int i = 0; i <= TRIES; i++) {
		auto_oci_index struct oci_index x = { 0 };
		auto_str char *data = NULL;
		size_t len = 0;
		bool is_listed;
		int found = registry_manifest(r, tag, &data, &len, err);
		if (found < 0 || (found > 0 && oci_index_parse(data, len, name, &x, err) < 0))
			return err_wrap(err, "add it to the index '%s'", tag);
		if (oci_index_find(&x, ref) >= 0)
			return 0;
		oci_index_put(&x, d, NULL);
		auto_str char *text = oci_index_text(&x);
		if (upload_manifest(g, tag, text, strlen(text), OCI_INDEX, &is_listed, err) < 0)
			return err_wrap(err, "add it to the index '%s'", tag);
	}
	return err_set(err, E_CONFLICT, "%s: tag '%s' keeps changing, another client is writing it", r->name, tag);
}

static int registry_put_manifest(struct repository *r, const char *data, size_t len, const char *media_type,
				 const char *tag, struct err *err)
{
	struct registry *g = (struct registry *)r;
	auto_oci_manifest struct oci_manifest m = { 0 };
	struct oci_descriptor d = { .media_type = (char *)(uintptr_t)media_type, .size = len };
	bool is_listed = false;
	g->is_pushing = true;
	digest_data(data, len, d.digest);
	auto_str char *digest = oci_digest_text(d.digest);
	if (str_eq(media_type, OCI_MANIFEST) && oci_manifest_parse(data, len, digest, &m, err) < 0)
		return -1;
	if (upload_manifest(g, tag ? tag : digest, data, len, media_type, &is_listed, err) < 0)
		return -1;
	if (!m.subject.media_type || is_listed)
		return 0;
	d.artifact_type = m.artifact_type ? m.artifact_type : m.config.media_type;
	d.annotations = m.annotations;
	return list_under_fallback_tag(g, &m, &d, err);
}

static void registry_free(struct repository *r)
{
	struct registry *g = (struct registry *)r;
	for (size_t i = 0; i < ARRAY_SIZE(g->tokens); i++)
		free(g->tokens[i].text);
	credentials_done(&g->account);
	free(g->host);
	free(g->name);
	free(g->base);
	free(g->credentials);
	free(r->name);
	free(g);
}

static const struct repository_ops ops = {
	.manifest = registry_manifest,
	.tags = registry_tags,
	.document = registry_document,
	.referrers = registry_referrers,
	.begin = registry_begin,
	.step = download_step,
	.end = download_end,
	.has_blob = registry_has_blob,
	.put_blob = registry_put_blob,
	.put_manifest = registry_put_manifest,
	.free = registry_free,
};

// [a-z0-9]+ joined by '.', '_', '__' or dashes; such parts joined by '/'.
static bool is_repository_name(const char *name)
{
	bool is_word = false;
	for (const char *p = name; *p;) {
		size_t word = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789"), dashes = strspn(p, "-");
		size_t mark = str_starts(p, "__") ? 2 : strchr("._/", *p) ? 1 : dashes;
		if (word ? is_word : !is_word || mark == 0)
			return false;
		is_word = word > 0;
		p += word ? word : mark;
	}
	return is_word;
}

int repository_open_registry(const char *name, const struct repository_options *options, struct repository **ret,
			     struct err *err)
{
	bool is_plain = repository_kind(name) == REPOSITORY_PLAIN_REGISTRY;
	const char *place = strstr(name, "://") + strlen("://"), *slash = strchr(place, '/');
	auto_str char *host = str_ndup(place, slash ? (size_t)(slash - place) : strlen(place));
	const char *path = slash ? slash + 1 : "";
	bool is_host = *host && strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") ==
					strlen(host);
	if (!is_host || !is_repository_name(path)) {
		auto_str char *shown = http_url_shown(name); // it may contain a password
		return err_set(err, E_USAGE,
			       "'%s' is not docker://HOST[:PORT]/NAME: NAME has lower-case letters and digits, joined "
			       "by . _ - /, and no tag or digest; credentials belong in a file",
			       shown);
	}
	struct registry *g = mem_alloc(sizeof(*g));
	g->base = str_fmt("%s://%s/v2/%s", is_plain ? "http" : "https", host, path);
	g->name = str_dup(path);
	g->host = TAKE(host);
	g->credentials = str_dup(options->credentials);
	g->remote = (struct remote_repository){ .repository = { .ops = &ops, .name = str_dup(name) },
						.http = options->http,
						.prepare = add_credentials,
						.on_unauthorized = handle_unauthorized };
	*ret = &g->remote.repository;
	return 0;
}
