// SPDX-License-Identifier: Apache-2.0
#include "acquire/compile_target.h"

int compile_target_headers(const struct root *host, const struct root *state, const struct strv *files,
			   const struct headers_offer *offer, const char *release, const char *banner, struct tree *ret,
			   char **ret_from, struct err *err)
{
	auto_root struct root store = ROOT_NONE;
	if (root_mkdirs(state, "headers", 0755, err) < 0 || root_sub(state, "headers", &store, err) < 0)
		return -1;
	struct headers_source sources[] = {
		{ .kind = HEADERS_ROOT, .name = "host", .root = host },
		{ .kind = HEADERS_OFFER, .name = "packed headers", .offer = offer }, // which knows of newer ones
		{ .kind = HEADERS_STORE, .name = "header store" },
	};
	size_t count = ARRAY_SIZE(sources);
	if (!offer)
		sources[1] = sources[--count];
	if (files && files->count) {
		sources[0] = (struct headers_source){ .kind = HEADERS_FILES, .name = "--headers", .files = files };
		count = 1; // wrong files are a mistake to tell, not a reason to take others
	}
	return headers_find(sources, count, release, banner, &store, ret, ret_from, err);
}

int compile_target_abi(const struct tree *tree, struct kernel_abi *ret, struct err *err)
{
	auto_str char *symvers = NULL;
	size_t len = 0;
	if (tree->symvers && root_read(&tree->root, tree->symvers, &symvers, &len, err) < 0)
		return -1;
	return kernel_abi_add_tree(ret, tree->release, symvers, len, tree->config, strlen(tree->config), err);
}
