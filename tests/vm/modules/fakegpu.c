// SPDX-License-Identifier: GPL-2.0
/*
 * Simulated NVIDIA GPUs and NVSwitches, good enough for the real nvidia.ko to probe and bind.
 *
 * Each device is alone on a PCI root bus of its own (domain 0, buses 0x40, 0x50, ...). Its config space is an array
 * with a mask of writable bits beside it. BAR0 lies in memory that the command line keeps free
 * (memmap=256M$0x30000000), or in the BAR of another device that is plain memory; nothing lies behind the other BARs.
 * At probe the driver reads only the identity registers in BAR0, which the parameters provide. Removing the module
 * unplugs the devices.
 */
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sizes.h>

#define FIRST_BUS 0x40
#define BUS_STEP 0x10
#define MAX_DEVICES ((0x100 - FIRST_BUS) / BUS_STEP)
#define BAR0_SIZE SZ_16M
#define BAR3_SIZE SZ_32M
#define PREFETCH_BASE 0x1000000000ULL
#define PM_CAP 0x40
#define EXP_CAP 0x50
#define PMC_BOOT_0 0x0
#define PMC_BOOT_42 0xa00

static ulong base;
module_param(base, ulong, 0444);
MODULE_PARM_DESC(base, "physical address of the memory for BAR0, 16 MiB per device");
static uint gpus = 1;
module_param(gpus, uint, 0444);
static uint switches;
module_param(switches, uint, 0444);
static uint irq = 11;
module_param(irq, uint, 0444);
static uint vga;
module_param(vga, uint, 0444);
MODULE_PARM_DESC(vga, "1: GPUs are of class 0300 (VGA) instead of 0302 (3D)");
static uint bar1_mib = 16384;
module_param(bar1_mib, uint, 0444);
MODULE_PARM_DESC(bar1_mib, "size of BAR1 in MiB, a power of two");
static uint sw_id = 0x22a3;
module_param(sw_id, uint, 0444);
static uint sw_vendor = PCI_VENDOR_ID_NVIDIA;
module_param(sw_vendor, uint, 0444);
MODULE_PARM_DESC(sw_vendor, "PCI vendor of the switches: with another one they are somebody else's devices");
static uint sw_subsys = 0x1796;
module_param(sw_subsys, uint, 0444);

/* One value per GPU, the last one given counts for all that follow: a box of unlike GPUs is one insmod away. */
#define PER_GPU(name, value, text)                           \
	static uint name[MAX_DEVICES] = { value };           \
	static int name##_count = 1;                         \
	module_param_array(name, uint, &name##_count, 0444); \
	MODULE_PARM_DESC(name, text ", one per GPU, the last one repeats")
#define OF_GPU(name, i) name[min_t(int, i, max(name##_count, 1) - 1)]

PER_GPU(gpu_id, 0x2330, "PCI device id");
PER_GPU(gpu_subsys, 0x16c1, "PCI subsystem device id");
PER_GPU(boot0, 0x180000a1, "register PMC_BOOT_0");
PER_GPU(boot42, 0x180a1000, "register PMC_BOOT_42");

/* The kernel log says what is written here, as the driver says it of a GPU that fails. */
static int write_say(const char *text, const struct kernel_param *param)
{
	pr_warn("%s\n", text);
	return 0;
}

static const struct kernel_param_ops say_ops = { .set = write_say };
module_param_cb(say, &say_ops, NULL, 0200);

/* Of x86; elsewhere nobody looks into it, unless ACPI names the host bridges. */
#ifndef CONFIG_X86
struct pci_sysdata {
	int node;
};
#endif

struct fake {
	struct pci_sysdata sysdata;
	struct pci_bus *bus;
	struct resource memory;
	struct resource prefetch;
	u8 config[PCI_CFG_SPACE_EXP_SIZE];
	u8 writable[PCI_CFG_SPACE_EXP_SIZE];
};

static struct fake fakes[MAX_DEVICES];

static u8 *config_at(u8 *space, unsigned int devfn, int where, int size)
{
	return devfn == 0 && where >= 0 && where + size <= PCI_CFG_SPACE_EXP_SIZE ? space + where : NULL;
}

static int config_read(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 *value)
{
	struct fake *fake = container_of(bus->sysdata, struct fake, sysdata);
	u8 *from = config_at(fake->config, devfn, where, size);

	*value = from ? 0 : ~0U;
	if (!from)
		return PCIBIOS_DEVICE_NOT_FOUND;
	memcpy(value, from, size);
	return PCIBIOS_SUCCESSFUL;
}

static int config_write(struct pci_bus *bus, unsigned int devfn, int where, int size, u32 value)
{
	struct fake *fake = container_of(bus->sysdata, struct fake, sysdata);
	u8 *to = config_at(fake->config, devfn, where, size);
	u8 *mask = config_at(fake->writable, devfn, where, size);

	if (!to)
		return PCIBIOS_DEVICE_NOT_FOUND;
	for (; size-- > 0; to++, mask++, value >>= 8)
		*to = (*to & ~*mask) | (value & *mask);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops config_ops = { .read = config_read, .write = config_write };

static void set(u8 *at, int where, u32 value, int size)
{
	memcpy(at + where, &value, size);
}

/* A BAR's size shows in which of its address bits can be written. */
static void set_bar(struct fake *fake, int number, u64 start, u64 size, u32 flags)
{
	int where = PCI_BASE_ADDRESS_0 + 4 * number;

	set(fake->config, where, (u32)start | flags, 4);
	set(fake->writable, where, (u32) ~(size - 1), 4);
	if (flags & PCI_BASE_ADDRESS_MEM_TYPE_64) {
		set(fake->config, where + 4, start >> 32, 4);
		set(fake->writable, where + 4, ~(size - 1) >> 32, 4);
	}
}

static void set_capabilities(struct fake *fake)
{
	set(fake->config, PCI_STATUS, PCI_STATUS_CAP_LIST, 2);
	set(fake->config, PCI_CAPABILITY_LIST, PM_CAP, 1);
	set(fake->config, PM_CAP, PCI_CAP_ID_PM | EXP_CAP << 8, 2);
	set(fake->config, PM_CAP + PCI_PM_PMC, 3, 2);
	set(fake->writable, PM_CAP + PCI_PM_CTRL, PCI_PM_CTRL_STATE_MASK, 2);
	set(fake->config, EXP_CAP, PCI_CAP_ID_EXP, 2);
	set(fake->config, EXP_CAP + PCI_EXP_FLAGS, 2 | PCI_EXP_TYPE_ENDPOINT << 4, 2);
	set(fake->writable, EXP_CAP + PCI_EXP_DEVCTL, 0x7fff, 2);
	set(fake->config, EXP_CAP + PCI_EXP_LNKCAP, PCI_EXP_LNKCAP_SLS_16_0GB | 16 << 4, 4);
	set(fake->config, EXP_CAP + PCI_EXP_LNKSTA, PCI_EXP_LNKSTA_CLS_16_0GB | 16 << PCI_EXP_LNKSTA_NLW_SHIFT, 2);
	set(fake->writable, EXP_CAP + PCI_EXP_LNKCTL, 0xffff, 2);
}

static void set_identity(struct fake *fake, u32 vendor, u32 device, u32 class, u32 subsystem)
{
	set(fake->config, PCI_VENDOR_ID, vendor | device << 16, 4);
	set(fake->config, PCI_CLASS_REVISION, class << 16 | 0xa1, 4);
	set(fake->config, PCI_SUBSYSTEM_VENDOR_ID, vendor | subsystem << 16, 4);
	set(fake->writable, PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_INTX_DISABLE, 2);
	set(fake->config, PCI_INTERRUPT_LINE, irq, 1);
	set(fake->config, PCI_INTERRUPT_PIN, irq ? 1 : 0, 1);
	set(fake->writable, PCI_INTERRUPT_LINE, 0xff, 1);
	set_capabilities(fake);
}

static struct resource window(u64 start, u64 size, ulong flags)
{
	return (struct resource)DEFINE_RES_NAMED(start, size, "fakegpu", IORESOURCE_MEM | flags);
}

static void set_memory(struct fake *fake, int index, bool gpu)
{
	u64 bar1_size = (u64)bar1_mib * SZ_1M, stride = max_t(u64, 2 * bar1_size, 2 * BAR3_SIZE);
	u64 bar0 = base + (u64)index * BAR0_SIZE, bar1 = PREFETCH_BASE + index * stride;
	u32 flags = PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH;

	fake->memory = window(bar0, BAR0_SIZE, 0);
	set_bar(fake, 0, bar0, BAR0_SIZE, 0);
	if (!gpu)
		return;
	fake->prefetch = window(bar1, stride, IORESOURCE_PREFETCH | IORESOURCE_MEM_64);
	set_bar(fake, 1, bar1, bar1_size, flags);
	set_bar(fake, 3, bar1 + stride / 2, BAR3_SIZE, flags);
}

static int set_registers(int index, u32 boot_0, u32 boot_42)
{
	void __iomem *bar0 = ioremap(base + (u64)index * BAR0_SIZE, SZ_4K);

	if (!bar0)
		return -ENOMEM;
	memset_io(bar0, 0, SZ_4K);
	writel(boot_0, bar0 + PMC_BOOT_0);
	writel(boot_42, bar0 + PMC_BOOT_42);
	iounmap(bar0);
	return 0;
}

/*
 * The BARs are claimed where they are, because pci_bus_assign_resources() keeps clear of memory that the firmware map
 * calls reserved.
 */
static void claim(struct pci_bus *bus)
{
	struct pci_dev *device;
	int i;

	list_for_each_entry(device, &bus->devices, bus_list)
		for (i = 0; i < PCI_STD_NUM_BARS; i++)
			if (device->resource[i].flags && pci_claim_resource(device, i))
				pci_warn(device, "BAR %d cannot be claimed\n", i);
}

static int plug(struct fake *fake, int index)
{
	LIST_HEAD(windows);
	struct pci_bus *bus;

	fake->sysdata.node = NUMA_NO_NODE;
	pci_add_resource(&windows, &fake->memory);
	if (fake->prefetch.flags)
		pci_add_resource(&windows, &fake->prefetch);
	bus = pci_scan_root_bus(NULL, FIRST_BUS + index * BUS_STEP, &config_ops, &fake->sysdata, &windows);
	if (!bus) {
		pci_free_resource_list(&windows);
		return -ENODEV;
	}
	fake->bus = bus;
	claim(bus);
	pci_bus_add_devices(bus);
	return 0;
}

static int add(int index)
{
	struct fake *fake = &fakes[index];
	bool gpu = index < gpus;
	int r;

	if (gpu)
		set_identity(fake, PCI_VENDOR_ID_NVIDIA, OF_GPU(gpu_id, index),
			     vga ? PCI_CLASS_DISPLAY_VGA : PCI_CLASS_DISPLAY_3D, OF_GPU(gpu_subsys, index));
	else
		set_identity(fake, sw_vendor, sw_id, PCI_CLASS_BRIDGE_OTHER, sw_subsys);
	set_memory(fake, index, gpu);
	r = set_registers(index, gpu ? OF_GPU(boot0, index) : 0, gpu ? OF_GPU(boot42, index) : 0);
	return r ? r : plug(fake, index);
}

static void unplug_all(void)
{
	int i;

	pci_lock_rescan_remove();
	for (i = MAX_DEVICES - 1; i >= 0; i--) {
		if (!fakes[i].bus)
			continue;
		pci_stop_root_bus(fakes[i].bus);
		pci_remove_root_bus(fakes[i].bus);
	}
	pci_unlock_rescan_remove();
}

static int __init fakegpu_init(void)
{
	int i, r = 0;

	if (!base || gpus + switches > MAX_DEVICES || !is_power_of_2(bar1_mib))
		return -EINVAL;
	pci_lock_rescan_remove();
	for (i = 0; !r && i < gpus + switches; i++)
		r = add(i);
	pci_unlock_rescan_remove();
	if (r)
		unplug_all();
	return r;
}

static void __exit fakegpu_exit(void)
{
	unplug_all();
}

module_init(fakegpu_init);
module_exit(fakegpu_exit);
MODULE_DESCRIPTION("Simulated NVIDIA GPUs and NVSwitches for tests");
MODULE_LICENSE("GPL");
