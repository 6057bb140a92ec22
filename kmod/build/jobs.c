// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/jobs.h"

#include <sched.h>
#include <stdio.h>

// One compile of the 470 and 535 branches peaks at 150 MiB; make, the shells and the final links share RESERVE.
#define PER_JOB_BYTES ((uint64_t)192 << 20)
#define RESERVE_BYTES ((uint64_t)256 << 20)

static void lower_to(uint64_t *value, uint64_t other)
{
	if (other && (!*value || other < *value))
		*value = other;
}

static uint64_t read_cgroup_number(const struct root *kern, const char *dir, const char *file)
{
	auto_str char *path = str_fmt("%s/%s", dir, file), *text = NULL;
	struct err absent;
	uint64_t n = 0;
	return root_line(kern, path, &text, &absent) > 0 && str_u64(text, 10, &n) ? n : 0;
}

static uint64_t read_field(const struct root *kern, const char *path, const char *field)
{
	auto_str char *text = NULL;
	auto_strv struct strv words = { 0 };
	struct err absent;
	uint64_t n = 0;
	if (root_read(kern, path, &text, NULL, &absent) <= 0)
		return 0;
	strv_split(&words, text, " \t\n");
	for (size_t i = 0; i + 1 < words.count; i++)
		if (str_eq(words.items[i], field) && str_u64(words.items[i + 1], 10, &n))
			return n;
	return 0;
}

// quota * 1000000 / period is compared, because levels may have different periods.
static void limit_cpus(struct jobs_facts *f, uint64_t quota, uint64_t period)
{
	if (!quota || !period)
		return;
	if (f->cpu_quota_us && f->cpu_quota_us * period <= quota * f->cpu_period_us)
		return;
	f->cpu_quota_us = quota;
	f->cpu_period_us = period;
}

static void limit_memory(struct jobs_facts *f, uint64_t max, uint64_t used)
{
	if (!max || max >= (uint64_t)1 << 60) // cgroup v1 says "none" with a huge number
		return;
	lower_to(&f->memory_max_bytes, max);
	lower_to(&f->memory_bytes, used < max ? max - used : 1);
}

static void read_v2(const struct root *kern, const char *dir, struct jobs_facts *f)
{
	auto_str char *path = str_fmt("%s/cpu.max", dir), *text = NULL;
	auto_strv struct strv words = { 0 };
	struct err absent;
	uint64_t quota = 0, period = 0;
	if (root_line(kern, path, &text, &absent) > 0)
		strv_split(&words, text, " ");
	if (words.count == 2 && str_u64(words.items[0], 10, &quota) && str_u64(words.items[1], 10, &period))
		limit_cpus(f, quota, period);
	limit_memory(f, read_cgroup_number(kern, dir, "memory.max"), read_cgroup_number(kern, dir, "memory.current"));
}

static void read_v1(const struct root *kern, const char *dir, struct jobs_facts *f)
{
	limit_cpus(f, read_cgroup_number(kern, dir, "cpu.cfs_quota_us"),
		   read_cgroup_number(kern, dir, "cpu.cfs_period_us"));
	limit_memory(f, read_cgroup_number(kern, dir, "memory.limit_in_bytes"),
		     read_cgroup_number(kern, dir, "memory.usage_in_bytes"));
}

// From the process's own group up to the root: every level may limit. A container may see its own group as the root of
// the mount: then no level but the root exists.
static void read_levels(const struct root *kern, const char *mount, const char *group,
			void (*read)(const struct root *kern, const char *dir, struct jobs_facts *f),
			struct jobs_facts *f)
{
	auto_str char *path = str_dup(group);
	for (char *slash = path; slash; *slash = '\0') {
		auto_str char *dir = str_fmt("%s%s", mount, path);
		read(kern, dir, f);
		slash = strrchr(path, '/');
		if (!slash)
			return;
	}
}

// Lines of /proc/self/cgroup: "0::/path" is v2, "N:cpu,cpuacct:/path" and "N:memory:/path" are v1. A v1 hierarchy is
// mounted under its list of controllers, and under each name by a link.
int jobs_limits(const struct root *kern, struct jobs_facts *ret, struct err *err)
{
	static const char *const controllers[] = { "cpu", "memory" };
	auto_str char *text = NULL;
	auto_strv struct strv lines = { 0 };
	if (root_read(kern, "proc/self/cgroup", &text, NULL, err) < 0)
		return -1;
	strv_split(&lines, text ? text : "", "\n");
	for (size_t i = 0; i < lines.count; i++) {
		char *list = strchr(lines.items[i], ':'), *path = list ? strchr(list + 1, ':') : NULL;
		auto_strv struct strv names = { 0 };
		if (!path)
			continue;
		*path++ = '\0';
		strv_split(&names, ++list, ",");
		if (!names.count)
			read_levels(kern, "sys/fs/cgroup", path, read_v2, ret);
		for (size_t c = 0; c < ARRAY_SIZE(controllers); c++) {
			auto_str char *one = str_fmt("sys/fs/cgroup/%s", controllers[c]),
				      *all = str_fmt("sys/fs/cgroup/%s", list);
			if (!strv_has(&names, controllers[c]))
				continue;
			read_levels(kern, one, path, read_v1, ret);
			if (!str_eq(one, all))
				read_levels(kern, all, path, read_v1, ret);
		}
	}
	return 0;
}

void jobs_read(const struct root *kern, struct jobs_facts *ret)
{
	struct jobs_facts f = { 0 };
	struct err unreadable;
	cpu_set_t set;
	f.processors = sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
	jobs_limits(kern, &f, &unreadable);
	lower_to(&f.memory_bytes, read_field(kern, "proc/meminfo", "MemAvailable:") * 1024);
	*ret = f;
}

unsigned jobs_count(const struct jobs_facts *f, unsigned requested)
{
	if (requested)
		return requested;
	uint64_t jobs = f->processors ? f->processors : 1;
	if (f->cpu_quota_us && f->cpu_period_us) { // half a processor more is worth a job
		uint64_t fitting = (f->cpu_quota_us + f->cpu_period_us / 2) / f->cpu_period_us;
		lower_to(&jobs, fitting ? fitting : 1);
	}
	if (f->memory_bytes) {
		uint64_t room = f->memory_bytes > RESERVE_BYTES ? f->memory_bytes - RESERVE_BYTES : 0;
		uint64_t fitting = room / PER_JOB_BYTES;
		lower_to(&jobs, fitting ? fitting : 1);
	}
	return (unsigned)jobs;
}

uint64_t jobs_spare(const struct jobs_facts *f, unsigned jobs)
{
	uint64_t used = RESERVE_BYTES + jobs * PER_JOB_BYTES;
	if (!f->memory_bytes)
		return UINT64_MAX;
	return f->memory_bytes > used ? f->memory_bytes - used : 0;
}

char *jobs_text(const struct jobs_facts *f)
{
	auto_str char *cpu =
		f->cpu_quota_us ? str_fmt("%.1f", (double)f->cpu_quota_us / (double)f->cpu_period_us) : NULL;
	auto_str char *max =
		f->memory_max_bytes ? str_fmt("%lu MiB", (unsigned long)(f->memory_max_bytes >> 20)) : NULL;
	return str_fmt("%u processor%s, cpu.max %s, memory.max %s, free memory %lu MiB", f->processors,
		       str_plural(f->processors), cpu ? cpu : "none", max ? max : "none",
		       (unsigned long)(f->memory_bytes >> 20));
}
