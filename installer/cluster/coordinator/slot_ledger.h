// SPDX-License-Identifier: Apache-2.0
// The ledger of slots as the text that the coordinator's Lease carries: "work UID[,UID...];wait UID[,UID...]", either
// part absent when it is empty. At most LEDGER_MOST entries, 40 KiB, below the 256 KiB of all annotations.
#pragma once
#include "cluster/rollout/scheduler.h"

char *slot_ledger_text(const struct slot_ledger *l);
// What means nothing is as if nothing were there: the nodes tell who is being disturbed (T60). false: it did not.
bool slot_ledger_parse(const char *text, struct slot_ledger *ret); // NULL = empty
