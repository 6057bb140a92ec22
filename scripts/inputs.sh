#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetch the real inputs of the tests with apt from the machine's own mirror: Debian kernels, their headers and NVIDIA's
# sources. Nothing is installed on the machine: contrib, non-free and backports exist only in a private apt configuration.
# Versions are asked for, never pinned, because every security update replaces them.
#   scripts/inputs.sh           fetch what is missing, then print KEY=VALUE lines (also kept in inputs.env)
#   scripts/inputs.sh PACKAGE[=VERSION]...   fetch more packages and print the paths of their .debs
#   scripts/inputs.sh --closure PACKAGE...   these and all that they need on an empty machine: the paths of the .debs
set -euo pipefail
cache=${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith}
apt=$cache/apt debs=$cache/debs env=$cache/inputs.env
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$debs"
exec 9>"$cache/inputs.lock" && flock 9
opts=(-qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$apt/lists"
  -o Dir::Cache="$apt" -o APT::Sandbox::User=root -o Acquire::Retries=3)

sources() { # the Debian mirrors of this machine, with more components and the backports of the same release
  local name uri s components="main contrib non-free non-free-firmware"
  name=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  { grep -rhsE "^(deb |URIs:)" /etc/apt/sources.list /etc/apt/sources.list.d --include="*.list" --include="*.sources" || true; } |
    tr ' ' '\n' | grep -E '^[a-z+]+:/.*debian' | sort -u | while read -r uri; do
      case $uri in
      *security*) echo "deb $uri $name-security $components" ;;
      *) for s in "" -updates -backports; do echo "deb $uri $name$s $components"; done ;;
      esac
    done
}
deb() { # PACKAGE[=VERSION]... -> paths
  local f
  apt-get "${opts[@]}" --print-uris download "$@" | sed -nE "s/^'([^']*)' ([^ ]*) .*/\2/p" >"$apt/wanted"
  while read -r f; do [ -s "$debs/$f" ] || { (cd "$debs" && apt-get "${opts[@]}" download "$@" >&2); break; }; done <"$apt/wanted"
  [ -s "$apt/wanted" ] && sed "s#^#$debs/#" "$apt/wanted"
}
closure() { # PACKAGE... -> paths; apt solves for a machine on which nothing is installed
  local empty=(-o Dir::State::status="$apt/nothing" -o APT::Install-Recommends=false -y)
  : >"$apt/nothing"
  mkdir -p "$debs/partial"
  apt-get "${opts[@]}" "${empty[@]}" -o Dir::Cache::archives="$debs" --download-only install "$@" >&2
  apt-get "${opts[@]}" "${empty[@]}" --print-uris install "$@" | awk -v debs="$debs" '{ print debs "/" $2 }' | sort
}
newest() { # REGEXP N: the Nth newest kernel release whose cloud image apt offers
  apt-cache "${opts[@]}" pkgnames linux-image- | sed -nE "s/^linux-image-($1)-cloud-amd64\$/\1-cloud-amd64/p" | sort -rV | sed -n "$2p"
}
release() { # the newest 6.1 of the release itself, without security updates: an older upstream version to compare with
  apt-cache "${opts[@]}" pkgnames linux-image-6.1.0- | grep -E 'cloud-amd64$' | xargs apt-cache "${opts[@]}" madison |
    sed -nE 's/^ *linux-image-([^ ]*) .*[a-z]\/main .*/\1 &/p' | grep -v security | awk '{print $1}' | sort -rV | head -1
}
kernel() { # KEY RELEASE: image, headers and what those need
  local base=${2%-cloud-amd64} h=()
  h+=("$(deb "linux-headers-$2")" "$(deb "linux-headers-$base-common")")
  h+=("$(deb "$(apt-cache "${opts[@]}" depends "linux-headers-$2" | grep -oE 'linux-kbuild-[^ ]+' | head -1)")")
  printf '%s=%s\n%s_IMAGE=%s\n%s_HEADERS="%s"\n' "$1" "$2" "$1" "$(deb "linux-image-$2")" "$1" "${h[*]}"
}
stale() { [ ! -s "$env" ] || [ -n "$(find "$env" -mmin +720)" ]; }
if stale || [ $# -gt 0 ]; then
  sources >"$apt/sources.new"
  if stale || ! cmp -s "$apt/sources.new" "$apt/sources.list"; then
    mv "$apt/sources.new" "$apt/sources.list"
    apt-get "${opts[@]}" update >&2
  fi
fi
if [ "${1-}" = --closure ]; then closure "${@:2}"; exit; fi
if [ $# -gt 0 ]; then deb "$@"; exit; fi
if stale; then
  echo "inputs: kernels, headers and NVIDIA sources into $debs (about 350 MB the first time)" >&2
  open=$(apt-cache "${opts[@]}" policy nvidia-open-kernel-source | sed -n 's/ *Candidate: //p')
  { kernel K61 "$(newest '6\.1\.0-[0-9]+' 1)"; kernel K61B "$(newest '6\.1\.0-[0-9]+' 2)"; kernel K61R "$(release)"
    kernel K612 "$(newest '6\.12\.[^-]*' 1)"
    echo "OPEN=$(deb nvidia-open-kernel-source)"; echo "PROPRIETARY=$(deb "nvidia-kernel-source=$open")"
    echo "TESLA535=$(deb nvidia-tesla-535-kernel-source)"; echo "TESLA470=$(deb nvidia-tesla-470-kernel-source)"
    echo "MODPROBE=$(deb nvidia-modprobe)"; } >"$env.new"
  mv "$env.new" "$env"
fi
cat "$env"
