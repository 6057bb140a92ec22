// SPDX-License-Identifier: Apache-2.0
// The kernel that modules are made for or checked against: its headers and what it demands of a module.
#pragma once
#include "kmod/kernel_tree/headers.h"
#include "kmod/module/abi.h"

// files (package files as a user typed them) and nothing else when there are any; else the host's tree, then the header
// store below state, then what is offered (NULL = nobody offers).
// banner: of the running kernel when release is that one, else NULL. Errors as headers_find().
int compile_target_headers(const struct root *host, const struct root *state, const struct strv *files,
			   const struct headers_offer *offer, const char *release, const char *banner, struct tree *ret,
			   char **ret_from, struct err *err);
int compile_target_abi(const struct tree *tree, struct kernel_abi *ret, struct err *err);
