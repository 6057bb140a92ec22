#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The Debian and RPM packages, with dpkg and rpm in a root of their own, and the tarball: what they put there works, and removed they
# leave what is the administrator's. The units, with systemd's own check.
# shellcheck disable=SC2016,SC2153,SC2154 # another shell expands; bats and helper.bash set output, status and top
load helper

make_locked() { flock "$top/build/release/make.lock" make -s -C "$top" "$@"; } # as make_in: other tests build there, too
setup_file() {
  export work=$BATS_FILE_TMPDIR
  top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  make_locked deb rpm tarball >"$work/made"
}
setup() {
  [ "$(id -u)" -eq 0 ] || skip "dpkg and rpm change into a root"
  root=$BATS_TEST_TMPDIR/root
  deb=$(grep '\.deb$' "$work/made") rpm=$(grep '\.rpm$' "$work/made") tarball=$(grep '\.tar\.gz$' "$work/made")
  # A system that has a shell, and the libraries that the packages ask for.
  mkdir -p "$root"/{bin,dev,etc,proc,tmp,usr/bin,var/lib/dpkg/{info,updates},var/lib/rpm}
  touch "$root/var/lib/dpkg/status"
  cp "$(command -v busybox)" "$root/bin/busybox"
  for applet in sh mkdir rm ls cat; do ln -s busybox "$root/bin/$applet"; done
  ldd "$KMODSMITH" | sed -nE 's|.*[[:space:]](/[^ ]+) \(.*|\1|p' | while read -r file; do install -D "$file" "$root$file"; done
}
files() { (cd "$root" && find etc usr/bin usr/lib/systemd usr/share var/lib/kmodsmith -name '*kmodsmith*' 2>/dev/null | sort); }
in_root() { run chroot "$root" "$@"; }
works() { # what is there, and that it runs
  in_root kmodsmith --version
  assert_output --regexp '^kmodsmith [0-9.]+'
  in_root kubectl-kmodsmith --help
  assert_success
  in_root kubectl_complete-kmodsmith stat
  assert_output --regexp '^status.*:4$'
  ROOT='' run chroot "$root" kmodsmith plan # the configuration is read, and says nothing yet
  refute_output --partial E_CONFIG
  run grep -c '^[^#]' "$root/etc/kmodsmith/kmodsmith.conf"
  assert_output 0
  for hook in postinst header_postinst postrm; do
    in_root "/etc/kernel/$hook.d/zz-kmodsmith" 6.1.0-1-made-up
    assert_success
  done
  in_root ls /var/lib/kmodsmith/kernels
  assert_output 6.1.0-1-made-up
  [ -x "$root/etc/kernel/install.d/90-kmodsmith.install" ]
  [ -e "$root/usr/lib/systemd/system/kmodsmith.service" ]
  [ -e "$root/usr/lib/systemd/system/kmodsmith-watch.service" ]
  run find "$root/usr/share/man" -name 'kmodsmith-install.8*'
  assert_output --partial /man8/kmodsmith-install.8
}

@test "made twice, a package is the same" {
  local before
  before=$(sha256sum "$deb" "$rpm" "$tarball")
  touch "$top/packaging/kmodsmith.service"
  umask 077
  TZ=Asia/Tokyo make_locked deb rpm tarball
  assert_equal "$(sha256sum "$deb" "$rpm" "$tarball")" "$before"
}

@test "no package tells by a build id in which directory it was made" {
  local program seen=0
  mkdir "$BATS_TEST_TMPDIR"/{deb,rpm,tarball}
  dpkg-deb -x "$deb" "$BATS_TEST_TMPDIR/deb"
  tar -xzf "$tarball" -C "$BATS_TEST_TMPDIR/tarball"
  (cd "$BATS_TEST_TMPDIR/rpm" && rpm2cpio "$rpm" | busybox cpio -id 2>/dev/null)
  for program in "$BATS_TEST_TMPDIR"/*/usr{,/local}/bin/kmodsmith; do
    [ -e "$program" ] || continue
    run -0 readelf -SW "$program"
    assert_output --partial .text
    refute_output --partial build-id
    seen=$((seen + 1))
  done
  assert_equal "$seen" 3 # of each package
}

@test "the Debian package: installed, changed, upgraded, removed and purged" {
  run dpkg-deb -f "$deb" Depends
  for library in libc6 libssl3 libkmod2 libcurl4 kmod; do assert_output --partial "$library"; done
  run dpkg --root="$root" --force-depends --install "$deb"
  assert_success
  assert_output --partial "kmodsmith: say in /etc/kmodsmith/kmodsmith.conf which driver"
  works
  echo "driver = 535.261.03" >>"$root/etc/kmodsmith/kmodsmith.conf"
  run dpkg --root="$root" --force-depends --force-confdef --install "$deb"
  assert_success
  refute_output --partial "say in /etc"
  grep -qx 'driver = 535.261.03' "$root/etc/kmodsmith/kmodsmith.conf"
  run dpkg --root="$root" --force-depends --remove kmodsmith
  assert_success
  [ -e "$root/etc/kmodsmith/kmodsmith.conf" ]
  [ -e "$root/var/lib/kmodsmith/kernels/6.1.0-1-made-up" ]
  [ ! -e "$root/usr/bin/kmodsmith" ]
  run dpkg --root="$root" --force-depends --purge kmodsmith
  assert_success
  assert_equal "$(files)" ""
  [ ! -e "$root/var/lib/kmodsmith" ]
}

@test "the Debian package: purged, it takes along what is exported, which is mounted from its state" {
  for applet in mount umount sed; do ln -s busybox "$root/bin/$applet"; done
  dpkg --root="$root" --force-depends --install "$deb"
  cd "$root"
  mkdir -p machine run/nvidia/driver var/lib/kmodsmith/payloads/a/usr/{lib,bin}
  run unshare --mount bash -euc '
    mount --make-rprivate /
    mount -t proc proc proc
    mount -t tmpfs machine machine
    mount --make-shared machine
    mkdir machine/pts
    mount -t tmpfs pts machine/pts
    mount -t tmpfs kmodsmith run/nvidia/driver
    mkdir run/nvidia/driver/{usr,dev}
    mount --bind var/lib/kmodsmith/payloads/a/usr run/nvidia/driver/usr
    mount --bind var/lib/kmodsmith/payloads/a/usr/bin run/nvidia/driver/usr/lib
    mount --rbind machine run/nvidia/driver/dev
    dpkg --root="$PWD" --force-depends --purge kmodsmith
    cut -d" " -f5 /proc/self/mountinfo | grep "^$PWD"'
  assert_success
  [ ! -e "$root/var/lib/kmodsmith" ]
  refute_output --partial "$root/run"
  assert_line "$root/machine/pts" # which others had mounted in it, too
}

@test "the RPM package: installed, verified, and removed without what its administrator changed" {
  run rpm -qRp "$rpm"
  for library in 'libc.so.6()(64bit)' 'libcrypto.so.3()(64bit)' 'libkmod.so.2()(64bit)' 'libcurl.so.4()(64bit)' 'libyaml-0.so.2()(64bit)'; do
    assert_line "$library"
  done
  run rpm --root "$root" --nodeps --install "$rpm"
  assert_success
  run rpm --root "$root" --nodeps --verify kmodsmith
  assert_success
  works
  echo "driver = 535.261.03" >>"$root/etc/kmodsmith/kmodsmith.conf"
  run rpm --root "$root" --nodeps --erase kmodsmith
  assert_success
  assert_equal "$(files | grep -v '^var/lib/kmodsmith\|rpmsave$')" etc/kmodsmith
  grep -qx 'driver = 535.261.03' "$root/etc/kmodsmith/kmodsmith.conf.rpmsave"
}

@test "where systemd runs, it is told of each change; an upgrade starts the watcher anew, and a removal alone ends the services" {
  local again="daemon-reload
try-restart kmodsmith-watch.service" end="disable --now kmodsmith-watch.service kmodsmith.service
daemon-reload"
  mkdir -p "$root/run/systemd/system"
  printf '#!/bin/sh\necho "$*" >>/told\n' >"$root/bin/systemctl"
  chmod +x "$root/bin/systemctl"
  told_by() { # COMMAND...: what systemd was told meanwhile; of an upgrade dpkg runs scripts of both packages
    : >"$root/told"
    run "$@"
    [ "$status" -eq 0 ] || echo "$output"
    uniq "$root/told"
  }
  assert_equal "$(told_by dpkg --root="$root" --force-depends --install "$deb")" daemon-reload
  assert_equal "$(told_by dpkg --root="$root" --force-depends --install "$deb")" "$again"
  assert_equal "$(told_by dpkg --root="$root" --force-depends --remove kmodsmith)" "$end"
  assert_equal "$(told_by dpkg --root="$root" --force-depends --purge kmodsmith)" daemon-reload
  assert_equal "$(told_by rpm --root "$root" --nodeps --install "$rpm")" daemon-reload
  assert_equal "$(told_by rpm --root "$root" --nodeps --upgrade --force "$rpm")" "$again"
  assert_equal "$(told_by rpm --root "$root" --nodeps --erase kmodsmith)" "$end"
}

@test "the tarball: unpacked it works where nothing else is, changes nothing that was there, and goes again" {
  local there place=$BATS_TEST_TMPDIR/place
  mkdir -p "$place/usr/local/bin" "$place/data/etc" "$place/etc/kmodsmith"
  chmod 2775 "$place/usr/local" "$place/usr/local/bin" # as Debian has them
  chmod 700 "$place/etc"
  ln -s ../data/systemd "$place/etc/systemd"
  mkdir -p "$place/data/systemd"
  echo "driver = 535.261.03" >"$place/etc/kmodsmith/kmodsmith.conf"
  there=$(cd "$place" && find . -printf '%p %m %U %l\n' | sort)
  tar -C "$place" -xzf "$tarball"
  assert_equal "$(cd "$place" && find . -printf '%p %m %U %l\n' | sort | grep -xF "$there")" "$there"
  assert_equal "$(<"$place/etc/kmodsmith/kmodsmith.conf")" "driver = 535.261.03"
  grep -qx 'ExecStart=/usr/local/bin/kmodsmith watch' "$place/data/systemd/system/kmodsmith-watch.service"
  [ -x "$place/etc/kernel/postinst.d/zz-kmodsmith" ]
  [ -d "$place/var/lib/kmodsmith/kernels" ]
  run chroot "$place" /usr/local/bin/kmodsmith --version
  assert_output --regexp '^kmodsmith [0-9.]+'
  cp -a "$top/tests/hosts/h100x8" "$place/machine"
  run --separate-stderr chroot "$place" /usr/local/bin/kmodsmith status --json --root /machine
  assert_equal "$(jq -r '.ready | type' <<<"$output")" boolean
  rm -r "$place/machine"
  tar -tzf "$tarball" | grep -v '/$' | (cd "$place" && xargs rm)
  assert_equal "$(cd "$place" && find . ! -type d -printf '%p\n' | sort)" "$(printf '%s\n' ./etc/kmodsmith/kmodsmith.conf ./etc/systemd)"
}

@test "the tarball's program loads a driver, with what the host's modprobe.d says" {
  tar -C "$BATS_TEST_TMPDIR" -xzf "$tarball" usr/local/bin/kmodsmith
  package=$BATS_TEST_TMPDIR/package
  loadable
  mkdir -p "$ROOT"/{etc,usr/lib}/modprobe.d
  echo 'options bonding max_bonds=0' >"$ROOT/usr/lib/modprobe.d/systemd.conf" # each systemd has it
  printf 'options nvidia \\\n NVreg_EnableMSI=1\nblacklist nvidia\n' >"$ROOT/etc/modprobe.d/a.conf"
  run --separate-stderr "$BATS_TEST_TMPDIR/usr/local/bin/kmodsmith" install --root "$ROOT" --package "$package" --param nvidia-uvm:uvm_disable_hmm=1
  assert_success
  assert_equal "$(calls | sed -n 's/^load //p' | sed 's/ *$//' | paste -sd';')" "nvidia NVreg_EnableMSI=1;nvidia_modeset;nvidia_uvm uvm_disable_hmm=1"
}

@test "make install and make uninstall: a changed configuration stays, and nothing else" {
  (umask 077 && make_locked install DESTDIR="$root" PREFIX=/usr >/dev/null)
  assert_equal "$(find "$root"/{usr/share,etc,var/lib}/ -type d -path '*kmodsmith*' ! -perm -055 -o -type d -name 'vendor*' ! -perm -055)" ""
  works
  echo "driver = 535.261.03" >>"$root/etc/kmodsmith/kmodsmith.conf"
  make_locked install DESTDIR="$root" PREFIX=/usr >/dev/null
  make_locked uninstall DESTDIR="$root" PREFIX=/usr >/dev/null
  assert_equal "$(find "$root" -type f -name '*kmodsmith*' ! -path '*/kernels/*')" "$root/etc/kmodsmith/kmodsmith.conf"
  make_locked install DESTDIR="$root" PREFIX=/usr/local >/dev/null
  grep -qx 'driver = 535.261.03' "$root/etc/kmodsmith/kmodsmith.conf"
  grep -qx 'ExecStart=/usr/local/bin/kmodsmith install' "$root/etc/systemd/system/kmodsmith.service"
}

@test "the units: systemd knows each setting, starts them in the right order, and a stop touches no driver" {
  local unit
  command -v systemd-analyze >/dev/null || skip "there is no systemd-analyze"
  mkdir "$BATS_TEST_TMPDIR/units"
  for unit in kmodsmith.service kmodsmith-gpus.service kmodsmith-watch.service; do
    sed "s#@BINDIR@#$(dirname "$(realpath "$KMODSMITH")")#" "$top/packaging/$unit" >"$BATS_TEST_TMPDIR/units/$unit"
  done
  run env SYSTEMD_UNIT_PATH="$BATS_TEST_TMPDIR/units:" systemd-analyze verify --man=no --recursive-errors=no "$BATS_TEST_TMPDIR"/units/*.service
  assert_success
  assert_output ""
  echo "Restrat=always" >>"$BATS_TEST_TMPDIR/units/kmodsmith.service" # it does look
  run env SYSTEMD_UNIT_PATH="$BATS_TEST_TMPDIR/units:" systemd-analyze verify --man=no --recursive-errors=no "$BATS_TEST_TMPDIR/units/kmodsmith.service"
  assert_output --regexp "Unknown key.* 'Restrat'"
  run grep -hE '^Exec' "$top"/packaging/*.service
  assert_output "ExecStart=@BINDIR@/kmodsmith status --check-gpus --quiet
ExecStart=@BINDIR@/kmodsmith watch
ExecStart=@BINDIR@/kmodsmith install"
}

@test "the sample configuration has ten keys, and each is one that the program takes" {
  local conf=$BATS_TEST_TMPDIR/kmodsmith.conf
  "$(dirname "$KMODSMITH")/mkman" conf >"$conf"
  run grep -cE '^#[a-z0-9-]+ = ' "$conf"
  assert_output 10
  echo "flavor = open" >"$BATS_TEST_TMPDIR/one.conf"
  KMODSMITH_CONFIG=$BATS_TEST_TMPDIR/one.conf run "$KMODSMITH" plan
  assert_output --partial "did you mean 'flavour'"
  while read -r name; do
    echo "$name = " >"$BATS_TEST_TMPDIR/one.conf"
    KMODSMITH_CONFIG=$BATS_TEST_TMPDIR/one.conf run "$KMODSMITH" plan --root "$BATS_TEST_TMPDIR/none"
    refute_output --partial "unknown"
    assert_failure
  done < <(sed -nE 's/^#([a-z0-9-]+) = .*/\1/p' "$conf")
}
