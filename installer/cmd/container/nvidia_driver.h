// SPDX-License-Identifier: Apache-2.0
// The names and verbs of NVIDIA's driver containers, translated into our own commands (contract 1.2, 1.4). Pod
// specifications call the program `nvidia-driver`, and every image of NVIDIA has other verbs and flags; this is the
// union of them.
#pragma once
#include "base/file/root.h"

int nvidia_driver_main(int argc, char **argv); // exit status

// The words of our command that the arguments mean, the command's name first. A verb may be missing, because the
// ClusterPolicy's driver.args take the place of `init`. warnings: what was left out, and why. Negative: the usage is
// due.
int nvidia_driver_words(int argc, char **argv, struct strv *ret, struct strv *ret_warnings);
// Rewrites the pod's environment into the spelling of our options. A bad value must not fail a pod: it is removed, with
// a warning.
void nvidia_driver_environment(struct strv *ret_warnings);

// A sentence for each of nvidia_inputs that is there and has no effect; never a value, which may be a secret.
void nvidia_driver_unused(const struct root *self, struct strv *ret_warnings);
// Those directories of apt's, dnf's or zypper's sources in self have been mounted: the host's own package manager is to
// ask them, too, unless the pod's environment says otherwise.
void nvidia_driver_sources(const struct root *self, const struct strv *dirs);
// In a guest whose driver is to fit the host of its virtual GPU (DISABLE_VGPU_VERSION_CHECK=false): DRIVER_VERSION, or
// one of KMODSMITH_VGPU_DRIVERS, whichever NVIDIA's catalogue in self prefers, becomes DRIVER_VERSION. E_NOT_FOUND:
// none.
int nvidia_driver_guest(const struct root *self, const struct root *kern, struct err *err);
// All of the above, for a container that installs the driver.
int nvidia_driver_environment_init(struct strv *ret_warnings, struct err *err);
int nvidia_driver_refuse(const struct err *err); // exit status, and the error into the log
