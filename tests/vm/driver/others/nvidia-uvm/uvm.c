// SPDX-License-Identifier: Apache-2.0
// As nv.c: a module that uses nvidia, and its character device.
#include <linux/fs.h>
#include <linux/module.h>

enum { MINORS = 2 };

extern int nvidia_p2p_get_pages(void);

static const struct file_operations operations = { .owner = THIS_MODULE };
static int major;

static int __init uvm_init(void)
{
	major = __register_chrdev(0, 0, MINORS, "nvidia-uvm", &operations);
	if (major < 0)
		return major;
	pr_info("nvidia-uvm: stand-in, nvidia says %d\n", nvidia_p2p_get_pages());
	return 0;
}

static void __exit uvm_exit(void)
{
	__unregister_chrdev(major, 0, MINORS, "nvidia-uvm");
}

module_init(uvm_init);
module_exit(uvm_exit);
MODULE_DESCRIPTION("Stand-in for NVIDIA's driver in tests");
MODULE_VERSION(NV_VERSION_STRING);
MODULE_LICENSE("NVIDIA");
