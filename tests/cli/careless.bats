#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Slips of careless hands: misspelt names, bad values found late, a home that cannot be used; and what --quiet,
# --verbose and a log as JSON say.
# shellcheck disable=SC2154 # bats and helper.bash set stderr and top
load helper
load package

setup() { package=$BATS_TEST_TMPDIR/package; }
teardown() { [ -z "${open-}" ] || rm -rf "$open"; }

@test "an unknown KMODSMITH_ variable is an error that suggests the nearest name; empty or set, for every command" {
  local name
  while read -r name; do
    KMODSMITH_FROMM="" kmodsmith "$name"
    assert_status 2
    assert_error E_CONFIG "unknown environment variable 'KMODSMITH_FROMM'; did you mean 'KMODSMITH_FROM'?"
  done < <(commands)
  KMODSMITH_FROMM=x run --separate-stderr "$KMODSMITH" status --help
  assert_status 0
}

@test "variables of other commands, of make's scripts and of a Kubernetes Service are accepted" {
  host h100x8
  KMODSMITH_GATE=yes KMODSMITH_BASE=/x KMODSMITH_SERVICE_HOST=10.0.0.1 KMODSMITH_SERVICE_PORT_HTTPS=443 \
    KMODSMITH_REGISTRY_PORT=tcp://10.0.0.2:5000 KMODSMITH_REGISTRY_PORT_5000_TCP_ADDR=10.0.0.2 kmodsmith holders
  assert_status 0
  assert_equal "$stderr" ""
}

@test "images and manifests set no unknown variable" {
  local name names
  mapfile -t names < <(cd "$top" && git ls-files deploy images scripts | xargs grep -hoE '\bKMODSMITH_[A-Z0-9_]+' | sort -u)
  [ "${#names[@]}" -ge 6 ]
  for name in "${names[@]}"; do
    case $name in KMODSMITH_VERSION | KMODSMITH_CONFIG) continue ;; esac # of the compiler; a file that must exist
    run env "$name=" "$KMODSMITH" explain E_ABI
    assert_success
  done
}

@test "misspelt commands and options: the nearest name is suggested" {
  run --separate-stderr "$KMODSMITH" instaal
  assert_error E_USAGE "unknown command 'instaal'; did you mean 'install'?"
  run --separate-stderr "$KMODSMITH" dcotor --json
  assert_json .error.code E_USAGE
  kmodsmith install --diver=535.1
  assert_error E_USAGE "unknown option '--diver=535.1' for 'install'; did you mean '--driver'?"
}

@test "a bad value that is found late is reported with file, line and key, or with its variable" {
  host h100x2-unloaded
  while IFS='|' read -r line text; do
    printf '# of the site\n\n%s\n' "$line" >"$BATS_TEST_TMPDIR/conf"
    KMODSMITH_CONFIG=$BATS_TEST_TMPDIR/conf kmodsmith plan
    assert_status 2
    assert_error E_CONFIG "'$BATS_TEST_TMPDIR/conf', line 3, key '${line%% *}': $text"
  done <<'EOF'
flavour = opn|--flavour 'opn'
driver = x|'x' is not a driver version
modules = uvm,foo|--modules: 'nvidia-foo'
reuse = never|--reuse 'never'
EOF
  KMODSMITH_REUSE=never kmodsmith plan
  assert_error E_CONFIG "environment variable KMODSMITH_REUSE: --reuse 'never'"
  printf 'flavour = opn\n' >"$BATS_TEST_TMPDIR/conf"
  KMODSMITH_CONFIG=$BATS_TEST_TMPDIR/conf kmodsmith install --json
  assert_json '.error.text | contains("line 1, key")'
  KMODSMITH_CONFIG=$BATS_TEST_TMPDIR/conf kmodsmith plan --flavour opn
  assert_error E_USAGE "--flavour 'opn' is not one of"
}

@test "--quiet prints no table and no event; JSON, errors and the exit status stay" {
  local name
  host h100x8
  for name in status doctor holders nodes plan; do
    kmodsmith "$name" -q
    assert_equal "$output" ""
    assert_equal "$(grep -v '^kmodsmith: \(error\|next\|warn\)' <<<"$stderr")" ""
    kmodsmith "$name" -q --json
    jq -e . <<<"$output" >/dev/null
  done
  host h100x2-unloaded
  kmodsmith status -q
  assert_status 1
  assert_equal "$output$stderr" ""
  run --separate-stderr "$KMODSMITH" explain -q E_NONE
  assert_error E_NOT_FOUND
  run bash -c '"$1" explain -q --json >/dev/full' - "$KMODSMITH"
  assert_status 1
}

@test "--verbose shows what was run, requested and decided, and why" {
  loadable
  kmodsmith plan --package "$package"
  [[ $stderr != *": debug: "* ]]
  KMODSMITH_REUSE=off kmodsmith install --package "$package" -v --param nvidia-uvm:uvm_x=1
  assert_status 0
  assert_regex "$stderr" 'debug: --reuse is set by the environment variable KMODSMITH_REUSE'
  assert_regex "$stderr" 'debug: wanted: driver any, any flavour, kernel [^ ]+, build id [0-9a-f]{12}; asked: '
  assert_regex "$stderr" 'debug: flavour open: '
  assert_regex "$stderr" 'debug: step 1: [a-z]+ .*: '
  mkdir "$BATS_TEST_TMPDIR/site"
  kmodsmith plan -v --driver 535.1 --from http://127.0.0.1:9/x
  assert_regex "$stderr" 'debug: GET http://127.0.0.1:9/x/[^ ]*: status 0, [0-9]+ ms: '
}

@test "the log as JSON: unpadded text, seconds and facts as fields" {
  host h100x8
  kmodsmith plan --driver 535.261.03 --log-format json
  run jq -r 'select(.step == "detect") | [.msg[0:6], .kernel[0:3], .gpus, .switches, .driver, (.seconds | type)] | map(tostring) | join(" ")' <<<"$stderr"
  assert_output "kernel $(printf '%.3s' "$(<"$ROOT/proc/sys/kernel/osrelease")") 8 4 535.261.03 number"
  kmodsmith plan --driver nonsense --log-format json
  run jq -r 'select(.code) | [.code, .retryable, (.next | length > 10)] | map(tostring) | join(" ")' <<<"$stderr"
  assert_output "E_USAGE false true"
}

@test "doctor fails where an install would: the driver does not serve the GPUs, only signed modules load" {
  local driver flavour found planned
  host mixed # Pascal and Blackwell: each driver serves one of them, or wants to be told which
  while IFS='|' read -r driver flavour found planned; do
    kmodsmith doctor --json ${driver:+--driver "$driver"} ${flavour:+--flavour "$flavour"}
    assert_status "$([[ $found == FAIL* ]] && echo 1 || echo 0)"
    found=$found assert_json '.checks[] | select(.name == "driver choice") | .state + " " + .code + ": " + .evidence | startswith(env.found)' true
    [ -n "$driver" ] || continue
    kmodsmith plan --driver "$driver" ${flavour:+--flavour "$flavour"}
    assert_error "$planned"
  done <<'END'
||warn E_MIXED_GPUS: no driver version supports every GPU|
535.261.03||warn E_MIXED_GPUS: the proprietary modules of driver 535.261.03 leave GPUs without a driver: 0000:5e:00.0 (Blackwell)|E_NO_PACKAGE
590.1||warn E_MIXED_GPUS: the open modules of driver 590.1 leave GPUs without a driver: 0000:3b:00.0 (Pascal)|E_NO_PACKAGE
575.57|open|warn E_MIXED_GPUS: the open modules of driver 575.57 leave GPUs without a driver: 0000:3b:00.0 (Pascal)|E_NO_PACKAGE
575.57||FAIL E_MIXED_GPUS: no module type of driver 575.57 supports every GPU|E_MIXED_GPUS
470.1|open|FAIL E_FLAVOUR: the open module type of driver 470.1 does not support 0000:3b:00.0|E_FLAVOUR
END
  host secure-boot
  kmodsmith doctor --json
  assert_status 1
  assert_json '.checks[] | select(.name == "signing") | .state + " " + .code' "FAIL E_SIGNING_REQUIRED"
  host h100x8
  echo Y >"$ROOT/sys/module/module/parameters/sig_enforce" # a driver that is loaded has passed
  kmodsmith doctor --json
  assert_status 0
  assert_json '.checks[] | select(.name == "signing") | .state + " " + .code' "warn E_SIGNING_REQUIRED"
}

@test "doctor: an unreadable store is one line, and the other checks still run" {
  host secure-boot
  mkdir -p "$ROOT/var/lib/kmodsmith/store/blobs/sha256"
  echo '{"imageLayoutVersion":"1.0.0"}' >"$ROOT/var/lib/kmodsmith/store/oci-layout"
  echo '{"manifests": 1}' >"$ROOT/var/lib/kmodsmith/store/index.json"
  kmodsmith doctor --json
  assert_status 1
  assert_json '.checks[] | select(.name == "store") | .state' warn
  assert_json '.checks[] | select(.name == "signing") | .state + " " + .code' "FAIL E_SIGNING_REQUIRED"
  assert_json '.checks | map(.name) | index("driver") != null'
}

@test "unload and doctor count the same holders" {
  host held
  kmodsmith doctor
  assert_line --regexp '^warn +holders +E_IN_USE: 5 holder\(s\), first: pid 611 '
  kmodsmith unload
  assert_error E_IN_USE "5 holder(s)"
}

@test "a user whose home cannot be used gets a warning, and sees what can be seen" {
  local home
  [ "$(id -u)" = 0 ] || skip "needs another user"
  open=$(TMPDIR=/tmp mktemp -d) # bats' own directories are closed to others
  chmod 1777 "$open"
  install -m 755 "$KMODSMITH" "$open/kmodsmith"
  mkdir -m 700 "$BATS_TEST_TMPDIR/closed"
  as() {
    cd /
    run --separate-stderr setpriv --reuid=65533 --clear-groups env HOME="$home" TMPDIR="$open" "$open/kmodsmith" "$@"
  }
  for home in /nonexistent "$BATS_TEST_TMPDIR/closed"; do
    as doctor --json
    assert_json '.checks | length > 4'
    assert_regex "$stderr" "warn: kept packages are not visible, because there is no state directory: .*--state-dir"
    as store ls --json
    assert_status 0
    assert_json '.items | length' 0
    as check
    [[ $stderr != *"error: E_NOT_FOUND: open the root"* && $stderr != *"error: E_RIGHTS: open"* ]]
  done
  assert_equal "$(ls "$open")" kmodsmith
}
