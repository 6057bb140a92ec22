// SPDX-License-Identifier: Apache-2.0
// What an aim means: which driver a node is to have, and with which parameters.
#pragma once
#include "cluster/node_state/target_hash.h"

enum { WORD_TEXT = 24 };
bool node_word_copy(char *to, size_t size, const char *from,
		    size_t len); // of [A-Za-z0-9._/-]; false: too long, or others

struct target {
	char driver[WORD_TEXT], flavour[WORD_TEXT];
	char *package;    // digest; NULL = whatever has the driver
	char *parameters; // "NAME=VALUE" a line, sorted; "" = none
	struct target_hash target_hash;
};
void target_name(struct target *t); // its aim, of all the rest
void target_copy(const struct target *from, struct target *to);
void target_done(struct target *t);
// "MODULE:NAME=VALUE" as `install --param` takes it; a name without a module is of nvidia.
void target_params(const struct target *t, struct strv *ret);
