# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Compiled and unpacked things, kept under a name that is the hash of everything they are made from: the same inputs
# are never made twice, changed inputs never meet an old result, and deleting the whole cache costs only time.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
cache=${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith}
mkdir -p "$cache/vm"
inputs_file=$cache/vm/inputs.$$
trap 'rm -f "$inputs_file"' EXIT
"$top/scripts/inputs.sh" >"$inputs_file"
# shellcheck source=/dev/null
. "$inputs_file"
rm -f "$inputs_file"

# shellcheck source=cached.sh
. "$here/cached.sh"

unpack() { # DIR DEB...
  local dir=$1 deb
  shift
  for deb in "$@"; do dpkg-deb --extract "$deb" "$dir" || return; done
}

of() { # KEY [SUFFIX]: the value of a variable of scripts/inputs.sh
  local name=$1${2:-}
  [ -n "${!name:-}" ] || { echo "vm: scripts/inputs.sh knows no $name" >&2; return 1; }
  echo "${!name}"
}

has_input() { [[ " ${LACKING-} " != *" $1 "* ]]; } # KEY: does this Debian have it at all?

driver_version() { # KEY of a source -> the version of the driver that it is of, as its package says
  of "$1" | sed -nE 's/.*_([0-9]+[0-9.]*)-[^_]*_[^_]*\.deb$/\1/p'
}

headers() { # KEY -> directory with usr/src and usr/lib as the packages have them
  local debs
  debs=$(of "$1" _HEADERS)
  # shellcheck disable=SC2086 # several paths
  cached "headers-$1" unpack $debs
}

unpack_kernel() { # DIR RELEASE DEB...: as installed, with the indexes of depmod; newer packages name usr/lib, and 7.x has all there
  local own=$1/usr/lib/modules/$2
  unpack "$1" "${@:3}" || return
  [ -e "$1/lib" ] || ln -s usr/lib "$1/lib" || return
  if [ -e "$own/vmlinuz" ] && [ ! -e "$1/boot" ]; then
    mkdir "$1/boot" && cp "$own/vmlinuz" "$1/boot/vmlinuz-$2" && cp "$own/config" "$1/boot/config-$2" || return
  fi
  depmod -b "$1" "$2"
}

kernel() { # KEY -> directory with boot/vmlinuz-* and lib/modules
  local image release
  image=$(of "$1" _IMAGE)
  release=$(of "$1")
  # shellcheck disable=SC2086 # several paths
  cached "kernel-$1" unpack_kernel "$release" $image
}

# at_home HEADERS COMMAND...: run COMMAND where the header packages seem to be installed, because their makefiles include
# each other by absolute path. Only a private mount namespace sees it. (Whoever calls make switches the modules' BTF off:
# with newer headers it needs pahole, and the modules work without it.)
at_home() {
  local tree=$1
  shift
  # shellcheck disable=SC2016 # expanded by the inner shell
  unshare --mount --map-root-user bash -euc '
    mount --bind "$0/usr/src" /usr/src
    mount -t overlay -o lowerdir="$0/usr/lib:/usr/lib" overlay /usr/lib
    exec "$@"' "$tree" "$@"
}

compile_test_modules() { # DIR HEADERS RELEASE SOURCE...
  local dir=$1 tree=$2 release=$3
  shift 3
  cp "$@" "$dir" &&
    at_home "$tree" make -C "/usr/src/linux-headers-$release" M="$dir" CONFIG_DEBUG_INFO_BTF_MODULES= modules &&
    strip -g "$dir"/*.ko && objcopy --remove-section=__versions "$dir"/gdrdrv.ko &&
    find "$dir" -mindepth 1 ! -name '*.ko' -delete
}

test_modules() { # KEY -> directory with the modules of tests/vm/modules for that kernel
  local tree release
  tree=$(headers "$1")
  release=$(of "$1")
  cached "modules-$1" compile_test_modules "$tree" "$release" "$here"/modules/Kbuild "$here"/modules/*.c
}
