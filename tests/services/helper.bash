# shellcheck shell=bash disable=SC2034,SC2154 # the tests use what is set here; ../cli/helper.bash sets top
# SPDX-License-Identifier: Apache-2.0
# What every file of this tier loads: the helpers of the command line tests, the servers, and packages made without us.
load ../cli/helper
load ../cli/package
load servers
hung=$((4 * hung)) # servers that stall are waited for, several times

DRIVER=535.261.03 KERNEL=6.1.0-56-cloud-amd64
TAG=$DRIVER-open-$KERNEL-x86_64

# A layout with one package; gives the digest of its manifest. --pad BYTES makes it large.
make_layout() { # LAYOUT [OPTION-OF-make_layout.py...]
  local dir=$1 ko=$BATS_FILE_TMPDIR/ko
  shift
  [ -d "$ko.d" ] || tiny_package "$ko" "$KERNEL"
  python3 "$here/make_layout.py" --kernel "$KERNEL" "$@" "$dir" "$ko.d"/*.ko
}
digest_of() { sha256sum | sed 's/^\([0-9a-f]*\).*/sha256:\1/'; }
layer_of() { # LAYOUT DIGEST: of its manifest -> the hexadecimal digest of its one layer
  jq -r '.layers[0].digest[7:]' "$1/blobs/sha256/${2#sha256:}"
}

# The program, as `run` does; one that hangs is ended. What it took is in the file "measure": peak KiB and seconds.
kmodsmith() { # ARGUMENT...
  run --separate-stderr timeout "$hung" "$(type -P time)" -q -f '%M %e' -o "$BATS_TEST_TMPDIR/measure" "$KMODSMITH" "$@"
}
# Deadlines that a server on a busy machine keeps; nothing is signed here.
fetch() { # FROM [OPTION...]: into the store of $state
  kmodsmith fetch --driver "$DRIVER" --flavour open --kernel "$KERNEL" --from "$1" --state-dir "$state" \
    --connect-timeout 10 --stall-timeout 3 --insecure-skip-verify "${@:2}"
}
fresh() { # a state directory that nothing has been in
  state=$(mktemp -d "$BATS_TEST_TMPDIR/state.XXXXXX")
  : >"$BATS_TEST_TMPDIR/measure"
}
blobs_of() { find "$1/blobs" -type f ! -name '.*' -printf '%f\n' 2>/dev/null | sort; } # LAYOUT

assert_layout() { # LAYOUT DIGEST: it has this package, whole
  local blob
  [ "$(jq -r --arg d "$2" '.manifests[] | select(.digest == $d).digest' "$1/index.json")" = "$2" ] ||
    told | batslib_decorate "'$1' does not have $2" | fail
  for blob in "${2#*:}" $(jq -r '.config.digest[7:], .layers[].digest[7:]' "$1/blobs/sha256/${2#*:}"); do
    assert_equal "$(digest_of <"$1/blobs/sha256/$blob")" "sha256:$blob"
  done
}
assert_fetched() { # DIGEST: the last fetch brought this package into the store of $state, in bounded memory
  assert_status 0
  assert_layout "$state/store" "$1"
  assert_small
}
assert_small() { # the last run stayed below 32 MiB; AddressSanitizer needs more than the program
  local kib
  ! grep -q __asan_init "$KMODSMITH" || return 0
  read -r kib _ <"$BATS_TEST_TMPDIR/measure"
  [ "$kib" -lt 32768 ] || told | batslib_decorate "it took $kib KiB" | fail
}
assert_quick() { # the last run did not hang: that is all, a busy machine takes long
  awk -v most="$hung" '{ exit !($2 < most) }' "$BATS_TEST_TMPDIR/measure" ||
    told | batslib_decorate "it took $(<"$BATS_TEST_TMPDIR/measure") (KiB, seconds)" | fail
}
assert_refused() { # CODE [TEXT]: the last fetch failed with CODE, in bounded time and memory, and left nothing
  assert_error "$@"
  assert_small
  assert_quick
  assert_equal "$(blobs_of "$state/store")" ""
  assert_equal "$(jq -c .manifests "$state/store/index.json" 2>/dev/null || echo '[]')" '[]'
  [ ! -e "$state/store" ] || run -0 "$KMODSMITH" store verify --state-dir "$state"
}
