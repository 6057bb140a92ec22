#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a driver and a cluster to all that its nodes need: headers, packages, user space, builder, the core of NVIDIA's open
# source release where --source is one, and the driver image
# under every tag that the GPU Operator asks for, signed and pushed, and the files to deploy them with. The plan is shown
# first; run again, it compiles and packs only what is new. Needs `make all static`.
#   deploy/publish.sh --driver VERSION --repository docker://HOST/NAME --key FILE
#       (--nodes FILE | --kernels RELEASE,... --os TAG,...) [--headers DIR] [--source PATH] [--output DIR]
#       [--yes|--dry-run] FILE...
# FILE...: NVIDIA's .run, or packages with user space (scripts/images.sh driver). --source: what is compiled, default: the
# first FILE. --nodes: of `kubectl get nodes -o json`; what they run, as node-feature-discovery labels them. --headers:
# DIR/RELEASE has the header packages of a kernel; those of others are this machine's. --key: a PEM file that signs.
# --output (build/publish) keeps the packages between runs; the files to deploy come there, too: values.yaml for the
# operator's chart, trust.yaml.
set -euo pipefail
top=$(realpath "$(dirname "$0")/..")
export LC_ALL=C.UTF-8
kmodsmith=build/release/kmodsmith images=${IMAGES_OUT:-build/images}

fail() {
  echo "publish: $*" >&2
  exit 1
}
usage() { fail "$* (the beginning of deploy/publish.sh has the options)"; }
driver='' repository='' key='' nodes='' kernels='' systems='' headers='' source='' output=$top/build/publish answer=''
files=() transport=()
while [ $# -gt 0 ]; do
  case $1 in
  --driver) driver=${2-} ;;
  --repository) repository=${2-} ;;
  --key) key=${2-} ;;
  --nodes) nodes=${2-} ;;
  --kernels) kernels=${2-} ;;
  --os) systems=${2-} ;;
  --headers) headers=${2-} ;;
  --source) source=${2-} ;;
  --output) output=${2-} ;;
  --yes) answer=yes && shift && continue ;;
  --dry-run) answer=no && shift && continue ;;
  -*) usage "there is no option '$1'" ;;
  *) break ;;
  esac
  [ -n "${2-}" ] || usage "$1 needs a value"
  shift 2
done
for path in key nodes headers source output; do
  [ -z "${!path}" ] || printf -v "$path" %s "$(realpath -m "${!path}")"
done
[[ $driver =~ ^[0-9]+(\.[0-9]+){1,2}$ ]] || usage "--driver '$driver' is not a version"
[[ $repository =~ ^docker(\+http)?://[^/@]+/[^@]+$ ]] || usage "--repository '$repository' is not docker://HOST/NAME"
[ -f "$key" ] || usage "--key '$key' is no file"
[ $# -gt 0 ] || usage "no FILE with the driver"
for file in "$@"; do
  [ -f "$file" ] || fail "there is no file '$file'"
  files+=("$(realpath "$file")")
done
[ -z "$nodes" ] || [ -z "$kernels$systems" ] || usage "--nodes says what --kernels and --os say"
source=${source:-${files[0]}} place=${repository#*://} layout=$output/packages
[[ $repository != docker+http:* ]] || transport=(--plain-http)
[ -x "$top/$kmodsmith" ] || fail "there is no $kmodsmith; run: make all static"
mkdir -p "$output"
cd "$top"

# What the nodes run: those with a GPU, if any says so.
if [ -n "$nodes" ]; then
  jq -r '[.items[] | select(.status.nodeInfo.architecture == "amd64")] |
    (map(select(.metadata.labels["nvidia.com/gpu.present"] == "true")) | if . == [] then null else . end) // . | .[] |
    .metadata.labels as $l | "feature.node.kubernetes.io/system-os_release." as $os |
    [.metadata.name, .status.nodeInfo.kernelVersion, ($l[$os + "ID"] // "-") + ($l[$os + "VERSION_ID"] // "")] | @tsv' \
    "$nodes" >"$output/nodes" || fail "'$nodes' is not the output of kubectl get nodes -o json"
  while IFS=$'\t' read -r name kernel system; do
    [ "$system" != - ] || fail "node $name has no labels of node-feature-discovery; the operator needs them. Or use --kernels, --os"
    kernels+=,$kernel systems+=,$system
  done <"$output/nodes"
fi
mapfile -t kernels < <(tr , '\n' <<<"$kernels" | sed '/^$/d' | sort -u)
systems=$(tr , '\n' <<<"$systems" | sed '/^$/d' | sort -u | paste -sd,)
if [ ${#kernels[@]} -eq 0 ] || [ -z "$systems" ]; then usage "no kernel or no system: --nodes FILE, or --kernels and --os"; fi
tags=$(scripts/images.sh tags --driver "$driver" --os "$systems" --kernel "$(IFS=, && echo "${kernels[*]}")")

# The matrix, with the headers of each kernel as files.
headers_of() { # RELEASE: absolute paths
  [ -z "$headers" ] || [ ! -d "$headers/$1" ] ||
    find "$(realpath "$headers/$1")" -maxdepth 1 -type f \( -name '*.deb' -o -name '*.rpm' -o -name '*.tar*' \) | sort
}
for kernel in "${kernels[@]}"; do
  [[ $kernel =~ ^[A-Za-z0-9][A-Za-z0-9._+~-]*$ ]] || fail "'$kernel' is no kernel release"
  headers_of "$kernel" |
    jq -Rn --arg kernel "$kernel" '{release: $kernel} + ([inputs] | if . == [] then {} else {headers: .} end)'
done | jq -s --arg source "$source" '{drivers: [{source: $source}], kernels: .}' >"$output/matrix.json"
build() { # OPTION...
  "$kmodsmith" build -q --matrix "$output/matrix.json" --output "oci:$layout" --state-dir "$output/state" --json "$@"
}
has() { # TAG
  jq -e --arg tag "$1" 'any(.manifests[]; .annotations["org.opencontainers.image.ref.name"] == $tag)' \
    "$layout/index.json" >/dev/null 2>&1
}
# NVIDIA's open source release as published: its core is compiled, once for each compiler.
is_release() {
  if [ -d "$source" ]; then [ -f "$source/src/nvidia/srcs.mk" ]; else grep -q '/src/nvidia/srcs\.mk$' <<<"$(tar -tf "$source" 2>/dev/null)"; fi
}
pack_cores() { # for the compiler of each kernel; one that is packed stays the same bytes
  local kernel packages
  for kernel in "${kernels[@]}"; do
    packages=$(headers_of "$kernel" | paste -sd,)
    "$kmodsmith" pack core -q --source "$source" --kernel "$kernel" ${packages:+--headers "$packages"} --output "oci:$layout" \
      --state-dir "$output/state" >/dev/null || echo "publish: no core with the compiler of $kernel" >&2
  done
}
inputs=$(sha256sum "${files[@]}")
is_packed() { has "payload-$driver-x86_64" && [ "$(cat "$output/payload.inputs" 2>/dev/null)" = "$inputs" ]; }

plan() {
  echo "driver $driver for ${#kernels[@]} kernels and $systems, to $repository"
  for kernel in "${kernels[@]}"; do
    if has "headers-${kernel//+/_}-x86_64"; then
      echo "  there    headers of $kernel"
    elif [ -n "$(headers_of "$kernel")" ]; then
      echo "  pack     headers of $kernel"
    fi
  done
  { build --no-compile --partial 2>/dev/null || true; } | jq -r 'if .pairs then .pairs[] else . end |
    (if .driver then "modules of \(.driver) \(.flavour) for \(.kernel)" else "modules" end) as $what |
    if .result == "there" then "  there    " + $what elif .error.code == "E_NO_PACKAGE" then "  compile  " + $what
    else "  cannot   " + $what + ": " + (.error.text // .why // .result) end'
  if is_release; then echo "  pack     core of $driver, for each compiler of these kernels"; fi
  if is_packed; then echo "  there    user space of $driver"; else echo "  pack     user space of $driver: ${files[*]##*/}"; fi
  echo "  make     builder and driver image, unless they are there"
  echo "  sign     all packages with $key, and the list of them"
  echo "  push     packages, builder, and the image kmodsmith-driver under $(wc -l <<<"$tags") tags:"
  awk '{ print "             " $0 }' <<<"$tags"
  echo "  write    $output/values.yaml, $output/trust.yaml"
}
plan
[ "$answer" != no ] || exit 0
if [ -z "$answer" ]; then
  read -r -p "Do it? [y/N] " answer || true
  [[ $answer = [yY]* ]] || fail "nothing was done"
fi

for kernel in "${kernels[@]}"; do
  packages=$(headers_of "$kernel" | paste -sd,)
  [ -z "$packages" ] || has "headers-${kernel//+/_}-x86_64" ||
    "$kmodsmith" pack headers -q "$packages" --kernel "$kernel" --output "oci:$layout" --state-dir "$output/state"
done
build --partial >"$output/result.json" || fail "no package could be built; $output/result.json says why"
jq -r '.pairs[] | select(.error) | "publish: no modules of \(.driver // .source) for \(.kernel): \(.error.text)"' \
  "$output/result.json" >&2
if is_release; then pack_cores; fi
images/kept.sh runtime
images/kept.sh builder
images/kept.sh driver --driver "$driver" --builder "$repository" "${files[@]}"
if ! is_packed; then
  "$kmodsmith" pack payload -q "${files[@]}" --driver "$driver" --base "$images/runtime/root.tar" --output "oci:$layout" \
    --state-dir "$output/state"
  echo "$inputs" >"$output/payload.inputs"
fi
"$kmodsmith" push -q "oci:$images/builder/asset" "oci:$layout" --state-dir "$output/state" >/dev/null
"$kmodsmith" sign -q "oci:$layout" --key "$key" --catalog >/dev/null
"$kmodsmith" push "oci:$layout" "$repository" --state-dir "$output/state"
scripts/images.sh push "$images/driver/oci.tar" "docker://$place/kmodsmith-driver" --tags - "${transport[@]}" <<<"$tags"

sed "s#docker://registry\.example/drivers#$repository#; s#registry\.example/drivers#$place#
  s#version: \"[0-9.]*\"#version: \"$driver\"#; s#version: \"[0-9.]*-.*\"#version: \"$(head -1 <<<"$tags")\"#" \
  deploy/gpu-operator-values.yaml >"$output/values.yaml"
{
  printf 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kmodsmith-site\n  namespace: gpu-operator\ndata:\n  site.pem: |\n'
  openssl pkey -in "$key" -pubout | sed 's/^/    /'
} >"$output/trust.yaml"
cat <<TEXT
kubectl apply -f $output/trust.yaml
helm upgrade --install gpu-operator nvidia/gpu-operator -n gpu-operator -f $output/values.yaml
TEXT
