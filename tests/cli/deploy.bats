#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# deploy/: what is asked of a cluster is well formed, says why, and is what the program needs (R-N3).
# shellcheck disable=SC2034,SC2154 # bats and helper.bash set stderr and top, and read ROOT
load helper

query() { # FILE PYTHON: an expression on the document d
  python3 -c 'import sys, yaml; d = yaml.safe_load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$top/deploy/$1" "$2"
}
container='d["spec"]["template"]["spec"]["containers"][0]'
daemonsets=(daemonset.yaml daemonset-unprivileged.yaml)

@test "deploy: every file has the shape that Kubernetes takes" {
  local file
  for file in "${daemonsets[@]}"; do
    python3 "$top/tests/cli/kube.py" "$top/deploy/$file"
  done
  [ "$(query gpu-operator-values.yaml 'sorted(d)')" = "['driver']" ]
}

@test "deploy: a wrong field is found" {
  local file=$BATS_TEST_TMPDIR/d.yaml change
  for change in 's/hostPID/hostPid/' 's/privileged: true/privileged: yes-please/' 's/mountPath: .*/mountPath: drivers/' \
    's/name: parameters$/name: params/' 's/periodSeconds: 5/periodSeconds: soon/' 's/matchLabels/matchLabel/' '/^kind/d'; do
    sed "$change" "$top/deploy/daemonset.yaml" >"$file"
    run python3 "$top/tests/cli/kube.py" "$file"
    [ "$status" -eq 1 ] || fail "$change was not found"
  done
}

@test "deploy: the capabilities are those of the program, with its reasons" {
  local granted
  host no-gpu
  kmodsmith doctor --json
  granted=$(sed -nE '/^ +add:$/,/^ +[a-z]+Probe/s/^ +- ([A-Z_]+) # (.*)/CAP_\1 \2/p' "$top/deploy/daemonset-unprivileged.yaml")
  assert_equal "$granted" "$(jq -r '.rights[] | .capability + " " + .why' <<<"$output")"
  [ "$(query daemonset-unprivileged.yaml "${container}['securityContext']['capabilities']['drop']")" = "['ALL']" ]
  [ "$(query daemonset-unprivileged.yaml "${container}['securityContext']['privileged']")" = False ]
}

@test "deploy: the commands are the program's" {
  local file words
  ROOT=
  for file in "${daemonsets[@]}"; do
    for words in "['command'] + ${container}['args']" "['startupProbe']['exec']['command']" \
      "['livenessProbe']['exec']['command']" "['readinessProbe']['exec']['command']"; do
      read -ra words <<<"$(query "$file" "' '.join(${container}$words)")"
      [ "${words[0]}" = kmodsmith ]
      run "$KMODSMITH" "${words[@]:1}" --help
      assert_success
    done
  done
}

@test "deploy: every mount says what it is for, and the operator looks early" {
  local file
  for file in "${daemonsets[@]}"; do
    run grep -cE '^ +- name: [a-z]+ # ' "$top/deploy/$file"
    assert_equal "$output" "$(query "$file" "len(${container}['volumeMounts'])")"
  done
  [ "$(query gpu-operator-values.yaml 'd["driver"]["startupProbe"]["initialDelaySeconds"] < 60')" = True ]
}
