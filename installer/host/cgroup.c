// SPDX-License-Identifier: Apache-2.0
// The forms of container paths, by runtime and cgroup driver (all end in the id of 64 hex digits):
//   containerd  .../kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope, ...slice:cri-containerd:<id>,
//               /kubepods/burstable/pod<uid>/<id>
//   docker      /docker/<id>, /system.slice/docker-<id>.scope
//   cri-o       .../crio-<id>.scope        podman  .../libpod-<id>.scope
// systemd writes the dashes of a pod's uid as underscores; a static pod's uid is a hash of 32 digits without any.
#include "host/cgroup.h"

#include <ctype.h>
#include <stdio.h>

enum { ID_LEN = 64, UUID_LEN = 36, HASH_LEN = 32 };

static const struct {
	const char *prefix, *name;
} runtimes[] = {
	{ "cri-containerd", "containerd" },
	{ "docker", "docker" },
	{ "crio", "cri-o" },
	{ "libpod", "podman" },
};

static const char *runtime_of(const char *path, const char *id)
{
	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
		size_t len = strlen(runtimes[i].prefix);
		const char *start = id - len - 1; // the prefix, then '-', ':' or '/'
		if (start >= path && strncmp(start, runtimes[i].prefix, len) == 0 && strchr("-:/", id[-1]))
			return runtimes[i].name;
	}
	return NULL;
}

static const char *find_id(const char *path)
{
	const char *found = NULL;
	for (const char *p = path; *p;) {
		size_t len = strspn(p, "0123456789abcdef");
		if (len == ID_LEN)
			found = p;
		p += len ? len : 1;
	}
	return found;
}

static char *find_pod(const char *path)
{
	for (const char *p = path; (p = strstr(p, "pod"));) {
		p += strlen("pod");
		size_t len = strspn(p, "0123456789abcdef-_");
		if (len != UUID_LEN && len != HASH_LEN)
			continue;
		char *uid = str_ndup(p, len);
		for (char *c = uid; *c; c++)
			*c = *c == '_' ? '-' : *c;
		return uid;
	}
	return NULL;
}

void cgroup_owner(const char *text, char **ret_runtime, char **ret_container, char **ret_pod)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		const char *id = find_id(lines.items[i]);
		if (!id)
			continue;
		*ret_container = str_ndup(id, ID_LEN);
		char *pod = find_pod(lines.items[i]);
		if (pod)
			*ret_pod = pod;
		const char *runtime = runtime_of(lines.items[i], id);
		if (runtime)
			*ret_runtime = str_dup(runtime);
		return;
	}
}

// The path of this process in a hierarchy: the one with the controller (version 1), or the unified one (NULL).
static char *own_path(const char *text, const char *controller)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		char *list = strchr(lines.items[i], ':');
		char *path = list ? strchr(list + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		auto_strv struct strv controllers = { 0 };
		strv_split(&controllers, list + 1, ",");
		if (controller ? strv_has(&controllers, controller) : controllers.count == 0)
			return str_dup(path);
	}
	return NULL;
}

static uint64_t read_limit(const struct root *kern, const char *dir, const char *file)
{
	struct err err;
	auto_str char *path = str_fmt("%s/%s", dir, file), *text = NULL;
	uint64_t value = 0;
	if (root_line(kern, path, &text, &err) > 0)
		str_u64(text, 10, &value); // "max" and "-1" are no numbers: no limit
	return value;
}

static void tighten_cpu(unsigned *tightest, uint64_t quota, uint64_t period)
{
	uint64_t milli = quota && period ? quota * 1000 / period : 0;
	if (milli && (*tightest == 0 || milli < *tightest))
		*tightest = (unsigned)milli;
}

static void tighten_memory(uint64_t *tightest, uint64_t limit)
{
	const uint64_t none = 1ULL << 62; // version 1 writes "no limit" as the largest number of whole pages
	if (limit && limit < none && (*tightest == 0 || limit < *tightest))
		*tightest = limit;
}

static void read_level_v2(const struct root *kern, const char *dir, unsigned *cpu, uint64_t *memory)
{
	struct err err;
	auto_str char *path = str_fmt("%s/cpu.max", dir), *text = NULL;
	unsigned long long quota, period;
	if (root_line(kern, path, &text, &err) > 0 && sscanf(text, "%llu %llu", &quota, &period) == 2)
		tighten_cpu(cpu, quota, period);
	tighten_memory(memory, read_limit(kern, dir, "memory.max"));
}

static void read_level_cpu(const struct root *kern, const char *dir, unsigned *cpu, uint64_t *memory)
{
	(void)memory;
	tighten_cpu(cpu, read_limit(kern, dir, "cpu.cfs_quota_us"), read_limit(kern, dir, "cpu.cfs_period_us"));
}

static void read_level_memory(const struct root *kern, const char *dir, unsigned *cpu, uint64_t *memory)
{
	(void)cpu;
	tighten_memory(memory, read_limit(kern, dir, "memory.limit_in_bytes"));
}

static const struct hierarchy {
	const char *controller, *mount;
	void (*level)(const struct root *kern, const char *dir, unsigned *cpu, uint64_t *memory);
} hierarchies[] = {
	{ NULL, "sys/fs/cgroup", read_level_v2 },
	{ "cpu", "sys/fs/cgroup/cpu", read_level_cpu },
	{ "memory", "sys/fs/cgroup/memory", read_level_memory },
};

int cgroup_limits(const struct root *kern, unsigned *ret_cpu_milli, uint64_t *ret_memory, struct err *err)
{
	unsigned cpu = 0;
	uint64_t memory = 0;
	auto_str char *text = NULL;
	int r = root_read(kern, "proc/self/cgroup", &text, NULL, err);
	if (r < 0)
		return -1;
	for (size_t i = 0; r > 0 && i < ARRAY_SIZE(hierarchies); i++) {
		auto_str char *path = own_path(text, hierarchies[i].controller);
		// A container may see its own group as the root of the mount: then no level but the root exists.
		for (char *cut = path; cut; *cut = '\0') {
			auto_str char *dir = str_fmt("%s%s", hierarchies[i].mount, path);
			hierarchies[i].level(kern, dir, &cpu, &memory);
			cut = strrchr(path, '/');
			if (!cut)
				break;
		}
	}
	*ret_cpu_milli = cpu;
	*ret_memory = memory;
	return 0;
}
