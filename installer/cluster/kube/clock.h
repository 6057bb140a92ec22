// SPDX-License-Identifier: Apache-2.0
// Time and chance, as one place that a simulation replaces. The API server's clock is kube_time() of client.h.
#pragma once
#include <stdint.h>

long kube_now_ms(void);    // for durations; does not jump
int64_t kube_wall_s(void); // our clock, seconds since 1970
void kube_sleep(long ms);
uint32_t kube_random(void);
