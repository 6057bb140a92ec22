// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/find.h"

int find_by_descriptor(const struct layout *l, const struct oci_descriptor *manifest, struct package *ret,
		       struct err *err)
{
	auto_str char *text = NULL, *config = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	size_t len = 0, config_len = 0;
	if (str_eq(manifest->media_type, OCI_INDEX)) // signatures under their fallback tag
		return 0;
	if (layout_blob_read(l, manifest, &text, &len, err) < 0 ||
	    oci_manifest_parse(text, len, manifest->digest, &m, err) < 0)
		return -1;
	if (!str_eq(m.artifact_type, PACKAGE_TYPE))
		return 0;
	if (layout_blob_read(l, &m.config, &config, &config_len, err) < 0 ||
	    package_parse(&m, manifest, config, config_len, ret, err) < 0)
		return -1;
	ret->place = str_fmt("oci:%s", l->root.name);
	return 1;
}

// An annotation with another release saves reading the blobs; a missing one proves nothing.
static bool is_excluded(const struct oci_descriptor *d, const struct package_want *want)
{
	const char *release = oci_descriptor_annotation(d, PACKAGE_RELEASE);
	return (d->media_type && !str_eq(d->media_type, OCI_MANIFEST)) ||
	       (release && want->release && !str_eq(release, want->release));
}

int find_package(const struct layout *l, const struct package_want *want, struct package *ret, char **ret_why,
		 struct err *err)
{
	auto_oci_index struct oci_index index = { 0 };
	auto_package struct package best = PACKAGE_NONE;
	auto_str char *why = NULL;
	if (layout_index(l, &index, err) < 0)
		return -1;
	for (size_t i = 0; i < index.count; i++) {
		auto_package struct package p = PACKAGE_NONE;
		auto_str char *reason = NULL;
		struct err ignored;
		if (is_excluded(&index.items[i], want) || find_by_descriptor(l, &index.items[i], &p, &ignored) <= 0)
			continue;
		if (package_fits(&p, want, &reason) == 0) {
			free(why);
			why = TAKE(reason);
		} else if (!best.count || str_version_cmp(p.key.driver, best.key.driver) >= 0) {
			package_move(&p, &best);
		}
	}
	if (best.count) {
		package_move(&best, ret);
		return 1;
	}
	if (ret_why)
		*ret_why = TAKE(why);
	return 0;
}
