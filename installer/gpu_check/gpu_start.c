// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/gpu_start.h"

#include "base/core/date.h"
#include "host/gpu_support.h"
#include "kmod/load/kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char CHILD[] = "gpu-start"; // what the processes that open GPUs are called

// kernel-open/common/inc/nv-ioctl.h and nv-ioctl-numbers.h: {what the open came to, negative; adapter status}
#define WAIT_OPEN_COMPLETE _IOWR('F', 218, int32_t[2])

// 0, or the errno of the start.
static int wait_for_start(int fd)
{
	int32_t done[2] = { 0 };
	int r;
	do {
		r = ioctl(fd, WAIT_OPEN_COMPLETE, done);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? 0 : -done[0];
}

// A driver that does not know the call, and complains of it in the kernel's log, has started the GPU in open().
static int open_gpu(const struct gpu_start *s, int dev, const char *name, int *ret_fd)
{
	enum { FIRST_BRANCH = 550 };
	*ret_fd = s->node->sys->device_open(s->node->sys, dev, name);
	if (*ret_fd < 0)
		return errno;
	return gpu_driver_branch(s->facts->loaded.version) < FIRST_BRANCH ? 0 : wait_for_start(*ret_fd);
}

// In the child: answers, then holds the GPU until the other end is closed. It takes no signal of a terminal, which
// would end a start half-way, and keeps nothing open that its parent wants to be rid of, such as the node's lock.
static void hold_gpu(const struct gpu_start *s, int dev, const char *name, int link)
{
	int fd, error;
	char ignored;
	setsid();
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_NAME, CHILD);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	int low = dup2(link, 0), dir = dup2(dev, 1);
	closefrom(2);
	error = open_gpu(s, dir, name, &fd);
	if (write(low, &error, sizeof(error)) == (ssize_t)sizeof(error) && !error)
		while (read(low, &ignored, 1) < 0 && errno == EINTR)
			;
	_exit(0);
}

static int begin_start(const struct gpu_start *s, const char *name, struct gpu_hold *ret, struct err *err)
{
	int pair[2];
	auto_fd int dev = root_open(s->node->dev_root, "dev", O_RDONLY | O_DIRECTORY, err);
	if (dev < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, errno, "socketpair");
	auto_fd int link = pair[0], other = pair[1];
	pid_t child = fork();
	if (child < 0)
		return err_set(err, errno, "start a process");
	if (child == 0)
		hold_gpu(s, dev, name, other);
	*ret = (struct gpu_hold){ .child = child, .link = TAKE_FD(link) };
	return 0;
}

// 1 = the start has ended with *ret_error, 0 = not in time, -1 = its process was killed.
static int await_start(const struct gpu_start *s, const struct gpu_hold *h, const char *address, int *ret_error)
{
	enum { SAY_AFTER_MS = 10 * 1000 };
	int64_t begun = clock_ms(), most = s->timeout_ms ? s->timeout_ms : GPU_START_TIMEOUT_MS;
	bool is_said = false;
	for (;;) {
		struct pollfd p = { .fd = h->link, .events = POLLIN };
		int64_t spent = clock_ms() - begun, next = is_said || most < SAY_AFTER_MS ? most : SAY_AFTER_MS;
		int r = poll(&p, 1, spent < next ? (int)(next - spent) : 0);
		if (r < 0 && errno == EINTR)
			continue;
		if (r > 0)
			return read(h->link, ret_error, sizeof(*ret_error)) == (ssize_t)sizeof(*ret_error) ? 1 : -1;
		if (next == most)
			return 0;
		progress_note(s->node->progress, "%s has been starting for %d s, and has %d s more", address,
			      (int)(next / 1000), (int)((most - next) / 1000));
		is_said = true;
	}
}

static void add_hold(struct gpu_holds *holds, struct gpu_hold *take)
{
	holds->items = mem_grow(holds->items, holds->count + 1, sizeof(*holds->items));
	holds->items[holds->count++] = *take;
	take->link = -1;
}

// A recorded machine answers at once, in this process.
static int start_recorded(const struct gpu_start *s, const char *name, int *ret_error, struct err *err)
{
	auto_fd int fd = -1;
	auto_fd int dev = root_open(s->node->dev_root, "dev", O_RDONLY | O_DIRECTORY, err);
	if (dev < 0)
		return -1;
	*ret_error = open_gpu(s, dev, name, &fd);
	return 1;
}

static int start_real(const struct gpu_start *s, const char *name, struct gpu_result *g, struct gpu_holds *holds,
		      int *ret_error, struct err *err)
{
	struct gpu_hold hold = { .link = -1 };
	if (begin_start(s, name, &hold, err) < 0)
		return -1;
	int r = await_start(s, &hold, g->address, ret_error);
	if (r > 0) {
		add_hold(holds, &hold);
		return 1;
	}
	// It is not killed, and nobody waits for it: its link is closed, so it ends when the driver lets it.
	close_fdp(&hold.link);
	g->outcome = GPU_PENDING;
	g->reason = r == 0 ? str_fmt("its start has not ended (process %d waits for it)", (int)hold.child) :
			     str_fmt("process %d, which started it, was killed in the driver", (int)hold.child);
	return 0;
}

static int start_one(const struct gpu_start *s, struct gpu_result *g, struct gpu_holds *holds, struct err *err)
{
	auto_strv struct strv lines = { 0 };
	auto_fd int log = kernel_log_open(s->node->kern);
	auto_str char *name = str_fmt("nvidia%d", g->minor);
	int error = 0;
	g->level = GPU_START;
	int r = s->node->sys->record ? start_recorded(s, name, &error, err) :
				       start_real(s, name, g, holds, &error, err);
	if (r < 0)
		return err_wrap(err, "start GPU %s", g->address);
	kernel_log_read(log, &lines);
	if (r > 0 && error)
		gpu_start_explain(g->address, error, &lines, g);
	else if (r > 0)
		g->outcome = GPU_WORKS;
	return 0;
}

static struct gpu_result *add_gpu(struct gpu_results *r, const char *address)
{
	r->items = mem_grow(r->items, r->count + 1, sizeof(*r->items));
	r->items[r->count] = (struct gpu_result){ .address = str_dup(address), .minor = -1 };
	return &r->items[r->count++];
}

// A GPU whose probe failed is simply not there, and modprobe succeeds all the same.
static void add_absent(struct gpu_results *r, const struct gpu *gpu, const struct root *kern)
{
	struct gpu_result *g = add_gpu(r, gpu->address);
	auto_str char *line = NULL;
	g->outcome = GPU_BROKEN;
	if (gpu->driver && gpu_owner(gpu) != GPU_NVIDIA)
		g->reason = str_fmt("is bound to %s", gpu->driver);
	else if (kernel_log_last(kern, gpu->address, &line) > 0)
		g->reason = str_fmt("has no driver (kernel: %.200s)", line);
	else
		g->reason = str_dup("has no driver");
}

// A function that does not answer reads as ones (PCI Local Bus Specification, master abort).
static bool is_off_the_bus(const struct root *kern, const char *address)
{
	static const unsigned char nobody[] = { 0xff, 0xff };
	auto_str char *path = str_fmt("sys/bus/pci/devices/%s/config", address), *config = NULL;
	struct err ignored;
	size_t len;
	return root_read(kern, path, &config, &len, &ignored) > 0 && len >= sizeof(nobody) &&
	       memcmp(config, nobody, sizeof(nobody)) == 0;
}

static int list_gpus(const struct gpu_start *s, struct gpu_results *ret, struct err *err)
{
	const struct modules *l = &s->facts->loaded;
	auto_strv struct strv names = { 0 };
	if (root_list(s->node->kern, "proc/driver/nvidia/gpus", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < s->facts->gpus.count; i++) {
		const struct gpu *gpu = &s->facts->gpus.items[i];
		if (!strv_has(&names, gpu->address)) {
			if (gpu_support_expects(gpu, l->version, l->flavour))
				add_absent(ret, gpu, s->node->kern);
			continue;
		}
		auto_str char *path = str_fmt("proc/driver/nvidia/gpus/%s/information", gpu->address), *text = NULL;
		int r = root_read(s->node->kern, path, &text, NULL, err);
		if (r < 0)
			return -1;
		auto_str char *excluded = r > 0 ? str_proc_value(text, "GPU Excluded") : NULL;
		auto_str char *minor = r > 0 ? str_proc_value(text, "Device Minor") : NULL;
		uint64_t number;
		struct gpu_result *g = add_gpu(ret, gpu->address);
		if (str_eq(excluded, "Yes")) { // its open would be EPERM
			g->outcome = GPU_EXCLUDED;
			g->reason = str_dup("excluded (NVreg_ExcludedGpus)");
		} else if (is_off_the_bus(s->node->kern, gpu->address)) { // its open would wait for what never comes
			g->outcome = GPU_BROKEN;
			g->is_reset_due = true;
			g->level = GPU_START;
			g->reason = str_dup("fell off the bus (its PCI configuration reads as ones)");
		}
		if (minor && str_u64(minor, 10, &number) && number < INT32_MAX)
			g->minor = (int)number;
	}
	return 0;
}

int gpu_start_all(const struct gpu_start *s, struct gpu_results *ret, struct gpu_holds *ret_holds, struct err *err)
{
	auto_gpu_results struct gpu_results r = { 0 };
	bool is_pending = false;
	if (list_gpus(s, &r, err) < 0)
		return -1;
	for (size_t i = 0; i < r.count; i++) {
		struct gpu_result *g = &r.items[i];
		if (g->outcome != GPU_UNTESTED)
			continue;
		if (is_pending)
			g->reason = str_dup("not tried, because another GPU's start has not ended");
		else if (g->minor < 0)
			g->reason = str_dup("the driver does not tell its minor number");
		else if (start_one(s, g, ret_holds, err) < 0)
			return -1;
		is_pending = is_pending || g->outcome == GPU_PENDING;
		progress_tick(s->node->progress);
	}
	*ret = r;
	r = (struct gpu_results){ 0 };
	return 0;
}

int gpu_holds_release(struct gpu_holds *h)
{
	enum { CLOSE_MS = 30 * 1000, NAP_MS = 5 };
	int64_t until = clock_ms() + CLOSE_MS;
	size_t left = 0;
	for (size_t i = 0; i < h->count; i++)
		close_fdp(&h->items[i].link);
	for (size_t i = 0; i < h->count; i++) {
		int r;
		while ((r = waitpid(h->items[i].child, NULL, WNOHANG)) == 0 && clock_ms() < until)
			usleep(NAP_MS * 1000);
		left += r == 0;
	}
	free(h->items);
	*h = (struct gpu_holds){ 0 };
	return left == 0;
}

void gpu_holds_done(struct gpu_holds *h)
{
	gpu_holds_release(h);
}

int gpu_start_find_pending(const struct root *kern, char **ret_who)
{
	auto_strv struct strv pids = { 0 };
	struct err ignored;
	*ret_who = NULL;
	if (root_list(kern, "proc", &pids, &ignored) < 0)
		return 0;
	for (size_t i = 0; i < pids.count; i++) {
		uint64_t pid;
		char name[32], state;
		if (!str_u64(pids.items[i], 10, &pid))
			continue;
		auto_str char *path = str_fmt("proc/%s/stat", pids.items[i]), *stat = NULL;
		if (root_line(kern, path, &stat, &ignored) <= 0 || sscanf(stat, "%*d (%31[^)]) %c", name, &state) != 2)
			continue;
		// nv_open_q sleeps interruptibly while it has nothing to do.
		if ((str_eq(name, "nv_open_q") && state != 'S' && state != 'I') ||
		    (str_eq(name, CHILD) && state == 'D')) {
			*ret_who = str_fmt("%s, process %s", name, pids.items[i]);
			return 1;
		}
	}
	return 0;
}
