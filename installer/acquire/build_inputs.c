// SPDX-License-Identifier: Apache-2.0
#include "acquire/build_inputs.h"

#include "base/file/copy.h"
#include "base/file/file.h"

#include <fcntl.h>

static const char OF[] = "of", OF_FILE[] = "package file", OF_TREE[] = "tree";

// kind: of what the digest is, if the name does not say it; NULL = it does.
static void add_input(json_t *inputs, const char *name, const char *hex, const char *kind)
{
	json_t *one = json_pack("{s:s, s:{s:s}}", "name", name, "digest", "sha256", hex);
	if (kind)
		json_object_set_new(one, "annotations", json_pack("{s:s}", OF, kind));
	json_array_append_new(inputs, one);
}

static int digest_files(const struct strv *files, struct strv *ret, struct err *err)
{
	for (size_t i = 0; i < files->count; i++) {
		char hex[DIGEST_HEX + 1];
		auto_fd int fd = file_open_arg(files->items[i], O_RDONLY, err);
		if (fd < 0 || digest_file(fd, files->items[i], hex, err) < 0)
			return -1;
		strv_add(ret, str_dup(hex));
	}
	strv_sort(ret);
	return 0;
}

static int digest_header_tree(const struct tree *tree, char ret[DIGEST_HEX + 1], struct err *err)
{
	auto_str char *all = NULL;
	for (size_t i = 0; i < tree->dirs.count; i++) {
		auto_root struct root dir = ROOT_NONE;
		char hex[DIGEST_HEX + 1];
		if (root_sub(&tree->root, tree->dirs.items[i], &dir, err) < 0 || copy_digest(&dir, hex, err) < 0)
			return -1;
		str_add(&all, "%s %s\n", tree->dirs.items[i], hex);
	}
	digest_data(all ? all : "", all ? strlen(all) : 0, ret);
	return 0;
}

static int add_headers(const struct compile_request *request, const struct tree *tree, json_t *inputs, struct err *err)
{
	auto_strv struct strv files = { 0 };
	char hex[DIGEST_HEX + 1];
	if (digest_files(&request->asked->headers, &files, err) < 0)
		return -1;
	for (size_t i = 0; i < files.count; i++)
		add_input(inputs, STATEMENT_HEADERS, files.items[i], OF_FILE);
	if (files.count)
		return 0;
	if (digest_header_tree(tree, hex, err) < 0)
		return -1;
	add_input(inputs, STATEMENT_HEADERS, hex, OF_TREE);
	return 0;
}

int build_inputs_open(const struct compile_request *request, const struct tree *tree, json_t **ret, struct err *err)
{
	auto_json json_t *inputs = json_array();
	add_input(inputs, STATEMENT_SOURCE, request->source->digest, NULL);
	if (add_headers(request, tree, inputs, err) < 0)
		return -1;
	*ret = TAKE(inputs);
	return 0;
}

int build_inputs_builder(const struct root *base, json_t *inputs, struct err *err)
{
	const char *slash = strrchr(base->name, '/'), *hex = slash ? slash + 1 : base->name;
	if (!digest_is_hex(hex)) // unpacked under the digest of its content, see acquire_builder()
		return err_set(err, E_SYSTEM, "the builder root '%s' is not named by its digest", base->name);
	add_input(inputs, STATEMENT_BUILDER, hex, NULL);
	return 0;
}

json_t *build_inputs_predicate(const struct tree *tree, const struct build_outcome *done, const struct package_key *key,
			       json_t *inputs)
{
	for (size_t i = 0; i < done->patches.count; i++) {
		auto_str char *name = str_fmt("%s%s", STATEMENT_PATCH, done->patches.items[i].name);
		add_input(inputs, name, done->patches.items[i].digest, NULL);
	}
	for (size_t i = 0; i < done->core.keys.count; i++) {
		auto_str char *name = str_fmt("%s%s", STATEMENT_CORE, done->core.keys.items[i].core->module);
		add_input(inputs, name, done->core.digests[i], NULL);
	}
	json_t *external =
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:b}", "driver", json_text(key->driver), "flavour",
			  json_text(key->flavour), "kernel", json_text(key->release), "arch", json_text(key->arch),
			  "modules", json_strv(&key->modules), "allowRealTime", tree->is_rt);
	json_t *internal =
		json_pack("{s:s*, s:s*, s:s*, s:s*}", "kernelBuildId", key->build_id, "compiler", key->compiler,
			  "moduleSigner", key->signer, "sourceDateEpoch", getenv("SOURCE_DATE_EPOCH"));
	return json_pack("{s:{s:s, s:o, s:o, s:O}, s:{s:{s:s, s:{s:s}}}}", "buildDefinition", "buildType",
			 STATEMENT_BUILD_TYPE, "externalParameters", external, "internalParameters", internal,
			 "resolvedDependencies", inputs, "runDetails", "builder", "id",
			 "https://kmodsmith.io/kmodsmith", "version", "kmodsmith", KMODSMITH_VERSION);
}
