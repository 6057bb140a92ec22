// SPDX-License-Identifier: Apache-2.0
// The distribution of a kernel: a pure function of its release and banner, never of os-release (R-A5), so that a build
// host and a node say the same.
#pragma once

// "debian", "ubuntu", "rhel9.6", "amzn2023", ...; NULL = unknown. banner may be NULL. Caller frees.
char *distro_of(const char *release, const char *banner);
