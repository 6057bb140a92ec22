// SPDX-License-Identifier: Apache-2.0
#include "daemons/daemon_rules.h"

#include <ctype.h>
#include <stdio.h>

static const char CLASS[] = "sys/class/infiniband";
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

static char *why_always(const struct daemon_facts *f)
{
	(void)f;
	return str_dup("keeps the driver initialised while no process uses a GPU");
}

static char *why_bridge(const struct daemon_facts *f)
{
	return f->bridge || f->is_bridge_down ? str_dup("an NVLink5 management bridge (SW_MNG)") : NULL;
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
	const char *name, *program, *dir, *pid_file, *socket, *follows;
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

void daemon_dirs(const struct root *driver, struct strv *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (root_exists(driver, rules[i].program) && !strv_has(ret, rules[i].dir))
			strv_add(ret, str_dup(rules[i].dir));
}

static char *describe_obstacle(const struct rule *rule, const struct daemon_facts *f)
{
	auto_str char *missing = NULL; // all of them, for the reader who loads them
	for (size_t i = 0; rule->is_on_bridge && daemon_modules[i]; i++)
		if (!strv_has(&f->modules, daemon_modules[i]))
			str_add(&missing, "%s%s", missing ? ", " : "", daemon_modules[i]);
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
			    .env = rule->why == why_licence ? f->gridd_env : NULL,
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

int daemons_check(const struct daemons *d, const struct root *driver, const struct version_check *belong,
		  struct err *err)
{
	for (size_t i = 0; i < d->count; i++) {
		const struct daemon *x = &d->items[i];
		struct err ignored;
		auto_str char *target = NULL;
		if (!x->is_needed)
			continue;
		if (x->is_absent)
			return err_set(err, E_DAEMON, "%s needs %s: %s", x->why, x->name, x->why_not);
		// The target of a link was checked under its own name when the payload was made.
		if (root_readlink(driver, x->program, &target, &ignored) <= 0 &&
		    version_check_file(belong, driver, x->program, x->program, err) < 0)
			return err_code(err, err->code == E_USAGE ? E_DAEMON : err->code);
	}
	return 0;
}

void daemon_request_done(struct daemon_request *w)
{
	strv_done(&w->settings);
}

int daemon_request_read(char *const *environment, struct daemon_request *ret, struct err *err)
{
	static const char PREFIX[] = "NVFM_CONFIG_";
	auto_daemon_request struct daemon_request w = { 0 };
	for (; *environment; environment++) {
		w.is_vgpu = w.is_vgpu || str_eq(*environment, "DRIVER_TYPE=vgpu");
		if (!str_starts(*environment, PREFIX))
			continue;
		const char *setting = *environment + strlen(PREFIX);
		size_t len = strspn(setting, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
		if (!len || setting[len] != '=' || strpbrk(setting + len, "\r\n"))
			return err_set(err, E_CONFIG, "environment: '%s' is not a setting of the fabric manager",
				       *environment);
		strv_add(&w.settings, str_dup(setting));
	}
	strv_sort(&w.settings);
	*ret = w;
	w = (struct daemon_request){ 0 };
	return 0;
}

// The lower half of the port's first GID, "fe80:0000:0000:0000:506b:4b03:00a1:b2c3" (IBA 4.1.1).
static char *read_port_guid(const struct root *kern, const char *device)
{
	struct err ignored;
	unsigned part[8];
	auto_str char *path = str_fmt("%s/%s/ports/1/gids/0", CLASS, device), *gid = NULL;
	if (root_line(kern, path, &gid, &ignored) <= 0 ||
	    sscanf(gid, "%x:%x:%x:%x:%x:%x:%x:%x", &part[0], &part[1], &part[2], &part[3], &part[4], &part[5], &part[6],
		   &part[7]) != 8 ||
	    !(part[4] | part[5] | part[6] | part[7]))
		return NULL;
	return str_fmt("0x%04x%04x%04x%04x", part[4], part[5], part[6], part[7]);
}

// NVLink5: the first InfiniBand device whose VPD has SW_MNG. 1 = there is one, with the GUID of its first port, or NULL
// while the port has none; 0 = there is none.
static int find_bridge(const struct root *kern, char **ret_guid, struct err *err)
{
	static const char MARK[] = "SW_MNG";
	auto_strv struct strv devices = { 0 };
	if (!root_exists(kern, CLASS))
		return 0;
	if (root_list(kern, CLASS, &devices, err) < 0)
		return -1;
	for (size_t i = 0; i < devices.count; i++) {
		auto_str char *path = str_fmt("%s/%s/device/vpd", CLASS, devices.items[i]), *vpd = NULL;
		struct err unread; // of a device without one, or one that does not answer
		size_t len;
		if (root_read(kern, path, &vpd, &len, &unread) > 0 && memmem(vpd, len, MARK, strlen(MARK))) {
			*ret_guid = read_port_guid(kern, devices.items[i]);
			return 1;
		}
	}
	return 0;
}

// Where the payload has nvidia-gridd's own libraries: by `pack payload` and in NVIDIA's images of Ubuntu, in those of
// RHEL, and where the driver's installer puts them otherwise. NULL = nowhere: newer drivers need none.
static const char *find_gridd_libraries(const struct root *driver)
{
	static const char VARIABLE[] = "LD_LIBRARY_PATH=/";
	static const char *const dirs[] = { "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/nvidia/gridd",
					    "LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu/nvidia/gridd",
					    "LD_LIBRARY_PATH=/usr/lib64/nvidia/gridd",
					    "LD_LIBRARY_PATH=/usr/lib/nvidia/gridd" };
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		auto_strv struct strv names = { 0 };
		struct err ignored;
		if (root_list(driver, dirs[i] + strlen(VARIABLE), &names, &ignored) <= 0)
			continue;
		for (size_t n = 0; n < names.count; n++)
			if (str_starts(names.items[n], "libFlx"))
				return dirs[i];
	}
	return NULL;
}

int daemon_facts_read(const struct root *kern, const struct root *driver, const struct daemon_request *request,
		      struct daemon_facts *ret, struct err *err)
{
	static const char SWITCHES[] = "proc/driver/nvidia-nvswitch/devices";
	auto_daemon_facts struct daemon_facts f = { 0 };
	auto_strv struct strv switches = { 0 };
	if (root_exists(kern, SWITCHES) && root_list(kern, SWITCHES, &switches, err) < 0)
		return -1;
	f.switches = switches.count;
	int bridge = find_bridge(kern, &f.bridge, err);
	if (bridge < 0)
		return -1;
	f.is_bridge_down = bridge && !f.bridge;
	f.is_fabric_mode = strv_has(&request->settings, "FABRIC_MODE=1");
	f.is_vgpu = request->is_vgpu;
	f.has_gridd_conf = root_exists(kern, "drivers/gridd.conf");
	f.gridd_env = find_gridd_libraries(driver);
	f.has_topology_conf = root_exists(kern, "etc/nvidia/nvidia-topologyd.conf");
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (root_exists(driver, rules[i].program))
			strv_add(&f.programs, str_dup(rules[i].program));
	for (size_t i = 0; daemon_modules[i]; i++) {
		auto_str char *path = str_fmt("sys/module/%s", daemon_modules[i]);
		if (root_exists(kern, path))
			strv_add(&f.modules, str_dup(daemon_modules[i]));
	}
	*ret = f;
	f = (struct daemon_facts){ 0 };
	return 0;
}

// "FIELD = VALUE", with blanks anywhere; a comment sets nothing.
static bool sets_field(const char *line, const char *field, size_t len)
{
	line += strspn(line, " \t");
	return strncmp(line, field, len) == 0 && line[len + strspn(line + len, " \t")] == '=';
}

static char *apply_setting(const char *text, const char *setting)
{
	size_t field = strcspn(setting, "=");
	bool is_set = false;
	char *out = str_dup("");
	while (*text) {
		size_t len = strcspn(text, "\n");
		if (!sets_field(text, setting, field))
			str_add(&out, "%.*s\n", (int)len, text);
		else if (!is_set)
			str_add(&out, "%s\n", setting);
		is_set = is_set || sets_field(text, setting, field);
		text += len + (text[len] == '\n');
	}
	if (!is_set)
		str_add(&out, "%s\n", setting);
	return out;
}

static char *edit_fabric_config(const char *text, const struct strv *settings)
{
	char *out = str_dup(text);
	for (size_t i = 0; i < settings->count; i++) {
		auto_str char *before = out;
		out = apply_setting(before, settings->items[i]);
	}
	return out;
}

int daemon_fabric_write(const struct root *host, const struct root *driver, const struct strv *settings,
			struct err *err)
{
	auto_strv struct strv all = { 0 };
	auto_str char *text = NULL;
	int r = root_read(driver, FABRIC_PAYLOAD_CONFIG, &text, NULL, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_NOT_FOUND, "the driver's user space has no /" FABRIC_PAYLOAD_CONFIG);
	strv_split(&all,
		   "LOG_FILE_NAME= LOG_USE_SYSLOG=0 STATE_FILE_NAME=/run/nvidia-fabricmanager/fabricmanager.state",
		   " ");
	for (size_t i = 0; i < settings->count; i++)
		strv_add(&all, str_dup(settings->items[i]));
	strv_add(&all, str_dup("DAEMONIZE=0"));
	auto_str char *edited = edit_fabric_config(text, &all);
	return root_mkdirs(host, "run/nvidia-fabricmanager", 0755, err) < 0 ?
		       -1 :
		       root_put(host, FABRIC_CONFIG, edited, strlen(edited), 0644, err);
}
