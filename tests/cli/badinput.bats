#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Bad input: each has its own code, names the file and what is wrong with it, tells the next step, and leaves nothing
# behind: no half-written tree, no scratch, no change to the machine.
# shellcheck disable=SC2154 # bats and helper.bash set stderr, top and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  state=$BATS_TEST_TMPDIR/state
  mkdir "$state"
  host h100x2-unloaded
  tiny_firmware 535.261.03
}
left() { # whatever a refused run has left: complete header trees and empty directories are no litter
  find "$state" ! -type d | grep -v "^$state/headers/[0-9a-f]\{64\}/" || true
  find "$state/.tmp" "$state/headers/.tmp" -mindepth 1 2>/dev/null || true
}
refused() { # COMMAND CODE TEXT ARGUMENT...: in text and in JSON, with the exit status of the code
  local command=$1 code=$2 text=$3 exit=1
  shift 3
  case $code in E_USAGE | E_CONFIG) exit=2 ;; esac
  kmodsmith "$command" --state-dir "$state" "$@"
  assert_status "$exit"
  assert_error "$code" "$text"
  assert_equal "$(left)" ""
  assert_equal "$(calls)" ""
}
archives() { # what a hostile or broken server may hand out
  mkdir -p directory real/kernel-open real/usr
  hostile_tars <<EOF
dotdot.tar.gz ../evil f
inner.tar.gz usr/src/../../../evil f
absolute.tar.gz $BATS_TEST_TMPDIR/evil f
device.tar.gz usr/src/null c
pipe.tar.gz usr/src/pipe p
hardlink.tar.gz usr/src/passwd h ../../etc/passwd
nolink.tar.gz usr/src/passwd h usr/src/none
good.tar.gz usr/src/other f
EOF
  : >empty.deb
  head -c 5000 /dev/urandom >random.deb
  head -c 100 good.tar.gz >cut.tar.gz
  mkfifo pipe
  tiny_source tree
  tar -cJf tree.tar.xz tree
  head -c 15000 tree.tar.xz >cut.tar.xz
  printf '2.0\n' >debian-binary
  ar rc nodata.deb debian-binary
  cp tree.tar.xz data.tar.xz
  ar rc whole.deb debian-binary data.tar.xz
  head -c 12000 whole.deb >cut.deb
  printf '#!/bin/sh\nexit 0\n' >script.run
  makeself --nox11 --quiet tree whole.run label true >/dev/null
  head -c 30000 whole.run >cut.run
  chmod -x cut.run
}

@test "sources: each kind of bad source is named by check, plan and install" {
  archives
  local file code text command
  while IFS='|' read -r file code text; do
    for command in check plan install; do
      refused "$command" "$code" "$text" --source "$file"
    done
  done <<'EOF'
none|E_NOT_FOUND|--source: open 'none': No such file
|E_NOT_FOUND|--source: open ''
pipe|E_USAGE|--source: 'pipe' is not a regular file
/dev/zero|E_USAGE|'/dev/zero' is not a regular file
empty.deb|E_ARCHIVE|'empty.deb' is empty
random.deb|E_ARCHIVE|'random.deb'
cut.tar.gz|E_ARCHIVE|'cut.tar.gz'
cut.tar.xz|E_ARCHIVE|(read up to byte 15000)
cut.deb|E_ARCHIVE|(read up to byte 12000)
cut.run|E_ARCHIVE|(read up to byte 30000)
nodata.deb|E_ARCHIVE|'nodata.deb' has no data.tar member
whole.deb|E_SOURCE|'whole.deb' has neither usr/src/*.tar.xz nor
script.run|E_SOURCE|'script.run' is a script that no archive
good.tar.gz|E_SOURCE|'good.tar.gz' has no kernel modules of an NVIDIA driver
directory|E_SOURCE|'directory' has no kernel modules of an NVIDIA driver
dotdot.tar.gz|E_ARCHIVE_UNSAFE|the entry '../evil' leaves the target directory
inner.tar.gz|E_ARCHIVE_UNSAFE|leaves the target directory
absolute.tar.gz|E_ARCHIVE_UNSAFE|/evil' leaves the target directory
device.tar.gz|E_ARCHIVE_UNSAFE|the entry 'usr/src/null' is a device, fifo or socket
pipe.tar.gz|E_ARCHIVE_UNSAFE|the entry 'usr/src/pipe' is a device, fifo or socket
hardlink.tar.gz|E_ARCHIVE_UNSAFE|'usr/src/passwd' is a hard link that leaves the target directory
nolink.tar.gz|E_ARCHIVE|'usr/src/passwd' is a hard link to 'usr/src/none', which the archive does not contain
EOF
  run find . /tmp "${BATS_RUN_TMPDIR%/*}" -maxdepth 1 -name 'evil*'
  assert_output ""
}

@test "headers: each kind of bad headers is named" {
  archives
  local file code text
  while IFS='|' read -r file code text; do
    refused check "$code" "$text" --kernel "$kernel" --headers "$file"
    refused build "$code" "$text" --kernel "$kernel" --headers "$file" --source tree
  done <<'EOF'
none|E_NOT_FOUND|--headers: open 'none': No such file
good.tar.gz,none|E_NOT_FOUND|--headers: open 'none'
directory|E_USAGE|--headers: 'directory' is a directory, expected a package file
pipe|E_USAGE|--headers: 'pipe' is not a regular file
/dev/zero|E_USAGE|'/dev/zero' is not a regular file
empty.deb|E_ARCHIVE|'empty.deb' is empty
random.deb|E_ARCHIVE|'random.deb'
cut.tar.gz|E_ARCHIVE|'cut.tar.gz'
cut.deb|E_ARCHIVE|(read up to byte 12000)
nodata.deb|E_ARCHIVE|has no data.tar member
good.tar.gz,dotdot.tar.gz|E_ARCHIVE_UNSAFE|'dotdot.tar.gz': the entry '../evil' leaves the target directory
absolute.tar.gz|E_ARCHIVE_UNSAFE|leaves the target directory
device.tar.gz|E_ARCHIVE_UNSAFE|is a device, fifo or socket
hardlink.tar.gz|E_ARCHIVE_UNSAFE|is a hard link that leaves the target directory
EOF
  run find "$state/headers" -mindepth 1 ! -name .tmp
  assert_output ""
  refused check E_HEADERS_NOT_FOUND "has none of /lib/modules/$kernel/build" --kernel "$kernel" --headers good.tar.gz
  run find . /tmp "${BATS_RUN_TMPDIR%/*}" -maxdepth 1 -name 'evil*'
  assert_output ""
}

@test "good sources are accepted in every form (directory, tar.xz, .run) and their digest is compared" {
  archives
  local file
  for file in tree tree.tar.xz whole.run; do
    kmodsmith plan --state-dir "$state" --source "$file" --json
    assert_status 0
    assert_json .driver 535.261.03
    assert_json .flavour open
    assert_equal "$(left)" ""
    refused plan E_DIGEST "'$file' has SHA-256 " --source "$file" --source-sha256 "$(printf '0%.0s' {1..64})"
  done
  kmodsmith plan --state-dir "$state" --source tree.tar.xz --source-sha256 "$(sha256sum <tree.tar.xz | cut -c1-64)"
  assert_status 0
  refused plan E_USAGE "--source-sha256 'ABC' is not a digest" --source tree --source-sha256 ABC
}

@test "a directory that only resembles a source: no core, two versions, an unreadable part" {
  local damage code text
  while IFS='|' read -r damage code text; do
    rm -rf tree
    tiny_source tree
    eval "$damage"
    refused plan "$code" "$text" --source tree
  done <<'EOF'
rm tree/kernel-open/nvidia/nv-kernel.o_binary|E_SOURCE|which is compiled from src/
cp -r tree/kernel-open tree/kernel; sed -i s/261/262/ tree/kernel/Kbuild|E_SOURCE|two drivers
rm tree/kernel-open/conftest.sh|E_SOURCE|has no kernel modules
sed -i s/NV_VERSION/MY_VERSION/ tree/kernel-open/Kbuild|E_SOURCE|has no kernel modules
: >tree/kernel-open/nvidia/nv.c|E_SOURCE|has no kernel modules
EOF
}

@test "W2: unknown modules, and parameters of unknown modules" {
  tiny_source tree
  local known="(nvidia, nvidia-uvm, nvidia-modeset, nvidia-drm, nvidia-peermem)"
  refused plan E_USAGE "--modules: 'nvidia-foo' is not a module of the NVIDIA driver $known" --source tree --modules nvidia,foo
  refused build E_USAGE "--modules: 'nvidia-uvn'" --source tree --kernel "$kernel" --modules nvidia-uvn
  refused install E_USAGE "--param: 'nvdia' is not a module of the NVIDIA driver $known" --source tree --param nvdia:NVreg_EnableMSI=1
}

@test "W1: a source of another driver than requested is refused before anything is fetched or touched" {
  tiny_source tree
  local sure="driver 550.1 was requested, but the source is of driver 535.261.03"
  refused install E_USAGE "$sure" --source tree --driver 550.1
  refused plan E_USAGE "$sure" --source tree --driver 550.1
  kmodsmith plan --source tree --driver 535.261.03
  run ! grep -q E_USAGE <<<"$stderr"
}

@test "--output never replaces what is not a package, and says so at once" {
  tiny_source tree
  mkdir full empty
  echo mine >full/file
  echo mine >file
  ln -s full link
  local name text
  while IFS='|' read -r name text; do
    refused build E_USAGE "$text" --source tree --kernel "$kernel" --output "$name"
  done <<'EOF'
file|'file': Not a directory
link|not an OCI layout and not empty
full|not an OCI layout and not empty
oci:full/|not an OCI layout and not empty
/|not an OCI layout and not empty
oci:|names no directory
oci-archive:full|which is not a regular file
oci-archive:full/|does not name a file
docker://registry.example/drivers|neither oci:DIR nor oci-archive:FILE.tar
|names no directory
EOF
  run cat file full/file
  assert_output $'mine\nmine'
  refused build E_USAGE "Not a directory" --source tree --kernel "$kernel" --output file/below
  refused build E_NOT_FOUND "No such file" --source tree --kernel "$kernel" --output nowhere/file.tar
  refused build E_HEADERS_NOT_FOUND "$kernel" --source tree --kernel "$kernel" --output empty
  run ls -A empty
  assert_output ""
}

@test "build: missing and invalid options" {
  tiny_source tree
  refused build E_USAGE "build needs --source PATH, --payload DIR"
  refused build E_USAGE "--flavour 'shut' is not one of auto, open, proprietary" --source tree --flavour shut
  refused build E_NOT_FOUND "'patches'" --source tree --patches patches
  refused build E_HEADERS_NOT_FOUND "$kernel" --source tree
  refused build E_USAGE "jobs: 'all' is not a whole number" --source tree --jobs all
}

@test "the state directory: a file, below a file, and names with blanks, quotes and newlines" {
  tiny_source tree
  : >file
  kmodsmith plan --source tree --state-dir file
  assert_status 1
  assert_error E_SYSTEM "--state-dir: open the root directory 'file': Not a directory"
  kmodsmith plan --source tree --state-dir file/below
  assert_error E_SYSTEM "'file/below': Not a directory"
  kmodsmith plan --source tree --state-dir ''
  assert_error E_NOT_FOUND "--state-dir"
  : >"$ROOT/var"
  kmodsmith plan --source tree
  assert_error E_SYSTEM "/var': Not a directory"
  local name=$'a b\t"c"\'d\'\n$(e)%s;*'
  mv tree "$name"
  kmodsmith plan --source "$name" --state-dir "$state/$name" --json
  assert_status 0
  assert_json .driver 535.261.03
  assert_dir_exist "$state/$name"
}

@test "a full disk while headers and sources are unpacked is reported, and nothing is left on it" {
  needs_mounts
  head -c 3000000 /dev/urandom >big
  tar -czf big.tar.gz big
  tiny_source tree
  mv big tree/kernel-open/
  tar -czf tree.tar.gz tree
  mkdir small
  local args
  for args in "check --kernel $kernel --headers big.tar.gz" "check --source tree.tar.gz" \
    "install --source tree.tar.gz"; do
    # shellcheck disable=SC2016 # expanded by the inner shell
    run --separate-stderr unshare -m bash -c 'mount -t tmpfs -o size=1m none small || exit 99
      "$0" $1 --root "$2" --state-dir small; r=$?
      find small ! -type d; find small -mindepth 2 ! -name .tmp
      exit $r' "$KMODSMITH" "$args" "$ROOT"
    assert_status 1
    assert_error E_NO_SPACE "No space left on device"
    refute_output --regexp '[a-z]'
  done
}

@test "the next run removes what killed runs left behind" {
  needs_strace
  tiny_source tree
  head -c 20000000 /dev/urandom >tree/kernel-open/large
  XZ_OPT=-0 tar -cJf tree.tar.xz tree # no level makes random bytes smaller
  for at in 50 200; do # writes: in the midst of unpacking
    run strace -E ASAN_OPTIONS=detect_leaks=0 -qq -o /dev/null -e inject=write:signal=KILL:when="$at" \
      "$KMODSMITH" plan --root "$ROOT" --state-dir "$state" --source tree.tar.xz
    assert_status 137
    [ "$(left)" ]
  done
  kmodsmith plan --state-dir "$state" --source tree.tar.xz
  assert_status 0
  assert_equal "$(left)" ""
}
