# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-D1, T57: kill -9 before and after every write of the journal and every change in the kernel, at each occurrence.
# Whatever the moment, the next start ends in its target; and when its target cannot be had, the driver is what it was or
# what was requested, never nothing and never a mixture. The table of all cases is at the end. With CHECK=check every third
# moment, from another one each day: three days have them all.
# kernel: K61
# gpus: 1
# stub: yes
# packages: smallopen smallset
# programs: kill_at
# mem: 2G
# timeout: 1200
wish() { # MODE COMMAND...: another parameter is a replacement, and shows in the kernel
  mode=$1 && shift
  "$@" kmodsmith install --driver "$SMALLOPEN_VERSION" --flavour open --param nvidia:NVreg_DeviceFileMode="$mode"
}
settled() { # a call in the kernel outlives the process that made it, and keeps the lock
  until "$@" >/tmp/out 2>&1 || ! grep -q 'E_LOCKED' /tmp/out; do sleep 0.1; done
  ! grep -q '^kmodsmith: error' /tmp/out
}
now() { # what the kernel has: the mode and the modules
  echo "$(sed -n 's/^DeviceFileMode: //p' /proc/driver/nvidia/params 2>/dev/null)$(awk '/^nvidia/ { printf " %s", $1 }' /proc/modules)"
}
has_both() { [ "$(now)" = "$1 nvidia_modeset nvidia_uvm nvidia" ]; }
journal() { sed -n "s/.*\"$1\": \"\\(.*\\)\",*/\\1/p" /var/lib/kmodsmith/journal | tail -n 1; }

moments() { sed -n "s/^kill_at: \([0-9]*\) calls of $1\$/\1/p" /tmp/log; } # CALL: how many there were in the change that went through
step=1 from=1
if [ "$CHECK" = check ]; then step=3 from=$((1 + DAY % 3)); fi

t "a driver to begin with" kmodsmith install --package /packages/smallopen --param nvidia:NVreg_DeviceFileMode=432
old=432 new=438 points=0 total=0
printf '%-18s %-44s %s\n' "killed at" "what was left (journal step: modules)" "after the next start" >/tmp/table
# Cut off before anything changed, and somebody has changed their mind: what was meant is not what works.
wish $new kill_at fsync 2 >/tmp/log 2>&1
is "an install is killed before its first unload" "$? $(journal step)" "137 unload"
t "the driver that is there is requested again" settled wish $old
is "the driver that was requested again is the last good one, with its parameters" "$(journal state) $(sed -n 's/.*"nvidia \(NVreg.*\)".*/\1/p' \
  /var/lib/kmodsmith/journal)" "idle NVreg_DeviceFileMode=$old"

for call in fsync finit_module pidfd_open fchmodat; do # a rename is between two fsyncs
  number=$from
  while :; do
    wish $new kill_at $call $number >/tmp/log 2>&1
    if [ $? -ne 137 ]; then # there are no more; that one went through
      last=$old old=$new new=$last total=$((total + $(moments $call)))
      break
    fi
    points=$((points + 1))
    left="$(journal step): $(now)"
    if [ $((points % 2)) -eq 0 ]; then # a request that cannot be had
      settled kmodsmith install --driver 999.1 --no-compile
      is "$call $number, then a start that cannot have its request: fails" $? 1
      has_both $old || has_both $new
      report $? "$call $number, then a failed start: the driver is as it was, or as it was requested" "$(now)
$(cat /tmp/out)"
      t "$call $number, then a failed start: status finds everything right" kmodsmith status
    fi
    settled wish $new
    report $? "$call $number, then the same again" "$(cat /tmp/out)"
    t "$call $number, then the same again: ends in the target" has_both $new
    is "$call $number, then the same again: the journal is at rest" "$(journal state)" idle
    printf '%-18s %-44s %s\n' "$call $number" "$left" "$(now)" >>/tmp/table
    last=$old old=$new new=$last number=$((number + step))
  done
done
report $((total < 17)) "there are at least 17 moments" "$total"
if [ $step = 1 ]; then
  is "every moment was taken" "$points" "$total"
else
  echo "# CHECK=check: $points of $total moments taken, in each call every third from number $from; $((total - points)) left out"
fi
t "the store is sound" kmodsmith store verify
t "nothing but the last good driver is remembered" sh -c '! grep -q E_ /var/lib/kmodsmith/journal'

# The same for another flavour, at the moments in which the kernel has neither.
for call in finit_module pidfd_open; do
  kmodsmith install --driver "$SMALLOPEN_VERSION" --flavour open >/dev/null 2>&1
  kill_at $call 2 kmodsmith install --package /packages/smallset >/dev/null 2>&1
  left=$(now)
  settled kmodsmith install --driver 999.1 --no-compile
  like "$call 2 of another flavour ($left): the old one comes back" "$(cat /proc/driver/nvidia/version)" 'Open Kernel Module'
  t "$call 2 of another flavour: status finds the old one right" kmodsmith status
  t "$call 2 of another flavour: that one goes through in the end" settled kmodsmith install --package /packages/smallset
done
sed 's/^/# /' /tmp/table
