// SPDX-License-Identifier: Apache-2.0
// Checks for every known failure, before the driver is touched and before anything is compiled or fetched.
//
// Firmware (R-P6): a GPU System Processor starts with nvidia/VERSION/gsp_*.bin, which the module asks the kernel for
// when the GPU is first opened, long after the old driver is gone. Who needs it:
//   open modules         always: they cannot do without (NVIDIA/open-gpu-kernel-modules#820)
//   proprietary modules  NVreg_EnableGpuFirmware (nv-firmware-registry.h of the open modules): low four bits 0 = not
//                        used, 1 = used, 2 (the default) = the driver's choice; a value with 0x10 allows it to do
//                        without. The driver's choice, by the release notes and README chapters "GSP Firmware": from
//                        555 on all GPUs that have one; from 510 on the data-centre boards, which are 3D controllers
//                        (class 0302); and Hopper, which the driver runs no other way
//   switches             never: their firmware is inside the module
#pragma once
#include "host/capabilities.h"
#include "host/driver_state.h"
#include "host/facts.h"
#include "host/firmware_path.h"
#include "host/module_params.h"

struct preflight_need {
	struct strv names; // "nvidia/535.261.03/gsp_ga10x.bin", each once; empty = none is needed
	char *why;         // "the open modules need it for 0000:40:00.0 (Hopper)", or why none is
	char *driver;      // whose firmware it is
};
void preflight_need_make(const struct gpus *gpus, const char *driver, enum module_type flavour,
			 const struct module_params *params,
			 struct preflight_need *ret); // pure; params may be NULL
void preflight_need_loaded(const struct gpus *gpus, const struct modules *loaded, struct preflight_need *ret);
void preflight_need_record(const struct gpus *gpus, const struct driver_state *driver, struct preflight_need *ret);
void preflight_need_done(struct preflight_need *n);
#define auto_preflight_need __attribute__((cleanup(preflight_need_done)))

// 1 = every file is found, in *ret_where "/lib/firmware/..." of the first (caller frees), 0 = none is needed.
// E_FIRMWARE names the version, the files, where the kernel looks and what to do.
int preflight_firmware(const struct root *host, const struct firmware_path *search, const struct preflight_need *need,
		       char **ret_where, struct err *err);
// The same for the loaded driver. If it is unknown which compressed files the kernel reads, any will do: a working
// driver is not reported as broken for that.
int preflight_loaded_firmware(const struct root *host, const struct root *kern, const struct facts *facts,
			      char **ret_where, struct err *err);
// E_RIGHTS names each missing capability and what it is for. uses: enum capability_use.
int preflight_rights(const struct root *kern, unsigned uses, struct err *err);
