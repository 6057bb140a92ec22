// SPDX-License-Identifier: Apache-2.0
// NVIDIA's conftest.sh as far as it has to be understood to know when one of its probes is the same as another
// version's: compile_test() is one long `case`, an arm for each probe; everything else is shared by all of them.
#pragma once
#include "base/file/digest.h"
#include "base/file/root.h"

struct script;

// Of a source with conftest.sh and Kbuild; NULL = it has none, or one that looks unlike all that are known.
struct script *script_read(const struct root *source);
void script_done(struct script *script);
// Digest of what all probes share: the rest of conftest.sh, and the lines of Kbuild that make flags.
const char *script_common(const struct script *script);
// Digest of what is one probe's own: its arm, and whether the header tests that it relies on are made. name: a probe's,
// or of a header ("linux/mm.h"). false = there is no such probe.
bool script_probe(const struct script *script, const char *name, char ret[DIGEST_HEX + 1]);
