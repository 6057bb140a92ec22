// SPDX-License-Identifier: Apache-2.0
#include "host/cgroup.h"

#include "host/kernel.h"

#include "tests/unit/tempdir.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "6e1c2b6a-0d4e-4a3f-9a56-3f1de0b5a111"
#define UID_ "6e1c2b6a_0d4e_4a3f_9a56_3f1de0b5a111"
#define HASH "6e1c2b6a0d4e4a3f9a563f1de0b5a111"

static void finds_container_and_pod(void **state) // R-D2
{
	(void)state;
	static const struct {
		const char *text, *runtime, *container, *pod;
	} cases[] = {
		{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID
		  ".scope\n",
		  "containerd", ID, UID },
		{ "0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope\n", "cri-o", ID, UID },
		{ "0::/kubepods/besteffort/pod" UID "/" ID "\n", NULL, ID, UID },
		{ "0::/kubepods.slice/kubepods-burstable-pod" HASH ".slice/cri-containerd-" ID ".scope\n", "containerd",
		  ID, HASH },
		{ "12:devices:/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" ID
		  "\n1:name=systemd:/\n",
		  "containerd", ID, UID },
		{ "11:memory:/docker/" ID "\n0::/\n", "docker", ID, NULL },
		{ "0::/system.slice/docker-" ID ".scope\n", "docker", ID, NULL },
		{ "0::/machine.slice/libpod-" ID ".scope/container\n", "podman", ID, NULL },
		{ "0::/system.slice/nvidia-persistenced.service\n", NULL, NULL, NULL },
		{ "0::/user.slice/podium/" HASH "\n", NULL, NULL, NULL },
		{ "", NULL, NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_str char *runtime = NULL, *container = NULL, *pod = NULL;
		cgroup_owner(cases[i].text, &runtime, &container, &pod);
		const char *const got[] = { runtime, container, pod };
		const char *const wanted[] = { cases[i].runtime, cases[i].container, cases[i].pod };
		for (size_t j = 0; j < ARRAY_SIZE(got); j++)
			if (got[j] != wanted[j] && !str_eq(got[j], wanted[j]))
				fail_msg("case %zu: '%s', wanted '%s'", i, got[j] ? got[j] : "-",
					 wanted[j] ? wanted[j] : "-");
	}
}

static void limits(const struct folder *t, unsigned cpu, uint64_t memory)
{
	struct err err;
	auto_host struct host h = { 0 };
	tempdir_write(t, "proc/sys/kernel/osrelease", "6.1.0-1\n");
	tempdir_write(t, "proc/version", "Linux version 6.1.0-1\n");
	assert_int_equal(host_read(&t->root, &t->root, &h, &err), 0);
	assert_int_equal(h.cpu_max_milli, cpu);
	assert_int_equal(h.memory_max_bytes, memory);
}

static void tightest_limit_counts(void **state) // R-M1
{
	(void)state;
	auto_folder struct folder t;
	folder_make(&t);
	limits(&t, 0, 0);
	tempdir_write(&t, "proc/self/cgroup", "0::/a/b\n");
	tempdir_write(&t, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	tempdir_write(&t, "sys/fs/cgroup/a/b/memory.max", "4294967296\n");
	tempdir_write(&t, "sys/fs/cgroup/a/cpu.max", "150000 100000\n");
	tempdir_write(&t, "sys/fs/cgroup/a/memory.max", "2147483648\n");
	limits(&t, 1500, 2147483648);
}

static void a_container_sees_itself_as_root(void **state)
{
	(void)state;
	auto_folder struct folder t;
	folder_make(&t);
	tempdir_write(&t, "proc/self/cgroup", "5:memory:/kubepods/x\n4:cpu,cpuacct:/kubepods/x\n");
	tempdir_write(&t, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
	tempdir_write(&t, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	tempdir_write(&t, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	limits(&t, 500, 0);
	tempdir_write(&t, "sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
	tempdir_write(&t, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
	limits(&t, 0, 1073741824);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_container_and_pod),
		cmocka_unit_test(tightest_limit_counts),
		cmocka_unit_test(a_container_sees_itself_as_root),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
