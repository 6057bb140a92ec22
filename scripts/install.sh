#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Put what was built where it belongs, or take it away again. `make install` and the packages call it.
#   scripts/install.sh BUILD PREFIX [DESTDIR]               PREFIX: /usr/local, /usr
#   scripts/install.sh --remove BUILD PREFIX [DESTDIR]      the configuration and /var/lib/kmodsmith stay
# What is in /etc is there for every PREFIX: the configuration (never over another one), and the hooks of kernel packages.
set -euo pipefail
cd "$(dirname "$0")/.." && umask 022
remove=
[ "${1-}" != --remove ] || { remove=yes && shift; }
[ $# -ge 2 ] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
build=$1 prefix=$2 destdir=${3-}
units=$prefix/lib/systemd/system
# A package of the distribution's own style has its units with the system's; others' belong in /etc.
[ "$prefix" = /usr ] || units=/etc/systemd/system

put() { # MODE FILE PATH
  if [ -n "$remove" ]; then rm -f "$destdir$3"; else install -D -m "$1" "$2" "$destdir$3"; fi
}
link() { # TARGET PATH
  if [ -n "$remove" ]; then rm -f "$destdir$2"; else mkdir -p "$(dirname "$destdir$2")" && ln -sf "$1" "$destdir$2"; fi
}
unit() { # NAME
  local made
  made=$(mktemp)
  sed "s#@BINDIR@#$prefix/bin#" "packaging/$1" >"$made"
  put 644 "$made" "$units/$1"
  rm -f "$made"
}
put 755 "$build/kmodsmith" "$prefix/bin/kmodsmith"
link kmodsmith "$prefix/bin/kubectl-kmodsmith"
link kmodsmith "$prefix/bin/kubectl_complete-kmodsmith" # kubectl asks it after TAB
for page in "$build"/man/*.[0-9]; do put 644 "$page" "$prefix/share/man/man${page##*.}/${page##*/}"; done
put 644 packaging/completion/kmodsmith.bash "$prefix/share/bash-completion/completions/kmodsmith"
put 644 packaging/completion/kmodsmith.fish "$prefix/share/fish/vendor_completions.d/kmodsmith.fish"
put 644 packaging/completion/kmodsmith.zsh "$prefix/share/zsh/site-functions/_kmodsmith"
link ../site-functions/_kmodsmith "$prefix/share/zsh/vendor-completions/_kmodsmith" # where Debian's zsh looks
put 644 LICENSE "$prefix/share/doc/kmodsmith/copyright"
put 644 CHANGELOG.md "$prefix/share/doc/kmodsmith/CHANGELOG.md"
for name in kmodsmith.service kmodsmith-gpus.service kmodsmith-watch.service; do unit "$name"; done
for kind in postinst header_postinst postrm; do put 755 scripts/hooks/kmodsmith "/etc/kernel/$kind.d/zz-kmodsmith"; done
put 755 scripts/hooks/kmodsmith /etc/kernel/install.d/90-kmodsmith.install
[ -n "$remove" ] || [ -e "$destdir/etc/kmodsmith/kmodsmith.conf" ] || put 644 "$build/kmodsmith.conf" /etc/kmodsmith/kmodsmith.conf
[ -n "$remove" ] || mkdir -p "$destdir/var/lib/kmodsmith/kernels" # where the hooks queue names
