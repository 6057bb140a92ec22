// SPDX-License-Identifier: Apache-2.0
// trust add, ls, remove: whose packages this machine takes.
#include "precompiled/trust.h"

#include "base/file.h"
#include "cmd/common.h"

#include <fcntl.h>
#include <stdio.h>

struct values {
	struct common common;
	char *dir, *name, *prefix;
};

static const struct opt opts[] = {
	{ "trust-dir", 0, "DIR", "KMODSMITH_TRUST_DIR", OPT_STR, offsetof(struct values, dir),
	  "keys that are trusted and what is asked of each repository; default etc/kmodsmith/trust of the host" },
	{ 0 },
};

static const struct opt add_opts[] = {
	{ "name", 0, "NAME", NULL, OPT_STR, offsetof(struct values, name),
	  "what the key is called; default: the beginning of its id" },
	{ "for", 0, "PREFIX", NULL, OPT_STR, offsetof(struct values, prefix),
	  "repositories that the key counts for, for instance docker://HOST/NAME; default: all without an entry" },
	{ 0 },
};

// 1 = there, 0 = absent.
static int open_dir(const struct values *v, struct root *ret, struct err *err)
{
	auto_machine struct machine m = { .host = ROOT_NONE, .kern = ROOT_NONE };
	if (machine_open(&v->common, &m, err) < 0)
		return -1;
	return trust_dir(&m.host, v->dir, ret, err);
}

static int read_key(const char *path, char **ret, struct err *err)
{
	auto_fd int fd = file_open_arg(path, O_RDONLY, err);
	return fd < 0 ? -1 : file_read(fd, path, ret, NULL, err);
}

static int run_add(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_machine struct machine m = { .host = ROOT_NONE, .kern = ROOT_NONE };
	auto_root struct root dir = ROOT_NONE;
	auto_str char *pem = NULL;
	char id[DIGEST_HEX + 1];
	(void)count;
	if (read_key(args[0], &pem, err) < 0 || machine_open(&v->common, &m, err) < 0 ||
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

static json_t *key_json(const struct trust_key *k)
{
	return json_pack("{s:o, s:s, s:s, s:o}", "name", json_text(k->name), "id", key_id(k->key), "algorithm",
			 key_algorithm(k->key), "for", json_strv(&k->prefixes));
}

static json_t *source_json(const struct trust_source *s)
{
	return json_pack("{s:o, s:o, s:i, s:b, s:s, s:s}", "prefix", json_text(s->prefix), "keys",
			 s->has_keys ? json_strv(&s->keys) : json_null(), "threshold", (int)s->threshold, "anchor",
			 s->anchor != NULL, "unsigned", s->is_unsigned_accepted ? "accept" : "refuse", "catalog",
			 trust_catalog_name(s->catalog));
}

static json_t *trust_json(const struct trust *t)
{
	json_t *keys = json_array(), *sources = json_array();
	for (size_t i = 0; i < t->count; i++)
		json_array_append_new(keys, key_json(&t->keys[i]));
	for (size_t i = 0; i < t->source_count; i++)
		json_array_append_new(sources, source_json(&t->sources[i]));
	return json_pack("{s:o, s:o, s:o}", "directory", json_text(t->place), "keys", keys, "sources", sources);
}

static void show(const struct trust *t)
{
	auto_strv struct strv keys = { 0 }, sources = { 0 };
	strv_add(&keys, str_dup("NAME\tALGORITHM\tID\tCOUNTS FOR"));
	for (size_t i = 0; i < t->count; i++) {
		const struct trust_key *k = &t->keys[i];
		auto_str char *prefixes = strv_join(&k->prefixes, ", ");
		strv_add(&keys, str_fmt("%s\t%s\t%s\t%s", k->name, key_algorithm(k->key), key_id(k->key),
					k->prefixes.count ? prefixes : "what has no keys of its own"));
	}
	show_table(&keys);
	strv_add(&sources, str_dup("\nREPOSITORIES\tKEYS\tNEEDED\tUNSIGNED\tCATALOGUE"));
	for (size_t i = 0; i < t->source_count; i++) {
		const struct trust_source *s = &t->sources[i];
		auto_str char *names = strv_join(&s->keys, ", ");
		strv_add(&sources,
			 str_fmt("%s\t%s%s\t%u\t%s\t%s", *s->prefix ? s->prefix : "all",
				 s->has_keys ? s->keys.count ? names : "none" : "all others",
				 s->anchor ? " and an anchor" : "", s->threshold,
				 s->is_unsigned_accepted ? "accept" : "refuse", trust_catalog_name(s->catalog)));
	}
	if (t->source_count)
		show_table(&sources);
}

static int run_ls(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_root struct root dir = ROOT_NONE;
	auto_trust struct trust t = { 0 };
	(void)args, (void)count;
	if (open_dir(v, &dir, err) < 0 || trust_open(&dir, &t, err) < 0)
		return -1;
	if (v->common.is_json) {
		auto_json json_t *json = trust_json(&t);
		show_json(json);
	} else if (!t.count && !t.source_count) {
		printf("no key is trusted; `kmodsmith trust add FILE.pem` adds one\n");
	} else {
		show(&t);
	}
	return 0;
}

static int run_remove(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_root struct root dir = ROOT_NONE;
	(void)count;
	int r = open_dir(v, &dir, err);
	if (r > 0)
		r = trust_remove(&dir, args[0], err);
	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(err, E_NOT_FOUND,
			       "no key is named '%s', and none has that id; `kmodsmith trust ls` lists them", args[0]);
	if (v->common.is_json) {
		auto_json json_t *json = json_pack("{s:o, s:b}", "removed", json_text(args[0]), "changed", true);
		show_json(json);
	} else {
		printf("not trusted any more: %s\n", args[0]);
	}
	return 0;
}

const struct cmd cmd_trust_add = {
	.name = "trust add",
	.args = "FILE.pem",
	.args_min = 1,
	.args_max = 1,
	.help = "trust packages that this key signed",
	.about =
		"FILE.pem holds a public key: ECDSA on P-256, RSA or Ed25519. With --for it counts for these "
		"repositories\n"
		"only, as an entry of policy.json in the trust directory; more can be asked there: several signatures\n"
		"(\"threshold\"), a certificate authority (\"anchor\"), a catalogue (\"catalog\": \"required\"). "
		"Whoever has the\n"
		"private key makes a pair with:\n\n"
		"  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out release.key\n"
		"  openssl pkey -in release.key -pubout -out release.pem\n"
		"  kmodsmith trust add release.pem --name release --for docker://registry.example/drivers\n",
	.opts = { add_opts, opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_add,
};

const struct cmd cmd_trust_ls = {
	.name = "trust ls",
	.help = "the keys that are trusted, and what each repository must have",
	.about = "Reads the whole directory as an install does: what is wrong in it is an error here, too.\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_ls,
};

const struct cmd cmd_trust_remove = {
	.name = "trust remove",
	.args = "NAME|ID",
	.args_min = 1,
	.args_max = 1,
	.help = "trust a key no more",
	.about = "Takes effect with the next package that is fetched. An entry of policy.json that loses its last key "
		 "takes\n"
		 "nothing until it gets another one.\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_remove,
};
