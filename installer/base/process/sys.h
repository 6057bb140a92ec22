// SPDX-License-Identifier: Apache-2.0
// What cannot be a file: the calls that change the kernel, as one table.
//
// sys_real does them. sys_recorder (for --root: a recorded machine is a folder) does none of them: it appends one line
// per call to DIR/.sys-calls and leaves the file that the real call would leave, so that what follows sees a consistent
// machine. A device node becomes a text file "c MAJOR:MINOR MODE UID:GID"; a process that gets a signal ends.
//
// DIR/.sys-refused lists the calls that a recorded machine refuses, one line each, which is removed when it is used:
//     EINVAL load nvidia NVreg_EnableMSI=often: nvidia: `often' invalid for parameter `NVreg_EnableMSI'
// is an errno, the beginning of the call's line in .sys-calls (whole words), and what the kernel adds to dev/kmsg (if
// the machine has one). OK in place of the errno lets one call through, so that the next line is about the next one.
//
// All return 0 (process_open, device_open: a descriptor, process_start: a number), or -1 with errno set: callers know
// what an errno means for them.
#pragma once
#include "base/file/root.h"

struct sys {
	const char *name;
	// Module image in an open file (finit_module) or in memory (init_module). params: blank-separated name=value.
	int (*module_load_file)(const struct sys *sys, int fd, const char *name, const char *params);
	int (*module_load_data)(const struct sys *sys, const void *data, size_t len, const char *name,
				const char *params);
	int (*module_unload)(const struct sys *sys, const char *name);
	int (*node_make)(const struct sys *sys, int dir, const char *name, mode_t mode, dev_t dev); // character device
	// lstat, recorded nodes included.
	int (*node_look)(const struct sys *sys, int dir, const char *name, struct stat *ret);
	int (*node_set)(const struct sys *sys, int dir, const char *name, mode_t mode, uid_t uid, gid_t gid);
	// A character device, read-write and without waiting. A recorded one is its file.
	int (*device_open)(const struct sys *sys, int dir, const char *name);
	// Mounts of the namespace that mount_enter() chose, ours otherwise. A descriptor means what it was opened as,
	// even in another namespace. A recorded machine has no mounts: EOPNOTSUPP.
	int (*mount_enter)(const struct sys *sys, int ns); // an open ns/mnt; working and root directory become its own
	// A namespace of our own, a copy that gets and passes on events as before.
	int (*mount_copy)(const struct sys *sys);
	int (*mount_bind)(const struct sys *sys, int from, int at, bool is_recursive);
	// An empty file system; source: its name in mountinfo, options: of tmpfs(5).
	int (*mount_tmpfs)(const struct sys *sys, int at, const char *source, const char *options);
	int (*mount_shared)(const struct sys *sys, int at); // it alone, with the copies that are made of it from now on
	int (*mount_private)(const struct sys *sys, int at); // it and all below leave their peers
	int (*mount_read_only)(const struct sys *sys, int at);
	int (*mount_detach)(const struct sys *sys, int dir, const char *name); // the topmost there, with all below
	// The security context of SELinux, of a name or link itself.
	int (*label_set)(const struct sys *sys, int dir, const char *name, const char *context);
	// A descriptor that stays with the process although its number may be given to another one, and a signal by it.
	int (*process_open)(const struct sys *sys, int pid);
	int (*process_signal)(const struct sys *sys, int process, int pid, int signal);
	// A program in another root directory, see launch_process(); its process id. A recorded one never ends.
	int (*process_start)(const struct sys *sys, const char *root, const char *env, const struct strv *argv,
			     int out);
	// A text into an existing attribute below sys. A driver's unbind and bind change where the device's driver
	// link points, recorded ones too.
	int (*attribute_set)(const struct sys *sys, const struct root *kern, const char *path, const char *text);
	// A certificate in a keyring of the kernel, as "ex:" and its id in hex (keyctl(2), KEYCTL_SEARCH). ENOKEY: it
	// is not there. A recorded machine has those in DIR/.sys-keys, one id a line, for one keyring alone as
	// KEYRING:id (eight digits, as in proc/keys); without that file ENOSYS.
	int (*key_search)(const struct sys *sys, int keyring, const char *description);
	// An EFI variable of an efivarfs below kern: its attributes and its value, in one write; without a value it is
	// removed. A file that efivarfs guards against mistakes (FS_IMMUTABLE_FL) is freed for it.
	int (*variable_set)(const struct sys *sys, const struct root *kern, const char *path, const void *data,
			    size_t len);
	const struct root *record; // recorder only
};

const struct sys *sys_real(void);
struct sys sys_recorder(const struct root *record);
