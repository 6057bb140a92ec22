// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent/observe.h"

#include "cluster/node_state/annotations.h"
#include "daemons/holders_wait.h"
#include "host/facts.h"
#include "journal/loaded_params.h"
#include "precompiled/store/store.h"
#include "precompiled/trust/provenance.h"

#include <stdio.h>

struct look {
	const struct agent_paths *at;
	const struct target *const *names;
	size_t count;
	struct facts facts;
	struct store store;
	struct trust_now trust;
	bool has_store;
	struct journal node;               // the node's journal
	const struct driver_state *record; // of the load of what is in the kernel; NULL = none
	struct module_params usual;        // of every load on this node
	struct strv given; // parameters of the loaded driver that are not the default: of a policy, or set by hand
};

static void look_done(struct look *l)
{
	strv_done(&l->given);
	module_params_done(&l->usual);
	journal_done(&l->node);
	store_done(&l->store);
	trust_now_done(&l->trust);
	facts_done(&l->facts);
}
#define auto_look __attribute__((cleanup(look_done)))

// Every parameter of the target has its value, and no other parameter was set. The kernel does not tell which of its
// values are defaults, so the record of the load does.
static bool has_params(const struct look *l, const struct target *t)
{
	auto_module_params struct module_params params = { 0 };
	auto_strv struct strv words = { 0 }, differ = { 0 }, given = { 0 };
	const struct modules *loaded = &l->facts.loaded;
	struct err ignored;
	target_params(t, &words);
	for (size_t i = 0; i < words.count; i++)
		if (module_params_add_option(&params, words.items[i], &ignored) < 0)
			return false;
	if (l->record)
		loaded_params_options(l->record, &params, &given);
	auto_str char *lacks = l->record ? loaded_params_missing(l->record, loaded, &params) : NULL;
	for (size_t i = 0; i < l->given.count; i++)
		if (strv_has(&given, l->given.items[i]))
			return false;
	return !lacks && module_params_differing(&params, loaded, &differ) == 0;
}

static bool is_any_flavour(const char *flavour)
{
	return !*flavour || str_eq(flavour, "auto");
}

static bool is_target_loaded(const struct look *l, const struct target *t)
{
	const struct modules *loaded = &l->facts.loaded;
	const struct driver_state *record = l->record;
	return str_eq(t->driver, loaded->version) &&
	       (is_any_flavour(t->flavour) || str_eq(t->flavour, module_type_name(loaded->flavour))) &&
	       (!t->package || (record && str_eq(t->package + strlen("sha256:"), record->digest))) && has_params(l, t);
}

// A version that is not a word stays empty.
static void copy_word(char *to, size_t size, const char *from)
{
	if (from)
		node_word_copy(to, size, from, strlen(from));
}

// Of several names for the loaded driver: the one that was ordered or worked before, else the most specific one.
static const struct target *name_loaded(const struct look *l)
{
	const struct target *best = NULL;
	for (size_t i = 0; i < l->count; i++) {
		const struct target *t = l->names[i];
		if (is_target_loaded(l, t) && i == 0)
			return t;
		if (is_target_loaded(l, t) && (!best || strlen(t->parameters) > strlen(best->parameters)))
			best = t;
	}
	return best;
}

static void look_at_kernel(const struct look *l, struct agent_facts *f, struct target *ret_new)
{
	const struct facts *x = &l->facts;
	const struct loaded_module *core = modules_find(&x->loaded, "nvidia");
	const char *version = x->loaded.version ? x->loaded.version : core ? core->version : x->existing_driver.version;
	f->is_empty = !x->loaded.count;
	f->is_foreign = !f->is_empty && (!core || !x->loaded.version || x->existing_driver.is_foreign);
	if (f->is_empty)
		return;
	copy_word(f->version, sizeof(f->version), version);
	copy_word(f->srcversion, sizeof(f->srcversion), core ? core->srcversion : NULL);
	if (f->is_foreign)
		return;
	const struct target *t = name_loaded(l);
	if (!t) { // described as a policy would
		*ret_new = (struct target){ .parameters = strv_join(&l->given, "\n") };
		copy_word(ret_new->driver, sizeof(ret_new->driver), x->loaded.version);
		if (x->loaded.flavour != MODULE_TYPE_AUTO)
			copy_word(ret_new->flavour, sizeof(ret_new->flavour), module_type_name(x->loaded.flavour));
		target_name(ret_new);
		t = ret_new;
	}
	f->loaded = t->target_hash;
}

// 1 = the store has all of it for the running kernel, and a load would not refuse it.
static bool is_target_stored(const struct look *l, const struct target *t)
{
	struct err ignored;
	auto_package struct package p = PACKAGE_NONE;
	const struct host *h = &l->facts.host;
	const struct package_want want = { .digest = t->package ? t->package + strlen("sha256:") : NULL,
					   .driver = t->driver,
					   .flavour = is_any_flavour(t->flavour) ? NULL : t->flavour,
					   .release = h->release,
					   .build_id = h->build_id,
					   .arch = h->arch };
	return l->has_store &&
	       (store_find(&l->store, &want, &p, &ignored) > 0 ||
		store_find_reused(&l->store, &want, &p, &ignored) > 0) &&
	       (l->at->is_unverified ||
		provenance_check(&l->store.layout, p.manifest.digest, &l->trust, NULL, &ignored) == 0);
}

static int open_observed_store(struct look *l, struct err *err)
{
	const struct agent_paths *at = l->at;
	if (facts_read(at->node->host, at->node->kern, &l->facts, err) < 0 ||
	    module_params_read(at->node->host, at->node->kern, at->node->kern, at->params, &l->facts.gpus, &l->usual,
			       err) < 0 ||
	    journal_find(at->node->host, at->node->state, &l->node, err) < 0)
		return -1;
	l->record = loaded_params_record(&l->node, l->facts.host.boot_id, l->facts.loaded.version, NULL);
	if (l->record)
		loaded_params_options(l->record, &l->usual, &l->given);
	l->has_store = store_exists(at->node->state);
	if (l->has_store && !at->is_unverified)
		trust_now(at->node->host, at->trust_dir, &l->trust);
	if (l->has_store && store_open(at->node->state, 0, &l->store, err) < 0)
		return -1;
	return existing_driver_read(at->node->host, &l->facts.host, &l->facts.loaded, l->has_store ? &l->store : NULL,
				    &l->usual.blacklist, &l->facts.existing_driver, err);
}

int agent_read_facts(const struct agent_paths *at, const struct target *const *names, size_t count,
		     struct agent_facts *ret, struct target *ret_new, struct err *err)
{
	auto_look struct look l = { .at = at, .names = names, .count = count, .store = STORE_NONE };
	struct agent_facts f = { .is_known = true };
	*ret_new = (struct target){ 0 };
	if (open_observed_store(&l, err) < 0)
		return -1;
	snprintf(f.release, sizeof(f.release), "%s", l.facts.host.release);
	agent_read_gpus(at->node->host, at->node->kern, &l.facts, &f.gpus);
	look_at_kernel(&l, &f, ret_new);
	for (size_t i = 0, used = 0; i < count && used < AGENT_STORED; i++) {
		bool is_listed = false;
		for (size_t k = 0; k < used; k++)
			is_listed = is_listed || f.store[k].payload == names[i]->target_hash.payload;
		if (!is_listed && is_target_stored(&l, names[i]))
			f.store[used++] = names[i]->target_hash;
	}
	*ret = f;
	return 0;
}

void agent_holders_done(struct agent_holders *h)
{
	strv_done(&h->pods);
	*h = (struct agent_holders){ 0 };
}

static int count_holders(const struct agent_paths *at, struct strv *pods)
{
	struct err ignored;
	auto_str char *release = NULL;
	auto_modules struct modules loaded = { 0 };
	auto_holders struct holders h = { 0 };
	if (root_line(at->node->kern, "proc/sys/kernel/osrelease", &release, &ignored) <= 0 ||
	    modules_read(at->node->host, at->node->kern, release, &loaded, &ignored) < 0)
		return AGENT_UNKNOWN;
	if (!loaded.count)
		return 0;
	if (holders_find(at->node->kern, &loaded, &h, &ignored) < 0 ||
	    holders_wait_omit_daemons(at->node->host, at->node->kern, &h, &ignored) < 0)
		return AGENT_UNKNOWN;
	for (size_t i = 0; i < h.count; i++)
		if (h.items[i].pod && h.items[i].kind != HOLDER_MOUNT && !strv_has(pods, h.items[i].pod))
			strv_add(pods, str_dup(h.items[i].pod));
	size_t count = holders_blocking(&h);
	strv_sort(pods);
	return !count && h.unreadable ? AGENT_UNKNOWN : count > INT16_MAX ? INT16_MAX : (int)count;
}

void agent_read_holders(const struct agent_paths *at, struct agent_holders *ret)
{
	struct strv pods = { 0 };
	int count = count_holders(at, &pods);
	auto_str char *was = strv_join(&ret->pods, " "), *is = strv_join(&pods, " ");
	ret->generation += count != ret->count || !str_eq(was, is);
	ret->count = count;
	strv_done(&ret->pods);
	ret->pods = pods;
}
