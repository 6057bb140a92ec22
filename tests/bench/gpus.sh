#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# P13: what the check of 8 GPUs costs by itself, in all three levels: they start at once, and stand-ins for NVIDIA's libraries
# (tests/gpu) answer and compute. Beside the same command without a check; and, with a driver and GPUs, beside `nvidia-smi -L`.
#   unshare --mount --pid --fork --kill-child bash tests/bench/gpus.sh KMODSMITH
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kmodsmith=$1
if [ -r /proc/driver/nvidia/version ] && command -v nvidia-smi >/dev/null; then
  lap 15 "P13 GPUs of this machine, status --check-gpus" kmodsmith "" "$kmodsmith status --check-gpus" "nvidia-smi -L" "" "nvidia-smi -L"
fi
mkdir -p "$here/../../build/bench/machine"
work=$(cd "$here/../../build/bench/machine" && pwd)
export KMODSMITH_STATE_DIR=/run/state
mount -t tmpfs tmpfs "$work"
cp -r "$here/../hosts/h100x8" "$work/host"
host=$work/host
driver=$(<"$host/sys/module/nvidia/version")
# A node that anybody can open takes the place of each GPU's: the number of /dev/full.
sed -i '/^Character devices:/a\  1 nvidia-of-the-bench' "$host/proc/devices"
mkdir "$work/standins"
for library in nvidia-ml:nvml cuda:cuda; do
  gcc -O2 -D_GNU_SOURCE -I"$here/../.." -shared -fPIC -o "$work/standins/lib${library%:*}.so.$driver" "$here/../gpu/${library#*:}.c"
done
echo "version $driver" >"$work/standins/behaviour"

mount -t overlay -o lowerdir="$work/standins:/usr/lib64" overlay /usr/lib64
mount -t tmpfs tmpfs /run
mkdir /run/state
mount -t tmpfs tmpfs /dev
mknod -m 666 /dev/null c 1 3
for name in nvidia{0..7} nvidiactl nvidia-uvm; do mknod -m 666 "/dev/$name" c 1 7; done
mount --bind "$host/sys" /sys
mount -t proc proc /proc
for file in devices driver version sys/kernel/osrelease; do mount --bind "$host/proc/$file" "/proc/$file"; done

said=$("$kmodsmith" status --check-gpus | grep -E '^(pass|FAIL) +gpus ' || true)
echo "gpus: $said"
grep -q '8 of 8 start, answer and compute' <<<"$said"
TMPDIR=$work lap 15 "P13 stand-ins of 8 GPUs, status --check-gpus" kmodsmith "" "-$kmodsmith status --check-gpus" "status alone" "" "-$kmodsmith status"
