// SPDX-License-Identifier: Apache-2.0
// What a guest with a virtual GPU is told by its operator (contract 1.5, R-P4): licence configuration, token and
// topology, copied to where nvidia-gridd and nvidia-topologyd read them. The payload cannot be written, so etc/nvidia
// of its driver root is a directory below run/ of the host.
#pragma once
#include "base/file/root.h"

#define GUEST_CONFIG "run/nvidia-gridd/etc"
bool vgpu_guest_is_served(const struct root *driver); // a payload with nvidia-gridd or nvidia-topologyd
// kern has our own drivers/ and etc/nvidia/. Each file whole or not at all; the token is for root alone.
int vgpu_guest_write(const struct root *host, const struct root *kern, struct err *err);
// What nvidia-gridd last said of its licence, of its log; NULL = nothing.
const char *vgpu_guest_licence(const struct strv *log);
