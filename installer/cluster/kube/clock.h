// SPDX-License-Identifier: Apache-2.0
// Time and randomness, in one place that the simulation replaces. For the API server's clock see kube_time() in
// client.h.
#pragma once
#include <stdint.h>

long kube_now_ms(void);    // for durations: never jumps
int64_t kube_wall_s(void); // our clock, seconds since 1970
void kube_sleep(long ms);
uint32_t kube_random(void);
