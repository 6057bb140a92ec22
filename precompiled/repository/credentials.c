// SPDX-License-Identifier: Apache-2.0
#include "precompiled/repository/credentials.h"

#include "base/core/secret.h"
#include "base/crypto/base64.h"
#include "base/file/file.h"
#include "base/formats/json.h"
#include "base/process/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <strings.h>
#include <sys/stat.h>

enum { FILE_MAX = 1 << 20, HELPER_MS = 60000 };

void credentials_done(struct credentials *c)
{
	free(c->user);
	free(c->password);
	free(c->identity);
	free(c->origin);
	free(c->failure);
	*c = (struct credentials){ 0 };
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

static void list_files(const char *named, struct strv *ret)
{
	const char *docker = variable("DOCKER_CONFIG"), *runtime = variable("XDG_RUNTIME_DIR");
	const char *config = variable("XDG_CONFIG_HOME"), *home = variable("HOME"),
		   *podman = variable("REGISTRY_AUTH_FILE");
	if (named) {
		strv_add(ret, str_dup(named));
		return;
	}
	if (podman)
		strv_add(ret, str_dup(podman));
	if (docker || home)
		strv_add(ret, docker ? str_fmt("%s/config.json", docker) : str_fmt("%s/.docker/config.json", home));
	strv_add(ret, runtime ? str_fmt("%s/containers/auth.json", runtime) :
				str_fmt("/run/containers/%u/auth.json", getuid()));
	if (config || home)
		strv_add(ret, config ? str_fmt("%s/containers/auth.json", config) :
				       str_fmt("%s/.config/containers/auth.json", home));
}

char *credentials_places(const char *file)
{
	auto_strv struct strv files = { 0 };
	list_files(file, &files);
	auto_str char *names = strv_join(&files, "', '");
	return files.count ? str_fmt("'%s'", names) : NULL;
}

// 1 = read, 0 = absent. E_NOT_FOUND: it is a directory, or something else than a file.
static int read_auth_config(const char *path, json_t **ret, struct err *err)
{
	static const char BOM[] = "\xef\xbb\xbf";
	auto_str char *text = NULL;
	json_error_t problem;
	struct stat st;
	size_t len = 0, skipped;
	auto_fd int fd = file_open_arg(path, O_RDONLY | O_NONBLOCK, err);
	if (fd < 0 && (err->code == ENXIO || err->code == ELOOP))
		return err_set(err, E_NOT_FOUND, "'%s' is not a file", path);
	if (fd < 0)
		return err->code == ENOENT || err->code == ENOTDIR ? 0 : -1;
	if (fstat(fd, &st) < 0)
		return file_fail("look at", path, err);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_NOT_FOUND, "'%s' is %s", path,
			       S_ISDIR(st.st_mode) ? "a directory" : "not a file");
	if (st.st_size > FILE_MAX)
		return err_set(err, E_CONFIG, "'%s' has %lld bytes: too large for a credentials file", path,
			       (long long)st.st_size);
	secret_guard();
	if (file_read(fd, path, &text, &len, err) < 0)
		return -1;
	skipped = str_starts(text, BOM) ? strlen(BOM) : 0;
	json_t *json = json_loadb(text + skipped, len - skipped, 0, &problem);
	if (!json) // do not quote its content
		return err_set(err, E_CONFIG, "'%s': not valid JSON at line %d", path, problem.line);
	*ret = json;
	return 1;
}

static char *member_text(const json_t *entry, const char *key)
{
	const char *value = json_string_value(json_object_get(entry, key));
	return value && *value ? str_dup(value) : NULL;
}

static int read_auth_entry(const json_t *entry, const char *origin, struct credentials *ret, struct err *err)
{
	auto_credentials struct credentials c = { .user = member_text(entry, "username"),
						  .password = member_text(entry, "password"),
						  .identity = member_text(entry, "identitytoken"),
						  .origin = str_dup(origin) };
	const char *text = json_string_value(json_object_get(entry, "auth"));
	if (text && *text) {
		auto_str char *pair = NULL;
		size_t len = 0;
		char *colon = base64_parse_loose(text, &pair, &len) ? memchr(pair, ':', len) : NULL;
		if (!colon)
			return err_set(err, E_CONFIG, "%s: \"auth\" is not NAME:PASSWORD in base64", origin);
		*colon = '\0';
		free(c.user);
		free(c.password);
		c.user = str_dup(pair);
		c.password = str_dup(colon + 1);
	}
	if (!c.identity && (!c.user || !*c.user))
		return 0;
	credentials_done(ret);
	*ret = c;
	c = (struct credentials){ 0 };
	return 1;
}

// As kubelet does: each label by itself, and no pattern stands for a port.
static bool is_host_of(const char *pattern, const char *host)
{
	if (strchr(pattern, '['))
		return false;
	while (*pattern && *host) {
		size_t p = strcspn(pattern, ".:"), h = strcspn(host, ".:");
		auto_str char *want = str_ndup(pattern, p), *label = str_ndup(host, h);
		if (pattern[p] != host[h] || fnmatch(want, label, FNM_NOESCAPE | FNM_CASEFOLD) != 0)
			return false;
		pattern += p, host += h;
		if (*pattern == ':')
			return str_eq(pattern, host);
		pattern += *pattern == '.', host += *host == '.';
	}
	return *pattern == *host;
}

// name is the path, or lies below it.
static bool is_path_of(const char *path, const char *name)
{
	size_t len = strlen(path);
	return strncmp(path, name, len) == 0 && (len == 0 || !name[len] || name[len] == '/');
}

// How well an entry of "auths" fits: a longer path before a shorter one, then the host itself before a pattern, then a
// longer pattern. 0 = it is of another registry. "https://HOST/v1/" and "HOST" are equivalent.
static size_t rank_key(const char *key, const char *host, const char *name)
{
	enum { HOST_RANKS = 1 << 10 };
	static const char *const prefixes[] = { "https://", "http://" };
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (str_starts(key, prefixes[i]))
			key += strlen(prefixes[i]);
	auto_str char *pattern = str_ndup(key, strcspn(key, "/"));
	size_t len = strlen(pattern);
	bool is_exact = strcasecmp(pattern, host) == 0;
	if (!is_exact && !is_host_of(pattern, host))
		return 0;
	auto_str char *path = str_dup(key + len + (key[len] == '/'));
	size_t end = strlen(path);
	if (end > 0 && path[end - 1] == '/')
		path[end - 1] = '\0';
	const char *below = path;
	if (!is_path_of(below, name) && (str_starts(path, "v1") || str_starts(path, "v2")) &&
	    (!path[2] || path[2] == '/'))
		below += path[2] ? 3 : 2;
	if (!is_path_of(below, name))
		return 0;
	return strlen(below) * HOST_RANKS + (is_exact || len >= HOST_RANKS ? HOST_RANKS - 1 : len);
}

struct helper_output {
	char *text;
	size_t len;
};

static void add_output(void *ctx, const char *line)
{
	struct helper_output *output = ctx;
	output->len += strlen(line);
	if (output->len <= FILE_MAX)
		str_add(&output->text, "%s", line);
}

static bool is_program_name(const char *name)
{
	return name && *name &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == strlen(name);
}

// {"ServerURL": HOST, "Username": "u", "Secret": "s"}; of the user <token> the secret is a refresh token. A helper may
// print warnings before it.
static int read_helper(const char *text, const char *origin, struct credentials *ret, struct err *err)
{
	const char *start = text ? strchr(text, '{') : NULL;
	auto_json json_t *json = start ? json_loads(start, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	auto_str char *user = member_text(json, "Username"), *secret = member_text(json, "Secret");
	if (!user || !secret)
		return err_set(err, E_AUTH, "%s answered without user name and secret", origin);
	bool is_token = str_eq(user, "<token>");
	credentials_done(ret);
	*ret = (struct credentials){ .user = is_token ? NULL : TAKE(user),
				     .password = is_token ? NULL : TAKE(secret),
				     .identity = is_token ? TAKE(secret) : NULL,
				     .origin = str_dup(origin) };
	return 1;
}

// 0 = it has none for this host.
static int ask_helper(const char *name, const char *path, const char *host, struct credentials *ret, struct err *err)
{
	auto_str char *program = str_fmt("docker-credential-%s", is_program_name(name) ? name : "");
	if (!is_program_name(name))
		return err_set(err, E_CONFIG, "'%s' names no credential helper for '%s'", path, host);
	auto_str char *full = proc_find(variable("PATH") ? getenv("PATH") : PROC_PATH, program);
	auto_str char *origin = str_fmt("the credential helper '%s' of '%s'", program, path);
	if (!full)
		return err_set(err, E_AUTH, "%s for '%s' is not in PATH", origin, host);
	struct proc_end end;
	struct helper_output output = { 0 };
	const struct proc proc = { .argv = (const char *const[]){ full, "get", NULL },
				   .env = (const char *const *)environ,
				   .input = host,
				   .timeout_ms = HELPER_MS,
				   .line = add_output,
				   .ctx = &output };
	if (proc_run(&proc, &end, err) < 0) {
		free(output.text);
		return err_wrap(err, "%s", origin);
	}
	auto_str char *text = TAKE(output.text);
	if (end.is_timed_out)
		return err_set(err, E_AUTH, "%s did not answer within %d s", origin, HELPER_MS / 1000);
	if (end.status != 0 && text && strstr(text, "credentials not found"))
		return 0;
	if (end.status != 0)
		return err_set(err, E_AUTH, "%s failed for '%s': %s", origin, host, text ? text : "no output");
	return read_helper(text, origin, ret, err);
}

static bool is_filled(const json_t *entry)
{
	static const char *const keys[] = { "auth", "username", "identitytoken" };
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *value = json_string_value(json_object_get(entry, keys[i]));
		if (value && *value)
			return true;
	}
	return false; // docker writes empty entries for its credential helpers
}

static int find_in_auths(const json_t *auths, const char *path, const char *host, const char *name,
			 struct credentials *ret, struct err *err)
{
	const char *key, *best_key = NULL;
	const json_t *best = NULL;
	json_t *entry;
	size_t best_rank = 0;
	json_object_foreach((json_t *)(uintptr_t)auths, key, entry)
	{
		size_t rank = is_filled(entry) ? rank_key(key, host, name) : 0;
		if (rank > best_rank) {
			best = entry;
			best_key = key;
			best_rank = rank;
		}
	}
	auto_str char *origin = str_fmt("'%s', entry '%s'", path, best_key ? best_key : "");
	return best ? read_auth_entry(best, origin, ret, err) : 0;
}

static void note_failure(struct credentials *ret, const struct err *why)
{
	str_add(&ret->failure, "%s%s", ret->failure ? "; " : "", why->text);
}

// A helper for all registries may be left over from another machine ("desktop"): then this is a file without an entry.
static int ask_store(const char *name, const char *path, const char *host, struct credentials *ret, struct err *err)
{
	struct err problem;
	int r = ask_helper(name, path, host, ret, &problem);
	if (r < 0 && problem.code == E_CONFIG)
		return err_set(err, E_CONFIG, "%s", problem.text);
	if (r < 0)
		note_failure(ret, &problem);
	return r > 0;
}

static int find_in(const char *path, const json_t *json, const char *host, const char *name, struct credentials *ret,
		   struct err *err)
{
	const json_t *helper = json_object_get(json_object_get(json, "credHelpers"), host);
	const json_t *store = json_object_get(json, "credsStore");
	if (helper)
		return ask_helper(json_string_value(helper), path, host, ret, err);
	const json_t *auths = json_object_get(json, "auths"); // a .dockercfg has the entries alone
	int r = find_in_auths(auths ? auths : json, path, host, name, ret, err);
	return r || !store ? r : ask_store(json_string_value(store), path, host, ret, err);
}

int credentials_find(const char *file, const char *host, const char *name, struct credentials *ret, struct err *err)
{
	auto_strv struct strv files = { 0 };
	list_files(file, &files);
	for (size_t i = 0; i < files.count; i++) {
		auto_json json_t *json = NULL;
		int r = read_auth_config(files.items[i], &json, err);
		if (r < 0 && err->code == E_NOT_FOUND) { // what docker makes of a file that is missing, to mount it
			if (file)
				return err_code(err, E_CONFIG);
			note_failure(ret, err);
			continue;
		}
		if (r == 0 && file)
			return err_set(err, E_NOT_FOUND, "credentials: '%s' does not exist", file);
		if (r > 0)
			r = find_in(files.items[i], json, host, name, ret, err);
		if (r != 0)
			return r < 0 ? err_wrap(err, "credentials") : r;
	}
	return 0;
}
