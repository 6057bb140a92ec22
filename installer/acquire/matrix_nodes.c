// SPDX-License-Identifier: Apache-2.0
// Kernels of a matrix from what nodes report: the answer of `kubectl get nodes -o json`, as a cluster gave it.
//
// What a node says is its own word: one that says no kernel release is left out and told of, the others count; and
// there is a bound to how many compiles the nodes of a cluster can ask for.
#include "acquire/matrix.h"
#include "base/formats/json.h"

enum { RELEASE_MAX = 64, KERNELS_MAX = 256, NEXT_MAX = 256, NAME_MAX_LEN = 253 };
static const char NEXT[] = "kmodsmith.io/agent.kernels"; // annotation: a JSON list of releases that are to come

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
// uname -r of some kernel: the field has 64 characters, and what stands in it goes into tags and paths.
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
		return refuse_node(n, "reports what is no kernel release", err);
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

static int add_annotated_releases(const struct nodes *n, const json_t *annotation, struct err *err)
{
	const char *text = json_string_value(annotation);
	size_t len = json_string_length(annotation);
	json_error_t problem;
	if (!annotation)
		return 0;
	auto_json json_t *list = len && len <= NEXT_MAX ? json_loadb(text, len, 0, &problem) : NULL;
	if (!json_is_array(list))
		return refuse_node(
			n, "has an annotation kmodsmith.io/agent.kernels that is no list of at most 256 bytes", err);
	for (size_t i = 0; i < json_array_size(list); i++)
		if (add_node_release(n, json_array_get(list, i), err) < 0)
			return -1;
	return 0;
}

// As Go says it, which nodes report; uname says the same of the others.
static bool is_arch(const struct nodes *n, const char *reported)
{
	const char *arch = str_eq(reported, "amd64") ? "x86_64" : str_eq(reported, "arm64") ? "aarch64" : reported;
	return str_eq(arch, n->arch);
}

static int add_node_kernels(struct nodes *n, const json_t *node, struct err *err)
{
	const json_t *metadata = json_object_get(node, "metadata"), *name = json_object_get(metadata, "name"),
		     *info = json_object_get(json_object_get(node, "status"), "nodeInfo"),
		     *arch = json_object_get(info, "architecture");
	n->name = is_text_of(name, LOWER, NAME_MAX_LEN) ? json_string_value(name) : "?";
	if (arch && !is_arch(n, json_string_value(arch))) {
		n->found->others++;
		return 0;
	}
	if (add_node_release(n, json_object_get(info, "kernelVersion"), err) < 0)
		return -1;
	return add_annotated_releases(n, json_object_get(json_object_get(metadata, "annotations"), NEXT), err);
}

int matrix_nodes_add(const char *text, size_t len, const char *file, const char *arch, struct matrix *m,
		     struct matrix_nodes *ret, struct err *err)
{
	struct nodes n = { .file = file, .arch = arch, .to = m, .found = ret };
	json_error_t problem;
	auto_json json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
	const json_t *items = json_object_get(json, "items");
	if (!json)
		return err_set(err, E_CONFIG, "'%s' line %d is not JSON: %s", file, problem.line, problem.text);
	if (!json_is_array(items))
		return err_set(err, E_CONFIG, "'%s' is no list of nodes as `kubectl get nodes -o json` gives it", file);
	*ret = (struct matrix_nodes){ .nodes = json_array_size(items) };
	for (n.at = 0; n.at < ret->nodes; n.at++) {
		struct err bad;
		if (add_node_kernels(&n, json_array_get(items, n.at), &bad) < 0 && !ret->bad++)
			ret->first_bad = bad;
	}
	return 0;
}
