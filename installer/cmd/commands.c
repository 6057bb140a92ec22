// SPDX-License-Identifier: Apache-2.0
// The table of commands. One file per command; this is the list that --help shows.
#include "cmd/common.h"

extern const struct cmd cmd_init, cmd_install, cmd_plan, cmd_status, cmd_unload, cmd_holders, cmd_nodes, cmd_build,
	cmd_check, cmd_fetch, cmd_push, cmd_store_ls, cmd_store_show, cmd_store_verify, cmd_store_gc, cmd_store_pin,
	cmd_store_unpin, cmd_pack_headers, cmd_pack_payload, cmd_pack_builder, cmd_bundle_create, cmd_bundle_verify,
	cmd_bundle_ls, cmd_bundle_install, cmd_sign, cmd_trust_add, cmd_trust_ls, cmd_trust_remove, cmd_net_check,
	cmd_doctor, cmd_dtk_run, cmd_dtk_build, cmd_explain;

// One a line, so that whoever adds one moves no other.
// clang-format off
const struct cmd *const commands[] = {
	&cmd_init,
	&cmd_install,
	&cmd_plan,
	&cmd_status,
	&cmd_unload,
	&cmd_holders,
	&cmd_nodes,
	&cmd_build,
	&cmd_check,
	&cmd_fetch,
	&cmd_push,
	&cmd_store_ls,
	&cmd_store_show,
	&cmd_store_verify,
	&cmd_store_gc,
	&cmd_store_pin,
	&cmd_store_unpin,
	&cmd_pack_headers,
	&cmd_pack_payload,
	&cmd_pack_builder,
	&cmd_bundle_create,
	&cmd_bundle_verify,
	&cmd_bundle_ls,
	&cmd_bundle_install,
	&cmd_sign,
	&cmd_trust_add,
	&cmd_trust_ls,
	&cmd_trust_remove,
	&cmd_net_check,
	&cmd_doctor,
	&cmd_dtk_run,
	&cmd_dtk_build,
	&cmd_explain,
	NULL,
};
// clang-format on

const struct group groups[] = {
	{ "store", "the packages that this machine keeps: look, verify, clean up, pin" },
	{ "pack", "what a site offers beside packages" },
	{ "bundle", "packages for a site without a network, in one file" },
	{ "trust", "whose packages this machine takes" },
	{ "dtk", "a compile in OpenShift's driver toolkit, in another container" },
	{ "net", "the way to remote sources" },
	{ 0 },
};
