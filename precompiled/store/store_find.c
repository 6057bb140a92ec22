// SPDX-License-Identifier: Apache-2.0
// What the store has for a kernel: a package that was made for it, or one that was taken for it.
#include "precompiled/package/find.h"
#include "precompiled/store/store.h"

int store_find_reused(const struct store *s, const struct package_want *want, struct package *ret, struct err *err)
{
	auto_store_roots struct store_roots roots = { 0 };
	struct package_want other = *want;
	if (store_roots(s, &roots, err) < 0)
		return -1;
	other.digest = store_roots_reuse(&roots, want->release, want->build_id);
	other.release = other.build_id = NULL;
	return other.digest ? find_package(&s->layout, &other, ret, NULL, err) : 0;
}

int store_find(const struct store *s, const struct package_want *want, struct package *ret, struct err *err)
{
	int r = find_package(&s->layout, want, ret, NULL, err);
	return r == 0 ? store_find_reused(s, want, ret, err) : r;
}
