#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make an image unless the one that is there is whole and of the same inputs: our programs, the scripts, the packages. An
# image that was begun and not ended, or was changed since, is made again. Two runs at once make it once.
#   images/kept.sh runtime|builder|driver [ARGUMENT of images/NAME.sh...]
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
name=$1
shift

inputs() { # NAME [ARGUMENT...]: all that decides its bytes
  local argument
  sha256sum build/release/kmodsmith build/release/kmodsmith-static images/* LICENSE
  sed -n 's/^VERSION := //p' Makefile
  dpkg-query -W "${linked[@]}"
  echo "${SOURCE_DATE_EPOCH-} ${KMODSMITH_BASE-} $(cat "$out/base/root.key" 2>/dev/null)"
  [ "$1" != builder ] || images/tools.sh
  for argument in "${@:2}"; do
    if [ -f "$argument" ]; then stat -c '%n %s %Y' "$argument"; else echo "$argument"; fi
  done
}
state() { # NAME: of what was made
  (cd "$out/$1" && stat -c '%n %s %Y' root.tar oci.tar && find root -printf '%P %s %l\n' | sort) 2>&1
}
keep() { # NAME [ARGUMENT...]
  local key=$out/$1/key wanted
  wanted=$(inputs "$@" | sha256sum)
  if [ "$(cat "$key" 2>/dev/null)" = "$wanted $(state "$1" | sha256sum)" ]; then return; fi
  echo "images: making the $1 image" >&2
  rm -f "$key"
  "images/$1.sh" "${@:2}"
  echo "$wanted $(state "$1" | sha256sum)" >"$key"
}
for program in kmodsmith kmodsmith-static; do
  [ -x "build/release/$program" ] || fail "there is no build/release/$program; run: make all static"
done
mkdir -p "$out"
exec 8>"$out/lock"
flock -n 8 || { echo "images: another run makes images in $out; waiting for it" >&2 && flock 8; }
images/base.sh >/dev/null
keep runtime
[ "$name" = runtime ] || keep "$name" "$@"
