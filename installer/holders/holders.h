// SPDX-License-Identifier: Apache-2.0
// What keeps the driver in use (R-D2): processes with an open NVIDIA device, a mapping of one, or a mount of driver
// files in their mount namespace; and modules that depend on the driver's.
//
// The scan reads proc/PID/fd, maps and mountinfo. A device is recognised by its name (/dev/nvidia*, /dev/gdrdrv, the
// DRM nodes of an NVIDIA GPU) and, under any other name, by its device number against the majors of proc/devices.
// Processes may end during the scan. Our own process is left out.
#pragma once
#include "host/modules.h"

enum holder_kind {
	HOLDER_FD,    // keeps the module in use
	HOLDER_MAP,   // keeps the module in use
	HOLDER_MOUNT, // a bind mount of a node or library in a container: pins files, but does not stop an unload
};

struct holder {
	int pid;
	uint64_t start; // proc_start_time(): with pid the identity of a process
	unsigned uid;
	char *comm;      // proc/PID/comm
	char *cmdline;   // arguments joined by blanks, at most 200 bytes; "" for a kernel thread
	char *runtime;   // "containerd", "docker", "cri-o", "podman", NULL = no container or an unnamed runtime
	char *container; // 64 hex digits, NULL = not in a container
	char *pod;       // pod uid with dashes, NULL = not in a pod
	enum holder_kind kind;
	char *path;     // what is held: "/dev/nvidia0"
	unsigned count; // how many descriptors or mappings of this path
};

struct holders {
	struct holder *items; // by pid, kind, path: one entry each
	size_t count;
	struct strv modules; // names of modules, outside of the driver's own set, that hold one of it
	// The kernel's own console, which has nvidia-drm's frame buffer: "fb0 (nvidia-drmdrmfb), vtcon1"; NULL = it has
	// not. Nobody but an administrator takes it off.
	char *console;
	size_t processes;  // looked at
	size_t unreadable; // not accessible (CAP_SYS_PTRACE is needed): the list may be incomplete
};

// 1 = some, 0 = none.
int holders_find(const struct root *kern, const struct modules *loaded, struct holders *ret, struct err *err);
// The same for device nodes of any driver: "/dev/dri/card0". 1 = some process has one open or mapped, 0 = none.
int holders_of(const struct root *kern, const struct strv *nodes, struct holders *ret, struct err *err);
void holder_done(struct holder *h);
void holders_done(struct holders *h);
#define auto_holders __attribute__((cleanup(holders_done)))

// How many holders block an unload: processes with an FD or a MAP, and foreign modules. The first of them as text.
size_t holders_blocking(const struct holders *h);
char *holders_first(const struct holders *h);
// Where the console holds the driver, how it is taken off, as err_next(). Always -1.
int holders_next(const struct holders *h, struct err *err);
const char *holder_kind_name(enum holder_kind k); // "fd", "map", "mount"
// One line: "pid 4242 python3 (uid 1000, pod 6e.., container ab12..) fd /dev/nvidia0"
char *holder_text(const struct holder *h);
