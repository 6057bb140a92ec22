// SPDX-License-Identifier: Apache-2.0
// --output: the layout that packages are put in: the node's store, oci:DIR, or oci-archive:FILE.tar by way of a layout
// in the scratch. Errors are found before the work is done; nothing is created before there is something to write.
#pragma once
#include "base/file/scratch.h"
#include "precompiled/store/store.h"

#define OUTPUT_HELP \
	"oci:DIR adds it to this OCI layout, oci-archive:FILE.tar creates a bundle; default: the node's store"
struct output {
	char *name;               // as origin_name() spells it; NULL = the store
	const char *dir, *bundle; // of a layout, or a bundle: in name
	const struct root *state; // borrowed
	struct store store;
	struct scratch work;
	struct layout layout;
};
#define OUTPUT_NONE ((struct output){ .store = STORE_NONE, .work = SCRATCH_NONE, .layout = LAYOUT_NONE })
// named: the option's value, NULL = the store. E_USAGE: no layout and no bundle can be made there.
int output_init(struct output *o, const char *named, const struct root *state, struct err *err);
int output_layout(void *output, const struct layout **ret, struct err *err); // made and opened now
int output_finish(struct output *o, struct err *err);                        // writes a bundle
void output_done(struct output *o);
