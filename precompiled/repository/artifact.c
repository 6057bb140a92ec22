// SPDX-License-Identifier: Apache-2.0
#include "precompiled/repository/artifact.h"

int artifact_put(const struct layout *l, const char *type, const struct oci_descriptor *subject, const json_t *json,
		 struct oci_descriptor *ret, struct err *err)
{
	auto_str char *data = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	auto_oci_manifest struct oci_manifest m = { .artifact_type = str_dup(type), .count = 1 };
	m.layers = mem_alloc(sizeof(*m.layers));
	if (subject)
		oci_descriptor_copy(subject, &m.subject);
	if (strlen(data) > OCI_DOCUMENT_MAX)
		return err_set(err, E_TOO_LARGE, "document of type %s has %zu bytes, more than the limit of %d", type,
			       strlen(data), OCI_DOCUMENT_MAX);
	if (layout_document_put(l, OCI_EMPTY, "{}", &m.config, err) < 0 ||
	    layout_document_put(l, type, data, &m.layers[0], err) < 0)
		return -1;
	auto_str char *text = oci_manifest_text(&m);
	if (layout_document_put(l, OCI_MANIFEST, text, ret, err) < 0)
		return -1;
	ret->artifact_type = str_dup(type);
	return 0;
}

int artifact_read(struct repository *r, const char *tag, const char *type, const char *manifest, size_t len, char **ret,
		  size_t *ret_len, struct err *err)
{
	auto_str char *name = str_fmt("%s:%s", r->name, tag);
	auto_oci_manifest struct oci_manifest m = { 0 };
	if (oci_manifest_parse(manifest, len, name, &m, err) < 0)
		return -1;
	if (!str_eq(m.artifact_type, type) || m.count != 1)
		return err_set(err, E_MANIFEST, "'%s' has artifactType '%s' instead of %s", name,
			       m.artifact_type ? m.artifact_type : "", type);
	int found = repository_document(r, &m.layers[0], ret, ret_len, err);
	if (found == 0)
		return err_set(err, E_INCOMPLETE, "'%s': blob sha256:%s is missing", name, m.layers[0].digest);
	return found < 0 ? -1 : 0;
}
