# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# What a program can learn about this guest from /proc and /sys, as a tar archive on /dev/ttyS2: the part that matters for
# a driver. Runs in a guest, after the lines that tests/vm/record puts before it.
to=/tmp/record

keep() { # PATH...: text files and links, as they are
  for path in "$@"; do
    if [ -L "$path" ]; then
      mkdir -p "$to/${path%/*}"
      ln -s "$(readlink "$path")" "$to$path"
    elif [ -f "$path" ] && [ -r "$path" ]; then
      mkdir -p "$to/${path%/*}"
      cat "$path" >"$to$path" 2>/dev/null || rm "$to$path"
    fi
  done
}
keep_tree() { find "$@" 2>/dev/null | while read -r path; do keep "$path"; done; }

keep /proc/version /proc/cmdline /proc/devices /proc/modules /proc/misc /proc/filesystems /proc/meminfo /proc/cpuinfo
keep /proc/sys/kernel/arch /proc/sys/kernel/osrelease /proc/sys/kernel/version /proc/sys/kernel/tainted /proc/sys/kernel/random/boot_id
keep_tree /proc/driver/nvidia*
keep /sys/kernel/security/lockdown /sys/module/module/parameters/*
for device in /sys/bus/pci/devices/*; do
  keep "$device" "/sys/bus/pci/drivers"/*/"${device##*/}"
  real=$(readlink -f "$device")
  for name in vendor device class revision subsystem_vendor subsystem_device irq modalias resource numa_node enable driver; do
    keep "$real/$name"
  done
done
for module in /sys/module/nvidia*; do
  [ -d "$module" ] || continue
  for name in version srcversion refcnt initstate taint coresize; do keep "$module/$name"; done
  keep_tree "$module/parameters" "$module/holders"
done
tar -C "$to" -c . >/dev/ttyS2
