// SPDX-License-Identifier: Apache-2.0
// What is exported now. RUN/export.json holds what was intended, with the boot id of its writer; the mounts
// themselves are always measured (R-D4).
#pragma once
#include "base/process/node.h"
#include "driver_root/root_layout.h"

struct root_record {
	char *dir, *driver;      // dir NULL = nothing is exported; driver: version that it was made for
	char *former;            // an earlier export that is not removed yet; NULL = none
	char *payload;           // digest
	char *modules, *sources; // names of trees; NULL = none
	char *user_space;        // version of its libraries, as consumers read it; NULL = it has none
	unsigned generation;
	char *problem; // NULL = each mount and link is right
};
void root_record_done(struct root_record *x);
#define auto_root_record __attribute__((cleanup(root_record_done)))

#define ROOT_RECORD_FILE "run/kmodsmith/export.json" // of the host

// The record, without checking the mounts. 1 = something was exported in this boot, 0 = not.
int root_record_read(const struct root *host, const char *boot, struct root_record *ret, struct err *err);
// The same, and checks them.
int root_record_measure(const struct node *node, const char *boot, struct root_record *ret, struct err *err);
// The version of the libraries in a driver root, and the directory that has them, where the container toolkit looks.
// version: only these count; NULL = any. NULL = there are none.
char *root_record_libraries(const struct root *root, const char *version, char **ret_dir);
unsigned root_record_generation(const struct root *host); // of the last generation; 0 = none is known

// Of dir, driver, payload, modules, sources and generation of x.
int root_record_write(const struct root *host, const char *boot, const struct root_record *x,
		      const struct root_layout *p, struct err *err);
int root_record_drop_former(const struct root *host, struct err *err);               // its former one is removed
int root_record_restore(const struct root *host, const char *text, struct err *err); // of ROOT_RECORD_FILE; NULL = none
