// SPDX-License-Identifier: Apache-2.0
#include "acquire/matrix.h"

#include "acquire/source_url.h"
#include "base/file/digest.h"
#include "base/formats/json.h"
#include "base/options/opt.h"

#include <fnmatch.h>

void matrix_done(struct matrix *m)
{
	for (size_t i = 0; i < m->driver_count; i++) {
		free(m->drivers[i].source);
		free(m->drivers[i].sha256);
	}
	for (size_t i = 0; i < m->kernel_count; i++) {
		free(m->kernels[i].release);
		strv_done(&m->kernels[i].headers);
	}
	for (size_t i = 0; i < m->skip_count; i++) {
		free(m->skips[i].driver);
		free(m->skips[i].kernel);
		free(m->skips[i].why);
	}
	free(m->drivers);
	free(m->kernels);
	free(m->skips);
	strv_done(&m->modules);
	free(m->patches);
	*m = (struct matrix){ 0 };
}

// The file being read, for messages and for the paths in it.
struct reading {
	const char *file;
	const char *dir;  // of the file, with a slash at its end; "" = the working directory
	const char *list; // "drivers"; NULL = the document itself
	size_t at;        // position in it
};

static int refuse_matrix(const struct reading *r, const char *key, const char *what, struct err *err)
{
	auto_str char *place = r->list ? str_fmt("%s[%zu].", r->list, r->at) : str_dup("");
	return err_set(err, E_CONFIG, "'%s': %s%s %s", r->file, place, key, what);
}

// keys: names with blanks around each.
static int check_keys(const struct reading *r, const json_t *object, const char *keys, struct err *err)
{
	const char *key;
	json_t *value;
	if (!json_is_object(object))
		return refuse_matrix(r, "", "is not a JSON object", err);
	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		auto_str char *word = str_fmt(" %s ", key);
		if (!strchr(key, ' ') && strstr(keys, word))
			continue;
		auto_strv struct strv names = { 0 };
		strv_split(&names, keys, " ");
		auto_str char *hint = opt_hint(key, &names), *what = str_fmt("is unknown%s", hint);
		return refuse_matrix(r, key, what, err);
	}
	return 0;
}

static int read_matrix_text(const struct reading *r, const json_t *object, const char *key, bool is_required,
			    char **ret, struct err *err)
{
	const json_t *value = json_object_get(object, key);
	if (!value)
		return is_required ? refuse_matrix(r, key, "is missing", err) : 0;
	if (!json_string_length(value))
		return refuse_matrix(r, key, "is not a string, or empty", err);
	*ret = str_dup(json_string_value(value));
	return 0;
}

static int read_texts(const struct reading *r, const json_t *object, const char *key, struct strv *ret, struct err *err)
{
	const json_t *list = json_object_get(object, key);
	size_t i;
	json_t *value;
	if (list && !json_is_array(list))
		return refuse_matrix(r, key, "is not a list", err);
	json_array_foreach((json_t *)(uintptr_t)list, i, value)
	{
		if (!json_string_length(value))
			return refuse_matrix(r, key, "has an entry that is not a string, or empty", err);
		strv_add(ret, str_dup(json_string_value(value)));
	}
	return 0;
}

static char *matrix_path(const struct reading *r, const char *path)
{
	return path[0] == '/' ? str_dup(path) : str_fmt("%s%s", r->dir, path);
}

static void make_path(const struct reading *r, char **path)
{
	auto_str char *old = *path;
	*path = old ? matrix_path(r, old) : NULL;
}

static int read_driver(const struct reading *r, const json_t *json, struct matrix *m, struct err *err)
{
	struct matrix_driver *d = &m->drivers[m->driver_count++];
	auto_strv struct strv flavours = { 0 };
	if (check_keys(r, json, " source sha256 flavours ", err) < 0 ||
	    read_matrix_text(r, json, "source", true, &d->source, err) < 0 ||
	    read_matrix_text(r, json, "sha256", false, &d->sha256, err) < 0 ||
	    read_texts(r, json, "flavours", &flavours, err) < 0)
		return -1;
	if (d->sha256 && !digest_is_hex(d->sha256))
		return refuse_matrix(r, "sha256", "is not a digest: 64 digits of 0-9 and a-f", err);
	if (json_object_get(json, "flavours") && !flavours.count)
		return refuse_matrix(r, "flavours", "is empty", err);
	for (size_t i = 0; i < flavours.count; i++) {
		enum module_type flavour = MODULE_TYPE_AUTO;
		if (!module_type_parse(flavours.items[i], &flavour) || flavour == MODULE_TYPE_AUTO)
			return refuse_matrix(r, "flavours", "has an entry other than open and proprietary", err);
		d->flavours |= (unsigned)flavour;
	}
	auto_str char *what = str_fmt("'%s': %s[%zu].source", r->file, r->list, r->at);
	if (source_url_is(d->source) && source_url_check(what, d->source, d->sha256, err) < 0)
		return err_code(err, E_CONFIG);
	if (!source_url_is(d->source))
		make_path(r, &d->source);
	for (size_t i = 0; i + 1 < m->driver_count; i++)
		if (str_eq(m->drivers[i].source, d->source))
			return refuse_matrix(r, "source", "is also that of another entry", err);
	return 0;
}

static int read_matrix_kernel(const struct reading *r, const json_t *json, struct matrix *m, struct err *err)
{
	struct matrix_kernel *k = &m->kernels[m->kernel_count++];
	auto_strv struct strv headers = { 0 };
	if (check_keys(r, json, " release headers ", err) < 0 ||
	    read_matrix_text(r, json, "release", true, &k->release, err) < 0 ||
	    read_texts(r, json, "headers", &headers, err) < 0)
		return -1;
	if (strchr(k->release, '/') || k->release[0] == '.')
		return refuse_matrix(r, "release", "is not a kernel release", err);
	for (size_t i = 0; i < headers.count; i++)
		strv_add(&k->headers, matrix_path(r, headers.items[i]));
	for (size_t i = 0; i + 1 < m->kernel_count; i++)
		if (str_eq(m->kernels[i].release, k->release))
			return refuse_matrix(r, "release", "is also that of another entry", err);
	return 0;
}

static int read_skip(const struct reading *r, const json_t *json, struct matrix *m, struct err *err)
{
	struct matrix_skip *s = &m->skips[m->skip_count++];
	if (check_keys(r, json, " driver kernel why ", err) < 0 ||
	    read_matrix_text(r, json, "driver", false, &s->driver, err) < 0 ||
	    read_matrix_text(r, json, "kernel", false, &s->kernel, err) < 0 ||
	    read_matrix_text(r, json, "why", true, &s->why, err) < 0)
		return -1;
	return s->driver || s->kernel ? 0 : refuse_matrix(r, "driver", "and kernel are both missing", err);
}

// The entries of a list, each by read_one.
static int read_matrix_list(struct reading *r, const json_t *list, const char *key,
			    int (*read_one)(const struct reading *, const json_t *, struct matrix *, struct err *),
			    struct matrix *m, struct err *err)
{
	r->list = key;
	for (r->at = 0; r->at < json_array_size(list); r->at++)
		if (read_one(r, json_array_get(list, r->at), m, err) < 0)
			return -1;
	r->list = NULL;
	return 0;
}

int matrix_parse(const char *text, size_t len, const char *file, bool is_open, struct matrix *ret, struct err *err)
{
	const char *slash = strrchr(file, '/');
	auto_str char *dir = slash ? str_ndup(file, (size_t)(slash - file) + 1) : str_dup("");
	auto_matrix struct matrix m = { 0 };
	struct reading r = { .file = file, .dir = dir };
	json_error_t problem;
	auto_json json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem);
	if (!json)
		return err_set(err, E_CONFIG, "'%s': not valid JSON at line %d: %s", file, problem.line, problem.text);
	const json_t *drivers = json_object_get(json, "drivers"), *kernels = json_object_get(json, "kernels"),
		     *skips = json_object_get(json, "skip");
	if (check_keys(&r, json, " drivers kernels skip modules patches ", err) < 0)
		return -1;
	bool has_kernels = json_array_size(kernels) || (!kernels && is_open);
	if (!json_array_size(drivers) || !has_kernels)
		return refuse_matrix(&r, json_array_size(drivers) ? "kernels" : "drivers",
				     "is not a list with at least one entry", err);
	if (skips && !json_is_array(skips))
		return refuse_matrix(&r, "skip", "is not a list", err);
	m.drivers = mem_alloc(json_array_size(drivers) * sizeof(*m.drivers));
	m.kernels = mem_alloc((json_array_size(kernels) + 1) * sizeof(*m.kernels));
	m.skips = mem_alloc((json_array_size(skips) + 1) * sizeof(*m.skips));
	if (read_matrix_list(&r, drivers, "drivers", read_driver, &m, err) < 0 ||
	    read_matrix_list(&r, kernels, "kernels", read_matrix_kernel, &m, err) < 0 ||
	    read_matrix_list(&r, skips, "skip", read_skip, &m, err) < 0 ||
	    read_texts(&r, json, "modules", &m.modules, err) < 0 ||
	    read_matrix_text(&r, json, "patches", false, &m.patches, err) < 0)
		return -1;
	make_path(&r, &m.patches);
	*ret = m;
	m = (struct matrix){ 0 };
	return 0;
}

const char *matrix_skipped(const struct matrix *m, const char *driver, const char *release)
{
	for (size_t i = 0; i < m->skip_count; i++) {
		const struct matrix_skip *s = &m->skips[i];
		if ((!s->driver || fnmatch(s->driver, driver, 0) == 0) &&
		    (!s->kernel || fnmatch(s->kernel, release, 0) == 0))
			return s->why;
	}
	return NULL;
}

// Kernels of a matrix from what nodes report: the output of `kubectl get nodes -o json`.
//
// Nodes are not trusted: one that does not report a kernel release is left out and reported, the others count; and the
// number of compiles that nodes can ask for is bounded.

enum { RELEASE_MAX = 64, KERNELS_MAX = 256, NEXT_MAX = 256, NAME_MAX_LEN = 253 };
static const char NEXT[] = "kmodsmith.io/agent.kernels"; // annotation: a JSON list of the releases of next kernels

struct nodes { // what is read
	const char *file, *arch;
	const char *name; // of the node; "?" where it is none
	size_t at;        // position in .items
	struct matrix *to;
	struct matrix_nodes *found;
};

static int refuse_node(const struct nodes *n, const char *what, struct err *err)
{
	return err_set(err, E_CONFIG, "'%s': items[%zu] (node '%s') %s", n->file, n->at, n->name, what);
}

static bool is_text_of(const json_t *json, const char *characters, size_t most)
{
	const char *s = json_string_value(json);
	size_t len = json_string_length(json);
	return s && len && len <= most && strspn(s, characters) == len; // a NUL inside ends the span
}

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789.-"
// As printed by uname -r; at most 64 characters, because it becomes part of tags and paths.
static bool is_kernel_release(const json_t *json)
{
	const char *s = json_string_value(json);
	return is_text_of(json, LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ_+~", RELEASE_MAX) && *s >= '0' && *s <= '9';
}

static int add_node_release(const struct nodes *n, const json_t *release, struct err *err)
{
	struct matrix *m = n->to;
	const char *text = json_string_value(release);
	if (!is_kernel_release(release))
		return refuse_node(n, "reports something that is not a kernel release", err);
	for (size_t i = 0; i < m->kernel_count; i++)
		if (str_eq(m->kernels[i].release, text))
			return 0;
	if (m->kernel_count >= KERNELS_MAX)
		return refuse_node(n, "asks for more than 256 kernels in all", err);
	m->kernels = mem_grow(m->kernels, m->kernel_count + 1, sizeof(*m->kernels));
	m->kernels[m->kernel_count++] = (struct matrix_kernel){ .release = str_dup(text) };
	n->found->kernels++;
	return 0;
}

static int add_node_kernels(struct nodes *n, const json_t *node, struct err *err)
{
	const json_t *metadata = json_object_get(node, "metadata"), *name = json_object_get(metadata, "name"),
		     *info = json_object_get(json_object_get(node, "status"), "nodeInfo"),
		     *annotation = json_object_get(json_object_get(metadata, "annotations"), NEXT);
	const json_t *reported = json_object_get(info, "architecture"); // as Go names it, or as uname(2) does
	const char *arch = json_string_value(reported);
	json_error_t problem;
	n->name = is_text_of(name, LOWER, NAME_MAX_LEN) ? json_string_value(name) : "?";
	if (str_eq(arch, "amd64") || str_eq(arch, "arm64"))
		arch = str_eq(arch, "amd64") ? "x86_64" : "aarch64";
	if (reported && !str_eq(arch, n->arch)) {
		n->found->others++;
		return 0;
	}
	if (add_node_release(n, json_object_get(info, "kernelVersion"), err) < 0)
		return -1;
	if (!annotation)
		return 0;
	const char *text = json_string_value(annotation);
	size_t len = json_string_length(annotation);
	auto_json json_t *list = len && len <= NEXT_MAX ? json_loadb(text, len, 0, &problem) : NULL;
	if (!json_is_array(list))
		return refuse_node(
			n, "has an annotation kmodsmith.io/agent.kernels that is not a list of at most 256 bytes", err);
	for (size_t i = 0; i < json_array_size(list); i++)
		if (add_node_release(n, json_array_get(list, i), err) < 0)
			return -1;
	return 0;
}

int matrix_nodes_add(const char *text, size_t len, const char *file, const char *arch, struct matrix *m,
		     struct matrix_nodes *ret, struct err *err)
{
	struct nodes n = { .file = file, .arch = arch, .to = m, .found = ret };
	json_error_t problem;
	auto_json json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
	const json_t *items = json_object_get(json, "items");
	if (!json)
		return err_set(err, E_CONFIG, "'%s': not valid JSON at line %d: %s", file, problem.line, problem.text);
	if (!json_is_array(items))
		return err_set(err, E_CONFIG, "'%s' is not the output of `kubectl get nodes -o json`", file);
	*ret = (struct matrix_nodes){ .nodes = json_array_size(items) };
	for (n.at = 0; n.at < ret->nodes; n.at++) {
		struct err bad;
		if (add_node_kernels(&n, json_array_get(items, n.at), &bad) < 0 && !ret->bad++)
			ret->first_bad = bad;
	}
	return 0;
}
