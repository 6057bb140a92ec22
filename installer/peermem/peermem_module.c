// SPDX-License-Identifier: Apache-2.0
#include "peermem/peermem_module.h"

#include "kmod/load/provider.h"
#include "kmod/module/proof.h"
#include "precompiled/store/store.h"
#include "precompiled/trust/provenance.h"

#include <fcntl.h>

static const char PEERMEM[] = "nvidia-peermem", CORE[] = "nvidia", REGISTER[] = "ib_register_peer_memory_client";
// Below a root: the exported driver root, and the places where the network driver and its container leave theirs.
static const char EXPORT[] = "run/nvidia/driver", OFED[] = "run/mellanox/drivers", OFA[] = "usr/src/ofa_kernel";

void peermem_module_done(struct peermem_module *f)
{
	module_done(&f->module);
	module_done(&f->core);
	package_done(&f->package);
	free(f->from);
	strv_done(&f->needs);
	*f = PEERMEM_MODULE_NONE;
}

static int read_peermem_module(const struct root *root, const char *path, struct module *ret, struct err *err)
{
	auto_fd int fd = root_open(root, path, O_RDONLY, err);
	return fd < 0 || module_read(fd, path, ret, err) < 0 ? -1 : 0;
}

static bool is_text_same(const char *a, const char *b)
{
	return !a || !b || str_eq(a, b); // without a srcversion there is nothing to compare
}

// 1 = both files, of the driver that is loaded.
static int find_in_root(const struct root *root, const struct facts *facts, struct peermem_module *f, struct err *err)
{
	auto_str char *peermem = NULL, *core = NULL;
	const char *release = facts->host.release;
	int r = modules_host_file(root, release, "nvidia_peermem", &peermem, err);
	if (r > 0)
		r = modules_host_file(root, release, CORE, &core, err);
	if (r <= 0)
		return r;
	if (read_peermem_module(root, core, &f->core, err) < 0 ||
	    read_peermem_module(root, peermem, &f->module, err) < 0)
		return -1;
	// The driver's files must be those of what is loaded: peermem imports by CRC from it.
	const struct loaded_module *now = modules_find(&facts->loaded, CORE);
	if (!now || !is_text_same(f->core.srcversion, now->srcversion) ||
	    !is_text_same(f->core.version, now->version)) {
		module_done(&f->core);
		module_done(&f->module);
		return 0;
	}
	f->from = str_fmt("%s/%s", root->name, peermem);
	return 1;
}

static int read_from_package(const struct package *p, const char *module, struct module *ret, struct err *err)
{
	for (size_t i = 0; i < p->count; i++)
		if (str_eq(p->files[i].module, module))
			return read_peermem_module(&p->dir, p->files[i].name, ret, err);
	return err_set(err, E_NOT_FOUND, "package %s has no %s", p->place, module);
}

static int find_peermem_in_store(const struct node *node, const char *trust_dir, struct state_dir *memory,
				 const struct facts *facts, struct peermem_module *f, struct err *distrust,
				 struct err *err)
{
	auto_store struct store store = STORE_NONE;
	auto_trust_now struct trust_now trust = { 0 };
	auto_strv struct strv modules = { 0 };
	const struct loaded_module *now = modules_find(&facts->loaded, CORE);
	strv_add(&modules, str_dup(PEERMEM));
	const struct package_want want = { .driver = facts->loaded.version,
					   .flavour = module_type_name(facts->loaded.flavour),
					   .release = facts->host.release,
					   .build_id = facts->host.build_id,
					   .srcversion = now ? now->srcversion : NULL,
					   .modules = &modules };
	if (!node->state || !root_exists(node->state, "store"))
		return 0;
	if (store_open(node->state, 0, &store, err) < 0)
		return -1;
	int r = store_find(&store, &want, &f->package, err);
	if (r <= 0)
		return r;
	trust_now(node->host, trust_dir, &trust);
	if (provenance_check(&store.layout, f->package.manifest.digest, &trust, NULL, distrust) < 0) {
		package_done(&f->package);
		return 0;
	}
	distrust->code = 0;
	if (state_dir_stage(memory, &store.layout, node->state, &f->package, err) < 0 ||
	    read_from_package(&f->package, CORE, &f->core, err) < 0 ||
	    read_from_package(&f->package, PEERMEM, &f->module, err) < 0)
		return -1;
	f->from = str_dup(f->package.place);
	return 1;
}

static bool has_import(const struct module *m, const char *symbol)
{
	for (size_t i = 0; i < m->import_count; i++)
		if (str_eq(m->imports[i].name, symbol))
			return true;
	return false;
}

int peermem_module_find(const struct node *node, const char *trust_dir, struct state_dir *memory,
			const struct facts *facts, struct peermem_module *ret, struct err *err)
{
	auto_peermem_module struct peermem_module f = PEERMEM_MODULE_NONE;
	auto_root struct root export = ROOT_NONE;
	struct err distrust = { 0 };
	bool has_export = root_exists(node->host, EXPORT);
	int r = has_export ? root_sub(node->host, EXPORT, &export, err) : 0;
	if (r == 0 && has_export)
		r = find_in_root(&export, facts, &f, err);
	if (r == 0)
		r = find_peermem_in_store(node, trust_dir, memory, facts, &f, &distrust, err);
	if (r == 0)
		r = find_in_root(node->host, facts, &f, err);
	if (r < 0)
		return -1;
	if (r == 0 && distrust.code) {
		*err = distrust;
		return -1;
	}
	if (r == 0)
		return err_set(err, E_NOT_FOUND,
			       "no nvidia-peermem of the loaded driver %s in /%s, in the store or in the "
			       "host's lib/modules/%s",
			       facts->loaded.version, EXPORT, facts->host.release);
	f.has_dma_buf = facts->loaded.flavour == MODULE_TYPE_OPEN && has_import(&f.core, "dma_buf_export");
	*ret = f;
	f = PEERMEM_MODULE_NONE;
	return 0;
}

// Takes the CRCs from the file of the loaded ib_core. 1 = found.
static int add_loaded_file(const struct root *root, const char *release, const char *srcversion, struct symvers *to,
			   struct err *err)
{
	auto_module struct module m = MODULE_NONE;
	auto_str char *path = NULL;
	int r = modules_host_file(root, release, "ib_core", &path, err);
	if (r <= 0)
		return r;
	if (read_peermem_module(root, path, &m, err) < 0)
		return -1;
	if (!srcversion || !str_eq(m.srcversion, srcversion))
		return 0;
	symvers_add_all(to, m.exports);
	return 1;
}

// Where MLNX_OFED leaves the table of its build (nvidia-peermem.Kbuild looks in the same places). 1 = found.
static int add_symvers_table(const struct root *root, const struct facts *facts, struct symvers *to, struct err *err)
{
	const char *release = facts->host.release;
	auto_strv struct strv places = { 0 };
	strv_add(&places, str_fmt("%s/%s/%s/Module.symvers", OFA, facts->host.arch, release));
	strv_add(&places, str_fmt("%s/%s/Module.symvers", OFA, release));
	strv_add(&places, str_fmt("%s/default/Module.symvers", OFA));
	int r = 0;
	for (size_t i = 0; i < places.count && r == 0; i++) {
		if (!root_exists(root, places.items[i]))
			continue;
		auto_fd int fd = root_open(root, places.items[i], O_RDONLY, err);
		r = fd < 0 || symvers_add_file(to, fd, places.items[i], err) < 0 ? -1 : 1;
	}
	return r;
}

// What the loaded ib_core exports, by its own file, else by the symbol table of its build. If neither is found, the
// kernel's own table decides.
static int add_ib_core(const struct root *host, const struct root *kern, const struct facts *facts, struct symvers *to,
		       struct err *err)
{
	auto_root struct root ofed = ROOT_NONE;
	auto_str char *srcversion = NULL;
	const char *release = facts->host.release;
	if (!root_exists(kern, "sys/module/ib_core"))
		return 0;
	const struct root *seen = root_exists(kern, OFED) ? kern : host;
	if (root_line(kern, "sys/module/ib_core/srcversion", &srcversion, err) < 0 ||
	    (root_exists(seen, OFED) && root_sub(seen, OFED, &ofed, err) < 0))
		return -1;
	int r = add_loaded_file(host, release, srcversion, to, err);
	if (r == 0 && ofed.fd >= 0)
		r = add_loaded_file(&ofed, release, srcversion, to, err);
	if (r == 0 && ofed.fd >= 0)
		r = add_symvers_table(&ofed, facts, to, err);
	if (r == 0)
		r = add_symvers_table(host, facts, to, err);
	return r < 0 ? -1 : 0;
}

int peermem_module_prove(const struct node *node, const struct facts *facts, struct peermem_module *f, struct err *err)
{
	auto_symvers struct symvers *loaded = symvers_new();
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_proof struct proof proof = { 0 };
	const struct module *module = &f->module;
	if (!has_import(module, REGISTER))
		return err_set(err, E_SYMBOL,
			       "%s was compiled without %s, and such a module never starts; rebuild the "
			       "driver package with the network driver's headers",
			       f->from, REGISTER);
	symvers_add_all(loaded, f->core.exports);
	if (add_ib_core(node->host, node->kern, facts, loaded, err) < 0 ||
	    kernel_abi_read(&abi, node->host, node->kern, NULL, NULL, err) < 0)
		return err_wrap(err, "compare nvidia-peermem with the loaded ib_core");
	proof_make(&module, 1, &abi, loaded, &proof);
	if (proof_error(&proof, err) < 0)
		return -1;
	for (size_t i = 0; i < proof.needs.count; i++)
		if (provider_check(node->host, node->kern, facts->host.release, proof.needs.items[i], err) < 0)
			return -1;
	strv_done(&f->needs);
	f->needs = proof.needs;
	proof.needs = (struct strv){ 0 };
	return 0;
}
