// SPDX-License-Identifier: Apache-2.0
// What an Xid means and asks for, in our words. Facts: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (names, and
// the column "immediate action") as it was on the date of XID_SOURCE. What it calls unused is left out, and of the many
// engines that have a number each (copy, video, JPEG) all but the first.
#include "status/xid.h"

static const char
	RESTART_APP[] = "restart the application; if it comes again, run it under compute-sanitizer or cuda-gdb",
	WATCH[] = "nothing by itself: look at the Xids beside it, and at how often it comes",
	RESET[] = "drain the node and reset the GPU (`nvidia-smi --gpu-reset -i ADDRESS`) or reboot; if it comes "
		  "back, the vendor",
	POWER[] = "drain the node and switch its power off and on; if it comes back, seat and power of the board, "
		  "then the vendor",
	LINK[] = "see `nvidia-smi nvlink --status` and the Xids of the other GPUs; drain the node and reset the GPUs "
		 "of that link, or reboot";

static const struct xid_info table[] = {
	{ 8, "the GPU stopped processing", RESTART_APP },
	{ 11, "an invalid or corrupted stream of commands", RESTART_APP },
	{ 13, "the graphics engine met an exception: mostly an access out of bounds in the application", RESTART_APP },
	{ 25, "an invalid stream of commands", RESTART_APP },
	{ 31, "page fault in GPU memory: mostly an illegal address of the application", RESTART_APP },
	{ 32, "corrupted stream of commands: the PCI link, or the driver", RESTART_APP },
	{ 37, "an error of the driver's firmware", WATCH },
	{ 38, "an error of the driver's firmware", WATCH },
	{ 39, "a copy engine met an exception", RESTART_APP },
	{ 40, "a copy engine met an exception", RESTART_APP },
	{ 41, "a copy engine met an exception", RESTART_APP },
	{ 43, "an application was ended for an error of its own; the GPU is well", WATCH },
	{ 44, "a fault of the graphics engine while it changed to another application", WATCH },
	{ 45, "what an application left was cleaned up: it was ended, or another Xid did it", WATCH },
	{ 46, "the GPU stopped processing", RESET },
	{ 48, "a memory error of two bits, which ECC cannot correct", RESET },
	{ 54, "auxiliary power is not connected to the board", "switch the machine off and connect it" },
	{ 60, "a video processor met an exception", RESTART_APP },
	{ 62, "an internal micro-controller halted", RESET },
	{ 63, "a bad part of GPU memory was marked to be replaced by a spare one",
	  "reset the GPU when convenient: the spare part is used from then on" },
	{ 64, "a bad part of GPU memory could not be replaced by a spare one", RESET },
	{ 66, "an illegal access by the driver", WATCH },
	{ 67, "an illegal access by the driver", WATCH },
	{ 68, "a video decoder met an exception", RESTART_APP },
	{ 69, "the graphics engine got a command that it does not know", RESTART_APP },
	{ 74, "an NVLink failed, at this end or at the other", LINK },
	{ 78, "a virtual GPU did not start", "use a guest driver and a host driver that belong together" },
	{ 79, "the GPU has fallen off the bus: it does not answer on PCI Express", POWER },
	{ 80, "corrupted data was sent to the GPU", RESTART_APP },
	{ 92, "many memory errors that ECC corrected", WATCH },
	{ 94, "a memory error that could be contained to one application",
	  "restart that application; reset the GPU when convenient" },
	{ 95, "a memory error that could not be contained: any application may have wrong data", RESET },
	{ 109, "changing to another application took too long", RESET },
	{ 110, "a security fault",
	  "undo what was last changed in the hardware, and switch the power off and on; else the vendor" },
	{ 119, "the GPU System Processor (GSP) did not answer in time", RESET },
	{ 120, "the GPU System Processor (GSP) failed", RESET },
	{ 121, "corrected errors on the link to the Grace CPU",
	  "reset the GPU when convenient: the link is trained anew" },
	{ 136, "an NVLink could not be trained", LINK },
	{ 137, "an illegal access over NVLink: mostly of the application", RESTART_APP },
	{ 140, "memory errors that ECC cannot correct, and that the driver could not mark", RESET },
	{ 143, "the GPU could not be initialised", RESET },
	{ 144, "an NVLink failed", LINK },
	{ 145, "an NVLink failed", LINK },
	{ 146, "an NVLink failed", LINK },
	{ 147, "an NVLink failed", LINK },
	{ 148, "an NVLink failed", LINK },
	{ 149, "an NVLink failed", LINK },
	{ 150, "an NVLink failed", LINK },
	{ 151, "keys of confidential computing could not be changed", "restart the virtual machine" },
	{ 154, "the driver says which recovery the Xid before it needs",
	  "do what its text says: nothing, drain and reset, reset the GPU, or reboot the node" },
	{ 155, "an NVLink went down on purpose", RESET },
	{ 156, "a bad part of the GPU was marked to be replaced by a spare one", RESET },
	{ 157, "a bad part of the GPU could not be replaced: none is left",
	  "go on, and expect it again; else the vendor" },
	{ 158, "the GPU did not answer in time, fatally", RESET },
	{ 171, "says more of an Xid 48: the error is in DRAM", RESET },
	{ 172, "says more of an Xid 48: the error is in SRAM", RESET },
};

const struct xid_info *xid_info(unsigned xid)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].xid == xid)
			return &table[i];
	return NULL;
}
