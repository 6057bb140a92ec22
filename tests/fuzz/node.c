// SPDX-License-Identifier: Apache-2.0
// Files of a host that package managers, administrators and kernels write, what runtimes hand to hooks,
// and our own records, which everybody with a place in the host's run/ can write.
#include "acquire/matrix.h"
#include "base/file/mountinfo.h"
#include "daemons/daemon_record.h"
#include "devices/cdi_hook.h"
#include "devices/cdi_spec_file.h"
#include "devices/nodes.h"
#include "driver_root/root_record.h"
#include "driver_toolkit/dtk.h"
#include "host/cgroup.h"
#include "host/kernel.h"
#include "host/module_params.h"
#include "host/modules.h"
#include "host/pci.h"
#include "journal/journal.h"
#include "journal/optional_modules.h"
#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(modprobe) // modprobe.d, the command line, and files of the driver container's contract
{
	static const char *const paths[] = { "etc/modprobe.d/a.conf",
					     "etc/modprobe.d/",
					     "usr/lib/modprobe.d/",
					     "proc/cmdline",
					     "drivers/nvidia.conf",
					     "drivers/nvidia-uvm.conf",
					     NULL };
	struct err err;
	const struct root *root = fuzz_tree(data, len, paths);
	auto_strv struct strv none = { 0 }, words = { 0 };
	auto_module_params struct module_params p = { 0 };
	if (!FUZZ(module_params_read(root, root, root, &none, NULL, &p, &err)))
		return 0;
	auto_str char *text = module_params_text(&p, "nvidia");
	module_params_words(text, &words);
	return p.count || p.blacklist.count;
}

FUZZ_TARGET(host)
{
	static const char *const paths[] = { "etc/os-release",
					     "proc/version",
					     "proc/sys/kernel/osrelease",
					     "proc/sys/kernel/arch",
					     "proc/sys/kernel/tainted",
					     "proc/meminfo",
					     "proc/self/status",
					     "proc/self/cgroup",
					     "sys/kernel/security/lockdown",
					     "sys/fs/cgroup/cpu.max",
					     "sys/fs/cgroup/memory.max",
					     "proc/config.gz",
					     "sys/fs/cgroup/a/cpu.max",
					     "boot/config-6.1",
					     "bin/sh",
					     "sys/module/module/parameters/sig_enforce",
					     NULL };
	struct err err;
	auto_host struct host h = { 0 };
	const struct root *root = fuzz_tree(data, len, paths);
	if (!FUZZ(host_read(root, root, &h, &err)))
		return 0;
	FUZZ(host_read_config(root, root, h.release, &h.config, &h.config_source, &err));
	free(host_config(h.config, "MODULE_SIG_FORCE"));
	return 1;
}

FUZZ_TARGET(cgroup) // of a process
{
	auto_str char *text = str_ndup(data, len), *runtime = NULL, *container = NULL, *pod = NULL;
	cgroup_owner(text, &runtime, &container, &pod);
	if (container && strlen(container) != 64)
		abort();
	return container != NULL;
}

FUZZ_TARGET(mountinfo)
{
	auto_str char *text = str_ndup(data, len);
	auto_mountinfo struct mountinfo m = { 0 };
	auto_fs_dir struct fs_dir fs_dir = { 0 };
	mountinfo_parse(text, &m);
	mountinfo_locate(&m, "/run/nvidia/driver", &fs_dir);
	mountinfo_shows(&m, &fs_dir);
	mountinfo_depth(&m, "/run");
	return m.count > 0;
}

FUZZ_TARGET(driver) // what the loaded driver and the kernel show of it
{
	static const char *const paths[] = { "proc/driver/nvidia/version",
					     "proc/driver/nvidia/params",
					     "proc/devices",
					     "proc/driver/nvidia/gpus/0000:40:00.0/information",
					     "proc/driver/nvidia/capabilities/mig/config",
					     "proc/driver/nvidia-nvlink/permissions",
					     "proc/driver/nvidia-nvswitch/permissions",
					     "sys/module/nvidia/version",
					     "sys/module/nvidia/refcnt",
					     "sys/module/nvidia/initstate",
					     "sys/module/nvidia/taint",
					     "sys/module/nvidia/parameters/NVreg_Mobile",
					     "lib/modules/6.1/modules.dep",
					     NULL };
	struct err err;
	const struct root *root = fuzz_tree(data, len, paths);
	auto_modules struct modules l = { 0 };
	auto_devices struct devices d = { 0 };
	FUZZ(devices_want(root, 2, &d, &err));
	return FUZZ(modules_read(root, root, "6.1", &l, &err)) && l.count;
}

FUZZ_TARGET(pci)
{
#define GPU "sys/bus/pci/devices/0000:40:00.0/"
	static const char *const paths[] = { GPU "vendor",
					     GPU "class",
					     GPU "device",
					     GPU "subsystem_vendor",
					     GPU "subsystem_device",
					     GPU "numa_node",
					     GPU "resource",
					     "proc/iomem",
					     NULL };
	struct err err;
	auto_gpus struct gpus g = { 0 };
	return FUZZ(gpus_read(fuzz_tree(data, len, paths), &g, &err)) && g.count;
}

FUZZ_TARGET(oci_hook) // parts: state, bundle/config.json
{
	static const char *const paths[] = { "bundle/config.json", NULL };
	struct err err;
	size_t state_len;
	auto_str char *state = fuzz_part(data, len, "state", true, &state_len);
	auto_root struct root container = ROOT_NONE;
	const struct root *root = fuzz_tree(data, len, paths);
	if (root_mkdirs(root, "bundle/rootfs", 0755, &err) < 0)
		abort();
	return FUZZ(cdi_hook_open(root, state, state_len, &container, &err));
}

FUZZ_TARGET(cdi_specs)
{
	static const char *const paths[] = { "etc/cdi/a.json", "etc/cdi/a.yaml", "var/run/cdi/b.yaml",
					     "run/kmodsmith/cdi.json", NULL };
	struct err err = { 0 };
	auto_str char *rival = NULL;
	int r = cdi_spec_file_conflict(fuzz_tree(data, len, paths), "/etc/cdi/own.json", CDI_KIND, &rival, &err);
	return r < 0 ? fuzz_refused(&err) : r;
}

FUZZ_TARGET(toolkit_request)
{
	struct err err;
	auto_dtk_request struct dtk_request r = { 0 }, again = { 0 };
	if (!FUZZ(dtk_request_parse(data, len, &r, &err)))
		return 0;
	auto_str char *text = dtk_request_text(&r);
	if (dtk_request_parse(text, strlen(text), &again, &err) < 0 || !dtk_request_equal(&r, &again))
		abort();
	return 1;
}

FUZZ_TARGET(toolkit_share)
{
	static const char *const paths[] = {
		"kmodsmith/progress",    "kmodsmith/request.json", "kmodsmith/", "driver_prepared",
		"driver_toolkit_broken", "driver_built",           NULL
	};
	struct err err;
	const struct root *root = fuzz_tree(data, len, paths);
	struct dtk_flags flags = { 0 };
	struct dtk_progress progress = { 0 };
	auto_dtk_request struct dtk_request r = { 0 };
	char id[DIGEST_HEX + 1] = "";
	FUZZ(dtk_flags_read(root, &flags, &err));
	dtk_reason_read(root, &err);
	FUZZ(dtk_request_read(root, &r, id, &err));
	return dtk_progress_read(root, &progress);
}

FUZZ_TARGET(matrix) // parts: matrix, nodes (of kubectl get nodes -o json)
{
	struct err err;
	size_t matrix_len, nodes_len;
	auto_str char *text = fuzz_part(data, len, "matrix", false, &matrix_len),
		      *nodes = fuzz_part(data, len, "nodes", true, &nodes_len);
	auto_matrix struct matrix m = { 0 };
	struct matrix_nodes n = { 0 };
	if (matrix_len && !FUZZ(matrix_parse(text, matrix_len, "fuzz", true, &m, &err)))
		return 0;
	if (nodes_len && !FUZZ(matrix_nodes_add(nodes, nodes_len, "nodes", "x86_64", &m, &n, &err)))
		return 0;
	matrix_skipped(&m, "535.1", "6.1");
	return 1;
}

FUZZ_TARGET(records) // of this program
{
	static const char *const paths[] = { "journal", "run/kmodsmith/optional.json", "run/kmodsmith/daemons.json",
					     "run/kmodsmith/export.json", NULL };
	struct err err;
	const struct root *root = fuzz_tree(data, len, paths);
	auto_journal struct journal j = { 0 };
	auto_optional_modules struct optional_modules o = { 0 };
	auto_daemon_record struct daemon_record d = { 0 };
	auto_root_record struct root_record x = { 0 };
	err = (struct err){ 0 };
	int seen = journal_find(root, root, &j, &err) > 0;
	json_decref(journal_json(&j));
	free(journal_why_not(&j, "boot", &j.target));
	seen |= optional_modules_read(root, "boot", &o, &err) > 0;
	seen |= daemon_record_read(root, "boot", &d, &err) > 0;
	json_decref(daemon_record_json(&d, NULL));
	seen |= root_record_read(root, "boot", &x, &err) > 0;
	root_record_generation(root);
	return seen;
}
