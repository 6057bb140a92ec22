// SPDX-License-Identifier: Apache-2.0
#include "cluster/kube/kubeconfig.h"

#include "base/core/secret.h"
#include "base/crypto/base64.h"
#include "base/file/file.h"
#include "base/formats/yaml.h"

#include <fcntl.h>

static const char ACCOUNT[] = "var/run/secrets/kubernetes.io/serviceaccount";
enum { FILE_MAX = 1 << 20 };

void kube_config_done(struct kube_config *c)
{
	free(c->server);
	free(c->authorities);
	free(c->certificate);
	free(c->key);
	free(c->token);
	free(c->token_file);
	free(c->namespace);
	root_done(&c->token_root);
	*c = KUBE_CONFIG_NONE;
}

static const char *env_get(char *const *env, const char *name)
{
	size_t len = strlen(name);
	for (; *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=' && (*env)[len + 1])
			return *env + len + 1;
	return NULL;
}

// 1 = read, not empty.
static int read_account(const struct root *kern, const char *name, char **ret, struct err *err)
{
	auto_str char *path = str_fmt("%s/%s", ACCOUNT, name), *text = NULL;
	int r = root_read(kern, path, &text, NULL, err);
	if (r > 0 && *str_trim(text))
		*ret = str_dup(str_trim(text));
	return r > 0 && !*ret ? 0 : r;
}

int kube_config_pod(const struct root *kern, char *const *env, struct kube_config *ret, struct err *err)
{
	auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
	const char *host = env_get(env, "KUBERNETES_SERVICE_HOST"), *port = env_get(env, "KUBERNETES_SERVICE_PORT");
	uint64_t number;
	if (!host)
		return 0;
	if (!port || !str_u64(port, 10, &number) || number == 0 || number > 65535)
		return err_set(err, E_CONFIG,
			       "KUBERNETES_SERVICE_HOST is set, but KUBERNETES_SERVICE_PORT is not a port");
	secret_guard();
	int token = read_account(kern, "token", &c.token, err);
	if (token <= 0) // automountServiceAccountToken: false
		return token;
	if (read_account(kern, "ca.crt", &c.authorities, err) < 0 ||
	    read_account(kern, "namespace", &c.namespace, err) < 0 || root_sub(kern, ".", &c.token_root, err) < 0)
		return -1;
	if (!c.authorities)
		return err_set(err, E_CONFIG, "/%s has a token and no ca.crt", ACCOUNT);
	c.server = str_fmt(strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
	c.token_file = str_fmt("%s/token", ACCOUNT);
	c.namespace = c.namespace ? c.namespace : str_dup(KUBE_NAMESPACE);
	*ret = c;
	c = KUBE_CONFIG_NONE;
	return 1;
}

struct file { // a kubeconfig that is being read
	const char *path;
	const char *dir; // that its paths are relative to
	const json_t *json;
};

static int refuse_config(const struct file *f, const char *what, const char *why, struct err *err)
{
	return err_set(err, E_CONFIG, "'%s': %s %s", f->path, what, why);
}

// NULL = absent or empty; *is_bad: it is not a string.
static const char *kubeconfig_text(const json_t *object, const char *key, bool *is_bad)
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);
	*is_bad = *is_bad || (value && !text && !json_is_null(value));
	return text && *text ? text : NULL;
}

static int read_config_file(const char *path, char **ret, size_t *ret_len, struct err *err)
{
	struct stat st;
	auto_fd int fd = file_open_arg(path, O_RDONLY | O_NONBLOCK, err);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return file_fail("look at", path, err);
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return err_set(err, E_CONFIG, "'%s' is not a regular file of at most %d bytes", path, FILE_MAX);
	return file_read(fd, path, ret, ret_len, err);
}

static char *path_beside_config(const struct file *f, const char *path)
{
	return *path == '/' ? str_dup(path) : str_fmt("%s/%s", f->dir, path);
}

// KEY-data, base64 of PEM, else the file KEY. Absent: *ret stays NULL.
static int read_pem(const struct file *f, const json_t *object, const char *key, char **ret, struct err *err)
{
	bool is_bad = false;
	auto_str char *data_key = str_fmt("%s-data", key), *pem = NULL;
	const char *data = kubeconfig_text(object, data_key, &is_bad), *path = kubeconfig_text(object, key, &is_bad);
	size_t len = 0;
	if (is_bad || (data && !base64_parse_loose(data, &pem, &len)))
		return refuse_config(f, data_key, "is not valid base64", err);
	if (!data && path) {
		auto_str char *full = path_beside_config(f, path);
		if (read_config_file(full, &pem, &len, err) < 0)
			return err_wrap(err, "'%s': %s", f->path, key);
	}
	if (pem && (strlen(pem) != len || !strstr(pem, "-----BEGIN ")))
		return refuse_config(f, key, "is not in PEM form", err);
	*ret = TAKE(pem);
	return 0;
}

// Member `what` of the element `name` of the list; NULL if that element has no such member.
static int find_named_item(const struct file *f, const char *list, const char *what, const char *name, json_t **ret,
			   struct err *err)
{
	size_t i;
	json_t *item;
	json_array_foreach(json_object_get(f->json, list), i, item)
	{
		if (!str_eq(json_string_value(json_object_get(item, "name")), name))
			continue;
		*ret = json_object_get(item, what);
		return 0;
	}
	auto_str char *text = str_fmt("%s has no '%s', which the", list, name);
	return refuse_config(f, text, str_eq(list, "contexts") ? "request names" : "context names", err);
}

// What is not supported is refused by name, never ignored.
static const struct {
	const char *key, *why;
} refused[] = {
	{ "exec", "starts a program for credentials, which kmodsmith does not; use a token or a client certificate" },
	{ "auth-provider",
	  "starts a program for credentials, which kmodsmith does not; use a token or a client certificate" },
	{ "username", "is a password, which no API server takes; use a token or a client certificate" },
	{ "as", "is impersonation, which kmodsmith does not do" },
	{ "tls-server-name", "is not supported: the certificate must have the server's own name" },
	{ "proxy-url", "is not supported: proxies are those of the environment" },
};

static int check_refused_fields(const struct file *f, const json_t *object, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		const json_t *value = json_object_get(object, refused[i].key);
		if (value && !json_is_null(value))
			return refuse_config(f, refused[i].key, refused[i].why, err);
	}
	if (json_is_true(json_object_get(object, "insecure-skip-tls-verify")))
		return refuse_config(f, "insecure-skip-tls-verify", "is refused: give the authority", err);
	return 0;
}

static int take_cluster(const struct file *f, const json_t *cluster, struct kube_config *ret, struct err *err)
{
	bool is_bad = false;
	const char *server = kubeconfig_text(cluster, "server", &is_bad);
	if (check_refused_fields(f, cluster, err) < 0)
		return -1;
	if (!server || (!str_starts(server, "https://") && !str_starts(server, "http://")))
		return refuse_config(f, "server", "is not an https address", err);
	ret->server = str_dup(server);
	for (size_t len = strlen(ret->server); len && ret->server[len - 1] == '/'; len--)
		ret->server[len - 1] = '\0';
	return read_pem(f, cluster, "certificate-authority", &ret->authorities, err);
}

static int take_user(const struct file *f, const json_t *user, struct kube_config *ret, struct err *err)
{
	bool is_bad = false;
	const char *token = kubeconfig_text(user, "token", &is_bad),
		   *path = kubeconfig_text(user, "tokenFile", &is_bad);
	if (check_refused_fields(f, user, err) < 0)
		return -1;
	if (is_bad)
		return refuse_config(f, "token", "is not a string", err);
	ret->token = str_dup(token);
	if (!token && path) {
		auto_str char *full = path_beside_config(f, path);
		char *name = strrchr(full, '/');
		*name++ = '\0';
		if (root_init(&ret->token_root, *full ? full : "/", err) < 0)
			return err_wrap(err, "'%s': tokenFile", f->path);
		ret->token_file = str_dup(name);
	}
	if (read_pem(f, user, "client-certificate", &ret->certificate, err) < 0 ||
	    read_pem(f, user, "client-key", &ret->key, err) < 0)
		return -1;
	if (!ret->certificate != !ret->key)
		return refuse_config(f, "client-certificate", "and client-key belong together, and one is missing",
				     err);
	return 0;
}

static int take_context(const struct file *f, const char *requested, struct kube_config *ret, struct err *err)
{
	bool is_bad = false;
	json_t *context = NULL, *cluster = NULL, *user = NULL;
	const char *name = requested ? requested : kubeconfig_text(f->json, "current-context", &is_bad);
	if (!json_is_object(f->json))
		return refuse_config(f, "it", "is not a kubeconfig", err);
	if (!name)
		return refuse_config(f, "current-context", "is not set, and no context was named", err);
	if (find_named_item(f, "contexts", "context", name, &context, err) < 0)
		return -1;
	const char *cluster_name = kubeconfig_text(context, "cluster", &is_bad),
		   *user_name = kubeconfig_text(context, "user", &is_bad);
	const char *namespace = kubeconfig_text(context, "namespace", &is_bad);
	if (is_bad || !cluster_name)
		return refuse_config(f, "context", "names no cluster", err);
	// Tools write "default" where none was chosen, and kubectl treats both the same.
	bool is_chosen = namespace && !str_eq(namespace, "default");
	ret->namespace = str_dup(is_chosen ? namespace : KUBE_NAMESPACE);
	if (find_named_item(f, "clusters", "cluster", cluster_name, &cluster, err) < 0 ||
	    (user_name && find_named_item(f, "users", "user", user_name, &user, err) < 0))
		return -1;
	return take_cluster(f, cluster, ret, err) < 0 ? -1 : take_user(f, user, ret, err);
}

// kubectl merges the files of KUBECONFIG; here it is a single file.
int kube_config_file(const char *path, const char *context, struct kube_config *ret, struct err *err)
{
	auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
	const char *slash = strrchr(path, '/');
	auto_str char *text = NULL, *dir = slash ? str_ndup(path, (size_t)(slash - path)) : str_dup(".");
	auto_json json_t *json = NULL;
	size_t len = 0;
	secret_guard();
	if (read_config_file(path, &text, &len, err) < 0)
		return err_wrap(err, "kubeconfig");
	if (yaml_read(text, len, path, false, &json, err) < 0)
		return -1;
	const struct file f = { path, dir, json };
	if (take_context(&f, context, &c, err) < 0)
		return -1;
	*ret = c;
	c = KUBE_CONFIG_NONE;
	return 0;
}

int kube_config_find(const char *path, const struct root *kern, struct kube_config *ret, struct err *err)
{
	if (!path)
		return kube_config_pod(kern, environ, ret, err);
	return kube_config_file(path, NULL, ret, err) < 0 ? -1 : 1;
}
