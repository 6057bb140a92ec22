#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The messages that new users met first: each names the cause, the evidence and something to type that is true on this
# machine. What else is said of a misspelt command, option or key is in usage.bats and careless.bats, of a version in place of
# --driver in options.bats.
# shellcheck disable=SC2016,SC2154 # quotes around the commands of messages; bats and helper.bash set stderr and ROOT
load helper
load package

setup() {
  cd "$BATS_TEST_TMPDIR" || return
}
refused() { # CODE TEXT NEXT COMMAND ARGUMENT...: NEXT is somewhere in the next step, which is a line of its own
  kmodsmith "${@:4}"
  assert_error "$1" "$2"
  [[ ${stderr##*kmodsmith: next: } == *"$3"* ]] || told | batslib_decorate "the next step lacks '$3'" | fail
  [ "$(wc -l <<<"${stderr##*kmodsmith: next: }")" -eq 1 ]
}

@test "what is refused on a command line comes with what to type instead" {
  local machine args code text next run=NVIDIA-Linux-x86_64-535.261.03.run lacks="and no --source to compile: the store has none, and no --from"
  tiny_source tree
  echo text >notes
  : >driver.deb
  while IFS='|' read -r machine args code text next; do
    host "${machine:-h100x2-unloaded}"
    # shellcheck disable=SC2086 # several words
    refused "$code" "$text" "$next" $args
  done <<EOF
|install --source tree --driver 550.54.14|E_USAGE|driver 550.54.14 was requested, but the source is of driver 535.261.03|--source NVIDIA-Linux-x86_64-550.54.14.run
|install --driver 535.261.03|E_NO_PACKAGE|no package of driver 535.261.03 for kernel 6.1.0-56-cloud-amd64, $lacks|(KMODSMITH_FROM); or compile here: --source $run
|install --driver 535.261.03 --flavour open|E_NO_PACKAGE|no package of driver 535.261.03 (open) for|--from docker://
|install --source tree --no-compile|E_NO_PACKAGE|compiling is forbidden: the store has none|leave out --no-compile
secure-boot|install --source tree|E_SIGNING_REQUIRED|lockdown is integrity|kmodsmith trust enroll --new DIR
|install --source tree|E_FIRMWARE|nvidia/535.261.03/gsp_ga10x.bin: the open modules need it for 0000:40:00.0 (Hopper)|sh ${run/x86_64/*} -x
|install --dr|E_USAGE|option '--dr' of 'install' is ambiguous: --driver, --dry-run|kmodsmith install --help
|install|E_USAGE|nothing says what to install|kmodsmith install VERSION --from docker://HOST/NAME
|plan|E_USAGE|nothing says what to install|kmodsmith install --source NVIDIA-Linux-x86_64-VERSION.run
|install --driver 535.261.03 --from registry.example/drivers|E_USAGE|did you mean 'docker://registry.example/drivers'?|correct --from (KMODSMITH_FROM)
|install --driver 535.261.03 --from /srv/drivers.tar|E_USAGE|did you mean 'oci-archive:/srv/drivers.tar'?|correct --from
|install --driver 535.261.03 --from ./layout|E_USAGE|did you mean 'oci:./layout'?|correct --from
|install --driver 535.261.03 --from ftp://registry.example/x|E_USAGE|is not a repository: use oci:DIR|correct --from
|install --source notes|E_ARCHIVE|'notes': Unrecognized archive format|\`file notes\` says what it is
|install --package driver.deb|E_USAGE|'driver.deb' is a file, not an OCI layout|goes to --source
mixed|plan --source tree|E_FLAVOUR|the proprietary ones are needed for 0000:3b:00.0 10de:1bb3 Pascal|name what has the proprietary modules
held|unload|E_IN_USE|5 holder(s), first: pid 611 nvidia-persiste|kmodsmith holders
EOF
}

@test "without a cluster every file that was looked for is named, and the option" {
  unset KUBECONFIG
  HOME=/nonexistent refused E_USAGE "KUBECONFIG is not set, '/nonexistent/.kube/config' cannot be read" "--kubeconfig FILE" "rollout status"
}

@test "a misspelt key of the configuration: its file, its line, and the key that was meant" {
  echo 'drivr = 1' >conf
  KMODSMITH_CONFIG=$PWD/conf refused E_CONFIG "'$PWD/conf', line 1: unknown key 'drivr'; did you mean 'driver'?" "correct the line" status
}

@test "a package that nobody trusted signed: where keys were looked for, and how one is added" {
  loadable
  refused E_UNTRUSTED "'/etc/kmodsmith/trust' has no key for this source" "kmodsmith trust add" install --driver 535.261.03 --from oci:package
  assert_equal "$(grep -c "has no key" <<<"$stderr")" 1 # the log says it once, and the repository's name once
  assert_equal "$(grep -o "oci:package" <<<"$stderr" | wc -l)" 1
  refute_regex "$stderr" '[0-9a-f]{64}'
  kmodsmith install --driver 535.261.03 --from oci:package,oci:/nowhere # another reason, and the same
  assert_equal "$(grep -c "has no key" <<<"$stderr") $(grep -c "oci:/nowhere: " <<<"$stderr")" "1 1"
}

@test "a source that failed is named where another one or a compile serves" {
  loadable
  kmodsmith plan 535.261.03 --from oci:/nowhere,oci:package --insecure-skip-verify
  assert_status 0
  assert_equal "$(grep -c "oci:/nowhere: " <<<"$stderr")" 1
  tiny_source tree
  kmodsmith plan --source tree --from oci:/nowhere --flavour open
  assert_status 0
  assert_line --regexp '^ *2 +compile '
  assert_equal "$(grep -c "no package is used: oci:/nowhere: " <<<"$stderr")" 1
}

@test "what is wrong is told once: the log, JSON, the status and its file have the same next step" {
  local next="name where a package is: --from docker://HOST/NAME (KMODSMITH_FROM); or compile here: --source NVIDIA-Linux-x86_64-535.261.03.run"
  next+="; to make it last: \`from =\` or \`source =\` in kmodsmith.conf"
  host h100x2-unloaded
  kmodsmith install --driver 535.261.03 --json --log-format json
  assert_json .error.next "$next"
  assert_equal "$(jq -r 'select(.code).next' <<<"$stderr")" "$next"
  kmodsmith status
  assert_line --index 0 "Not ready: no driver is loaded for 2 GPUs"
  assert_line --regexp '^FAIL +nodes +none: no driver has registered any$'
  assert_line --regexp '^last run: refused at 20[^ ]* \([0-9]+ s ago\): E_NO_PACKAGE \(NoPackage\): no package of driver 535.261.03 for '
  assert_line "next: $next"
}

@test "a node that is not ready says what to do, whatever it lacks and whether anything ran before" {
  local machine next
  while IFS='|' read -r machine next; do
    host "$machine"
    kmodsmith status
    assert_status 1
    assert_line "next: $next"
    kmodsmith status --json
    assert_json .next "$next"
  done <<'EOF'
h100x2-unloaded|`kmodsmith doctor` names what an install needs; then `kmodsmith install`
h100x8|`kmodsmith nodes` makes and corrects them
EOF
  kmodsmith nodes
  kmodsmith status --check-gpus # as the message said
  assert_status 0
  refute_output --partial "next: "
  kmodsmith status --json
  assert_json .next null
  rm -r "$ROOT"/proc/driver/nvidia/gpus/0000:40:00.0
  kmodsmith install --driver 535.261.03 # of a last run, too, and not only "see kmodsmith status"
  assert_error E_GPU_START "verify: gpus: 7 of 8 start"
  assert_regex "$stderr" 'next: .*kmodsmith explain E_GPU_START'
  kmodsmith status
  assert_line --regexp '^next: .*kmodsmith explain E_GPU_START'
}

@test "a slip on the command line is not kept as what happened to the node" {
  host h100x2-unloaded
  kmodsmith install
  assert_error E_USAGE "nothing says what to install"
  kmodsmith status
  refute_output --partial "last run"
  kmodsmith install --driver 535.261.03
  kmodsmith install
  kmodsmith status
  assert_line --regexp '^last run: refused at .*: E_NO_PACKAGE '
}

@test "an Xid is explained by its number, as the kernel log has it; another number names NVIDIA's list" {
  local words
  for words in 79 "xid 79" Xid79 XID-79; do
    # shellcheck disable=SC2086 # two words
    kmodsmith explain $words
    assert_status 0
    assert_line --index 0 --partial "Xid 79: the GPU has fallen off the bus"
    assert_output --partial "Next: drain the node and switch its power off and on"
    assert_output --partial "docs.nvidia.com/deploy/xid-errors"
  done
  kmodsmith explain xid 48 --json
  assert_json '"\(.xid) \(.next)"' '48 drain the node and reset the GPU (`nvidia-smi --gpu-reset -i ADDRESS`) or reboot; if it comes back, the vendor'
  refused E_NOT_FOUND "Xid 4294967375 is not among those" "docs.nvidia.com" explain 4294967375
  refused E_NOT_FOUND "no error code 'xid'" "" explain xid
  refused E_USAGE "'E_ABI 79' is neither a code nor an Xid" "" explain E_ABI 79
}

@test "logs prints what the compiler said, the newest or the one that is named" {
  local logs
  host h100x2-unloaded
  logs=$ROOT/var/lib/kmodsmith/logs
  refused E_NOT_FOUND "no log of a compile in '$ROOT/var/lib/kmodsmith/logs'" "only a compile on this machine" logs
  assert_not_exist "$ROOT/var/lib/kmodsmith"
  mkdir -p "$logs"
  echo new >"$logs/550.1-open-6.1.0-56-cloud-amd64.log"
  echo old >"$logs/535.1-open-6.1.0-56-cloud-amd64.log"
  touch -d 2026-01-01 "$logs"/535*
  ln -s /etc/shadow "$logs/560.1-open-6.1.0-56-cloud-amd64.log"
  kmodsmith logs
  assert_output new
  kmodsmith logs 535.1
  assert_output old
  kmodsmith logs --json
  assert_json '[.items[] | .path | split("/") | last | split("-") | first] | join(" ")' "550.1 535.1"
  refused E_NOT_FOUND "no log of a compile of 6.12" "kmodsmith status" logs 6.12
}

@test "doctor ends with one sentence and what to do next; without headers it knows the compiler, and who would be asked" {
  local machine summary next
  while IFS='|' read -r machine summary next; do
    host "$machine"
    kmodsmith doctor
    assert_line --index $((${#lines[@]} - 2)) "$summary"
    assert_regex "${lines[-1]}" "^next: $next"
    kmodsmith doctor --json
    assert_json '.summary + "."' "$summary"
    assert_regex "$(jq -r .next <<<"$output")" "^$next"
  done <<'EOF'
h100x8|Driver 535.261.03 is loaded, and nothing prevents an install of another one.|`kmodsmith status` says
h100x2-unloaded|Nothing prevents an install of a package; a compile here lacks: headers, compiler.|`kmodsmith plan VERSION --from
secure-boot|An install would fail: 1 check, the first is signing.|make and enrol a key with
EOF
  kmodsmith doctor
  assert_line --regexp "^warn +compiler +E_TOOLCHAIN: kernel 6.1.0-56-cloud-amd64 was built with 'gcc-12 .*; expected gcc 12, found in .*: no compiler"
  mkdir -p "$ROOT"/{etc/apt,usr/bin}
  printf 'deb http://deb.example/debian bookworm main\n' >"$ROOT/etc/apt/sources.list"
  touch "$ROOT"/usr/bin/apt-{get,cache} && chmod +x "$ROOT"/usr/bin/apt-*
  kmodsmith doctor --json
  assert_json '.checks[] | select(.name == "headers") | (.evidence | contains("would ask apt for")), (.next | startswith("nothing to do where"))' $'true\ntrue'
  host no-gpu
  kmodsmith doctor
  assert_equal "${lines[-1]}" "There is nothing to install a driver for."
  host pascal
  kmodsmith doctor
  assert_line --regexp '^pass +driver choice +proprietary modules only, branches up to 580$'
}

@test "doctor: what an install does by itself is no task for the reader, and no driver is suggested where none exists" {
  host nouveau
  kmodsmith doctor
  assert_line --regexp '^warn +owner +E_BOUND: install unbinds 0000:3b:00.0 from nouveau, and binds it again if it fails$'
  assert_line --regexp '^ +next: nothing to do: `kmodsmith plan` shows the step; '
  host mixed
  kmodsmith doctor --json
  assert_json '.checks[] | select(.code == "E_MIXED_GPUS").next | startswith("choose a driver branch, or --flavour, for the GPUs that matter")' true
}
