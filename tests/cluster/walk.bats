#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# As a new user: from NVIDIA's .run, an empty registry and an empty API server, with README's commands in a fresh checkout,
# to a rollout. Prints each command with its seconds, and counts those that docs/kubernetes.md promises.
# What is not as at a user's:
#   - The .run has NVIDIA's layout and a part of the files: what Debian's packages of that version have.
#   - Nodes are recorded machines: packages for their kernel have modules of a few bytes, and as they have no mounts, no user space is
#     exported (KMODSMITH_EXPORT=none) and the firmware is on their disk.
#   - kubelet.py stands in for kubelets and container runtimes, and says how it differs. Controllers and scheduler are the real ones.
#   - Debian's packages are not fetched and not installed once they are, and `make install` has a DESTDIR.
# shellcheck disable=SC2030,SC2031,SC2154 # bats runs each test in a subshell; bats and the helpers set what is used here
load helper
load agent
load controllers

setup_file() {
  export HELM WALK_LACKS='' work=$BATS_FILE_TMPDIR/walk SERVERS_LIVE=1100
  [ -z "${KUBE_LACKS-}" ] || return 0
  [ "$(id -u)" -eq 0 ] || WALK_LACKS="only root can make images"
  "$top/scripts/deps.sh" image publish man >/dev/null 2>&1 || WALK_LACKS="packages are missing: scripts/deps.sh image publish man"
  mkdir "$work"
  HELM=$(kept "$top/scripts/go-program.sh" helm.sh/helm/v3/cmd/helm 2>"$work/lacking") || WALK_LACKS="there is no helm: $(tail -n 1 "$work/lacking")"
  [ -z "$WALK_LACKS" ] || return 0
  KUBE_EMPTY=yes kube_start --runtime-config=admissionregistration.k8s.io/v1=true --allow-privileged=true
  controllers_start
  registry_start tls
}
teardown_file() {
  controllers_stop
  kube_stop
}
setup() {
  kube_needed
  [ -z "$WALK_LACKS" ] || skip "$WALK_LACKS"
  kubectl_needed
}
teardown() {
  [ -z "${kubelet-}" ] || { kill "$kubelet" && wait "$kubelet"; } 2>/dev/null || true
}
nodes="gpu-1 gpu-2 gpu-3" count=0

run_file() { # the driver's, of a version that the inputs have; sets driver and run
  local open debs deb tree=$work/tree name
  open=$(kept "$top/scripts/inputs.sh" | sed -n 's/^OPEN=//p')
  driver=$(dpkg-deb -f "$open" Version)
  debs=$(kept "$top/scripts/inputs.sh" {libcuda1,libnvidia-ml1,nvidia-smi,firmware-nvidia-gsp}="$driver")
  driver=${driver%%-*} run=NVIDIA-Linux-x86_64-$driver.run
  for deb in $open $debs; do dpkg-deb -x "$deb" "$work/debs"; done
  mkdir -p "$tree/firmware"
  tar -xf "$work"/debs/usr/src/nvidia-open-kernel.tar.xz -C "$tree"
  mv "$tree"/modules/nvidia-open-kernel "$tree/kernel-open"
  cp "$work/debs/lib/firmware/nvidia/$driver"/* "$tree/firmware"
  cp "$work"/debs/usr/lib/x86_64-linux-gnu/nvidia/current/lib* "$work/debs/usr/lib/nvidia/current/nvidia-smi" "$tree"
  cp "$work/debs/usr/share/doc/libcuda1/copyright" "$tree/LICENSE"
  cd "$tree" || return
  {
    printf '%s\n' "NVIDIA Accelerated Graphics Driver for Linux-x86_64" "$driver" 1 2 3 4 5 6
    echo "LICENSE 0644 DOCUMENTATION NVIDIA_GLX-1.0 MODULE:installer"
    echo "nvidia-smi 0755 UTILITY_BINARY MODULE:opengl"
    for name in libcuda libnvidia-ml; do
      echo "$name.so.$driver 0755 CUDA_LIB NATIVE ./ MODULE:opengl"
      echo "$name.so.1 0000 CUDA_SYMLINK NATIVE ./ $name.so.$driver MODULE:opengl"
    done
    printf '%s 0644 FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp\n' firmware/*
    find kernel-open -type f -printf '%p 0644 KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:resman\n'
  } >.manifest
  makeself --nox11 --quiet --complevel 1 . "$work/$run" "NVIDIA's driver" true >/dev/null
}
checkout() { # as the user has it, with the .run in it
  mkdir "$work/kmodsmith"
  git -C "$top" ls-files -z --cached --others --exclude-standard | tar -C "$top" --null -T - --ignore-failed-read -c | tar -x -C "$work/kmodsmith"
  ln "$work/$run" "$work/kmodsmith/$run"
}
desk() { # the user's: what is in reach, and what would be there without saying so where registries have public certificates
  mkdir -p "$work/bin" "$work/installed"
  ln -s "$HELM" "$work/bin/helm"
  sed 's/, namespace: default//' "$KUBECONFIG" >"$work/kubeconfig"
  export KUBECONFIG=$work/kubeconfig DESTDIR=$work/installed PATH=$work/bin:$work/installed/usr/local/bin:$PATH
  export SSL_CERT_FILE=$CA KMODSMITH_CA=$CA KMODSMITH_CACHE=$own_cache
}
types() { # LINE: a command, or several that && connects, in the checkout; sets typed
  local begun=$SECONDS words=${1%%  *#*}
  typed=$(awk -F ' && ' '{ print NF }' <<<"$words")
  (cd "$work/kmodsmith" && bash -euo pipefail -c "$words") >"$work/log" 2>&1 3>&- 4>&- || batslib_decorate "$words" <"$work/log" | fail
  printf '# %4d s  %s\n' $((SECONDS - begun)) "$words" >&3
}
follows() { # PAGE NAME [SED-SCRIPT]: the commands below that mark of the page, with this registry and driver; adds to count
  local line lines
  mapfile -t lines < <(awk -v mark="<!-- test: $2 -->" '$0 == mark { on = 1; next } on && !/^    / { exit } on { print substr($0, 5) }' \
    "$top/$1.md" | sed -E ':a; /\\$/ { N; s/\\\n *//; ta }' |
    sed -E "s#registry\.example/drivers#$HUB_TLS/drivers#g; s#[0-9]{3}\.[0-9]+\.[0-9]{2}#$driver#g; ${3-}")
  assert [ "${#lines[@]}" -gt 0 ]
  for line in "${lines[@]}"; do
    types "$line"
    count=$((count + typed))
  done
}
values() { # VERSION: what the user writes down for helm, with the policy of rollouts.md; without its windows, in which nothing would happen now
  {
    printf 'mode: rollout\nenv: {KMODSMITH_EXPORT: none}\npolicy:\n'
    awk '$0 == "<!-- test: policy -->" { on = 1; next } on && !/^    / { exit } on { print substr($0, 3) }' "$top/docs/rollouts.md" |
      sed -E "s#[0-9]{3}\.[0-9]+\.[0-9]{2}#$1#; s#10%#100%#; s#soak: 1h#soak: 1s#; /windows:/d; /days:/d"
  } >"$work/kmodsmith/values.yaml"
}
packages() { # VERSION...: as a compile for the nodes' kernel makes them
  local version
  loadable
  for version; do
    layout "$BATS_TEST_TMPDIR/package" "$(<"$ROOT/proc/sys/kernel/osrelease")" --driver "$version"
    "$KMODSMITH" push "oci:$BATS_TEST_TMPDIR/package" "oci:$work/kmodsmith/packages" >/dev/null
  done
}
machines() { # the nodes, and who stands in for their kubelets
  local node
  tiny_firmware "$driver"
  tiny_firmware "$next"
  mv "$ROOT/proc/driver/nvidia/version" "$BATS_TEST_TMPDIR/version" # see agent.bash: what is loaded, and what the next load brings
  ln -s ../../../sys/module/nvidia/../../version "$ROOT/proc/driver/nvidia/version"
  mkdir -p "$ROOT/old/module" "$work/machines"
  for node in $nodes; do
    cp -a "$ROOT" "$work/machines/$node"
    cat /proc/sys/kernel/random/uuid >"$work/machines/$node/proc/sys/kernel/random/boot_id"
    kube POST /api/v1/nodes "{\"metadata\": {\"name\": \"$node\", \"labels\": {\"kubernetes.io/hostname\": \"$node\", \"nvidia.com/gpu.present\": \"true\"}}}" >/dev/null
  done
  SERVERS=$SERVERS python3 "$top/tests/cluster/kubelet.py" "$work" >"$work/kubelet.log" 2>&1 3>&- 4>&- &
  kubelet=$!
}
machines_load() { local node; for node in $nodes; do ROOT=$work/machines/$node loads "$1"; done; } # VERSION: what the next load brings
loaded() { sed -nE 's/^NVRM.*  ([0-9.]+)  .*/\1/p' "$work"/machines/*/proc/driver/nvidia/version | paste -sd' '; }
show_logs() { tail -n 25 "$work/kubelet.log" "$work"/logs/*[a-z0-9] >&2; kube GET /api/v1/nodes | jq -c '.items[].metadata | .labels, .annotations' >&2; }
have() { # VERSION COUNT: so many nodes are done with that driver
  kube GET /api/v1/nodes | jq -e --arg version " $1 " --argjson count "$2" '[.items[].metadata | select(.labels["kmodsmith.io/state"] == "done" and
    (.annotations["kmodsmith.io/agent.loaded"] | contains($version)))] | length == $count'
}
leader() { # sets url to that of the coordinator that leads
  local file
  for file in "$work"/ports/kmodsmith-coordinator-*; do
    url=http://127.0.0.1:$(<"$file")
    ! curl -sf "$url/metrics" | grep -q '^kmodsmith_leader 1' || return 0
  done
  return 1
}
reports() { # what agents, Nodes and metrics say after the first rollout
  local file
  assert_equal "$(loaded)" "$driver $driver $driver"
  until_so 120 told_ready
  until_so 120 daemonset_ready
  for file in "$work"/ports/kmodsmith-agent-*; do
    run curl -sS "http://127.0.0.1:$(<"$file")/metrics"
    assert_line --regexp '^kmodsmith_ready(\{.*\})? 1$'
  done
  until_so 120 leader
  run curl -sS "$url/metrics"
  assert_output --partial kmodsmith_policy_accepted
}
told_ready() {
  kube GET /api/v1/nodes | jq -e '[.items[].status.conditions[] | select(.type == "NvidiaDriverReady" and .status == "True" and .reason == "DriverReady")] | length == 3'
}
daemonset_ready() { kube GET /apis/apps/v1/namespaces/kmodsmith/daemonsets/kmodsmith-agent | jq -e '.status.numberReady == 3'; }
waits() { kubectl kmodsmith status | grep -q 'wave-approval main'; }
@test "from a .run to a rollout, with the commands of README and the pages alone" {
  local begun=$SECONDS driver run next typed promised url
  run_file
  checkout
  desk
  next=${driver%.*}.99
  assert_equal "$(curl -sS --cacert "$CA" "https://$HUB_TLS/v2/_catalog" | jq -c .repositories)" "[]"
  echo "# section 1: images" >&3
  follows README images
  run curl -sS --cacert "$CA" "https://$HUB_TLS/v2/drivers/kmodsmith-driver/tags/list"
  assert_json '.tags | map(select(startswith("sha256-") | not)) | join(" ")' "$driver" # beside what is attached to it
  promised=$count
  echo "# a rollout's images, packages and user space" >&3
  packages "$driver" "$next"
  tiny_payload "$BATS_TEST_TMPDIR/payload.tar" "$next"
  follows docs/kubernetes rollout-images
  follows docs/packages sign
  types "kmodsmith pack payload $BATS_TEST_TMPDIR/payload.tar --driver $next --output oci:packages"
  follows docs/packages payload "s#pack payload [^ ]*#pack payload $run#"

  echo "# section 3: deploy" >&3
  machines
  machines_load "$driver"
  values "$driver"
  promised=$((promised - count))
  follows README chart "s#^helm install.*#& -f values.yaml --set-file 'trust.keys.site\\\\.pem=site.pem'#"
  promised=$((promised + count))
  assert_equal "$promised" 7
  grep -qF 'it takes the seven commands of sections 1 and 3' "$top/docs/kubernetes.md"
  echo "# $promised commands that the page promises, $count with those of a rollout; $((SECONDS - begun)) s" >&3
  until_so 300 have "$driver" 3 # where no driver is loaded, nobody is disturbed, and no wave waits
  reports

  echo "# another driver: docs/rollouts.md" >&3
  machines_load "$next"
  values "$next"
  types 'helm upgrade kmodsmith deploy/helm/kmodsmith -n kmodsmith --reuse-values -f values.yaml'
  until_so 300 have "$next" 1
  until_so 120 waits
  types 'kubectl kmodsmith approve gpus main'
  types 'kubectl kmodsmith status --watch --timeout 300'
  until_so 120 have "$next" 3
  assert_equal "$(loaded)" "$next $next $next"
  assert_equal "$(kube GET /api/v1/nodes | jq '[.items[] | select(.spec.unschedulable)] | length')" 0
  echo "# $((SECONDS - begun)) s from the checkout to the second driver on all nodes" >&3
}
