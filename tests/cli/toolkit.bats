#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Both sides of a hand-over to the driver toolkit, as two containers have it: ours, and a foreign root with a compiler and
# headers but none of our libraries, where the statically linked program that we left in the shared directory runs. The
# compiler is made up (package.bash); sandbox, proof, packages and loads on a recorded machine are not.
# shellcheck disable=SC2034,SC2154,SC2030,SC2031,SC2016 # bats and helper.bash set stderr, top and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64
static=${static_program:-$top/build/release/kmodsmith-static}
setup_file() { # a runner makes it for all, and names it; make knows whether there is anything to do
  [ -n "$static_program" ] || make_in release static
}
setup() {
  needs_mounts
  log=$BATS_TEST_TMPDIR/driver.log # shown where something does not come
  shared=$BATS_TEST_TMPDIR/shared foreign=$BATS_TEST_TMPDIR/foreign source=$BATS_TEST_TMPDIR/driver
  driver_log=$BATS_TEST_TMPDIR/driver.log toolkit_log=$BATS_TEST_TMPDIR/toolkit.log
  mkdir "$shared"
  loadable
  tiny_source "$source"
  touch "$source/kernel-open/nvidia/nvidia.Kbuild"
  foreign_root
  export KMODSMITH_DTK_SHARED=$shared KMODSMITH_STATIC=$static KMODSMITH_DTK_TIMEOUT=$hung
}
teardown() {
  local side
  for side in ${driver-} ${toolkit-}; do
    if kill -9 "$side"; then wait "$side" || true; fi
  done 2>/dev/null
}

foreign_root() { # Red Hat's layout of headers
  tiny_builder "$BATS_TEST_TMPDIR/builder.tar" 99 "$kernel"
  tiny_headers "$BATS_TEST_TMPDIR/headers.tar" "$kernel"
  built_with 99 "$BATS_TEST_TMPDIR/headers.tar" "$kernel"
  mkdir -p "$foreign"/{dev,proc,tmp,kern,mnt/shared-nvidia-driver-toolkit}
  tar -xf "$BATS_TEST_TMPDIR/builder.tar" -C "$foreign" --exclude=./dev/null
  tar -xf "$BATS_TEST_TMPDIR/headers.tar" -C "$foreign" usr
  mkdir -p "$foreign/usr/lib/modules/$kernel"
  ln -s "/usr/src/kernels/$kernel" "$foreign/usr/lib/modules/$kernel/build"
  touch "$foreign/usr/lib/modules/$kernel/vmlinuz"
  cp -a "$ROOT/proc" "$foreign/kern" # the kernel that both see
}

# As the pod's specification has it: wait for the flag, then become our program.
toolkit_starts() {
  needs_seccomp
  unshare -m --propagation private bash -c '
    mount --rbind "$1" "$1" && mount --bind "$2" "$1/mnt/shared-nvidia-driver-toolkit" && mount --rbind /dev "$1/dev" &&
    mount -t proc proc "$1/proc" || exit
    exec chroot "$1" /usr/bin/busybox env -i PATH=/usr/bin KMODSMITH_ROOT=/kern KMODSMITH_HOST_ROOT=/ /bin/sh -c "
      until [ -f /mnt/shared-nvidia-driver-toolkit/dir_prepared ]; do sleep 0.2; done
      exec /mnt/shared-nvidia-driver-toolkit/ocp_dtk_entrypoint dtk-build-driver"
  ' - "$foreign" "$shared" >>"$toolkit_log" 2>&1 3>&- &
  toolkit=$!
}
driver_starts() {
  ln -sf "$KMODSMITH" "$BATS_TEST_TMPDIR/ocp_dtk_entrypoint"
  "$BATS_TEST_TMPDIR/ocp_dtk_entrypoint" nv-ctr-run-with-dtk --root "$ROOT" --source "$source" --modules nvidia \
    >>"$driver_log" 2>&1 3>&- &
  driver=$!
}
waits_for_the_flag() { [[ $(readlink "/proc/$toolkit/exe") == *busybox ]]; }
ready() { soon grep -q "ready: driver 535.261.03, open" "$driver_log"; }
loads() { calls | grep -E '^(un)?load ' | sed 's/ *$//' | paste -sd';'; }
stop() { kill -9 "$1" && { wait "$1" || true; } 2>/dev/null; }

@test "the toolkit starts first, and stays when it is done" {
  toolkit_starts
  soon waits_for_the_flag
  driver_starts
  ready
  assert_equal "$(loads)" "load nvidia"
  soon grep -q "waiting for a request" "$toolkit_log"
  kill "$toolkit"
  wait "$toolkit"
  toolkit=
  run grep -c "1 object with gcc-99 (made up) 99.1.0" "$toolkit_log"
  assert_output 1
}

@test "the driver starts first; the toolkit's package equals the one that build makes" {
  driver_starts
  soon test -f "$shared/dir_prepared"
  toolkit_starts
  ready
  digest=$(jq -r '.manifests[0].digest' "$shared"/kmodsmith/package.*/index.json)
  run -0 "$KMODSMITH" store ls --root "$ROOT" --json
  assert_output --partial "$digest"
}

@test "either side is killed while it compiles, and restarted" {
  echo 60 >"$foreign/usr/made/slow"
  toolkit_starts
  driver_starts
  soon test -f "$shared/driver_build_started"
  soon grep -q headers "$toolkit_log"
  sleep 1
  stop "$driver"
  driver_starts
  soon grep -q "has started" "$driver_log"
  stop "$toolkit"
  [ ! -e "$shared/driver_built" ]
  rm "$foreign/usr/made/slow"
  toolkit_starts
  ready
  assert_equal "$(loads)" "load nvidia"
  run bash -c "ls -A '$shared/kmodsmith/toolkit/.tmp' '$shared/kmodsmith/.tmp'"
  refute_line --regexp '^[^/]*\.0'
}

@test "both are gone after the build: the next start uses the result, without a compile" {
  toolkit_starts
  driver_starts
  soon test -f "$shared/driver_built"
  stop "$toolkit"
  stop "$driver"
  rm -rf "${ROOT:?}/var" "$ROOT/.sys-calls"
  loadable
  driver_starts
  ready
}

@test "a second driver version is requested during the compile: the first one does not count" {
  echo 25 >"$foreign/usr/made/slow"
  toolkit_starts
  driver_starts
  soon test -f "$shared/driver_build_started"
  first=$(cat "$shared/driver_build_started")
  stop "$driver"
  echo more >>"$source/kernel-open/nvidia/nv.c"
  rm "$foreign/usr/made/slow"
  driver_starts
  ready
  assert_not_equal "$(cat "$shared/driver_built")" "$first"
  grep -q "the request changed meanwhile" "$toolkit_log"
}

# What the containers of GPUDirect Storage and GDRCopy put there. The made-up make "compiles" what lies beside the Makefile.
extra_sources() { # DIR SUBDIR FILE IMPORT
  local to=$shared/$1/$2
  mkdir -p "$to"
  tiny_module "$BATS_TEST_TMPDIR/$3" "$kernel" "" "$4"
  cp "$BATS_TEST_TMPDIR/$3" "$to/made"
  echo "$3" >"$to/name"
  touch "$to/Makefile"
  [ "$3" != nvidia-fs.ko ] || tiny_program "$to/create_nv.symvers.sh" <<<'#!/bin/sh
echo "there is no driver in the toolkit" && exit 1'
}
extra_flagged() { [ "$(cat "$shared/$1" 2>/dev/null)" = "$(sha256sum <"$shared/kmodsmith/extra/offer.json" | cut -c1-64)" ]; }
@test "nvidia-fs and gdrdrv are compiled there against the driver, proven and flagged; what does not fit is not, until its sources change" {
  echo "/* peer to peer */" >"$source/kernel-open/nvidia/nv-p2p.h"
  mv "$foreign/usr/bin/make" "$foreign/usr/bin/make.driver"
  tiny_program "$foreign/usr/bin/make" <<'MAKE'
#!/bin/sh
case " $* " in
*" KVER="*)
  grep -q "peer to peer" /build/nvidia/nv-p2p.h || exit
  [ ! -e create_nv.symvers.sh ] || { ./create_nv.symvers.sh && [ -e nv.symvers ]; } || exit
  cp made "$(cat name)" ;;
*) exec make.driver "$@" ;;
esac
MAKE
  export GDS_ENABLED=true GDRCOPY_ENABLED=True
  printf '0x00000001\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n' >"$foreign/usr/src/kernels/$kernel/Module.symvers" # its kernel image is empty
  toolkit_starts
  driver_starts
  ready
  assert_equal "$(cd "$shared/kmodsmith/extra" && find . -type f | sort | paste -sd' ')" "./nvidia.ko ./nvidia/nv-p2p.h ./offer.json"
  extra_sources gds-nvidia-fs src nvidia-fs.ko nvidia_register_module
  extra_sources gdrcopy src/gdrdrv gdrdrv.ko nvidia_p2p_gone
  log=$toolkit_log
  soon extra_flagged nvidia_fs_built
  soon grep -q "nvidia-fs is compiled and proven against the driver's nvidia.ko" "$toolkit_log"
  cmp "$shared/gds-nvidia-fs/src/nvidia-fs.ko" "$BATS_TEST_TMPDIR/nvidia-fs.ko"
  soon grep -q "gdrdrv is not made, and its container waits: E_SYMBOL: .*nvidia_p2p_gone" "$toolkit_log"
  [ ! -e "$shared/gdrcopy_built" ]
  [ ! -e "$shared/gdrcopy/src/gdrdrv/gdrdrv.ko" ]
  extra_sources gdrcopy src/gdrdrv gdrdrv.ko nvidia_register_module
  soon extra_flagged gdrcopy_built
  cmp "$shared/gdrcopy/src/gdrdrv/gdrdrv.ko" "$BATS_TEST_TMPDIR/gdrdrv.ko"
  local made
  made=$(stat -c %i "$shared/nvidia_fs_built")
  stop "$driver"
  : >"$driver_log"
  driver_starts # the same driver, from the node's store
  ready
  assert_equal "$(stat -c %i "$shared/nvidia_fs_built")" "$made"
  stop "$driver"
  : >"$driver_log"
  echo "/* changed */" >>"$source/kernel-open/nvidia/nv-p2p.h"
  driver_starts # another source: what was made before does not count
  ready
  soon extra_flagged nvidia_fs_built
  assert_not_equal "$(stat -c %i "$shared/nvidia_fs_built")" "$made"
}

@test "the driver does not compile there: the reason is returned" {
  tiny_program "$foreign/usr/bin/make" <<'MAKE'
#!/bin/sh
case " $* " in
*" probe.o "*) touch /build/probe/probe.o /build/probe/good.o ;;
*) echo "nv.c:7:1: error: no such thing" && exit 2 ;;
esac
MAKE
  toolkit_starts
  driver_starts
  soon grep -q "continuing without the driver toolkit: E_BUILD: .*nv.c:7:1: error: no such thing" "$driver_log"
  wait "$driver" || true
  grep -q "E_HEADERS_NOT_FOUND" "$driver_log"
}

@test "a full shared directory: reported, and init continues on its own" {
  ln -sf "$KMODSMITH" "$BATS_TEST_TMPDIR/ocp_dtk_entrypoint"
  run unshare -m --propagation private bash -c 'mount -t tmpfs -o size=1m shared "$1" && shift && exec "$@"' - "$shared" \
    timeout "$hung" "$BATS_TEST_TMPDIR/ocp_dtk_entrypoint" nv-ctr-run-with-dtk --root "$ROOT" --source "$source"
  assert_failure 1
  assert_output --partial "continuing without the driver toolkit: E_NO_SPACE: "
  assert_output --partial "error: E_HEADERS_NOT_FOUND"
}
