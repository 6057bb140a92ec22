// SPDX-License-Identifier: Apache-2.0
// The table of commands. One file per command; this is the list that --help shows.
#include "cmd/common.h"

extern const struct cmd cmd_init, cmd_install, cmd_plan, cmd_status, cmd_probe, cmd_unload, cmd_holders, cmd_nodes, cmd_build,
	cmd_check, cmd_fetch, cmd_push, cmd_store_ls, cmd_store_show, cmd_store_verify, cmd_store_gc, cmd_store_pin,
	cmd_store_unpin, cmd_pack_headers, cmd_pack_payload, cmd_bundle_create, cmd_bundle_verify, cmd_bundle_ls,
	cmd_bundle_install, cmd_sign, cmd_trust_add, cmd_trust_ls, cmd_trust_remove, cmd_net_check, cmd_cdi_generate,
	cmd_cdi_hook_links, cmd_cdi_hook_ldcache, cmd_doctor, cmd_explain;

const struct cmd *const commands[] = {
	&cmd_init,
	&cmd_install,
	&cmd_plan,
	&cmd_status,
	&cmd_probe,
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
	&cmd_bundle_create,
	&cmd_bundle_verify,
	&cmd_bundle_ls,
	&cmd_bundle_install,
	&cmd_sign,
	&cmd_trust_add,
	&cmd_trust_ls,
	&cmd_trust_remove,
	&cmd_net_check,
	&cmd_cdi_generate,
	&cmd_cdi_hook_links,
	&cmd_cdi_hook_ldcache,
	&cmd_doctor,
	&cmd_explain,
	NULL,
};

const struct group groups[] = {
	{ "store", "the packages that this machine keeps: look, verify, clean up, pin" },
	{ "pack", "what a site offers beside packages" },
	{ "bundle", "packages for a site without a network, in one file" },
	{ "trust", "whose packages this machine takes" },
	{ "net", "the way to remote sources" },
	{ "cdi", "GPUs for containers, without a toolkit" },
	{ "cdi-hook", "what a container runtime calls for it" },
	{ 0 },
};
