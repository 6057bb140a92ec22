#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run a command under qemu-user, in this directory, in a root of Debian's arm64 packages of this machine's release; without one only
# make the root, ~/.cache/kmodsmith/roots/arm64. As root. Packages are unpacked, not installed, and nothing of this machine changes:
# only what runs in the root can start programs for arm64 (binfmt_misc of a user namespace, Linux 6.7).
#   scripts/arm64-enter.sh [COMMAND...]    status 3: it cannot be done here, and why, on standard output
# shellcheck disable=SC2046,SC2086 # words
set -euo pipefail && shopt -s inherit_errexit
cd "$(dirname "$0")/.."
cache=${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith} out=$PWD/build/arm64
root=$cache/roots/arm64 git=$(git rev-parse --path-format=absolute --git-common-dir 2>/dev/null || pwd)
unavailable() { echo "$1" && exit 3; } # WHY
[ "$(id -u)" -eq 0 ] || unavailable "needs root"
scripts/deps.sh arm64 >&2 || unavailable "compilers and emulators for arm64 cannot be had here"
unshare --user --map-root-user --mount mount -t binfmt_misc none /proc/sys/fs/binfmt_misc 2>/dev/null ||
  unavailable "a user namespace has no binfmt_misc of its own here (Linux 6.7)"
packages() { # of the root, fetched: their paths
  KMODSMITH_INPUTS_ARCH=arm64 scripts/inputs.sh --closure $(scripts/deps.sh --list build test cli | grep -vx clang) \
    $(dpkg-query -W -f '${Essential} ${Package}\n' | sed -n 's/^yes //p') mawk git mount gcc-x86-64-linux-gnu
}
make_root() { # DIR DEB...
  local deb name
  rm -rf "$1" && mkdir -p "$1"/{usr/{bin,sbin,lib},proc,sys,dev,tmp,root,etc,mnt} && ln -s usr/bin usr/sbin usr/lib "$1"
  for deb in "${@:2}"; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$1"; done
  ln -sf mawk "$1/usr/bin/awk" # what the packages do when they are installed
  cat "$1"/usr/share/ca-certificates/mozilla/*.crt >"$1/etc/ssl/certs/ca-certificates.crt"
  for name in passwd group; do cp "$1/usr/share/base-passwd/$name.master" "$1/etc/$name"; done
}
# An ELF program for EM_AARCH64, ET_EXEC or ET_DYN. F: qemu is opened now, outside of the root.
zeros=$(printf '\\x00%.0s' {1..9}) ones=$(printf '\\xff%.0s' {1..8})
handler=":arm64:M::\\x7fELF\\x02\\x01\\x01$zeros\\x02\\x00\\xb7\\x00:${ones#????}\\x00$ones\\xfe\\xff\\xff\\xff:$(command -v qemu-aarch64-static):PF"
enter() { # COMMAND... in the root. All users of this machine are users in there, too.
  local holder
  read -r holder < <(unshare --user sh -c 'echo $$; exec sleep infinity >&-')
  # shellcheck disable=SC2064 # this one
  trap "kill $holder" EXIT
  echo '0 0 4294967295' | tee "/proc/$holder/uid_map" >"/proc/$holder/gid_map"
  # The handler goes with the last mount of its binfmt_misc, so the root has one, too.
  # shellcheck disable=SC2016 # what is in single quotes other shells expand
  nsenter --user --target "$holder" unshare --mount --propagation private --pid --fork --kill-child bash -euc '
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    printf %s "$1" >/proc/sys/fs/binfmt_misc/register
    mount --bind "$0" "$0" && mount -t proc proc "$0/proc"
    mount -t binfmt_misc binfmt_misc "$0/proc/sys/fs/binfmt_misc"
    for d in sys dev; do mount --rbind "/$d" "$0/$d"; done
    for d in "$2" "$3" "$4" "$5"; do mkdir -p "$0$d" && mount --bind "$d" "$0$d"; done
    cd "$0" && pivot_root . mnt
    exec chroot . bash -c "umount -l /mnt && cd \"\$0\" && exec env -i \"\$@\"" "$2" "${@:6}"' \
    "$root" "$handler" "$PWD" "${TMPDIR:-/tmp}" "$cache" "$git" HOME="$HOME" \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin ${TMPDIR:+"TMPDIR=$TMPDIR"} CMOCKA_MESSAGE_OUTPUT=TAP TIMEOUT_SCALE=5 INPUTS="${INPUTS-}" \
    KMODSMITH="$out/kmodsmith" STATIC_PROGRAM="$out/kmodsmith-static" "$@"
}
mkdir -p "${root%/*}" && exec 9>"$root.lock" && flock 9
if [ ! -d "$root" ]; then
  debs=$(packages) || { [ $? -eq 3 ] && unavailable "Debian's packages for arm64 cannot be fetched"; exit 1; }
  make_root "$root.new" $debs
  mv "$root.new" "$root"
  (enter ldconfig)
fi
[ $# -eq 0 ] || enter "$@" 9>&-
