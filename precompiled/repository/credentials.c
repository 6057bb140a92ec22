// SPDX-License-Identifier: Apache-2.0
#include "precompiled/repository/credentials.h"

#include "base/crypto/base64.h"
#include "base/file/file.h"
#include "base/formats/json.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { FILE_MAX = 1 << 20 };

void credentials_done(struct credentials *c)
{
	free(c->user);
	free(c->password);
	free(c->identity);
	free(c->origin);
	*c = (struct credentials){ 0 };
}

char *credentials_file(const char *file)
{
	const char *config = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
	if (file)
		return str_dup(file);
	if (config && *config)
		return str_fmt("%s/config.json", config);
	return home && *home ? str_fmt("%s/.docker/config.json", home) : NULL;
}

// 1 = read, 0 = absent.
static int read_auth_config(const char *path, json_t **ret, struct err *err)
{
	auto_str char *text = NULL;
	json_error_t problem;
	struct stat st;
	size_t len = 0;
	auto_fd int fd = file_open_arg(path, O_RDONLY | O_NONBLOCK, err);
	if (fd < 0)
		return err->code == ENOENT || err->code == ENOTDIR ? 0 : -1;
	if (fstat(fd, &st) < 0)
		return file_fail("look at", path, err);
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return err_set(err, E_CONFIG, "'%s' is not a credentials file", path);
	if (file_read(fd, path, &text, &len, err) < 0)
		return -1;
	json_t *json = json_loadb(text, len, 0, &problem);
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
		char *colon = base64_parse(text, &pair, &len) ? memchr(pair, ':', len) : NULL;
		if (!colon)
			return err_set(err, E_CONFIG, "%s: \"auth\" is not NAME:PASSWORD in base64", origin);
		*colon = '\0';
		free(c.user);
		free(c.password);
		c.user = str_dup(pair);
		c.password = str_dup(colon + 1);
	}
	if (!c.identity && (!c.user || !*c.user))
		return 0; // docker writes empty entries for its credential helpers
	*ret = c;
	c = (struct credentials){ 0 };
	return 1;
}

// "https://HOST/v1/" and "HOST" are equivalent.
static bool is_key_of(const char *key, const char *want)
{
	static const char *const prefixes[] = { "https://", "http://" };
	static const char *const suffixes[] = { "", "/", "/v1", "/v1/", "/v2", "/v2/" };
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (str_starts(key, prefixes[i]))
			key += strlen(prefixes[i]);
	size_t len = strlen(want);
	if (strncmp(key, want, len) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (str_eq(key + len, suffixes[i]))
			return true;
	return false;
}

int credentials_find(const char *file, const char *host, const char *name, struct credentials *ret, struct err *err)
{
	auto_str char *path = credentials_file(file), *want = str_fmt("%s/%s", host, name);
	auto_json json_t *json = NULL;
	int r = path ? read_auth_config(path, &json, err) : 0;
	if (r < 0)
		return err_wrap(err, "credentials");
	if (r == 0)
		return file ? err_set(err, E_NOT_FOUND, "credentials: '%s' does not exist", file) : 0;
	const json_t *auths = json_object_get(json, "auths");
	for (;;) {
		const char *key;
		json_t *entry;
		json_object_foreach((json_t *)(uintptr_t)auths, key, entry)
		{
			auto_str char *origin = str_fmt("'%s', entry '%s'", path, key);
			r = is_key_of(key, want) ? read_auth_entry(entry, origin, ret, err) : 0;
			if (r != 0)
				return r;
		}
		char *slash = strrchr(want, '/');
		if (!slash)
			return 0;
		*slash = '\0';
	}
}
