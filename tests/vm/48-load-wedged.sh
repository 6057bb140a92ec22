# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-D5: a module whose start oopses, or never ends. The verdict comes with the kernel's words, nothing more is loaded in that
# boot, and no later command hangs; the next boot tries again, and after two such boots the driver that worked last is back.
# kernel: K61
# gpus: 1
# stub: yes
# packages: smallopen
# programs: mke2fs
# disk: 256M
# boots: 3
# mem: 1536M
state=/var/lib/kmodsmith good="install --package /packages/smallopen"
bad="$good --param nvidia:start=oops"
mkdir -p $state
if [ "$boot" = 1 ]; then /usr/bin/mke2fs -q -t ext4 /dev/nvme0n1; fi
mount -t ext4 /dev/nvme0n1 $state

stuck() { # WHAT: nothing more is tried in this boot, and every command ends by itself
  for again in "$good" "$good --retry" unload "init --package /packages/smallopen"; do
    # shellcheck disable=SC2086 # $again is words
    t_fails 1 "$1: nothing more is tried: $again" timeout -s KILL 60 kmodsmith $again
    like "$1: $again says why" "$out" "E_WEDGED: .*since .*load 'nvidia': "
    like "$1: $again says what to do" "$out" 'drain and reboot the node'
    unlike "$1: $again waits for nothing" "$out" 'waiting for it'
  done
  t_fails 1 "$1: status fails" kmodsmith status
  like "$1: status says so" "$out" "^wedged since .*load 'nvidia': "
  t_fails 1 "$1: doctor fails" kmodsmith doctor
  like "$1: doctor says so" "$out" '^FAIL +modules +E_WEDGED: '
  mv $state/journal /tmp/journal # by whoever knows nothing of it
  t "$1: who does not know of it does not wait for ever" sh -c "timeout -s KILL 120 kmodsmith $good --unload-timeout 1 --load-timeout 1
    case \$? in 1 | 75) ;; *) false ;; esac"
  like "$1: and is told" "$out" 'E_MODULE_BUSY: |E_WEDGED: '
  mv /tmp/journal $state/journal
}

case $boot in
1 | 2)
  echo 0 >/proc/sys/kernel/panic_on_oops
  [ "$boot" = 2 ] || t "a driver that works" sh -c "kmodsmith $good && kmodsmith unload"
  # shellcheck disable=SC2086 # $bad is words
  t_fails 1 "boot $boot: the start of a module oopses" kmodsmith $bad
  like "boot $boot: the verdict is E_WEDGED" "$out" "E_WEDGED: load: load 'nvidia': the kernel oopsed in it and killed process [0-9]+"
  like "boot $boot: the kernel's words are shown" "$out" 'kernel: BUG: kernel NULL pointer dereference.* Oops: .* RIP: .*nv_fail'
  unlike "boot $boot: nothing is loaded after it" "$out" 'loaded again'
  stuck "boot $boot: after an oops"
  sync
  power_cut
  ;;
3)
  # shellcheck disable=SC2086 # $bad is words
  t_fails 1 "two boots oopsed in it: it is not begun a third time" kmodsmith $bad
  like "two boots oopsed in it: the reason is told" "$out" 'E_TARGET_FAILED: .*2 boots ended while it was being loaded \(load\); the last one: .*oopsed'
  t "two boots oopsed in it: what worked last serves" kmodsmith status
  # shellcheck disable=SC2086 # $good is words
  t_fails 1 "the start of a module never ends" kmodsmith $good --param nvidia:start=hang --load-timeout 3
  like "a start that never ends: the verdict is E_WEDGED" "$out" "E_WEDGED: load: load 'nvidia': the kernel did not return within 3 s"
  like "a start that never ends: the stack says where it is stuck" "$out" 'it is in .*nv_fail \[nvidia\]'
  like "a start that never ends: the kernel's words are shown" "$out" 'kernel: .*the start shall hang'
  unlike "a start that never ends: nothing is loaded again" "$out" 'loaded again'
  child=$(printf '%s\n' "$out" | sed -nE 's/.*process ([0-9]+) is stuck.*/\1/p' | head -n 1)
  is "a start that never ends: the call is left behind" "$(sed -n 's/^State:[[:space:]]*\([A-Z]\).*/\1/p' "/proc/$child/status")" D
  is "a start that never ends: with the module's file alone" "$(find "/proc/$child/fd" -type l | wc -l)" 1
  stuck "after a start that never ends"
  ;;
esac
