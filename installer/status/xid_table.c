// SPDX-License-Identifier: Apache-2.0
// What an Xid means and asks for, in our words. Facts: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (names, and
// the column "immediate action") as it was on the date of XID_SOURCE. What it calls unused is left out, and of the many
// engines that have a number each (copy, video, JPEG) all but the first. The classes are ours, of the
// same date: XID_DRIVER is the firmware that the driver brings (GSP, boot), XID_HARDWARE memory, link and bus, and
// XID_APPLICATION what the catalog answers with a restart of the application. What is in doubt is XID_OTHER.
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
	{ 8, XID_APPLICATION, "the GPU stopped processing", RESTART_APP },
	{ 11, XID_APPLICATION, "an invalid or corrupted stream of commands", RESTART_APP },
	{ 13, XID_APPLICATION,
	  "the graphics engine met an exception: mostly an access out of bounds in the application", RESTART_APP },
	{ 25, XID_APPLICATION, "an invalid stream of commands", RESTART_APP },
	{ 31, XID_APPLICATION, "page fault in GPU memory: mostly an illegal address of the application", RESTART_APP },
	{ 32, XID_APPLICATION, "corrupted stream of commands: the PCI link, or the driver", RESTART_APP },
	{ 37, XID_OTHER, "an error of the driver's firmware", WATCH },
	{ 38, XID_OTHER, "an error of the driver's firmware", WATCH },
	{ 39, XID_APPLICATION, "a copy engine met an exception", RESTART_APP },
	{ 40, XID_APPLICATION, "a copy engine met an exception", RESTART_APP },
	{ 41, XID_APPLICATION, "a copy engine met an exception", RESTART_APP },
	{ 43, XID_APPLICATION, "an application was ended for an error of its own; the GPU is well", WATCH },
	{ 44, XID_OTHER, "a fault of the graphics engine while it changed to another application", WATCH },
	{ 45, XID_APPLICATION, "what an application left was cleaned up: it was ended, or another Xid did it", WATCH },
	{ 46, XID_OTHER, "the GPU stopped processing", RESET },
	{ 48, XID_HARDWARE, "a memory error of two bits, which ECC cannot correct", RESET },
	{ 54, XID_OTHER, "auxiliary power is not connected to the board", "switch the machine off and connect it" },
	{ 60, XID_APPLICATION, "a video processor met an exception", RESTART_APP },
	{ 62, XID_OTHER, "an internal micro-controller halted", RESET },
	{ 63, XID_OTHER, "a bad part of GPU memory was marked to be replaced by a spare one",
	  "reset the GPU when convenient: the spare part is used from then on" },
	{ 64, XID_HARDWARE, "a bad part of GPU memory could not be replaced by a spare one", RESET },
	{ 66, XID_OTHER, "an illegal access by the driver", WATCH },
	{ 67, XID_OTHER, "an illegal access by the driver", WATCH },
	{ 68, XID_APPLICATION, "a video decoder met an exception", RESTART_APP },
	{ 69, XID_APPLICATION, "the graphics engine got a command that it does not know", RESTART_APP },
	{ 74, XID_HARDWARE, "an NVLink failed, at this end or at the other", LINK },
	{ 78, XID_OTHER, "a virtual GPU did not start", "use a guest driver and a host driver that belong together" },
	{ 79, XID_HARDWARE, "the GPU has fallen off the bus: it does not answer on PCI Express", POWER },
	{ 80, XID_APPLICATION, "corrupted data was sent to the GPU", RESTART_APP },
	{ 92, XID_OTHER, "many memory errors that ECC corrected", WATCH },
	{ 94, XID_OTHER, "a memory error that could be contained to one application",
	  "restart that application; reset the GPU when convenient" },
	{ 95, XID_HARDWARE, "a memory error that could not be contained: any application may have wrong data", RESET },
	{ 109, XID_OTHER, "changing to another application took too long", RESET },
	{ 110, XID_OTHER, "a security fault",
	  "undo what was last changed in the hardware, and switch the power off and on; else the vendor" },
	{ 119, XID_DRIVER, "the GPU System Processor (GSP) did not answer in time", RESET },
	{ 120, XID_DRIVER, "the GPU System Processor (GSP) failed", RESET },
	{ 121, XID_OTHER, "corrected errors on the link to the Grace CPU",
	  "reset the GPU when convenient: the link is trained anew" },
	{ 136, XID_OTHER, "an NVLink could not be trained", LINK },
	{ 137, XID_APPLICATION, "an illegal access over NVLink: mostly of the application", RESTART_APP },
	{ 140, XID_HARDWARE, "memory errors that ECC cannot correct, and that the driver could not mark", RESET },
	{ 143, XID_DRIVER, "the GPU could not be initialised", RESET },
	{ 144, XID_OTHER, "an NVLink failed", LINK },
	{ 145, XID_OTHER, "an NVLink failed", LINK },
	{ 146, XID_OTHER, "an NVLink failed", LINK },
	{ 147, XID_OTHER, "an NVLink failed", LINK },
	{ 148, XID_OTHER, "an NVLink failed", LINK },
	{ 149, XID_OTHER, "an NVLink failed", LINK },
	{ 150, XID_OTHER, "an NVLink failed", LINK },
	{ 151, XID_OTHER, "keys of confidential computing could not be changed", "restart the virtual machine" },
	{ 154, XID_RECOVERY, "the driver says which recovery the Xid before it needs",
	  "do what its text says: nothing, drain and reset, reset the GPU, or reboot the node" },
	{ 155, XID_OTHER, "an NVLink went down on purpose", RESET },
	{ 156, XID_OTHER, "a bad part of the GPU was marked to be replaced by a spare one", RESET },
	{ 157, XID_OTHER, "a bad part of the GPU could not be replaced: none is left",
	  "go on, and expect it again; else the vendor" },
	{ 158, XID_OTHER, "the GPU did not answer in time, fatally", RESET },
	{ 171, XID_OTHER, "says more of an Xid 48: the error is in DRAM", RESET },
	{ 172, XID_OTHER, "says more of an Xid 48: the error is in SRAM", RESET },
};

const struct xid_info *xid_info(unsigned xid)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].xid == xid)
			return &table[i];
	return NULL;
}

enum xid_class xid_class(unsigned xid)
{
	const struct xid_info *info = xid_info(xid);
	return info ? info->class : XID_OTHER;
}
