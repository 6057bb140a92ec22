// SPDX-License-Identifier: Apache-2.0
#include "transaction/transaction_internal.h"

#include "devices/cdi_spec_file.h"
#include "kmod/load/load.h"
#include "precompiled/package/package.h"
#include "status/status_file.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>

static void rollback_done(struct rollback *b)
{
	driver_state_done(&b->driver);
	package_done(&b->package);
	strv_done(&b->files);
	*b = ROLLBACK_NONE;
}

#define auto_rollback __attribute__((cleanup(rollback_done)))

void transaction_done(struct transaction *r)
{
	package_done(&r->package);
	driver_state_done(&r->target);
	journal_done(&r->journal);
	rollback_done(&r->rollback);
	free(r->order);
	for (size_t i = 0; r->needs && i < r->set.count; i++)
		strv_done(&r->needs[i]);
	free(r->needs);
	optional_modules_done(&r->failed);
	module_set_done(&r->set);
	strv_done(&r->loaded);
	facts_done(&r->now);
	unbind_done(&r->released);
}

int transaction_open(struct transaction *r, struct err *err)
{
	progress_begin(r->a->progress);
	if (journal_find(r->a->host, r->a->state, &r->journal, err) < 0)
		return -1;
	r->was_open = journal_is_open(&r->journal, r->a->facts->host.boot_id);
	return 0;
}

void transaction_remember(const struct transaction *r, const char *digest,
			  int (*set)(const struct store *s, const char *hex, struct err *err))
{
	struct err why;
	if (digest && acquire_has_store(r->a->acquire) && set(&r->a->acquire->store, digest, &why) < 0)
		progress_note(r->a->progress, "cannot record package %.12s in the store: %s", digest, why.text);
}

int transaction_note_reuse(const struct transaction *r, const struct package *p, struct err *err)
{
	const struct host *host = &r->a->facts->host;
	bool is_other = p->count && !str_eq(p->key.release, host->release);
	if (!acquire_has_store(r->a->acquire))
		return 0;
	return store_set_reuse(&r->a->acquire->store, host->release, host->build_id,
			       is_other ? p->manifest.digest : NULL, err);
}

void transaction_block_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static int keep_journal(struct transaction *r, bool is_memory_allowed, struct err *err)
{
	const struct apply *a = r->a;
	bool is_said = r->journal.unwritten;
	int kept = journal_keep(a->host, a->state, is_memory_allowed, &r->journal, err);
	if (kept > 0 && !is_said)
		progress_note(a->progress, "the journal of this boot is in memory only: %s", r->journal.unwritten);
	return kept < 0 ? -1 : 0;
}

// Boots that end during a change are counted on disk. A change that ended one is not started again while they cannot be
// counted; the last good driver is, because there is nothing better.
int transaction_write_intent(struct transaction *r, struct err *err)
{
	const struct journal *j = &r->journal;
	bool is_counted = j->boots.count > 1 && !driver_state_same(&j->target, &j->last_good);
	if (keep_journal(r, r->a->acquire->memory.is_allowed && !is_counted, err) == 0)
		return 0;
	return is_counted ?
		       err_wrap(err, "this change ended a boot before, and another attempt could not be recorded") :
		       -1;
}

void transaction_write_journal(struct transaction *r)
{
	struct err why;
	if (keep_journal(r, true, &why) < 0)
		progress_note(r->a->progress, "cannot write the journal: %s", why.text);
}

void transaction_flush_journal(struct transaction *r)
{
	if (!r->journal.unwritten)
		return;
	transaction_write_journal(r);
	if (!r->journal.unwritten)
		progress_note(r->a->progress, "the journal is on disk again, in '%s'", r->a->state->name);
}

int transaction_may_go_unwritten(const struct transaction *r, struct err *err)
{
	if (!r->a->acquire->memory.is_allowed || !state_dir_is_disk_error(err))
		return -1;
	progress_note(r->a->progress, "cannot record in the store what is loaded: %s", err->text);
	return 0;
}

bool transaction_skip_optional(struct transaction *r, const char *module, const struct err *why)
{
	if (why->code == E_WEDGED || !strv_has(&r->a->plan->optional, module)) // nothing more can be loaded
		return false;
	auto_str char *params = r->a->request->params ? module_params_text(r->a->request->params, module) : str_dup("");
	optional_modules_add(&r->failed, module, params, why);
	progress_note(r->a->progress, "%s is not loaded, and the driver works without it: %s: %s", module,
		      err_info(why->code)->name, why->text);
	return true;
}

// Keeps the record of failures that this run did not try again.
static void keep_known_failures(struct transaction *r)
{
	struct err ignored;
	auto_optional_modules struct optional_modules known = { 0 };
	if (optional_modules_read(r->a->host, r->a->facts->host.boot_id, &known, &ignored) <= 0 ||
	    !str_eq(known.package, r->package.manifest.digest))
		return;
	for (size_t i = 0; i < known.count; i++) {
		auto_str char *name = module_canonical(known.items[i].module);
		if (!optional_modules_find(&r->failed, name) && !strv_has(&r->loaded, name))
			optional_modules_keep(&r->failed, &known.items[i]);
	}
}

void transaction_drop_optional(struct transaction *r)
{
	for (size_t i = 0; i < r->failed.count; i++)
		driver_state_drop(&r->journal.target, r->failed.items[i].module);
}

static void record_optional_failures(struct transaction *r)
{
	struct err why;
	const struct host *host = &r->a->facts->host;
	if (!r->is_touched)
		return;
	keep_known_failures(r);
	r->failed.driver = str_dup(r->target.version);
	r->failed.package = str_dup(r->package.manifest.digest);
	if (optional_modules_write(r->a->host, host->boot_id, &r->failed, &why) < 0)
		progress_note(r->a->progress, "cannot record which optional modules are not loaded: %s", why.text);
}

static int measure_node(const struct apply *a, struct facts *now, struct status *ret, struct err *err)
{
	return facts_read(a->host, a->kern, now, err) < 0 ||
			       status_read(now, a->host, a->kern, a->dev_root, a->sys, ret, err) < 0 ?
		       -1 :
		       0;
}

int transaction_verify(struct transaction *r, const struct plan *plan, struct err *err)
{
	auto_strv struct strv modules = { 0 };
	record_optional_failures(r);
	if (measure_node(r->a, &r->now, r->status, err) < 0)
		return -1;
	if (plan) {
		for (size_t i = 0; i < plan->modules.count; i++) // the rest may fail, see optional_modules.h
			if (!strv_has(&plan->optional, plan->modules.items[i]))
				strv_add(&modules, str_dup(plan->modules.items[i]));
		status_check_request(r->status, &r->now.loaded, plan->driver, plan->flavour, &modules);
	}
	return status_error(r->status, err);
}

int transaction_publish(const struct transaction *r, const char *step, const char *subject, bool is_touch,
			struct err *err)
{
	struct err why;
	const struct apply *a = r->a;
	if (status_file_step(a->host, &a->facts->host, step, subject, is_touch, &why) == 0)
		return 0;
	if (is_touch && !r->is_touched) {
		*err = why;
		return err_wrap(err, "withdraw the published status of this node");
	}
	progress_note(a->progress, "cannot publish the status of this node: %s", why.text);
	return 0;
}

// A failure here must not fail a working node.
static void update_cdi_spec(const struct apply *a, const struct status *status)
{
	struct err why;
	const struct cdi_request w = {
		.host = a->host, .kern = a->kern, .dev_root = a->dev_root, .sys = a->sys, .boot = a->facts->host.boot_id
	};
	int r = cdi_spec_file_update(&w, a->cdi, status->has_gpu && status->is_ready, &why);
	if (r < 0)
		progress_note(a->progress, "CDI specification not updated, containers get no GPU: %s", why.text);
	else if (r > 0)
		progress_note(a->progress, "CDI specification updated");
}

static void publish_result(const struct apply *a, const struct facts *now, const struct status *status,
			   const char *outcome, const struct err *failure)
{
	struct err why;
	const struct status_file_end e = { .outcome = outcome, .progress = a->progress, .failure = failure };
	update_cdi_spec(a, status);
	if (status_file_end(a->host, now, status, &e, &why) < 0)
		progress_note(a->progress, "cannot publish the status of this node: %s", why.text);
}

void transaction_publish_end(const struct transaction *r, const char *outcome)
{
	publish_result(r->a, &r->now, r->status, outcome, r->a->failure);
}

void transaction_publish_failure(const struct apply *a, const char *outcome, const struct err *failure)
{
	auto_facts struct facts now = { 0 };
	auto_status struct status status = { 0 };
	struct err why;
	if (measure_node(a, &now, &status, &why) < 0)
		progress_note(a->progress, "cannot publish the status of this node: %s", why.text);
	else
		publish_result(a, &now, &status, outcome, failure);
}

static char *dashed_name(const char *canonical)
{
	char *name = str_dup(canonical);
	for (char *p = name; *p; p++)
		*p = *p == '_' ? '-' : *p;
	return name;
}

// Turns a parameter as the kernel shows it into an argument of a load. The driver parses signed numbers; a larger value
// is a default.
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

// The journal has the parameters of a driver that was loaded here in this boot; those of others are read from the
// kernel.
static void loaded_driver(const struct facts *f, const struct journal *j, struct driver_state *ret)
{
	const struct modules *l = &f->loaded;
	struct driver_state d = { .version = str_dup(l->version),
				  .flavour = str_dup(module_type_name(l->flavour)),
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

// 1 = from the store. The digest alone decides: the package may have been made for another kernel.
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
	int r = package_find(&a->acquire->store.layout, &want, &b->package, NULL, err);
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
	if (!is_unpacked && state_dir_stage(&a->acquire->memory, &a->acquire->store.layout, a->acquire->fetch.state,
					    &b->package, err) < 0)
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

void transaction_prepare_rollback(const struct apply *a, const struct journal *j, const struct driver_state *target,
				  const struct package *have, struct rollback *ret)
{
	auto_rollback struct rollback b = ROLLBACK_NONE;
	struct err why = { .text = "its modules are neither in a package of this node nor on the host" };
	choose_rollback_driver(a->facts, j, target, &b.driver);
	if (!b.driver.version)
		return;
	int stored = find_stored_files(a, have, &b, &why);
	if (stored <= 0)
		package_done(&b.package); // its files are those of the host then
	if (stored <= 0 && !find_on_host(a, &b)) {
		progress_note(a->progress, "no way back to driver %s: %s", b.driver.version, why.text);
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
			progress_note(a->progress, "%s was not reloaded, and the driver works without it: %s", m->name,
				      err->text);
		any |= r > 0;
	}
	return any;
}

int transaction_load_rollback(const struct apply *a, const struct rollback *b, struct err *err)
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
