// SPDX-License-Identifier: Apache-2.0
// What the readers of boot loaders' files share.
#pragma once
#include "next_kernel/boot_loader.h"

struct boot_query {
	const struct root *host, *kern;
	const struct strv *releases;
};

// The text of a regular file of at most a few megabytes; NULL = there is none. Caller frees, here and below.
char *boot_file_text(const struct root *root, const char *path);
// The release of a kernel by the file that is started, or by an entry's name: it stands there as a whole. NULL = none.
char *boot_release_in(const struct boot_query *ask, const char *path);
// The value of "KEY=VALUE" or "KEY VALUE" at the start of a line; NULL = it is not set, or empty.
char *boot_file_value(const char *text, const char *key, char separator);
// A boot loader's EFI variable (of systemd's vendor) as text; NULL = not set.
char *boot_efi_variable(const struct boot_query *ask, const char *name);
void boot_choice_set(struct boot_choice *ret, char *take_release, const char *fmt, ...) PRINTF(3, 4);

// Readers: true = ret is filled.
bool boot_choice_ostree(const struct boot_query *ask, struct boot_choice *ret);
bool boot_choice_systemd(const struct boot_query *ask, struct boot_choice *ret);
bool boot_choice_grub(const struct boot_query *ask, struct boot_choice *ret);

// Entries of the Boot Loader Specification.
struct boot_entry {
	char *id; // file name without .conf, and without tries
	char *title, *version, *sort_key, *image, *options;
	bool is_bad; // its tries are used up
};
struct boot_entries {
	struct boot_entry *items;
	size_t count;
};
enum boot_entry_order { BOOT_ENTRIES_BY_SPECIFICATION, BOOT_ENTRIES_BY_NAME /* as GRUB's blscfg */ };
// Of dir "boot/loader/entries", the default one first.
void boot_entries_read(const struct root *host, const char *dir, enum boot_entry_order order, struct boot_entries *ret);
void boot_entries_done(struct boot_entries *e);
#define auto_boot_entries __attribute__((cleanup(boot_entries_done)))
char *boot_entry_release(const struct boot_query *ask, const struct boot_entry *e);
