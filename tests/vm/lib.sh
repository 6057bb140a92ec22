# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# What a guest test is written with. Each call is one line of TAP; what a command printed is kept in $out and shown when
# the test fails. A test must not depend on time: wait for a state, never for a while.
#   t NAME COMMAND...             the command succeeds
#   t_fails STATUS NAME COMMAND.. the command ends with exactly this status
#   is NAME GOT WANT              two strings are equal
#   like NAME TEXT REGEXP         a text has a line that matches an extended regular expression; unlike: it has none
#   skip NAME WHY                 this cannot be tested here
#   hold FILE, release            keep a file open in another process ($holder), and let go of it again
#   node NAME MAJOR-NAME MINOR    make the device node /dev/NAME; the major number is looked up in /proc/devices
#   literally TEXT                a regular expression that matches this text alone
#   power_cut                     the machine ends at once; what was not synced is lost, what was printed is not
#   $K61 $K61B $K61R $K612        the kernel releases of this run; $OPEN_VERSION $PROPRIETARY_VERSION $TESLA535_VERSION
#                                 $TESLA470_VERSION: the driver versions
#   dmesg_since                   kernel log lines since the last call, without time stamps
set -u
# shellcheck source=/dev/null
. /vm/inputs
count=0
out=
subject= title=

finish() {
  status=$?
  echo "1..$count"
  exit "$status"
}
trap finish EXIT

# A name that begins with blanks goes on with the last one that did not: what is printed stands alone.
stand_alone() { # NAME
  case $1 in
  "  "*) title="$subject: ${1#  }" ;;
  *) subject=$1 title=$1 ;;
  esac
}
report() { # STATUS NAME DETAIL: STATUS 0 is a pass
  count=$((count + 1))
  stand_alone "$2"
  if [ "$1" -eq 0 ]; then printf 'ok %d - %s\n' "$count" "$title"; return 0; fi
  printf 'not ok %d - %s\n' "$count" "$title"
  printf '%s\n' "$3" | sed 's/^/# /'
  return 1
}
run_command() { # into $out; the command runs in this shell, so functions and variables work
  "$@" >/tmp/out 2>&1
  set -- $?
  out=$(cat /tmp/out)
  return "$1"
}
t() {
  name=$1 && shift
  run_command "$@"
  got=$?
  report "$got" "$name" "\$ $*
$out
(exit status $got, not 0)"
}
t_fails() {
  want=$1 name=$2 && shift 2
  run_command "$@"
  got=$?
  [ "$got" -eq "$want" ]
  report $? "$name" "\$ $*
$out
(exit status $got, not $want)"
}
is() {
  [ "$2" = "$3" ]
  report $? "$1" "got:  $2
want: $3"
}
matches() { printf '%s\n' "$1" | grep -qE -- "$2"; }
# shellcheck disable=SC2001 # dash has no ${name//}
literally() { printf '%s\n' "$1" | sed 's/[].[*+?(){}|^$\\]/\\&/g'; }
like() {
  matches "$2" "$3"
  report $? "$1" "no line matches $3 in:
$2"
}
unlike() {
  ! matches "$2" "$3"
  report $? "$1" "a line matches $3 in:
$2"
}
skip() {
  count=$((count + 1))
  stand_alone "$1"
  echo "ok $count - $title # SKIP $2"
}
hold() { # the file is open before this returns, because this shell opens it and the sleeper inherits it
  { sleep 1000000 & holder=$!; } 9<"$1"
}
release() {
  kill "$holder" && wait "$holder"
  [ $? -eq 143 ]
}
node() {
  # nvidia is nvidia-frontend up to 535
  mknod "/dev/$1" c "$(awk -v name="$2" '$2 == name || $2 == name "-frontend" { print $1; exit }' /proc/devices)" "$3"
}
power_cut() {
  echo "1..$count"
  exec >/dev/console 2>&1 # waits until the serial line has it all
  echo "<0>guest: exit 0" >/dev/kmsg
  echo b >/proc/sysrq-trigger
}
dmesg_since() {
  dmesg >/tmp/dmesg
  tail -n "+$((${seen:-0} + 1))" /tmp/dmesg | sed 's/^\[[^]]*\] //'
  seen=$(wc -l </tmp/dmesg)
}
