// SPDX-License-Identifier: Apache-2.0
// Names that no command knows, in the configuration file and in the environment: a slip of the finger that would
// otherwise change nothing, silently.
#pragma once
#include "base/options/opt.h"

// E_CONFIG: no command has an option of that name.
int opt_check_key(const struct cmd *const *all, const char *key, struct err *err);
// E_CONFIG: a variable KMODSMITH_* of the environment is no command's, none of `others` (NULL-terminated; may be NULL),
// and none of those that Kubernetes gives to every container of a namespace that has a Service of such a name.
int opt_check_environment(const struct cmd *const *all, const char *const *others, struct err *err);
