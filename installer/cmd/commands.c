// SPDX-License-Identifier: Apache-2.0
// The table of commands. One file per command; this is the list that --help shows.
#include "cmd/common.h"

extern const struct cmd cmd_init, cmd_install, cmd_plan, cmd_status, cmd_unload, cmd_holders, cmd_nodes, cmd_build,
	cmd_check, cmd_doctor, cmd_explain, cmd_net_check;

const struct cmd *const commands[] = {
	&cmd_init,  &cmd_install, &cmd_plan,   &cmd_status,  &cmd_unload,    &cmd_holders, &cmd_nodes,
	&cmd_build, &cmd_check,   &cmd_doctor, &cmd_explain, &cmd_net_check, NULL,
};

const struct group groups[] = {
	{ "net", "the way to remote sources" },
	{ 0 },
};
