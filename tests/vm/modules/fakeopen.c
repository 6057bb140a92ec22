// SPDX-License-Identifier: GPL-2.0
/*
 * The bring-up stub: makes the real nvidia.ko believe that it has initialised adapters that are only simulated, so that
 * /dev/nvidiaN can be opened and held and NVSwitches bind. A kprobe on each function that would talk to the hardware
 * returns a fixed value to the caller at once.
 *
 * The probes are armed whenever nvidia appears, before its init runs, so this module may be loaded before or after it,
 * survives its reloads and takes no reference on it.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/ptrace.h>

#define TARGET "nvidia"

struct shortcut {
	const char *function;
	ulong value;
	bool armed;
	struct kprobe probe;
};

static struct shortcut shortcuts[] = {
	{ "rm_init_adapter", 1 },
	{ "rm_disable_adapter", 0 },
	{ "rm_shutdown_adapter", 0 },
	{ "rm_get_gpu_uuid_raw", 0 },
	{ "rm_request_dnotifier_state", 0 },
	{ "nvswitch_lib_initialize_device", 0 },
	{ "nvswitch_lib_get_uuid", 0 },
	{ "nvswitch_lib_get_bios_version", 1 },
	{ "nvswitch_lib_get_physid", 1 },
	{ "nvswitch_lib_enable_interrupts", 0 },
	{ "nvswitch_lib_disable_interrupts", 0 },
	{ "nvswitch_lib_use_pin_irq", 1 },
	{ "nvswitch_lib_is_i2c_supported", 0 },
	{ "nvswitch_lib_post_init_device", 0 },
	{ "nvswitch_lib_shutdown_device", 0 },
	{ "nvswitch_lib_deferred_task_dispatcher", 1000000000 },
	{ "nvswitch_lib_remove_client_events", 0 },
	{ "nvswitch_lib_get_client_event", 1 },
	{ "nvswitch_lib_check_interrupts", 1 },
	{ "nvswitch_lib_service_interrupts", 1 },
};

/* Nothing is pushed yet; x86 has the return address on top of the stack: do what `ret` would do. */
static int return_at_once(struct kprobe *probe, struct pt_regs *regs)
{
	struct shortcut *shortcut = container_of(probe, struct shortcut, probe);

#ifdef CONFIG_ARM64
	regs->regs[0] = shortcut->value;
	regs->pc = regs->regs[30];
#else
	regs->ax = shortcut->value;
	regs->ip = *(ulong *)regs->sp;
	regs->sp += sizeof(ulong);
#endif
	return 1;
}

/*
 * Never reached, but its presence keeps the kernel from turning the probe into a jump a few ticks later: an optimised
 * probe ignores a changed instruction pointer, and the skipped function would run after all (Documentation/trace/
 * kprobes.rst). Since 6.2 probes are put after ENDBR, where they can be optimised; before, the ENDBR prevented it.
 */
static void keep_breakpoint(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static void arm(void)
{
	struct shortcut *s;
	int armed = 0;

	for (s = shortcuts; s < shortcuts + ARRAY_SIZE(shortcuts); s++) {
		int r;

		s->probe = (struct kprobe){ .symbol_name = s->function,
					    .pre_handler = return_at_once,
					    .post_handler = keep_breakpoint };
		r = register_kprobe(&s->probe);
		s->armed = r == 0;
		armed += s->armed;
		if (r)
			pr_warn("fakeopen: %s: error %d\n", s->function, r);
	}
	pr_info("fakeopen: %d of %zu functions are short-cut\n", armed, ARRAY_SIZE(shortcuts));
}

static void disarm(void)
{
	struct shortcut *s;

	for (s = shortcuts; s < shortcuts + ARRAY_SIZE(shortcuts); s++) {
		if (s->armed)
			unregister_kprobe(&s->probe);
		s->armed = false;
	}
}

static int follow(struct notifier_block *block, unsigned long state, void *data)
{
	struct module *module = data;

	if (strcmp(module->name, TARGET))
		return NOTIFY_DONE;
	if (state == MODULE_STATE_COMING)
		arm();
	else if (state == MODULE_STATE_GOING)
		disarm();
	return NOTIFY_DONE;
}

static struct notifier_block follower = { .notifier_call = follow };

static bool target_is_loaded(void)
{
	struct kprobe probe = { .symbol_name = shortcuts[0].function };

	if (register_kprobe(&probe))
		return false;
	unregister_kprobe(&probe);
	return true;
}

static int __init fakeopen_init(void)
{
	if (target_is_loaded())
		arm();
	return register_module_notifier(&follower);
}

static void __exit fakeopen_exit(void)
{
	unregister_module_notifier(&follower);
	disarm();
}

module_init(fakeopen_init);
module_exit(fakeopen_exit);
MODULE_DESCRIPTION("Adapter bring-up of the simulated GPUs for tests");
MODULE_LICENSE("GPL");
