#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build and test in a minimal root of this or another Debian. debootstrap makes it from this machine's own mirror, with what Debian
# calls essential and apt in it; what the tests need scripts/deps.sh installs in there. As root.
#   scripts/other-root.sh ROOT [TIER|TIER/TEST...]     trixie unit cli/install; without tests: unit and cli
#   scripts/other-root.sh ROOT -- COMMAND...           something else, in the copy of this tree: trixie -- make static
#   scripts/other-root.sh --list                       the roots that `make check-all` tests in
# ROOT is a suite, or SUITE-chroot: entered by chroot alone, as build daemons do it, so that `/` is no mount point.
# Roots are kept, with caches: ~/.cache/kmodsmith/roots/SUITE. Delete that for a fresh one.
# shellcheck disable=SC2016 # what is in single quotes other shells expand
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
name=${1-} suite=${name%-chroot}
[ "$name" != --list ] || { printf '%s\n' trixie bookworm-chroot; exit; }
[[ $suite =~ ^[a-z]+$ ]] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "roots: 0 passed, 0 failed, 1 skipped"; exit; }
shift
if [ "${1-}" = -- ]; then
  shift
else
  [ $# -gt 0 ] || set -- unit cli
  set -- bash -o pipefail -c 'scripts/check.sh "$@" | sed -u "\$s/^[0-9]/roots: &/"' bash "$@"
fi
root=${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith}/roots/$suite
scripts/deps.sh root
mkdir -p "${root%/*}"
exec 9>"$root.lock" && flock 9

mirrors() { # of this machine: "main URI" and "security URI"
  { grep -rhsE '^(deb |URIs:)' /etc/apt/sources.list /etc/apt/sources.list.d --include='*.list' --include='*.sources' || true; } |
    tr ' ' '\n' | sed -nE 's#^[a-z+]+:/.*debian-security.*#security &#p; t; s#^[a-z+]+:/.*debian.*#main &#p' | sort -u
}
make_root() { # DIR
  local kind uri
  uri=$(mirrors | sed -n '/^main /{s///p;q}')
  [ -n "$uri" ] || { echo "roots: /etc/apt names no Debian mirror" >&2; return 1; }
  rm -rf "$1"
  debootstrap --variant=minbase "$suite" "$1" "$uri" >"$1.log" 2>&1 || { tail -n 5 "$1.log" >&2; return 1; }
  mirrors | while read -r kind uri; do
    case $kind in
    main) printf 'deb %s %s main\n' "$uri" "$suite" "$uri" "$suite-updates" ;;
    security) echo "deb $uri $suite-security main" ;;
    esac
  done >"$1/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::(https?|Check-)' >"$1/etc/apt/apt.conf.d/90host" || true
}
[ -d "$root" ] || { make_root "$root.new" && mv "$root.new" "$root"; }
rm -rf "$root/src"
git clone -q --depth 1 "file://$PWD" "$root/src"
git ls-files -z --cached --others --exclude-standard | tar --null -T - --ignore-failed-read -c | tar -x -C "$root/src"
# Process 1 in there is a shell, which collects what tests leave behind; what is mounted in there nobody else sees.
exec unshare --mount --propagation private --pid --fork --kill-child bash -euc '
  [[ $1 == *-chroot ]] || mount --bind "$0" "$0"
  mount -t proc proc "$0/proc"
  for d in sys dev; do mount --rbind "/$d" "$0/$d"; done
  cd "$0"
  [[ $1 == *-chroot ]] || { pivot_root . mnt && umount -l mnt; }
  exec chroot . /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash -c "cd /src; \"\$@\"; exit" bash "${@:2}"' "$root" "$name" "$@"
