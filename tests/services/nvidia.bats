#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's own programs, unchanged, on our driver root, nodes and specification. They are built from their Go modules; the
# user space is Debian's packages of the real driver, laid out by `pack payload`. The machine is a recorded one: nothing
# answers for its eight GPUs but a stand-in for NVML (nvml_standin.c), which tells what is in the recorded /proc.
# shellcheck disable=SC2154,SC2016,SC2030,SC2031 # bats and helper.bash set output, lines and top; shells in namespaces expand
load helper

toolkit=github.com/NVIDIA/nvidia-container-toolkit/cmd operator=github.com/NVIDIA/gpu-operator lib=usr/lib/x86_64-linux-gnu
same_version=(firmware-nvidia-gsp libcuda1 libcudadebugger1 libegl-nvidia0 libglx-nvidia0 libnvcuvid1
  libnvidia-{allocator1,cfg1,eglcore,encode1,fbc1,glcore,ml1,opticalflow1,ptxjitcompiler1} nvidia-cuda-mps
  nvidia-{egl-common,egl-icd,opencl-common,opencl-icd,smi,vdpau-driver,vulkan-common,vulkan-icd} xserver-xorg-video-nvidia)
own_version=(libnvidia-egl-gbm1 libnvidia-egl-wayland1 nvidia-persistenced nvidia-xconfig)

setup_file() {
  export work=$BATS_FILE_TMPDIR
  export host=$work/host nodes=$work/nodes driver=$work/host/run/nvidia/driver
  kept programs && kept user_space && make_machine && make_driver && make_image && make_cluster && make_modprobe
}
teardown_file() { servers_stop; }
# In a folder for PATH, or why not.
programs() {
  local one path
  mkdir "$work/bin" "$work/lacks"
  for one in "$toolkit"/nvidia-{ctk,cdi-hook,container-runtime} "$operator/validator"; do
    if path=$(CGO_ENABLED=1 "$top/scripts/go-program.sh" "$one" 2>"$work/lacks/${one##*/}"); then
      ln -s "$path" "$work/bin/${one##*/}"
      echo "# NVIDIA's ${one##*/} here is $(strings -n 12 "$path" | sed -nE "s/^mod\t//p" | cut -f1,2 | head -n 1 | tr '\t' ' ')" >&3
    fi
  done
}
needs() { # PROGRAM...
  local one
  for one; do [ -x "$work/bin/$one" ] || skip "no $one: $(tail -n 1 "$work/lacks/$one")"; done
}
user_space() {
  local open
  open=$("$top/scripts/inputs.sh" nvidia-open-kernel-source)
  V=$(dpkg-deb -f "$open" Version)
  "$top/scripts/inputs.sh" "${same_version[@]/%/=$V}" "${own_version[@]}" >"$work/debs"
  export V=${V%-*}
  xargs -d '\n' "$KMODSMITH" pack payload --driver "$V" --arch x86_64 --state-dir "$work/state" --output "dir:$work/payload" <"$work/debs" >&2
}
# A recorded machine as after its GPUs were opened for the first time: they have UUIDs. nvidia-drm serves two of them. Its nodes
# for a real kernel, too.
make_machine() {
  local file minor number mode
  local -a files
  cp -a "$top/tests/hosts/h100x8" "$host"
  sed -i -E "s/[0-9]+\.[0-9.]+  Release/$V  Release/" "$host/proc/driver/nvidia/version"
  for file in "$host"/proc/driver/nvidia/gpus/*/information; do
    minor=$(sed -n 's/^Device Minor:[^0-9]*//p' "$file")
    sed -i "s/^GPU UUID:.*/GPU UUID: \t GPU-0000000$minor-1111-2222-3333-44444444444$minor/" "$file"
    case $minor in 2 | 3) drm_of "$(basename "$(dirname "$file")")" "$minor" ;; esac
  done
  "$KMODSMITH" nodes --root "$host" >/dev/null
  mkdir -p "$nodes/dev"
  mapfile -t files < <(find "$host/dev" -type f -printf '%P\n')
  for file in "${files[@]}"; do
    read -r _ number mode _ <"$host/dev/$file"
    mkdir -p "$(dirname "$nodes/dev/$file")"
    mknod -m "$mode" "$nodes/dev/$file" c "${number%:*}" "${number#*:}" 2>>"$work/no-nodes" || true
  done
}
drm_of() { # ADDRESS NUMBER: what the kernel and udev make
  local name
  mkdir -p "$host/dev/dri" "$nodes/dev/dri/by-path"
  for name in "card$2" "renderD$((128 + $2))"; do
    mkdir -p "$host/sys/bus/pci/devices/$1/drm/$name"
    echo "226:${name//[a-zA-Z]/}" >"$host/sys/bus/pci/devices/$1/drm/$name/dev"
    echo "c 226:${name//[a-zA-Z]/} 0660 0:44" >"$host/dev/dri/$name"
    ln -s "../$name" "$nodes/dev/dri/by-path/pci-$1-${name%%[0-9D]*}"
  done
}
make_driver() {
  mkdir -p "$host/run/nvidia"
  cp -a "$work/payload/root" "$driver"
  mkdir -p "$driver"/{dev,sys,usr/libexec}
  cp "$KMODSMITH" "$driver/usr/libexec/kmodsmith"
  mkdir -p "$driver"/run/nvidia-{persistenced,fabricmanager} # its daemons' sockets
  touch "$driver"/run/nvidia-{persistenced,fabricmanager}/socket
  gcc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o "$driver/$lib/libnvidia-ml.so.$V" "$BATS_TEST_DIRNAME/nvml_standin.c"
}
make_image() { # a shell, glibc, and a program that asks the driver's library for the newest CUDA that it serves
  local one
  export image=$work/image
  mkdir -p "$image"/{bin,etc,proc,sys,dev,tmp,usr/lib,usr/bin,lib64,lib/x86_64-linux-gnu}
  cp "$(command -v busybox)" "$image/bin/busybox"
  for one in sh ls cat stat readlink; do ln -s busybox "$image/bin/$one"; done
  for one in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1; do cp -L "/lib/x86_64-linux-gnu/$one" "$image/lib/x86_64-linux-gnu"; done
  cp -L /lib64/ld-linux-x86-64.so.2 "$image/lib64"
  printf '#include <stdio.h>\nint cuDriverGetVersion(int *);\nint main(void) { int v = 0; return cuDriverGetVersion(&v) || printf("CUDA %%d\\n", v) < 0; }\n' |
    gcc -x c - -x none "$driver/$lib/libcuda.so.$V" -Wl,--allow-shlib-undefined -o "$image/bin/user"
}
# A DaemonSet of the driver that the GPU Operator owns, and a program in the place of nvidia-smi that asks the stand-in.
make_cluster() {
  local list=$work/cluster/apis/apps/v1/namespaces/gpu-operator/daemonsets
  mkdir -p "${list%/*}"
  echo '{"apiVersion": "apps/v1", "kind": "DaemonSetList", "items": [{"metadata": {"name": "nvidia-driver-daemonset", "ownerReferences": [
    {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": "1", "controller": true}]}}]}' >"$list"
  ca_make
  port=$(free_port)
  export port CA
  server_run kube "$port" python3 "$here/kube_standin.py" "$port" "$SERVERS/server.pem" "$SERVERS/server.key" "$work/cluster"
  printf '#include <stdio.h>\nint nvmlInit_v2(void);\nint nvmlSystemGetDriverVersion(char *, unsigned);\nint main(void) {
    char v[80]; return nvmlInit_v2() || nvmlSystemGetDriverVersion(v, sizeof(v)) || puts(v) < 0; }\n' |
    gcc -x c - -x none "$driver/$lib/libnvidia-ml.so.$V" -o "$work/nvidia-smi"
}
# What the driver image's base has: modprobe, which this validator runs in the driver root, and which finds nvidia loaded.
make_modprobe() {
  local file modules
  modules=$driver/lib/modules/$(uname -r)
  mkdir -p "$modules" "$driver/sbin"
  cp "$(readlink -f "$(PATH=$PATH:/sbin:/usr/sbin type -P modprobe)")" "$driver/sbin/modprobe"
  ldd "$driver/sbin/modprobe" | grep -oE '/[^ ]+' | while read -r file; do
    mkdir -p "$driver${file%/*}"
    cp -L "$file" "$driver$file"
  done
  tiny_package "$work/modules" "$(uname -r)"
  cp "$work"/modules.d/*.ko "$modules"
  PATH=$PATH:/sbin:/usr/sbin depmod -b "$driver" "$(uname -r)" 2>/dev/null
}

setup() {
  needs_mounts
  [ ! -s "$work/no-nodes" ] || skip "no device nodes can be made here"
  export specs=$BATS_TEST_TMPDIR/cdi
  mkdir "$specs"
  "$KMODSMITH" cdi generate --root "$host" --export /run/nvidia/driver --output "$specs/kmodsmith.json"
}

# In a mount namespace where the driver root, /proc/driver and /proc/devices are in their places; in the driver root are those
# directories of the machine that are mounted into one (driver_root/root_layout.h). /run is empty but for it.
in_machine() { # COMMAND...
  run timeout "$hung" unshare -m --propagation private sh -euc '
    mount -t tmpfs none /run
    mount -t tmpfs none /dev/shm
    mkdir -p /run/nvidia /run/cdi
    mount --bind "$host/run/nvidia" /run/nvidia
    mount --bind "$specs" /run/cdi
    mount --bind "$nodes/dev" /run/nvidia/driver/dev
    mount --bind "$host/sys" /run/nvidia/driver/sys
    mount --bind "$host/proc/driver" /proc/driver
    mount --bind "$host/proc/devices" /proc/devices
    PATH=$work/bin:$PATH
    exec "$@"' sh "$@"
}
theirs() { # MODE [OPTION...]: the toolkit's specification of the same machine
  needs nvidia-ctk nvidia-cdi-hook
  in_machine sh -euc 'mount --bind "$host/sys" /sys
    exec "$@"' sh nvidia-ctk cdi generate --mode="$1" --driver-root /run/nvidia/driver \
    --nvidia-cdi-hook-path "$work/bin/nvidia-cdi-hook" --output "$BATS_TEST_TMPDIR/theirs.json" "${@:2}"
  assert_success
}
# What is in a specification, a line each: hooks by their names, and the links that one of them makes.
said() { # FILE
  jq -r 'def edits(of): (.deviceNodes[]? | "\(of) node \(.path) \(.major):\(.minor // 0) mode \(.fileMode) \(.permissions)"),
      (.mounts[]? | "\(of) mount \(.hostPath) \(.containerPath) \(.options | sort | join(","))"), (.env[]? | "\(of) env \(.)"),
      (.hooks[]? | "hook \(.hookName) \(.args[1:3] | map(select(test("^[a-z][a-z-]*$"))) | join(" "))",
        (.args[] | select(test("::")) | "link \(.)"));
    (.devices[] | .name as $name | .containerEdits | edits($name)), (.containerEdits | edits("every"))' "$1" | sort -u
}
# The difference between the toolkit's specification and ours is what is listed, as `diff` says it, and why it is so. Libraries
# of EGL have versions of their own.
assert_difference() { # SIDES SED: "<" is the toolkit's, ">" ours; on both
  local sed="s/(-egl-[a-z]+\.so)[.0-9]+::/\1.*::/; s/ rwm?\$//; $2"
  run diff -u <(sed 's/ *# .*//; /^$/d' | LC_ALL=C sort) <(diff <(said "$BATS_TEST_TMPDIR/theirs.json" | sed -E "$sed" | sort -u) \
    <(said "$specs/kmodsmith.json" | sed -E "$sed" | sort -u) | grep "^[$1]" | LC_ALL=C sort)
  assert_success
}

@test "nvidia-ctk lists the devices of our specification, and none of one with a member that the format has not" {
  needs nvidia-ctk
  in_machine nvidia-ctk --quiet cdi list --spec-dir "$specs"
  assert_success
  assert_equal "$(sort <<<"$output")" "$(jq -r '.devices[] | "nvidia.com/gpu=\(.name)"' "$specs/kmodsmith.json" | sort)"
  assert_equal ${#lines[@]} 17 # each GPU by index and by UUID, and all of them
  jq '.containerEdits.another = 1' "$specs/kmodsmith.json" >"$BATS_TEST_TMPDIR/wrong"
  mv "$BATS_TEST_TMPDIR/wrong" "$specs/kmodsmith.json"
  in_machine nvidia-ctk cdi list --spec-dir "$specs"
  assert_output --partial "Found 0 CDI devices"
  assert_output --partial another
}

@test "a container gets what the toolkit's specification of the same driver root gives it, but for what is listed here" {
  local one
  theirs nvml
  for one in libcuda.so gsp nvidia-smi vdpau/ nvidia.icd nvidia_icd.json 10_nvidia.json gbm.json nvidia_drv.so libglxserver outputclass; do
    assert_regex "$(jq -r '.containerEdits.mounts[].containerPath' "$BATS_TEST_TMPDIR/theirs.json" | paste -sd' ')" "$one" # of each kind
  done
  assert_equal "$(jq -c '[.. | .permissions? // empty] | unique' "$BATS_TEST_TMPDIR/theirs.json" "$specs/kmodsmith.json" | xargs)" \
    "[rwm] [rw]" # who opens a node need not make it
  assert_regex "$(said "$BATS_TEST_TMPDIR/theirs.json")" "3 node /dev/dri/card3.*link ../card3::"
  assert_difference '<>' 's#::/run/nvidia/driver/dev/#::/dev/#' <<EOF # its links of graphics are where no program looks
< every env NVIDIA_CTK_LIBCUDA_DIR=/$lib # nvidia-cdi-hook reads it
< every mount /dev/null /var/run/nvidia-container-devices/void bind,nodev,nosuid,ro # where nvidia-container-runtime takes devices from mounts
< every mount /run/nvidia/driver/run/nvidia-fabricmanager/socket /run/nvidia-fabricmanager/socket nodev,noexec,nosuid,rbind,rprivate
< every mount /run/nvidia/driver/run/nvidia-persistenced/socket /run/nvidia-persistenced/socket nodev,noexec,nosuid,rbind,rprivate
> every mount /run/nvidia/driver/run/nvidia-fabricmanager /run/nvidia-fabricmanager nodev,noexec,nosuid,rbind,ro,rprivate # a daemon that
> every mount /run/nvidia/driver/run/nvidia-persistenced /run/nvidia-persistenced nodev,noexec,nosuid,rbind,ro,rprivate # starts again makes another
< hook createContainer create-symlinks # "links" is ours
> hook createContainer cdi-hook links
< hook createContainer update-ldcache # "ldcache" is ours, and looks for a compatibility library, too
< hook createContainer enable-cuda-compat
> hook createContainer cdi-hook ldcache
< hook createContainer disable-device-node-modification # "ldcache" does that,
< hook createContainer update-application-profile # and that
< hook createRuntime apply-cuda-memory-limits # only where an image asks for one
> link libnvidia-egl-gbm.so.*::/$lib/libnvidia-egl-gbm.so.1 # in a container without a writable ld.so.cache, too
> link libnvidia-egl-wayland.so.*::/$lib/libnvidia-egl-wayland.so.1
EOF
}

@test "a container that manages GPUs lacks the nodes of those who manage partitions and NVLink, and nothing else" {
  theirs management
  assert_difference '<' 's/^all node/every node/; /^hook| env |void |\/run\/nvidia-/d' <<EOF # what a container of ours lacks, too
< every node /dev/nvidia-caps/nvidia-cap0 245:0 mode 256 # fabric-mgmt, for who manages NVLink
< every node /dev/nvidia-caps/nvidia-cap1 245:1 mode 256 # mig/config, for who makes partitions
< every node /dev/nvidia-caps/nvidia-cap2 245:2 mode 292 # mig/monitor, for who looks at all of them
EOF
}

in_container() { # RUNTIME OPTION... COMMAND: of podman; in a container whose root is the image. What is mounted in /proc comes with it
  store=$(mktemp -d "$BATS_TEST_TMPDIR/store.XXXXXX")
  cp -a "$image" "$store/root"
  in_machine podman --root "$store/storage" --runroot /run/podman --storage-driver vfs --runtime "$1" --cgroup-manager cgroupfs \
    run --rm --volume /proc:/proc --network none --log-driver none --ulimit nofile=512:512 --ulimit nproc=512:512 "${@:2:$#-2}" --rootfs "$store/root" sh -c "${*: -1}"
}
assert_served() { # the real library of the driver answers, by its SONAME, beside the one GPU
  assert_success
  assert_equal ${#lines[@]} 4
  assert_line --index 0 --regexp '^CUDA [0-9]+$'
  assert_line --index 1 "libcuda.so.$V"
  assert_line --index 2 "c3:3 666" # 195:3, in hexadecimal digits
  assert_line --index 3 1
}
looks='user; readlink /usr/lib/x86_64-linux-gnu/libcuda.so.1; stat -c "%t:%T %a" /dev/nvidia3; ls /dev | grep -c "nvidia[0-9]"'

@test "over our driver root, the toolkit's specification serves a container" {
  theirs nvml
  mv "$BATS_TEST_TMPDIR/theirs.json" "$specs/kmodsmith.json"
  in_container runc --device nvidia.com/gpu=3 "$looks"
  assert_served
}

# As the toolkit's container installs it: a script that names its configuration.
runtime() { # NAME=VALUE...: of the configuration
  local config=$BATS_TEST_TMPDIR/config/nvidia-container-runtime/config.toml
  mkdir -p "${config%/*}"
  "$work/bin/nvidia-ctk" --quiet config "${@/#/--set=}" --output "$config"
  printf '#!/bin/sh\nXDG_CONFIG_HOME=%s exec %s "$@"\n' "${config%/*/*}" "$work/bin/nvidia-container-runtime" >"$BATS_TEST_TMPDIR/runtime"
  chmod +x "$BATS_TEST_TMPDIR/runtime"
}
assert_runtime_serves() {
  in_container "$BATS_TEST_TMPDIR/runtime" --env NVIDIA_VISIBLE_DEVICES=3 "$looks"
  assert_served
  in_container "$BATS_TEST_TMPDIR/runtime" --env NVIDIA_VISIBLE_DEVICES=void "$looks"
  assert_line --partial "libcuda.so.1: cannot open shared object file"
  assert_line 0
}

@test "nvidia-container-runtime gives a container the GPUs that its environment asks for, from our specification" {
  needs nvidia-ctk nvidia-container-runtime
  runtime nvidia-container-runtime.mode=cdi
  assert_runtime_serves
}

@test "nvidia-container-runtime does so without a specification, from our driver root" {
  needs nvidia-ctk nvidia-cdi-hook nvidia-container-runtime
  rm "$specs/kmodsmith.json"
  runtime nvidia-container-cli.root=/run/nvidia/driver nvidia-ctk.path="$work/bin/nvidia-ctk"
  assert_runtime_serves
}

@test "nvidia-ctk makes the same nodes as we do, and links in /dev/char that lead where ours do" {
  local node made=$BATS_TEST_TMPDIR/made
  needs nvidia-ctk
  mkdir -p "$made"/{dev,char}
  in_machine nvidia-ctk --quiet system create-device-nodes --root "$made" --control-devices
  assert_success
  assert_equal "$(find "$made/dev" -type c -printf "%f\n" | sort | paste -sd" ")" "nvidia-modeset nvidia-uvm nvidia-uvm-tools nvidiactl"
  for node in "$made"/dev/*; do
    assert_equal "$(stat -c '%t:%T %a' "$node")" "$(stat -c '%t:%T %a' "$nodes/dev/${node##*/}")"
  done
  in_machine sh -euc 'mount --bind "$host/sys" /sys
    exec nvidia-ctk --quiet system create-dev-char-symlinks --create-all --dev-char-path "$1"' sh "$made/char"
  assert_success
  find "$host/dev/char" -type l -printf '%f %l\n' | sed 's| \.\./| /dev/|' | sort >"$made/ours"
  find "$made/char" -type l -printf '%f %l\n' | sort >"$made/theirs"
  run comm -23 "$made/ours" "$made/theirs"
  assert_output - <<EOF
243:0 /dev/nvidia-nvswitch0
243:1 /dev/nvidia-nvswitch1
243:2 /dev/nvidia-nvswitch2
243:255 /dev/nvidia-nvswitchctl
243:3 /dev/nvidia-nvswitch3
244:0 /dev/nvidia-nvlink
245:0 /dev/nvidia-caps/nvidia-cap0
EOF
  run grep -vE '^245:[0-9]+ /dev/nvidia-caps/' <(comm -13 "$made/ours" "$made/theirs")
  assert_output "" # but for partitions that could be made: we link their nodes when they are
}

# The GPU Operator's validator in a root of its own, as in its pod: programs, /run/nvidia, /dev/char of the machine, and an API
# server that knows of the operator's DaemonSet.
validate() { # COMPONENT
  port=$port in_machine sh -euc '
    for one in bin etc lib lib64 sbin usr; do mkdir -p "$pod/$one" && mount --bind "/$one" "$pod/$one"; done
    mkdir -p "$pod"/dev "$pod"/proc "$pod"/host-dev-char "$pod"/tmp "$pod"/run/nvidia "$pod/var/run/secrets/kubernetes.io/serviceaccount"
    cp "$CA" "$pod/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
    echo token >"$pod/var/run/secrets/kubernetes.io/serviceaccount/token"
    cp "$(readlink -f "$work/bin/validator")" "$pod/validator"
    mount --bind "$work/nvidia-smi" /run/nvidia/driver/usr/bin/nvidia-smi
    mount --rbind /run/nvidia "$pod/run/nvidia"
    mount --rbind /proc "$pod/proc"
    mount --rbind /dev "$pod/dev"
    export KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT="$port" OPERATOR_NAMESPACE=gpu-operator
    exec chroot "$pod" /validator --component "$1"' sh "$1"
}

@test "the GPU Operator's validator finds our driver root ready, when the file that it waits for is there, and not without libraries" {
  local command node
  needs validator
  export pod=$BATS_TEST_TMPDIR/pod
  mkdir -p "$pod" && cp -a "$host/dev/char" "$pod/host-dev-char" # with our links
  validate driver
  assert_failure
  assert_output --partial "cannot statx '/run/nvidia/validations/.driver-ctr-ready'"
  command=$(sed -n "/exec AGENT-POD/,/'$/p" "$top/docs/man/kmodsmith-operator.7.scd" | sed "1s/.*sh -ec '//; \$s/'\$//")
  sh -ec "${command//\/proc\/1\/root/$host}"
  validate driver
  assert_success
  assert_line "$V" # of nvidia-smi, with the library that the validator found
  run cat "$host/run/nvidia/validations/driver-ready"
  assert_output - <<EOF
IS_HOST_DRIVER=false
NVIDIA_DRIVER_ROOT=/run/nvidia/driver
DRIVER_ROOT_CTR_PATH=/driver-root
NVIDIA_DEV_ROOT=/run/nvidia/driver
DEV_ROOT_CTR_PATH=/driver-root
EOF
  for node in "$host"/dev/char/*; do # the others that it makes are of partitions
    assert_equal "$(readlink "$pod/host-dev-char/${node##*/}")" "$(readlink "$node")"
  done
  mv "$driver/$lib/libnvidia-ml.so.1" "$driver/$lib/another"
  validate driver
  mv "$driver/$lib/another" "$driver/$lib/libnvidia-ml.so.1"
  assert_failure
  assert_output --partial 'error locating \"libnvidia-ml.so.1\"'
  assert_file_not_exist "$host/run/nvidia/validations/driver-ready"
}
