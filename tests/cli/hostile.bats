#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Sources that attack whoever compiles them, and neighbours that attack a compile. Source and kernel tree are made up; make,
# compiler, ccache, sandbox and the attacks are real. As root, as root without the right to mount (a pod's), as a user.
# shellcheck disable=SC2154,SC2016,SC2030,SC2031 # bats and helper.bash set output, stderr, top and ROOT
load helper
load package

kernel=6.1.0-56-cloud-amd64
setup() {
  needs_seccomp
  work=$BATS_TEST_TMPDIR state=$BATS_TEST_TMPDIR/state driver=$BATS_TEST_TMPDIR/driver
  host h100x2-unloaded
  tiny_headers "$work/headers.tar" "$kernel"
  compiling_tree "$work/headers.tar.d/usr/src/kernels/$kernel"
  built_with "$(gcc -dumpversion | cut -d. -f1)" "$work/headers.tar" "$kernel"
  compiling_source "$driver" 535.261.03
  makefile=$driver/kernel-open/Makefile
  log=$state/logs/535.261.03-open-$kernel.log
  options=(--source "$driver" --kernel "$kernel" --flavour open --modules nvidia --headers "$work/headers.tar"
    --state-dir "$state" --output "oci:$work/layout" --json --jobs 1)
}
build() { kmodsmith build "${options[@]}" "$@"; }
digest() { jq -r .digest <<<"$output"; }
as_user() { # COMMAND...: somebody who owns all of this test's files, and may enter the directories above them
  local dir=$work
  chown -R 1000:1000 "$work"
  until [ "$dir" = / ]; do chmod o+x "$dir" && dir=${dir%/*} && dir=${dir:-/}; done
  setpriv --reuid=1000 --regid=1000 --clear-groups "$@"
}
without_mounts() { setpriv --bounding-set -sys_admin "$@"; }

# Everything in the table, whoever starts the compile.
expected() {
  local name
  for name in inet local hypervisor netlink pair unshare_user clone_three enter trace write_other take_fd bpf keys ring faults \
    perf module kexec mount_old mount_new mount_tree new_root pivot by_handle clock_set clone_user device persona; do
    echo "attempt: $name no such call"
  done
  for name in root_again passwords users opt sys kernel_log core_pattern usr below_usr headers top inherited above hole core; do
    echo "attempt: $name refused"
  done
  [ "$(uname -m)" != x86_64 ] || printf 'attempt: %s killed\n' int80_socket int80_ptrace x32_socket
}
attempts_by() { # COMMAND...: that starts kmodsmith
  cp "$top/tests/cli/attempts.c" "$driver/kernel-open/"
  sed -i '/^modules:/a \\tgcc -o /tmp/attempts attempts.c && /tmp/attempts; grep ^NoNew /proc/self/status' \
    "$makefile"
  cp "$KMODSMITH" "$work/kmodsmith" # the checkout may be in root's home
  echo secret >"$work/secret" && chmod 600 "$work/secret"
  exec 9<"$work/secret"
  run --separate-stderr "$@" "$work/kmodsmith" build --root "$ROOT" "${options[@]}"
  exec 9<&-
  assert_status 0
  diff <(expected | grep -v " ${but:-none} " | sort) <(grep '^attempt: ' "$log" | grep -v " ${but:-none} " | sort)
  grep -qx 'NoNewPrivs:.1' "$log"
}

@test "a hostile source compiled by root: nothing succeeds; mounts below /usr are closed as well" {
  needs_mounts
  attempts_by unshare --mount sh -c 'mount -t tmpfs -o mode=1777 none /usr/share/doc && exec "$@"' sh
  grep -qx 'processes: 4096' "$log"
}

@test "the same compiled by a pod's root, who may not mount" {
  [ "$EUID" -eq 0 ] || skip "needs root"
  needs_users
  attempts_by without_mounts
  grep -qx 'processes: 4096' "$log"
}

@test "the same compiled by an ordinary user, who has given a password" {
  needs_users
  local user=()
  [ "$EUID" -ne 0 ] || user=(as_user)
  attempts_by "${user[@]}" env KMODSMITH_PROXY=http://user:password@127.0.0.1:9 # so there is no core, and /proc/PID is root's
}

@test "the same compiled by root of a user namespace, unless that is the machine's root" {
  local user=()
  needs_users
  [ "$EUID" -ne 0 ] || user=(as_user)
  but=root_again # to be what one is
  attempts_by "${user[@]}" unshare --map-root-user
  [ "$EUID" -eq 0 ] || skip "the rest needs root"
  chown -R 0:0 "$work"
  run --separate-stderr unshare --map-root-user "$KMODSMITH" build --root "$ROOT" "${options[@]}"
  assert_error E_SANDBOX "this user namespace has no user but root"
}

@test "what a hostile source leaves behind changes no later compile" {
  build
  assert_status 0
  clean=$(digest)
  cp -a "$driver" "$work/genuine"
  rm -rf "$state/cache"
  # the genuine objects and answers, of which a hostile Makefile may have any
  sed -i '/^modules:/a \\techo "prefix_command = sh /cache/evil.sh" >/cache/ccache.conf; echo "recache = true" >>/cache/ccache.conf; \\\
\techo "echo planted >\&2; exec \\"$$@\\"" >/cache/evil.sh; echo "#define NV_TWO planted" >/build/probes/new/two=; \\\
\techo planted >/build/probes/known.flags' "$makefile"
  build
  assert_status 0
  rm -r "$driver" && mv "$work/genuine" "$driver"
  for want in '[0,0,3]' '[3,3,0]'; do
    build
    assert_status 0
    assert_equal "$(jq -c '[.cache.objects, .cache.probes, .cache.probes_asked]' <<<"$output")" "$want"
    assert_equal "$(digest)" "$clean"
    refute grep -q planted "$log"
  done
}

@test "another process of uid 65534 in the host's pid namespace reads and changes nothing, and the bytes are equal" {
  [ "$EUID" -eq 0 ] || skip "needs root"
  chmod 755 "$work"
  build --no-cache
  assert_status 0
  clean=$(digest)
  echo 1 >"$driver/kernel-open/slow"
  build --no-cache
  slow=$(digest)
  "$KMODSMITH" build --root "$ROOT" "${options[@]}" --no-cache >"$work/out" 2>/dev/null 3>&- &
  compiling() { pgrep -f "sh conftest.sh .* compile_tests"; }
  soon compiling
  pid=$(compiling | head -n 1)
  uid=$(stat -c %u "/proc/$pid")
  [ "$uid" -ge 1879048192 ]
  [ "$uid" -lt 2147352576 ]
  [ -e "/proc/$pid/root/build/src/nvidia/one.c" ] # root sees it there
  nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@" 2>/dev/null; }
  refute nobody ls "$state/.tmp"
  refute nobody ls "$state/cache"
  refute nobody cat "/proc/$pid/root/build/src/nvidia/one.c"
  refute nobody sh -c "echo evil >>/proc/$pid/root/build/src/nvidia/one.c"
  refute nobody sh -c "echo evil >>/proc/$pid/cwd/nvidia/one.c"
  refute nobody cat "/proc/$pid/environ"
  refute nobody head -c 1 "/proc/$pid/mem"
  refute nobody kill "$pid"
  refute grep -rq evil "$state/.tmp"
  wait %1
  assert_equal "$(jq -r .digest "$work/out")" "$slow"
  rm "$driver/kernel-open/slow"
  build --no-cache
  assert_equal "$(digest)" "$clean"
}

@test "a file named nvidia.ko that is not a module is reported, and nothing of it is packed" {
  for what in 'ln -sf /etc/passwd nvidia.ko' 'rm -f nvidia.ko; mkfifo nvidia.ko' 'rm -f nvidia.ko; mkdir nvidia.ko' \
    'rm -f nvidia.ko'; do
    compiling_source "$driver" 535.261.03
    sed -i "/nvidia.ko nvidia.ko/a \\\\t$what" "$makefile"
    build
    assert_status 1
    assert_json .error.code E_BUILD
    refute [ -e "$work/layout/index.json" ]
    assert_equal "$(ls -A "$state/.tmp")" ""
  done
}

@test "files beside the modules are not packed, and neither are holes" {
  sed -i '/^modules:/a \\trm -rf ../out; mkdir ../out; truncate -s 1000M ../out/hole; ln -s / ../out/link' "$makefile"
  run --separate-stderr prlimit --fsize=100000000: "$KMODSMITH" build --root "$ROOT" "${options[@]}" # a hole is real once copied
  assert_status 0
  assert_equal "$(find "$state" "$work/layout" -name hole -o -name link)" ""
}

@test "files that kmodsmith reads back are read in bounds, however large, and the build ends" {
  sed -i '/^modules:/a \\trm -f ../objects.log; truncate -s 1000M ../objects.log ../probes/new/planted=; truncate -s 1000M ../probes/flags' "$makefile"
  run --separate-stderr python3 -c 'import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, "MiB")
sys.exit(status)' "$KMODSMITH" build --root "$ROOT" "${options[@]}"
  assert_status 0
  [ "${output% MiB}" -lt 500 ]
}

@test "a compile with endless output: the log is truncated, and says so" {
  sed -i '/^modules:/a \\t@head -c 90000000 /dev/zero | tr "\\000" x | fold -w 4000' "$makefile"
  build
  assert_status 0
  [ "$(stat -c %s "$log")" -lt 68000000 ]
  assert_equal "$(tail -n 1 "$log")" "[cut off: the compile says more than 64 MiB]"
}
