// SPDX-License-Identifier: GPL-2.0
/*
 * A driver that has the simulated GPUs before nvidia comes. Its module is called nouveau, as the kernel's own is, and
 * its PCI driver has any name. Each device gets a DRM node, /dev/dri/cardN, that does nothing but can be held open.
 */
#include <linux/cdev.h>
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/version.h>

#define MAX_CARDS 16

static char *name = "nouveau";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "of the PCI driver");
static bool linger;
module_param(linger, bool, 0644);
MODULE_PARM_DESC(linger, "a device is only let go once this is off again, like one that is held");

static dev_t numbers;
static struct cdev cards;
static struct class *class;
static DECLARE_BITMAP(used, MAX_CARDS);

static const struct file_operations card_operations = { .owner = THIS_MODULE, .open = nonseekable_open };

static int card_probe(struct pci_dev *device, const struct pci_device_id *id)
{
	int card = find_first_zero_bit(used, MAX_CARDS);
	struct device *node;

	if (card == MAX_CARDS)
		return -ENOSPC;
	node = device_create(class, &device->dev, numbers + card, NULL, "card%d", card);
	if (IS_ERR(node))
		return PTR_ERR(node);
	set_bit(card, used);
	pci_set_drvdata(device, (void *)(long)card);
	return 0;
}

static void card_remove(struct pci_dev *device)
{
	long card = (long)pci_get_drvdata(device);

	while (READ_ONCE(linger))
		msleep(20);
	device_destroy(class, numbers + card);
	clear_bit(card, used);
}

static const struct pci_device_id ids[] = { { PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID),
					      .class = PCI_BASE_CLASS_DISPLAY << 16, .class_mask = 0xff0000 },
					    {} };

static struct pci_driver driver = { .id_table = ids, .probe = card_probe, .remove = card_remove };

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
static char *card_node(const struct device *device, umode_t *mode)
#else
static char *card_node(struct device *device, umode_t *mode)
#endif
{
	return kasprintf(GFP_KERNEL, "dri/%s", dev_name(device));
}

static int add_class(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	class = class_create("drm");
#else
	class = class_create(THIS_MODULE, "drm");
#endif
	if (IS_ERR(class))
		return PTR_ERR(class);
	class->devnode = card_node;
	return 0;
}

static int __init nouveau_init(void)
{
	int r = alloc_chrdev_region(&numbers, 0, MAX_CARDS, "drm");

	if (r)
		return r;
	cdev_init(&cards, &card_operations);
	cards.owner = THIS_MODULE;
	r = cdev_add(&cards, numbers, MAX_CARDS);
	if (r)
		goto numbers;
	r = add_class();
	if (r)
		goto node;
	driver.name = name;
	r = pci_register_driver(&driver);
	if (!r)
		return 0;
	class_destroy(class);
node:
	cdev_del(&cards);
numbers:
	unregister_chrdev_region(numbers, MAX_CARDS);
	return r;
}

static void __exit nouveau_exit(void)
{
	pci_unregister_driver(&driver);
	class_destroy(class);
	cdev_del(&cards);
	unregister_chrdev_region(numbers, MAX_CARDS);
}

module_init(nouveau_init);
module_exit(nouveau_exit);
MODULE_DESCRIPTION("The driver that has a simulated GPU before nvidia does");
MODULE_LICENSE("GPL");
