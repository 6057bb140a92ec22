# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For scripts/bench.sh: which parts run, what a run is described by, and where the rows of a part go.
failed=()

# NAME PACKAGE: its version without what Debian adds.
version_of() { dpkg-query -W -f "$1 \${Version}" "$2" | sed -E 's/ [0-9]+:/ /; s/[-+~][^ ]*$//'; }
# KMODSMITH INPUTS COMMAND: the line of $BENCH_RUN, see report.py
describe() {
  local machine tools
  machine="$(nproc) x $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r | cut -d- -f1), load"
  machine+=" $(cut -d' ' -f1 /proc/loadavg) at the start"
  tools="kernel $(sed -n 's/^K61=//p' <<<"$2"), driver $(sed -nE 's/^PROPRIETARY=.*_([0-9.]+)-[^_]*_.*/\1/p' <<<"$2"), nvidia-modprobe"
  tools+=" $(sed -nE 's/^MODPROBE=.*_([0-9.]+)-.*/\1/p' <<<"$2"), $(version_of gcc "gcc-$(gcc -dumpversion)"), $(version_of kmod kmod)"
  tools+=", $(version_of psmisc psmisc), $(version_of nginx nginx-light), $(version_of curl curl), $(version_of tar tar)"
  printf '%s\t%s\t%s\t%s\t%s' "$(date -u '+%F %H:%M')" "$("$1" --version | cut -d' ' -f2)" "$machine" "$tools" "$3"
}
is_wanted() { # WORD...: is one of them in $ONLY, if that says anything?
  local word
  [ -n "${ONLY-}" ] || return 0
  for word; do [[ " $ONLY " != *" $word "* ]] || return 0; done
  return 1
}
# ROWS: put rows there, and print all else as it comes; of rows what lap has not printed already.
keep() {
  local line fields
  while IFS= read -r line; do
    case $line in
    row$'\t'* | text$'\t'*) printf '%s\n' "$line" >>"$1" ;;
    esac
    IFS=$'\x1f' read -ra fields <<<"${line//$'\t'/$'\x1f'}" # blanks as separators would swallow empty fields
    case $line in
    row$'\t'*) [ -n "${fields[8]-}" ] || printf '    %-4s %-56s %s %s  %s %s\n' "${fields[@]:1:2}" "${fields[5]}" "${fields[4]}" \
      "${fields[9]-}" "${fields[10]-}" ;;
    *) printf '%s\n' "${line#text$'\t'}" ;;
    esac
  done
}
# NAME IDS COMMAND...: measure, print what it says, and keep its rows; those of a part that fails stay as they were.
part() {
  local rows=build/bench/rows.$1
  # shellcheck disable=SC2086 # several words
  is_wanted "$1" $2 || return 0
  echo "== $1${2:+ ($2)}, $(date -u +%H:%M) UTC"
  : >"$rows"
  if "${@:3}" </dev/null | keep "$rows"; then
    tests/bench/report.py add "$1" "$rows"
  else
    failed+=("$1")
    echo "bench: $1 failed; its figures stay as they were" >&2
  fi
  rm "$rows"
}
