# shellcheck shell=bash disable=SC2154,SC2153 # ../cli/helper.bash and servers.bash set what is used here
# SPDX-License-Identifier: Apache-2.0
# Nodes that install at the same time: recorded machines with a compiler that is made up. $outside is where its image comes
# from, by default a directory.
kernel=6.1.0-56-cloud-amd64

nodes_make() { # the machine that every node is a copy of, a driver source, headers, and a compiler that takes 4 s
  cd "$BATS_TEST_TMPDIR" || return
  verb=(install) role=builder share_key=key.pem builder=$BATS_TEST_TMPDIR/builder repository=docker+http://$HUB_PLAIN/drivers-$BATS_TEST_NUMBER
  tiny_builder "$builder.tar" 99 "$kernel"
  echo 4 >"$builder.tar.d/usr/made/slow"
  tar -cf "$builder.tar" -C "$builder.tar.d" .
  "$KMODSMITH" pack builder "$builder.tar" --output "oci:$builder" --state-dir elsewhere --arch x86_64 >/dev/null
  tiny_source driver
  touch driver/kernel-open/nvidia/nvidia.Kbuild
  tiny_headers headers.tar "$kernel"
  built_with 99 headers.tar "$kernel"
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem 2>/dev/null
  openssl pkey -in key.pem -pubout -out site.pem
  "$KMODSMITH" sign "oci:$builder" --key key.pem >/dev/null
  loadable
  mv "$ROOT" machine
  unset ROOT
}
node() { # NUMBER [OPTION...]: an install, or "${verb[@]}", in the background; its log is log.NUMBER, its process id in pid.NUMBER
  local root=node$1
  [ -d "$root" ] || cp -a machine "$root"
  "$KMODSMITH" trust add site.pem --root "$root" >/dev/null
  NODE_NAME=node$1 timeout 120 "$KMODSMITH" "${verb[@]}" --root "$root" --source driver --headers headers.tar \
    --modules nvidia --flavour open --from "$repository,${outside:-oci:$builder}" --share "$repository" ${role:+--share-role "$role"} \
    ${share_key:+--share-key "$share_key"} "${@:2}" \
    >"log.$1" 2>&1 </dev/null 3>&- 4>&- &
  echo $! >"pid.$1"
}
ended() { # COUNT: all of them have, well
  local i
  for ((i = 1; i <= $1; i++)); do
    wait "$(<"pid.$i")" || { cat log.*; fail "node $i failed"; }
  done
}
compiles() { cat log.* | grep -c 'objects\? with gcc-99' || true; }
loads() { grep -l '"\?nvidia' node*/.sys-calls | wc -l; }
