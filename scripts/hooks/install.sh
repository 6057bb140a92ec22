#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Put the hooks where this host's package manager runs them, or take them away again.
#   scripts/hooks/install.sh [--gate] [--remove] [ROOT]    ROOT: of the host, default /
# --gate also installs /etc/kmodsmith/reboot-gate, and has molly-guard ask it where that is installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
gate='' remove='' root=
for word in "$@"; do
  case $word in
  --gate) gate=yes ;;
  --remove) remove=yes ;;
  -*) sed -n '3,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  *) root=${word%/} ;;
  esac
done
put() { # FILE PLACE
  if [ -n "$remove" ]; then
    rm -f "$root/$2"
  else
    mkdir -p "$root/${2%/*}"
    # Whole or not at all: the package manager may be running. The name has a dot, so that run-parts leaves it alone.
    cp "$here/$1" "$root/$2.new" && chmod 755 "$root/$2.new" && mv -f "$root/$2.new" "$root/$2"
    echo "$root/$2"
  fi
}
if [ -n "$remove" ] || [ -d "$root/etc/kernel/postinst.d" ]; then
  for kind in postinst header_postinst postrm; do put kmodsmith etc/kernel/$kind.d/zz-kmodsmith; done
fi
if [ -n "$remove" ] || [ -d "$root/usr/lib/kernel/install.d" ] || [ -d "$root/lib/kernel/install.d" ]; then
  put kmodsmith etc/kernel/install.d/90-kmodsmith.install
fi
if [ -n "$gate$remove" ]; then
  put reboot-gate etc/kmodsmith/reboot-gate
  if [ -n "$remove" ] || [ -d "$root/etc/molly-guard/run.d" ]; then
    put reboot-gate etc/molly-guard/run.d/90-kmodsmith
  fi
fi
[ -n "$remove" ] || mkdir -p "$root/var/lib/kmodsmith/kernels"
