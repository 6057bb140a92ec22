// SPDX-License-Identifier: Apache-2.0
// GPUDirect RDMA's module: the main process of a container beside the driver's, and its probe.
#include "peermem/peermem.h"
#include "cmd/common/job.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

enum { LOOK_S = 2, WAIT_S = 1200 }; // as long as the operator's startup probe waits

struct values {
	struct common common;
	char *state_dir, *trust_dir;
	unsigned timeout_s, unload_timeout_s;
	bool is_host_mofed, is_once;
};

static const struct opt load_opts[] = {
	{ "host-mofed", 0, NULL, "USE_HOST_MOFED", OPT_FLAG, offsetof(struct values, is_host_mofed),
	  "the network driver is the host's, not a container's" },
	{ "once", 0, NULL, NULL, OPT_FLAG, offsetof(struct values, is_once), "exit once it is loaded" },
	{ "timeout", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct values, timeout_s),
	  "deadline for the driver and the network driver to be loaded; default 1200" },
	{ "unload-timeout", 0, "SECONDS", NULL, OPT_UINT, offsetof(struct values, unload_timeout_s),
	  UNLOAD_TIMEOUT_HELP },
	{ "state-dir", 0, "DIR", "KMODSMITH_STATE_DIR", OPT_STR, offsetof(struct values, state_dir),
	  "state directory with the node's packages; default /var/lib/kmodsmith of the host" },
	{ "trust-dir", 0, "DIR", "KMODSMITH_TRUST_DIR", OPT_STR, offsetof(struct values, trust_dir),
	  "keys that the package must be signed by; default etc/kmodsmith/trust of the host" },
	{ 0 },
};

static const int stops[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };

static void show_peermem_state(enum peermem_state state, const char *why, bool has_dma_buf, bool is_json)
{
	if (is_json) {
		auto_json json_t *json = json_pack("{s:s, s:o, s:b}", "state", peermem_state_name(state), "why",
						   json_text(why), "dma_buf", has_dma_buf);
		show_json(json);
	} else {
		printf("%s: %s\n", peermem_state_name(state), why);
	}
}

// Until a signal, or until there is nothing more to do. 1 = a signal.
static int load_until_stopped(struct peermem *p, bool is_once, struct err *err)
{
	static const struct timespec look = { .tv_sec = LOOK_S };
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(stops); i++)
		sigaddset(&set, stops[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (;;) {
		int r = peermem_step(p, err);
		if (r < 0 || (r > 0 && is_once))
			return r < 0 ? -1 : 0;
		if (sigtimedwait(&set, NULL, &look) > 0)
			return 1;
	}
}

static int run_load(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	auto_root struct root state = ROOT_NONE;
	auto_progress struct progress progress = show_progress_log();
	if (machine_open(&v->common, &m, err) < 0 || job_state_existing(v->state_dir, &m, &state, err) < 0)
		return -1;
	m.node.state = state.fd < 0 ? NULL : &state;
	m.node.progress = &progress;
	struct peermem p = { .node = &m.node,
			     .trust_dir = v->trust_dir,
			     .is_host_mofed = v->is_host_mofed,
			     .timeout_ms = job_unload_timeout_ms(v->timeout_s ? v->timeout_s : WAIT_S),
			     .unload_timeout_ms = job_unload_timeout_ms(v->unload_timeout_s) };
	int r = load_until_stopped(&p, v->is_once, err);
	if (r > 0)
		log_info("exiting; nvidia-peermem stays as it is");
	if (r == 0)
		show_peermem_state(p.now, p.why, p.has_dma_buf, v->common.is_json);
	return r < 0 ? -1 : 0;
}

static int run_peermem_probe(void *values, char **args, size_t count, struct err *err)
{
	(void)args, (void)count;
	const struct values *v = values;
	auto_machine struct machine m = MACHINE_NONE;
	struct peermem_status look;
	if (machine_open(&v->common, &m, err) < 0)
		return -1;
	int r = peermem_status(&m.host, &m.kern, &look, err);
	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(err, E_NOT_READY, "nvidia-peermem is not loaded, and nothing is loading it");
	if (!look.is_fine)
		return err_set(err, E_NOT_READY, "nvidia-peermem is not loaded; last state: %s", look.why);
	show_peermem_state(look.state, look.why, look.has_dma_buf, v->common.is_json);
	return 0;
}

const struct cmd cmd_peermem_load = {
	.name = "peermem load",
	.help = "load nvidia-peermem beside a driver that is ready, and keep it loaded",
	.about = "For GPUDirect RDMA: waits for the driver and the network driver, compares the module's symbols\n"
		 "with those of the loaded ib_core, loads it with the parameters of /drivers/nvidia-peermem.conf,\n"
		 "and runs until a signal; a module that vanishes is loaded again. It does not try what the kernel\n"
		 "would refuse (E_ABI, E_SYMBOL), and every wait has a deadline (E_PEERMEM). The GPUs are ready\n"
		 "with or without it.\n\n"
		 "A machine without a Mellanox PCI function (15b3) needs no module; the command then only waits for\n"
		 "the signal.\n\n"
		 "  kmodsmith peermem load --timeout 600\n",
	.opts = { load_opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_load,
};

const struct cmd cmd_peermem_probe = {
	.name = "peermem probe",
	.help = "check whether nvidia-peermem is loaded or still has time to load; for a liveness probe",
	.about = "Exit status 0: it is loaded, `peermem load` is within its deadline, or this machine needs none;\n"
		 "1: it is lost.\n"
		 "Reads two files and changes nothing.\n\n"
		 "  kmodsmith peermem probe\n",
	.opts = { common_opts },
	.values_size = sizeof(struct values),
	.run = run_peermem_probe,
};
