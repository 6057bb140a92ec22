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
|install --driver 535.261.03|E_NO_PACKAGE|no package of driver 535.261.03 for kernel 6.1.0-56-cloud-amd64, $lacks|--from docker://HOST/NAME; or compile here: --source $run
|install --driver 535.261.03 --flavour open|E_NO_PACKAGE|no package of driver 535.261.03 (open) for|--from docker://
|install --source tree --no-compile|E_NO_PACKAGE|compiling is forbidden: the store has none|leave out --no-compile
secure-boot|install --source tree|E_SIGNING_REQUIRED|lockdown is integrity|kmodsmith trust enroll --new DIR
|install --source tree|E_FIRMWARE|nvidia/535.261.03/gsp_ga10x.bin: the open modules need it for 0000:40:00.0 (Hopper)|kmodsmith pack payload ${run/x86_64/*} --driver 535.261.03
|install --dr|E_USAGE|option '--dr' of 'install' is ambiguous: --driver, --dry-run|kmodsmith install --help
|install|E_USAGE|nothing says what to install|kmodsmith install VERSION --from docker://HOST/NAME
|plan|E_USAGE|nothing says what to install|kmodsmith install --source NVIDIA-Linux-x86_64-VERSION.run
|install --driver 535.261.03 --from registry.example/drivers|E_USAGE|did you mean 'docker://registry.example/drivers'?|correct --from (KMODSMITH_FROM)
|install --driver 535.261.03 --from /srv/drivers.tar|E_USAGE|did you mean 'oci-archive:/srv/drivers.tar'?|correct --from
|install --driver 535.261.03 --from ./layout|E_USAGE|did you mean 'oci:./layout'?|correct --from
|install --driver 535.261.03 --from ftp://registry.example/x|E_USAGE|is not a repository: use oci:DIR|correct --from
|install --source notes|E_ARCHIVE|'notes': Unrecognized archive format|\`file notes\` says what it is
|install --package driver.deb|E_USAGE|'driver.deb' is a file, not an OCI layout|goes to --source
mixed|plan --source tree|E_UNSUPPORTED_GPU|0000:3b:00.0 10de:1bb3 Pascal (proprietary only|remove the GPUs of one kind
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
}

@test "what is wrong is told once: the log, JSON, the status and its file have the same next step" {
  local next="name where a package is: --from docker://HOST/NAME; or compile here: --source NVIDIA-Linux-x86_64-535.261.03.run"
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

@test "doctor: what an install does by itself is no task for the reader, and no driver is suggested where none exists" {
  host nouveau
  kmodsmith doctor
  assert_line --regexp '^warn +owner +E_BOUND: install unbinds 0000:3b:00.0 from nouveau, and binds it again if it fails$'
  assert_line --regexp '^ +next: nothing to do: `kmodsmith plan` shows the step; '
  host mixed
  kmodsmith doctor --json
  assert_json '.checks[] | select(.code == "E_MIXED_GPUS").next | startswith("remove the GPUs of one kind, or give them to virtual machines")' true
}
