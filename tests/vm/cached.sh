# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # whoever sources this sets cache
# Made things, kept below $cache/vm: what is there is made once, and what was damaged since is made anew.

digest() { # FILE|DIR|WORD...: cached directories carry their hash in their name, so the name stands for the contents
  local input
  for input in "$@"; do
    if [ -f "$input" ]; then sha256sum <"$input"; else echo "$input"; fi
  done
}

sizes_in() { (cd "$1" && find . -type f -printf '%s %p\n' | LC_ALL=C sort); } # DIR

# is_whole DIR: every file that was there when it was made is there, as large as then. (Of one that was made before sizes were
# written down they are written down now.)
is_whole() {
  local lost
  [ -d "$1" ] || return 1
  [ -e "$1.files" ] || { sizes_in "$1" >"$1.files.new.$$" && mv "$1.files.new.$$" "$1.files"; } || return 0
  lost=$(LC_ALL=C comm -13 <(sizes_in "$1") "$1.files" | head -n 1)
  [ -n "$lost" ] || return 0
  echo "vm: $1 is damaged (${lost#* }), and is made anew" >&2
  return 1
}

# cached NAME FUNCTION INPUT...: print the directory that FUNCTION DIR INPUT... fills, filling it if it is not there yet.
# FUNCTION must chain its steps with &&: `set -e` does not hold inside a condition.
cached() {
  local name=$1 fill=$2 dir lock
  shift 2
  dir=$cache/vm/$name-$({ declare -f "$fill"; digest "$@"; } | sha256sum | cut -c1-16)
  if ! is_whole "$dir" 2>/dev/null; then
    exec {lock}>"$dir.lock" && flock "$lock"
    if ! is_whole "$dir"; then
      rm -rf "$dir" "$dir.new" "$dir.files" && mkdir "$dir.new"
      if ! "$fill" "$dir.new" "$@" >"$dir.log" 2>&1; then
        echo "vm: cannot make $name, see $dir.log:" >&2
        tail -n 15 "$dir.log" >&2
        return 1
      fi
      sizes_in "$dir.new" >"$dir.files" && mv "$dir.new" "$dir"
    fi
    exec {lock}>&-
  fi
  echo "$dir"
}
