// SPDX-License-Identifier: Apache-2.0
// As nv.c: a module that uses nvidia, whose character device serves it.
#include <linux/module.h>

extern int nvidia_p2p_get_pages(void);

static int __init modeset_init(void)
{
	pr_info("nvidia-modeset: stand-in, nvidia says %d\n", nvidia_p2p_get_pages());
	return 0;
}

static void __exit modeset_exit(void) {}

module_init(modeset_init);
module_exit(modeset_exit);
MODULE_DESCRIPTION("Stand-in for NVIDIA's driver in tests");
MODULE_VERSION(NV_VERSION_STRING);
MODULE_LICENSE("NVIDIA");
