# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What ends a guest that does not end by itself. Its limit counts seconds on a processor and, apart from them, seconds in
# which it neither had a processor nor waited for one: so a guest that spins ends soon, and so does one that sleeps, but
# none ends because other programs keep this machine busy. Ten times the limit on the clock ends whatever is left. A guest
# whose script has ended only has to power off, and may sleep for less.

process_times() { # PID: sets ran_ms and waited_ms, on a processor and for one; fails when the process has ended
  local stat file ran wait rest ticks
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  read -r -a rest <<<"${stat##*) }" # from the third field on
  [ "${rest[0]}" != Z ] || return 1
  ticks=$((rest[11] + rest[12])) # utime, stime
  ran_ms=$((ticks * 1000 / ticks_a_second)) waited_ms=0
  for file in /proc/"$1"/task/*/schedstat; do
    { read -r ran wait rest <"$file"; } 2>/dev/null || continue
    waited_ms=$((waited_ms + wait / 1000000))
  done
}
ticks_a_second=$(getconf CLK_TCK)

limit_reached() { # LIMIT IDLE-LIMIT [WHEN], in seconds
  if [ "$ran_ms" -ge $(($1 * 1000)) ]; then
    echo "it used $1 s of processor time"
  elif [ "$idle_ms" -ge $(($2 * 1000)) ]; then
    echo "it did nothing for $2 s${3:+ $3}"
  elif [ "$wall_ms" -ge $(($1 * 10000)) ]; then
    echo "it ran for $(($1 * 10)) s"
  else
    return 1
  fi
}

# QEMU's NVMe controller (seen with 7.2) loses a request now and then, since it and its guest read what the other one writes
# without a barrier between. The guest's reset of it does not help.
disk_lost() { # CONSOLE
  grep -qE 'nvme nvme[0-9]+: I/O [0-9]+ .*timeout, aborting' "$1" 2>/dev/null && echo "the emulated disk lost a request"
}

scripts_ended() { { cat "$1" 2>/dev/null || true; } | grep -c 'guest: exit' || true; } # CONSOLE, of all boots

# limit_watch PID LIMIT IDLE-LIMIT FILE CONSOLE: until the process ends; at a limit, FILE says which, and the process is killed.
limit_watch() {
  local begun now last ran waited never idle_ms=0 wall_ms ran_ms waited_ms step idle=$3 when='' ended
  ended=$(scripts_ended "$5")
  exec {never}<> <(:) # a pipe that never has anything to read: to wait without a process
  process_times "$1" || return 0
  begun=${EPOCHREALTIME//[.,]/} last=$begun ran=$ran_ms waited=$waited_ms
  while ! read -rt 1 -u "$never" && process_times "$1"; do
    now=${EPOCHREALTIME//[.,]/}
    step=$(((now - last) / 1000 - (ran_ms - ran) - (waited_ms - waited)))
    idle_ms=$((idle_ms + (step > 0 ? step : 0))) wall_ms=$(((now - begun) / 1000))
    last=$now ran=$ran_ms waited=$waited_ms
    if [ -z "$when" ] && [ "$(scripts_ended "$5")" != "$ended" ]; then
      when="after its script had ended" idle_ms=0
      if [ "$idle" -gt 300 ]; then idle=300; fi
    fi
    if limit_reached "$2" "$idle" "$when" >"$4.new" || disk_lost "$5" >"$4.new"; then
      mv "$4.new" "$4"
      kill -KILL "$1"
      return
    fi
  done
  rm -f "$4.new"
}
