// SPDX-License-Identifier: Apache-2.0
// Which guest driver goes with the host of a virtual GPU. The catalogue is made up, in the form of NVIDIA's.
#include "daemons/vgpu_catalog.h"

#include "base/formats/yaml.h"
#include "tests/unit/tempdir.h"

static const char catalog_text[] =
	"version: 1\ndate: '2026-01-01'\nbranch:\n"
	"- {name: R550_U1, type: host, allow: {branch: [R550_U1, R535_U9]}, deny: {branch: [R470_U1]}}\n"
	"- {name: R535_U9, type: host, allow: {branch: [R535_U9]}}\n"
	"- {name: R550_U1, type: guest, allow: {branch: [R550_U1]}}\n"
	"- {name: R535_U9, type: guest, allow: {branch: [R550_U1, R535_U9]}, deny: {gpu: [{devid: '0x1111'}]}}\n"
	"- {name: R470_U1, type: guest, allow: {branch: [R550_U1]}}\n"
	"driver:\n"
	"- {version: 550.90.05, branch: R550_U1, type: host, deny: {driver: [{version: 535.1.9}]}}\n"
	"- {version: 550.1.1, branch: R550_U1, type: host, allow: {driver: [{version: 550.90.07}]}}\n"
	"- {version: 550.90.07, branch: R550_U1, type: guest, os: [Linux, Windows 10]}\n"
	"- {version: 550.90.17, branch: R550_U1, type: guest, os: [Linux]}\n"
	"- {version: 550.2.2, branch: R550_U1, type: guest, os: [Windows 11]}\n"
	"- {version: 535.200.1, branch: R535_U9, type: guest, os: [Linux]}\n"
	"- {version: 535.1.9, branch: R535_U9, type: guest, os: [Linux]}\n"
	"- {version: 470.1.1, branch: R470_U1, type: guest, os: [Linux]}\n"
	"- {version: 470.2.2, branch: R470_U1, type: guest, os: [Linux], allow: {driver: [{version: 550.90.05}]}}\n"
	"- {version: 560.1.1, branch: R550_U1, type: guest, os: [Linux], allow: {cpu: [arm64]}}\n";

static void test_choice(void **state)
{
	(void)state;
	static const struct {
		const char *host, *branch, *device, *have, *choice; // choice NULL = E_NOT_FOUND
		const char *why;                                    // a part of it
	} rows[] = {
		{ "550.90.05", "R550_U1", "0x2330", "535.200.1 550.90.07 550.90.17", "550.90.17", NULL },
		{ "550.90.05", "R550_U1", "0x2330", "550.90.07", "550.90.07", NULL },
		{ "550.90.05", "R550_U1", "0x2330", "535.200.1", "535.200.1", NULL }, // older, and allowed
		{ "535.1.1", "R535_U9", "0x2330", "550.90.07 535.200.1", "535.200.1", NULL },
		{ "535.1.1", "R535_U9", "0x2330", "550.90.07", NULL,
		  "550.90.07 is of branch R550_U1, which does not go with the host's R535_U9" },
		{ "550.90.05", "R550_U1", "0x2330", "470.1.1", NULL, "470.1.1 is of branch R470_U1" },
		{ "550.90.05", "R550_U1", "0x2330", "470.2.2", "470.2.2", NULL }, // by its own list
		{ "550.90.05", "R550_U1", "0x2330", "535.1.9", NULL, "535.1.9 is denied beside the host's 550.90.05" },
		{ "550.1.1", "R550_U1", "0x2330", "550.90.17", NULL, "the host's 550.1.1 does not allow 550.90.17" },
		{ "550.1.1", "R550_U1", "0x2330", "550.90.17 550.90.07", "550.90.07", NULL },
		{ "550.90.05", "R550_U1", "0x2330", "550.2.2", NULL, "550.2.2 is not for Linux" },
		{ "550.90.05", "R550_U1", "0x1111", "535.200.1", NULL, "535.200.1 is of branch R535_U9" },
		{ "550.90.05", "R550_U1", "0x2330", "560.1.1 600.1", NULL,
		  "560.1.1 is no guest driver of the catalogue for this GPU; 600.1 is no guest driver" },
		{ "600.1", "R600_U1", "0x2330", "550.90.07", NULL,
		  "the catalogue does not know branch R600_U1 of the host's vGPU manager 600.1" },
		{ "550.90.05", "R550_U1", "0x2330", "", NULL, "there is none" },
	};
	auto_json json_t *catalog = NULL;
	struct err err;
	assert_int_equal(yaml_read(catalog_text, strlen(catalog_text), NULL, false, &catalog, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct vgpu_host host = { .subsystem = "0x16c1" };
		auto_strv struct strv have = { 0 };
		auto_str char *choice = NULL;
		snprintf(host.version, sizeof(host.version), "%s", rows[i].host);
		snprintf(host.branch, sizeof(host.branch), "%s", rows[i].branch);
		snprintf(host.device, sizeof(host.device), "%s", rows[i].device);
		strv_split(&have, rows[i].have, " ");
		int r = vgpu_catalog_choose(catalog, &host, "x86_64", &have, &choice, &err);
		expect(rows[i].choice ? r == 0 && str_eq(choice, rows[i].choice) : r < 0, rows[i].have);
		expect(r == 0 || (err.code == E_NOT_FOUND && strstr(err.text, rows[i].why)), err.text);
	}
}

// A configuration space with a chain of a power management capability and this one.
static void make_config(unsigned char config[256], const char *signature, unsigned before, const char *version)
{
	memset(config, 0, 256);
	config[0x06] = 0x10;
	config[0x34] = 0x60;
	memcpy(config + 0x60, (unsigned char[]){ 0x01, 0x68, 8 }, 3);
	unsigned char *c = config + 0x68;
	memcpy(c, (unsigned char[]){ 0x09, 0, (unsigned char)(5 + before + 22) }, 3);
	memcpy(c + 3, signature, 2);
	if (before)
		memcpy(c + 5, (unsigned char[]){ 1, (unsigned char)before }, 2);
	memcpy(c + 5 + before, (unsigned char[]){ 0, 22 }, 2);
	strncpy((char *)c + 5 + before + 2, version, 10);
	strncpy((char *)c + 5 + before + 12, "r550_u1", 10);
}

static void test_device(void **state)
{
	(void)state;
	unsigned char config[256];
	struct vgpu_host host = { 0 };
	for (unsigned before = 0; before <= 7; before += 7) {
		make_config(config, "VF", before, "550.90.05");
		assert_true(vgpu_host_parse(config, sizeof(config), &host));
		assert_string_equal(host.version, "550.90.05");
		assert_string_equal(host.branch, "R550_U1");
	}
	assert_false(vgpu_host_parse(config, 64, &host)); // what an ordinary user may read
	make_config(config, "XX", 0, "550.90.05");
	assert_false(vgpu_host_parse(config, sizeof(config), &host));
	make_config(config, "VF", 0, "");
	assert_false(vgpu_host_parse(config, sizeof(config), &host));
	make_config(config, "VF", 0, "550.90.05");
	config[0x6a] = 255; // longer than the space
	assert_false(vgpu_host_parse(config, sizeof(config), &host));
	make_config(config, "XX", 0, "550.90.05");
	config[0x69] = 0x60; // a chain without an end
	assert_false(vgpu_host_parse(config, sizeof(config), &host));
	make_config(config, "VF", 0, "550.90.05");
	config[0x6d] = 3; // records that lead nowhere
	config[0x6e] = 0;
	assert_false(vgpu_host_parse(config, sizeof(config), &host));
}

static void test_machine(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct vgpu_host host = { 0 };
	unsigned char config[256];
	struct err err;
	folder_make(&t);
	tempdir_write(&t, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x8086\n");
	assert_int_equal(vgpu_host_read(&t.root, &host, &err), 0);
	tempdir_write(&t, "sys/bus/pci/devices/0000:02:00.0/vendor", "0x10de\n");
	tempdir_write(&t, "sys/bus/pci/devices/0000:02:00.0/device", "0x2330\n");
	tempdir_write(&t, "sys/bus/pci/devices/0000:02:00.0/subsystem_device", "0x16c1\n");
	assert_int_equal(vgpu_host_read(&t.root, &host, &err), 0);
	make_config(config, "VF", 0, "550.90.05");
	assert_int_equal(
		root_put(&t.root, "sys/bus/pci/devices/0000:02:00.0/config", config, sizeof(config), 0644, &err), 0);
	assert_int_equal(vgpu_host_read(&t.root, &host, &err), 1);
	assert_string_equal(host.device, "0x2330");
	assert_string_equal(host.subsystem, "0x16c1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_machine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
