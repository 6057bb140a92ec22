// SPDX-License-Identifier: Apache-2.0
// The driver root as a part of a session.
#pragma once
#include "transaction/session.h"

int session_driver_root_open(struct session *s, bool *ret_is_demanded, struct err *err); // where to; once
// What is to be exported, and whether it is.
int session_driver_root_find(struct session *s, struct err *err);
// An export that is no longer requested, or is elsewhere now.
int session_driver_root_withdraw(struct session *s, struct err *err);
