// SPDX-License-Identifier: Apache-2.0
// What was read of kernel images, in STATE/cache/kernels: decompressing an image takes longer than the rest of a proof.
//
// An entry is found by what cannot be the same for two kernels: the running kernel by its GNU build id, which the
// kernel itself tells (sys/kernel/notes) and which must be in the image, too; any other by the SHA-256 of its image. An
// entry that is damaged, was made by another version of this program or belongs to another key is ignored. It is never
// needed: what cannot be read or written only costs time.
#pragma once
#include "base/file/root.h"
#include "kmod/module/vmlinuz.h"

enum { VMLINUZ_CACHE_MOST = 8 }; // entries, half a MiB each; the oldest go first

// vmlinuz_read(), or the same from an entry. state: the state directory; NULL = without a cache. kern: where sys is
// seen, if this is the image of the running kernel; else NULL. 1 = from an entry, 0 = from the image.
int vmlinuz_cache_read(const struct root *state, const struct root *kern, int fd, const char *name, struct vmlinuz *ret,
		       struct err *err);
