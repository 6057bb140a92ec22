// SPDX-License-Identifier: Apache-2.0
#include "acquire/enroll.h"

#include "kmod/load/efi_certs.h"
#include "kmod/load/keyrings.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#define SHIM_GUID "605dab50-e046-4300-abb6-3dd810dd8b23"

enum { ATTRIBUTES = 4 };

static const char auth_path[] = "sys/firmware/efi/efivars/MokAuth-" SHIM_GUID;
// Non-volatile, for boot services and at run time; EFI_VARIABLE_* of UEFI 2.10, 8.2
static const char attributes[ATTRIBUTES] = { 7, 0, 0, 0 };

const char *enroll_state_name(enum enroll_state s)
{
	static const char *const names[] = { "trusted", "listed", "ignored", "pending", "absent" };
	return names[s];
}

static int has_listed(const struct node *node, enum efi_list list, const struct module_cert *cert, struct err *err)
{
	auto_efi_certs struct efi_certs found = { 0 };
	if (efi_certs_read(node->kern, list, &found, err) < 0)
		return -1;
	return efi_certs_has(&found, cert->der, cert->len);
}

int enroll_look(const struct node *node, const struct module_cert *cert, enum enroll_state *ret, struct err *err)
{
	struct keyrings keyrings;
	auto_str char *id = modsig_cert_id(cert->der, cert->len);
	keyrings_read(node->kern, node->sys, &keyrings);
	int known = keyrings_ask(&keyrings, id), db = has_listed(node, EFI_DB, cert, err),
	    mok = db < 0 ? -1 : has_listed(node, EFI_MOK, cert, err),
	    asked = mok < 0 ? -1 : has_listed(node, EFI_MOK_NEW, cert, err),
	    dbx = asked < 0 ? -1 : has_listed(node, EFI_DBX, cert, err),
	    mokx = dbx < 0 ? -1 : has_listed(node, EFI_MOKX, cert, err);
	if (mokx < 0)
		return -1;
	if (dbx || mokx || keyrings_has_revoked(&keyrings, id))
		return err_set(err, E_KEY_REVOKED, "%s is revoked: %s has it", cert->name,
			       dbx  ? "the firmware's dbx" :
			       mokx ? "shim's MokListX" :
				      "the kernel's keyring .blacklist");
	bool is_asked = asked && root_exists(node->kern, auth_path); // MokManager cannot confirm it without a password
	*ret = known > 0                ? ENROLL_TRUSTED :
	       (db || mok) && known < 0 ? ENROLL_LISTED :
	       db || mok                ? ENROLL_IGNORED :
	       is_asked                 ? ENROLL_PENDING :
					  ENROLL_ABSENT;
	return 0;
}

// shim leaves MokListRT, SbatLevelRT and more at each boot; our own request is no sign of it.
static int check_shim(const struct node *node, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (!root_exists(node->kern, "sys/firmware/efi"))
		return err_set(err, E_NO_SHIM, "this machine was not started by UEFI, and has no Secure Boot");
	if (root_list(node->kern, efi_certs_dir, &names, err) < 0)
		return -1;
	if (!names.count)
		return err_set(err, E_RIGHTS,
			       "no EFI variable can be seen in '%s/%s': mount efivarfs there, and in a "
			       "container run this on the host",
			       node->kern->name, efi_certs_dir);
	for (size_t i = 0; i < names.count; i++)
		if (str_ends(names.items[i], "RT-" SHIM_GUID))
			return 0;
	if (root_exists(node->kern, "sys/firmware/efi/mok-variables"))
		return 0;
	return err_set(err, E_NO_SHIM, "shim has left no variable (MokListRT) in '%s/%s'", node->kern->name,
		       efi_certs_dir);
}

// Attributes, an EFI_SIGNATURE_LIST with the certificate, and what the variable had.
static char *make_request(const struct module_cert *cert, const char *old, size_t old_len, size_t *ret_len)
{
	size_t more = old_len > ATTRIBUTES ? old_len - ATTRIBUTES : 0, size = 0;
	auto_str char *list = efi_certs_list(cert->der, cert->len, &size);
	char *data = mem_alloc(ATTRIBUTES + size + more);
	char *end = mempcpy(mempcpy(data, attributes, ATTRIBUTES), list, size);
	if (more)
		memcpy(end, old + ATTRIBUTES, more);
	*ret_len = ATTRIBUTES + size + more;
	return data;
}

// SHA-256 of the request and the password as UCS-2: the form of MokAuth that each shim reads.
static void make_auth(const char *request, size_t len, const char *password, char ret[ATTRIBUTES + DIGEST_HEX / 2])
{
	char hex[DIGEST_HEX + 1];
	struct digest *digest = digest_new();
	digest_add(digest, request + ATTRIBUTES, len - ATTRIBUTES);
	for (const char *p = password; *p; p++)
		digest_add(digest, (const char[]){ *p, 0 }, 2);
	digest_hex(digest, hex);
	memcpy(ret, attributes, ATTRIBUTES);
	for (size_t i = 0; i < DIGEST_HEX / 2; i++) {
		unsigned byte = 0;
		sscanf(hex + 2 * i, "%2x", &byte);
		ret[ATTRIBUTES + i] = (char)byte;
	}
}

static int set_variable(const struct node *node, const char *path, const void *data, size_t len, struct err *err)
{
	if (node->sys->variable_set(node->sys, node->kern, path, data, len) == 0)
		return 0;
	int code = errno == ENOSPC                   ? E_EFI_FULL :
		   errno == EROFS                    ? E_READ_ONLY :
		   errno == EPERM || errno == EACCES ? E_RIGHTS :
						       E_SYSTEM;
	return err_set(err, code, "write '%s/%s': %s", node->kern->name, path, strerror(errno));
}

int enroll_ask(const struct node *node, const struct module_cert *cert, const char *password, struct err *err)
{
	auto_str char *path = efi_certs_path(EFI_MOK_NEW), *old = NULL;
	size_t old_len = 0, len = 0;
	char auth[ATTRIBUTES + DIGEST_HEX / 2];
	int is_asked = has_listed(node, EFI_MOK_NEW, cert, err);
	if (is_asked < 0 || check_shim(node, err) < 0 || root_read(node->kern, path, &old, &old_len, err) < 0)
		return -1;
	bool is_new = !is_asked || !old;
	auto_str char *request = is_new ? make_request(cert, old, old_len, &len) : str_ndup(old, len = old_len);
	make_auth(request, len, password, auth);
	if (is_new && set_variable(node, path, request, len, err) < 0)
		return -1;
	if (set_variable(node, auth_path, auth, sizeof(auth), err) == 0)
		return 0;
	struct err ignored; // what was asked before stays asked, with its own password
	if (is_new)
		set_variable(node, path, old ? old : attributes, old ? old_len : ATTRIBUTES, &ignored);
	return -1;
}

int enroll_make_password(char **ret, struct err *err)
{
	static const char letters[] = "bcdefghijklnoprstuvx"; // the same keys of QWERTY, QWERTZ and AZERTY
	enum { LENGTH = 14 };
	char text[LENGTH + 1] = "";
	for (size_t i = 0; i < LENGTH;) {
		unsigned char byte;
		if (getrandom(&byte, 1, 0) != 1)
			return err_set(err, E_SYSTEM, "getrandom");
		size_t most = 256 / (sizeof(letters) - 1) * (sizeof(letters) - 1);
		if (byte < most)
			text[i++] = letters[byte % (sizeof(letters) - 1)];
	}
	*ret = str_dup(text);
	return 0;
}

int enroll_check_password(const char *password, struct err *err)
{
	enum { MOST = 256 }; // PASSWORD_MAX of MokManager.c
	size_t len = strlen(password);
	if (!len || len >= MOST)
		return err_set(err, E_USAGE, "--password-file: MokManager reads passwords of 1 to %d characters",
			       MOST - 1);
	for (size_t i = 0; i < len; i++)
		if (password[i] < ' ' || password[i] > '~')
			return err_set(err, E_USAGE,
				       "--password-file: the firmware's keyboard has ASCII characters only");
	return 0;
}
