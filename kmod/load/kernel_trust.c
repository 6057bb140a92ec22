// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/kernel_trust.h"

#include "kmod/load/efi_certs.h"
#include "kmod/load/provider.h"

void kernel_trust_done(struct kernel_trust *t)
{
	free(t->release);
	modsig_certs_free(t->certs);
	*t = (struct kernel_trust){ 0 };
}

// "name         : sha512"
static int has_algorithm(const struct root *kern, const char *name)
{
	struct err ignored;
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	if (root_read(kern, "proc/crypto", &text, NULL, &ignored) <= 0 || !*text)
		return -1;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		const char *value = str_starts(lines.items[i], "name ") ? strchr(lines.items[i], ':') : NULL;
		if (value && str_eq(value + 1 + strspn(value + 1, " "), name))
			return 1;
	}
	return 0;
}

// The module that modprobe would load for "crypto-NAME" and whose files are there; NULL = none.
static char *algorithm_module(const struct kernel_trust *t, const char *name)
{
	struct err ignored;
	auto_str char *path = str_fmt("lib/modules/%s/modules.alias", t->release), *text = NULL;
	auto_str char *want = str_fmt("alias crypto-%s ", name);
	auto_strv struct strv lines = { 0 };
	root_read(t->node->host, path, &text, NULL, &ignored);
	strv_split(&lines, text ? text : "", "\n");
	for (size_t i = 0; i < lines.count; i++) {
		const char *module = lines.items[i] + strlen(want);
		if (str_starts(lines.items[i], want) && provider_has(t->node->host, t->release, module))
			return str_dup(module);
	}
	return NULL;
}

// crypto_alloc_shash: what is registered, else request_module("crypto-NAME"), which is the program of
// proc/sys/kernel/modprobe.
static char *lacks_hash(const void *kernel, const char *hash)
{
	const struct kernel_trust *t = kernel;
	struct err ignored;
	if (!hash || has_algorithm(t->node->kern, hash) != 0)
		return NULL;
	auto_str char *module = algorithm_module(t, hash), *modprobe = NULL;
	if (!module)
		return str_fmt("proc/crypto does not list it, and lib/modules/%s has no module for it", t->release);
	int r = root_line(t->node->kern, "proc/sys/kernel/modprobe", &modprobe, &ignored);
	if (r <= 0 || (*modprobe && root_exists(t->node->host, modprobe)))
		return NULL;
	return str_fmt(
		"proc/crypto does not list it, and it cannot load its module %s, as there is no modprobe at '%s'",
		module, modprobe);
}

// Of db and MOK a kernel takes what its makers want it to: what is in no keyring counts for nothing. What cannot be
// read, and a certificate that is none, are left to the load.
static struct certs *read_certs(const struct kernel_trust *t)
{
	auto_efi_certs struct efi_certs found = { 0 };
	struct certs *certs = modsig_certs_new();
	struct err ignored;
	efi_certs_read(t->node->kern, EFI_DB, &found, &ignored);
	efi_certs_read(t->node->kern, EFI_MOK, &found, &ignored);
	for (size_t i = 0; i < found.count; i++)
		modsig_certs_add(certs, found.items[i].der, found.items[i].len, "a certificate", &ignored);
	modsig_certs_keep(certs, keyrings_has, &t->keyrings);
	return certs;
}

static void add_image_certs(const struct kernel_trust *t)
{
	struct err ignored;
	auto_fd int fd = -1;
	auto_str char *path = NULL;
	if (kernel_abi_open_image(t->node->host, t->release, &fd, &path, &ignored) > 0)
		vmlinuz_certs(fd, path, t->certs, &ignored);
	modsig_certs_keep(t->certs, keyrings_has, &t->keyrings);
}

// An image takes longer to unpack than all else takes to ask: it is read for a key that the kernel has and that neither
// db nor MOK gave to it.
static const struct certs *certs(void *kernel, const struct strv *ids)
{
	struct kernel_trust *t = kernel;
	for (size_t i = 0; i < ids->count && !t->is_image_read; i++) {
		if (keyrings_ask(&t->keyrings, ids->items[i]) != 1 || modsig_certs_has(t->certs, ids->items[i]))
			continue;
		t->is_image_read = true;
		add_image_certs(t);
	}
	return t->certs;
}

static int has_key(const void *kernel, const char *id)
{
	return keyrings_has(&((const struct kernel_trust *)kernel)->keyrings, id);
}

static int is_revoked(const void *kernel, const char *id)
{
	return keyrings_has_revoked(&((const struct kernel_trust *)kernel)->keyrings, id);
}

void kernel_trust_read(const struct node *node, const char *release, struct kernel_trust *ret)
{
	*ret = (struct kernel_trust){ .node = node, .release = str_dup(release) };
	keyrings_read(node->kern, node->sys, &ret->keyrings);
	ret->certs = read_certs(ret);
	ret->answers = (struct kernel_answers){
		.has_key = has_key, .is_revoked = is_revoked, .lacks_hash = lacks_hash, .certs = certs, .kernel = ret
	};
}
