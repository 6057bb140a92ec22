#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Kernel headers from the repositories that a host uses: by its own apt and dnf, from signed repositories on loopback.
# The host is a recorded machine with its own /etc, whose programs are this machine's. Of all that is fetched here, the
# content is made up; apt, dnf, rpmkeys and gpgv are the real ones.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load distribution

header_deb() { # DIR KERNEL VERSION: headers of a kernel, in three packages, one of which is not about headers
  local work
  work=$(mktemp -d "$BATS_FILE_TMPDIR/deb.XXXXXX")
  tiny_headers "$work/tree.tar" "$2"
  mkdir -p "$1" "$work/common/DEBIAN" "$work/common/usr/src/linux-headers-$2-common" "$work/tree.tar.d/DEBIAN"
  touch "$work/common/usr/src/linux-headers-$2-common/common.h"
  control "$work/tree.tar.d" "linux-headers-$2" "$3" "linux-headers-$2-common (= $3), gcc-12, libc6 (>= 2.3)"
  control "$work/common" "linux-headers-$2-common" "$3" ""
  run -0 dpkg-deb -Zgzip --root-owner-group -b "$work/tree.tar.d" "$1"
  run -0 dpkg-deb -Zgzip --root-owner-group -b "$work/common" "$1"
  rm -rf "$work"
}
control() { # ROOT NAME VERSION DEPENDS
  printf '%s\n' "Package: $2" "Version: $3" "Architecture: amd64" "Maintainer: nobody" "Description: made up" >"$1/DEBIAN/control"
  [ -z "$4" ] || echo "Depends: $4" >>"$1/DEBIAN/control"
}
apt_index() { # DIR KEY [RELEASE-OPTION...]: Packages, Release and its signature, by a key; KEY - = unsigned
  local key=$2
  (cd "$1" && apt-ftparchive packages . >Packages && rm -f Release InRelease &&
    apt-ftparchive "${@:3}" release . >"$BATS_FILE_TMPDIR/Release" && mv "$BATS_FILE_TMPDIR/Release" . &&
    { [ "$key" = - ] || gpg -q --batch --local-user "$key of the tests" --clearsign --output InRelease Release; })
}
setup_file() {
  distribution_keys
  export RHEL=5.14.0-999.1.el9.x86_64 OTHER=6.1.0-98-cloud-amd64
  header_deb "$web/apt" "$KERNEL" 6.1.192-1
  header_deb "$web/apt" "$KERNEL" 6.1.192-2
  cp -r "$web/apt" "$web/unsigned"
  cp -r "$web/apt" "$web/stranger"
  cp -r "$web/apt" "$web/expired"
  cp -r "$web/apt" "$web/altered"
  header_deb "$web/other" "$OTHER" 6.1.193-1
  apt_index "$web/apt" good
  apt_index "$web/other" good
  apt_index "$web/unsigned" -
  apt_index "$web/stranger" stranger
  apt_index "$web/expired" good -o APT::FTPArchive::Release::ValidTime=1 -o 'APT::FTPArchive::Release::Date=Thu, 01 Jan 2015 00:00:00 UTC' \
    -o 'APT::FTPArchive::Release::Valid-Until=Fri, 02 Jan 2015 00:00:00 UTC'
  apt_index "$web/altered" good
  for file in "$web"/altered/*.deb; do printf x | dd of="$file" bs=1 seek=100 conv=notrunc 2>>"$log"; done
  header_rpm "$web/rpm" "$RHEL" good
  header_rpm "$web/rpm-unsigned" "$RHEL"
  header_rpm "$web/rpm-stranger" "$RHEL" stranger
  header_rpm "$web/rpm-other" 5.14.0-998.1.el9.x86_64 good
  nginx_start plain "$web"
}
teardown_file() { distribution_stop; }
setup() {
  fresh
  distribution_host
  mkdir -p "$ROOT/etc/apt/sources.list.d" "$ROOT/etc/apt/keyrings" "$ROOT/etc/yum.repos.d"
  cp "$keys/good.gpg" "$ROOT/etc/apt/keyrings/site.gpg"
  printf 'PLATFORM_ID="platform:el9"\nVERSION_ID="9.4"\n' >>"$ROOT/etc/os-release"
}
apt_source() { # DIR of $web, or a URL
  case $1 in *://*) set -- "$1" ;; *) set -- "$NGINX_PLAIN/$1" ;; esac
  printf 'Types: deb\nURIs: %s\nSuites: ./\nSigned-By: /etc/apt/keyrings/site.gpg\n' "$1" >"$ROOT/etc/apt/sources.list.d/site.sources"
}
@test "R-A4, R-A9: headers that apt brought a builder go to the shared repository, and the next driver is compiled without apt" {
  # shellcheck disable=SC2034 # compiling_source reads it
  local work=$BATS_TEST_TMPDIR kernel=$KERNEL site=$BATS_TEST_TMPDIR/site name
  tiny_headers "$work/tree.tar" "$KERNEL"
  compiling_tree "$work/tree.tar.d/usr/src/kernels/$KERNEL"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/tree.tar" "$KERNEL"
  mkdir -p "$work/tree.tar.d/DEBIAN" "$web/compiling"
  control "$work/tree.tar.d" "linux-headers-$KERNEL" 6.1.192-2 ""
  run -0 dpkg-deb -Zgzip --root-owner-group -b "$work/tree.tar.d" "$web/compiling"
  apt_index "$web/compiling" good
  rm -rf "$work/driver" && compiling_source "$work/driver" "$DRIVER"
  mv "$ROOT" "$work/programs"
  loadable
  rm -rf "${ROOT:?}"/{usr,bin,sbin,lib64,etc}
  for name in usr bin sbin lib64 etc; do mv "$work/programs/$name" "$ROOT" 2>/dev/null || true; done
  ln -s /usr/lib/*-linux-gnu "$ROOT/lib/" # beside its modules and firmware
  apt_source compiling
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/k.key" 2>/dev/null
  mkdir "$work/trust"
  openssl pkey -in "$work/k.key" -pubout -out "$work/trust/k.pem"
  tiny_package "$site" 6.1.0-99-made-up
  KMODSMITH=$work/on-host kmodsmith install --root "$ROOT" --source "$work/driver" --flavour open --modules nvidia --state-dir "$state" \
    --trust-dir "$work/trust" --from "oci:$site" --share "oci:$site" --share-role builder --share-key "$work/k.key"
  assert_status 0
  fetched "asking apt for linux-headers-$KERNEL" "pushed headers-$KERNEL-x86_64 to oci:$site, too"
  rm -rf "$state"
  host no-gpu
  compiling_source "$work/driver" 535.274.02
  kmodsmith build --root "$ROOT" --source "$work/driver" --kernel "$KERNEL" --flavour open --modules nvidia --state-dir "$state" --trust-dir \
    "$work/trust" --from "oci:$site" --host-repositories off --output "oci:$work/out"
  assert_status 0
  [[ $stderr == *"packed headers: $state/headers/"* ]] || fail "$stderr"
}

@test "apt brings the headers and their common part, once; the second start needs no network" {
  apt_source apt
  build "$KERNEL"
  fetched "asking apt for linux-headers-$KERNEL" "linux-headers-${KERNEL}_6.1.192-2_amd64.deb" "linux-headers-$KERNEL-common_6.1.192-2_amd64.deb"
  [[ $stderr != *libc6* ]] || told | fail
  run -0 find "$state/headers" -name common.h
  assert_output --partial /common.h
  apt_source http://127.0.0.1:1/
  build "$KERNEL"
  [[ $stderr == *"header store: $state/headers/"* ]] || told | fail
}

@test "of two builds of a release apt brings the one that the running kernel is" {
  apt_source apt
  sed -i "s/^Linux version [^ ]*\(.*\)/Linux version $KERNEL (made up) #1 SMP Debian 6.1.192-1 (2026-01-01)/" "$ROOT/proc/version"
  echo "$KERNEL" >"$ROOT/proc/sys/kernel/osrelease"
  build "$KERNEL"
  fetched "linux-headers-${KERNEL}_6.1.192-1_amd64.deb" "linux-headers-$KERNEL-common_6.1.192-1_amd64.deb"
}

@test "what apt's repositories have instead is said" {
  apt_source other
  refused E_HEADERS_NOT_FOUND "no repository has linux-headers-$KERNEL; they have $OTHER"
}

@test "an archive of superseded kernels is asked when the host's own repositories do not have the kernel any more" {
  apt_source other
  mkdir "$BATS_TEST_TMPDIR/archive"
  printf 'deb [signed-by=/etc/apt/keyrings/site.gpg] %s ./\n' "$NGINX_PLAIN/apt" >"$BATS_TEST_TMPDIR/archive/superseded.list"
  build "$KERNEL" --headers-archive "$BATS_TEST_TMPDIR/archive"
  fetched "in $BATS_TEST_TMPDIR/archive"
}

@test "added repositories are asked before the host's own, which a site without a network has not; what nobody reads is said" {
  apt_source http://127.0.0.1:1/
  mkdir "$BATS_TEST_TMPDIR"/{added,odd}
  touch "$BATS_TEST_TMPDIR/odd/site.txt"
  printf 'deb [signed-by=/etc/apt/keyrings/site.gpg] %s ./\n' "$NGINX_PLAIN/apt" >"$BATS_TEST_TMPDIR/added/site.list"
  KMODSMITH_HEADERS_REPOSITORIES=$BATS_TEST_TMPDIR/odd,$BATS_TEST_TMPDIR/added build "$KERNEL"
  fetched "in $BATS_TEST_TMPDIR/added" "linux-headers-${KERNEL}_6.1.192-2_amd64.deb" \
    "no package manager of this host reads the repositories in $BATS_TEST_TMPDIR/odd"
  [[ $stderr != *"in the repositories of the host"* ]] || told | fail
  fresh
  printf 'deb [signed-by=/etc/apt/keyrings/site.gpg] %s ./\n' "$NGINX_PLAIN/other" >"$BATS_TEST_TMPDIR/added/site.list"
  apt_source apt
  build "$KERNEL" --headers-repositories "$BATS_TEST_TMPDIR/added"
  fetched "in $BATS_TEST_TMPDIR/added" "in the repositories of the host"
  build "$KERNEL" --headers-repositories "$BATS_TEST_TMPDIR/gone"
  assert_error E_NOT_FOUND --headers-repositories
}

@test "apt refuses a repository that nobody, or a stranger, signed, that has expired, and packages that were altered" {
  apt_source unsigned
  refused E_UNTRUSTED "is not signed"
  apt_source stranger
  refused E_UNTRUSTED "$([ -e /usr/bin/sqv ] && echo "Missing key" || echo NO_PUBKEY)" # apt 3 has sqv, before it was gpgv
  apt_source expired
  refused E_EXPIRED "expired"
  apt_source altered
  refused E_DIGEST "Hash Sum mismatch"
}

@test "a repository that is away, and a proxy that refuses, are named" {
  apt_source http://127.0.0.1:1/
  refused E_NETWORK "127.0.0.1:1"
  apt_source apt
  proxy_start guarded site:secret
  mkdir "$ROOT/etc/apt/apt.conf.d"
  echo "Acquire::http::Proxy \"$PROXY_GUARDED\";" >"$ROOT/etc/apt/apt.conf.d/proxy"
  refused E_AUTH "407"
}

@test "a server that says nothing is given up" {
  local port
  port=$(free_port)
  server_run silent "$port" python3 -c "
import socket, time
server = socket.create_server(('127.0.0.1', $port))
kept = []
while True: kept.append(server.accept())"
  apt_source "http://127.0.0.1:$port/"
  refused E_NETWORK "Connection failed"
  server_stop silent
}

@test "the host's repositories are not asked with --offline, and when they are switched off; another word is refused" {
  apt_source apt
  for option in --offline --host-repositories=off; do
    build "$KERNEL" "$option"
    assert_error E_HEADERS_NOT_FOUND "headers of $KERNEL: host: "
    [[ $stderr != *"asking apt"* ]] || told | fail
  done
  build "$KERNEL" --host-repositories maybe
  assert_error E_USAGE "'maybe' is not one of on, off"
}

@test "a full disk is said, and leaves nothing" {
  apt_source apt
  mkdir "$BATS_TEST_TMPDIR/small"
  tree_of "$BATS_TEST_TMPDIR/before"
  KMODSMITH=$BATS_TEST_TMPDIR/on-host
  tiny_program "$BATS_TEST_TMPDIR/on-host" <<HOST
#!/bin/bash
exec unshare --mount bash -c 'mount --bind /usr "$ROOT/usr" && mount -t tmpfs -o size=16k tmpfs "$BATS_TEST_TMPDIR/small" && exec "$real" "\$@"' on-host "\$@"
HOST
  kmodsmith build --root "$ROOT" --source "$BATS_TEST_TMPDIR/driver" --kernel "$KERNEL" --state-dir "$BATS_TEST_TMPDIR/small"
  assert_error E_NO_SPACE
}

@test "dnf brings what provides kernel-devel-uname-r, signed by a key of the repository" {
  dnf_source rpm
  build "$RHEL"
  fetched "asking dnf for kernel-devel-uname-r = $RHEL" "kernel-devel-5.14.0-999.1.el9.x86_64.rpm"
}

@test "dnf's packages without a signature, or of a stranger, are refused although dnf takes them" {
  KERNEL=$RHEL
  dnf_source rpm-unsigned
  refused E_UNTRUSTED "no key of the enabled repositories signed this package" "digests OK"
  dnf_source rpm-stranger
  refused E_UNTRUSTED "no key of the enabled repositories signed this package"
  dnf_source rpm-stranger 'gpgcheck=0' '[other]' 'name=other' 'baseurl=file:///nowhere' 'enabled=0' 'gpgkey=file:///etc/pki/stranger.asc'
  cp "$keys/stranger.asc" "$ROOT/etc/pki/"
  refused E_UNTRUSTED "no key of the enabled repositories signed this package"
}

@test "what dnf's repositories have instead, and a repository that is away, are said" {
  KERNEL=$RHEL
  dnf_source rpm-other
  refused E_HEADERS_NOT_FOUND "no repository has kernel-devel-uname-r = $RHEL; they have 5.14.0-998.1.el9.x86_64"
  dnf_source nowhere
  refused E_SERVER "404"
  sed -i 's|^baseurl=.*|baseurl=http://127.0.0.1:1/|' "$ROOT/etc/yum.repos.d/site.repo"
  refused E_NETWORK "127.0.0.1"
}

@test "a host with neither of them says so" {
  rm -r "$ROOT/etc/apt" "$ROOT/etc/yum.repos.d"
  refused E_HEADERS_NOT_FOUND "headers of $KERNEL: host: "
  KMODSMITH=$BATS_TEST_TMPDIR/on-host kmodsmith doctor --root "$ROOT" --state-dir "$state"
  assert_output --partial "a compile would ask nobody else: this host has no package manager to ask (apt has no repositories, dnf has no repositories, "
}

@test "where no sandbox can be made, the headers count as not found, and why is said" {
  apt_source apt
  sed -i 's,unshare --mount,& --map-root-user,; s,&& exec,\&\& echo 1 >/proc/sys/user/max_mnt_namespaces &,' "$BATS_TEST_TMPDIR/on-host"
  refused E_HEADERS_NOT_FOUND "apt: unshare 'mount, network, ipc and pid namespaces'"
}
