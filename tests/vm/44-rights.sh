# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-N3, R-K1, R-R1, R-H3: in a container, an install, an export and an unload with the capabilities of the program's table alone;
# each of them is missed when it is not there; and with everything read-only but /run, /dev and the state directory.
# gpus: 1
# stub: yes
# beside: payloads
# programs: setpriv unshare
# mem: 1536M
# timeout: 600
root=/run/nvidia/driver
mkdir -p /pod $root/lib/firmware
mount -t tmpfs pod /pod
for dir in bin sbin usr lib lib64 proc sys beside; do
  [ -d /$dir ] && mkdir /pod/$dir && mount -o rbind /$dir /pod/$dir
done
mkdir /pod/dev /pod/tmp
limit() { # CAPABILITIES COMMAND...: as setpriv writes them
  caps_=$1 && shift
  /usr/bin/setpriv --bounding-set "$caps_" --inh-caps=-all "$@"
}
pod() { # the same in a container that has the machine's process ids, and nothing of its mounts
  caps_=$1 && shift
  /usr/bin/unshare --mount chroot /pod /usr/bin/setpriv --bounding-set "$caps_" --inh-caps=-all "$@"
}
put() { "$@" kmodsmith install --package /beside/a --export $root; }
kmodsmith doctor --json >/tmp/doctor
table=$(sed -n 's/.*"capability": "CAP_\(.*\)",/\1/p' /tmp/doctor | tr 'A-Z\n' 'a-z ')
without() { # NAME...: the table but for these, and nothing else
  all=-all
  for cap in $table; do case " $* " in *" $cap "*) ;; *) all=$all,+$cap ;; esac; done
  echo "$all"
}
loaded() { grep -c '^nvidia ' /proc/modules; }
others() { # somebody else uses the driver
  /usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups sh -c 'exec 9</dev/nvidia0; : >/tmp/held; exec sleep 1000' &
  holder=$!
  until [ -e /tmp/held ]; do kill -0 $holder 2>/dev/null || return 1; sleep 0.1; done
  rm /tmp/held
}
chmod 1777 /tmp

is "the table" "$(echo "$table" | wc -w)" 11
t "install and export with the table alone" put pod "$(without)"
t "  ready" kmodsmith status
t "  the export is the machine's" test -x $root/usr/bin/nvidia-smi
others
t "  holders of another user are seen" pod "$(without)" kmodsmith holders
like "  the holder of another user is named" "$out" "pid $holder sleep"
t "  they can be asked to end" pod "$(without)" kmodsmith unload --holders stop --holders-timeout 20
wait $holder
is "  and nothing is loaded" "$(loaded)" 0
rm /var/lib/kmodsmith/journal # with a last good driver that would come back
for cap in sys_module mknod sys_admin sys_chroot sys_ptrace; do
  t_fails 1 "install and export without $cap" put pod "$(without $cap)"
  like "  the capability is named" "$out" "E_RIGHTS: .*CAP_$(echo $cap | tr '[:lower:]' '[:upper:]')"
  is "  before anything is touched" "$(loaded)" 0
done
t_fails 1 "what is exported cannot be looked at" pod "$(without sys_admin)" kmodsmith install --package /beside/plain --export none
like "  the capabilities are named" "$out" "E_RIGHTS: enter the host's mount namespace \(CAP_SYS_ADMIN and CAP_SYS_CHROOT are needed\)"
t "install and export again" put pod "$(without)"
others
t_fails 1 "unload without kill" pod "$(without kill)" kmodsmith unload --holders stop --holders-timeout 5
like "  the holder that could not be asked is named" "$out" 'E_RIGHTS: signal process [0-9]+'
for cap in sys_ptrace dac_read_search; do
  limit "$(without $cap)" kmodsmith holders >/tmp/seen 2>&1
  like "holders without $cap are not all seen" "$(cat /tmp/seen)" 'could not be checked'
done
kill $holder
wait $holder
t "doctor names what is missing for the rest" sh -c '/usr/bin/setpriv --bounding-set -setuid,-chown --inh-caps=-all kmodsmith doctor | grep rights'
like "  as a warning" "$out" '^warn +rights +E_RIGHTS: enough to install an available package; this process lacks CAP_CHOWN .*CAP_SETUID'
t "unload" kmodsmith unload

started() { until grep -q "$2" "$1"; do kill -0 "$init" 2>/dev/null || return 1; sleep 0.1; done; }
caps() { sed -nE 's/^(Cap|NoNewPrivs)[^:]*:\t//p' /proc/$init/status | tr '\n' ' '; }
kmodsmith init --package /beside/a >/tmp/init.log 2>&1 &
init=$!
t "init is ready" started /tmp/init.log 'capabilities dropped: '
like "  and says what it gives up" "$(cat /tmp/init.log)" 'dropped: .*CAP_SETPCAP.*CAP_NET_ADMIN.*CAP_MKNOD'
kept=00000000002d00e5
is "  inherited, permitted, effective, bounding, ambient; no new privileges" "$(caps)" \
  "0000000000000000 $kept $kept $kept 0000000000000000 1 "
kill $init
wait $init
is "  and leaves as it should" $? 0
before=$(sed -n 's/^CapEff:\t//p' /proc/self/status)
kmodsmith init --package /beside/a --keep-privileges >/tmp/init2.log 2>&1 &
init=$!
t "init that keeps its privileges" started /tmp/init2.log 'ready: driver'
is "  has them" "$(caps | cut -d' ' -f2)" "$before"
kill $init
wait $init
t "unload by another process" kmodsmith unload

written() { find /tmp /var -newer /tmp/mark ! -path '/var/lib/kmodsmith*' ! -path /tmp/out ! -path /tmp ! -path /var/lib; }
t "everything is read-only, lib/modules too" mount -o remount,ro rootfs /
t_fails 1 "  really" touch /lib/modules/x
: >/tmp/mark
t "R-R1: install and export" put
t "  a second time" put
t "  status" kmodsmith status
t "  unload" kmodsmith unload
is "  only /run, /dev and the state directory were written" "$(written)" ""
