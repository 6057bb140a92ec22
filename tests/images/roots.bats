#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What is in the images and what is not: sizes, programs that start, links, rights, and nothing that was not asked for (R-J3).
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats runs each test in a subshell, sets status, output and stderr
load helper

setup() { [ "$(id -u)" -eq 0 ] || skip "only root can chroot"; }

# What pod specs, probes and hooks of the operator call, and what its other containers run after a chroot.
TOOLS=(sh bash lsmod modprobe rm mv chroot ls cat sleep mkdir grep cut head tail sed awk test true tr wc kmodsmith)

@test "the runtime is at most 25 MiB, unpacked and without a payload; of Debian 13, whose libcrypto is larger, 32" {
  local bytes most=25
  grep -q bookworm /etc/os-release || most=32
  bytes=$(find "$images/runtime/root" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }')
  [ "$bytes" -gt 10000000 ] # it was counted
  [ "$bytes" -le $((most * 1024 * 1024)) ] || fail "$bytes bytes"
}
@test "our program is stripped and at most 2 MiB" {
  local program=$images/runtime/root/usr/bin/kmodsmith
  run -0 readelf -SW "$program"
  refute_output --partial .debug_info
  [ "$(stat -c %s "$program")" -le $((2 * 1024 * 1024)) ]
}
@test "the program for foreign roots names no library" {
  run -0 readelf -dW "$images/runtime/root/usr/libexec/kmodsmith"
  refute_output --partial NEEDED
  run readelf -lW "$images/runtime/root/usr/libexec/kmodsmith"
  refute_output --partial interpreter
}
@test "the runtime and the driver have no compiler, no package manager and no setuid program" {
  local name
  for name in runtime driver; do
    assert_no_file "$name" -path '*/bin/*' '(' -name '*gcc*' -o -name 'clang*' -o -name cc -o -name ld -o -name as -o -name make ')'
    assert_no_file "$name" '(' -name 'apt*' -o -name 'dpkg*' -o -name 'rpm*' -o -name 'dnf*' ')' -path '*bin/*'
    assert_no_file "$name" -perm /6000
    assert_no_file "$name" '(' -type b -o -type c -o -type s -o -type p ')'
  done
}
@test "every tool that pod specs call starts in each image" {
  local name tool
  for name in runtime builder driver; do
    for tool in "${TOOLS[@]}"; do
      in_root "$name" sh -c "command -v $tool"
      assert_success
    done
    in_root "$name" bash -xc 'for n in 1 2; do sleep 0; done; [[ -d /usr/src || -d /drivers ]] && echo loop | grep -q loop'
    assert_success
    in_root "$name" sh -c 'mkdir /tmp/a && echo x >/tmp/a/b && mv /tmp/a/b /tmp/a/c && cat /tmp/a/c && rm -r /tmp/a'
    assert_success
    assert_output x
    in_root "$name" chroot / ls /drivers
    assert_success
  done
}
@test "libraries that are not wanted are not there, and a host name that would need one is refused" {
  assert_no_file runtime -name 'libunistring*'
  in_root runtime kmodsmith net check https://bücher.example/
  [ "$status" -eq 1 ]
  assert_output --partial 'bad/illegal format'
  in_root runtime kmodsmith net check https://xn--bcher-kva.example/
  [ "$status" -eq 1 ]
  refute_output --partial 'bad/illegal format'
}
@test "metrics are served from the image, over HTTP alone" {
  local url log=$BATS_TEST_TMPDIR/log environment
  mapfile -t environment < <(config_of runtime '.config.Env[]')
  env -i "${environment[@]}" chroot "$images/runtime/root" kmodsmith serve --listen 0 >"$log" 2>&1 3>&- &
  local server=$!
  soon grep -q serving "$log"
  url=$(sed -n 's|.*serving \(http[^ ]*\)/metrics.*|\1|p' "$log")
  run python3 -c 'import sys, urllib.request; print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1]).read().decode())' "$url/healthz"
  kill "$server"
  assert_output --partial "yes, "
  in_root runtime kmodsmith serve --listen 0 --tls-cert /etc/passwd --tls-key /etc/passwd
  assert_failure
  assert_regex "$stderr" "no TLS here: it needs GnuTLS"
}

@test "every link to a program leads to one, and stays inside the image" {
  local name
  for name in runtime builder driver; do
    assert_no_file "$name" -xtype l -path '*/usr/bin/*'
    run find "$images/$name/root" -path '*/share/doc' -prune -o -type l -path '*/usr/[bs]*' -lname '/*' -print
    [ "$name" = builder ] || assert_output ""
  done
  for name in bin sbin lib lib64; do assert_equal "$(readlink "$images/runtime/root/$name")" "usr/$name"; done
}
@test "kmod's programs and both names of ours start" {
  local name
  for name in /sbin/modprobe /usr/sbin/depmod modinfo insmod rmmod; do
    in_root runtime "$name" --version
    assert_success
    assert_output --partial kmod
  done
  for name in nvidia-driver driver-manager ocp_dtk_entrypoint; do assert_equal "$(readlink "$images/runtime/root/usr/bin/$name")" kmodsmith; done
  in_root runtime kmodsmith explain E_IN_USE
  assert_success
  in_root runtime /usr/libexec/kmodsmith explain E_IN_USE
  assert_success
}
@test "every library that a program or library of the runtime names is there, and libcurl loads" {
  local file missing=''
  while read -r file; do
    readelf -dW "$file" 2>/dev/null | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' | while read -r name; do
      [ -e "$images/runtime/root/usr/lib/$(gcc -dumpmachine)/$name" ] || echo "$file: $name"
    done
  done < <(find "$images/runtime/root/usr" -type f) >"$BATS_TEST_TMPDIR/missing"
  missing=$(<"$BATS_TEST_TMPDIR/missing")
  assert_equal "$missing" ""
  in_root runtime kmodsmith net check --from https://localhost:1/x
  assert_output --partial 'Failed to connect to localhost port 1' # it has a name service, too
}
@test "users, certificates and directories that pods write to" {
  local root=$images/runtime/root
  run cut -d: -f1,3 "$root/etc/passwd"
  assert_output $'root:0\nnobody:65534'
  [ "$(grep -c 'BEGIN CERTIFICATE' "$root/etc/ssl/certs/ca-certificates.crt")" -gt 100 ]
  assert_dir_exist "$root/usr/local/bin"
  assert_dir_exist "$root/drivers"
  assert_dir_exist "$root/run"
  assert_equal "$(stat -c %a "$root/tmp")" 1777
}
@test "the builder compiles with each of its compilers, and has what a kernel's headers call" {
  local cc
  in_root builder bash -c 'ls /usr/bin/gcc-1[1-9] /usr/bin/clang'
  assert_success
  for cc in $output cc; do
    in_root builder sh -c "cd /tmp && echo 'int main(void) { return 7; }' >a.c && $cc -O2 -o a a.c && ./a; s=\$?; rm -f a a.c; exit \$s"
    assert_equal "$status" 7
  done
  in_root builder sh -c 'for t in make bc flex bison perl ld.lld objcopy pahole patch cpio zstd xz gawk find; do $t --version || exit 1; done'
  assert_success
}
@test "the environment, entry point and working directory are what the contract asks of an image" {
  local name
  for name in runtime builder driver; do
    assert_equal "$(config_of "$name" '[.config.Entrypoint[], .config.Cmd[], .config.WorkingDir] | join(" ")')" "nvidia-driver init /drivers"
    run config_of "$name" '.config.Env[]'
    assert_line DRIVER_TYPE=passthrough
    assert_line "TARGETARCH=$(dpkg --print-architecture)"
    [ "$name" = driver ] || refute_output --regexp 'DRIVER_VERSION|KMODSMITH_PAYLOAD|KMODSMITH_BUILDER'
  done
  run config_of driver '.config.Env[]'
  assert_line "DRIVER_VERSION=$DRIVER"
  assert_line "DRIVER_BRANCH=${DRIVER%%.*}"
  assert_line KMODSMITH_PAYLOAD=/usr/share/kmodsmith/payload
  assert_line "KMODSMITH_BUILDER=$(jq -r '.manifests[] | select(.annotations["org.opencontainers.image.ref.name"] |
    test("^builder-[a-z0-9_]+$")) | .digest' "$images/builder/asset/index.json")"
}
@test "the driver image and its payload root start NVIDIA's programs" {
  local root program
  for root in "" /usr/share/kmodsmith/payload/root; do
    in_root driver chroot "/$root" nvidia-smi --help
    assert_success
    assert_output --partial "NVIDIA System Management Interface -- v$DRIVER"
    for program in nvidia-modprobe nvidia-persistenced; do
      [[ $DRIVER_FILES == *"/${program}_"* ]] || continue # this Debian has it for another branch
      in_root driver chroot "/$root" $program --version
      assert_success
    done
  done
  assert_equal "$(jq -r .driver "$images/driver/root/usr/share/kmodsmith/payload/payload.json")" "$DRIVER"
}
@test "a layer of the runtime is the lowest of the others, so that a node fetches it once" {
  local lowest
  lowest=$(manifest_of runtime | jq -r '.layers[0].digest')
  assert_equal "$(manifest_of builder | jq -r '.layers[0].digest')" "$lowest"
  assert_equal "$(manifest_of driver | jq -r '.layers[0].digest')" "$lowest"
}
