// SPDX-License-Identifier: Apache-2.0
// What an installer sees of NVIDIA's driver, and nothing else: the name, version and licence of the module, its
// GPUs, its files in proc, its character device, its parameters and a symbol that others import. For tests in which
// a guest has to compile a driver, or whose subject is the installer: one file instead of fifty, and the same
// headers, tools and checks.
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

// The open flavour has another text here, and another licence (packages.sh).
#define KIND "x86_64 Kernel Module"

enum { MAJOR_GPU = 195, MINORS = 256, VENDOR = 0x10de };

static struct proc_dir_entry *top, *gpus;
static int gpu_count;

#define NUMBER(name, value)               \
	static uint NVreg_##name = value; \
	module_param(NVreg_##name, uint, 0)
NUMBER(ModifyDeviceFiles, 1);
NUMBER(DeviceFileUID, 0);
NUMBER(DeviceFileGID, 0);
NUMBER(DeviceFileMode, 0666);
NUMBER(EnableMSI, 1);

static char *start = "";
module_param(start, charp, 0);
MODULE_PARM_DESC(start, "a start that goes wrong: \"oops\", or \"hang\"");

int nvidia_p2p_get_pages(void);
int nvidia_p2p_get_pages(void)
{
	return -ENODEV;
}
EXPORT_SYMBOL(nvidia_p2p_get_pages);

static int show_version(struct seq_file *out, void *unused)
{
	seq_puts(out, "NVRM version: NVIDIA UNIX " KIND "  " NV_VERSION_STRING "  (stand-in for tests)\n");
	return 0;
}

static int show_params(struct seq_file *out, void *unused)
{
	seq_printf(out,
		   "ModifyDeviceFiles: %u\nDeviceFileUID: %u\nDeviceFileGID: %u\nDeviceFileMode: %u\nEnableMSI: %u\n",
		   NVreg_ModifyDeviceFiles, NVreg_DeviceFileUID, NVreg_DeviceFileGID, NVreg_DeviceFileMode,
		   NVreg_EnableMSI);
	return 0;
}

static int show_gpu(struct seq_file *out, void *unused)
{
	seq_printf(out, "Device Minor: \t %ld\n", (long)out->private);
	return 0;
}

static int probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct proc_dir_entry *gpu = proc_mkdir(pci_name(pci), gpus);

	if (!gpu || !proc_create_single_data("information", 0444, gpu, show_gpu, (void *)(long)gpu_count))
		return -ENOMEM;
	gpu_count++;
	return 0;
}

static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(VENDOR, PCI_ANY_ID), .class = PCI_CLASS_DISPLAY_3D << 8, .class_mask = 0xffff00 },
	{},
};
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver driver = { .name = "nvidia", .id_table = ids, .probe = probe };
static const struct file_operations operations = { .owner = THIS_MODULE };

static noinline void nv_fail(void)
{
	pr_warn("NVRM: the start shall %s\n", start);
	if (!strcmp(start, "oops"))
		WRITE_ONCE(*(int *)sizeof(int), 0);
	while (!strcmp(start, "hang"))
		msleep(MSEC_PER_SEC);
}

static int __init nv_init(void)
{
	int r;

	if (*start)
		nv_fail();
	r = __register_chrdev(MAJOR_GPU, 0, MINORS, "nvidia-frontend", &operations);

	if (r)
		return r;
	top = proc_mkdir("driver/nvidia", NULL);
	gpus = proc_mkdir("gpus", top);
	if (top && gpus && proc_create_single("version", 0444, top, show_version) &&
	    proc_create_single("params", 0444, top, show_params))
		r = pci_register_driver(&driver);
	else
		r = -ENOMEM;
	if (r) {
		proc_remove(top);
		__unregister_chrdev(MAJOR_GPU, 0, MINORS, "nvidia-frontend");
	}
	return r;
}

static void __exit nv_exit(void)
{
	pci_unregister_driver(&driver);
	proc_remove(top);
	__unregister_chrdev(MAJOR_GPU, 0, MINORS, "nvidia-frontend");
}

module_init(nv_init);
module_exit(nv_exit);
MODULE_DESCRIPTION("Stand-in for NVIDIA's driver in tests");
MODULE_VERSION(NV_VERSION_STRING);
MODULE_LICENSE("NVIDIA");
