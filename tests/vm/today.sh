# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # scripts/matrix.sh, which sources this, has cache, top, kmodsmith, passed, failed
# What scripts/matrix.sh makes beside its pairs: `again`, the same module twice, and `today`, every driver source x every kernel
# that Debian offers in any suite today, as a table in Markdown.

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
  local suite=${1%-backports} tools=''
  [ "$suite" != experimental ] || suite=sid
  if [ -z "${states[$suite]-}" ]; then
    if [ "$suite" != "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" ]; then
      tools=$(cd "$top" && images/tools.sh "$suite") || return
    fi
    states[$suite]=$(state_with "$tools") || return
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
