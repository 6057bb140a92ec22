#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetch the real inputs of the tests with apt from the machine's own mirror: Debian kernels, their headers and NVIDIA's
# sources. Nothing is installed on the machine: contrib, non-free and backports exist only in a private apt configuration.
# Versions are asked for, never pinned, because every security update replaces them; tests/inputs.lock says what they were.
#   scripts/inputs.sh           fetch what is missing, then print KEY=VALUE lines; asked for anew every 12 hours
#   scripts/inputs.sh PACKAGE[=VERSION]...   fetch more packages and print the paths of their .debs; VERSION may be the
#                               upstream version alone. NAME|NAME is the first that there is, where a later Debian renamed one
#   scripts/inputs.sh --closure PACKAGE...   these and all that they need on an empty machine: the paths of the .debs
#   scripts/inputs.sh --suite SUITE --closure PACKAGE...   the same from another suite of these mirrors (trixie, sid, ...)
#   scripts/inputs.sh --suite SUITE --kernel KEY RELEASE   one of its kernels, as the lines KEY=RELEASE, KEY_IMAGE, KEY_HEADERS
#   scripts/inputs.sh --matrix  the newest kernel of each series and kind and every driver source that the suites offer, for `scripts/matrix.sh today`:
#                               lines "kernel SUITE RELEASE DEB..." and "source SUITE PACKAGE VERSION DEB"; 1.3 GB the first time
#   scripts/inputs.sh --debian13   Debian 13's kernel, the newest of its backports and the drivers of both, for a run on another Debian:
#                               the lines of K13, K13B, OPEN13, PROPRIETARY13 and TESLA13
#   KMODSMITH_INPUTS_ARCH=arm64 scripts/inputs.sh ...   the packages of another architecture, with lists of their own
#   scripts/inputs.sh --changed what this run uses that differs from tests/inputs.lock; --lock writes that file anew
# K61 is the newest kernel of the series that this Debian came with (6.1; on Debian 13 the key means 6.12), K61B the one before it,
# K61R an older one that refuses modules of K61, K612 the newest 6.12 beside another series. LACKING names the keys that a Debian
# does not have: what needs one of them is skipped.
# Other inputs for a run, beside any other run:
#   KMODSMITH_INPUTS="K61=6.1.0-54 PROPRIETARY=535.309.01"     keys: K61 K61B K61R K612 OPEN PROPRIETARY TESLA535 TESLA470 MODPROBE
# What apt says goes to apt/log in the cache, because it names hosts.
set -euo pipefail
shopt -s inherit_errexit
top=$(cd "$(dirname "$0")/.." && pwd)
cache=${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith}
debs=$cache/debs log=$cache/apt/log
declare -A package_of=([OPEN]=nvidia-open-kernel-source [PROPRIETARY]=nvidia-kernel-source [TESLA535]=nvidia-tesla-535-kernel-source
  [TESLA470]=nvidia-tesla-470-kernel-source [MODPROBE]=nvidia-modprobe)
user_space=(nvidia-smi libnvidia-ml1 libnvidia-cfg1 libcuda1 firmware-nvidia-gsp) # that tests put beside the open modules
# A driver is not loaded when one of these differs, because each imports them: best the one that is compared first.
telling=(module_layout 'module_layout|__pci_register_driver|filp_close|cdev_init')
suites=(bookworm trixie sid experimental) # of --matrix

use_suite() { # NAME [DIR]: from here on apt is asked about this suite; each has lists of its own, so that none outdoes another
  suite=$1 apt=$cache/apt${KMODSMITH_INPUTS_ARCH:+-$KMODSMITH_INPUTS_ARCH}${2:+/$2}
  opts=(-qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$apt/lists"
    -o Dir::Cache="$apt" -o Dir::Cache::pkgcache=pkgcache.bin -o Dir::Cache::srcpkgcache=srcpkgcache.bin -o APT::Sandbox::User=root
    -o Acquire::Retries=2 -o Acquire::http::Timeout=20
    ${KMODSMITH_INPUTS_ARCH:+-o APT::Architecture="$KMODSMITH_INPUTS_ARCH" -o APT::Architectures="$KMODSMITH_INPUTS_ARCH"})
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
}
say() { echo "inputs: $*" >&2; }
die() { say "$*"; exit 1; }
unfetched() { say "$*"; exit 3; }
megabytes() { echo "$((($1 + 999999) / 1000000)) MB"; }
free_bytes() { df --output=avail -B1 "$1" | tail -n 1; } # DIR
is_young() { [ -n "$(find "$1" -mmin "-$2" 2>/dev/null)" ]; } # FILE MINUTES

sources() { # the Debian mirrors of this machine, with more components and the backports of the same release
  local uri s pockets=("" -updates -backports) components="main contrib non-free non-free-firmware"
  case $suite in sid | experimental) pockets=("") ;; esac
  { grep -rhsE "^(deb |URIs:)" /etc/apt/sources.list /etc/apt/sources.list.d --include="*.list" --include="*.sources" || true; } |
    tr ' ' '\n' | { grep -E '^[a-z+]+:/.*debian' || true; } | sort -u | while read -r uri; do
      case $uri in
      *security*) [ ${#pockets[@]} -eq 1 ] || echo "deb $uri $suite-security $components" ;;
      *) for s in "${pockets[@]}"; do echo "deb $uri $suite$s $components"; done ;;
      esac
    done
}
update() { # apt's lists; old ones are better than none
  local free
  free=$(free_bytes "$apt")
  [ "$free" -gt 200000000 ] || die "no room: $apt has $(megabytes "$free") free, apt's lists need 200 MB"
  rm -f "$apt/updated"
  if apt-get "${opts[@]}" -o APT::Update::Error-Mode=any update >>"$log" 2>&1; then
    touch "$apt/updated"
  elif compgen -G "$apt/lists/*_Packages*" >/dev/null; then
    touch "$apt/offline"
    say "the mirror does not answer (see $log); apt's lists of $(date -r "$apt/lists" '+%F %H:%M') are used"
  else
    unfetched "the mirror does not answer (see $log), and nothing was fetched before: kernels, headers and NVIDIA's sources are missing"
  fi
}
refresh() { # the lists, when they are old; a mirror that did not answer is asked again after ten minutes
  sources >"$apt/sources.new"
  [ -s "$apt/sources.new" ] || die "/etc/apt names no Debian mirror"
  if cmp -s "$apt/sources.new" "$apt/sources.list" && { is_young "$apt/updated" 720 || is_young "$apt/offline" 10; }; then return; fi
  mv "$apt/sources.new" "$apt/sources.list"
  update
}
readable() { # what is read in a pipeline must not fail there unseen
  names linux-image- >/dev/null || die "apt cannot read its lists (see $log); $apt has $(megabytes "$(free_bytes "$apt")") free"
}
names() { apt-cache "${opts[@]}" pkgnames "$1" 2>>"$log"; }
versions() { # PACKAGE: all that apt offers: the one that it would take, then from the newest to the oldest
  { apt-cache "${opts[@]}" policy "$1" | sed -n 's/ *Candidate: //p'
    apt-cache "${opts[@]}" madison "$1" | awk -F'|' '{ gsub(/ /, "", $2); print $2 }' | sort -rV; } 2>>"$log" |
    awk '$0 != "(none)" && !seen[$0]++'
}
upstreams() { versions "$1" | sed 's/-[^-]*$//' | sort -ruV; }
exact() { # NAME[|NAME...][=VERSION]: the first name that there is, with the whole version
  local found name=${1%%=*}
  while [[ $name == *"|"* ]] && [ -z "$(versions "${name%%|*}")" ]; do name=${name#*|}; done
  name=${name%%|*}
  [[ $1 == *=* ]] || { echo "$name"; return; }
  found=$(versions "$name" | awk -v v="${1#*=}" '
    !n && ($0 == v || index($0, v "-") == 1 && substr($0, length(v) + 2) !~ /-/) { n = 1; print }')
  [ -n "$found" ] || die "apt offers no $name of version ${1#*=}; it offers: $(versions "$name" | paste -sd' ')"
  echo "$name=$found"
}
is_whole() { # FILE SIZE HASH, as apt knows them
  [ "$(stat -c %s "$1" 2>/dev/null)" = "$2" ] || return 1
  [[ $3 != SHA256:* ]] || sha256sum --check --status <<<"${3#SHA256:}  $1" 2>/dev/null
}
download() { # PACKAGE...: into a folder of its own, so that what is interrupted is never taken for a package
  rm -rf "$debs/new"
  mkdir "$debs/new"
  (cd "$debs/new" && apt-get "${opts[@]}" download "$@" >>"$log" 2>&1)
}
deb() { # NAME[|NAME...][=VERSION]... -> paths
  local asked=() missing=() need=0 free one uris name size hash
  for one; do asked+=("$(exact "$one")"); done
  uris=$(apt-get "${opts[@]}" --print-uris download "${asked[@]}" 2>>"$log") || die "apt offers no $*"
  while read -r _ name size hash; do
    is_whole "$debs/$name" "$size" "$hash" || { missing+=("$name") need=$((need + size)); }
  done <<<"$uris"
  if [ ${#missing[@]} -gt 0 ]; then
    free=$(free_bytes "$debs")
    [ "$free" -gt $((need + 1000000)) ] || die "no room: $debs has $(megabytes "$free") free, ${missing[*]} need $(megabytes "$need")"
    if ! download "${asked[@]}" && ! { is_young "$apt/offline" 10 || ! update || ! download "${asked[@]}"; }; then
      unfetched "cannot be fetched: ${missing[*]} (see $log)"
    fi
    mv "$debs/new"/*.deb "$debs" 2>>"$log" || unfetched "cannot be fetched: ${missing[*]} (see $log)"
    rmdir "$debs/new"
  fi
  while read -r _ name _; do echo "$debs/$name"; done <<<"$uris"
}
closure() { # PACKAGE... -> paths; apt solves for a machine on which nothing is installed
  local empty=(-o Dir::State::status="$apt/nothing" -o APT::Install-Recommends=false -y)
  : >"$apt/nothing"
  mkdir -p "$debs/partial"
  apt-get "${opts[@]}" "${empty[@]}" -o Dir::Cache::archives="$debs" --download-only install "$@" >>"$log" 2>&1 ||
    unfetched "cannot be fetched: $* and what they need (see $log)"
  apt-get "${opts[@]}" "${empty[@]}" --print-uris install "$@" 2>>"$log" | awk -v debs="$debs" '{ print debs "/" $2 }' | sort
}

offered() { # PACKAGE...: "PACKAGE VERSION SUITE" of all that this suite offers; what came by security or updates is the suite's
  apt-cache "${opts[@]}" madison "$@" 2>>"$log" | sed 's/^ *//' | awk -F'[ |]+' '{ sub(/\/.*/, "", $4)
    sub(/-(security|updates)$/, "", $4)
    print $1, $2, $4 }' | sort -u
}
newest_kernels() { # "SUITE RELEASE" of each kind and series (6.12), without the packages that only name another
  local kind
  local -a releases
  for kind in cloud-amd64 amd64 rt-amd64; do
    mapfile -t releases < <(names linux-headers- | sed -nE "s/^linux-headers-([0-9].*)-common\$/linux-headers-\1-$kind/p" | sort |
      comm -12 - <(names linux-headers- | sort))
    [ ${#releases[@]} -eq 0 ] || offered "${releases[@]}" | sort -k3,3 -k2,2V | awk '{ sub(/linux-headers-/, "", $1)
      match($1, /^[0-9]+\.[0-9]+/); last[$3 " " substr($1, 1, RLENGTH)] = $3 " " $1 }
      END { for (s in last) print last[s] }' | sort
  done
}
matrix() { # the lines of --matrix, of each suite
  local from release package version files sets line # SUITE of a line
  for from in "${suites[@]}"; do
    use_suite "$from" "$([ "$from" = "$own" ] || echo "suite-$from")"
    refresh
    readable
    while read -r line release; do
      files=$(headers_of "$release")
      echo "kernel $line $release $files"
    done < <(newest_kernels)
    sets=$(names nvidia- | { grep -E '^nvidia-(open-|tesla-([0-9]+-)?)?kernel-source$' || true; })
    # shellcheck disable=SC2086 # several names
    offered $sets | while read -r package version line; do echo "source $line $package $version $(deb "$package=$version")"; done
  done
}
newest() { # PACKAGE: also in backports, which apt by itself would not take
  local version
  version=$(versions "$1" | sort -rV | sed -n 1p)
  [ -n "$version" ] || die "apt offers no $1 in $suite"
  deb "$1=$version"
}
debian13() { # the lines of --debian13
  local series key release path
  use_suite trixie "$([ "$own" = trixie ] || echo suite-trixie)"
  refresh
  readable
  for series in 'K13 6\.12\.[^-]*\+deb13(\.[0-9]+)?' 'K13B [7-9]\.[^-]*'; do
    key=${series%% *}
    release=$(kernels "${series#* }" | sed -n 1p)
    [ -n "$release" ] || die "apt offers no kernel for $key in $suite, with image and headers"
    kernel "$key" "$release"
  done
  for key in OPEN PROPRIETARY TESLA535; do
    path=$(newest "${package_of[$key]}")
    echo "${key%535}13=$path"
  done
}
asked() { sed -n "s/^$1=//p" <<<"$wanted" | tail -n 1; }
kernels() { # REGEXP: releases of which apt offers the cloud image and its headers, the newest first. Images stay longer.
  comm -12 <(names linux-image- | sed -nE "s/^linux-image-($1-cloud-amd64)\$/\1/p" | sort) \
    <(names linux-headers- | sed -nE "s/^linux-headers-($1-cloud-amd64)\$/\1/p" | sort) | sort -rV
}
pick() { # KEY RELEASES [CHOSEN]: the one that was asked for, or the first, or CHOSEN
  local release
  release=$(asked "$1")
  if [ -z "$release" ]; then
    release=${3-$(sed -n 1p <<<"$2")}
    [ -n "$release" ] || die "apt offers no kernel for $1, with image and headers"
  else
    release=${release%-cloud-amd64}-cloud-amd64
    grep -qxF "$release" <<<"$2" || die "apt offers no $1=$release, with image and headers; it offers: $(paste -sd' ' <<<"$2")"
  fi
  echo "$release"
}
before() { sed "0,/^$1\$/d" <<<"$2"; } # RELEASE RELEASES
crcs() { # RELEASE SYMBOLS: of these symbols
  local file
  file=$(deb "linux-headers-$1")
  dpkg-deb --fsys-tarfile "$file" | tar -xO --wildcards './usr/src/linux-headers-*/Module.symvers' |
    awk -v t="^($2)\$" '$2 ~ t { print $2, $1 }' | sort
}
foreign() { # RELEASE RELEASES: of these the first that refuses modules of RELEASE. The release itself, without security
  # updates, comes first: an older upstream version to compare with.
  local here there release main symbols
  # shellcheck disable=SC2086 # several words
  main=$(printf 'linux-image-%s\n' $2 | xargs apt-cache "${opts[@]}" madison 2>>"$log" | { grep -v security || true; } |
    sed -nE 's/^ *linux-image-([^ ]*) .*[a-z]\/main .*/\1/p' | sort -rV)
  for symbols in "${telling[@]}"; do
    here=$(crcs "$1" "$symbols")
    for release in $main $2; do
      there=$(crcs "$release" "$symbols")
      [ "$here" = "$there" ] || { echo "$release"; return; }
    done
  done
  die "apt offers no kernel of its series whose CRCs differ from those of $1 (K61R); it offers: $(paste -sd' ' <<<"$2")"
}
headers_of() { # RELEASE: the packages that its headers are in
  local need
  need=$(apt-cache "${opts[@]}" depends "linux-headers-$1" | grep -oE 'linux-(kbuild-|headers-.*-common)[^ ]*' | sort -u)
  # shellcheck disable=SC2086 # several names
  deb "linux-headers-$1" $need | paste -sd' '
}
image_of() { # RELEASE: the packages that the kernel and its modules are in; of 7.x linux-image has nothing but scripts and needs three
  # others, and a linux-base that is newer than that of the release
  local parts base=
  parts=$(apt-cache "${opts[@]}" depends "linux-image-$1" | { grep -oE "linux-(binary|modules|base)-${1//+/\\+}" || true; } | sort -u)
  [ -z "$parts" ] || base=linux-base=$(versions linux-base | sort -rV | sed -n 1p)
  # shellcheck disable=SC2086 # several names
  deb "linux-image-$1" $base $parts | paste -sd' '
}
kernel() { # KEY RELEASE: image, headers and what those need
  local image headers
  image=$(image_of "$2")
  headers=$(headers_of "$2")
  case $image in *' '*) image="\"$image\"" ;; esac
  printf '%s=%s\n%s_IMAGE=%s\n%s_HEADERS="%s"\n' "$1" "$2" "$1" "$image" "$1" "$headers"
}
driver() { # the version that the open and the proprietary modules and the user space of the tests have: the newest common one
  local all version package newest=
  for version in $(upstreams "${package_of[OPEN]}"); do
    newest=${newest:-$version} all=yes
    for package in "${package_of[PROPRIETARY]}" "${user_space[@]}"; do
      grep -qxF "$version" <<<"$(upstreams "$package")" || { all= && say "apt offers no $package of version $version any more"; }
    done
    [ -n "$all" ] || continue
    [ "$version" = "$newest" ] || say "the driver is $version, the newest version that is whole, and not $newest"
    echo "$version"
    return
  done
  die "no driver version has all of its packages; of the sources apt offers:" \
    "open $(upstreams "${package_of[OPEN]}" | paste -sd' '), proprietary $(upstreams "${package_of[PROPRIETARY]}" | paste -sd' ')"
}
driver_sources() { # LACKING
  local key version path both
  local -A found=()
  version=$(asked OPEN)
  both=${version:-$(driver)}
  for key in OPEN PROPRIETARY TESLA535 TESLA470 MODPROBE; do
    [[ " $1 " != *" $key "* ]] || continue
    version=$(asked "$key")
    case $key in OPEN | PROPRIETARY) version=${version:-$both} ;; esac
    path=$(deb "${package_of[$key]}${version:+=$version}")
    found[$key]=$(sed -E 's/.*_([0-9.]+)-[^_]*_[^_]*\.deb$/\1/' <<<"$path")
    echo "$key=$path"
  done
  for key in OPEN PROPRIETARY; do # one takes the place of the other
    [ "${found[$key]}" != "${found[TESLA535]}" ] || die "$key and TESLA535 are both ${found[$key]}: the tests need two versions"
  done
}
choose() { # the KEY=VALUE lines
  local line key lacking releases older k61 k61b k61r k612
  while IFS='=' read -r line _; do
    [[ -z $line || -v package_of[$line] || $line =~ ^K61(|B|R|2)$ ]] || die "KMODSMITH_INPUTS: there is no key '$line'; the keys are" \
      "K61 K61B K61R K612 OPEN PROPRIETARY TESLA535 TESLA470 MODPROBE"
  done <<<"$wanted"
  releases=$(kernels '6\.1\.0-[0-9]+')
  if [ -z "$releases" ]; then
    releases=$(kernels '6\.12\.[0-9.]+\+deb13(\.[0-9]+)?')
    lacking=$(for key in K612 TESLA470; do [ -n "$(asked "$key")" ] || echo "$key"; done | paste -sd' ')
    [ -z "$releases" ] || { say "apt offers no 6.1 kernel; those of 6.12 take its place${lacking:+, and there is no $lacking}" && echo "LACKING=\"$lacking\""; }
  fi
  k61=$(pick K61 "$releases")
  k61b=$(pick K61B "$releases" "$(before "$k61" "$releases" | sed -n 1p)")
  older=$(before "$k61b" "$releases")
  [ -z "$(asked K61R)" ] || older=$(pick K61R "$releases")
  k61r=$(foreign "$k61" "$older")
  [[ " ${lacking-} " == *" K612 "* ]] || k612=$(pick K612 "$(kernels '6\.12\.[^-]*')")
  kernel K61 "$k61"
  kernel K61B "$k61b"
  kernel K61R "$k61r"
  [ -z "${k612-}" ] || kernel K612 "$k612"
  driver_sources "${lacking-}"
}
is_complete() { # all of the files that it names are there as they were when it was written
  [ -s "$env" ] && [ -s "$env.files" ] && (cd "$debs" && xargs -d '\n' stat -c '%s %n' < <(cut -d' ' -f2- "$env.files") 2>/dev/null) |
    cmp -s - "$env.files"
}
files_of() { grep -ohE '/[^ /"]+\.deb' "$1" | cut -c2- | sort -u; } # ENV
packages_used() { # KEY NAME VERSION of each package
  local key value file
  while IFS='=' read -r key value; do
    for file in ${value//\"/}; do
      file=${file##*/}
      [[ $file != *.deb ]] || awk -F_ -v k="${key%_*}" '{ gsub(/%3a/, ":", $2); print k, $1, $2 }' <<<"$file"
    done
  done <"$env" | sort
}
changed() { # in words; a package that is named by its release counts as the one of its key
  packages_used | awk 'function id() { shape = $2; sub(/-[0-9]+\.[0-9].*$/, "", shape); return $1 " " shape ($2 ~ /-common$/ ? "-common" : "") }
    /^#/ || NF < 3 { next }
    FNR == NR { was[id()] = $2 " " $3; next }
    was[id()] != $2 " " $3 { print $1 ": " $2 " " $3 ", was " (was[id()] ? was[id()] : "not there") }' "$top/tests/inputs.lock" -
}

wanted=$(tr -s ' \t\n' '\n' <<<"${KMODSMITH_INPUTS-}" | sed '/^$/d' | sort)
env=$cache/inputs${wanted:+-$(sha256sum <<<"$wanted" | cut -c1-12)}.env
own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
use_suite "$own"
mkdir -p "$debs" "$cache/apt"
exec 9>"$cache/inputs.lock"
flock -w 10 9 || { say "another run fetches inputs; this one waits" && flock 9; }
[ "$(stat -c %s "$log" 2>/dev/null || echo 0)" -lt 1000000 ] || rm "$log"
if [ "${1-}" = --suite ]; then
  [ $# -gt 2 ] || die "--suite SUITE needs what to fetch"
  use_suite "$2" "suite-$2"
  shift 2
fi
case ${1-} in
--matrix) matrix; exit ;;
--debian13) debian13; exit ;;
--closure) refresh; readable; closure "${@:2}"; exit ;;
--kernel) refresh; readable; kernel "${@:2}"; exit ;;
--lock) [ -z "$wanted" ] || die "KMODSMITH_INPUTS is set: tests/inputs.lock says what apt offers" ;;
--changed | "") ;;
-*) die "there is no option '$1'" ;;
*) refresh; readable; deb "$@"; exit ;;
esac
if ! is_young "$env" 720 || ! is_complete; then
  [ -s "$cache/inputs.env" ] || say "kernels, headers and NVIDIA sources into $debs (about 350 MB the first time)"
  set +e # not in a condition, where `set -e` would not hold
  (set -e; refresh; readable; choose >"$env.new"; cd "$debs"; files_of "$env.new" | xargs -d '\n' stat -c '%s %n' >"$env.new.files")
  status=$?
  set -e
  if [ $status -eq 0 ]; then
    mv "$env.new.files" "$env.files" && mv "$env.new" "$env"
  else
    rm -f "$env.new" "$env.new.files"
    if [ $status -ne 3 ] || ! is_complete; then exit 1; fi
    say "the inputs of $(date -r "$env" '+%F %H:%M') are used"
  fi
fi
case ${1-} in
--changed) changed ;;
--lock)
  { echo "# SPDX-License-Identifier: Apache-2.0"
    echo "# The packages from apt that the checks last passed with: key of scripts/inputs.sh, name, version. Nothing is pinned by it: a run"
    echo "# says where its inputs differ. When the checks have passed with newer ones: scripts/inputs.sh --lock"
    packages_used; } >"$top/tests/inputs.lock.new"
  mv "$top/tests/inputs.lock.new" "$top/tests/inputs.lock"
  ;;
*) cat "$env" ;;
esac
