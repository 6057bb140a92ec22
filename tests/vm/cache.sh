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

# use_inputs WORD...: where one of the words names a kernel of Debian 13 (K13, open13@K13B), its inputs are known in this shell and
# below it.
use_inputs() {
  local word lines
  # shellcheck disable=SC2048 # a word may be a line of them
  for word in $*; do
    case $word in K13 | K13B | *@K13 | *@K13B) ;; *) continue ;; esac
    [ -z "${K13-}" ] || return 0
    lines=$("$top/scripts/inputs.sh" --debian13) && set -a && eval "$lines" && set +a
    return
  done
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

# at_home_in TOOLS DIR HEADERS COMMAND...: the same with the compiler of another Debian, the root that images/tools.sh made; of this
# machine's files COMMAND has DIR alone.
at_home_in() {
  local root=$2.root status=0
  rm -rf "$root" && mkdir "$root" && tar -C "$root" -xf "$1/root.tar" || return
  # shellcheck disable=SC2016 # expanded by the inner shell
  unshare --mount --map-root-user bash -euc '
    mkdir -p "$0$1" "$0/usr/src" "$0/dev" "$0/proc" "$0/tmp"
    mount --rbind /dev "$0/dev"
    mount --rbind /proc "$0/proc"
    mount --bind "$1" "$0$1"
    mount --bind "$2/usr/src" "$0/usr/src"
    mount -t overlay -o lowerdir="$2/usr/lib:$0/usr/lib" overlay "$0/usr/lib"
    exec chroot "$0" "${@:3}"' "$root" "${@:2}" || status=$?
  rm -rf "$root"
  return "$status"
}

compile_test_modules() { # DIR HEADERS RELEASE TOOLS SOURCE...; no TOOLS: this machine's
  local dir=$1 make=(make -C "/usr/src/linux-headers-$3" M="$1" CONFIG_DEBUG_INFO_BTF_MODULES= modules)
  cp "${@:5}" "$dir" &&
    if [ -n "$4" ]; then at_home_in "$4" "$dir" "$2" "${make[@]}"; else at_home "$2" "${make[@]}"; fi &&
    strip -g "$dir"/*.ko && objcopy --remove-section=__versions "$dir"/gdrdrv.ko &&
    find "$dir" -mindepth 1 ! -name '*.ko' -delete
}

tools_of() { # KEY of a kernel -> directory of the compiler that it needs, of images/tools.sh; nothing: this machine's does
  case $1 in K13 | K13B) [ "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" = trixie ] || "$top/images/tools.sh" trixie ;; esac
}

test_modules() { # KEY -> directory with the modules of tests/vm/modules for that kernel
  local tree release tools
  tree=$(headers "$1")
  release=$(of "$1")
  tools=$(tools_of "$1")
  cached "modules-$1" compile_test_modules "$tree" "$release" "$tools" "$here"/modules/Kbuild "$here"/modules/*.c
}
