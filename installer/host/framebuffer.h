// SPDX-License-Identifier: Apache-2.0
// The framebuffer that the firmware left behind, when it lies in the memory of one of our GPUs. Its driver claims a
// part of the GPU's BAR, which proc/iomem shows as a line nested under the GPU's.
#pragma once
#include "host/pci.h"

// Which platform device has its memory below a PCI function, by the names that its drivers give to their regions:
// "simple-framebuffer", "efi-framebuffer", "vesa-framebuffer"; NULL = none. Pure.
const char *framebuffer_below(const char *iomem, const char *address);
// Fills framebuffer of each GPU. Nothing is an error: who cannot look sees none.
void framebuffer_find(const struct root *kern, struct gpus *g);
