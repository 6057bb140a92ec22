#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Kernel headers from the repositories of a SUSE host, by its zypper. zypper, rpm and rpmkeys are Debian's, in a root of their own,
# because Debian 12's zypper cannot be installed beside dnf's plugins. Packages and kernels are made up, as SUSE's
# kernel-source packs them: the configured tree in kernel-default-devel, the sources in kernel-devel.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load distribution

suse_rpms() { # DIR VERSION RELEASE [KEY]: headers of VERSION-(RELEASE without its last number)-default
  local work name=$2-${3%.*} tree
  work=$(mktemp -d "$BATS_FILE_TMPDIR/rpm.XXXXXX")
  tiny_headers "$work/tree.tar" "$name-default"
  tree=$work/tree.tar.d/usr/src
  mkdir -p "$tree/linux-$name/include/linux" "$tree/linux-$name/scripts" "$tree/linux-$name-obj/x86_64"
  mv "$tree/kernels/$name-default" "$tree/linux-$name-obj/x86_64/default"
  touch "$tree/linux-$name/Makefile" "$tree/linux-$name/include/linux/of-suse.h"
  echo "include ../../../linux-$name/Makefile" >"$tree/linux-$name-obj/x86_64/default/Makefile"
  ln -sfn "/usr/src/linux-$name-obj/x86_64/default" "$work/tree.tar.d/lib/modules/$name-default/build"
  ln -sfn "/usr/src/linux-$name" "$work/tree.tar.d/lib/modules/$name-default/source"
  cat >"$work/spec" <<SPEC
Name: kernel-default
Version: $2
Release: $3
Summary: made up
License: GPL-2.0
AutoReqProv: no
%description
made up
%package devel
Summary: made up
Provides: kernel-default-devel = $name
Provides: multiversion(kernel)
Requires: kernel-devel = $name
Requires: gcc
%description devel
made up
%package -n kernel-devel
Summary: made up
BuildArch: noarch
Provides: kernel-devel = $name
Provides: multiversion(kernel)
Requires: kernel-macros
%description -n kernel-devel
made up
%install
mkdir -p %{buildroot}
cp -a $work/tree.tar.d/usr $work/tree.tar.d/lib %{buildroot}/
rmdir %{buildroot}/usr/src/kernels
%files devel
/usr/src/linux-$name-obj
/lib/modules/$name-default
%files -n kernel-devel
/usr/src/linux-$name
SPEC
  rpm_repository "$1" "$work" "${4-}"
}
sign_lists() { # DIR KEY: repomd.xml, and the key beside it, as the build service does
  rm -f "$1"/repodata/repomd.xml.*
  gpg -q --batch --local-user "$2 of the tests" --armor --detach-sign "$1/repodata/repomd.xml"
  cp "$keys/$2.asc" "$1/repodata/repomd.xml.key"
}

setup_file() {
  distribution_keys
  export SUSE=6.4.0-150600.23.7-default ZYPPER_ROOT=$BATS_FILE_TMPDIR/zypper-root
  debian_root "$ZYPPER_ROOT" zypper libzypp-config bash coreutils
  suse_rpms "$web/suse" 6.4.0 150600.23.7.1 good
  suse_rpms "$web/suse" 6.4.0 150600.23.7.3 good
  suse_rpms "$web/suse" 6.4.0 150600.23.14.2 good
  sign_lists "$web/suse" good
  suse_rpms "$web/other" 6.4.0 150600.21.3 good
  sign_lists "$web/other" good
  suse_rpms "$web/unsigned" 6.4.0 150600.23.7.1
  cp -r "$web/unsigned" "$web/unsigned-packages"
  sign_lists "$web/unsigned-packages" good
  suse_rpms "$web/stranger" 6.4.0 150600.23.7.1 stranger
  cp -r "$web/stranger" "$web/stranger-packages"
  sign_lists "$web/stranger" stranger
  sign_lists "$web/stranger-packages" good
  cp -r "$web/suse" "$web/altered"
  for file in "$web"/altered/*.rpm; do printf x | dd of="$file" bs=1 seek=3000 conv=notrunc 2>>"$log"; done
  cp -r "$web/suse" "$web/altered-lists"
  echo '<!-- altered -->' >>"$web/altered-lists/repodata/repomd.xml"
  cp -r "$web/suse" "$web/half"
  rm "$web"/half/kernel-devel-*
  createrepo_c -q "$web/half"
  sign_lists "$web/half" good
  # The host's rpm knows the good key, as after the installation of a SUSE host.
  mkdir -p "$ZYPPER_ROOT/usr/lib/sysimage/rpm"
  rpmkeys --dbpath "$ZYPPER_ROOT/usr/lib/sysimage/rpm" --import "$keys/good.asc"
  nginx_start plain "$web"
}
teardown_file() { distribution_stop; }
setup() {
  KERNEL=$SUSE
  fresh
  distribution_host "$ZYPPER_ROOT"
  mkdir -p "$ROOT/etc/zypp/repos.d"
}
zypper_source() { # DIR of $web, or a URL [LINE...]
  case $1 in *://*) ;; *) set -- "$NGINX_PLAIN/$1" "${@:2}" ;; esac
  printf '%s\n' '[site]' 'name=site' "baseurl=$1" 'enabled=1' 'autorefresh=1' 'gpgcheck=1' "${@:2}" >"$ROOT/etc/zypp/repos.d/site.repo"
}

@test "zypper brings the newest rebuild of a kernel's tree and the sources that it requires; the tree is whole" {
  zypper_source suse
  build "$SUSE"
  fetched "asking zypper for kernel-default-devel = 6.4.0-150600.23.7" \
    kernel-default-devel-6.4.0-150600.23.7.3.x86_64.rpm kernel-devel-6.4.0-150600.23.7.3.noarch.rpm
  [[ $stderr != *23.7.1* && $stderr != *23.14* ]] || told | fail
  run -0 find "$state/headers" -name of-suse.h
  assert_output --partial /usr/src/linux-6.4.0-150600.23.7/include/linux/of-suse.h
  zypper_source http://127.0.0.1:1/
  build "$SUSE"
  [[ $stderr == *"header store: $state/headers/"* ]] || told | fail
}

@test "what zypper's repositories have instead is said, and an archive of superseded kernels is asked" {
  zypper_source other
  refused E_HEADERS_NOT_FOUND "no repository has kernel-default-devel = 6.4.0-150600.23.7; they have those of 6.4.0-150600.21-default"
  mkdir "$BATS_TEST_TMPDIR/archive"
  printf '%s\n' '[old]' "baseurl=$NGINX_PLAIN/suse" 'enabled=1' 'gpgcheck=1' >"$BATS_TEST_TMPDIR/archive/old.repo"
  build "$SUSE" --headers-archive "$BATS_TEST_TMPDIR/archive"
  fetched "in $BATS_TEST_TMPDIR/archive"
}

@test "a repository without the sources of the tree that it has is refused" {
  zypper_source half
  refused E_HEADERS_NOT_FOUND "kernel-devel = 6.4.0-150600.23.7"
}

@test "zypper's lists that nobody, or a stranger, signed, or that were altered, are refused" {
  for name in unsigned stranger altered-lists; do
    zypper_source $name
    refused E_UNTRUSTED "Signature verification failed for repomd.xml"
  done
  zypper_source unsigned gpgcheck=0 'gpgkey=file:///etc/pki/none.asc'
  refused E_UNTRUSTED "no key of the host signed this package" "digests OK"
}

@test "packages of trusted lists that nobody, or a stranger, signed, or that were altered, are refused although zypper takes them" {
  zypper_source unsigned-packages
  refused E_UNTRUSTED "no key of the host signed this package" "digests OK"
  zypper_source stranger-packages
  refused E_UNTRUSTED "no key of the host signed this package" "SIGNATURES NOT OK"
  zypper_source altered
  refused E_DIGEST "Digest verification failed"
}

@test "keys are those of rpm's database, of SUSE's packages of keys, or named by a repository; without one nothing is asked" {
  cp -a "$ZYPPER_ROOT" "$BATS_TEST_TMPDIR/bare"
  rm -r "$BATS_TEST_TMPDIR/bare/usr/lib/sysimage"
  distribution_host "$BATS_TEST_TMPDIR/bare"
  mkdir -p "$ROOT/etc/zypp/repos.d"
  zypper_source suse
  refused E_UNTRUSTED "the host's rpm has no key, and no enabled repository names a key file"
  zypper_source suse 'gpgkey=file:///etc/pki/site.asc'
  build "$SUSE"
  fetched kernel-default-devel-6.4.0-150600.23.7.3.x86_64.rpm
  fresh
  zypper_source suse
  mkdir -p "$BATS_TEST_TMPDIR/bare/usr/lib/rpm/gnupg/keys"
  cp "$keys/good.asc" "$BATS_TEST_TMPDIR/bare/usr/lib/rpm/gnupg/keys/gpg-pubkey-1-1.asc"
  build "$SUSE"
  fetched kernel-default-devel-6.4.0-150600.23.7.3.x86_64.rpm
}

@test "one repository that is away does not hide another one that has the kernel" {
  zypper_source suse
  printf '%s\n' '[away]' 'name=away' 'baseurl=http://127.0.0.1:1/' 'enabled=1' 'autorefresh=1' >"$ROOT/etc/zypp/repos.d/away.repo"
  build "$SUSE"
  fetched kernel-default-devel-6.4.0-150600.23.7.3.x86_64.rpm
}

@test "a repository that is away, and one that refuses, are named" {
  local port
  zypper_source http://127.0.0.1:1/
  refused E_NETWORK "127.0.0.1"
  zypper_source nowhere
  refused E_SERVER "nowhere"
  port=$(free_port)
  server_run refusing "$port" python3 -c "
import http.server
class Refusing(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(401)
    do_HEAD = do_GET
http.server.HTTPServer(('127.0.0.1', $port), Refusing).serve_forever()"
  zypper_source "http://127.0.0.1:$port/"
  refused E_AUTH "Login failed"
  server_stop refusing
}

@test "a server that says nothing to zypper is given up" {
  local port
  port=$(free_port)
  server_run silent "$port" python3 -c "
import socket
server = socket.create_server(('127.0.0.1', $port))
kept = []
while True: kept.append(server.accept())"
  zypper_source "http://127.0.0.1:$port/"
  build "$SUSE" --stall-timeout 1
  assert_error E_TIMEOUT "zypper refresh did not end before its deadline"
  server_stop silent
}
