// SPDX-License-Identifier: GPL-2.0
/*
 * A module whose unload hangs, under the name of one of the driver's (nvidia_peermem), which is the first of the set to
 * go. Its exit function cannot be interrupted until somebody writes N to the parameter `hang`.
 */
#include <linux/delay.h>
#include <linux/module.h>

#define LOOK_MS 100

static bool hang = true;
module_param(hang, bool, 0644);

static int __init fakewedge_init(void)
{
	return 0;
}

static void __exit fakewedge_exit(void)
{
	pr_warn("nvidia_peermem: waiting for a peer that does not answer\n");
	while (READ_ONCE(hang))
		msleep(LOOK_MS);
}

module_init(fakewedge_init);
module_exit(fakewedge_exit);
MODULE_DESCRIPTION("An unload that does not come back, for tests");
MODULE_LICENSE("GPL");
