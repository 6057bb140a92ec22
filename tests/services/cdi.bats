#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A real runtime (podman with runc) gives a container devices, libraries and programs by our specification alone. The
# machine is a recorded one whose only GPU has the numbers of /dev/kmsg: the container can open it, and none can by itself.
# shellcheck disable=SC2154,SC2016 # bats and helper.bash set output, status and top; shells in containers expand
load helper

V=535.261.03
setup_file() {
  export work=$BATS_FILE_TMPDIR top
  top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  export host=$work/host image=$work/image
  export driver=$host/run/nvidia/driver
  make_machine && make_driver && make_image
}

make_machine() {
  cp -a "$top/tests/hosts/h100x8" "$host"
  sed -i 's/^195 nvidia-frontend/  1 nvidia-frontend/' "$host/proc/devices"
  rm -r "$host"/proc/driver/nvidia/gpus/0000:[5-9ab]0:00.0
  sed -i 's/^Device Minor:.*/Device Minor: \t 11/' "$host/proc/driver/nvidia/gpus/0000:40:00.0/information"
  local drm=$host/sys/bus/pci/devices/0000:40:00.0/drm
  mkdir -p "$drm/card3" "$host/dev/dri"
  echo 1:11 >"$drm/card3/dev"
  echo "c 1:11 0660 0:44" >"$host/dev/dri/card3"
  "$KMODSMITH" nodes --root "$host" >/dev/null
}

# Below usr/lib64, where no container of this kind looks by itself.
make_driver() {
  mkdir -p "$driver"/usr/{lib64,bin,libexec} "$host/run/nvidia-persistenced"
  echo "const char *driver_version(void) { return \"$V\"; }" |
    gcc -shared -fPIC -x c - -Wl,-soname,libcuda.so.1 -o "$driver/usr/lib64/libcuda.so.$V"
  ln -s libcuda.so.$V "$driver/usr/lib64/libcuda.so.1"
  printf '#!/bin/sh\necho a program of the driver\n' >"$driver/usr/bin/nvidia-smi"
  chmod +x "$driver/usr/bin/nvidia-smi"
  cp "$KMODSMITH" "$driver/usr/libexec/kmodsmith"
}

make_image() { # a shell, glibc, and a program that is linked with the library
  mkdir -p "$image"/{bin,etc,proc,sys,dev,tmp,usr/lib,lib64,lib/x86_64-linux-gnu}
  cp "$(command -v busybox)" "$image/bin/busybox"
  local applet
  for applet in sh ls cat grep mknod readlink true; do ln -s busybox "$image/bin/$applet"; done
  cp -L /lib/x86_64-linux-gnu/libc.so.6 "$image/lib/x86_64-linux-gnu"
  cp -L /lib64/ld-linux-x86-64.so.2 "$image/lib64"
  printf '#include <stdio.h>\nconst char *driver_version(void);\nint main(void) { return puts(driver_version()) < 0; }\n' |
    gcc -x c - -x none "$driver/usr/lib64/libcuda.so.$V" -o "$image/bin/user"
}

setup() {
  [ "$(id -u)" -eq 0 ] || skip "mounts and containers need root"
  unshare -m true 2>/dev/null || skip "mounts are not allowed here"
  root=$BATS_TEST_TMPDIR/root
  cp -a "$image" "$root"
  mkdir "$BATS_TEST_TMPDIR/cdi"
  "$KMODSMITH" cdi generate --root "$host" --export /run/nvidia/driver --output "$BATS_TEST_TMPDIR/cdi/kmodsmith.json"
}

# In a mount namespace of its own, where the recorded machine's run/nvidia, proc/driver and our specification are in their places, and
# nothing of podman's lies outside the test's folder.
podman_run() { # ARGUMENT...
  store=$(mktemp -d "$BATS_TEST_TMPDIR/store.XXXXXX")
  run timeout "$hung" unshare -m sh -euc '
    mount -t tmpfs none /run
    mount -t tmpfs none /dev/shm
    mkdir -p /run/nvidia /run/cdi /run/nvidia-persistenced
    mount --bind "$host/run/nvidia" /run/nvidia
    mount --bind "$1" /run/cdi
    mount --bind "$host/proc/driver" /proc/driver
    store=$2
    shift 2
    exec podman --root "$store/storage" --runroot /run/podman --storage-driver vfs --runtime runc \
      --cgroup-manager cgroupfs run --network none --log-driver none --ulimit nofile=512:512 --ulimit nproc=512:512 "$@"
  ' sh "$BATS_TEST_TMPDIR/cdi" "$store" "$@"
}
gpu() { podman_run --rm --device nvidia.com/gpu="$1" --rootfs "$root" "${@:2}"; }

@test "a container with a GPU opens its node, and finds the libraries and programs of the driver" {
  gpu 0 sh -c ': >/dev/nvidia11 && echo opened; user; nvidia-smi; readlink /usr/lib64/libcuda.so.1; readlink /usr/lib64/libcuda.so
    ls /dev | grep nvidia; echo "$NVIDIA_VISIBLE_DEVICES"; echo x >>/usr/bin/nvidia-smi'
  assert_failure # the last one: it is read-only
  assert_line opened
  assert_line $V
  assert_line "a program of the driver"
  assert_line libcuda.so.$V
  assert_line libcuda.so.1
  assert_line nvidiactl
  assert_line nvidia-uvm
  assert_line nvidia-modeset
  assert_line void
  assert_line --partial "Read-only file system"
}

@test "a container with a GPU opens its node of graphics, by the name that has the GPU's address, too" {
  gpu 0 sh -c 'cd /dev/dri && : >card3 && : >by-path/pci-0000:40:00.0-card && readlink by-path/*; ls'
  assert_success
  assert_output "../card3
by-path
card3"
}

@test "one without asks in vain" {
  podman_run --rm --cap-add MKNOD --rootfs "$root" sh -c 'ls /dev | grep -c nvidia; mknod /tmp/gpu c 1 11 && echo made; (: >/tmp/gpu); user || exit 1'
  assert_failure
  assert_line 0
  assert_line made
  assert_line --partial "can't create /tmp/gpu: Operation not permitted"
  assert_line --partial "libcuda.so.1: cannot open shared object file"
  gpu 1 true
  assert_failure
  assert_output --partial "unresolvable CDI devices nvidia.com/gpu=1"
}

@test "R-G1: the runtime knows each node by its number, and its link is where a systemd driver looks for it" {
  podman_run --device nvidia.com/gpu=all --rootfs "$root" true
  assert_success
  run jq -r '.linux.resources.devices[] | select(.allow) | "\(.type) \(.major):\(.minor) \(.access)"' "$store"/storage/vfs-containers/*/userdata/config.json
  local path
  while read -r path; do
    assert_line "c ${path##*/} rw"
    assert_equal "$(readlink "$host/dev/char/${path##*/}")" "../${path%%/*}"
  done < <(jq -r '.. | objects | select(has("permissions") and .path[:9] != "/dev/dri/") | "\(.path[5:])/\(.major):\(.minor)"' \
    "$BATS_TEST_TMPDIR/cdi/kmodsmith.json")
}

@test "an image with CUDA of a later branch finds its own compatibility library first, and one of an earlier branch the driver's" {
  local version compat=$root/usr/local/cuda/compat
  mkdir -p "$compat"
  while read -r version outcome; do
    rm -f "$compat"/*
    echo "const char *driver_version(void) { return \"$version\"; }" |
      gcc -shared -fPIC -x c - -Wl,-soname,libcuda.so.1 -o "$compat/libcuda.so.$version"
    ln -s "libcuda.so.$version" "$compat/libcuda.so.1"
    gpu 0 user
    assert_success
    assert_output "$outcome"
  done <<EOF
999.10.01 999.10.01
${V%%.*}.999.1 $V
1.2 $V
EOF
}

@test "the hooks' words are none that the program of an older driver root would refuse: what is new is in their environment" {
  run jq -r '.containerEdits.hooks[].args[]' "$BATS_TEST_TMPDIR/cdi/kmodsmith.json"
  assert_line ldcache
  refute_line --regexp '^-'
  run jq -r '.containerEdits.hooks[].env[]' "$BATS_TEST_TMPDIR/cdi/kmodsmith.json"
  assert_line "DRIVER_VERSION=$V"
  refute_line --partial KMODSMITH_ # which an older one does not know
}

# The runtime gives it /proc with what is mounted there.
with_proc() { podman_run --rm --volume /proc:/proc --device nvidia.com/gpu="$1" --rootfs "$root" sh -c "$2"; }
@test "libraries in a container read that they may not make device nodes, and nothing else is different" {
  local params=$host/proc/driver/nvidia/params
  run grep -c '^ModifyDeviceFiles: 1$' "$params"
  assert_output 1
  with_proc 0 'cat /proc/driver/nvidia/params'
  assert_success
  assert_equal "$output" "$(sed 's/^ModifyDeviceFiles: 1$/ModifyDeviceFiles: 0/' "$params")"
  with_proc 0 'ls /proc/driver/nvidia; grep -c " /proc/driver/nvidia" /proc/self/mountinfo; : >/proc/driver/nvidia/params'
  assert_failure
  assert_line --partial "Read-only file system"
  assert_line 1 # mount: the file's
  assert_equal "$(grep -v -e '^1$' -e Read-only <<<"$output")" "$(ls "$host/proc/driver/nvidia")"
  run grep -c '^ModifyDeviceFiles: 1$' "$params"
  assert_output 1 # of the machine
  sed -i 's/^ModifyDeviceFiles: 1$/ModifyDeviceFiles: 0/' "$params"
  with_proc 0 'grep ModifyDevice /proc/driver/nvidia/params; grep -c " /proc/driver/nvidia" /proc/self/mountinfo'
  sed -i 's/^ModifyDeviceFiles: 0$/ModifyDeviceFiles: 1/' "$params"
  assert_line "ModifyDeviceFiles: 0"
  assert_line 0
}

@test "EGL and Vulkan are told which GPUs the container has, and an image without GPUs nothing" {
  local file=etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf
  gpu 0 cat /$file
  assert_success
  run jq -c '[.profiles[0].settings[0], .profiles[0].name == .rules[0].profile]' <<<"${output/0x800/2048}" # bit 11
  assert_output '["EGLVisibleDGPUDevices",true]'
  assert_file_contains "$root/$file" '"EGLVisibleDGPUDevices", 0x800\]'
  rm -r "$root/etc/nvidia"
  ln -s "$BATS_TEST_TMPDIR" "$root/etc/nvidia"
  gpu 0 user # an image that leads it elsewhere has none
  assert_success
  assert_line "$V"
  assert_file_not_exist "$BATS_TEST_TMPDIR/nvidia-application-profiles-rc.d"
}

@test "a container without glibc gets its devices, and no error" {
  rm -r "$root"/lib64/ld-linux* "$root/lib/x86_64-linux-gnu"
  gpu 0 sh -c ': >/dev/nvidia11 && echo opened; ls /etc'
  assert_success
  assert_line opened
  refute_line ld.so.cache
}

@test "an image cannot make the hooks write beside its root" {
  local path outcome
  mkdir "$BATS_TEST_TMPDIR/victim"
  while IFS='|' read -r path outcome; do
    rm -rf "$root"
    cp -a "$image" "$root"
    rm -rf "${root:?}/$path"
    ln -s "$BATS_TEST_TMPDIR/victim" "$root/$path"
    gpu 0 user
    assert_output --partial "$outcome"
    assert_equal "$(find "$BATS_TEST_TMPDIR/victim" -mindepth 1)" ""
  done <<EOF
etc/ld.so.cache|$V
usr|$V
etc/ld.so.conf.d|error running hook: exit status 1, stdout: , stderr: kmodsmith: error: E_NOT_FOUND: 'etc/ld.so.conf.d' in 
EOF
}

preload() { podman_run --rm --device nvidia.com/gpu=0 --env "LD_PRELOAD=$root/evil.so" --rootfs "$root" true; }
@test "an image cannot choose the environment of the hooks" {
  printf '#include <fcntl.h>\n__attribute__((constructor)) void f(void) { open("%s/taken", O_CREAT | O_WRONLY, 0600); }\n' \
    "$BATS_TEST_TMPDIR" | gcc -shared -fPIC -x c - -o "$root/evil.so"
  preload
  assert_file_not_exist "$BATS_TEST_TMPDIR/taken"
  # That the runtime would let it: the same without the environment that we name.
  jq 'del(.. | objects | select(has("hookName")).env)' "$BATS_TEST_TMPDIR/cdi/kmodsmith.json" >"$BATS_TEST_TMPDIR/without"
  cp "$BATS_TEST_TMPDIR/without" "$BATS_TEST_TMPDIR/cdi/kmodsmith.json"
  preload
  assert_file_exist "$BATS_TEST_TMPDIR/taken"
}
