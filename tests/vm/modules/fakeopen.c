// SPDX-License-Identifier: GPL-2.0
/*
 * The bring-up stub: makes the real nvidia.ko believe that it has initialised adapters that are only simulated, so that
 * /dev/nvidiaN can be opened and held and NVSwitches bind. A kprobe on each function that would talk to the hardware
 * returns a fixed value to the caller at once. The start of a GPU goes to a function of ours instead, which fails or
 * blocks when the parameters say so.
 *
 * The probes are armed whenever nvidia appears, before its init runs, so this module may be loaded before or after it,
 * survives its reloads and takes no reference on it.
 */
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/ptrace.h>

#define TARGET "nvidia"
#define MAX_GPUS 12

static char fail[256], block[256], driver[64];
module_param_string(fail, fail, sizeof(fail), 0644);
MODULE_PARM_DESC(fail, "GPUs whose start fails: ADDRESS[=WHY] or all[=WHY], separated by commas");
module_param_string(block, block, sizeof(block), 0644);
MODULE_PARM_DESC(block, "GPUs whose start blocks for block_ms, or until they are no longer in this list");
static uint block_ms = UINT_MAX, from = 1, until = UINT_MAX;
module_param(block_ms, uint, 0644);
module_param(from, uint, 0644);
MODULE_PARM_DESC(from, "the first of a GPU's starts for which the lists hold, counted from 1");
module_param(until, uint, 0644);
MODULE_PARM_DESC(until, "the last one");
module_param_string(driver, driver, sizeof(driver), 0644);
MODULE_PARM_DESC(driver, "the lists hold only under the driver of this version or srcversion");

static struct {
	char gpu[16];
	uint starts;
} counts[MAX_GPUS];

/* The kernel holds the lock of the parameters around both of these. */
static int forget_starts(const char *value, const struct kernel_param *param)
{
	memset(counts, 0, sizeof(counts));
	return 0;
}

static int print_starts(char *buffer, const struct kernel_param *param)
{
	int length = 0, i;

	for (i = 0; i < MAX_GPUS && counts[i].starts; i++)
		length += sprintf(buffer + length, "%s %u\n", counts[i].gpu, counts[i].starts);
	return length;
}

static const struct kernel_param_ops starts_ops = { .set = forget_starts, .get = print_starts };
module_param_cb(starts, &starts_ops, NULL, 0644);
MODULE_PARM_DESC(starts, "how often each GPU was started, in the order of the first one; any write forgets it");

/* What nv_state_t begins with in NVIDIA's nv.h, from 470 up to 595 at least. */
struct nv_state {
	void *priv, *os_state;
	int flags;
	u32 domain;
	u8 bus, slot, function;
	u16 vendor, device;
};

static uint count_start(const char *gpu)
{
	uint starts = 0;
	int i;

	kernel_param_lock(THIS_MODULE);
	for (i = 0; i < MAX_GPUS && !starts; i++) {
		if (!counts[i].starts)
			strscpy(counts[i].gpu, gpu, sizeof(counts[i].gpu));
		if (!strcmp(counts[i].gpu, gpu))
			starts = ++counts[i].starts;
	}
	kernel_param_unlock(THIS_MODULE);
	return starts;
}

static bool is_in(const char *list, const char *address, char *why, size_t size)
{
	const char *entry = list, *end;
	bool found = false;

	kernel_param_lock(THIS_MODULE);
	for (; *entry && !found; entry = *end ? end + 1 : end) {
		size_t name = strcspn(entry, "=,\n");

		end = entry + strcspn(entry, ",\n");
		found = (name == 3 && !strncmp(entry, "all", 3)) ||
			(name == strlen(address) && !strncmp(entry, address, name));
		if (found && entry[name] == '=' && why)
			strscpy(why, entry + name + 1, min_t(size_t, size, end - entry - name));
	}
	kernel_param_unlock(THIS_MODULE);
	return found;
}

static bool is_meant(const struct module *nvidia, uint starts)
{
	return starts >= from && starts <= until &&
	       (sysfs_streq(driver, "") || (nvidia->version && sysfs_streq(nvidia->version, driver)) ||
		(nvidia->srcversion && sysfs_streq(nvidia->srcversion, driver)));
}

/*
 * In the words of RmInitAdapter, whose numbers begin with 0x62 when the GSP's firmware was not started. WHY is these
 * numbers, or what stands before them, or nothing, as for a GPU that is drained.
 */
static void tell_why(const char *address, const char *why)
{
	const char *numbers = strncmp(why, "0x", 2) ? "0x62:0x25:1679" : why;

	if (!*why)
		return;
	if (numbers != why)
		printk("NVRM: %s\n", why);
	if (!strncmp(numbers, "0x62", 4))
		printk("NVRM: RmInitAdapter: Cannot initialize GSP firmware RM\n");
	printk("NVRM: GPU %s: RmInitAdapter failed! (%s)\n", address, numbers);
}

/* In place of rm_init_adapter: it runs where that would, with its arguments, and returns to its caller. */
static bool start(void *stack, struct nv_state *nv)
{
	struct pci_dev *gpu = pci_get_domain_bus_and_slot(nv->domain, nv->bus, PCI_DEVFN(nv->slot, nv->function));
	char why[128] = "0x62:0x25:1679";
	bool works = true;
	uint ms;

	if (WARN(!gpu || !gpu->driver || strcmp(gpu->driver->name, TARGET) || gpu->vendor != nv->vendor ||
			 gpu->device != nv->device,
		 "fakeopen: nv_state_t of this driver begins otherwise") ||
	    !is_meant(gpu->driver->driver.owner, count_start(pci_name(gpu))))
		goto end;
	for (ms = 0; ms < block_ms && is_in(block, pci_name(gpu), NULL, 0); ms += 10)
		msleep(10);
	works = !is_in(fail, pci_name(gpu), why, sizeof(why));
	if (!works)
		tell_why(pci_name(gpu), why);
end:
	pci_dev_put(gpu);
	return works;
}

struct shortcut {
	const char *function;
	ulong value;
	void *instead;
	bool armed;
	struct kprobe probe;
};

static struct shortcut shortcuts[] = {
	{ "rm_init_adapter", .instead = start },
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

/*
 * Nothing is pushed yet; x86 has the return address on top of the stack: do what `ret` would do, or what a jump would,
 * which leaves that address and the arguments to the other function.
 */
static int return_at_once(struct kprobe *probe, struct pt_regs *regs)
{
	struct shortcut *shortcut = container_of(probe, struct shortcut, probe);

	if (shortcut->instead) {
		instruction_pointer_set(regs, (ulong)shortcut->instead);
		return 1;
	}
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
