// SPDX-License-Identifier: Apache-2.0
// What the readers of boot loaders' files share.
#pragma once
#include "next_kernel/boot_loader.h"

struct bootnext_ask {
	const struct root *host, *kern;
	const struct strv *releases;
};

// The text of a regular file of at most a few megabytes; NULL = there is none. Caller frees, here and below.
char *bootnext_text(const struct root *root, const char *path);
// The release of a kernel by the file that is started, or by an entry's name: it stands there as a whole. NULL = none.
char *bootnext_release(const struct bootnext_ask *ask, const char *path);
// The value of "KEY=VALUE" or "KEY VALUE" at the start of a line; NULL = it is not set, or empty.
char *bootnext_value(const char *text, const char *key, char separator);
// A boot loader's EFI variable (of systemd's vendor) as text; NULL = not set.
char *bootnext_variable(const struct bootnext_ask *ask, const char *name);
void bootnext_say(struct bootnext *ret, char *take_release, const char *fmt, ...) PRINTF(3, 4);

// Readers: true = ret is filled.
bool bootnext_ostree(const struct bootnext_ask *ask, struct bootnext *ret);
bool bootnext_systemd(const struct bootnext_ask *ask, struct bootnext *ret);
bool bootnext_grub(const struct bootnext_ask *ask, struct bootnext *ret);

// Entries of the Boot Loader Specification.
struct loader_entry {
	char *id; // file name without .conf, and without tries
	char *title, *version, *sort_key, *image, *options;
	bool is_bad; // its tries are used up
};
struct loader_entries {
	struct loader_entry *items;
	size_t count;
};
enum loader_order { LOADER_BY_SPECIFICATION, LOADER_BY_NAME /* as GRUB's blscfg */ };
// Of dir "boot/loader/entries", the default one first.
void loader_entries_read(const struct root *host, const char *dir, enum loader_order order, struct loader_entries *ret);
void loader_entries_done(struct loader_entries *e);
#define auto_loader_entries __attribute__((cleanup(loader_entries_done)))
char *loader_entry_release(const struct bootnext_ask *ask, const struct loader_entry *e);
