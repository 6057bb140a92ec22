// SPDX-License-Identifier: GPL-2.0
/*
 * A GPU that takes its time: while this module is loaded, the load of a driver waits for the first NVIDIA function,
 * whose device lock is held here, and goes on when this module is removed.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/pci.h>

#define LOOK_MS 50

static struct task_struct *keeper;
static DECLARE_COMPLETION(locked);

static int keep(void *data)
{
	struct pci_dev *device = data;

	device_lock(&device->dev);
	complete(&locked);
	while (!kthread_should_stop())
		msleep(LOOK_MS);
	device_unlock(&device->dev);
	pci_dev_put(device);
	return 0;
}

static int __init fakeslow_init(void)
{
	struct pci_dev *device = pci_get_device(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID, NULL);

	if (!device)
		return -ENODEV;
	keeper = kthread_run(keep, device, "fakeslow");
	if (IS_ERR(keeper)) {
		pci_dev_put(device);
		return PTR_ERR(keeper);
	}
	wait_for_completion(&locked);
	return 0;
}

static void __exit fakeslow_exit(void)
{
	kthread_stop(keeper);
}

module_init(fakeslow_init);
module_exit(fakeslow_exit);
MODULE_DESCRIPTION("A GPU whose driver is slow to load, for tests");
MODULE_LICENSE("GPL");
