// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/test.h"

#include "kmod/build/jobs.h"

#define MIB ((uint64_t)1 << 20)

// R-M1
static void test_count(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		struct jobs_facts facts;
		unsigned request, jobs;
	} rows[] = {
		{ "nothing known", { 0 }, 0, 1 },
		{ "processors", { .processors = 16 }, 0, 16 },
		{ "a request is a request", { .processors = 2, .memory_bytes = 1 }, 64, 64 },
		{ "quota", { .processors = 64, .cpu_quota_us = 200000, .cpu_period_us = 100000 }, 0, 2 },
		{ "quota below one", { .processors = 64, .cpu_quota_us = 10000, .cpu_period_us = 100000 }, 0, 1 },
		{ "quota of 1.5", { .processors = 64, .cpu_quota_us = 150000, .cpu_period_us = 100000 }, 0, 2 },
		{ "quota above processors",
		  { .processors = 4, .cpu_quota_us = 900000, .cpu_period_us = 100000 },
		  0,
		  4 },
		{ "1 GiB, 2 processors", { .processors = 2, .memory_bytes = 1024 * MIB }, 0, 2 },
		{ "1 GiB, 64 processors", { .processors = 64, .memory_bytes = 1024 * MIB }, 0, 4 },
		{ "hardly any memory", { .processors = 64, .memory_bytes = 64 * MIB }, 0, 1 },
		{ "much memory", { .processors = 64, .memory_bytes = 256 * 1024 * MIB }, 0, 64 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect(jobs_count(&rows[i].facts, rows[i].request) == rows[i].jobs, rows[i].what);
}

static void make(const struct folder *folder, const char *dir, const char *file, const char *text)
{
	auto_str char *path = str_fmt("%s/%s", dir, file);
	folder_dir(folder, dir);
	folder_file(folder, path, text);
}

static void test_read_v2(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	struct jobs_facts f;
	folder_make(&folder);
	make(&folder, "proc/self", "cgroup", "0::/pod/container\n");
	make(&folder, "proc", "meminfo", "MemTotal: 16777216 kB\nMemAvailable:    8388608 kB\n");
	make(&folder, "sys/fs/cgroup/pod/container", "cpu.max", "max 100000\n");
	make(&folder, "sys/fs/cgroup/pod/container", "memory.max", "max\n");
	make(&folder, "sys/fs/cgroup/pod", "cpu.max", "150000 50000\n");
	make(&folder, "sys/fs/cgroup/pod", "memory.max", "1073741824\n");
	make(&folder, "sys/fs/cgroup/pod", "memory.current", "73741824\n");
	make(&folder, "sys/fs/cgroup", "cpu.max", "800000 100000\n");
	jobs_read(&folder.root, &f);
	assert_int_equal(f.cpu_quota_us, 150000);
	assert_int_equal(f.cpu_period_us, 50000);
	assert_int_equal(f.memory_max_bytes, 1073741824);
	assert_int_equal(f.memory_bytes, 1000000000);
	assert_true(f.processors >= 1);
	auto_str char *text = jobs_text(&f);
	assert_non_null(strstr(text, "cpu.max 3.0, memory.max 1024 MiB, free memory 953 MiB"));
}

static void test_read_v1_and_nothing(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	struct jobs_facts f;
	folder_make(&folder);
	jobs_read(&folder.root, &f);
	assert_int_equal(f.memory_bytes, 0);
	assert_int_equal(f.cpu_quota_us, 0);
	make(&folder, "proc/self", "cgroup", "4:memory:/x\n3:cpu,cpuacct:/x\n1:name=systemd:/x\nnonsense\n");
	make(&folder, "sys/fs/cgroup/memory/x", "memory.limit_in_bytes", "536870912\n");
	make(&folder, "sys/fs/cgroup/memory/x", "memory.usage_in_bytes", "636870912\n");
	make(&folder, "sys/fs/cgroup/memory", "memory.limit_in_bytes", "9223372036854771712\n");
	make(&folder, "sys/fs/cgroup/cpu,cpuacct/x", "cpu.cfs_quota_us", "200000\n");
	make(&folder, "sys/fs/cgroup/cpu,cpuacct/x", "cpu.cfs_period_us", "100000\n");
	jobs_read(&folder.root, &f);
	assert_int_equal(f.memory_max_bytes, 536870912);
	assert_int_equal(f.memory_bytes, 1); // more used than allowed: no room, which is not "unknown"
	assert_int_equal(f.cpu_quota_us, 200000);
	assert_int_equal(jobs_count(&f, 0), 1);
	f.processors = 1;
	auto_str char *text = jobs_text(&f);
	assert_true(str_starts(text, "1 processor, cpu.max 2.0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_read_v2),
		cmocka_unit_test(test_read_v1_and_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
