// SPDX-License-Identifier: Apache-2.0
// The fabric manager's configuration (contract 1.4): the payload's file cannot be written, so a copy of it with the
// requested values is what the daemon is started with. NVFM_CONFIG_<FIELD>=VALUE of the environment sets FIELD=VALUE.
#pragma once
#include "base/file/root.h"

#define FABRIC_CONFIG "run/nvidia-fabricmanager/fabricmanager.cfg" // of the host, and as seen in the driver root
#define FABRIC_PAYLOAD_CONFIG "usr/share/nvidia/nvswitch/fabricmanager.cfg"

// Of an environment: "FIELD=VALUE" of each NVFM_CONFIG_ variable, sorted. E_CONFIG for a field or value that is none.
int fabric_manager_settings(char *const *environment, struct strv *ret, struct err *err);
// The text with each FIELD=VALUE in place of the line that sets FIELD, or behind the last line.
char *fabric_manager_edit(const char *text, const struct strv *settings);
// The copy, whole or not at all: first what kmodsmith needs (in the foreground, its log to us, its state where it can
// be written), then settings; that it stays in the foreground is no matter of choice.
int fabric_manager_write(const struct root *host, const struct root *driver, const struct strv *settings,
			 struct err *err);

// NVLink5: the first InfiniBand device whose VPD has SW_MNG. 1 = there is one, with the GUID of its first port, or NULL
// while the port has none; 0 = there is none.
int fabric_manager_bridge(const struct root *kern, char **ret_guid, struct err *err);
