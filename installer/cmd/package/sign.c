// SPDX-License-Identifier: Apache-2.0
#include "acquire/resign.h"
#include "base/process/log.h"
#include "cmd/common/common.h"
#include "precompiled/bundle/catalog_publish.h"
#include "precompiled/trust/signers.h"

#include <stdio.h>

struct values {
	struct common common;
	struct strv keys, packages;
	char *identity, *module_hash, *module_signatures, *export_modules;
	struct module_key module;
	bool is_catalog, is_modules;
	unsigned days;
};

enum { DAYS_DEFAULT = 30, DAYS_MAX = 3650 };

static const struct opt opts[] = {
	{ "key", 0, "FILE|URI,...", "KMODSMITH_KEY", OPT_LIST, offsetof(struct values, keys),
	  "private key: a PEM file or a pkcs11: URI" },
	{ "package", 'p', "TAG|DIGEST,...", NULL, OPT_LIST, offsetof(struct values, packages),
	  "packages to sign; default: all with a tag" },
	{ "identity", 0, "HOST/NAME", NULL, OPT_STR, offsetof(struct values, identity),
	  "repository name in the signature, which other programs compare; default: kmodsmith" },
	{ "catalog", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_catalog),
	  "also create and sign the next catalogue of the layout" },
	{ "expires", 0, "DAYS", NULL, OPT_UINT, offsetof(struct values, days),
	  "validity of the catalogue; default 30" },
	{ "modules", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_modules),
	  "sign the kernel modules in the packages first, with --module-key, for kernels that load only signed ones" },
	{ "module-key", 0, "FILE|URI", "KMODSMITH_MODULE_KEY", OPT_SECRET, offsetof(struct values, module.key),
	  "with --modules: private key, a PEM file or a pkcs11: URI" },
	{ "module-cert", 0, "FILE", "KMODSMITH_MODULE_CERT", OPT_STR, offsetof(struct values, module.cert),
	  "certificate of --module-key, PEM or DER, that the kernels trust" },
	{ "module-signatures", 0, "DIR", NULL, OPT_STR, offsetof(struct values, module_signatures),
	  "with --modules, in place of --module-key: signatures made elsewhere, DIR/TAG/NAME.ko.p7s (detached CMS, "
	  "DER)" },
	{ "export-modules", 0, "DIR", NULL, OPT_STR, offsetof(struct values, export_modules),
	  "write the modules of the packages, unsigned, to DIR/TAG for a program that signs them elsewhere, and end" },
	{ "module-hash", 0, "NAME", NULL, OPT_STR, offsetof(struct values, module_hash),
	  "hash of these signatures, as CONFIG_MODULE_SIG_HASH of the kernel has it; default sha256" },
	{ 0 },
};

struct sign_job {
	struct layout layout;
	struct signers by;
	struct catalog packages; // what is signed
	bool *is_made;           // for each
	bool *is_module_signed;  // for each
	bool *is_exported;       // for each
	struct catalog catalog;
};

static void sign_job_done(struct sign_job *s)
{
	signers_done(&s->by);
	free(s->is_made);
	free(s->is_module_signed);
	free(s->is_exported);
	catalog_done(&s->packages);
	catalog_done(&s->catalog);
	layout_done(&s->layout);
}
#define auto_sign_job __attribute__((cleanup(sign_job_done)))

static int check_sign_values(const struct values *v, struct err *err)
{
	const char *id = v->identity;
	if (v->is_modules && ((!v->module.key && !v->module_signatures) || !v->module.cert))
		return err_set(err, E_USAGE,
			       "--modules requires --module-cert, and --module-key or --module-signatures");
	if (!v->is_modules && (v->module_hash || v->module_signatures))
		return err_set(err, E_USAGE, "%s requires --modules",
			       v->module_hash ? "--module-hash" : "--module-signatures");
	if (v->module_hash && v->module_signatures)
		return err_set(err, E_USAGE, "--module-hash: a signature of --module-signatures has its own");
	if (v->export_modules && (v->is_modules || v->keys.count))
		return err_set(err, E_USAGE, "--export-modules signs nothing: leave out %s",
			       v->is_modules ? "--modules" : "--key");
	if (!v->keys.count && !v->is_modules && !v->export_modules)
		return err_set(err, E_USAGE, "sign needs --key FILE or --key 'pkcs11:token=NAME;object=NAME'");
	if (!v->keys.count && v->is_catalog)
		return err_set(err, E_USAGE, "--catalog requires --key");
	if (v->days && !v->is_catalog)
		return err_set(err, E_USAGE, "--expires requires --catalog");
	if (v->days > DAYS_MAX)
		return err_set(err, E_USAGE, "--expires %u: at most %d days", v->days, DAYS_MAX);
	if (id &&
	    (!*id || strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/-") != strlen(id) ||
	     strstr(id, "//")))
		return err_set(err, E_USAGE, "--identity '%s' is not HOST/NAME", id);
	return 0;
}

static int open_layout(const char *name, struct layout *ret, struct err *err)
{
	auto_root struct root dir = ROOT_NONE;
	if (repository_kind(name) == REPOSITORY_BUNDLE)
		return err_set(err, E_USAGE, "'%s' is a bundle: sign the layout before creating the bundle", name);
	const char *path = repository_path(name, REPOSITORY_LAYOUT);
	return root_init(&dir, path ? path : name, err) < 0 ? -1 : layout_open(&dir, ret, err);
}

// The packages the user named, in the form of catalogue entries.
static int list_named_packages(const struct strv *refs, struct sign_job *s, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	if (layout_index(&s->layout, &x, err) < 0)
		return -1;
	s->packages.items = mem_alloc((refs->count + 1) * sizeof(*s->packages.items));
	for (size_t i = 0; i < refs->count; i++) {
		auto_str char *digest = digest_is_hex(refs->items[i]) ? oci_digest_text(refs->items[i]) : NULL;
		int at = oci_index_find(&x, digest ? digest : refs->items[i]);
		if (at < 0)
			return err_set(err, E_NOT_FOUND, "'%s' has no '%s'", s->layout.root.name, refs->items[i]);
		const char *tag = oci_descriptor_annotation(&x.items[at], OCI_REF_NAME);
		struct catalog_item *item = &s->packages.items[s->packages.count++];
		item->tag = str_dup(tag ? tag : "-");
		item->size = x.items[at].size;
		memcpy(item->digest, x.items[at].digest, sizeof(item->digest));
	}
	return 0;
}

static int list_packages(const struct values *v, struct sign_job *s, struct err *err)
{
	if (v->packages.count)
		return list_named_packages(&v->packages, s, err);
	if (catalog_publish_list(&s->layout, &s->packages, err) < 0)
		return -1;
	return s->packages.count ? 0 : err_set(err, E_NOT_FOUND, "'%s' has no package with a tag", s->layout.root.name);
}

// DIR/TAG of a package; without a tag, its digest.
static char *module_dir(const char *dir, const struct catalog_item *item)
{
	return str_fmt("%s/%s", dir, str_eq(item->tag, "-") ? item->digest : item->tag);
}

static struct oci_descriptor descriptor_of(const struct catalog_item *item)
{
	struct oci_descriptor d = { .media_type = (char *)(uintptr_t)OCI_MANIFEST, .size = item->size };
	memcpy(d.digest, item->digest, sizeof(d.digest));
	return d;
}

static int export_modules(const struct values *v, struct sign_job *s, struct err *err)
{
	s->is_exported = mem_alloc((s->packages.count + 1) * sizeof(*s->is_exported));
	if (!v->export_modules)
		return 0;
	for (size_t i = 0; i < s->packages.count; i++) {
		const struct catalog_item *item = &s->packages.items[i];
		const struct oci_descriptor d = descriptor_of(item);
		auto_str char *dir = module_dir(v->export_modules, item);
		int r = resign_export(&s->layout, &d, dir, err);
		if (r < 0)
			return err_wrap(err, "%s", item->tag);
		s->is_exported[i] = r > 0;
	}
	return 0;
}

static int sign_package(const struct values *v, struct sign_job *s, size_t i, const struct module_signer *signer,
			struct err *err)
{
	struct catalog_item *item = &s->packages.items[i];
	const struct oci_descriptor d = descriptor_of(item);
	auto_package struct package made = PACKAGE_NONE;
	auto_str char *signatures = v->module_signatures ? module_dir(v->module_signatures, item) : NULL;
	const struct resign how = { .signer = signer,
				    .hash = v->module_hash ? v->module_hash : "sha256",
				    .signatures = signatures };
	int r = resign_package(&s->layout, &d, &how, &made, err);
	s->is_module_signed[i] = r > 0;
	if (r > 0) {
		memcpy(item->digest, made.manifest.digest, sizeof(item->digest));
		item->size = made.manifest.size;
	}
	return r;
}

// Each package with signed modules is another one, which takes its place in what is signed next.
static int sign_modules(const struct values *v, struct sign_job *s, struct err *err)
{
	auto_module_signer struct module_signer *signer = NULL;
	const struct module_key key = { .key = v->module_signatures ? NULL : v->module.key,
					.cert = v->module.cert,
					.password = getenv("KMODSMITH_KEY_PASSWORD") };
	s->is_module_signed = mem_alloc((s->packages.count + 1) * sizeof(*s->is_module_signed));
	if (!v->is_modules)
		return 0;
	if (module_signer_open(&key, &signer, err) < 0)
		return -1;
	auto_str char *dates = module_signer_dates(signer, time(NULL));
	if (dates)
		log_warn("%s; kernels do not look at dates", dates);
	for (size_t i = 0; i < s->packages.count; i++)
		if (sign_package(v, s, i, signer, err) < 0)
			return err_wrap(err, "%s", s->packages.items[i].tag);
	return 0;
}

static int sign_all(struct sign_job *s, struct err *err)
{
	s->is_made = mem_alloc((s->packages.count + 1) * sizeof(*s->is_made));
	if (!s->by.count)
		return 0;
	return catalog_publish_signatures(&s->layout, &s->packages, s->by.makers, s->by.count, s->is_made, err);
}

static json_t *result_json(const struct sign_job *s)
{
	json_t *keys = json_array(), *packages = json_array();
	for (size_t i = 0; i < s->by.count; i++)
		json_array_append_new(
			keys, json_pack("{s:s, s:s}", "id", s->by.keys[i]->id, "algorithm", s->by.keys[i]->algorithm));
	for (size_t i = 0; i < s->packages.count; i++) {
		auto_str char *digest = oci_digest_text(s->packages.items[i].digest);
		json_array_append_new(packages,
				      json_pack("{s:o, s:s, s:b, s:b}", "tag", json_text(s->packages.items[i].tag),
						"digest", digest, "changed", s->is_made[i], "modules_signed",
						s->is_module_signed[i]));
	}
	return json_pack("{s:o, s:o, s:o, s:o}", "layout", json_text(s->layout.root.name), "keys", keys, "packages",
			 packages, "catalog", s->catalog.number ? catalog_json(&s->catalog) : json_null());
}

static void show_signed(const struct sign_job *s, bool is_export)
{
	auto_strv struct strv rows = { 0 };
	for (size_t i = 0; i < s->packages.count; i++)
		strv_add(&rows, str_fmt("%s\t%s\tsha256:%s",
					s->is_made[i]          ? "signed" :
					s->is_module_signed[i] ? "modules signed" :
					s->is_exported[i]      ? "exported" :
					is_export              ? "no modules" :
								 "was signed",
					s->packages.items[i].tag, s->packages.items[i].digest));
	show_table(&rows);
	for (size_t i = 0; i < s->by.count; i++)
		printf("by %s key %s\n", s->by.keys[i]->algorithm, s->by.keys[i]->id);
	if (s->catalog.number)
		printf("catalogue %llu lists %zu package%s\n", (unsigned long long)s->catalog.number, s->catalog.count,
		       str_plural(s->catalog.count));
}

static int run_sign(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	auto_sign_job struct sign_job s = { .layout = LAYOUT_NONE };
	(void)count;
	if (check_sign_values(v, err) < 0 || open_layout(args[0], &s.layout, err) < 0 ||
	    (v->keys.count && signers_open(&v->keys, v->identity ? v->identity : "kmodsmith", &s.by, err) < 0) ||
	    list_packages(v, &s, err) < 0 || sign_modules(v, &s, err) < 0 || export_modules(v, &s, err) < 0 ||
	    sign_all(&s, err) < 0)
		return -1;
	if (v->is_catalog && catalog_publish(&s.layout, v->days ? v->days : DAYS_DEFAULT, time(NULL), s.by.makers,
					     s.by.count, &s.catalog, err) < 0)
		return -1;
	if (v->common.is_json) {
		auto_json json_t *json = result_json(&s);
		show_json(json);
	} else {
		show_signed(&s, v->export_modules);
	}
	return 0;
}

const struct cmd cmd_sign = {
	.name = "sign",
	.args = "LAYOUT",
	.args_min = 1,
	.args_max = 1,
	.help = "sign the packages in an OCI layout and its catalogue",
	.about = "LAYOUT is a directory created by `kmodsmith build --output oci:DIR`. Each package is signed in both\n"
		 "of cosign's encodings; `kmodsmith push` and `bundle create` copy the signatures. Signing again with\n"
		 "the same key changes nothing. The passphrase of a key file, or the PIN of a token, is read from\n"
		 "KMODSMITH_KEY_PASSWORD; PKCS11_MODULE_PATH is the library of a token. A catalogue (--catalog)\n"
		 "prevents a mirror from serving an old state: publish a new one before it expires. openssl makes a\n"
		 "key pair for packages, as below.\n\n"
		 "With --modules the kernel modules in the packages are signed first, and the package is the one that\n"
		 "`build --module-key` would have made: so the key for modules can be where packages are published,\n"
		 "and neither on nodes nor where modules are compiled. For a key that only another program can use,\n"
		 "--export-modules writes the modules; it signs each, as `sign-file -p` or `openssl cms -sign -binary\n"
		 "-noattr -nocerts -outform DER` do, and --module-signatures attaches what it made.\n\n"
		 "  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out site.key\n"
		 "  openssl pkey -in site.key -pubout -out site.pem    # for `kmodsmith trust add` on each machine\n"
		 "  kmodsmith sign oci:packages --key site.key --catalog\n"
		 "  kmodsmith sign oci:packages --export-modules signing\n"
		 "  kmodsmith sign oci:packages --modules --module-cert mok.pem --module-signatures signing\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_sign,
};
