// SPDX-License-Identifier: Apache-2.0
#include "cmd/container/driver_manager.h"

#include "cmd/common/entry.h"
#include "cmd/common/termlog.h"
#include "cmd/container/nvidia_driver.h"

#include <ctype.h>
#include <stdio.h>

#define OPT(name, arg, env, type, member, help)                                               \
	{                                                                                     \
		name, 0, arg, env, type, offsetof(struct driver_manager_values, member), help \
	}
static const struct opt opts[] = {
	OPT("node", "NAME", "NODE_NAME", OPT_STR, node, "the Node that this machine is"),
	OPT("operator-namespace", "NAME", "OPERATOR_NAMESPACE", OPT_STR, namespace,
	    "where the driver's pod is; default that of the service account"),
	OPT("evict-gpu-pods", NULL, "ENABLE_GPU_POD_EVICTION", OPT_FLAG, is_evicting,
	    "evict pods that use a GPU, where the operator's own controller of upgrades does not"),
	OPT("auto-drain", NULL, "ENABLE_AUTO_DRAIN", OPT_FLAG, is_draining,
	    "evict every pod of the node when the driver is in use after that"),
	OPT("drain-force", NULL, "DRAIN_USE_FORCE", OPT_FLAG, is_forced,
	    "evict pods that nothing would start again, too"),
	OPT("drain-delete-emptydir", NULL, "DRAIN_DELETE_EMPTYDIR_DATA", OPT_FLAG, deletes_empty_dir,
	    "evict pods whose emptyDir would be lost, too"),
	OPT("drain-selector", "LABELS", "DRAIN_POD_SELECTOR_LABEL", OPT_STR, drain_selector,
	    "with --auto-drain: pods with these labels alone"),
	OPT("drain-timeout", "DURATION", "DRAIN_TIMEOUT_SECONDS", OPT_STR, drain_timeout,
	    "deadline of evictions, such as 5m; default, and for 0s, 10m: then all is given back and the start fails"),
	OPT("operand-label", "LABEL", "NODE_LABEL_FOR_GPU_POD_EVICTION", OPT_STR, operand_label,
	    "one more label of the Node that is paused as those of the operands are"),
	OPT("config-digest", "TEXT", "DRIVER_CONFIG_DIGEST", OPT_STR, config_digest,
	    "of the pod's configuration: with that of /run/nvidia/nvidia-driver.state nothing is looked at"),
	OPT("force-reinstall", NULL, "FORCE_REINSTALL", OPT_FLAG, is_reinstall,
	    "take the driver out although the kernel has the wished one; its package must be in the store"),
	OPT("kubelet-dir", "DIR", "KMODSMITH_KUBELET_DIR", OPT_STR, kubelet_dir,
	    "of the host, where the files of the driver's container below /drivers are read; default /var/lib/kubelet"),
	OPT("no-daemons", NULL, "KMODSMITH_NO_DAEMONS", OPT_FLAG, is_without_daemons,
	    "the driver's container starts none of the driver's daemons"),
	OPT("termination-log", "FILE", NULL, OPT_STR, termination_log, TERMLOG_HELP),
	{ 0 },
};

// A number and a unit, again and again.
int driver_manager_seconds(const char *text, unsigned *ret, struct err *err)
{
	static const struct {
		const char *unit;
		unsigned ms;
	} units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "", 1000 } };
	enum { DAY_S = 86400, DIGITS = 6 };
	uint64_t sum = 0;
	const char *c = text ? text : "";
	while (*c) {
		size_t digits = strspn(c, "0123456789"), letters = strcspn(c + digits, "0123456789"), u = 0;
		while (u < ARRAY_SIZE(units) &&
		       (strlen(units[u].unit) != letters || strncmp(units[u].unit, c + digits, letters) != 0))
			u++;
		if (!digits || digits > DIGITS || u == ARRAY_SIZE(units))
			return err_set(err, E_USAGE, "drain-timeout: '%s' is no duration such as 300s, 5m or 1h30m",
				       text);
		sum += strtoull(c, NULL, 10) * units[u].ms;
		c += digits + letters;
	}
	*ret = (unsigned)(sum / 1000 < DAY_S ? sum / 1000 : DAY_S);
	return 0;
}

void driver_manager_result_done(struct driver_manager_result *r)
{
	free(r->why);
	strv_done(&r->unloaded);
	*r = (struct driver_manager_result){ 0 };
}

extern const struct cmd cmd_driver_manager_uninstall, cmd_driver_manager_preflight;

static int run_driver_manager(const struct cmd *cmd, struct driver_manager_values *v, bool is_change, struct err *err)
{
	auto_driver_manager_result struct driver_manager_result result = { 0 };
	if (driver_manager_run(cmd, v, is_change, &result, err) < 0)
		return -1;
	if (v->job.origin.remote.common.is_json) {
		auto_json json_t *json =
			json_pack("{s:o, s:o}", "unloaded", json_strv(&result.unloaded), "why", json_text(result.why));
		show_json(json);
	} else {
		printf("%s: %s\n", result.end == DRIVER_MANAGER_UNLOADED ? "unloaded" : "nothing was touched",
		       result.why);
	}
	return 0;
}

static int run_uninstall(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	return run_driver_manager(&cmd_driver_manager_uninstall, values, true, err);
}

static int run_preflight(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	return run_driver_manager(&cmd_driver_manager_preflight, values, false, err);
}

static void write_manager_termlog(const void *values, const struct err *err)
{
	const struct driver_manager_values *v = values;
	termlog_write(&v->job.origin.remote.common, v->termination_log, err);
}

const struct cmd cmd_driver_manager_uninstall = {
	.name = "driver-manager uninstall",
	.help = "make room for the next driver: `driver-manager uninstall_driver` in the operator's driver pods",
	.about = "The init container of the GPU Operator's driver pods. The environment of the container that will "
		 "load the "
		 "driver is\n"
		 "read from the pod. When the kernel has already what that would load, nothing is unloaded and nobody "
		 "is "
		 "evicted,\n"
		 "whatever else of the configuration has changed. Else the next driver is brought or compiled and "
		 "proven "
		 "first; a\n"
		 "failure of that leaves the driver and every pod as they are. Then the operator's operands are paused "
		 "by "
		 "their labels,\n"
		 "GPU pods are evicted where that is allowed, the driver is unloaded and its root taken away, and "
		 "labels "
		 "and cordon are\n"
		 "given back; the cordon of somebody else stays. A failure on the way gives them back, too, and a run "
		 "that "
		 "was killed\n"
		 "is ended by the next one. A failure is an exit status other than 0, with the error in "
		 "/dev/termination-log.\n\n"
		 "A driver that the host has installed by itself is left to it: the Node gets the label "
		 "nvidia.com/gpu.deploy.driver=pre-installed,\n"
		 "as NVIDIA's manager does it. GPUs that vfio-pci has are refused (E_BOUND) and not unbound, and the "
		 "network driver of GPUDirect\n"
		 "RDMA is waited for by the driver's container.\n",
	.opts = { opts, source_opts, job_opts, share_opts, package_opts, origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct driver_manager_values),
	.run = run_uninstall,
	.failed = write_manager_termlog,
};

const struct cmd cmd_driver_manager_preflight = {
	.name = "driver-manager preflight",
	.help = "whether the driver that the pod would load can be had and fits, as `driver-manager preflight_check`",
	.about =
		"Brings or compiles what the driver's container of this pod would load, and proves it. Nothing that is "
		"in use is\ntouched, on the node or in the cluster.\n",
	.opts = { opts, source_opts, job_opts, share_opts, package_opts, origin_opts, remote_opts, common_opts },
	.values_size = sizeof(struct driver_manager_values),
	.run = run_preflight,
	.failed = write_manager_termlog,
};

static const struct {
	const char *name, *ours;
} verbs[] = { { "uninstall_driver", "uninstall" }, { "preflight_check", "preflight" } };

static int driver_manager_usage(FILE *out, int status)
{
	fprintf(out, "Usage: driver-manager VERB [OPTIONS]\n\nVerbs:\n");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		fprintf(out, "  %-18s see `kmodsmith driver-manager %s --help`\n", verbs[i].name, verbs[i].ours);
	return status;
}

int driver_manager_main(int argc, char **argv)
{
	auto_strv struct strv words = { 0 }, warnings = { 0 };
	log_setup(LOG_LEVEL_INFO, str_eq(getenv("KMODSMITH_LOG_FORMAT"), "json"));
	if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h") || str_eq(argv[1], "help")))
		return driver_manager_usage(stdout, 0);
	strv_add(&words, str_dup("driver-manager"));
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(verbs); i++)
		if (str_eq(argv[1], verbs[i].name))
			strv_add(&words, str_dup(verbs[i].ours));
	if (words.count < 2)
		return driver_manager_usage(stderr, 1);
	for (int i = 2; i < argc; i++)
		strv_add(&words, str_dup(argv[i]));
	nvidia_driver_environment(&warnings);
	if (getenv("KUBECONFIG")) // by its name there
		setenv("KMODSMITH_KUBECONFIG", getenv("KUBECONFIG"), 0);
	for (size_t i = 0; i < warnings.count; i++)
		log_warn("%s", warnings.items[i]);
	return entry_run_words((int)words.count, words.items);
}
