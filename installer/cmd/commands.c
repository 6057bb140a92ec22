// SPDX-License-Identifier: Apache-2.0
// The table of commands. One file per command; this is the list that --help shows.
#include "cmd/common.h"

extern const struct cmd cmd_explain;

const struct cmd *const commands[] = {
	&cmd_explain,
	NULL,
};
