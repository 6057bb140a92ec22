// SPDX-License-Identifier: Apache-2.0
// trust add, ls, remove: the keys whose packages this machine accepts.
#include "precompiled/trust/trust.h"

#include "base/file/file.h"
#include "cmd/common/job.h"
#include "cmd/package/store.h"
#include "precompiled/package/package.h"

#include <fcntl.h>
#include <stdio.h>

struct values {
	struct common common;
	char *dir, *name, *prefix, *state_dir;
};

static const struct opt opts[] = {
	{ "trust-dir", 0, "DIR", "KMODSMITH_TRUST_DIR", OPT_STR, offsetof(struct values, dir),
	  "trusted keys and the policy for each repository; default etc/kmodsmith/trust of the host" },
	{ 0 },
};

static const struct opt add_opts[] = {
	{ "name", 0, "NAME", NULL, OPT_STR, offsetof(struct values, name),
	  "name of the key; default: the first digits of its id" },
	{ "for", 0, "PREFIX", NULL, OPT_STR, offsetof(struct values, prefix),
	  "repositories that the key is valid for, for instance docker://HOST/NAME; default: all without a policy "
	  "entry" },
	{ 0 },
};

static const struct opt remove_opts[] = {
	{ "state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, state_dir),
	  "store to check for packages that lose their last trusted signature; default /var/lib/kmodsmith of the "
	  "host" },
	{ 0 },
};

// 1 = there, 0 = absent.
static int open_trust_dir(const struct values *v, struct root *ret, struct err *err)
{
	auto_machine struct machine m = MACHINE_NONE;
	if (machine_open(&v->common, &m, err) < 0)
		return -1;
	return trust_dir(&m.host, v->dir, ret, err);
}

static int run_trust_add(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_root struct root dir = ROOT_NONE;
	auto_str char *pem = NULL;
	char id[DIGEST_HEX + 1];
	(void)count;
	auto_fd int fd = file_open_arg(args[0], O_RDONLY, err);
	if (fd < 0 || file_read(fd, args[0], &pem, NULL, err) < 0 || machine_open(&v->common, &m, err) < 0 ||
	    trust_dir_make(&m.host, v->dir, &dir, err) < 0)
		return -1;
	int r = trust_add(&dir, v->name, pem, v->prefix, id, err);
	if (r < 0)
		return err_wrap(err, "'%s'", args[0]);
	if (v->common.is_json) {
		auto_json json_t *json = json_pack("{s:s, s:o, s:o, s:b}", "id", id, "directory", json_text(dir.name),
						   "for", json_text(v->prefix), "changed", r > 0);
		show_json(json);
	} else {
		printf("%s %s for %s\n", r > 0 ? "trusted:" : "was trusted:", id,
		       v->prefix ? v->prefix : "repositories without an entry in policy.json");
	}
	return 0;
}

static json_t *trust_json(const struct trust *t)
{
	json_t *keys = json_array(), *sources = json_array();
	for (size_t i = 0; i < t->count; i++) {
		const struct trust_key *k = &t->keys[i];
		json_array_append_new(keys,
				      json_pack("{s:o, s:s, s:s, s:o}", "name", json_text(k->name), "id", k->key->id,
						"algorithm", k->key->algorithm, "for", json_strv(&k->prefixes)));
	}
	for (size_t i = 0; i < t->source_count; i++) {
		const struct trust_source *s = &t->sources[i];
		json_t *names = s->has_keys ? json_strv(&s->keys) : json_null();
		json_array_append_new(sources,
				      json_pack("{s:o, s:o, s:i, s:s, s:s, s:s, s:o}", "prefix", json_text(s->prefix),
						"keys", names, "threshold", (int)s->threshold, "unsigned",
						s->is_unsigned_accepted ? "accept" : "refuse", "catalog",
						trust_catalog_name(s->catalog), "provenance",
						s->is_statement_required ? "required" : "optional", "driver_sources",
						json_strv(&s->sources)));
	}
	return json_pack("{s:o, s:o, s:o}", "directory", json_text(t->place), "keys", keys, "sources", sources);
}

static void show_trust(const struct trust *t)
{
	auto_strv struct strv keys = { 0 }, sources = { 0 };
	strv_add(&keys, str_dup("NAME\tALGORITHM\tID\tVALID FOR"));
	for (size_t i = 0; i < t->count; i++) {
		const struct trust_key *k = &t->keys[i];
		auto_str char *prefixes = strv_join(&k->prefixes, ", ");
		strv_add(&keys, str_fmt("%s\t%s\t%s\t%s", k->name, k->key->algorithm, k->key->id,
					k->prefixes.count ? prefixes : "repositories without an entry"));
	}
	show_table(&keys);
	strv_add(&sources, str_dup("\nREPOSITORIES\tKEYS\tNEEDED\tUNSIGNED\tCATALOGUE\tPROVENANCE\tDRIVER SOURCES"));
	for (size_t i = 0; i < t->source_count; i++) {
		const struct trust_source *s = &t->sources[i];
		auto_str char *names = strv_join(&s->keys, ", "), *digests = strv_join(&s->sources, ", ");
		strv_add(&sources,
			 str_fmt("%s\t%s\t%u\t%s\t%s\t%s\t%s", *s->prefix ? s->prefix : "all",
				 s->has_keys ? s->keys.count ? names : "none" : "all others", s->threshold,
				 s->is_unsigned_accepted ? "accept" : "refuse", trust_catalog_name(s->catalog),
				 s->is_statement_required ? "required" : "optional",
				 s->sources.count ? digests : "any"));
	}
	if (t->source_count)
		show_table(&sources);
}

static int run_trust_ls(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_root struct root dir = ROOT_NONE;
	auto_trust struct trust t = { 0 };
	(void)args, (void)count;
	if (open_trust_dir(v, &dir, err) < 0 || trust_open(&dir, &t, err) < 0)
		return -1;
	for (size_t i = 0; i < t.skipped.count; i++)
		log_warn("%s", t.skipped.items[i]);
	if (v->common.is_json) {
		auto_json json_t *json = trust_json(&t);
		show_json(json);
	} else if (!t.count && !t.source_count) {
		printf("no trusted keys; add one with `kmodsmith trust add FILE.pem`\n");
	} else {
		show_trust(&t);
	}
	return 0;
}

// Must not create a store.
static bool has_store(const struct values *v)
{
	auto_machine struct machine m = MACHINE_NONE;
	auto_root struct root dir = ROOT_NONE;
	struct err ignored;
	if (v->state_dir)
		return root_init(&dir, v->state_dir, &ignored) == 0 && root_exists(&dir, "store/blobs");
	return machine_open(&v->common, &m, &ignored) == 0 && root_exists(&m.host, JOB_STATE "/store/blobs");
}

// The packages of the store that are trusted now, as "TAG sha256:HEX".
static int list_trusted(const struct values *v, struct strv *ret, struct err *err)
{
	const struct store_values place = { .common = v->common, .state_dir = v->state_dir };
	auto_store_session struct store_session d = STORE_SESSION_NONE;
	auto_trust_now struct trust_now trust = { 0 };
	if (!has_store(v))
		return 0;
	if (store_session_open(&place, &d, err) < 0)
		return -1;
	trust_now(&d.machine.host, v->dir, &trust);
	for (size_t i = 0; i < d.index.count; i++) {
		auto_package struct package p = PACKAGE_NONE;
		auto_package_trust struct package_trust vouching = { 0 };
		struct err ignored;
		if (package_read(&d.store.layout, &d.index.items[i], &p, &ignored) <= 0)
			continue;
		auto_str char *tag = package_tag(&p.key);
		package_trust_read(&d, &trust, p.manifest.digest, &vouching);
		if (!vouching.why.code)
			strv_add(ret, str_fmt("%s sha256:%s", tag, p.manifest.digest));
	}
	return 0;
}

// Packages that lost their trust. A failure here does not undo the removal.
static void list_lost(const struct values *v, const struct strv *before, struct strv *ret)
{
	auto_strv struct strv now = { 0 };
	struct err why;
	if (list_trusted(v, &now, &why) < 0) {
		log_warn("cannot list the packages that are no longer trusted: %s", why.text);
		return;
	}
	for (size_t i = 0; i < before->count; i++)
		if (!strv_has(&now, before->items[i]))
			strv_add(ret, str_dup(before->items[i]));
}

static void show_removed(const struct values *v, const char *name, const struct strv *lost)
{
	if (v->common.is_json) {
		auto_json json_t *json = json_pack("{s:o, s:b, s:o}", "removed", json_text(name), "changed", true,
						   "untrusted", json_strv(lost));
		show_json(json);
		return;
	}
	printf("removed: %s\n", name);
	for (size_t i = 0; i < lost->count; i++)
		printf("no longer trusted: %s\n", lost->items[i]);
	if (lost->count)
		printf("%zu package%s of the store will not be loaded again; a running driver is not affected\n",
		       lost->count, str_plural(lost->count));
}

static int run_trust_remove(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_root struct root dir = ROOT_NONE;
	auto_strv struct strv before = { 0 }, lost = { 0 };
	struct err ignored;
	(void)count;
	int r = open_trust_dir(v, &dir, err);
	if (r > 0) {
		list_trusted(v, &before, &ignored);
		r = trust_remove(&dir, args[0], err);
	}
	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(err, E_NOT_FOUND, "no key has the name or id '%s'; see `kmodsmith trust ls`", args[0]);
	list_lost(v, &before, &lost);
	show_removed(v, args[0], &lost);
	return 0;
}

static void offer_keys(const void *values, const char *option, size_t argument, struct strv *ret)
{
	auto_root struct root dir = ROOT_NONE;
	auto_trust struct trust t = { 0 };
	struct err ignored;
	if (option || argument || open_trust_dir(values, &dir, &ignored) <= 0 || trust_open(&dir, &t, &ignored) < 0)
		return;
	for (size_t i = 0; i < t.count; i++)
		strv_add(ret, str_dup(t.keys[i].name));
}

const struct cmd cmd_trust_add = {
	.name = "trust add",
	.args = "FILE.pem",
	.args_min = 1,
	.args_max = 1,
	.help = "trust packages signed by this key",
	.about = "FILE.pem has a public key: ECDSA on P-256, RSA or Ed25519. With --for it is valid for these\n"
		 "repositories only, as an entry of policy.json in the trust directory; an entry can also require\n"
		 "several signatures (\"threshold\"), a catalogue (\"catalog\": \"required\") or a statement of how\n"
		 "it was built (\"provenance\":\n"
		 "\"required\"). To create a key pair:\n\n"
		 "  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out site.key\n"
		 "  openssl pkey -in site.key -pubout -out site.pem\n"
		 "  kmodsmith trust add site.pem --for docker://registry.example/drivers\n",
	.opts = { add_opts, opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_trust_add,
};

const struct cmd cmd_trust_ls = {
	.name = "trust ls",
	.help = "list the trusted keys and the policy of each repository",
	.about = "Reads the whole trust directory like an install, with the same errors.\n\n"
		 "  kmodsmith trust ls\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_trust_ls,
};

const struct cmd cmd_trust_remove = {
	.name = "trust remove",
	.args = "NAME|ID",
	.args_min = 1,
	.args_max = 1,
	.help = "stop trusting a key",
	.about = "Takes effect immediately: packages signed only by this key are no longer fetched or loaded from\n"
		 "the store, not even as the last good driver; a running driver is not affected. Lists the packages\n"
		 "of the store that lose their trust. An entry of policy.json without its last key accepts nothing\n"
		 "until it gets a new one.\n\n"
		 "  kmodsmith trust remove release\n",
	.opts = { remove_opts, opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_trust_remove,
	.offer = offer_keys,
};
