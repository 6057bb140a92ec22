#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compile kmodsmith for arm64 on another machine, and run its tests there under qemu-user, in a root of Debian's arm64 packages of
# the same release. As root. They are unpacked, not installed, and nothing of this machine changes: only what runs in the root can
# start programs for arm64 (binfmt_misc of a user namespace, Linux 6.7).
#   scripts/arm64.sh [TIER/NAME...]     unit/str_test cli/check; without names: all of unit and cli
#   scripts/arm64.sh -- COMMAND...      something else in the root, in this directory
# shellcheck disable=SC2046 # words
# The root is kept in ~/.cache/kmodsmith/roots/arm64; logs are build/arm64/TIER-NAME.log
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
root=${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith}/roots/arm64 out=build/arm64
scripts/deps.sh arm64
make_root() { # DIR
  local packages debs deb
  mapfile -t packages < <(scripts/deps.sh --list build test cli | grep -vx clang
    dpkg-query -W -f '${Essential} ${Package}\n' | sed -n 's/^yes //p')
  debs=$(KMODSMITH_INPUTS_ARCH=arm64 scripts/inputs.sh --closure "${packages[@]}" mawk procps xz-utils busybox-static patch kmod git)
  rm -rf "$1" && mkdir -p "$1"/{usr/{bin,sbin,lib},proc,sys,dev,tmp,root,etc} && ln -s usr/bin usr/sbin usr/lib "$1"
  for deb in $debs; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$1"; done
  ln -sf mawk "$1/usr/bin/awk"
  for deb in passwd group; do cp "$1/usr/share/base-passwd/$deb.master" "$1/etc/$deb"; done
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
  # shellcheck disable=SC2016 # what is in single quotes other shells expand
  nsenter --user --target "$holder" unshare --mount --propagation private --pid --fork --kill-child bash -euc '
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    printf %s "$1" >/proc/sys/fs/binfmt_misc/register
    mkdir -p "$0$PWD"
    mount --bind "$PWD" "$0$PWD"
    mount -t proc proc "$0/proc"
    for d in sys dev; do mount --rbind "/$d" "$0/$d"; done
    chroot "$0" /usr/bin/env -i HOME=/root CMOCKA_MESSAGE_OUTPUT=TAP KMODSMITH="$PWD/$2/kmodsmith" PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      bash -c "cd \"\$0\" && exec \"\$@\"" "$PWD" "${@:3}"' "$root" "$handler" "$out" "$@"
}
[ -d "$root" ] || { make_root "$root.new" && mv "$root.new" "$root"; }
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig
[ $# -gt 0 ] || set -- $(printf '%s\n' tests/unit/*_test.c tests/cli/*.bats | sed 's#^tests/##; s#\.[a-z]*$##')
make -j"$(nproc)" ARCH=arm64 B="$out" CC="aarch64-linux-gnu-gcc --sysroot=$root" PKG_CONFIG=pkg-config all \
  $(printf '%s\n' "$@" | sed -n "s#^unit/#$out/&#p")
[ "$1" != -- ] || { enter "${@:2}"; exit; }
logs=()
for name; do
  logs+=("$out/${name/\//-}.log")
  command=("$out/$name")
  [[ $name != cli/* ]] || command=(bats --tap "tests/$name.bats")
  (enter timeout -k 9 300 "${command[@]}") >"${logs[-1]}" 2>&1 || grep -q '^not ok' "${logs[-1]}" || echo "not ok - ended with $?" >>"${logs[-1]}"
  sed -n "/# SKIP/d; s#^not ok#$name: &#p" "${logs[-1]}"
done
awk '/^(not )?ok .*# (SKIP|skip)/ { skipped++; next } /^ok / { passed++ } /^not ok/ { failed++ }
  END { printf "arm64: %d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 }' "${logs[@]}"
