#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# deploy/build-cronjob.yaml, its containers one after the other as the manifest says: in runc, with a user namespace, their
# capabilities, a filter of system calls and a read-only root; the builder image's compilers, a real kernel's headers, a driver
# of one file and a real registry that wants a password. (R-I2, R-A9, R-N3)
# shellcheck disable=SC2154 # bats and the helpers set status, output and stderr, top and images
load helper
load ../services/servers

ID=100000 # the container's root, see pod.py
DRIVER=$(sed -n 's/.*NV_VERSION_STRING=\\"\(.*\)\\"$/\1/p' "${BATS_TEST_DIRNAME%/*}/vm/driver/kernel/Kbuild") # of the driver of one file
source=$(grep -om1 'nvidia-[0-9.]*[0-9]' "${BATS_TEST_DIRNAME%/*/*}/deploy/build-cronjob.yaml") # as the manifest calls it
setup_file() {
  command -v runc >/dev/null || skip "there is no runc"
  unshare -U true || skip "this machine makes no user namespaces"
  box=$(mktemp -d /tmp/kmodsmith-job.XXXXXX) # others than root have to get there
  chmod 755 "$box"
  mkdir -p "$box"/{rootfs,volumes/{data,tmp,sources,matrix,nodes,trust,auth,key}}
  rm -rf "$images/job"
  cp -al "$images/builder/root" "$images/job"
  mkdir -p "$images"/job/{data,sources,matrix,nodes,trust,auth,key} "$images/job/usr/share/kmodsmith/payload/root/usr/src/$source"
  eval "$(cd "$top" && kept scripts/inputs.sh | grep -E '^K61(_HEADERS)?=')"
  registry_start basic
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$box/release.key" 2>/dev/null
  openssl pkey -in "$box/release.key" -pubout -out "$box/release.pem"
  auth_file "$box/auth.json" "$HUB_BASIC"
  export box K61 HUB="docker+http://$HUB_BASIC/packages" JOB_AUTH="$box/auth.json"
  # shellcheck disable=SC2086 # a list of files
  "$KMODSMITH" pack headers ${K61_HEADERS} --kernel "$K61" --output "oci:$box/headers" --state-dir "$box/host" >/dev/null
  "$KMODSMITH" sign "oci:$box/headers" --key "$box/release.key" >/dev/null
  "$KMODSMITH" push "oci:$box/headers" "$HUB" --auth-file "$box/auth.json" --state-dir "$box/host" >/dev/null
  as_volume auth .dockerconfigjson "$box/auth.json"
  as_volume key release.key "$box/release.key"
  as_volume trust release.pem "$box/release.pem"
  matrix
  nodes "$K61"
}
teardown_file() {
  servers_stop
  rm -rf "$images/job" "${box:-/tmp/none-of-ours}"
}
as_volume() { # NAME KEY FILE: as the kubelet lays out a ConfigMap or a Secret
  local dir=$box/volumes/$1
  rm -rf "$dir" && mkdir -p "$dir/..2026"
  cp "$3" "$dir/..2026/$2"
  ln -s ..2026 "$dir/..data"
  ln -s "..data/$2" "$dir/$2"
  chmod 400 "$dir/..2026/$2"
  chown -R -h "$ID:$ID" "$dir"
}
matrix() { # of the manifest, with the one module that the driver has
  python3 -c 'import sys, yaml
print(next(d["data"]["matrix.json"] for d in yaml.safe_load_all(open(sys.argv[1])) if d["kind"] == "ConfigMap"))' "$top/deploy/build-cronjob.yaml" |
    jq '.modules = ["nvidia"] | .drivers[].flavours = ["proprietary"]' >"$box/matrix.json"
  as_volume matrix matrix.json "$box/matrix.json"
}
nodes() { # RELEASE...: as the container `nodes` writes them, which tests/cluster/client.bats runs
  jq -n '{items: [$ARGS.positional[] | {metadata: {name: "node-\(.)"}, status: {nodeInfo: {kernelVersion: ., architecture: "amd64"}}}]}' \
    --args "$@" >"$box/nodes.json"
  as_volume nodes nodes.json "$box/nodes.json"
}
fresh_pod() { # new empty directories
  local name
  for name in data tmp sources; do
    rm -rf "$box/volumes/$name"
    install -d -o "$ID" -g "$ID" "$box/volumes/$name"
  done
}
container() { # NAME [OPTION-OF-pod.py...]: as `run`
  local name=$1 environment
  shift
  mapfile -t environment < <(config_of builder '.config.Env[]')
  python3 "$top/tests/images/pod.py" "$top/deploy/build-cronjob.yaml" "$name" "$box/rootfs" "$box/volumes" "${environment[@]/#/--env=}" \
    --replace "docker://registry.example/drivers=$HUB" "$@" >"$box/config.json"
  # shellcheck disable=SC2016 # the other shell's
  run --separate-stderr timeout 200 unshare -m --propagation private sh -c 'mount --bind "$1" "$2" && exec runc run --bundle "$3" "$4"' \
    - "$images/job" "$box/rootfs" "$box" "kmodsmith-test-$$-$name" </dev/null
}
job() { # to the first that fails: $failed names it; what the build said is in $built
  local name
  failed='' built=''
  for name in sources build sign push all; do
    if [ "$name" = sources ]; then
      container "$name" --mount "$top/tests/vm/driver=/usr/share/kmodsmith/payload/root/usr/src/$source"
    else
      container "$name"
    fi
    [ "$name" != build ] || built=$output
    [ "$status" -eq 0 ] || { failed=$name && told; return 0; }
  done
}

@test "the first run builds, signs and pushes; a node takes the package" {
  fresh_pod
  job
  assert_equal "$failed" ""
  assert_regex "$built" '1 built, 0 there, 0 fetched, 0 skipped, 0 refused, 0 failed'
  [ -s "$box/volumes/data/state/logs/$DRIVER-proprietary-$K61.log" ] # a compiler ran
  assert_equal "$(find "$box/volumes/data/state/.tmp" -mindepth 1)" "" # and left nothing
  "$KMODSMITH" trust add "$box/release.pem" --trust-dir "$BATS_TEST_TMPDIR/trust" >/dev/null
  run --separate-stderr timeout 60 "$KMODSMITH" fetch --driver "$DRIVER" --kernel "$K61" --from "$HUB" --auth-file "$JOB_AUTH" \
    --trust-dir "$BATS_TEST_TMPDIR/trust" --state-dir "$BATS_TEST_TMPDIR/node" --json
  assert_success
  assert_json '.signed_by | test("^[0-9a-f]{16}$")' true # the key's id: nobody gave it a name
}
@test "the second run, in an empty pod, compiles nothing" {
  fresh_pod
  job
  assert_equal "$failed" ""
  assert_regex "$built" '0 built, 0 there, 1 fetched, 0 skipped, 0 refused, 0 failed'
  [ ! -e "$box/volumes/data/state/logs" ]
}
@test "a kernel without headers fails the job at its end, and by name; the others are pushed" {
  fresh_pod
  nodes "$K61" 6.99.0-none
  job
  assert_equal "$failed" all
  assert_regex "$output" '6.99.0-none +failed E_'
  assert_regex "$output" '0 built, 1 there, 0 fetched, 0 skipped, 0 refused, 1 failed'
}
@test "root of the container is nobody outside, its root is read-only, and only the sign container sees the key" {
  fresh_pod
  container build --replace kmodsmith=sh --replace build=-c --replace '--partial=id -u; touch /x; ls /key; cat /proc/self/uid_map'
  assert_regex "$output" $'^0\n +0 +100000 +65536$'
  assert_regex "$stderr" 'Read-only file system'
}
