// SPDX-License-Identifier: Apache-2.0
// Where a module's relocations write. The kernel's loader (apply_relocate_add of x86 and arm64) does not look: one that
// points out of its section is a write to wherever that is, an oops at best.
#pragma once
#include "kmod/module/sections.h"

// E_ELF with the section and the number of the first relocation that writes outside of its section, or whose symbol is
// not in the table. Of x86-64 and aarch64; other machines' are not looked at.
int relocs_check(const struct sections *s, const char *file, struct err *err);
