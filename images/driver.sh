#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The driver image: the runtime, and on it what one driver version has for user space, laid out once and here, not at each
# start. FILEs are what `kmodsmith pack payload` takes: NVIDIA's .run, or packages. Without one: Debian's, of the version
# of its open kernel modules. --builder: a node without a compiler takes the builder's "asset" (builder.sh), by its digest, from
# that repository (docker://HOST/NAME), or with "-" from those that KMODSMITH_FROM names.
#   images/driver.sh [--driver VERSION] [--builder REPOSITORY|-] [FILE...]
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
exact=(firmware-nvidia-gsp libcuda1 libcudadebugger1 libnvcuvid1 libnvidia-cfg1 libnvidia-encode1 libnvidia-ml1
  libnvidia-nvvm4 libnvidia-ptxjitcompiler1 nvidia-cuda-mps nvidia-kernel-source nvidia-opencl-icd
  nvidia-smi)
branch=(nvidia-modprobe nvidia-persistenced) # Debian has them apart from the driver; of another branch they are left out
# What Debian's builds of these name, and /etc/netconfig, which persistenced reads.
others=(libgcc-s1 'libtirpc3|libtirpc3t64' libtirpc-common)
root=$out/driver/root payload=usr/share/kmodsmith/payload

debian() { # [VERSION]: fills driver and files
  local open
  open=$(scripts/inputs.sh nvidia-open-kernel-source)
  driver=$(dpkg-deb -f "$open" Version)
  mapfile -t files < <(echo "$open"; scripts/inputs.sh "${exact[@]/%/=$driver}" "${others[@]}"; scripts/inputs.sh "${branch[@]}" |
    { grep "_${driver%%.*}\." || true; })
  driver=${driver%%-*}
  [ "${1:-$driver}" = "$driver" ] || fail "Debian has $driver here; give the files of $1"
}
links() { # from where the image looks to where the payload has it; what the runtime has itself stays. Fills made
  local directory file
  for directory in usr/bin usr/sbin "usr/lib/$triplet"; do
    for file in "$root/$payload/root/$directory"/*; do
      if [ -d "$file" ] || [ -e "$root/$directory/${file##*/}" ]; then continue; fi
      ln -sr "$file" "$root/$directory/${file##*/}"
      made+=("$directory/${file##*/}")
    done
  done
}
pin() { # REPOSITORY|-: what KMODSMITH_BUILDER says
  local digest
  [[ $1 = - || $1 =~ ^docker(\+http)?://[^@]+/[^@]+$ ]] || fail "--builder '$1' is neither docker://HOST/NAME nor -"
  [ -e "$out/builder/asset/index.json" ] || images/builder.sh >&2
  digest=$(jq -r '.manifests[0].digest' "$out/builder/asset/index.json")
  case $1 in -) echo "$digest" ;; *) echo "$1@$digest" ;; esac
}
driver='' builder='' files=()
while [ $# -gt 1 ]; do
  case $1 in
  --driver) driver=$2 ;;
  --builder) builder=$(pin "$2") ;;
  *) break ;;
  esac
  shift 2
done
if [ $# -gt 0 ]; then
  [ -n "$driver" ] || fail "FILE needs --driver VERSION, its version"
  files=("$@")
else
  debian "$driver"
fi
[ -e "$out/runtime/layer.tar" ] || [ -n "${ROOT_ONLY-}" ] || images/runtime.sh
skeleton "$root"
tar -C "$root" -xpf "$out/runtime/root.tar"
mkdir -p "$root/${payload%/*}"
build/release/kmodsmith pack payload -q "${files[@]}" --driver "$driver" --base "$out/runtime/root.tar" \
  --output "dir:$root/$payload" --state-dir "$out/driver/state"
made=()
links
inputs=()
for file in "${files[@]}"; do inputs+=(--input "$file"); done
epoch=$(<"$out/runtime/root.epoch")
describe driver "$epoch" --base "$(images/base.sh)" --driver "$driver" "${inputs[@]}"
[ -z "${ROOT_ONLY-}" ] || exit 0 # Containerfile makes the image
pack "$root" "$epoch" "$root.tar"
pack "$root" "$epoch" "$out/driver/payload.tar" usr/share/{doc,kmodsmith} "${made[@]}"
images/layer.sh "$out/driver/payload.tar" "$out/driver/layer.tar"
rm -rf "$out/driver/payload.tar" "$out/driver/state"
images/oci.sh driver "$epoch" "$out/driver/oci.tar" "$out/runtime/layer.tar" "$out/driver/layer.tar" "${environment[@]}" \
  "DRIVER_VERSION=$driver" "DRIVER_BRANCH=${driver%%.*}" "KMODSMITH_PAYLOAD=/$payload" ${builder:+"KMODSMITH_BUILDER=$builder"}
