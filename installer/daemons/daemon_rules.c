// SPDX-License-Identifier: Apache-2.0
#include "daemons/daemon_rules.h"

#include "daemons/fabric_manager.h"

const char *const daemon_modules[] = { "mlx5_core", "ib_umad", NULL };

void daemon_facts_done(struct daemon_facts *f)
{
	free(f->bridge);
	strv_done(&f->programs);
	strv_done(&f->modules);
	*f = (struct daemon_facts){ 0 };
}

void daemons_done(struct daemons *d)
{
	for (size_t i = 0; i < d->count; i++) {
		strv_done(&d->items[i].argv);
		strv_done(&d->items[i].after);
		free(d->items[i].why);
		free(d->items[i].why_not);
	}
	free(d->items);
	*d = (struct daemons){ 0 };
}

static bool has_bridge(const struct daemon_facts *f)
{
	return f->bridge || f->is_bridge_down;
}

static char *why_always(const struct daemon_facts *f)
{
	(void)f;
	return str_dup("keeps the driver initialised while no process uses a GPU");
}

static char *why_bridge(const struct daemon_facts *f)
{
	return has_bridge(f) ? str_dup("an NVLink5 management bridge (SW_MNG)") : NULL;
}

static char *why_fabric(const struct daemon_facts *f)
{
	return f->switches ? str_fmt("%zu NVSwitches", f->switches) : why_bridge(f);
}

static char *why_licence(const struct daemon_facts *f)
{
	return f->is_vgpu && f->has_gridd_conf ? str_dup("a virtual GPU with a licence configuration") : NULL;
}

static char *why_topology(const struct daemon_facts *f)
{
	return f->is_vgpu && f->has_topology_conf ? str_dup("a virtual GPU with a topology configuration") : NULL;
}

static void persistence_args(const struct daemon_facts *f, struct strv *argv)
{
	(void)f;
	strv_add(argv, str_dup("--persistence-mode"));
}

static void bridge_args(const struct daemon_facts *f, struct strv *argv)
{
	strv_split(argv,
		   "--config /usr/share/nvidia/nvlsm/nvlsm.conf --pid_file "
		   "/run/nvidia-fabricmanager/nvlsm.pid --log_file stdout --guid",
		   " ");
	strv_add(argv, str_dup(f->bridge ? f->bridge : ""));
}

static void fabric_args(const struct daemon_facts *f, struct strv *argv)
{
	strv_split(argv, "-c /" FABRIC_CONFIG, " ");
	if (!f->switches) {
		strv_add(argv, str_dup("--fm-sm-mgmt-port-guid"));
		strv_add(argv, str_dup(f->bridge ? f->bridge : ""));
	}
}

// In the order of starting. The contract's order of stopping is the reverse.
static const struct rule {
	const char *name, *program, *dir, *pid_file, *socket, *follows, *env;
	char *(*why)(const struct daemon_facts *f); // NULL = not needed
	void (*args)(const struct daemon_facts *f, struct strv *argv);
	bool is_forking, is_needed, is_on_bridge, is_guest;
} rules[] = {
	{ .name = "nvlsm",
	  .program = "opt/nvidia/nvlsm/sbin/nvlsm",
	  .dir = "nvidia-fabricmanager",
	  .pid_file = "nvlsm.pid",
	  .why = why_bridge,
	  .args = bridge_args,
	  .is_needed = true,
	  .is_on_bridge = true },
	{ .name = "nvidia-fabricmanager",
	  .program = "usr/bin/nv-fabricmanager",
	  .dir = "nvidia-fabricmanager",
	  .pid_file = "nv-fabricmanager.pid",
	  .socket = "socket",
	  .follows = "nvlsm",
	  .why = why_fabric,
	  .args = fabric_args,
	  .is_needed = true },
	{ .name = "nvidia-topologyd",
	  .program = "usr/bin/nvidia-topologyd",
	  .dir = "nvidia-topologyd",
	  .pid_file = "nvidia-topologyd.pid",
	  .is_forking = true,
	  .why = why_topology,
	  .is_guest = true },
	{ .name = "nvidia-gridd",
	  .program = "usr/bin/nvidia-gridd",
	  .dir = "nvidia-gridd",
	  .pid_file = "nvidia-gridd.pid",
	  .is_forking = true,
	  .env = "LD_LIBRARY_PATH=/usr/lib/nvidia/gridd",
	  .why = why_licence,
	  .is_guest = true },
	{ .name = "nvidia-persistenced",
	  .program = "usr/bin/nvidia-persistenced",
	  .dir = "nvidia-persistenced",
	  .pid_file = "nvidia-persistenced.pid",
	  .is_forking = true,
	  .socket = "socket",
	  .why = why_always,
	  .args = persistence_args },
};

void daemon_programs(struct strv *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		strv_add(ret, str_dup(rules[i].program));
}

void daemon_dirs(const struct root *driver, struct strv *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (root_exists(driver, rules[i].program) && !strv_has(ret, rules[i].dir))
			strv_add(ret, str_dup(rules[i].dir));
}

// All of them, for the reader who loads them.
static char *missing_daemon_modules(const struct daemon_facts *f)
{
	char *text = NULL;
	for (size_t i = 0; daemon_modules[i]; i++)
		if (!strv_has(&f->modules, daemon_modules[i]))
			str_add(&text, "%s%s", text ? ", " : "", daemon_modules[i]);
	return text;
}

static char *describe_obstacle(const struct rule *rule, const struct daemon_facts *f)
{
	auto_str char *missing = rule->is_on_bridge ? missing_daemon_modules(f) : NULL;
	if (!strv_has(&f->programs, rule->program))
		return str_fmt("the driver's user space has no /%s", rule->program);
	if (missing)
		return str_fmt("waiting for host modules that are not loaded: %s", missing);
	if (rule->is_on_bridge && !f->bridge)
		return str_dup("waiting for the GUID of the management bridge's port");
	return NULL;
}

static void add_daemon(struct daemons *d, const struct rule *rule, const struct daemon_facts *f, char *take_why)
{
	struct daemon x = { .name = rule->name,
			    .program = rule->program,
			    .why = take_why,
			    .why_not = describe_obstacle(rule, f),
			    .dir = rule->dir,
			    .pid_file = rule->pid_file,
			    .socket = rule->socket,
			    .env = rule->env,
			    .is_guest = rule->is_guest,
			    .follows = rule->follows && !f->switches ? rule->follows : NULL,
			    .is_forking = rule->is_forking,
			    .is_needed = rule->is_needed,
			    .is_absent = !strv_has(&f->programs, rule->program),
			    .is_configured = rule->args == fabric_args };
	strv_add(&x.argv, str_fmt("/%s", rule->program));
	if (rule->args)
		rule->args(f, &x.argv);
	if (x.is_configured && f->is_fabric_mode && !f->switches)
		strv_split(&x.after, "/usr/bin/nvidia-smi -r", " ");
	d->items = mem_grow(d->items, d->count + 1, sizeof(*d->items));
	d->items[d->count++] = x;
}

void daemons_rules(const struct daemon_facts *f, struct daemons *ret)
{
	struct daemons d = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		// Switches that the driver itself serves need no bridge, even if there is one.
		char *why = rules[i].is_on_bridge && f->switches ? NULL : rules[i].why(f);
		if (why)
			add_daemon(&d, &rules[i], f, why);
	}
	*ret = d;
}

// The target of a link was checked under its own name when the payload was made.
static bool is_program_link(const struct root *driver, const char *program)
{
	struct err ignored;
	auto_str char *target = NULL;
	return root_readlink(driver, program, &target, &ignored) > 0;
}

int daemons_check(const struct daemons *d, const struct root *driver, const struct version_check *belong,
		  struct err *err)
{
	for (size_t i = 0; i < d->count; i++) {
		const struct daemon *x = &d->items[i];
		if (!x->is_needed)
			continue;
		if (x->is_absent)
			return err_set(err, E_DAEMON, "%s needs %s: %s", x->why, x->name, x->why_not);
		if (!is_program_link(driver, x->program) &&
		    version_check_file(belong, driver, x->program, x->program, err) < 0)
			return err_code(err, err->code == E_USAGE ? E_DAEMON : err->code);
	}
	return 0;
}

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
