#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The archive for who helps with a node: what is in it, what never is, and on what it does not depend.
# shellcheck disable=SC2016,SC2154,SC2164 # quotes around scripts; bats and helper.bash set stderr, top and ROOT; bats stops at a failed cd
load helper

setup() {
  unset "${!KUBERNETES_@}" KUBECONFIG NODE_NAME
  host h100x8
  cd "$BATS_TEST_TMPDIR"
}

# A machine with something of each kind; every secret is hunter2.
lived_in() {
  mkdir -p "$ROOT"/{dev,run/kmodsmith,etc/modprobe.d} "$ROOT"/var/lib/kmodsmith/{logs,store}
  echo gpu-7.corp.example >"$ROOT/etc/hostname"
  cat >"$ROOT/dev/kmsg" <<END
4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, on gpu-7, 10.1.2.3
6,2,3,-;eth0: link of 10.9.9.9 is up
6,3,4,-;BUG: unable to handle page fault
6,4,5,-;RIP: 0010:_nv000001rm+0x1/0x2
END
  echo 'quiet BOOTIF=01-52-54-00-12-34-56 ks=http://u:hunter2@ks.corp.example/ks?key=hunter2 token=hunter2' >"$ROOT/proc/cmdline"
  echo 'options nvidia NVreg_X=1 # https://u:hunter2@ks.corp.example/' >"$ROOT/etc/modprobe.d/nvidia.conf"
  echo '{"a": "password: hunter2"}' >"$ROOT/run/kmodsmith/gpus.json"
  echo '{"manifests": []}' >"$ROOT/var/lib/kmodsmith/store/index.json"
  echo '{"state": "idle"}' >"$ROOT/var/lib/kmodsmith/journal"
  printf -- 'cc -c x.c\n-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n' >"$ROOT/var/lib/kmodsmith/logs/new.log"
  echo older >"$ROOT/var/lib/kmodsmith/logs/old.log"
  touch -d yesterday "$ROOT/var/lib/kmodsmith/logs/old.log"
  snapshot
}
support() { # ARGUMENT...: the archive's files are in kmodsmith-support afterwards
  kmodsmith support -o it.tar.gz "$@"
  assert_status 0
  rm -rf kmodsmith-support
  tar -xzf it.tar.gz
}
names() { (cd kmodsmith-support && find . -type f -printf '%P\n' | LC_ALL=C sort); }

@test "an archive has what its list says, is readable by its owner alone, and nothing else is changed" {
  lived_in
  support
  listed=$output
  assert_unchanged
  assert_equal "$(stat -c %a it.tar.gz)" 600
  assert_equal "$(sed '/^written: /d; s/ .*//' <<<"$listed" | LC_ALL=C sort)" "$(names)"
  for name in version.txt status.json doctor.json config-show.json trust-ls.json os-release proc/cmdline parameters.txt \
    kernel.log etc-modprobe.d/nvidia.conf run/gpus.json state/journal state/store.json state/compile.log missing.txt; do
    assert_file_not_empty "kmodsmith-support/$name"
    assert_equal "$(sed -nE "s#^$name +([0-9]+) .*#\1#p" <<<"$listed")" "$(stat -c %s "kmodsmith-support/$name")"
  done
  assert_equal "$(jq -r .kind kmodsmith-support/{status,doctor,config-show,trust-ls}.json | paste -sd' ')" \
    "Status Doctor ConfigShow TrustLs"
  assert_equal "$(jq -r .driver.version kmodsmith-support/status.json)" 535.261.03
  run cat kmodsmith-support/kernel.log
  assert_line --partial "NVRM: Xid"
  assert_line --partial "RIP: "
  refute_output --partial "eth0"
  run cat kmodsmith-support/state/compile.log
  assert_line "cc -c x.c"
  run cat kmodsmith-support/missing.txt
  assert_line --regexp '^usr-lib-modprobe.d: '
  assert_line --regexp '^cluster: no cluster'
}

@test "no secret is in any file, whether it is from the configuration, the environment, a URL or a file" {
  lived_in
  cat >kmodsmith.conf <<END
proxy = http://u:hunter2@proxy.corp.example:3128
from = docker://registry.corp.example/x?sig=hunter2
share = docker://registry.corp.example/hunter2env
END
  KMODSMITH_CONFIG=$PWD/kmodsmith.conf MY_TOKEN=hunter2env KMODSMITH_KEY_PASSWORD=hunter2 support
  run grep -r hunter2 kmodsmith-support
  assert_failure
  run jq -r '.items[] | [.key, .value, .by] | join(" ")' kmodsmith-support/config-show.json
  assert_line "from docker://registry.corp.example/x?(removed) file"
  assert_line "proxy  file"
  run cat kmodsmith-support/proc/cmdline
  assert_line "quiet BOOTIF=01-52-54-00-12-34-56 ks=http://(removed)@ks.corp.example/ks?(removed) token=(removed)"
}

@test "--anonymous: a machine is the same word everywhere, and no name or address is left" {
  lived_in
  echo 'no-proxy = .intra.example, 10.8.8.8' >kmodsmith.conf
  KMODSMITH_CONFIG=$PWD/kmodsmith.conf NODE_NAME=node-seven support --anonymous
  run grep -rniE 'gpu-7|corp|intra|node-seven|10\.[0-9]+\.[0-9]+\.|52-54' kmodsmith-support
  assert_failure
  ks=$(grep -o 'ks=http://(removed)@[a-z0-9-]*' kmodsmith-support/proc/cmdline)
  assert_regex "${ks##*@}" '^host-[0-9]+$'
  run cat kmodsmith-support/etc-modprobe.d/nvidia.conf
  assert_output --partial "https://(removed)@${ks##*@}/"
  assert_equal "$(jq -r .driver.version kmodsmith-support/status.json)" 535.261.03 # no address
  kmodsmith support --anonymous
  [ -n "$(compgen -G 'kmodsmith-support-2*.tar.gz')" ]
}

@test "without --output the name has the node and the date; - is standard output; --dry-run writes nothing" {
  echo gpu-7 >"$ROOT/etc/hostname"
  kmodsmith support --dry-run
  assert_status 0
  assert_line --partial "status.json "
  kmodsmith support --dry-run --json
  assert_json '.files | map(.name) | index("missing.txt") != null'
  run ls
  refute_output --partial .tar.gz
  kmodsmith support
  assert_status 0
  [ -n "$(compgen -G 'kmodsmith-support-gpu-7-2*.tar.gz')" ]
  "$KMODSMITH" support --root "$ROOT" -q -o - | tar -tz >list
  run cat list
  assert_line kmodsmith-support/status.json
  kmodsmith support -o - --json
  assert_error E_USAGE
}

@test "a node that has been used for nothing, and records that are damaged, get an archive" {
  find "$ROOT/proc" -type f -delete
  mkdir -p "$ROOT/var/lib/store" # somebody else's
  snapshot
  KMODSMITH_FROM=docker://127.0.0.1:9/x DRIVER_VERSION=535.261.03 support
  assert_unchanged
  run cat kmodsmith-support/missing.txt
  assert_line --partial "state: there is no state directory"
  lived_in
  printf '{"a": \0 broken' >"$ROOT/run/kmodsmith/status.json"
  printf 'broken' >"$ROOT/var/lib/kmodsmith/journal"
  mkfifo "$ROOT/run/kmodsmith/fifo"
  ln -s /nowhere "$ROOT/etc/modprobe.d/link.conf"
  support
  assert_equal "$(cat kmodsmith-support/run/status.json)" '{"a": ? broken'
  assert_equal "$(cat kmodsmith-support/state/journal)" broken
  run cat kmodsmith-support/missing.txt
  assert_line --partial "run/fifo: "
  assert_line --partial "link.conf: "
}

@test "what is long is cut and says so, and too much is left out" {
  local i
  lived_in
  { yes 'drivers/nvidia/nv.c:1234: warning: comparison' | head -c 40M; echo; echo password=hunter2; } >"$ROOT/var/lib/kmodsmith/logs/new.log"
  yes '4,1,2,-;NVRM: again and again' | head -c 5M >>"$ROOT/dev/kmsg"
  yes 'x y z' | head -c 1000000 >big
  for i in {1..30}; do ln big "$ROOT/run/kmodsmith/big-$i.json"; done
  support
  run head -n 1 kmodsmith-support/state/compile.log
  assert_output --partial "(cut: only the end of 41943058 bytes)"
  run tail -n 1 kmodsmith-support/state/compile.log
  assert_output "password=(removed)"
  run head -n 1 kmodsmith-support/kernel.log
  assert_output --partial "(cut: "
  [ "$(du -sb --apparent-size kmodsmith-support | cut -f1)" -lt 20971520 ]
  run grep -c 'left out: the archive would be too large' kmodsmith-support/missing.txt
  [ "$output" -gt 5 ]
}

@test "the same node is the same content, but for the time and the free space" {
  lived_in
  support
  mv kmodsmith-support first
  support
  run diff -r first kmodsmith-support --exclude version.txt --exclude doctor.json
  assert_output ""
}

@test "an archive that cannot be written is an error, and leaves nothing" {
  run --separate-stderr bash -c '"$0" support --root "$1" -o - >/dev/full' "$KMODSMITH" "$ROOT"
  assert_error E_NO_SPACE
  kmodsmith support -o /dev/null
  assert_error E_USAGE "no regular file"
  kmodsmith support -o "$PWD/nowhere/it.tar.gz"
  assert_status 1
  needs_mounts
  mkdir small
  run --separate-stderr unshare -m --propagation private bash -c 'mount -t tmpfs -o size=4k none small && "$0" support --root "$1" -o small/it.tar.gz
    rc=$?; ls -A small; exit $rc' "$KMODSMITH" "$ROOT"
  assert_error E_NO_SPACE
  refute_output --partial tmp
  refute_output --partial tar.gz.
}

@test "without root's rights it has what may be read" {
  local open
  [ "$EUID" -eq 0 ] || skip "needs another user"
  lived_in
  open=$(TMPDIR=/tmp mktemp -d) # bats' own directories are closed to others
  mv "$ROOT" "$open/host"
  chmod 600 "$open"/host/{var/lib/kmodsmith/journal,dev/kmsg}
  install -m 755 "$KMODSMITH" "$open/kmodsmith"
  chmod 1777 "$open"
  run --separate-stderr setpriv --reuid=65533 --clear-groups env HOME=/nonexistent "$open/kmodsmith" support --root "$open/host" -o "$open/it.tar.gz"
  tar -xzf "$open/it.tar.gz"
  rm -r "$open"
  assert_status 0
  run cat kmodsmith-support/missing.txt
  assert_line --partial "state/journal: "
  assert_line --partial "kernel.log: "
  assert_equal "$(jq -r .driver.version kmodsmith-support/status.json)" 535.261.03
}
