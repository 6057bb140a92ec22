# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2086 # $target and $old are several words
# GPUs that do not start after a replacement, or after a boot. What worked before and works no more is the fault of the driver that
# came, and is undone; the same driver and a GPU that fails is the GPU's fault, and so is one that failed before: the driver stays.
# kernel: K61
# gpus: 2
# stub: yes
# packages: open proprietary
# mem: 2G
# timeout: 600
stub=/sys/module/fakeopen/parameters
first=0000:40:00.0 second=0000:50:00.0
old="kmodsmith install --package /packages/open" target="kmodsmith install --package /packages/proprietary"
open=$(modinfo -F srcversion /packages/open.d/nvidia.ko) proprietary=$(modinfo -F srcversion /packages/proprietary.d/nvidia.ko)
starts() { tr '\n' ' ' <$stub/starts; }
loaded() { cat /sys/module/nvidia/srcversion; }
gpus() { # PARAMETER=VALUE...: nothing else is told to the stub
  for word in fail= block= driver= from=1 starts= "$@"; do echo "${word#*=}" >"$stub/${word%%=*}"; done
}
ended() { until ! grep -qsx gpu-start /proc/[0-9]*/comm; do sleep 0.1; done; } # what waits for a start
blames_nobody() { unlike "  the driver is not to blame" "$(kmodsmith status)" 'bad target'; }
fails_with() { # DRIVER GPUS: it stays, because it is not to blame, and the node is not ready
  like "  the code, with the GPU" "$out" "error: E_GPU_START: .*$2"
  is "  the driver stays" "$(loaded)" "$1"
  unlike "  nothing was undone" "$out" ' back +[0-9.]+ s '
  t_fails 1 "  status" kmodsmith status
  like "  NOT READY, with the GPU" "$out" "FAIL +gpus +$2"
  blames_nobody
}

t "a driver that works" $old
is "  what is loaded" "$(loaded)" "$open"
gpus driver=$proprietary "fail=$second=unexpected WPR2 already up"
t_fails 1 "one needs a reset with the target: the replacement" $target
fails_with "$proprietary" "1 of 2 start .*; $second: it needs a reset: "
t "one needs a reset with the target: the way back" $old

undone() { # NAME GPUS COMMAND...: and the old driver works
  name=$1 which=$2 && shift 2
  t_fails 1 "$name: the replacement" "$@"
  refusal=$out
  like "  the code, with the GPU" "$out" "error: E_GPU_START: .*$which"
  like "  it is undone" "$out" "back +.* $OPEN_VERSION open is loaded again"
  is "  the old driver is loaded" "$(loaded)" "$open"
  t "  and ready" kmodsmith status
  like "  its GPUs were measured again" "$out" 'gpus +2 of 2 start'
  like "  the target is marked" "$out" "bad target: $PROPRIETARY_VERSION proprietary failed at .* E_GPU_START: "
}
gpus driver=$proprietary fail=$second
undone "one of two fails with the target" "1 of 2 start .*; $second: GSP firmware did not boot" $target
like "  the GPUs were measured before" "$refusal" 'gpus +.* before the change: 2 of 2 start'
before=$(starts)
t_fails 1 "one of two fails with the target: it is not tried again" $target
like "  it says why" "$out" 'error: E_TARGET_FAILED: .*E_GPU_START'
is "  and no GPU was started" "$(starts)" "$before"
gpus driver=$proprietary fail=all
undone "all fail with the target" "0 of 2 start " $target --retry

gpus driver=$proprietary fail=$second from=3
t "it fails from its second start with the target on: the replacement" $target --retry
is "  the GPUs were started once before and once after" "$(starts)" "$first 2 $second 2 "
t_fails 1 "it fails from its second start with the target on: status --check-gpus" kmodsmith status --check-gpus
t_fails 1 "it fails from its second start with the target on: install" $target
fails_with "$proprietary" "1 of 2 start .*; $second: "
t "failed before, works after: the replacement" $old
like "  it failed before" "$out" "gpus +.* before the change: 1 of 2 start .*; $second: "
like "  it works" "$out" 'gpus +[0-9.]+ s +2 of 2 start'
is "  with the other driver" "$(loaded)" "$open"

gpus fail=$second
t_fails 1 "failed before, fails after: the replacement" $target
like "  it failed before" "$out" "gpus +.* before the change: 1 of 2 start .*; $second: "
fails_with "$proprietary" "1 of 2 start .*; $second: "
gpus
t "works before and after: the replacement" $old

is_pending() { # NAME COMMAND...: refused while a start has not ended, and nothing is touched for it
  name=$1 && shift
  before=$(loaded)
  t_fails 75 "$name" timeout -s KILL 120 "$@" --gpu-timeout 3
  like "  the code" "$out" 'error: E_GPU_PENDING: '
  is "  the driver stays" "$(loaded)" "$before"
  unlike "  nothing is unloaded" "$out" ' unload +[0-9]'
  t_fails 1 "  status" kmodsmith status
  like "  NOT READY, with the GPU" "$out" "FAIL +gpus .*$first: its start has not ended"
}
gpus block=$first
is_pending "it hangs before: the replacement" $target
like "  it says so" "$out" "before the change: .*$first: its start has not ended"
is_pending "it hangs before: the replacement again" $target
gpus
ended
blames_nobody
gpus driver=$proprietary block=$first
t_fails 75 "it hangs after: the replacement" timeout -s KILL 120 $target --gpu-timeout 3
like "  the code" "$out" "error: E_GPU_PENDING: .*$first: its start has not ended"
is "  the target stays, because it cannot be unloaded" "$(loaded)" "$proprietary"
unlike "  nothing was undone" "$out" ' back +[0-9.]+ s '
is_pending "it hangs after: the way back" $old
gpus
ended
blames_nobody
t "it hung and ended: the target" $target
t "it hung and ended: the way back" $old

reboot() { # PARAMETER=VALUE...: as after one: no module, and nothing in /run
  gpus
  kmodsmith unload && rm -rf /run/kmodsmith && gpus "$@"
}
init="kmodsmith init --package /packages/open"
t "a boot, one of two fails that worked: the boot" reboot fail=$second
t_fails 1 "a boot, one of two fails that worked: init" $init
fails_with "$open" "1 of 2 start .*; $second: "
t "a boot, one of two failed before: the boot" reboot fail=$second
t_fails 1 "a boot, one of two failed before: init" $init
fails_with "$open" "1 of 2 start .*; $second: "
t "a boot, all fail: the boot" reboot fail=all
t_fails 1 "a boot, all fail: init" $init
fails_with "$open" "0 of 2 start "
t "a boot, all work again: the boot" reboot
t "a boot, all work again: install" $old
t "a boot, another driver with which one fails that worked: the boot" reboot driver=$proprietary fail=$second
undone "a boot, another driver with which one fails that worked" "1 of 2 start .*; $second: " $target --retry
t "a boot, one hangs: the boot" reboot block=$second
t_fails 75 "a boot, one hangs: init" timeout -s KILL 120 $init --gpu-timeout 3
like "  the code" "$out" "error: E_GPU_PENDING: .*$second: its start has not ended"
is "  the driver stays" "$(loaded)" "$open"
gpus
ended
t "a boot, one works only once: the boot" reboot fail=$second from=2
$init >/tmp/init.log 2>&1 &
until grep -q 'ready: driver' /tmp/init.log || ! kill -0 $!; do sleep 0.1; done
kill $!
t "a boot, one works only once: it is ready" kmodsmith status
t "a boot, one works only once: the container's next start" $old
is "  each GPU was started once" "$(starts)" "$first 1 $second 1 "
