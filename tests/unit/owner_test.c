// SPDX-License-Identifier: Apache-2.0
// R-P8: who has a GPU, who is asked to let go of it, and how it goes back. The machine is a folder and the kernel the
// recorder, or one that does not come back.
#include "holders/unbind.h"

#include "tests/unit/tempdir.h"

#define PCI "sys/bus/pci/devices/0000:40:00.0"

static void make_machine(const struct folder *t, const char *driver)
{
	static const char *const files[][2] = { { PCI "/vendor", "0x10de\n" },
						{ PCI "/device", "0x2330\n" },
						{ PCI "/class", "0x030200\n" },
						{ PCI "/driver_override", "(null)\n" },
						{ PCI "/drm/card0/dev", "226:0\n" },
						{ PCI "/drm/renderD128/dev", "226:128\n" },
						{ "proc/devices", "Character devices:\n226 drm\n" },
						{ "lib/modules/6.1.0-1/modules.dep", "kernel/nouveau.ko:\n" },
						{ "lib/modules/6.1.0-1/kernel/nouveau.ko", "no module" } };
	auto_str char *target = str_fmt("../../../../bus/pci/drivers/%s", driver);
	auto_str char *dir = str_fmt("sys/bus/pci/drivers/%s", driver);
	auto_str char *module = str_fmt("%s/module", dir);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		tempdir_write(t, files[i][0], files[i][1]);
	tempdir_write(t, "sys/module/nouveau/initstate", "live\n");
	folder_dir(t, dir);
	tempdir_link(t, PCI "/driver", target);
	tempdir_link(t, module, "../../../../module/nouveau");
}

static void make_framebuffer(const struct folder *t, const char *address)
{
	auto_str char *iomem = str_fmt("00001000-0009ffff : System RAM\n"
				       "c0000000-febfffff : PCI Bus 0000:00\n"
				       "  d0000000-dfffffff : %s\n"
				       "    d0000000-d02fffff : efifb\n"
				       "  e0000000-e0ffffff : 0000:00:03.0\n",
				       address);
	tempdir_write(t, "proc/iomem", iomem);
	folder_dir(t, "sys/bus/platform/drivers/efi-framebuffer");
	tempdir_write(t, "sys/bus/platform/devices/efi-framebuffer.0/graphics/fb0/dev", "29:0\n");
	tempdir_link(t, "sys/bus/platform/devices/efi-framebuffer.0/driver",
		     "../../../bus/platform/drivers/efi-framebuffer");
}

static void make_holder(const struct folder *t, const char *node)
{
	tempdir_write(t, "proc/42/comm", "Xorg\n");
	tempdir_write(t, "proc/42/status", "Name:\tXorg\nUid:\t0\t0\t0\t0\n");
	tempdir_link(t, "proc/42/fd/3", node);
}

static struct unbind_work work_on(const struct folder *t, const struct sys *sys)
{
	static struct progress progress;
	static struct node node;
	node = (struct node){
		.host = &t->root, .kern = &t->root, .sys = sys, .release = "6.1.0-1", .progress = &progress
	};
	return (struct unbind_work){ .node = &node, .timeout_ms = 10000 };
}

static void unbound_and_bound_again(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_gpus struct gpus gpus = { 0 };
	auto_unbound struct unbound r = { 0 };
	auto_str char *problem = NULL;
	folder_make(&t);
	make_machine(&t, "nouveau");
	make_framebuffer(&t, "0000:40:00.0");
	assert_int_equal(gpus_read(&t.root, &gpus, &err), 1);
	auto_str char *text = unbind_text(&gpus);
	assert_string_equal(text, "0000:40:00.0 from nouveau, efi-framebuffer.0");
	struct sys sys = sys_recorder(&t.root);
	struct unbind_work w = work_on(&t, &sys);
	assert_int_equal(unbind_release(&w, &gpus, &r, &err), 0);
	assert_int_equal(r.count, 2);
	folder_expect(&t, PCI "/driver_override", "nvidia");
	folder_expect(&t, ".sys-calls",
		      "write " PCI "/driver_override nvidia\n"
		      "write sys/bus/pci/drivers/nouveau/unbind 0000:40:00.0\n"
		      "write sys/bus/platform/drivers/efi-framebuffer/unbind efi-framebuffer.0\n"
		      "unload nouveau\n");
	assert_false(root_exists(&t.root, PCI "/driver"));
	assert_int_equal(unbind_finish(&w, &r, &err), 0);
	folder_expect(&t, PCI "/driver_override", "\n");

	// The module file of the host is none, so its load is what fails; the rest comes back all the same.
	unbind_restore(&w, &r, &problem);
	assert_non_null(problem);
	assert_non_null(strstr(problem, "nouveau.ko"));
	auto_gpus struct gpus now = { 0 };
	assert_int_equal(gpus_read(&t.root, &now, &err), 1);
	assert_string_equal(now.items[0].driver, "nouveau");
	assert_string_equal(now.items[0].framebuffer, "efi-framebuffer.0");
}

static void unbinds_only_drivers_of_the_kernel(void **state)
{
	(void)state;
	static const struct {
		const char *driver;
		bool is_released;
		int code; // of the plan's refusal
	} rows[] = {
		{ "nouveau", true, 0 },   { "NovaCore", true, 0 },         { "nova_core", true, 0 },
		{ "nvidiafb", true, 0 },  { "vfio-pci", false, 0 },        { "nvidia", false, 0 },
		{ "pci-stub", false, 0 }, { "my_driver", false, E_BOUND },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		struct err err = { 0 };
		auto_gpus struct gpus gpus = { 0 };
		auto_unbound struct unbound r = { 0 };
		folder_make(&t);
		make_machine(&t, rows[i].driver);
		assert_int_equal(gpus_read(&t.root, &gpus, &err), 1);
		auto_str char *text = unbind_text(&gpus);
		expect(!!text == rows[i].is_released, rows[i].driver);
		expect(gpus_check_owner(&gpus, true, &err) == (rows[i].code ? -1 : 0), rows[i].driver);
		expect(!rows[i].code || (err.code == rows[i].code && strstr(err.text, rows[i].driver)), err.text);
		struct sys sys = sys_recorder(&t.root);
		struct unbind_work w = work_on(&t, &sys);
		assert_int_equal(unbind_release(&w, &gpus, &r, &err), 0);
		expect(root_exists(&t.root, ".sys-calls") == rows[i].is_released, rows[i].driver);
		if (!rows[i].is_released)
			folder_expect(&t, PCI "/driver_override", "(null)\n");
	}
}

// GPUs of virtual machines: only where that is asked for, and never one that is open.
static void takes_a_device_from_vfio_when_asked(void **state)
{
	(void)state;
	static const struct {
		const char *driver, *fd; // NULL = no process has anything open
		bool is_asked, is_released;
	} rows[] = {
		{ "vfio-pci", NULL, true, true },
		{ "vfio-pci", NULL, false, false },
		{ "vfio-pci", "/dev/vfio/11", true, true },
		{ "vfio-pci", "/dev/vfio/12", true, false },
		{ "vfio-pci", "/run/vm/dev/vfio/12", true, false },
		{ "vfio-pci", "/dev/vfio/devices/vfio3", true, false },
		{ "vfio-pci", "/dev/vfio/devices/vfio33", true, true },
		{ "vfio-pci", "anon_inode:[vfio-device]", true, false }, // passed on by who opened it
		{ "pci-stub", NULL, true, false },
		{ "nvgrace_gpu_vfio_pci", NULL, true, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		struct err err = { 0 };
		auto_gpus struct gpus gpus = { 0 };
		auto_unbound struct unbound r = { 0 };
		auto_str char *problem = NULL;
		folder_make(&t);
		make_machine(&t, rows[i].driver);
		tempdir_write(&t, PCI "/driver_override", "vfio-pci\n");
		tempdir_link(&t, PCI "/iommu_group", "../../../../kernel/iommu_groups/12");
		folder_dir(&t, PCI "/vfio-dev/vfio3");
		if (rows[i].fd)
			make_holder(&t, rows[i].fd);
		assert_int_equal(gpus_read(&t.root, &gpus, &err), 1);
		if (rows[i].is_asked)
			gpus_reclaim(&gpus);
		bool is_due = rows[i].is_asked && str_eq(rows[i].driver, "vfio-pci");
		expect(gpu_is_ours(&gpus.items[0]) == is_due, rows[i].driver);
		struct sys sys = sys_recorder(&t.root);
		struct unbind_work w = work_on(&t, &sys);
		int result = unbind_release(&w, &gpus, &r, &err);
		expect(result == (is_due && !rows[i].is_released ? -1 : 0), rows[i].fd);
		expect(root_exists(&t.root, ".sys-calls") == rows[i].is_released, rows[i].fd);
		if (!rows[i].is_released) {
			expect(!is_due || (err.code == E_BOUND && strstr(err.text, "end the virtual machine first")),
			       err.text);
			continue;
		}
		folder_expect(&t, ".sys-calls",
			      "write " PCI "/driver_override nvidia\n"
			      "write sys/bus/pci/drivers/vfio-pci/unbind 0000:40:00.0\n");
		unbind_restore(&w, &r, &problem); // as after a load that failed
		assert_null(problem);
		folder_expect(&t, PCI "/driver_override", "vfio-pci");
		auto_gpus struct gpus now = { 0 };
		assert_int_equal(gpus_read(&t.root, &now, &err), 1);
		assert_string_equal(now.items[0].driver, "vfio-pci");
	}
}

// Where it stayed with the driver, nothing binds it to vfio-pci again.
static void forgets_the_guest_once_the_driver_has_it(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err = { 0 };
	auto_gpus struct gpus gpus = { 0 };
	auto_unbound struct unbound r = { 0 };
	folder_make(&t);
	make_machine(&t, "vfio-pci");
	tempdir_write(&t, PCI "/driver_override", "vfio-pci\n");
	assert_int_equal(gpus_read(&t.root, &gpus, &err), 1);
	gpus_reclaim(&gpus);
	struct sys sys = sys_recorder(&t.root);
	struct unbind_work w = work_on(&t, &sys);
	assert_int_equal(unbind_release(&w, &gpus, &r, &err), 0);
	assert_int_equal(unbind_finish(&w, &r, &err), 0);
	folder_expect(&t, PCI "/driver_override", "\n");
}

static void refuses_a_held_device_untouched(void **state)
{
	(void)state;
	static const char *const nodes[] = { "/dev/dri/card0", "/dev/dri/renderD128" };
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		auto_folder struct folder t;
		struct err err = { 0 };
		auto_gpus struct gpus gpus = { 0 };
		auto_unbound struct unbound r = { 0 };
		auto_str char *problem = NULL;
		folder_make(&t);
		make_machine(&t, "nouveau");
		make_holder(&t, nodes[i]);
		assert_int_equal(gpus_read(&t.root, &gpus, &err), 1);
		struct sys sys = sys_recorder(&t.root);
		struct unbind_work w = work_on(&t, &sys);
		assert_int_equal(unbind_release(&w, &gpus, &r, &err), -1);
		assert_int_equal(err.code, E_BOUND);
		auto_str char *who = str_fmt("nouveau of 0000:40:00.0 is held by pid 42 Xorg (uid 0) fd %s", nodes[i]);
		expect(str_eq(err.text, who), err.text);
		unbind_restore(&w, &r, &problem);
		assert_null(problem);
		assert_false(root_exists(&t.root, ".sys-calls"));
	}
}

static void leaves_a_held_framebuffer(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err = { 0 };
	auto_gpus struct gpus gpus = { 0 };
	auto_unbound struct unbound r = { 0 };
	folder_make(&t);
	make_machine(&t, "nouveau");
	make_framebuffer(&t, "0000:40:00.0");
	make_holder(&t, "/dev/fb0");
	assert_int_equal(gpus_read(&t.root, &gpus, &err), 1);
	struct sys sys = sys_recorder(&t.root);
	struct unbind_work w = work_on(&t, &sys);
	assert_int_equal(unbind_release(&w, &gpus, &r, &err), 0);
	assert_string_equal(gpus.items[0].framebuffer, "efi-framebuffer.0");
	assert_int_equal(r.count, 2);
	assert_false(r.items[1].is_unbound);
	assert_false(root_exists(&t.root, PCI "/driver"));
}

static void finishes_what_a_killed_run_left(void **state)
{
	(void)state;
	static const struct {
		const char *driver, *override, *after;
	} rows[] = { { "nvidia", "nvidia\n", "\n" },
		     { "nvidia", "(null)\n", "(null)\n" },
		     { "nouveau", "nouveau\n", "nouveau\n" },
		     { "vfio-pci", "nvidia\n", "nvidia\n" } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		struct err err;
		auto_gpus struct gpus gpus = { 0 };
		folder_make(&t);
		make_machine(&t, rows[i].driver);
		tempdir_write(&t, PCI "/driver_override", rows[i].override);
		assert_int_equal(gpus_read(&t.root, &gpus, &err), 1);
		struct sys sys = sys_recorder(&t.root);
		struct unbind_work w = work_on(&t, &sys);
		unbind_finish_interrupted(&w, &gpus);
		folder_expect(&t, PCI "/driver_override", rows[i].after);
	}
}

static int never_back(const struct sys *sys, const struct root *kern, const char *path, const char *text)
{
	(void)sys, (void)kern, (void)text;
	if (strstr(path, "/unbind"))
		pause();
	return 0;
}

static int refused(const struct sys *sys, const struct root *kern, const char *path, const char *text)
{
	(void)sys, (void)kern, (void)path, (void)text;
	errno = EACCES;
	return -1;
}

static void an_unbind_that_hangs_or_fails(void **state)
{
	(void)state;
	static const struct {
		int (*call)(const struct sys *sys, const struct root *kern, const char *path, const char *text);
		const char *text;
		bool is_stuck;
		int code;
	} rows[] = { { never_back, "nouveau of 0000:40:00.0: the kernel did not come back within 0.05 s", true,
		       E_WEDGED },
		     { refused, "/driver_override: EACCES", false, E_BOUND } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		struct err err = { 0 };
		auto_gpus struct gpus gpus = { 0 };
		auto_unbound struct unbound r = { 0 };
		auto_str char *problem = NULL;
		folder_make(&t);
		make_machine(&t, "nouveau");
		assert_int_equal(gpus_read(&t.root, &gpus, &err), 1);
		struct sys sys = { .attribute_set = rows[i].call };
		struct unbind_work w = work_on(&t, &sys);
		w.timeout_ms = rows[i].is_stuck ? 50 : 60000;
		assert_int_equal(unbind_release(&w, &gpus, &r, &err), -1);
		assert_int_equal(err.code, rows[i].code);
		expect(strstr(err.text, rows[i].text), err.text);
		assert_int_equal(r.items[0].is_stuck, rows[i].is_stuck);
		unbind_restore(&w, &r, &problem);
		assert_null(problem); // of a stuck device nothing more is asked
	}
}

static void finds_framebuffers(void **state)
{
	(void)state;
	static const struct {
		const char *iomem, *want;
	} rows[] = {
		{ "", NULL },
		{ "d0-df : 0000:40:00.0\n  d0-d2 : BOOTFB\n    d0-d2 : simplefb\n", "simple-framebuffer" },
		{ "d0-df : 0000:40:00.0\n  d0-d2 : simple-framebuffer.0\n", "simple-framebuffer" },
		{ "c0-ff : PCI Bus 0000:00\n  c0-ef : PCI Bus 0000:40\n    d0-df : 0000:40:00.0\n      d0-d2 : efifb\n",
		  "efi-framebuffer" },
		{ "d0-df : 0000:40:00.0\n  d0-d2 : vesafb\n", "vesa-framebuffer" },
		{ "d0-df : 0000:40:00.0\nd0-d2 : efifb\n", NULL },
		{ "  d0-df : 0000:40:00.0\n  e0-ef : 0000:00:02.0\n    e0-e2 : efifb\n", NULL },
		{ "d0-df : 0000:40:00.0\n  d0-d2 : nvidia\n", NULL },
		{ "d0-df : 0000:40:00.01\n  d0-d2 : efifb\n", NULL },
		{ "a : 0000:40:00.0\n  b : nvidia\nc : 0000:40:00.0\n  d : BOOTFB\n", "simple-framebuffer" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		static const char *const names[] = { "efi-framebuffer", "simple-framebuffer", "vesa-framebuffer" };
		auto_folder struct folder t;
		struct err err;
		auto_gpus struct gpus gpus = { 0 };
		folder_make(&t);
		make_machine(&t, "nouveau");
		tempdir_write(&t, "proc/iomem", rows[i].iomem);
		for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
			auto_str char *driver = str_fmt("sys/bus/platform/devices/%s.0/driver", names[n]);
			tempdir_write(&t, driver, "");
		}
		assert_int_equal(gpus_read(&t.root, &gpus, &err), 1);
		auto_str char *want = rows[i].want ? str_fmt("%s.0", rows[i].want) : NULL;
		const char *got = gpus.items[0].framebuffer;
		expect(want ? str_eq(got, want) : !got, rows[i].iomem);
	}
}

static void ignores_a_framebuffer_on_another_device(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_gpus struct gpus gpus = { 0 };
	folder_make(&t);
	make_machine(&t, "nvidia");
	make_framebuffer(&t, "0000:00:02.0");
	assert_int_equal(gpus_read(&t.root, &gpus, &err), 1);
	assert_null(gpus.items[0].framebuffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unbound_and_bound_again),
		cmocka_unit_test(unbinds_only_drivers_of_the_kernel),
		cmocka_unit_test(takes_a_device_from_vfio_when_asked),
		cmocka_unit_test(forgets_the_guest_once_the_driver_has_it),
		cmocka_unit_test(refuses_a_held_device_untouched),
		cmocka_unit_test(leaves_a_held_framebuffer),
		cmocka_unit_test(finishes_what_a_killed_run_left),
		cmocka_unit_test(an_unbind_that_hangs_or_fails),
		cmocka_unit_test(finds_framebuffers),
		cmocka_unit_test(ignores_a_framebuffer_on_another_device),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
