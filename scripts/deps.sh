#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Install with apt what the named tiers need and this machine lacks. Does nothing, in a moment, when all is there.
#   scripts/deps.sh [TIER...]    build test check cli services cluster whole image images publish lint vm man package root bench fuzz mutate coverage; by default all
#                                of these; arm64: compilers and emulators for it; --list TIER... only says what they are
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
declare -A tiers=(
  [build]="gcc make pkg-config libc6-dev libarchive-dev libjansson-dev libssl-dev libzstd-dev liblz4-dev liblzma-dev zlib1g-dev
    libacl1-dev libcurl4-openssl-dev libseccomp-dev libkmod-dev libmicrohttpd-dev libyaml-dev nettle-dev"
  [test]="libcmocka-dev clang softhsm2 libengine-pkcs11-openssl patch ca-certificates"
  [cli]="bats bats-support bats-assert bats-file jq openssl python3-yaml scdoc softhsm2 libengine-pkcs11-openssl strace python3 zstd binutils
    busybox-static ca-certificates fish git kmod makeself patch procps xz-utils zsh"
  [services]="bats bats-support bats-assert bats-file jq systemd scdoc docker-registry nginx-light skopeo buildah apache2-utils openssl
    python3 curl zstd binutils strace time procps gcc libc6-dev podman runc busybox-static apt-utils gpg gpg-agent dpkg-dev rpm createrepo-c dnf dnf-plugins-core kmod"
  [cluster]="bats bats-support bats-assert bats-file jq openssl curl python3-yaml binutils busybox-static docker-registry etcd-server golang-go libcmocka-dev procps zstd"
  [image]="jq openssl python3 python3-yaml binutils dpkg-dev util-linux procps ca-certificates"
  [publish]="skopeo" [images]="bats bats-support bats-assert bats-file jq buildah skopeo docker-registry python3 binutils openssl dpkg-dev
    rpm scdoc git procps runc python3-yaml util-linux"
  [vm]="curl etcd-server golang-go procps python3-yaml docker-registry binutils buildah e2fsprogs openssl qemu-system-x86 strace busybox-static cpio kmod gcc make bc
    libelf-dev patch dpkg-dev xz-utils lz4 zstd python3 jq makeself ca-certificates apt-utils gpg gpg-agent sbsigntool mtools dosfstools"
  [check]="python3 procps ccache git" [lint]="pkg-config make gcc clang clang-format clang-tidy cppcheck shellcheck codespell python3 git"
  [fuzz]="clang libclang-rt-dev" [mutate]="python3 python3-clang" [coverage]="gcovr acl" [man]="scdoc man-db" [package]="dpkg-dev rpm binutils" [whole]="iproute2 buildah"
  [root]="debootstrap git util-linux" [bench]="strace psmisc valgrind nginx-light curl zstd time jq openssl python3"
)

missing() { # PACKAGE... -> those that are not installed, one a line
  local there
  there=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p') || true
  printf '%s\n' "$@" | sort -u | grep -vxF -e "$there" || true
}
offered() { [ "$(apt-cache policy "$@" 2>/dev/null | grep -cE '^  Candidate: [^(]')" -eq $# ]; } # does apt know them all?
[ $# -gt 0 ] || set -- "${!tiers[@]}"
tiers[arm64]="gcc-aarch64-linux-gnu binutils-aarch64-linux-gnu qemu-user-static qemu-system-arm"
packages=() list=
[ "$1" != --list ] || { list=yes && shift; }
for tier in "$@"; do
  [ -n "${tiers[$tier]-}" ] || { echo "deps: there is no tier '$tier' (${!tiers[*]})" >&2; exit 2; }
  read -r -d '' -a packages <<<"${packages[*]-} ${tiers[$tier]}" || true
done
[ -z "$list" ] || { printf '%s\n' "${packages[@]}" | sort -u; exit; }
hash dpkg-query apt-get 2>/dev/null || { echo "deps: no apt here; install what these Debian packages hold: ${packages[*]}" >&2; exit 1; }
mapfile -t lacking < <(missing "${packages[@]}")
[ ${#lacking[@]} -gt 0 ] || { echo "deps: all ${#packages[@]} packages for $* are installed"; exit; }
if [ "$(id -u)" -ne 0 ]; then
  echo "deps: ${#lacking[@]} packages are missing and only root can install them. Run:" >&2
  echo "  apt-get install -y --no-install-recommends ${lacking[*]}" >&2
  exit 1
fi
export RUNLEVEL=1 # this and the mask: packages of servers start them, and those that come with the tests stay stopped
mapfile -t units < <(printf '%s\n' "${lacking[@]}" | sed -n 's/^nginx-light$/nginx/p; s/^docker-registry$/&/p; s/^etcd-server$/etcd/p')
[ -d /run/systemd/system ] && [ ${#units[@]} -gt 0 ] && systemctl -q --runtime mask "${units[@]}" &&
  trap 'systemctl -q --runtime unmask "${units[@]}"; systemctl -q disable "${units[@]}"' EXIT
echo "deps: installing ${lacking[*]}"
install=(apt-get -qq -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 install -y --no-install-recommends "${lacking[@]}")
if ! offered "${lacking[@]}" || ! "${install[@]}" >/dev/null; then
  echo "deps: refreshing apt's lists"
  apt-get -qq -o Acquire::Retries=3 update
  "${install[@]}" >/dev/null
fi
