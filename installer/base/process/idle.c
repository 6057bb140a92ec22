// SPDX-License-Identifier: Apache-2.0
#include "base/process/idle.h"

#include <errno.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

int idle_enter(struct err *err)
{
	static const int LOWEST = 19;
	const struct sched_param none = { 0 };
	if (setpriority(PRIO_PROCESS, 0, LOWEST) < 0 || sched_setscheduler(0, SCHED_BATCH, &none) < 0 ||
	    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)) < 0)
		return err_set(err, errno, "lower the priority of this process");
	return 0;
}
