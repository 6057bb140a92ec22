// SPDX-License-Identifier: Apache-2.0
// The fabric manager's configuration (contract 1.4): the payload's file is read-only, so the daemon is started with
// a copy that has the requested values. NVFM_CONFIG_<FIELD>=VALUE in the environment sets FIELD=VALUE.
#pragma once
#include "base/file/root.h"

#define FABRIC_CONFIG "run/nvidia-fabricmanager/fabricmanager.cfg" // of the host, and as seen in the driver root
#define FABRIC_PAYLOAD_CONFIG "usr/share/nvidia/nvswitch/fabricmanager.cfg"

// Of an environment: "FIELD=VALUE" of each NVFM_CONFIG_ variable, sorted. E_CONFIG for an invalid field or value.
int fabric_manager_settings(char *const *environment, struct strv *ret, struct err *err);
// The text with each FIELD=VALUE in place of the line that sets FIELD, or after the last line.
char *fabric_manager_edit(const char *text, const struct strv *settings);
// Writes the copy, whole or not at all: what kmodsmith needs (log to our output, state in a writable place), then
// settings, then that it stays in the foreground, which settings cannot change.
int fabric_manager_write(const struct root *host, const struct root *driver, const struct strv *settings,
			 struct err *err);

// NVLink5: the first InfiniBand device whose VPD has SW_MNG. 1 = there is one, with the GUID of its first port, or NULL
// while the port has none; 0 = there is none.
int fabric_manager_bridge(const struct root *kern, char **ret_guid, struct err *err);
