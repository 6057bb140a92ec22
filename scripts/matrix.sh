#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every driver source against every kernel: built, or refused in words. A pair that is neither is a failure.
#   scripts/matrix.sh [SOURCE@KERNEL...]    sources and kernels are keys of scripts/inputs.sh; default: all of them
#   scripts/matrix.sh --list                the names of all pairs, `again` and `today`
#   scripts/matrix.sh today [GLOB...]       every driver source x every kernel that Debian offers in any suite today, as a table in
#                                           Markdown; GLOB: only these, as PACKAGE_VERSION@KERNEL. docs/drivers.md has one
# Built packages are kept in the cache, where the guests of tests/vm find them. `again`: the same module is made twice.
# The last line is "matrix: P passed, F failed, S skipped".
# shellcheck disable=SC1091,SC2154 # what is sourced defines of, package, cache, here and top
set -uo pipefail
pairs=$(for kernel in K61 K61B K61R K612; do for source in open proprietary tesla535 tesla470; do echo "$source@$kernel"; done; done)
[ "${1-}" != --list ] || { printf '%s\nagain@K61\ntoday\n' "$pairs"; exit; }
. "$(dirname "$0")/../tests/vm/cache.sh"
# shellcheck source=../tests/vm/packages.sh
. "$here/packages.sh"
set +e
# shellcheck disable=SC2086 # several names
[ $# -gt 0 ] || set -- $pairs again@K61
kmodsmith=${KMODSMITH:-$top/build/release/kmodsmith}
passed=0 failed=0

verdict() { # WORD SOURCE KEY RESULT DETAIL: one line, and it counts
  printf '%s - %-12s %-32s %-16s %6d s  %s\n' "$1" "$2" "$(of "$3")" "$4" $((SECONDS - start)) "$5"
  if [ "$1" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
row() { # SOURCE KEY
  local log dir said headers patches
  log=$(mktemp)
  headers=$(of "$2" _HEADERS)
  said=$("$kmodsmith" check --source "$(of "${1^^}")" --kernel "$(of "$2")" --headers "${headers// /,}" --state-dir "$cache/build" --json)
  if grep -q '"code": "E_SOURCE_KERNEL"' <<<"$said"; then
    verdict ok "$1" "$2" E_SOURCE_KERNEL "$(jq -r '[.. | .reason? // empty][0]' <<<"$said")"
  elif dir=$(package "$1" "$2" 2>"$log"); then
    patches=$(grep -o '\.patch ' "$(blob_of "$dir/layout" config)" | wc -l)
    verdict ok "$1" "$2" built "$(du -shL "$dir/modules" | cut -f1), patches: $patches"
  else
    verdict "not ok" "$1" "$2" FAILED "$(tail -n 2 "$log" | head -n 1)" && sed 's/^/# /' "$log"
  fi
  rm -f "$log"
}
again() { # KEY: R-C2: the same module, made in another directory, at another time, in another set and from a list, is the same file.
  local first again
  first=$(package open "$1") again=$(mktemp -d)
  jq -n --arg source "$OPEN" --arg release "$(of "$1")" --arg headers "$(of "$1" _HEADERS)" \
    '{drivers: [{$source}], kernels: [{$release, headers: ($headers / " ")}], modules: ["nvidia"]}' >"$again/matrix.json"
  if "$kmodsmith" build --quiet --matrix "$again/matrix.json" --state-dir "$again/state" --output "oci:$again/layout" >/dev/null 2>"$again/log" &&
    tar --zstd -xf "$(blob_of "$again/layout" layers)" -C "$again" && cmp "$first/modules/nvidia.ko" "$again"/opt/lib/modules/*/nvidia.ko; then
    verdict ok open "$1" "made again" "the same bytes"
  else
    verdict "not ok" open "$1" "made again" "$(tail -n 2 "$again/log" | head -n 1)"
  fi
  rm -rf "$again"
}

# The table. A kernel is compiled for with the gcc of its own suite: this machine's, or that of a builder root (images/tools.sh) in a
# state directory of its own. What `check` says without compiling is held against what `build` does: a pair that `check` does not
# refuse has to compile, one that it refuses is refused by `build`, too, with the same code. Kernels other than cloud ones are only
# checked, unless a GLOB names pairs.
declare -A states
find_state() { # SUITE: sets state
  local suite=${1%-backports} tools
  [ "$suite" != experimental ] || suite=sid
  if [ -z "${states[$suite]-}" ]; then
    state=$cache/build
    if [ "$suite" != "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" ]; then
      state+=-$suite
      tools=$(cd "$top" && images/tools.sh "$suite") || return
      if [ "$(cat "$state/tools" 2>/dev/null)" != "$tools" ]; then
        "$kmodsmith" pack builder "$tools/root.tar" --state-dir "$state" >&2 && echo "$tools" >"$state/tools" || return
      fi
    fi
    states[$suite]=$state
  fi
  state=${states[$suite]}
}
compile_today() { # DIR DEB HEADERS RELEASE STATE BUILDER: a file that says how it went
  local start=$SECONDS
  "$kmodsmith" build --source "$2" --headers "$3" --kernel "$4" --state-dir "$5" --output "oci:$1/layout" --json >"$1/build.json" &&
    jq -r --argjson s $((SECONDS - start)) '[$s, .key.compiler, (.key.patches | map(split(" ")[0] | rtrimstr(".patch")) | join(" "))] | @tsv' \
      "$1/build.json" >"$1/result" && rm -r "$1/layout" "$1/build.json"
}
offer() { # SUITE RELEASE HEADERS PACKAGE VERSION DEB DIR: one row of the table; DIR: the source unpacked, which is checked faster
  local state said verdict code reason seconds='' compiler='' patches='' result made began
  find_state "$1" || { failed=$((failed + 1)); echo "# no compiler for $2"; return; }
  said=$("$kmodsmith" check --source "$7" --kernel "$2" --headers "$3" --state-dir "$state" --json 2>/dev/null)
  IFS=$'\t' read -r verdict code reason < <(jq -r '[.verdict, .code // "-", .reason] | @tsv' <<<"$said")
  result="not compiled: $reason"
  if [ "$verdict" = impossible ]; then
    began=$(date +%s%N)
    "$kmodsmith" build --quiet --source "$6" --kernel "$2" --headers "$3" --state-dir "$state" --output "oci:$refused" --json >"$refused.json" 2>/dev/null
    seconds=$(($(date +%s%N) - began))
    seconds=$((seconds / 1000000000)).$((seconds / 100000000 % 10))
    result="refused: $reason"
    said=$(jq -r .error.code "$refused.json")
    [ "$said" = "$code" ] || result="FAILED: \`check\` says $code, \`build\` $said"
  elif [ "$named" = yes ] || [[ $2 == *-cloud-* ]]; then
    made=$(cached "today-$4-$5-$2" compile_today "$6" "$3" "$2" "$state" "$(builder)" 2>>"$refused.log") &&
      IFS=$'\t' read -r seconds compiler patches <"$made/result" && result=built
    [ "$result" = built ] || result="FAILED: \`check\` knows no obstacle, \`build\`: $(grep -hoE 'E_[A-Z_]+.*' "$refused.log" | tail -n 1)"
  fi
  case $result in FAILED*) failed=$((failed + 1)) ;; *) passed=$((passed + 1)) ;; esac
  compiler=$(sed -E 's/.* ([0-9]+\.[0-9]+)\.[0-9]+$/\1/' <<<"$compiler")
  printf '| %s | %s | %s | %s | %s | %s | %s |\n' "${4%-kernel-source} $5" "$2" "$1" "$compiler" "$result" "$seconds" "$patches"
}
today() { # GLOB...
  local offered suite release debs package version deb glob work dir named=yes
  [ $# -gt 0 ] || named=no
  work=$(mktemp -d) refused=$work/layout
  offered=$("$top/scripts/inputs.sh" --matrix) || { failed=$((failed + 1)); return; }
  echo "| driver of Debian | kernel | of suite | gcc | result | s | patches |"
  echo "|---|---|---|---|---|--:|---|"
  while read -r package version deb; do
    while read -r suite release debs; do
      # shellcheck disable=SC2053 # a pattern
      for glob in "${@:-*}"; do
        [[ ${package}_$version@$release == $glob ]] || continue
        dir=$work/${package}_$version
        if [ ! -e "$dir" ]; then
          rm -rf "$work"/nvidia-*
          mkdir "$dir" && dpkg-deb --fsys-tarfile "$deb" | tar -xO --wildcards './usr/src/*.tar.*' | tar -xJ -C "$dir"
        fi
        offer "$suite" "$release" "${debs// /,}" "$package" "$version" "$deb" "$dir"
        break
      done
    done < <(awk '$1 == "kernel" && !seen[$3]++' <<<"$offered" | cut -d' ' -f2- | sort -k2,2V)
  done < <(awk '$1 == "source" && !seen[$3 $4]++ { print $3, $4, $5 }' <<<"$offered" | sort -k1,1 -k2,2V)
  rm -r "$work"
}
if [ "$1" = today ]; then
  today "${@:2}"
  set --
fi
for pair in "$@"; do
  start=$SECONDS
  if [ "${pair%@*}" = again ]; then again "${pair#*@}"; else row "${pair%@*}" "${pair#*@}"; fi
done
echo "matrix: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
