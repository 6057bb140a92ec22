// SPDX-License-Identifier: Apache-2.0
// Where daemons in the driver root send their log. They use syslog(3), whose /dev/log is the host's and leads to
// /run/systemd/journal/dev-log on every host with systemd: in the driver root that is our socket.
#pragma once
#include "base/file/root.h"

#define SYSLOG_DIR "run/kmodsmith/syslog" // of the host; in the driver root: SYSLOG_SEEN
#define SYSLOG_SEEN "run/systemd/journal"

int syslog_open(const struct root *host, struct err *err); // fd >= 0; only root can write to it
// "<30>Nov 21 23:11:18 nvidia-gridd[106]: Started (106)": the program and its message, in text, which is changed.
// False = not such a line.
bool syslog_parse(char *text, const char **ret_name, const char **ret_message);
