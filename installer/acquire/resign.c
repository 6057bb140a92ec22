// SPDX-License-Identifier: Apache-2.0
#include "acquire/resign.h"

#include "acquire/compile.h"
#include "acquire/signing.h"
#include "precompiled/package/unpack.h"

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
	statement_set_time(statement);
	json_object_set_new(internal, "moduleSigner", json_string(signer));
	*ret = json_incref(json_object_get(statement, "predicate"));
	return 0;
}

static int unpack(const struct layout *l, struct package *p, struct scratch *work, struct strv *ret_names,
		  struct err *err)
{
	for (size_t i = 0; i < p->count; i++)
		strv_add(ret_names, str_dup(p->files[i].name));
	return scratch_make(&l->root, "sign", work, err) < 0 ? -1 : unpack_package(l, &work->root, p, err);
}

static int attach(const struct resign *how, const struct root *dir, const struct strv *names, struct err *err)
{
	auto_root struct root signatures = ROOT_NONE;
	return root_init(&signatures, how->signatures, err) < 0 ?
		       -1 :
		       signing_attach(how->signer, &signatures, dir, names, err);
}

static int make_signed(const struct layout *l, const struct oci_descriptor *manifest, const struct resign *how,
		       struct package *ret, struct err *err)
{
	const char *signer = module_signer_id(how->signer);
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_package struct package p = PACKAGE_NONE;
	auto_module_set struct module_set set = { 0 };
	auto_strv struct strv names = { 0 };
	auto_json json_t *predicate = NULL;
	int r = package_read(l, manifest, &p, err);
	if (r <= 0 || str_eq(p.key.signer, signer))
		return r < 0 ? -1 : 0;
	free(p.key.signer);
	p.key.signer = str_dup(signer);
	if (unpack(l, &p, &work, &names, err) < 0)
		return -1;
	r = how->signatures ? attach(how, &p.dir, &names, err) :
			      signing_sign(how->signer, how->hash, &p.dir, &names, err);
	if (r < 0 || module_set_read(&p.dir, &names, &set, err) < 0 ||
	    read_predicate(l, manifest->digest, p.key.signer, &predicate, err) < 0 ||
	    package_create(l, &p.dir, &p.key, p.files, p.count, ret, err) < 0 ||
	    compile_describe(l, ret, predicate, &set, err) < 0)
		return -1;
	return 1;
}

int resign_package(const struct layout *l, const struct oci_descriptor *manifest, const struct resign *how,
		   struct package *ret, struct err *err)
{
	// SOURCE_DATE_EPOCH is part of a package, and another package than this may have another one, or none.
	auto_str char *time = str_dup(getenv("SOURCE_DATE_EPOCH"));
	int r = make_signed(l, manifest, how, ret, err);
	if (time)
		setenv("SOURCE_DATE_EPOCH", time, 1);
	else
		unsetenv("SOURCE_DATE_EPOCH");
	return r;
}

int resign_export(const struct layout *l, const struct oci_descriptor *manifest, const char *dir, struct err *err)
{
	auto_root struct root to = ROOT_NONE;
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_package struct package p = PACKAGE_NONE;
	auto_strv struct strv names = { 0 };
	int r = package_read(l, manifest, &p, err);
	if (r <= 0)
		return r;
	if (unpack(l, &p, &work, &names, err) < 0 || root_make(dir, &to, err) < 0 ||
	    signing_export(&p.dir, &names, &to, err) < 0)
		return -1;
	return 1;
}
