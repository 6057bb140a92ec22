// SPDX-License-Identifier: GPL-2.0
/*
 * Somebody else's module that depends on the driver, under the name of one that does (gdrdrv): it imports a symbol of
 * nvidia, and its device can be opened and mapped. Nothing is known of nvidia's exports when this is linked: the import
 * is weak, which where nvidia is loaded is resolved like any other, and cache.sh takes the table of CRCs away.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>

#define NAME "gdrdrv"

extern int nvidia_p2p_get_pages(void) __attribute__((weak));

static struct page *page;
static int major;

static int map(struct file *file, struct vm_area_struct *area)
{
	return vm_insert_page(area, area->vm_start, page);
}

static const struct file_operations operations = { .owner = THIS_MODULE, .mmap = map };

static int __init fakeuser_init(void)
{
	page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!page)
		return -ENOMEM;
	major = register_chrdev(0, NAME, &operations);
	if (major < 0) {
		__free_page(page);
		return major;
	}
	pr_info(NAME ": nvidia_p2p_get_pages is %ps\n", nvidia_p2p_get_pages);
	return 0;
}

static void __exit fakeuser_exit(void)
{
	unregister_chrdev(major, NAME);
	__free_page(page);
}

module_init(fakeuser_init);
module_exit(fakeuser_exit);
MODULE_DESCRIPTION("A module that depends on the driver, for tests");
MODULE_LICENSE("GPL");
