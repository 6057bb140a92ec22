// SPDX-License-Identifier: Apache-2.0
// The forms of container paths, by runtime and cgroup driver (all end in the id of 64 hex digits):
//   containerd  .../kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope, ...slice:cri-containerd:<id>,
//               /kubepods/burstable/pod<uid>/<id>
//   docker      /docker/<id>, /system.slice/docker-<id>.scope
//   cri-o       .../crio-<id>.scope        podman  .../libpod-<id>.scope
// systemd writes the dashes of a pod's uid as underscores; a static pod's uid is a hash of 32 digits without any.
#include "host/cgroup.h"

#include <ctype.h>

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
