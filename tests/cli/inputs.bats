#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# made up: what a mirror offers.
# scripts/inputs.sh with an apt of our own, which reads a table: what is chosen, what is refused, and what becomes of an input
# that is damaged, of a mirror that does not answer and of a driver that lost a package.
# shellcheck disable=SC2154 # bats and helper.bash set status, output, stderr and top
load helper

setup() {
  tree=$BATS_TEST_TMPDIR/tree
  export MIRROR=$BATS_TEST_TMPDIR/mirror KMODSMITH_CACHE=$BATS_TEST_TMPDIR/cache PATH=$BATS_TEST_TMPDIR/bin:$PATH
  cp -r "$BATS_FILE_TMPDIR/made"/. "$BATS_TEST_TMPDIR"
}
setup_file() { # a copy of the scripts, a mirror and an apt, for each test to have its own
  local n BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR/made
  local tree=$BATS_TEST_TMPDIR/tree MIRROR=$BATS_TEST_TMPDIR/mirror
  mkdir -p "$tree/tests" "$MIRROR" "$BATS_TEST_TMPDIR/bin"
  cp -r "$top/scripts" "$tree/scripts"
  for n in 7:aa 6:aa 5:bb 3:cc; do offer_kernel "6.1.0-${n%:*}" "6.1.${n%:*}-1" "${n#*:}"; done
  echo "linux-image-6.1.0-4-cloud-amd64 6.1.4-1 bookworm/main" >>"$MIRROR/offers" # its headers are gone
  offer_kernel 6.12.9+deb12 6.12.9-1 dd
  offer linux-kbuild-6.1 6.1.7-1
  for n in nvidia-open-kernel-source nvidia-kernel-source nvidia-smi libnvidia-ml1 libnvidia-cfg1 libcuda1 firmware-nvidia-gsp; do
    offer $n 535.20.02-1
    offer $n 535.10.01-1
  done
  offer nvidia-tesla-535-kernel-source 535.5.05-1
  offer nvidia-tesla-470-kernel-source 470.1.01-1
  offer nvidia-modprobe 535.30.03-1
  program apt-cache <<'END'
case $verb in
pkgnames) cut -d' ' -f1 "$MIRROR/offers" | grep "^$1" | sort -u ;;
policy) awk -v p="$1" '$1 == p { print "  Candidate: " $2; exit }' "$MIRROR/offers" ;;
madison) for p; do awk -v p="$p" '$1 == p { print " " p " | " $2 " | http://mirror.example/debian " $3 " amd64 Packages" }' "$MIRROR/offers"; done ;;
depends) case $1 in linux-headers-*) printf '  Depends: %s\n' "${1%-cloud-amd64}-common" linux-kbuild-6.1 ;;
  linux-image-7*) printf '  Depends: %s\n' linux-{base,modules}-"${1#linux-image-}" ;; esac ;;
esac
END
  program apt-get <<'END'
case $verb in
update) [ ! -e "$MIRROR/offline" ] && touch "$lists/mirror_Packages" ;;
download)
  for p; do
    v=$(awk -v p="${p%%=*}" '$1 == p { print $2; exit }' "$MIRROR/offers")
    [ "$v" ] || { echo "E: no $p at http://mirror.example" >&2; exit 100; }
    case $p in *=*) v=${p#*=} ;; esac
    name=${p%%=*}_${v}_all.deb
    [ -e "$MIRROR/$name" ] || echo "${p%%=*} $v" >"$MIRROR/$name"
    if [ "$uris" ]; then
      echo "'http://mirror.example/$name' $name $(stat -c %s "$MIRROR/$name") SHA256:$(sha256sum <"$MIRROR/$name" | cut -d' ' -f1)"
    else
      [ ! -e "$MIRROR/offline" ] || { echo "E: http://mirror.example does not answer" >&2; exit 100; }
      cp "$MIRROR/$name" . && echo "$name" >>"$MIRROR/fetched"
    fi
  done ;;
esac
END
}
program() { # NAME: the text from standard input, after the options are read
  {
    cat <<'END'
#!/bin/bash
uris=
while :; do
  case $1 in
  -o) case $2 in Dir::State::Lists=*) lists=${2#*=} ;; esac; shift 2 ;;
  --print-uris) uris=yes; shift ;;
  -*) shift ;;
  *) break ;;
  esac
done
verb=$1; shift
END
    cat
  } >"$BATS_TEST_TMPDIR/bin/$1"
  chmod +x "$BATS_TEST_TMPDIR/bin/$1"
}
offer() { echo "$1 $2 bookworm/main" >>"$MIRROR/offers"; } # PACKAGE VERSION
offer_kernel() { # RELEASE VERSION CRC: the CRC is what its Module.symvers says
  local dir=$BATS_TEST_TMPDIR/deb name=linux-headers-$1-cloud-amd64
  rm -rf "$dir" && mkdir -p "$dir/DEBIAN" "$dir/usr/src/$name"
  printf '0x%s\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n' "$3" >"$dir/usr/src/$name/Module.symvers"
  printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: nobody\nDescription: made up\n' "$name" "$2" >"$dir/DEBIAN/control"
  dpkg-deb --build "$dir" "$MIRROR/${name}_$2_all.deb" >/dev/null
  offer "$name" "$2"
  offer "linux-image-$1-cloud-amd64" "$2"
  offer "linux-headers-$1-common" "$2"
}
withdraw() { sed -i "/^$1 $2/d" "$MIRROR/offers"; } # PACKAGE VERSION: regular expressions
inputs() { run --separate-stderr "$tree/scripts/inputs.sh" "$@"; }
value() { sed -n "s/^$1=//p" <<<"$output"; }
version() { sed -nE "s/^$1=.*_(.*)_all\.deb$/\1/p" <<<"$output"; }
grow_old() { touch -d '2 days ago' "$KMODSMITH_CACHE"/inputs*.env "$KMODSMITH_CACHE/apt/updated"; }

@test "chooses the newest kernels with headers, an older one that refuses their modules, and one driver version" {
  inputs
  assert_success
  assert_equal "$(value K61) $(value K61B) $(value K61R) $(value K612)" \
    "6.1.0-7-cloud-amd64 6.1.0-6-cloud-amd64 6.1.0-5-cloud-amd64 6.12.9+deb12-cloud-amd64"
  assert_equal "$(version OPEN) $(version PROPRIETARY) $(version TESLA535) $(version MODPROBE)" "535.20.02-1 535.20.02-1 535.5.05-1 535.30.03-1"
  rm "$MIRROR/fetched"
  inputs
  assert_equal "$(value K61)" 6.1.0-7-cloud-amd64
  [ ! -e "$MIRROR/fetched" ]
}
@test "KMODSMITH_INPUTS names other inputs, kept beside the usual ones" {
  local usual
  inputs
  usual=$output
  KMODSMITH_INPUTS="K61=6.1.0-6 PROPRIETARY=535.10.01" inputs
  assert_equal "$(value K61) $(value K61B) $(value K61R)" "6.1.0-6-cloud-amd64 6.1.0-5-cloud-amd64 6.1.0-3-cloud-amd64"
  assert_equal "$(version OPEN) $(version PROPRIETARY)" "535.20.02-1 535.10.01-1"
  inputs
  assert_equal "$output" "$usual"
}
@test "NAME|NAME: the first that this Debian has, also with a version" {
  offer libnew1t64 1.2-3
  inputs 'libnew1|libnew1t64' 'libcuda1|nothing=535.10.01'
  assert_success
  assert_equal "$(xargs -n1 basename <<<"$output" | paste -sd' ')" "libnew1t64_1.2-3_all.deb libcuda1_535.10.01-1_all.deb"
  inputs 'none|nothing=1'
  assert_failure
  assert_regex "$stderr" 'offers no nothing of version 1'
}
@test "--debian13: its kernel, the newest of its backports, and the drivers of both" {
  offer_kernel 6.12.9+deb13 6.12.9-1 aa
  offer_kernel 7.2.1+deb13 7.2.1-1~bpo13+1 aa
  offer_kernel 7.3.4+deb13 7.3.4-1~bpo13+1 aa
  offer nvidia-kernel-source 550.1.02-4~bpo13+1
  for part in linux-{base,modules}-7.3.4+deb13-cloud-amd64; do offer "$part" 7.3.4-1~bpo13+1; done
  offer linux-base 4.1
  offer linux-base 4.17~bpo13+1
  inputs --debian13
  assert_success
  assert_equal "$(value K13B_IMAGE | tr -d '"' | xargs -n1 basename | sed 's/_.*_/_/' | paste -sd' ')" "$(printf '%s_all.deb\n' \
    linux-image-7.3.4+deb13-cloud-amd64 linux-base linux-{base,modules}-7.3.4+deb13-cloud-amd64 | paste -sd' ')"
  assert_regex "$(value K13B_IMAGE)" 'linux-base_4\.17~' # its scripts need one newer than the release has
  assert_regex "$(value K13_IMAGE)" '^[^ ]*/linux-image-6[^ ]*$'
  assert_equal "$(value K13) $(value K13B)" "6.12.9+deb13-cloud-amd64 7.3.4+deb13-cloud-amd64"
  assert_equal "$(version OPEN13) $(version PROPRIETARY13) $(version TESLA13)" "535.20.02-1 550.1.02-4~bpo13+1 535.5.05-1"
  withdraw 'linux-headers-7[^ ]*'
  inputs --debian13
  assert_failure
  assert_regex "$stderr" 'no kernel for K13B in trixie'
  withdraw 'nvidia-tesla-535[^ ]*'
  offer_kernel 7.3.4+deb13 7.3.4-1~bpo13+1 aa
  inputs --debian13
  assert_failure
  assert_regex "$stderr" 'no nvidia-tesla-535-kernel-source in trixie'
}
@test "a Debian of one series of kernels: the newest of it, and the keys that it does not have are named" {
  withdraw 'linux-[^ ]*' && withdraw 'nvidia-tesla-470[^ ]*'
  offer_kernel 6.12.9+deb13 6.12.9-1 aa
  offer_kernel 6.12.9+deb13.1 6.12.9-2 aa
  offer_kernel 6.12.8+deb13 6.12.8-1 bb
  offer linux-kbuild-6.1 6.12.9-2
  inputs
  assert_success
  assert_equal "$(value K61) $(value K61B) $(value K61R)" \
    "6.12.9+deb13.1-cloud-amd64 6.12.9+deb13-cloud-amd64 6.12.8+deb13-cloud-amd64"
  assert_line 'LACKING="K612 TESLA470"'
  refute_line --regexp '^(K612|TESLA470)'
  [[ $stderr == *"those of 6.12 take its place, and there is no K612 TESLA470"* ]]
  KMODSMITH_INPUTS=K612=6.12.7 inputs
  assert_failure
  [[ $stderr == *"apt offers no K612=6.12.7-cloud-amd64"* ]]
}

@test "unavailable inputs are refused, with a list of what apt offers" {
  while IFS='|' read -r asked text; do
    KMODSMITH_INPUTS=$asked inputs
    assert_failure 1
    assert_equal "$output" ""
    [[ $stderr == *"$text"* ]] || { echo "$asked: $stderr"; false; }
  done <<'END'
K61=6.1.0-4|no K61=6.1.0-4-cloud-amd64, with image and headers; it offers: 6.1.0-7-cloud-amd64 6.1.0-6-cloud-amd64 6.1.0-5
K61=6.1.0-3|no kernel for K61B
K61R=6.1.0-6|no kernel of its series whose CRCs differ from those of 6.1.0-7-cloud-amd64
PROPRIETARY=535.99.09|no nvidia-kernel-source of version 535.99.09; it offers: 535.20.02-1 535.10.01-1
PROPRIETARY=535.5.05|no nvidia-kernel-source
K62=6.2.0-1|there is no key 'K62'; the keys are K61
END
  offer nvidia-kernel-source 535.5.05-1
  KMODSMITH_INPUTS=PROPRIETARY=535.5.05 inputs
  assert_failure 1
  [[ $stderr == *"PROPRIETARY and TESLA535 are both 535.5.05"* ]]
}
@test "a driver version that lost a package is not chosen; if no version is complete, a message says so" {
  withdraw libnvidia-ml1 535.20.02-1
  inputs
  assert_success
  assert_equal "$(version OPEN) $(version PROPRIETARY)" "535.10.01-1 535.10.01-1"
  [[ $stderr == *"apt offers no libnvidia-ml1 of version 535.20.02 any more"*"the driver is 535.10.01"* ]]
  withdraw nvidia-kernel-source 535.10.01-1
  grow_old
  inputs
  assert_failure 1
  [[ $stderr == *"no driver version has all of its packages; of the sources apt offers: open 535.20.02 535.10.01, proprietary 535.20.02"* ]]
}
@test "a truncated or damaged package is fetched again, and half a download is never used" {
  local file
  inputs
  file=$(value OPEN)
  rm "$MIRROR/fetched"
  truncate -s 3 "$file"
  inputs
  assert_equal "$(<"$MIRROR/fetched")" "${file##*/}"
  cmp "$file" "$MIRROR/${file##*/}"
  tr '[:lower:]' '[:upper:]' <"$MIRROR/${file##*/}" >"$file" # of the same size
  inputs nvidia-open-kernel-source=535.20.02
  assert_equal "$output" "$file"
  cmp "$file" "$MIRROR/${file##*/}"
}
@test "offline: the earlier inputs, with their date, or what is missing; and no mirror is named" {
  touch "$MIRROR/offline"
  inputs
  assert_failure 1
  [[ $stderr == *"the mirror does not answer"*"nothing was fetched before: kernels, headers and NVIDIA's sources are missing"* ]]
  rm "$MIRROR/offline"
  inputs
  touch "$MIRROR/offline"
  grow_old
  inputs
  assert_success
  assert_equal "$(value K61)" 6.1.0-7-cloud-amd64
  [[ $stderr == *"apt's lists of "*" are used"* ]]
  offer_kernel 6.1.0-8 6.1.8-1 ee # in the lists, and cannot be fetched
  grow_old
  inputs
  assert_success
  assert_equal "$(value K61)" 6.1.0-7-cloud-amd64
  [[ $stderr == *"cannot be fetched: linux-headers-6.1.0-8"*"the inputs of "*" are used"* ]]
  rm "$(value OPEN)"
  inputs
  assert_failure 1
  [[ $stderr == *"cannot be fetched: "* ]]
  [[ $stderr != *mirror.example* ]]
}
@test "a full disk is reported before anything is fetched" {
  program df <<'END'
printf 'Avail\n%s\n' "$(cat "$MIRROR/free")"
END
  echo 1000000 >"$MIRROR/free"
  inputs
  assert_failure 1
  assert_regex "$stderr" "no room: .*/apt has 1 MB free, apt's lists need 200 MB"
  echo 200000001 >"$MIRROR/free"
  truncate -s 300000000 "$MIRROR/nvidia-open-kernel-source_535.20.02-1_all.deb"
  inputs
  assert_failure 1
  assert_regex "$stderr" "no room: .*/debs has 201 MB free, nvidia-open-kernel-source_535.20.02-1_all.deb need 300 MB"
  run ! grep open-kernel-source "$MIRROR/fetched"
}
@test "the lock: written by one command, silent if nothing changed, one line for each change" {
  inputs --lock
  assert_success
  assert_equal "$(grep -c '^K61 ' "$tree/tests/inputs.lock")" 4
  inputs --changed
  assert_success
  assert_equal "$output" ""
  offer_kernel 6.1.0-8 6.1.8-1 aa
  grow_old
  inputs --changed
  assert_success
  assert_line "K61: linux-image-6.1.0-8-cloud-amd64 6.1.8-1, was linux-image-6.1.0-7-cloud-amd64 6.1.7-1"
  assert_line "K61B: linux-headers-6.1.0-7-common 6.1.7-1, was linux-headers-6.1.0-6-common 6.1.6-1"
  refute_line --partial OPEN
  KMODSMITH_INPUTS=K61=6.1.0-7 inputs --lock
  assert_failure 1
}
