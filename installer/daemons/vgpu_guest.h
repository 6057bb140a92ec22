// SPDX-License-Identifier: Apache-2.0
// The operator's configuration for a guest with a virtual GPU (contract 1.5, R-P4): licence configuration, token and
// topology, copied to where nvidia-gridd and nvidia-topologyd read them. The payload is read-only, so etc/nvidia of
// its driver root is a directory below run/ of the host.
#pragma once
#include "base/file/root.h"

#define GUEST_CONFIG "run/nvidia-gridd/etc"
bool vgpu_guest_is_served(const struct root *driver); // a payload with nvidia-gridd or nvidia-topologyd
// kern has our own drivers/ and etc/nvidia/. Each file whole or not at all; only root can read the token.
int vgpu_guest_write(const struct root *host, const struct root *kern, struct err *err);
// nvidia-gridd's last message about its licence, from its log; NULL = none.
const char *vgpu_guest_licence(const struct strv *log);
