// SPDX-License-Identifier: Apache-2.0
#include "acquire/signing.h"

#include "kmod/load/keyrings.h"

// The certificates in the kernel's keyrings (.builtin_trusted_keys, .secondary_trusted_keys, .machine, .platform), from
// lines of /proc/keys that end in what crypto/asymmetric_keys makes of a certificate:
//
//   1d2c... I------     1 perm 1f030000     0     0 asymmetri SUBJECT: KEYID: X509.rsa LAST8 []
struct kernel_keys {
	struct strv names; // "Debian Secure Boot CA", for messages
	struct strv ids;   // of each: its subject key id, or its serial number if it has none, in lower-case hex
};

static void kernel_keys_done(struct kernel_keys *k)
{
	strv_done(&k->names);
	strv_done(&k->ids);
}
#define auto_kernel_keys __attribute__((cleanup(kernel_keys_done)))

static void add_key(struct kernel_keys *ret, const char *line)
{
	static const char type[] = " asymmetri ", algorithm[] = ": X509.", separator[] = ": ";
	const char *subject = strstr(line, type), *id = NULL;
	const char *end = subject ? strstr(subject, algorithm) : NULL;
	if (!end)
		return;
	subject += strlen(type);
	for (const char *p = subject; (p = strstr(p, separator)) != NULL && p < end; p += strlen(separator))
		id = p; // the last one: a subject may hold anything
	if (!id)
		return;
	strv_add(&ret->names, str_ndup(subject, (size_t)(id - subject)));
	id += strlen(separator);
	strv_add(&ret->ids, str_ndup(id, (size_t)(end - id)));
}

static int check_kernel_has(const struct host *host, const struct root *kern, const struct module_signer *signer,
			    const char *cert, struct err *err)
{
	auto_kernel_keys struct kernel_keys keys = { 0 };
	auto_strv struct strv ids = { 0 }, lines = { 0 };
	const char *signing = host_signing_reason(host);
	if (!signing)
		return 0;
	keyrings_lines(kern, &lines);
	for (size_t i = 0; i < lines.count; i++)
		add_key(&keys, lines.items[i]);
	if (!keys.ids.count)
		return 0;
	module_signer_key_ids(signer, &ids);
	for (size_t i = 0; i < ids.count; i++)
		if (strv_has(&keys.ids, ids.items[i]))
			return 0;
	auto_str char *names = strv_join(&keys.names, "; ");
	return err_set(err, E_KEY_UNKNOWN,
		       "%s, and the certificate of --module-key, %s (%s), is not among the keys of this kernel: %s",
		       signing, module_signer_name(signer), cert, names);
}

int signing_check(const struct host *host, const struct root *kern, const struct module_key *key, char **ret_signer,
		  struct err *err)
{
	auto_module_signer struct module_signer *signer = NULL;
	*ret_signer = NULL;
	if (!key->key)
		return 0;
	if (module_signer_open(key, &signer, err) < 0 || check_kernel_has(host, kern, signer, key->cert, err) < 0)
		return -1;
	*ret_signer = str_dup(module_signer_name(signer));
	return 0;
}

int signing_sign(const struct module_signer *signer, const char *hash, const struct root *dir, const struct strv *files,
		 struct err *err)
{
	for (size_t i = 0; i < files->count; i++) {
		auto_str char *module = NULL, *with = NULL;
		size_t len = 0, with_len = 0;
		if (root_read(dir, files->items[i], &module, &len, err) < 0 ||
		    module_sign(signer, hash, module, len, &with, &with_len, err) < 0 ||
		    root_write(dir, files->items[i], with, with_len, 0644, err) < 0)
			return err_wrap(err, "%s", files->items[i]);
	}
	return 0;
}

static char *signature_name(const char *module)
{
	return str_fmt("%s.p7s", module);
}

int signing_attach(const struct module_signer *signer, const struct root *signatures, const struct root *dir,
		   const struct strv *files, struct err *err)
{
	auto_strv struct strv missing = { 0 };
	for (size_t i = 0; i < files->count; i++) {
		auto_str char *name = signature_name(files->items[i]);
		if (!root_exists(signatures, name))
			strv_add(&missing, TAKE(name));
	}
	auto_str char *names = strv_join(&missing, ", ");
	if (missing.count)
		return err_set(err, E_NOT_FOUND, "'%s' has no %s; --export-modules writes what is to be signed",
			       signatures->name, names);
	for (size_t i = 0; i < files->count; i++) {
		auto_str char *name = signature_name(files->items[i]), *cms = NULL, *module = NULL, *with = NULL;
		size_t cms_len = 0, len = 0, with_len = 0;
		if (root_read(signatures, name, &cms, &cms_len, err) < 0 ||
		    root_read(dir, files->items[i], &module, &len, err) < 0)
			return -1;
		if (module_attach(signer, cms, cms_len, module, len, &with, &with_len, err) < 0)
			return err_wrap(err, "'%s/%s'", signatures->name, name);
		if (root_write(dir, files->items[i], with, with_len, 0644, err) < 0)
			return -1;
	}
	return 0;
}

int signing_export(const struct root *dir, const struct strv *files, const struct root *to, struct err *err)
{
	for (size_t i = 0; i < files->count; i++) {
		auto_str char *module = NULL;
		size_t len = 0;
		if (root_read(dir, files->items[i], &module, &len, err) < 0 ||
		    root_write(to, files->items[i], module, module_unsigned_length(module, len), 0644, err) < 0)
			return -1;
	}
	return 0;
}
