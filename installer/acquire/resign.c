// SPDX-License-Identifier: Apache-2.0
#include "acquire/resign.h"

#include "acquire/compile.h"
#include "precompiled/package/unpack.h"

static int sign_files(const struct module_signer *signer, const char *hash, const struct package *p, struct err *err)
{
	for (size_t i = 0; i < p->count; i++) {
		auto_str char *module = NULL, *with = NULL;
		size_t len = 0, with_len = 0;
		if (root_read(&p->dir, p->files[i].name, &module, &len, err) < 0 ||
		    module_sign(signer, hash, module, len, &with, &with_len, err) < 0 ||
		    root_write(&p->dir, p->files[i].name, with, with_len, 0644, err) < 0)
			return err_wrap(err, "%s", p->files[i].name);
	}
	return 0;
}

// The predicate of the statement about it, with the new signer. NULL = nothing is stated.
static int read_predicate(const struct layout *l, const char *hex, const char *signer, json_t **ret, struct err *err)
{
	auto_repository struct repository *r = repository_of_layout(l);
	auto_json json_t *statement = NULL;
	*ret = NULL;
	if (statement_read(r, hex, &statement, err) < 0)
		return -1;
	json_t *internal = (json_t *)(uintptr_t)statement_internal(statement);
	if (!internal)
		return 0;
	json_object_set_new(internal, "moduleSigner", json_string(signer));
	*ret = json_incref(json_object_get(statement, "predicate"));
	return 0;
}

int resign_package(const struct layout *l, const struct oci_descriptor *manifest, const struct module_signer *signer,
		   const char *hash, struct package *ret, struct err *err)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_package struct package p = PACKAGE_NONE;
	auto_module_set struct module_set set = { 0 };
	auto_strv struct strv names = { 0 };
	auto_json json_t *predicate = NULL;
	int r = package_read(l, manifest, &p, err);
	if (r <= 0 || str_eq(p.key.signer, module_signer_id(signer)))
		return r < 0 ? -1 : 0;
	if (scratch_make(&l->root, "sign", &work, err) < 0 || unpack_package(l, &work.root, &p, err) < 0 ||
	    sign_files(signer, hash, &p, err) < 0)
		return -1;
	for (size_t i = 0; i < p.count; i++)
		strv_add(&names, str_dup(p.files[i].name));
	free(p.key.signer);
	p.key.signer = str_dup(module_signer_id(signer));
	if (module_set_read(&p.dir, &names, &set, err) < 0 ||
	    read_predicate(l, manifest->digest, p.key.signer, &predicate, err) < 0 ||
	    package_create(l, &p.dir, &p.key, p.files, p.count, ret, err) < 0 ||
	    compile_describe(l, ret, predicate, &set, err) < 0)
		return -1;
	return 1;
}
