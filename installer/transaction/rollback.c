// SPDX-License-Identifier: Apache-2.0
#include "transaction/rollback.h"

#include "host/module_set.h"
#include "kmod/load/load.h"
#include "precompiled/package/find.h"

#include <fcntl.h>
#include <limits.h>

void rollback_done(struct rollback *b)
{
	driver_state_done(&b->driver);
	package_done(&b->package);
	strv_done(&b->files);
	*b = ROLLBACK_NONE;
}

static char *dashed_name(const char *canonical)
{
	char *name = str_dup(canonical);
	for (char *p = name; *p; p++)
		*p = *p == '_' ? '-' : *p;
	return name;
}

// What the kernel shows of a parameter as an argument of a load. The driver's numbers are signed there, and what does
// not fit is a default.
static void add_param(char **text, const char *prefix, const char *shown)
{
	const char *sign = strchr(shown, '='), *value = sign ? sign + 1 : "";
	uint64_t number;
	if (!*value || str_eq(value, "(null)") || (str_u64(value, 10, &number) && number > INT_MAX))
		return;
	const char *quote = strchr(value, ' ') ? "\"" : "";
	str_add(text, "%s%s%.*s%s%s%s", *text ? " " : "", prefix, (int)(value - shown), shown, quote, value, quote);
}

static void add_loaded_params(const struct modules *l, struct driver_state *d)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct loaded_module *m = &l->items[i];
		auto_str char *text = NULL;
		bool is_core = str_eq(m->name, "nvidia");
		for (size_t p = 0; p < m->params.count; p++)
			add_param(&text, "", m->params.items[p]);
		for (size_t p = 0; is_core && p < l->params.count; p++)
			add_param(&text, "NVreg_", l->params.items[p]);
		if (m->is_driver && text)
			driver_state_set_params(d, m->name, text);
	}
}

// A driver that was put in here in this boot has its parameters in the journal; of another one the kernel shows them.
static void loaded_driver(const struct facts *f, const struct journal *j, struct driver_state *ret)
{
	const struct modules *l = &f->loaded;
	struct driver_state d = { .version = str_dup(l->version),
				  .flavour = str_dup(flavour_name(l->flavour)),
				  .kernel = str_dup(f->host.build_id) };
	for (size_t i = 0; i < l->count; i++)
		if (l->items[i].is_driver)
			strv_add(&d.modules, dashed_name(l->items[i].name));
	if (str_eq(j->last_good_boot, f->host.boot_id) && str_eq(j->last_good.version, d.version) &&
	    str_eq(j->last_good.flavour, d.flavour)) {
		d.digest = str_dup(j->last_good.digest);
		for (size_t i = 0; i < j->last_good.params.count; i++)
			strv_add(&d.params, str_dup(j->last_good.params.items[i]));
	} else {
		add_loaded_params(l, &d);
	}
	*ret = d;
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

// 1 = from the store. A digest says all: what served this kernel may have been made for another one.
static int find_stored_files(const struct apply *a, const struct package *have, struct rollback *b, struct err *err)
{
	const struct facts *f = a->facts;
	const struct driver_state *d = &b->driver;
	struct package_want want = { .digest = d->digest,
				     .driver = d->version,
				     .flavour = d->flavour,
				     .release = d->digest ? NULL : f->host.release,
				     .build_id = d->digest ? NULL : f->host.build_id };
	if (!acquire_has_store(a->acquire))
		return 0;
	int r = find_package(&a->acquire->store.layout, &want, &b->package, NULL, err);
	if (r <= 0 || (!d->digest && !is_loaded_package(f, &b->package))) {
		package_done(&b->package);
		return r < 0 ? -1 : 0;
	}
	a->acquire->is_back = true;
	r = acquire_check_trust(a->acquire, b->package.manifest.digest, err);
	a->acquire->is_back = false;
	if (r < 0)
		return err_wrap(err, "%s", err_info(err->code)->name);
	bool is_unpacked = have->dir.fd >= 0 && str_eq(have->manifest.digest, b->package.manifest.digest);
	if (!is_unpacked && acquire_unpack(a->acquire, &b->package, err) < 0)
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

// A driver that came from the host's own tree comes back from there.
static int find_on_host(const struct apply *a, struct rollback *b)
{
	const struct modules *l = &a->facts->loaded;
	for (size_t i = 0; i < l->count; i++) {
		const struct loaded_module *m = &l->items[i];
		if (!has_driver_module(&b->driver, m->name))
			continue;
		if (!m->file || !is_file_of(a->host, m)) {
			strv_done(&b->files);
			return 0;
		}
		strv_add(&b->files, str_dup(m->file));
	}
	return b->files.count == b->driver.modules.count;
}

void rollback_prepare(const struct apply *a, const struct journal *j, const struct driver_state *target,
		      const struct package *have, struct rollback *ret)
{
	auto_rollback struct rollback b = ROLLBACK_NONE;
	struct err why = { .text = "its modules are in no package of this node, and not on the host" };
	choose_rollback_driver(a->facts, j, target, &b.driver);
	if (!b.driver.version)
		return;
	int stored = find_stored_files(a, have, &b, &why);
	if (stored <= 0)
		package_done(&b.package); // its files are those of the host then
	if (stored <= 0 && !find_on_host(a, &b)) {
		progress_note(a->progress, "driver %s could not be brought back: %s", b.driver.version, why.text);
		return;
	}
	*ret = b;
	b = ROLLBACK_NONE;
}

static int load_rollback_modules(const struct apply *a, const struct rollback *b, const struct module_set *set,
				 const size_t *order, struct err *err)
{
	int any = 0;
	for (size_t i = 0; i < set->count; i++) {
		const struct module *m = &set->items[order[i]];
		auto_str char *params = module_params_known(m, driver_state_params(&b->driver, m->name));
		int r = load_module(a->sys, a->kern, m, params, a->load_timeout_ms, err);
		if (r < 0 && (err->code == E_WEDGED || !optional_modules_is(m->name)))
			return -1;
		if (r < 0)
			progress_note(a->progress, "%s does not come back, and the driver works without it: %s",
				      m->name, err->text);
		any |= r > 0;
	}
	return any;
}

int rollback_load(const struct apply *a, const struct rollback *b, struct err *err)
{
	auto_module_set struct module_set set = { 0 };
	const struct root *dir = b->shared ? b->shared : b->package.count ? &b->package.dir : a->host;
	if (module_set_read(dir, &b->files, &set, err) < 0)
		return -1;
	size_t *order = mem_alloc(set.count * sizeof(*order));
	int r = load_order(set.pointers, set.count, order, err);
	if (r == 0)
		r = load_rollback_modules(a, b, &set, order, err);
	free(order);
	return r;
}
