# shellcheck shell=bash disable=SC2154 # bats and the helpers set what is used here
# SPDX-License-Identifier: Apache-2.0
# What the tests of a host's own package manager share: keys, packages of headers that are made up, signed repositories, and a
# host with the programs of this machine, or of a root of Debian's packages.
load helper

distribution_keys() { # and the folders of this file's packages; for setup_file
  export GNUPGHOME=$BATS_FILE_TMPDIR/gnupg keys=$BATS_FILE_TMPDIR/keys log=$BATS_FILE_TMPDIR/log web=$BATS_FILE_TMPDIR/web
  mkdir -m 700 "$GNUPGHOME"
  mkdir "$keys" "$web"
  gpg_key good
  gpg_key stranger
}
distribution_stop() {
  servers_stop
  gpgconf --kill all
}
gpg_key() { # NAME: NAME.asc, and NAME.gpg as apt reads it
  gpg -q --batch --pinentry-mode loopback --passphrase '' --quick-generate-key "$1 of the tests" rsa2048 default never 2>>"$log"
  gpg --export "$1 of the tests" >"$keys/$1.gpg"
  gpg --export --armor "$1 of the tests" >"$keys/$1.asc"
}
rpm_repository() { # DIR WORK [KEY]: the packages of WORK/spec, signed by this key, added to the repository DIR
  rpmbuild -bb --target x86_64 --define "_topdir $2" --define "_rpmdir $2/out" --define 'debug_package %{nil}' \
    --define '__os_install_post %{nil}' "$2/spec" >>"$log" 2>&1 || { cat "$log"; return 1; }
  [ -z "${3-}" ] || rpmsign --define "__gpg $(type -P gpg)" --define "_gpg_name $3 of the tests" --define "_gpg_path $GNUPGHOME" \
    --addsign "$2"/out/*/*.rpm >>"$log" 2>&1
  mkdir -p "$1"
  mv "$2"/out/*/*.rpm "$1"
  createrepo_c -q "$1" >>"$log" 2>&1
  rm -rf "$2"
}
header_rpm() { # DIR KERNEL [KEY]
  local work
  work=$(mktemp -d "$BATS_FILE_TMPDIR/rpm.XXXXXX")
  tiny_headers "$work/tree.tar" "$2"
  cat >"$work/spec" <<SPEC
Name: kernel-devel
Version: ${2%%-*}
Release: $(sed 's/^[^-]*-//; s/\.x86_64$//' <<<"$2")
Summary: made up
License: GPL-2.0
Provides: kernel-devel-uname-r = $2
Requires: gcc, perl
AutoReqProv: no
%description
made up
%install
mkdir -p %{buildroot}
cp -a $work/tree.tar.d/usr $work/tree.tar.d/lib %{buildroot}/
%files
/usr/src/kernels/$2
/lib/modules/$2
SPEC
  rpm_repository "$1" "$work" "${3-}"
}


# A root of Debian's packages and all that they need, for programs that this machine lacks.
debian_root() { # DIR [--suite SUITE] PACKAGE...
  local root=$1 deb suite=()
  shift
  [ "$1" != --suite ] || { suite=(--suite "$2") && shift 2; }
  mkdir -p "$root"/usr/{bin,sbin,lib,lib64}
  for deb in bin sbin lib lib64; do ln -s "usr/$deb" "$root/$deb"; done
  kept "$top/scripts/inputs.sh" "${suite[@]}" --closure "$@" >"$root.debs" || return
  while read -r deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink \
      --exclude='./usr/share/'{doc,man,locale,info} --exclude=./usr/lib/gcc --exclude='./var/*' --exclude='./dev/*'
  done <"$root.debs"
}
distribution_host() { # [PROGRAMS]: whose /usr the host has, this machine's by default; seen by nobody else
  export programs=${1-}
  host no-gpu
  tiny_source "$BATS_TEST_TMPDIR/driver"
  rm -rf "${ROOT:?}"/{usr,bin,sbin,lib,lib64}
  mkdir -p "$ROOT/usr" "$ROOT/etc/pki"
  for name in bin sbin lib lib64; do [ ! -L "$programs/$name" ] || ln -s "usr/$name" "$ROOT/$name"; done
  cp /etc/passwd /etc/group /etc/nsswitch.conf "$ROOT/etc/"
  [ -n "$programs" ] || cp /etc/ld.so.cache "$ROOT/etc/"
  [ ! -e "$programs/etc/alternatives" ] || cp -a "$programs/etc/alternatives" "$ROOT/etc/"
  cp "$keys/good.asc" "$ROOT/etc/pki/site.asc"
  real=$KMODSMITH
  tiny_program "$BATS_TEST_TMPDIR/on-host" <<HOST
#!/bin/bash
exec unshare --mount bash -c 'mount --bind $programs/usr "$ROOT/usr" && exec "$real" "\$@"' on-host "\$@"
HOST
}
dnf_source() { # DIR of $web [LINE...]
  printf '%s\n' '[site]' 'name=site' "baseurl=$NGINX_PLAIN/$1" 'enabled=1' 'gpgcheck=1' 'gpgkey=file:///etc/pki/site.asc' "${@:2}" \
    >"$ROOT/etc/yum.repos.d/site.repo"
}

# Only its headers are looked at: the compile of this source cannot succeed.
build() { # KERNEL [OPTION...]
  tree_of "$BATS_TEST_TMPDIR/before"
  KMODSMITH=$BATS_TEST_TMPDIR/on-host kmodsmith build --root "$ROOT" --source "$BATS_TEST_TMPDIR/driver" --kernel "$1" --state-dir "$state" \
    --stall-timeout 2 "${@:2}"
  tree_of "$BATS_TEST_TMPDIR/after"
  cmp "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after" # the host is as it was
}
tree_of() { (cd "$ROOT" && find . -printf '%p %m %s %T@ %l\n' | sort && find . -type f -exec sha256sum {} +) >"$1"; }
fetched() { # TEXT...: by whom, and what
  [[ $stderr == *"repositories of the host: $state/headers/"* ]] || told | batslib_decorate "no headers" | fail
  for text; do [[ $stderr == *"$text"* ]] || told | batslib_decorate "no '$text'" | fail; done
}
refused() { # CODE TEXT...: and nothing was left
  local code=$1
  shift
  build "$KERNEL"
  assert_error "$code" "$@"
  assert_equal "$(find "$state/headers" "$state/.tmp" -mindepth 1 ! -name .tmp 2>/dev/null)" ""
}
