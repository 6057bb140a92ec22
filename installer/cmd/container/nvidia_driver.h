// SPDX-License-Identifier: Apache-2.0
// The names and verbs of NVIDIA's driver containers, translated into our own commands (contract 1.2, 1.4). Pod
// specifications call the program `nvidia-driver`, and every image of NVIDIA has other verbs and flags; this is the
// union of them.
#pragma once
#include "base/core/str.h"

int nvidia_driver_main(int argc, char **argv); // exit status

// The words of our command that the arguments mean, the command's name first. A verb may be missing, because the
// ClusterPolicy's driver.args take the place of `init`. warnings: what was left out, and why. Negative: the usage is
// due.
int nvidia_driver_words(int argc, char **argv, struct strv *ret, struct strv *ret_warnings);
// Rewrites the pod's environment into the spelling of our options. A bad value must not fail a pod: it is removed, with
// a warning.
void nvidia_driver_environment(struct strv *ret_warnings);
