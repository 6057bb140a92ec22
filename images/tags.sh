#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Print every tag under which the GPU Operator asks for one driver image, a line each. It appends the node's OS to the
# version, and for precompiled drivers it asks for branch (or version), kernel and OS. The OS is ID and VERSION_ID of the
# node's os-release(5) in one word (ubuntu24.04, sl-micro6.0, opensuse-leap15.6); of rhel, rocky and ol only the major number
# (gpu-operator controllers/state_manager.go, internal/state/nodepool.go, getOSTag).
#   images/tags.sh --driver VERSION --os ubuntu24.04,rhel9 [--kernel RELEASE,...]
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
usage="usage: scripts/images.sh tags --driver VERSION --os TAG,... [--kernel RELEASE,...]"
driver='' systems='' kernels=''
while [ $# -gt 0 ]; do
  case $1 in
  --driver) driver=${2-} ;;
  --os) systems=${2-} ;;
  --kernel) kernels=${2-} ;;
  *) fail "$usage" ;;
  esac
  shift 2 || fail "$usage"
done
[[ $driver =~ ^[0-9]+(\.[0-9]+){1,2}$ ]] || fail "'$driver' is not a driver version; $usage"
[ -n "$systems" ] || fail "$usage"

for system in ${systems//,/ }; do
  [[ $system =~ ^[a-z][a-z0-9._-]*[0-9][a-z0-9._-]*$ ]] ||
    fail "'$system' is no operating system as the operator names them: ubuntu24.04, rhel9, sl-micro6.0"
  [[ ! $system =~ ^(rhel|rocky|ol)[0-9]+\. ]] || system=${system%%.*}
  echo "$driver-$system"
  for kernel in ${kernels//,/ }; do
    for version in "${driver%%.*}" "$driver"; do
      tag=$version-${kernel//+/_}-$system
      [[ $tag =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$ ]] || fail "'$tag' cannot be a tag"
      echo "$tag"
    done
  done
done | awk '!seen[$0]++'
