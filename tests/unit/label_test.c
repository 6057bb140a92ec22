// SPDX-License-Identifier: Apache-2.0
#include "driver_root/selinux.h"
#include "tests/unit/tempdir.h"

#define C " system_u:object_r:container_file_t:s0\n"

static void test_is_enabled(void **state)
{
	(void)state;
	static const struct {
		const char *mounts;
		int due;
	} rows[] = {
		{ "sysfs /sys sysfs rw 0 0\nselinuxfs /sys/fs/selinux selinuxfs rw,noexec 0 0\n", 1 },
		{ "none /sys/fs/selinux selinuxfs rw 0 0\n", 1 },
		{ "selinuxfs /mnt tmpfs rw 0 0\n/dev/sda /selinuxfs ext4 rw,context=selinuxfs 0 0\n", 0 },
		{ "sysfs /sys sysfs rw 0 0\n", 0 },
		{ "", 0 },
		{ NULL, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		struct err err;
		folder_make(&f);
		if (rows[i].mounts)
			tempdir_write(&f, "proc/1/mounts", rows[i].mounts);
		expect(selinux_is_enabled(&f.root, &err) == rows[i].due, rows[i].mounts);
	}
}

// A directory is labelled after its contents; links are not followed.
static void test_label_order(void **state)
{
	(void)state;
	auto_folder struct folder f;
	struct err err = { 0 };
	folder_make(&f);
	struct sys sys = sys_recorder(&f.root);
	tempdir_write(&f, "payloads/aa/usr/bin/nvidia-smi", "");
	tempdir_link(&f, "payloads/aa/lib", "../../dev");
	tempdir_write(&f, "dev/nvidia0", "");
	tempdir_write(&f, "dev/nvidia-caps/nvidia-cap1", "");
	tempdir_write(&f, "dev/sda", "");
	expect(selinux_label_tree(&sys, &f.root, "payloads/aa", &err) == 0, err.text);
	expect(selinux_label_nodes(&sys, &f.root, &err) == 0, err.text);
	expect(selinux_label_tree(&sys, &f.root, "payloads/none", &err) == 0, err.text);
	folder_expect(&f, ".sys-calls",
		      "label lib" C "label nvidia-smi" C "label bin" C "label usr" C "label aa" C "label nvidia-cap1" C
		      "label nvidia-caps" C "label nvidia0" C);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_is_enabled),
		cmocka_unit_test(test_label_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
