#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# R-A9, once per cluster: of ten nodes that need the same package and find none, one compiles. The API server, etcd and the
# registry are real, nodes are recorded machines, the compiler is a made-up one that takes seconds.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell and sets status; servers.bash the addresses
# shellcheck disable=SC2034 # nodes.bash uses what is set here
load helper
load nodes

setup_file() {
  registry_start plain
  registry_start readonly
  kube_start
}
teardown_file() { kube_stop; }
setup() { kube_needed && nodes_make; }

@test "ten nodes at once: one compiler run, ten drivers" {
  for i in {1..10}; do node "$i" --kubeconfig "$KUBECONFIG" --compile-lease default; done
  ended 10
  assert_equal "$(compiles)" 1
  assert_equal "$(loads)" 10
  assert_equal "$(kube GET /apis/coordination.k8s.io/v1/namespaces/default/leases |
    jq -r '.items[] | select(.metadata.name | startswith("kmodsmith-compile-")) | .spec.holderIdentity' | grep -c .)" 0
}

@test "the compiling node is killed: another one takes over" {
  local i name
  for i in {1..4}; do node "$i" --kubeconfig "$KUBECONFIG" --compile-lease default --lease-duration 5; done
  soon grep -l 'those of the builder image' log.*
  name=$(grep -l 'those of the builder image' log.* | head -1)
  name=${name#log.}
  sleep 1
  pkill -9 -P "$(<"pid.$name")" -x kmodsmith
  wait "$(<"pid.$name")" || true
  for ((i = 1; i <= 4; i++)); do
    [ "$i" = "$name" ] || wait "$(<"pid.$i")" || { cat log.*; fail "node $i failed"; }
  done
  assert_equal "$(compiles)" 1 # that came to its end
  assert_equal "$(grep -l 'those of the builder image' log.* | wc -l)" 2
  assert_equal "$(loads)" 3
}

@test "a compile that cannot work is tried once, and all nodes know why" {
  printf '#!/bin/sh\ncase " $* " in\n*" probe.o "*) touch /build/probe/probe.o /build/probe/good.o ;;\n%s\nesac\n' \
    '*" modules "*) sleep 3; echo "nv.c:1:1: error: it is 1989" >&2; exit 2 ;;' >"$builder.tar.d/usr/bin/make"
  tar -cf "$builder.tar" -C "$builder.tar.d" .
  rm -r "$builder"
  "$KMODSMITH" pack builder "$builder.tar" --output "oci:$builder" --state-dir elsewhere --arch x86_64 >/dev/null
  "$KMODSMITH" sign "oci:$builder" --key key.pem >/dev/null
  local i
  for i in {1..3}; do node "$i" --kubeconfig "$KUBECONFIG" --compile-lease default; done
  for i in {1..3}; do ! wait "$(<"pid.$i")" || fail "node $i succeeded"; done
  assert_equal "$(grep -l 'those of the builder image' log.* | wc -l)" 1
  assert_equal "$(cat log.* | grep -c 'error: E_BUILD.*it is 1989')" 3
}

@test "of five nodes one is a builder: it compiles and signs; the others wait and have no key" {
  node 1 --kubeconfig "$KUBECONFIG" --compile-lease default
  role='' share_key=''
  for i in {2..5}; do node "$i" --kubeconfig "$KUBECONFIG" --compile-lease default; done
  ended 5
  assert_equal "$(compiles) $(loads)" "1 5"
  assert_equal "$(grep -l 'objects\? with gcc-99' log.*)" log.1
}

@test "a builder that dies, and no builder at all: nodes compile for themselves, and push nothing" {
  local i
  node 1 --kubeconfig "$KUBECONFIG" --compile-lease default --lease-duration 5
  log=log.1 soon grep -q 'those of the builder image' log.1
  role='' share_key=''
  for i in {2..3}; do node "$i" --kubeconfig "$KUBECONFIG" --compile-lease default --lease-duration 5; done
  sleep 1
  pkill -9 -P "$(<pid.1)" -x kmodsmith
  wait "$(<pid.1)" || true
  for i in {2..3}; do wait "$(<"pid.$i")" || { cat log.*; fail "node $i failed"; }; done
  assert_equal "$(grep -l 'no builder has begun with it; this node compiles for itself' log.* | wc -l)" 2
  assert_equal "$(loads)" 2
  assert_equal "$(grep -l 'kept on this node, which is not a builder' log.* | wc -l)" 2
}

@test "the next kernel: of four watchers one compiles, and all have its package before the reboot" {
  local i
  kernel=6.1.0-57-cloud-amd64
  rm -rf machine driver
  nodes_make
  mkdir -p machine/boot "machine/lib/modules/$kernel/kernel"
  cp machine/lib/modules/6.1.0-56-cloud-amd64/config "machine/lib/modules/$kernel/config"
  touch "machine/lib/modules/$kernel"/modules.{builtin,order,dep,dep.bin}
  echo image >"machine/boot/vmlinuz-$kernel"
  verb=(watch --once --kernel "$kernel")
  for i in {1..4}; do node "$i" --kubeconfig "$KUBECONFIG" --compile-lease default; done
  ended 4
  assert_equal "$(compiles)" 1
  assert_equal "$(grep -l "^$kernel may start next: ready: " log.* | wc -l)" 4
  for i in {1..4}; do "$KMODSMITH" store ls --root "node$i" | grep -F "$kernel"; done
}

@test "a registry that nobody may push to: each node compiles at once, with a note" {
  repository=docker+http://$HUB_READONLY/drivers
  for i in {1..4}; do node "$i" --kubeconfig "$KUBECONFIG" --compile-lease default; done
  ended 4
  assert_equal "$(compiles)" 4
  assert_equal "$(loads)" 4
  assert_equal "$(grep -lE 'cannot be pushed to, each node |cannot push what it compiles' log.* | wc -l)" 4
  assert_equal "$(grep -l 'the package is not shared, and serves this node alone: E_' log.* | wc -l)" 4
}

@test "a package that the others do not trust: each of them compiles, with a note" {
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out other.pem 2>/dev/null
  share_key=other.pem
  for i in {1..3}; do node "$i" --kubeconfig "$KUBECONFIG" --compile-lease default; done
  ended 3
  assert_equal "$(loads)" 3
  assert_equal "$(compiles)" 3
  assert_equal "$(grep -l 'pushed it, and this node does not find it, or not believe it' log.* | wc -l)" 2
}

@test "no API server: a missing Lease costs a compile, not the install" {
  sed "s#$KUBE#https://127.0.0.1:1#" "$KUBECONFIG" >nobody
  node 1 --kubeconfig nobody --compile-lease default
  ended 1
  run cat log.1
  assert_output --regexp 'no Lease \(.*this node compiles for itself'
  assert_equal "$(loads)" 1
}
