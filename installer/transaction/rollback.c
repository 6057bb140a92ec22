// SPDX-License-Identifier: Apache-2.0
// The way back: which driver is restored if a change fails, and its modules, loaded again.
#include "transaction/transaction_internal.h"

#include "journal/loaded_params.h"
#include "kmod/load/load.h"
#include "precompiled/package/package.h"

#include <fcntl.h>
#include <limits.h>

void rollback_done(struct rollback *b)
{
	driver_state_done(&b->driver);
	package_done(&b->package);
	strv_done(&b->files);
	*b = ROLLBACK_NONE;
}

// Turns a parameter as shown by the kernel into a load argument. The driver parses signed numbers; a larger value is a
// default.
static void add_param(char **text, const char *prefix, const char *shown)
{
	const char *sign = strchr(shown, '='), *value = sign ? sign + 1 : "";
	uint64_t number;
	if (!*value || str_eq(value, "(null)") || (str_u64(value, 10, &number) && number > INT_MAX))
		return;
	const char *quote = strchr(value, ' ') ? "\"" : "";
	str_add(text, "%s%s%.*s%s%s%s", *text ? " " : "", prefix, (int)(value - shown), shown, quote, value, quote);
}

// The journal has the parameters of a driver that was loaded here in this boot; those of others are read from the
// kernel.
static void loaded_driver(const struct facts *f, const struct journal *j, struct driver_state *ret)
{
	const struct modules *l = &f->loaded;
	ret->version = str_dup(l->version);
	ret->flavour = str_dup(module_type_name(l->flavour));
	ret->kernel = str_dup(f->host.build_id);
	const struct driver_state *ours =
		loaded_params_record(j, f->host.boot_id, ret->version, ret->flavour ? ret->flavour : "");
	for (size_t i = 0; i < l->count; i++) {
		const struct loaded_module *m = &l->items[i];
		auto_str char *params = NULL;
		if (!m->is_driver)
			continue;
		char *name = str_dup(m->name);
		for (char *c = name; *c; c++)
			*c = *c == '_' ? '-' : *c;
		strv_add(&ret->modules, name);
		for (size_t p = 0; p < m->params.count; p++)
			add_param(&params, "", m->params.items[p]);
		for (size_t p = 0; str_eq(m->name, "nvidia") && p < l->params.count; p++)
			add_param(&params, "NVreg_", l->params.items[p]);
		if (params && !ours)
			driver_state_set_params(ret, m->name, params);
	}
	if (ours) {
		ret->digest = str_dup(ours->digest);
		for (size_t i = 0; i < ours->params.count; i++)
			strv_add(&ret->params, str_dup(ours->params.items[i]));
	}
}

static void choose_rollback_driver(const struct facts *f, const struct journal *j, const struct driver_state *target,
				   struct driver_state *ret)
{
	if (journal_is_open(j, f->host.boot_id))
		driver_state_copy(j->previous.version ? &j->previous : &j->last_good, ret);
	else if (f->loaded.version)
		loaded_driver(f, j, ret);
	else
		driver_state_copy(&j->last_good, ret);
	if (!str_eq(ret->kernel, f->host.build_id) || driver_state_same(ret, target))
		driver_state_done(ret);
}

static bool has_driver_module(const struct driver_state *d, const char *module)
{
	auto_str char *name = module_canonical(module);
	for (size_t i = 0; i < d->modules.count; i++) {
		auto_str char *wanted = module_canonical(d->modules.items[i]);
		if (str_eq(name, wanted))
			return true;
	}
	return false;
}

static bool is_loaded_package(const struct facts *f, const struct package *p)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct loaded_module *m = modules_find(&f->loaded, p->files[i].module);
		if (m && m->srcversion && !str_eq(m->srcversion, p->files[i].srcversion))
			return false;
	}
	return true;
}

// 1 = from the store. The digest alone decides: the package may have been made for another kernel.
static int find_stored_files(struct session *s, const struct package *have, struct rollback *b, struct err *err)
{
	const struct facts *f = &s->facts;
	const struct driver_state *d = &b->driver;
	struct package_want want = { .digest = d->digest,
				     .driver = d->version,
				     .flavour = d->flavour,
				     .release = d->digest ? NULL : f->host.release,
				     .build_id = d->digest ? NULL : f->host.build_id };
	if (!acquire_has_store(&s->acquire))
		return 0;
	int r = package_find(&s->acquire.store.layout, &want, &b->package, NULL, err);
	if (r <= 0 || (!d->digest && !is_loaded_package(f, &b->package))) {
		package_done(&b->package);
		return r < 0 ? -1 : 0;
	}
	s->acquire.is_back = true;
	r = acquire_check_trust(&s->acquire, b->package.manifest.digest, err);
	s->acquire.is_back = false;
	if (r < 0)
		return err_wrap(err, "%s", err_info(err->code)->name);
	bool is_unpacked = have->dir.fd >= 0 && str_eq(have->manifest.digest, b->package.manifest.digest);
	if (!is_unpacked &&
	    state_dir_stage(&s->acquire.memory, &s->acquire.store.layout, s->acquire.fetch.state, &b->package, err) < 0)
		return -1;
	b->shared = is_unpacked ? &have->dir : NULL;
	for (size_t i = 0; i < b->package.count; i++)
		if (has_driver_module(d, b->package.files[i].module))
			strv_add(&b->files, str_dup(b->package.files[i].name));
	return 1;
}

static bool is_file_of(const struct root *host, const struct loaded_module *m)
{
	struct err ignored;
	auto_module struct module file = MODULE_NONE;
	auto_fd int fd = root_open(host, m->file, O_RDONLY, &ignored);
	return fd >= 0 && module_read(fd, m->file, &file, &ignored) == 0 && str_eq(file.srcversion, m->srcversion);
}

// A driver that was loaded from the host's own tree is restored from there.
static int find_on_host(struct session *s, struct rollback *b)
{
	const struct modules *l = &s->facts.loaded;
	for (size_t i = 0; i < l->count; i++) {
		const struct loaded_module *m = &l->items[i];
		if (!has_driver_module(&b->driver, m->name))
			continue;
		if (!m->file || !is_file_of(s->node.host, m)) {
			strv_done(&b->files);
			return 0;
		}
		strv_add(&b->files, str_dup(m->file));
	}
	return b->files.count == b->driver.modules.count;
}

void rollback_prepare(struct session *s, const struct journal *j, const struct driver_state *target,
		      const struct package *have, struct rollback *ret)
{
	auto_rollback struct rollback b = ROLLBACK_NONE;
	struct err why = { .text = "its modules are neither in a package of this node nor on the host" };
	choose_rollback_driver(&s->facts, j, target, &b.driver);
	if (!b.driver.version)
		return;
	int stored = find_stored_files(s, have, &b, &why);
	if (stored <= 0)
		package_done(&b.package); // then its files come from the host
	if (stored <= 0 && !find_on_host(s, &b)) {
		progress_note(s->node.progress, "no way back to driver %s: %s", b.driver.version, why.text);
		return;
	}
	*ret = b;
	b = ROLLBACK_NONE;
}

int rollback_load(struct session *s, const struct rollback *b, struct err *err)
{
	auto_module_set struct module_set set = { 0 };
	const struct root *dir = b->shared ? b->shared : b->package.count ? &b->package.dir : s->node.host;
	if (module_set_read(dir, &b->files, &set, err) < 0)
		return -1;
	size_t *order = mem_alloc(set.count * sizeof(*order));
	int any = load_order(set.pointers, set.count, order, err);
	for (size_t i = 0; any >= 0 && i < set.count; i++) {
		const struct module *m = &set.items[order[i]];
		auto_str char *params = module_params_known(m, driver_state_params(&b->driver, m->name));
		int r = load_module(s->node.sys, s->node.kern, m, params, s->request->load_timeout_ms, err);
		if (r < 0 && (err->code == E_WEDGED || !optional_modules_is(m->name)))
			any = -1;
		else if (r < 0)
			progress_note(s->node.progress, "%s was not reloaded, and the driver works without it: %s",
				      m->name, err->text);
		else
			any |= r > 0;
	}
	free(order);
	return any;
}
