// SPDX-License-Identifier: Apache-2.0
// The GPU check's own process on stand-ins for NVIDIA's libraries (tests/gpu): what they say, and all that they can do
// to a process.
#include "gpu_check/gpu_helper.h"
#include "gpu_check/gpu_record.h"

#include "base/core/date.h"
#include "base/process/proc.h"
#include "tests/unit/tempdir.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { DEADLINE_MS = 20000, SHORT_MS = 1000, GPUS = 3 };
#define VERSION "123.45.06"
#define DIR "usr/lib64"
static const char *const addresses[GPUS] = { "0000:3b:00.0", "0000:86:00.0", "000a:af:00.0" };

static struct folder folder;
static struct root own_root;
static int open_fd;      // as a lock of the caller's
static bool is_immortal; // no process can be killed, as if it hung in the kernel

int kill(pid_t pid, int signal)
{
	return is_immortal ? 0 : (int)syscall(SYS_kill, pid, signal);
}

static void compile(const char *source, const char *library, const char *flag)
{
	auto_str char *to = str_fmt("%s/" DIR "/%s", folder.path, library), *gcc = proc_find(PROC_PATH, "gcc");
	const char *const argv[] = { gcc, "-D_GNU_SOURCE", "-I.", "-shared", "-fPIC", flag, "-o", to, source, NULL };
	const char *const env[] = { "PATH=/usr/bin:/bin", NULL };
	struct proc_end end;
	struct err err;
	if (proc_must(&(struct proc){ .argv = argv, .env = env }, &end, &err) < 0)
		fail_msg("%s", err.text);
}

static int set_up(void **state)
{
	struct err err;
	(void)state;
	folder_make(&folder);
	folder_dir(&folder, DIR);
	if (is_emulated())
		return root_init(&own_root, "/", &err);
	compile("tests/gpu/nvml.c", "libnvidia-ml.so." VERSION, "-DNEW");
	compile("tests/gpu/nvml.c", "libnvidia-ml.so.123.40", "-DOLD");
	compile("tests/gpu/cuda.c", "libcuda.so." VERSION, "-DNEW");
	setenv("LEFT_BY_THE_CALLER", "1", 1);
	open_fd = dup(folder.root.fd);
	return root_init(&own_root, "/", &err);
}

static int tear_down(void **state)
{
	(void)state;
	close(open_fd);
	root_done(&own_root);
	folder_done(&folder);
	return 0;
}

// Under qemu-user execveat(2) of a file in memory finds no program: the emulator would open it by its path.
static void needs_programs_in_memory(void)
{
	if (is_emulated())
		skip();
}

static struct gpu_helper helper_of(char **ret_dir, const char *version, int deadline_ms)
{
	*ret_dir = str_fmt("%s/" DIR, folder.path);
	return (struct gpu_helper){
		.root = &own_root, .dir = *ret_dir, .version = version, .deadline_ms = deadline_ms
	};
}

static pid_t answer(const char *behaviour, const char *version, int deadline_ms, struct gpu_result *gpus, size_t count)
{
	auto_str char *dir = NULL;
	struct gpu_helper helper = helper_of(&dir, version, deadline_ms);
	folder_file(&folder, DIR "/behaviour", behaviour);
	for (size_t i = 0; i < count; i++)
		gpus[i] = (struct gpu_result){
			.address = str_dup(addresses[i]), .minor = (int)i, .level = GPU_START, .outcome = GPU_WORKS
		};
	return gpu_helper_answer(&helper, &(struct gpu_results){ .items = gpus, .count = count });
}

static pid_t compute(const char *behaviour, int deadline_ms, struct gpu_result *gpu)
{
	auto_str char *dir = NULL;
	struct gpu_helper helper = helper_of(&dir, VERSION, deadline_ms);
	folder_file(&folder, DIR "/behaviour", behaviour);
	return gpu_helper_compute(&helper, gpu);
}

static void free_gpus(struct gpu_result *gpus, size_t count)
{
	for (size_t i = 0; i < count; i++)
		gpu_result_done(&gpus[i]);
}

static bool has(const char *text, const char *part)
{
	return part ? text && strstr(text, part) : !text;
}

static void test_answers(void **state)
{
	(void)state;
	needs_programs_in_memory();
	static const struct {
		const char *behaviour;
		enum gpu_outcome outcome;
		const char *reason, *note; // a part of each; NULL = there is none
		enum gpu_fabric fabric;
		int recovery;
		bool is_mig, is_reset_due;
	} rows[] = {
		{ "", GPU_WORKS, NULL, NULL, 0, 0, false, false },
		{ "mig 1\n", GPU_WORKS, NULL, NULL, 0, 0, true, false },
		{ "name 13\n", GPU_WORKS, NULL, NULL, 0, 0, false, false },
		{ "recovery 1\n", GPU_BROKEN, "asks for a reset of the GPU", NULL, 0, 1, false, true },
		{ "recovery 2\nfabric 2\n", GPU_BROKEN, "a reboot of the node", NULL, 2, 2, false, true },
		{ "recovery 5\n", GPU_WORKS, NULL, "IMEX domain", 0, 5, false, false },
		{ "recovery 99\n", GPU_BROKEN, "recovery action 99", NULL, 0, 99, false, false },
		{ "fabric 1\n", GPU_UNTESTED, "has not started", NULL, 1, 0, false, false },
		{ "fabric 2\nfabric_status 999\n", GPU_UNTESTED, "is in progress", NULL, 2, 0, false, false },
		{ "fabric 3\n", GPU_WORKS, NULL, NULL, 3, 0, false, false },
		{ "fabric 3\nfabric_status 999\n", GPU_BROKEN, "stand-in error 999", NULL, 3, 0, false, false },
		{ "ecc_next 0\n", GPU_WORKS, NULL, "ECC is on, and off from", 0, 0, false, false },
		{ "remap_pending 1\n", GPU_WORKS, NULL, "at the next reset", 0, 0, false, false },
		{ "remap_failed 1\n", GPU_BROKEN, "could not be remapped", NULL, 0, 0, false, false },
		{ "confidential 1\n", GPU_WORKS, NULL, "confidential", 0, 0, false, false },
		{ "uuid 15\n", GPU_BROKEN, "cannot read its UUID: stand-in error 15", NULL, 0, 0, false, false },
		{ "0000:3b:00.0 15\n", GPU_BROKEN, "cannot open it: stand-in error 15", NULL, 0, 0, false, true },
		{ "0000:3b:00.0 16\n", GPU_BROKEN, "cannot open it: stand-in error 16", NULL, 0, 0, false, true },
		{ "0000:3b:00.0 6\n", GPU_BROKEN, "does not know it", NULL, 0, 0, false, false },
		{ "0000:3b:00.0 4\n", GPU_UNTESTED, "cannot open it: stand-in error 4", NULL, 0, 0, false, false },
		{ "nvmlInit_v2 9\n", GPU_UNTESTED, "cannot be initialized: stand-in error 9", NULL, 0, 0, false,
		  false },
		{ "nvmlInit_v2 999\n", GPU_BROKEN, "stand-in error 999", NULL, 0, 0, false, false },
		{ "version 123.99\n", GPU_UNTESTED, "driver 123.99 is loaded, not 123.45.06", NULL, 0, 0, false,
		  false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct gpu_result gpu;
		expect(answer(rows[i].behaviour, VERSION, DEADLINE_MS, &gpu, 1) == 0, rows[i].behaviour);
		if (gpu.outcome != rows[i].outcome || !has(gpu.reason, rows[i].reason) || !has(gpu.note, rows[i].note))
			fail_msg("%s: %d, %s, %s", rows[i].behaviour, gpu.outcome, gpu.reason, gpu.note);
		expect(gpu.level == GPU_ANSWER && gpu.minor == 0, rows[i].behaviour);
		expect(gpu.fabric == rows[i].fabric && gpu.recovery == rows[i].recovery, rows[i].behaviour);
		expect(gpu.is_mig == rows[i].is_mig && gpu.is_reset_due == rows[i].is_reset_due, rows[i].behaviour);
		gpu_result_done(&gpu);
	}
}

static void test_not_started(void **state)
{
	(void)state;
	needs_programs_in_memory();
	auto_str char *dir = NULL;
	struct gpu_helper helper = helper_of(&dir, VERSION, DEADLINE_MS);
	struct gpu_result items[] = { { .address = str_dup(addresses[0]),
					.level = GPU_START,
					.outcome = GPU_BROKEN,
					.reason = str_dup("no firmware") },
				      { .address = str_dup(addresses[1]), .level = GPU_START, .outcome = GPU_WORKS } };
	struct gpu_results gpus = { .items = items, .count = ARRAY_SIZE(items) };
	folder_file(&folder, DIR "/behaviour", "0000:3b:00.0 crash\n");
	assert_int_equal(gpu_helper_answer(&helper, &gpus), 0);
	assert_int_equal(items[0].level, GPU_START);
	assert_string_equal(items[0].reason, "no firmware");
	assert_int_equal(items[1].level, GPU_ANSWER);
	assert_int_equal(items[1].outcome, GPU_WORKS);
	free_gpus(items, ARRAY_SIZE(items));
}

static void test_facts(void **state)
{
	(void)state;
	needs_programs_in_memory();
	struct gpu_result gpus[GPUS];
	assert_int_equal(answer("compute_mode 3\n0000:86:00.0 15\n", VERSION, DEADLINE_MS, gpus, GPUS), 0);
	for (size_t i = 0; i < GPUS; i += 2) { // one lost GPU does not spoil the others
		auto_str char *uuid = str_fmt("GPU-%s", addresses[i]);
		assert_int_equal(gpus[i].outcome, GPU_WORKS);
		assert_string_equal(gpus[i].uuid, uuid);
		assert_string_equal(gpus[i].name, "Stand-in 100");
		assert_int_equal(gpus[i].compute_mode, GPU_COMPUTE_ONE_PROCESS);
		assert_int_equal(compute("", DEADLINE_MS, &gpus[i]), 0);
		assert_int_equal(gpus[i].outcome, GPU_UNTESTED);
		assert_non_null(strstr(gpus[i].reason, "EXCLUSIVE"));
	}
	assert_int_equal(gpus[1].outcome, GPU_BROKEN);
	assert_null(gpus[1].uuid);
	free_gpus(gpus, GPUS);
	// A driver that lacks newer functions.
	assert_int_equal(answer("version 123.40\nmig 1\nrecovery 1\nfabric 2\n", "123.40", DEADLINE_MS, gpus, GPUS), 0);
	for (size_t i = 0; i < GPUS; i++) {
		assert_int_equal(gpus[i].outcome, GPU_WORKS);
		assert_false(gpus[i].is_mig || gpus[i].recovery || gpus[i].fabric);
	}
	free_gpus(gpus, GPUS);
}

// What a library does to its process.
static void test_accidents(void **state)
{
	(void)state;
	needs_programs_in_memory();
	static const struct {
		const char *behaviour;
		enum gpu_outcome outcomes[GPUS];
		const char *reason; // of the GPU to blame, which is the second one, or of each
		bool is_slow;
	} rows[] = {
		{ "load hang\n",
		  { GPU_UNTESTED, GPU_UNTESTED, GPU_UNTESTED },
		  "no answer within 1000 ms (load ",
		  true },
		{ "load crash\n", { GPU_UNTESTED, GPU_UNTESTED, GPU_UNTESTED }, "crashed (load ", false },
		{ "load exit\n", { GPU_UNTESTED, GPU_UNTESTED, GPU_UNTESTED }, "status 3", false },
		{ "nvmlInit_v2 hang\n", { GPU_BROKEN, GPU_BROKEN, GPU_BROKEN }, "(initialize NVML)", true },
		{ "nvmlInit_v2 crash\n", { GPU_BROKEN, GPU_BROKEN, GPU_BROKEN }, "Segmentation fault", false },
		{ "nvmlInit_v2 flood\n", { GPU_BROKEN, GPU_BROKEN, GPU_BROKEN }, "more than 65536 bytes", false },
		{ "nvmlInit_v2 exit\n", { GPU_BROKEN, GPU_BROKEN, GPU_BROKEN }, "the library gives up", false },
		{ "nvmlInit_v2 cut\n", { GPU_BROKEN, GPU_BROKEN, GPU_BROKEN }, "status 0", false },
		{ "0000:86:00.0 crash\n", { GPU_WORKS, GPU_BROKEN, GPU_WORKS }, "crashed", false },
		{ "0000:86:00.0 exit\n", { GPU_WORKS, GPU_BROKEN, GPU_WORKS }, "gives up", false },
		{ "0000:86:00.0 hang\n", { GPU_WORKS, GPU_BROKEN, GPU_UNTESTED }, "no answer within", true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct gpu_result gpus[GPUS];
		long began = clock_ms();
		int deadline_ms = rows[i].is_slow ? SHORT_MS : DEADLINE_MS;
		expect(answer(rows[i].behaviour, VERSION, deadline_ms, gpus, GPUS) == 0, rows[i].behaviour);
		expect(clock_ms() - began < DEADLINE_MS, rows[i].behaviour);
		for (size_t j = 0; j < GPUS; j++)
			if (gpus[j].outcome != rows[i].outcomes[j])
				fail_msg("%s: %zu is %d: %s", rows[i].behaviour, j, gpus[j].outcome, gpus[j].reason);
		if (!has(gpus[1].reason, rows[i].reason))
			fail_msg("%s: %s", rows[i].behaviour, gpus[1].reason);
		free_gpus(gpus, GPUS);
	}
}

static void test_computes(void **state)
{
	(void)state;
	needs_programs_in_memory();
	static const struct {
		const char *behaviour;
		enum gpu_outcome outcome;
		const char *reason, *note;
	} rows[] = {
		{ "", GPU_WORKS, NULL, NULL },
		{ "cuModuleLoadData 221\n", GPU_WORKS, NULL, "could not be compiled (221)" },
		{ "cuModuleLoadData 222\nset_flips 1\n", GPU_BROKEN, "set came back wrong: word 99", "compiled" },
		{ "kernel_flips 8\n", GPU_BROKEN, "kernel's result is wrong: word 16383", NULL },
		{ "copy_flips 1\n", GPU_BROKEN, "copied came back wrong: word 7", NULL },
		{ "set_flips 1\n", GPU_BROKEN, "set came back wrong: word 99", NULL },
		{ "cuCtxSynchronize 719\n", GPU_BROKEN, "cuCtxSynchronize: CUDA_ERROR_STANDIN (719)", NULL },
		{ "cuMemAlloc_v2 2\n", GPU_UNTESTED, "too little of its memory", NULL },
		{ "cuDevicePrimaryCtxRetain 46\n", GPU_UNTESTED, "busy", NULL },
		{ "cuInit 802\n", GPU_UNTESTED, "fabric", NULL },
		{ "cuInit 803\n", GPU_UNTESTED, "does not fit the loaded driver", NULL },
		{ "cuInit 102\n", GPU_UNTESTED, "licence", NULL },
		{ "cuInit 807\n", GPU_UNTESTED, "MPS", NULL },
		{ "cuInit 3\n", GPU_BROKEN, "cuInit", NULL },
		{ "count 2\n", GPU_UNTESTED, "CUDA shows 2 GPUs", NULL },
		{ "address 0000:86:00.0\n", GPU_UNTESTED, "CUDA shows the GPU 0000:86:00.0", NULL },
		{ "cuDevicePrimaryCtxRelease crash\n", GPU_BROKEN, "call cuDevicePrimaryCtxRelease", NULL },
		{ "load crash\n", GPU_UNTESTED, "crashed (load ", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct gpu_result gpu = { .address = str_dup(addresses[0]), .uuid = str_fmt("GPU-%s", addresses[0]) };
		expect(compute(rows[i].behaviour, DEADLINE_MS, &gpu) == 0, rows[i].behaviour);
		if (gpu.outcome != rows[i].outcome || !has(gpu.reason, rows[i].reason) || !has(gpu.note, rows[i].note))
			fail_msg("%s: %d, %s, %s", rows[i].behaviour, gpu.outcome, gpu.reason, gpu.note);
		expect(gpu.level == GPU_COMPUTE, rows[i].behaviour);
		gpu_result_done(&gpu);
	}
}

// CUDA finds no GPU: none is there for it, or its node is not, or it is partitioned and nothing was made of it.
static void test_no_device(void **state)
{
	(void)state;
	needs_programs_in_memory();
	bool has_uvm = access("/dev/nvidia-uvm", R_OK | W_OK) == 0;
	struct gpu_result gpu = { .address = str_dup(addresses[0]), .uuid = str_fmt("GPU-%s", addresses[0]) };
	static const char *const rows[] = { "cuModuleLoadData 999\n", "cuInit 304\n", "cuInit 100\n" };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(compute(rows[i], DEADLINE_MS, &gpu), 0);
		expect(gpu.outcome == (has_uvm ? GPU_BROKEN : GPU_UNTESTED), rows[i]);
		expect(has_uvm || has(gpu.reason, "/dev/nvidia-uvm cannot be opened"), rows[i]);
	}
	assert_non_null(strstr(gpu.reason, "CUDA_ERROR_NO_DEVICE (100)"));
	gpu.is_mig = true;
	assert_int_equal(compute("cuInit 100\n", DEADLINE_MS, &gpu), 0);
	assert_int_equal(gpu.outcome, GPU_UNTESTED);
	assert_non_null(strstr(gpu.reason, "MIG mode is on"));
	gpu_result_done(&gpu);
}

static pid_t wait_for_pid(void)
{
	struct err err;
	uint64_t pid = 0;
	for (int i = 0; i < DEADLINE_MS / 10 && !pid; i++) {
		auto_str char *text = NULL;
		if (root_read(&folder.root, DIR "/pid", &text, NULL, &err) <= 0 || !str_u64(text, 10, &pid))
			usleep(10000);
	}
	assert_true(pid > 0);
	assert_true(root_unlink(&folder.root, DIR "/pid", &err) > 0);
	return (pid_t)pid;
}

// A killed process stays visible until the process that inherited it has reaped it.
static bool is_gone_soon(pid_t pid)
{
	auto_str char *path = str_fmt("/proc/%d/stat", (int)pid);
	for (int i = 0; i < DEADLINE_MS / 10; i++) {
		char stat[200] = "";
		auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || read(fd, stat, sizeof(stat) - 1) <= 0 || strstr(stat, ") Z "))
			return true;
		usleep(10000);
	}
	return false;
}

// What a library started goes with the process, and the process goes with who started it.
static void test_nothing_stays(void **state)
{
	(void)state;
	needs_programs_in_memory();
	struct gpu_result gpu;
	struct err err;
	root_unlink(&folder.root, DIR "/pid", &err);
	assert_int_equal(answer("nvmlInit_v2 fork\n", VERSION, DEADLINE_MS, &gpu, 1), 0);
	assert_int_equal(gpu.outcome, GPU_WORKS);
	gpu_result_done(&gpu);
	assert_true(is_gone_soon(wait_for_pid()));
	pid_t check = fork();
	if (check == 0)
		_exit(answer("nvmlInit_v2 hang\n", VERSION, DEADLINE_MS, &gpu, 1) != 0);
	pid_t helper = wait_for_pid();
	assert_int_equal(kill(check, SIGKILL), 0);
	assert_int_equal(waitpid(check, NULL, 0), check);
	assert_true(is_gone_soon(helper));
}

// In a pid namespace of our own, where vm.memfd_noexec can be set. 2 = it cannot be.
static int answer_where_memory_is(const char *noexec)
{
	struct gpu_result gpu = { 0 };
	if (unshare(CLONE_NEWPID) < 0)
		return 2;
	pid_t pid = fork();
	if (pid == 0) {
		auto_fd int fd = open("/proc/sys/vm/memfd_noexec", O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, noexec, 1) != 1)
			_exit(2);
		answer("", VERSION, DEADLINE_MS, &gpu, 1);
		bool is_forbidden = *noexec == '2';
		_exit(gpu.outcome != (is_forbidden ? GPU_UNTESTED : GPU_WORKS) ||
		      !has(gpu.reason, is_forbidden ? "vm.memfd_noexec" : NULL));
	}
	int status = -1;
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void test_memory_without_programs(void **state)
{
	(void)state;
	needs_programs_in_memory();
	static const char *const settings[] = { "0", "1", "2" };
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		int status = -1;
		pid_t pid = fork(); // unshare(2) is for good
		if (pid == 0)
			_exit(answer_where_memory_is(settings[i]));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		expect(WIFEXITED(status), settings[i]);
		if (WEXITSTATUS(status) == 2)
			skip();
		expect(WEXITSTATUS(status) == 0, settings[i]);
	}
}

// A process that hangs in the kernel is left behind, and named.
static void test_left_behind(void **state)
{
	(void)state;
	needs_programs_in_memory();
	struct gpu_result gpus[GPUS];
	is_immortal = true;
	pid_t left = answer("0000:86:00.0 hang\n", VERSION, SHORT_MS, gpus, GPUS);
	is_immortal = false;
	assert_true(left > 0);
	assert_int_equal(gpus[0].outcome, GPU_WORKS);
	assert_int_equal(gpus[1].outcome, GPU_PENDING);
	assert_non_null(strstr(gpus[1].reason, "cannot be ended"));
	assert_int_equal(gpus[2].outcome, GPU_UNTESTED);
	assert_non_null(strstr(gpus[2].reason, "not asked, because of another GPU"));
	free_gpus(gpus, GPUS);
	assert_int_equal(kill(left, SIGKILL), 0);
	assert_int_equal(waitpid(left, NULL, 0), left);
}

static void test_no_user_space(void **state)
{
	(void)state;
	needs_programs_in_memory();
	struct gpu_result gpu;
	auto_str char *dir = gpu_helper_dir(&folder.root, VERSION), *none = gpu_helper_dir(&folder.root, "123.98");
	assert_string_equal(dir, "/" DIR);
	assert_null(none);
	folder_file(&folder, DIR "/libnvidia-ml.so.123.97", "no library");
	static const char *const rows[][2] = { { "123.98", "No such file" }, { "123.97", "file too short" } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(answer("", rows[i][0], DEADLINE_MS, &gpu, 1), 0);
		expect(gpu.outcome == GPU_UNTESTED, rows[i][0]);
		expect(has(gpu.reason, "the library cannot be loaded: ") && has(gpu.reason, rows[i][1]), gpu.reason);
		gpu_result_done(&gpu);
	}
}

// Another root directory: without a C library, and with one.
static void test_other_root(void **state)
{
	(void)state;
	needs_programs_in_memory();
	if (geteuid() != 0)
		skip();
	struct gpu_helper helper = {
		.root = &folder.root, .dir = "/" DIR, .version = VERSION, .deadline_ms = DEADLINE_MS
	};
	struct gpu_result gpu = { .address = str_dup(addresses[0]), .outcome = GPU_WORKS };
	struct gpu_results gpus = { .items = &gpu, .count = 1 };
	folder_file(&folder, DIR "/behaviour", "");
	assert_int_equal(gpu_helper_answer(&helper, &gpus), 0);
	assert_int_equal(gpu.outcome, GPU_UNTESTED);
	assert_non_null(strstr(gpu.reason, "no C library that could run the program"));
	char self[4096];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[len > 0 ? len : 0] = '\0';
	gpu.outcome = GPU_WORKS;
	auto_str char *script = str_fmt("ldd \"$(dirname '%s')/../gpu-helper\" | grep -o '[[:space:]]/[^ ]*' | "
					"while read -r file; do install -D \"$file\" \"%s$file\" || exit; done",
					self, folder.path);
	const char *const argv[] = { "/bin/sh", "-c", script, NULL }, *const env[] = { "PATH=/usr/bin:/bin", NULL };
	struct proc_end end;
	struct err err;
	if (proc_must(&(struct proc){ .argv = argv, .env = env }, &end, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(gpu_helper_answer(&helper, &gpus), 0);
	if (gpu.outcome != GPU_WORKS)
		fail_msg("%s", gpu.reason);
	assert_int_equal(gpu_helper_compute(&helper, &gpu), 0);
	if (gpu.outcome != GPU_WORKS)
		fail_msg("%s", gpu.reason);
	gpu_result_done(&gpu);
}

static int open_at_once(const struct sys *sys, int dev, const char *name)
{
	(void)sys, (void)dev, (void)name;
	return open("/dev/null", O_RDWR);
}

// The fabric manager gets ready a little later.
static void finish_fabric_later(void)
{
	if (fork() != 0)
		return;
	usleep(200 * 1000);
	folder_file(&folder, DIR "/behaviour", "fabric 3\n");
	_exit(0);
}

// As deep as was asked for, and as each GPU can be asked; what nobody could find out speaks against no GPU. After
// test_other_root() the folder has a C library.
static void test_measure(void **state)
{
	(void)state;
	needs_programs_in_memory();
	if (geteuid() != 0)
		skip();
	static const struct {
		const char *behaviour;
		enum gpu_level deepest;
		const char *said, *note;
		int code, fabric_ms; // more than a second: the fabric gets ready meanwhile
	} rows[] = {
		{ "", GPU_COMPUTE, "3 of 3 start, answer and compute", NULL, 0, 0 },
		{ "", GPU_ANSWER, "3 of 3 start and answer", NULL, 0, 0 },
		{ "", GPU_START, "3 of 3 start (", NULL, 0, 0 },
		{ "fabric 2\n", GPU_COMPUTE, "3 of 3 start (", "not asked to answer: ", 0, 0 },
		{ "cuInit 802\n", GPU_COMPUTE, "3 of 3 start and answer", "not asked to compute: ", 0, 0 },
		{ "fabric 2\n", GPU_COMPUTE, "0 of 3 start (", NULL, E_GPU_UNTESTED, 20 },
		{ "cuInit 802\n", GPU_COMPUTE, "0 of 3 start (", NULL, E_GPU_UNTESTED, 20 },
		{ "cuInit 803\n", GPU_COMPUTE, "3 of 3 start and answer", "not asked to compute: ", 0, 20 },
		{ "fabric 1\n", GPU_COMPUTE, "3 of 3 start, answer and compute", NULL, 0, 60000 },
		{ "cuInit 802\n", GPU_COMPUTE, "3 of 3 start, answer and compute", NULL, 0, 60000 },
		{ "0000:86:00.0 15\n", GPU_COMPUTE, "2 of 3 start, answer and compute", NULL, E_GPU_FAULT, 0 },
		{ "kernel_flips 8\n", GPU_COMPUTE, "0 of 3 start", NULL, E_GPU_FAULT, 0 },
	};
	struct sys sys = *sys_real();
	struct gpu gpus[GPUS] = { 0 };
	char version[] = VERSION;
	struct progress progress = { 0 };
	struct facts facts = { .gpus = { .items = gpus, .count = GPUS }, .loaded = { .version = version } };
	sys.device_open = open_at_once;
	folder_dir(&folder, "dev");
	for (unsigned i = 0; i < GPUS; i++) {
		auto_str char *path = str_fmt("proc/driver/nvidia/gpus/%s/information", addresses[i]);
		tempdir_write(&folder, path, "Device Minor: 0\n");
		gpus[i].device = 0x2330;
		snprintf(gpus[i].address, sizeof(gpus[i].address), "%s", addresses[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_gpu_record struct gpu_record record = { 0 };
		auto_gpu_holds struct gpu_holds holds = { 0 };
		struct err err = { 0 };
		const struct node node = { .host = &folder.root,
					   .kern = &folder.root,
					   .dev_root = &folder.root,
					   .sys = &sys,
					   .progress = &progress };
		const struct gpu_check check = { .start = { .node = &node, .facts = &facts },
						 .deepest = rows[i].deepest,
						 .fabric_ms = rows[i].fabric_ms };
		folder_file(&folder, DIR "/behaviour", rows[i].behaviour);
		if (rows[i].fabric_ms > 1000)
			finish_fabric_later();
		assert_int_equal(gpu_record_measure(&check, &record, &holds, &err), 0);
		auto_str char *text = gpu_results_text(&record.results);
		if (!str_starts(text, rows[i].said) || !has(record.results.items[0].note, rows[i].note))
			fail_msg("'%s': %s, %s", rows[i].behaviour, text, record.results.items[0].note);
		expect((gpu_record_check(&record, &err) < 0 ? err.code : 0) == rows[i].code, rows[i].behaviour);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),       cmocka_unit_test(test_facts),
		cmocka_unit_test(test_not_started),   cmocka_unit_test(test_accidents),
		cmocka_unit_test(test_computes),      cmocka_unit_test(test_no_device),
		cmocka_unit_test(test_left_behind),   cmocka_unit_test(test_no_user_space),
		cmocka_unit_test(test_other_root),    cmocka_unit_test(test_measure),
		cmocka_unit_test(test_nothing_stays), cmocka_unit_test(test_memory_without_programs),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
