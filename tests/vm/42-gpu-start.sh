# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2086 # $install is several words
# A first install where not every GPU starts: a driver that is loaded proves nothing, the node is ready when its GPUs are. Each is
# started once, and one that failed is not tried again at once. A driver of Debian 13 (550) is waited for by its own call.
# kernel: K61 K13
# gpus: 2
# stub: yes
# packages: open
# packages@13: open13
# mem: 1536M
# timeout: 400
stub=/sys/module/fakeopen/parameters
first=0000:40:00.0 second=0000:50:00.0
package=/packages/open waits=D # in open(2), which starts the GPU
[ -d $package ] || package=/packages/open13 waits=S # in NV_ESC_WAIT_OPEN_COMPLETE, while the driver's thread starts it
install="kmodsmith install --package $package"
starts() { tr '\n' ' ' <$stub/starts; }
is_loaded() { [ -d /sys/module/nvidia ]; }
fresh() { # [FAIL]: a node that never had a driver; what the stub was told before is forgotten
  echo >$stub/fail && echo >$stub/block && echo 1 >$stub/from && echo 1000 >$stub/until
  kmodsmith unload && rm -rf /var/lib/kmodsmith /run/kmodsmith || return
  echo "${1-}" >$stub/fail && echo >$stub/starts
}

t "all work: install" $install
like "  it says so" "$out" 'gpus +[0-9.]+ s +2 of 2 start \([0-9.]+ s\)$'
is "  each GPU was started once" "$(starts)" "$first 1 $second 1 "
like "  nothing holds them afterwards" "$(kmodsmith holders)" "the driver is not in use"
t "all work: status" kmodsmith status
like "  it has the measurement" "$out" 'gpus +2 of 2 start'
t "all work: a second install" $install
is "  neither started a GPU" "$(starts)" "$first 1 $second 1 "
t "all work: status --check-gpus" kmodsmith status --check-gpus
is "  it starts them" "$(starts)" "$first 2 $second 2 "

not_ready() { # NAME TEXT STARTS: install fails with E_GPU_START and TEXT, the driver stays, and the GPUs are left alone then
  t_fails 1 "$1: install" $install
  like "  its code and the reason" "$out" "error: E_GPU_START: .*$2"
  like "  with a next step" "$out" '^kmodsmith: next: '
  t "  the driver stays" is_loaded
  t_fails 1 "  status" kmodsmith status
  like "  NOT READY, with the GPU" "$out" "FAIL +gpus +$2"
  unlike "  the driver is not to blame" "$out" 'bad target'
  t_fails 1 "  install again" $install
  like "  with the same reason" "$out" "error: E_GPU_START: .*$2"
  t_fails 1 "  init" kmodsmith init --package $package
  is "  each GPU was started once in all" "$(starts)" "$3"
}
both="$first 1 $second 1 "
t "one of two fails: the node is fresh" fresh $second
not_ready "one of two fails" "1 of 2 start \([0-9.]+ s\); $second: GSP firmware did not boot \(RmInitAdapter 0x62:0x25:1679\)" "$both"
t_fails 1 "one of two fails: status --check-gpus" kmodsmith status --check-gpus
is "  it tries again" "$(starts)" "$first 2 $second 2 "
echo >$stub/fail
t "one of two failed: it is found to work again" kmodsmith status --check-gpus
t "  install" $install

t "one of two may be missing: the node is fresh" fresh $second
t "one of two may be missing: install" $install --allow-missing-gpus 1
like "  it names the GPU" "$out" "gpus .*1 of 2 start .*; $second: "
t "one of two may be missing: status" kmodsmith status
like "  it names the GPU" "$out" "gpus +1 of 2 start .*; $second: "
t "one of two may be missing: install again" $install --allow-missing-gpus 1
t_fails 1 "none may be missing any more: install" $install
is "  each GPU was started once in all" "$(starts)" "$both"

t "all fail: the node is fresh" fresh "$first=unexpected WPR2 already up,$second="
not_ready "all fail" \
  "0 of 2 start \(.*; $first: it needs a reset: .* \(RmInitAdapter 0x62:0x25:1679\); $second: it does not start \(EIO; kernel: .*rm_init_adapter failed" "$both"

t "it works only once: the node is fresh" fresh $second
echo 2 >$stub/from
t "it works only once: install" $install
t_fails 1 "it works only once: status --check-gpus" kmodsmith status --check-gpus
like "  it names the GPU" "$out" "FAIL +gpus +1 of 2 start .*; $second: "
t_fails 1 "it works only once: install" $install
t "  the driver stays" is_loaded
is "  it was not tried a third time" "$(starts)" "$first 2 $second 2 "

t "it fails only once: the node is fresh" fresh $second
echo 1 >$stub/until
t_fails 1 "it fails only once: install" $install
t "it fails only once: status --check-gpus" kmodsmith status --check-gpus
t "it fails only once: install" $install

pending() { # NAME TEXT COMMAND...: refused, because a start has not ended; it ends by itself, and changes nothing
  name=$1 text=$2 && shift 2
  t_fails 75 "a start that hangs: $name" timeout -s KILL 60 "$@"
  like "  its code" "$out" "error: E_GPU_PENDING: .*$text"
  t "  the driver stays" is_loaded
}
t "a start that hangs: the node is fresh" fresh
echo $first >$stub/block
pending "install" "0 of 2 start .*; $first: its start has not ended .*; $second: not tried" $install --gpu-timeout 3
waiter=$(grep -lsx gpu-start /proc/[0-9]*/comm)
is "  how it is waited for" "$(sed -n 's/^State:.\(.\).*/\1/p' "${waiter%comm}status")" $waits
t_fails 1 "a start that hangs: status" timeout -s KILL 60 kmodsmith status
like "  it says so" "$out" "FAIL +gpus +0 of 2 start .*; $first: its start has not ended"
pending "install again" "has not ended" $install --gpu-timeout 3
pending "status --check-gpus" "has not ended" kmodsmith status --check-gpus
pending "unload" "starting a GPU" kmodsmith unload
is "  the second GPU was left alone" "$(starts)" "$first 1 "
echo >$stub/block
until ! grep -qsx gpu-start /proc/[0-9]*/comm; do sleep 0.1; done
t "a start that hung and ended: install" $install
t "  unload" kmodsmith unload
