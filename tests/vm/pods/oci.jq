# SPDX-License-Identifier: Apache-2.0
# A pod's container as a configuration of the OCI runtime, the way the kubelet and containerd turn a container with
# hostPID into one: no pid namespace, the propagation of the mounts; a privileged one has every right and the host's devices as
# they are now, another one the capabilities that are named, and its sysfs read-only.
# Input: shapes.json. $shape, $name, $image (configuration of the image), $env (lines NAME=VALUE of the test), $devices (lines
# TYPE MAJOR MINOR PATH), $args (words instead of the shape's, or nothing), $pause (process whose network, host name and IPC it
# joins; nothing: it has its own). How far GPUs are checked is as in the guest, unless the shape says more.
def lines: split("\n") | map(select(. != ""));
def variables: map(capture("^(?<key>[^=]*)=(?<value>.*)$"; "s")) | from_entries;
def bind($options): {destination: .[0], type: "bind", source: .[1], options: (["rbind"] + $options)};
def options: {
    "Bidirectional": ["rshared", "rw"], "HostToContainer": ["rslave", "rw"], "ro": ["rprivate", "ro"],
    "ro,HostToContainer": ["rslave", "ro"], "": ["rprivate", "rw"]
  }[.];
def all: ["CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
  "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE",
  "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME",
  "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
  "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"];
.shapes[$shape] as $pod | .mounts as $mounts | ($image.Env // [] | variables) as $base |
(if $pause == "" then {hostname: $name} else {} end) + {
  ociVersion: "1.0.2",
  root: {path: "/run/pods/\($name)/rootfs"},
  process: {
    user: {uid: 0, gid: 0},
    cwd: ($image.WorkingDir // "/"),
    args: (if $args == "" then $pod.args else $args | split(" ") end),
    env: ($base + {HOSTNAME: $name} + (env | with_entries(select(.key == "KMODSMITH_GPU_CHECK"))) + $pod.env +
      ($env | lines | variables) | to_entries | map("\(.key)=\(.value)")),
    capabilities: ($pod.capabilities // all | map("CAP_" + .) | {bounding: ., effective: ., permitted: .}),
    rlimits: [{type: "RLIMIT_NOFILE", soft: 1048576, hard: 1048576}]
  },
  mounts: ([
    {destination: "/proc", type: "proc", source: "proc", options: ["nosuid", "noexec", "nodev"]},
    {destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "strictatime", "mode=755", "size=65536k"]},
    {destination: "/dev/pts", type: "devpts", source: "devpts", options: ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]},
    {destination: "/dev/shm", type: "tmpfs", source: "shm", options: ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
    {destination: "/sys", type: "sysfs", source: "sysfs", options: ["nosuid", "noexec", "nodev", if $pod.capabilities then "ro" else "rw" end]},
    {destination: "/sys/fs/cgroup", type: "cgroup", source: "cgroup", options: ["nosuid", "noexec", "nodev", "relatime", "rw"]},
    (["/dev/termination-log", "/run/pods/\($name)/termination-log"] | bind(["rprivate", "rw"]))
  ] + [$pod.mounts[] | $mounts[.][] | bind(.[2] | options)]),
  linux: ({
    cgroupsPath: "/kubepods/\($name)",
    namespaces: ([{type: "mount"}] + ({uts: "uts", ipc: "ipc"} + if $pod.hostNetwork then {} else {network: "net"} end |
      to_entries | map({type: .key} + if $pause == "" then {} else {path: "/proc/\($pause)/ns/\(.value)"} end))),
    rootfsPropagation: "rshared"
  } + if $pod.capabilities then {
    resources: {devices: [{allow: false, access: "rwm"}]},
    maskedPaths: (["asound", "acpi", "kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug", "scsi"] |
      map("/proc/" + .)),
    readonlyPaths: (["bus", "fs", "irq", "sys", "sysrq-trigger"] | map("/proc/" + .))
  } else {
    resources: {devices: [{allow: true, access: "rwm"}]},
    devices: [$devices | lines[] | split(" ") | {type: .[0], major: (.[1] | tonumber), minor: (.[2] | tonumber), path: .[3],
      fileMode: 438, uid: 0, gid: 0}]
  } end)
}
