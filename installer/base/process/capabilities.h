// SPDX-License-Identifier: Apache-2.0
// The capabilities of this process, by the kernel's own calls: libcap would be one more library for three of them. A
// set is a mask with bit N for capability N of linux/capability.h.
#pragma once
#include "base/core/err.h"

#define CAPS_BIT(cap) (UINT64_C(1) << (cap))

// Gives up everything but keep, for this process and all that it starts: permitted, effective, inheritable and ambient
// sets, and the bounding set as far as CAP_SETPCAP is there; and no program will give any back (no_new_privs). Missing
// capabilities are not added. ret_dropped: those that were permitted and no longer are.
int caps_keep(uint64_t keep, uint64_t *ret_dropped, struct err *err);
// Gives up everything: as the user nobody where we may become that, else as who we are, without capabilities.
int caps_leave(struct err *err);

const char *caps_name(unsigned cap); // "CAP_SYS_MODULE"; NULL = none that we know
char *caps_text(uint64_t set);       // "CAP_KILL, CAP_SYS_ADMIN", unnamed ones by number; "" = none
