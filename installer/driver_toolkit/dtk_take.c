// SPDX-License-Identifier: Apache-2.0
#include "driver_toolkit/dtk_take.h"

#include "host/module_set.h"
#include "kmod/module/prove.h"

static int prove_toolkit_package(const struct package *p, const struct root *host, const struct root *kern,
				 struct err *err)
{
	auto_strv struct strv files = { 0 };
	auto_module_set struct module_set set = { 0 };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_proof struct proof proof = { 0 };
	for (size_t i = 0; i < p->count; i++)
		strv_add(&files, str_dup(p->files[i].name));
	if (module_set_read(&p->dir, &files, &set, err) < 0 || kernel_abi_read(&abi, host, kern, NULL, err) < 0)
		return -1;
	prove_modules(set.pointers, set.count, &abi, NULL, &proof);
	return proof_error(&proof, err);
}

static int take_into_store(struct acquire *o, const struct dtk_request *request, const struct root *host,
			   const struct root *kern, struct package *ret, struct err *err)
{
	struct err ignored;
	if (acquire_find(o, false, err) < 0)
		return -1;
	const struct package *p = acquire_found(o);
	if (!p)
		return err_set(err, E_NO_PACKAGE, "%s", o->why_not ? o->why_not : "it has no package");
	if (!str_eq(p->key.source, request->source_sha256))
		return err_set(err, E_NO_PACKAGE, "it is not of the source that was asked for");
	if (acquire_take(o, ret, err) < 0)
		return -1;
	if (prove_toolkit_package(ret, host, kern, err) == 0)
		return 0;
	store_quarantine(&o->store, ret->layer.digest, NULL, &ignored);
	return -1;
}

int dtk_take(const struct acquire *as, const struct dtk_request *request, const struct root *shared, const char *id,
	     const struct root *host, const struct root *kern, char **ret_tag, struct err *err)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_package struct package package = PACKAGE_NONE;
	auto_strv struct strv from = { 0 };
	if (scratch_make(as->fetch.state, "toolkit", &work, err) < 0 ||
	    dtk_package_copy(shared, id, &work.root, err) < 0)
		return -1;
	strv_add(&from, str_fmt("oci:%s", work.root.name));
	struct acquire o = ACQUIRE_NONE;
	o.fetch = as->fetch;
	o.fetch.from = &from;
	o.fetch.trust = NULL; // our own request came back; who may write the directory is in our pod
	o.fetch.is_unverified = false;
	o.fetch.is_compiled_here = true;
	o.fetch.down = NULL;
	o.want = as->want;
	o.want.driver = request->driver;
	o.want.flavour = request->flavour;
	o.want.source = NULL;
	o.limit = as->limit;
	o.kernels = as->kernels; // borrowed
	o.is_named = true;
	o.progress = as->progress;
	int r = take_into_store(&o, request, host, kern, &package, err);
	if (r == 0)
		*ret_tag = package_tag(&package.key);
	o.kernels = (struct strv){ 0 };
	package_done(&package); // before the store that it came from
	acquire_done(&o);
	return r;
}
