// SPDX-License-Identifier: Apache-2.0
// What is exported now. RUN/export.json tells what was meant, by whom it was measured: the mounts themselves (R-D4). It
// lies where a boot's facts belong, and says which boot that was.
#pragma once
#include "driver_root/driver_root.h"
#include "driver_root/root_layout.h"

struct exported {
	char *dir, *driver;      // dir NULL = nothing is exported; driver: version that it was made for
	char *former;            // an export before it that is not withdrawn yet; NULL = none
	char *payload;           // digest
	char *modules, *sources; // names of trees; NULL = none
	char *user_space;        // version of its libraries, as consumers read it; NULL = it has none
	unsigned generation;
	char *problem; // NULL = each mount and link is right
};
void exported_done(struct exported *x);
#define auto_exported __attribute__((cleanup(exported_done)))

// The record, without a look at the mounts. 1 = something was exported in this boot, 0 = not.
int exported_record(const struct root *host, const char *boot, struct exported *ret, struct err *err);
// With a look at them.
int exported_read(const struct root *host, const struct root *kern, const struct sys *sys, const char *boot,
		  struct exported *ret, struct err *err);
// The version of the libraries in a driver root, and the directory that has them, where the container toolkit looks.
// NULL = there are none.
char *exported_libraries(const struct root *root, char **ret_dir);
unsigned exported_number(const struct root *host); // of the last generation; 0 = none is known

int exported_write(const struct export *e, const struct export_wish *wish, const struct pieces *p, struct err *err);
int exported_text(const struct root *host, char **ret, struct err *err); // as it is, to bring it back
int exported_forget(const struct root *host, struct err *err);           // its former one is withdrawn
int exported_restore(const struct root *host, const char *text, struct err *err);
