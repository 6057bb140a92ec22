// SPDX-License-Identifier: Apache-2.0
// Certificates that the firmware (db, dbx) and shim (MOK) gave the kernel: lists of UEFI 2.10, 32.4.1, in variables
// that efivarfs shows. Of shim's, newer kernels have a whole copy in sys/firmware/efi/mok-variables: shim splits what
// is too large for the firmware.
#pragma once
#include "base/file/root.h"

enum efi_list {
	EFI_DB,      // the firmware's
	EFI_DBX,     // revoked there
	EFI_MOK,     // enrolled by this machine's owner, with those built into shim
	EFI_MOKX,    // revoked there
	EFI_MOK_NEW, // asked for, and not confirmed yet
};

struct efi_certs {
	struct efi_cert {
		char *der;
		size_t len;
	} * items;
	size_t count;
};
void efi_certs_done(struct efi_certs *c);
#define auto_efi_certs __attribute__((cleanup(efi_certs_done)))

extern const char efi_certs_dir[]; // of efivarfs, below the root
char *efi_certs_path(enum efi_list list);
// Adds the X.509 certificates of a list, without the four bytes of attributes. 1 = it is whole; 0 = it is damaged, and
// what stands before the damage counts, as for the kernel (parse_efi_signature_list).
int efi_certs_parse(const void *data, size_t len, struct efi_certs *ret);
// A list of one certificate, which shim owns, as MokManager is asked for it. Caller frees.
char *efi_certs_list(const void *der, size_t len, size_t *ret_len);
// Adds those of a variable. 1 = there, 0 = absent.
int efi_certs_read(const struct root *kern, enum efi_list list, struct efi_certs *ret, struct err *err);
bool efi_certs_has(const struct efi_certs *c, const void *der, size_t len);
