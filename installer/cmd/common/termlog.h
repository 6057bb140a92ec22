// SPDX-License-Identifier: Apache-2.0
// The error of a container's end, for `kubectl describe pod`: Kubernetes mounts a file and shows at most 4096 bytes of
// it, which an error never fills.
#pragma once
#include "cmd/common/common.h"

#define TERMLOG_HELP "gets the error of a failed start, where it exists; default /dev/termination-log"
// path: NULL = the default. The error has been logged already, so nothing is said when there is no such file.
void termlog_write(const struct common *common, const char *path, const struct err *err);
