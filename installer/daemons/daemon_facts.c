// SPDX-License-Identifier: Apache-2.0
// What the rules of daemon_rules.c rest on.
#include "daemons/daemon_rules.h"

#include "daemons/fabric_manager.h"

static int count_switches(const struct root *kern, size_t *ret, struct err *err)
{
	static const char DEVICES[] = "proc/driver/nvidia-nvswitch/devices";
	auto_strv struct strv names = { 0 };
	if (root_exists(kern, DEVICES) && root_list(kern, DEVICES, &names, err) < 0)
		return -1;
	*ret = names.count;
	return 0;
}

static bool is_in_kernel(const struct root *kern, const char *module)
{
	auto_str char *path = str_fmt("sys/module/%s", module);
	return root_exists(kern, path);
}

void daemon_request_done(struct daemon_request *w)
{
	strv_done(&w->settings);
}

int daemon_request_read(char *const *environment, struct daemon_request *ret, struct err *err)
{
	if (fabric_manager_settings(environment, &ret->settings, err) < 0)
		return -1;
	for (; *environment; environment++)
		ret->is_vgpu = ret->is_vgpu || str_eq(*environment, "DRIVER_TYPE=vgpu");
	return 0;
}

int daemon_facts_read(const struct root *kern, const struct root *driver, const struct daemon_request *request,
		      struct daemon_facts *ret, struct err *err)
{
	auto_daemon_facts struct daemon_facts f = { 0 };
	auto_strv struct strv programs = { 0 };
	if (count_switches(kern, &f.switches, err) < 0)
		return -1;
	int bridge = fabric_manager_bridge(kern, &f.bridge, err);
	if (bridge < 0)
		return -1;
	f.is_bridge_down = bridge && !f.bridge;
	f.is_fabric_mode = strv_has(&request->settings, "FABRIC_MODE=1");
	f.is_vgpu = request->is_vgpu;
	f.has_gridd_conf = root_exists(kern, "drivers/gridd.conf");
	f.has_topology_conf = root_exists(kern, "etc/nvidia/nvidia-topologyd.conf");
	daemon_programs(&programs);
	for (size_t i = 0; i < programs.count; i++)
		if (root_exists(driver, programs.items[i]))
			strv_add(&f.programs, str_dup(programs.items[i]));
	for (size_t i = 0; daemon_modules[i]; i++)
		if (is_in_kernel(kern, daemon_modules[i]))
			strv_add(&f.modules, str_dup(daemon_modules[i]));
	*ret = f;
	f = (struct daemon_facts){ 0 };
	return 0;
}
