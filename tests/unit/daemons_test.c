// SPDX-License-Identifier: Apache-2.0
// R-P1, R-P4: which daemons belong on a machine, with which arguments, and what is refused before the load.
#include "daemons/daemon_rules.h"

#include "tests/unit/tempdir.h"

FOLDER_OF_A_TEST
static struct err err;

// "NAME" or "NAME!": the second cannot be started.
static char *names_of(const struct daemons *d)
{
	char *text = str_dup("");
	for (size_t i = 0; i < d->count; i++)
		str_add(&text, "%s%s%s", i ? " " : "", d->items[i].name, d->items[i].why_not ? "!" : "");
	return text;
}

#define PERSISTENCED "usr/bin/nvidia-persistenced"
#define FABRIC "usr/bin/nv-fabricmanager"
#define NVLSM "opt/nvidia/nvlsm/sbin/nvlsm"
#define ALL PERSISTENCED " " FABRIC " " NVLSM " usr/bin/nvidia-gridd usr/bin/nvidia-topologyd"
#define UMAD "mlx5_core ib_umad"

static void which(void **state)
{
	(void)state;
	const struct {
		const char *row, *programs, *modules;
		struct daemon_facts facts;
		const char *want;
	} rows[] = {
		{ "one GPU", ALL, "", { 0 }, "nvidia-persistenced" },
		{ "a payload without it", FABRIC, "", { 0 }, "nvidia-persistenced!" },
		{ "one switch", ALL, "", { .switches = 1 }, "nvidia-fabricmanager nvidia-persistenced" },
		{ "four switches", ALL, UMAD, { .switches = 4 }, "nvidia-fabricmanager nvidia-persistenced" },
		{ "switches, no program",
		  PERSISTENCED,
		  "",
		  { .switches = 4 },
		  "nvidia-fabricmanager! nvidia-persistenced" },
		{ "switches, and a bridge of others",
		  ALL,
		  "",
		  { .switches = 4, .is_bridge_down = true },
		  "nvidia-fabricmanager nvidia-persistenced" },
		{ "NVLink5",
		  ALL,
		  UMAD,
		  { .is_bridge_down = false, .bridge = (char[]){ "0x1" } },
		  "nvlsm nvidia-fabricmanager nvidia-persistenced" },
		{ "NVLink5 without ib_umad",
		  ALL,
		  "mlx5_core",
		  { .bridge = (char[]){ "0x1" } },
		  "nvlsm! nvidia-fabricmanager nvidia-persistenced" },
		{ "NVLink5, port not up",
		  ALL,
		  UMAD,
		  { .is_bridge_down = true },
		  "nvlsm! nvidia-fabricmanager nvidia-persistenced" },
		{ "a guest with a virtual GPU",
		  ALL,
		  "",
		  { .is_vgpu = true, .has_gridd_conf = true },
		  "nvidia-gridd nvidia-persistenced" },
		{ "with a topology",
		  ALL,
		  "",
		  { .is_vgpu = true, .has_gridd_conf = true, .has_topology_conf = true },
		  "nvidia-topologyd nvidia-gridd nvidia-persistenced" },
		{ "without a licence", ALL, "", { .is_vgpu = true }, "nvidia-persistenced" },
		{ "a licence, but no virtual GPU", ALL, "", { .has_gridd_conf = true }, "nvidia-persistenced" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct daemon_facts f = rows[i].facts;
		auto_daemons struct daemons d = { 0 };
		strv_split(&f.programs, rows[i].programs, " ");
		strv_split(&f.modules, rows[i].modules, " ");
		daemons_rules(&f, &d);
		auto_str char *got = names_of(&d);
		expect(str_eq(got, rows[i].want), rows[i].row);
		strv_done(&f.programs);
		strv_done(&f.modules);
	}
}

static const struct daemon *of(const struct daemons *d, const char *name)
{
	for (size_t i = 0; i < d->count; i++)
		if (str_eq(d->items[i].name, name))
			return &d->items[i];
	fail_msg("%s is not due", name);
	return NULL;
}

static void assert_args(const struct strv *argv, const char *want)
{
	auto_str char *got = argv->count ? strv_join(argv, " ") : str_dup("");
	assert_string_equal(got, want);
}

static void how(void **state)
{
	(void)state;
	struct daemon_facts f = { .bridge = (char[]){ "0x506b4b0300a1b2c3" }, .is_fabric_mode = true };
	auto_daemons struct daemons five = { 0 }, four = { 0 };
	strv_split(&f.programs, ALL, " ");
	daemons_rules(&f, &five);
	const struct daemon *lsm = of(&five, "nvlsm"), *fm = of(&five, "nvidia-fabricmanager"),
			    *p = of(&five, "nvidia-persistenced");
	assert_args(&lsm->argv, "/" NVLSM " --config /usr/share/nvidia/nvlsm/nvlsm.conf --pid_file "
				"/run/nvidia-fabricmanager/nvlsm.pid --log_file stdout --guid 0x506b4b0300a1b2c3");
	assert_string_equal(lsm->why_not, "waiting for host modules that are not loaded: mlx5_core, ib_umad");
	assert_args(&fm->argv, "/" FABRIC " -c /run/nvidia-fabricmanager/fabricmanager.cfg --fm-sm-mgmt-port-guid "
			       "0x506b4b0300a1b2c3");
	assert_args(&fm->after, "/usr/bin/nvidia-smi -r");
	assert_string_equal(fm->follows, "nvlsm");
	assert_true(fm->is_needed && fm->is_configured && !fm->is_forking && p->is_forking && !p->is_needed);
	assert_args(&p->argv, "/" PERSISTENCED " --persistence-mode");
	assert_false(p->is_guest || p->env);
	struct daemon_facts guest = { .is_vgpu = true, .has_gridd_conf = true, .gridd_env = "LD_LIBRARY_PATH=/x" };
	auto_daemons struct daemons vgpu = { 0 };
	daemons_rules(&guest, &vgpu);
	assert_true(of(&vgpu, "nvidia-gridd")->is_guest);
	assert_string_equal(of(&vgpu, "nvidia-gridd")->env, "LD_LIBRARY_PATH=/x");
	assert_null(of(&vgpu, "nvidia-persistenced")->env);
	f.switches = 2;
	daemons_rules(&f, &four);
	fm = of(&four, "nvidia-fabricmanager");
	assert_args(&fm->argv, "/" FABRIC " -c /run/nvidia-fabricmanager/fabricmanager.cfg");
	assert_args(&fm->after, ""); // of NVLink5 alone (contract 1.4)
	assert_null(fm->follows);
	assert_string_equal(fm->why, "2 NVSwitches");
	strv_done(&f.programs);
}

static void facts_of_a_machine(void **state)
{
	(void)state;
	static char vgpu[] = "DRIVER_TYPE=vgpu", mode[] = "NVFM_CONFIG_FABRIC_MODE=1", path[] = "PATH=/bin";
	char *environment[] = { path, vgpu, mode, NULL };
	auto_daemon_request struct daemon_request request = { 0 };
	auto_daemon_facts struct daemon_facts f = { 0 }, bridged = { 0 }, ready = { 0 };
	assert_int_equal(daemon_request_read(environment, &request, &err), 0);
	tempdir_write(&folder, "proc/driver/nvidia-nvswitch/devices/0000:01:00.0/information", "");
	tempdir_write(&folder, "proc/driver/nvidia-nvswitch/devices/0000:02:00.0/information", "");
	tempdir_write(&folder, "drivers/gridd.conf", "");
	tempdir_write(&folder, FABRIC, "");
	tempdir_write(&folder, "sys/module/ib_umad/initstate", "live\n");
	assert_int_equal(daemon_facts_read(&folder.root, &folder.root, &request, &f, &err), 0);
	assert_int_equal(f.switches, 2);
	assert_true(f.is_vgpu && f.has_gridd_conf && !f.has_topology_conf && f.is_fabric_mode && !f.is_bridge_down);
	assert_args(&f.programs, FABRIC);
	assert_args(&f.modules, "ib_umad");

	// An ordinary adapter, one without a VPD, and the bridge.
	static const char vpd[] = "\x82\x10\0PCIe adapter\0V0\x08SW_MNG\0\x78";
	tempdir_data(&folder, "sys/class/infiniband/mlx5_0/device/vpd", "CX7", 3);
	tempdir_write(&folder, "sys/class/infiniband/mlx5_1/ports/1/gids/0", "");
	tempdir_data(&folder, "sys/class/infiniband/mlx5_2/device/vpd", vpd, sizeof(vpd));
	tempdir_write(&folder, "sys/class/infiniband/mlx5_2/ports/1/gids/0",
		      "fe80:0000:0000:0000:0000:0000:0000:0000\n");
	assert_int_equal(daemon_facts_read(&folder.root, &folder.root, &request, &bridged, &err), 0);
	assert_true(bridged.is_bridge_down && !bridged.bridge);
	tempdir_write(&folder, "sys/class/infiniband/mlx5_2/ports/1/gids/0",
		      "fe80:0000:0000:0000:506b:4b03:00a1:b2c3\n");
	assert_int_equal(daemon_facts_read(&folder.root, &folder.root, &request, &ready, &err), 0);
	assert_string_equal(ready.bridge, "0x506b4b0300a1b2c3");
}

// The first has what `pack payload` makes of a line "libFlxComm64.so.2018.02 0755 FLEXERA_LIB nvidia/gridd".
static void libraries_of_gridd(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "x/usr/lib/x86_64-linux-gnu/nvidia/gridd/libFlxComm64.so.2018.02",
		  "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/nvidia/gridd" },
		{ "a/usr/lib/aarch64-linux-gnu/nvidia/gridd/libFlxCore64.so.2018.02",
		  "LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu/nvidia/gridd" },
		{ "r/usr/lib64/nvidia/gridd/libFlxCore64.so", "LD_LIBRARY_PATH=/usr/lib64/nvidia/gridd" },
		{ "o/usr/lib/nvidia/gridd/libFlxCore64.so", "LD_LIBRARY_PATH=/usr/lib/nvidia/gridd" },
		{ "n/usr/lib/x86_64-linux-gnu/nvidia/gridd/README", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		static const struct daemon_request request;
		auto_daemon_facts struct daemon_facts f = { 0 };
		auto_root struct root driver = ROOT_NONE;
		auto_str char *top = str_ndup(rows[i][0], 1);
		tempdir_write(&folder, rows[i][0], "");
		assert_int_equal(root_sub(&folder.root, top, &driver, &err), 0);
		assert_int_equal(daemon_facts_read(&folder.root, &driver, &request, &f, &err), 0);
		expect(rows[i][1] ? str_eq(f.gridd_env, rows[i][1]) : !f.gridd_env, rows[i][0]);
	}
}

static void refused_before_the_load(void **state)
{
	(void)state;
	static const struct {
		const char *row, *program, *text; // NULL = it is not there
		struct daemon_facts facts;
		const char *want; // NULL = all is well
	} rows[] = {
		{ "no switch needs nothing", FABRIC, NULL, { 0 }, NULL },
		{ "no program", FABRIC, NULL, { .switches = 4 }, "4 NVSwitches needs nvidia-fabricmanager" },
		{ "the driver's", FABRIC, "version is : 535.261.03", { .switches = 4 }, NULL },
		{ "another one",
		  FABRIC,
		  "version is : 535.216.03",
		  { .switches = 4 },
		  "'" FABRIC "' is for driver 535.216.03, 535.261.03 was requested" },
		{ "one that nobody needs", FABRIC, "version is : 535.216.03", { 0 }, NULL },
		{ "optional, of the same branch", PERSISTENCED, "535.171.04", { 0 }, NULL },
		{ "NVLink5 without its subnet manager",
		  FABRIC,
		  "535.261.03",
		  { .is_bridge_down = true },
		  "an NVLink5 management bridge (SW_MNG) needs nvlsm" },
	};
	const struct version_check belong = { .driver = "535.261.03", .arch = "x86_64" };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct daemon_facts f = rows[i].facts;
		auto_daemons struct daemons d = { 0 };
		if (rows[i].text) {
			tempdir_write(&folder, rows[i].program, rows[i].text);
			strv_add(&f.programs, str_dup(rows[i].program));
		}
		daemons_rules(&f, &d);
		int r = daemons_check(&d, &folder.root, &belong, &err);
		expect(r == (rows[i].want ? -1 : 0), rows[i].row);
		expect(!rows[i].want || (err.code == E_DAEMON && strstr(err.text, rows[i].want)), rows[i].row);
		strv_done(&f.programs);
	}
}

static void directories(void **state)
{
	(void)state;
	auto_strv struct strv dirs = { 0 };
	tempdir_write(&folder, FABRIC, "");
	tempdir_write(&folder, NVLSM, "");
	tempdir_write(&folder, PERSISTENCED, "");
	daemon_dirs(&folder.root, &dirs);
	assert_args(&dirs, "nvidia-fabricmanager nvidia-persistenced");
}

static void settings(void **state)
{
	(void)state;
	static const struct {
		const char *variable, *want; // NULL = E_CONFIG
	} rows[] = {
		{ "NVFM_CONFIG_LOG_LEVEL=3", "LOG_LEVEL=3" },
		{ "NVFM_CONFIG_EMPTY=", "EMPTY=" },
		{ "NVFM_CONFIG_A=b=c d", "A=b=c d" },
		{ "NVFM_CONFIGX=1", "" },
		{ "OTHER=1", "" },
		{ "NVFM_CONFIG_=1", NULL },
		{ "NVFM_CONFIG_log=1", NULL },
		{ "NVFM_CONFIG_A B=1", NULL },
		{ "NVFM_CONFIG_A=1\nDAEMONIZE=1", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_daemon_request struct daemon_request got = { 0 };
		auto_str char *variable = str_dup(rows[i].variable);
		char *environment[] = { variable, NULL };
		int r = daemon_request_read(environment, &got, &err);
		expect(r == (rows[i].want ? 0 : -1), rows[i].variable);
		if (r < 0)
			expect(err.code == E_CONFIG, rows[i].variable);
		else
			assert_args(&got.settings, rows[i].want);
	}
}

// FIELD=VALUE takes the place of the line that sets FIELD, or follows the last line.
static void configuration(void **state)
{
	(void)state;
	static const char OURS[] = "LOG_FILE_NAME=\nLOG_USE_SYSLOG=0\n"
				   "STATE_FILE_NAME=/run/nvidia-fabricmanager/fabricmanager.state\n";
	static const struct {
		const char *text, *settings, *want, *added;
	} rows[] = {
		{ "A=1\nB=2\n", "B=3", "A=1\nB=3\n", "" },
		{ "A=1\nB=2\n", "C=3", "A=1\nB=2\n", "C=3\n" },
		{ "A=1\nA=2\n", "A=3", "A=3\n", "" },
		{ "# A=1\n A = 1\n", "A=3", "# A=1\nA=3\n", "" },
		{ "AB=1\nA=", "A=3", "AB=1\nA=3\n", "" },
		{ "", "A=3", "", "A=3\n" },
		{ "A=1", "", "A=1\n", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_strv struct strv list = { 0 };
		auto_str char *want = str_fmt("%s%s%sDAEMONIZE=0\n", rows[i].want, OURS, rows[i].added), *got = NULL;
		strv_split(&list, rows[i].settings, " ");
		tempdir_write(&folder, FABRIC_PAYLOAD_CONFIG, rows[i].text);
		expect(daemon_fabric_write(&folder.root, &folder.root, &list, &err) == 0, err.text);
		assert_int_equal(root_read(&folder.root, FABRIC_CONFIG, &got, NULL, &err), 1);
		expect(str_eq(got, want), rows[i].text);
	}
}

static void a_copy_of_it(void **state)
{
	(void)state;
	auto_strv struct strv list = { 0 };
	auto_str char *text = NULL;
	strv_split(&list, "DAEMONIZE=1 LOG_LEVEL=3", " ");
	assert_int_equal(daemon_fabric_write(&folder.root, &folder.root, &list, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
	tempdir_write(&folder, FABRIC_PAYLOAD_CONFIG,
		      "LOG_FILE_NAME=/var/log/fabricmanager.log\nDAEMONIZE=1\nLOG_LEVEL=4\n");
	assert_int_equal(daemon_fabric_write(&folder.root, &folder.root, &list, &err), 0);
	assert_int_equal(root_read(&folder.root, FABRIC_CONFIG, &text, NULL, &err), 1);
	assert_string_equal(text, "LOG_FILE_NAME=\nDAEMONIZE=0\nLOG_LEVEL=3\nLOG_USE_SYSLOG=0\n"
				  "STATE_FILE_NAME=/run/nvidia-fabricmanager/fabricmanager.state\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(which),
		IN_FOLDER(how),
		IN_FOLDER(facts_of_a_machine),
		IN_FOLDER(libraries_of_gridd),
		IN_FOLDER(refused_before_the_load),
		IN_FOLDER(directories),
		IN_FOLDER(settings),
		IN_FOLDER(configuration),
		IN_FOLDER(a_copy_of_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
