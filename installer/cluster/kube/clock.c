// SPDX-License-Identifier: Apache-2.0
// In a file of its own because the simulation (tests/sim) replaces it.
#include "cluster/kube/clock.h"

#include "base/core/date.h"

#include <poll.h>
#include <sys/random.h>
#include <time.h>

long kube_now_ms(void)
{
	return clock_ms();
}

int64_t kube_wall_s(void)
{
	return time(NULL);
}

void kube_sleep(long ms)
{
	poll(NULL, 0, (int)ms);
}

uint32_t kube_random(void)
{
	uint32_t random = 0;
	return getrandom(&random, sizeof(random), 0) == sizeof(random) ? random : UINT32_MAX / 2;
}
