# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Pods in a guest with "# root: debian" and "# image: driver": what a kubelet and a container runtime do, done with runc. First
# comes the pod's pause container, which has the pod's network and mounts its sysfs read-only, as containerd before 2.1 has
# it for every pod: the container's own sysfs is then read-only below a mount that says rw. It outlives a killed container.
# Each container has the image below and an own layer above, in an overlay on the guest's disk; a killed container and a
# deleted pod differ in what is asked of it first. What the containers print is kept across restarts of the same pod.
#   pod_start NAME SHAPE [VAR=VALUE...] [-- ARG...]  a new container of pod NAME as SHAPE says (shapes.json); ARGs for its own
#   pod_run NAME SHAPE [VAR=VALUE...]  the same, until it ends: with its exit status
#   pod_exec NAME COMMAND...     in the container
#   pod_log NAME                 what this container printed
#   pod_alive NAME               its first process runs
#   pod_wait_log NAME REGEXP     it has printed a line that matches; fails when it ends first
#   pod_wait_ready NAME          the operator's startup probe passes; fails when the container ends first
#   pod_wait_end NAME            it ends by itself
#   pod_kill NAME                kill -9 of all of it, as when it crashes
#   pod_delete NAME              preStop, SIGTERM, 30 s, kill; nothing of it is left
#   driver_manager               what the operator's init container does to the node before the driver's container starts
#   seconds COMMAND...           in $took; the status is the command's
pods=/run/pods
here=/vm/pods

pods_begin() { # once a boot
  mkdir -p $pods/scratch/bin /var/lib/pods
  cp /bin/busybox $pods/scratch/bin/ && $pods/scratch/bin/busybox --install $pods/scratch/bin &&
    cp $here/startup-probe.sh $pods/ && modprobe overlay && syslogd -O /var/log/messages
}

host_devices() { # TYPE MAJOR MINOR PATH of what a privileged container gets of the host's /dev
  find /dev \( -path /dev/pts -o -path /dev/shm \) -prune -o \( -type c -o -type b \) -exec stat -c '%t %T %n %F' {} + |
    while read -r major minor device kind; do
    case $kind in b*) kind=b ;; *) kind=c ;; esac
    echo "$kind $((0x$major)) $((0x$minor)) $device"
  done
}

pod_mounts() { # SHAPE: the directories that are made when the host has none, and none of the files
  jq -r --arg shape "$1" '.mounts as $m | .shapes[$shape].mounts[] | $m[.][][1]' $here/shapes.json | while read -r path; do
    [ -e "$path" ] || mkdir -p "$path"
  done
}

pod_image() { # SHAPE: sets image and, what its configuration says, config
  image=/images/driver config=/images/driver.json
  case $1 in
  consumer | pause) image=$pods/scratch ;;
  toolkit*) image=/toolkit/root config=/toolkit/image.json ;;
  esac
}
pod_layers() { # NAME SHAPE
  pod_image "$2"
  mkdir -p "$pods/$1/rootfs" "/var/lib/pods/$1/upper" "/var/lib/pods/$1/work"
  mount -t overlay -o "lowerdir=$image,upperdir=/var/lib/pods/$1/upper,workdir=/var/lib/pods/$1/work" overlay "$pods/$1/rootfs"
}

pod_config() { # NAME SHAPE ENV ARGS DEVICES PAUSE: the bundle of one container; PAUSE: process of the pod's first one
  pod_layers "$1" "$2"
  pod_mounts "$2"
  : >"$pods/$1/termination-log"
  # shellcheck disable=SC2016 # of jq
  jq --arg shape "$2" --arg name "$1" --arg env "$3" --arg args "$4" --arg devices "$5" --arg pause "$6" \
    --slurpfile images "$config" '$images[0] as $image | '"$(grep -v '^#' $here/oci.jq)" $here/shapes.json \
    >"$pods/$1/config.json"
}
pod_pause() { # NAME: unless it is there
  ! pod_alive "$1.pause" || return 0
  container_clear "$1.pause"
  pod_config "$1.pause" pause '' '' '' ''
  runc run --detach --bundle "$pods/$1.pause" "$1.pause" >"$pods/$1.pause/log" 2>&1 </dev/null || cat "$pods/$1.pause/log"
}
pod_make() {
  pod=$1 shape=$2 pod_env='' pod_args=''
  shift 2
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    pod_env="$pod_env$1
"
    shift
  done
  if [ $# -gt 0 ]; then shift && pod_args=$*; fi
  container_clear "$pod"
  pod_pause "$pod"
  pod_config "$pod" "$shape" "$pod_env" "$pod_args" "$(host_devices)" "$(pod_pid "$pod.pause")"
}
pod_run() {
  pod_make "$@" && runc run --bundle "$pods/$pod" "$pod" >"$pods/$pod/log" 2>&1 </dev/null
  set -- $?
  pod_log "$pod"
  return "$1"
}
pod_start() {
  pod_make "$@" || return
  runc run --detach --bundle "$pods/$pod" "$pod" >"$pods/$pod/log" 2>&1 </dev/null && return
  pod_log "$pod"
  return 1
}

pod_state() { runc state "$1" 2>/dev/null | sed -n 's/^ *"status": "\(.*\)".*/\1/p'; }
pod_pid() { runc state "$1" | sed -n 's/^ *"pid": \([0-9]*\).*/\1/p'; }
pod_alive() { [ "$(pod_state "$1")" = running ]; }
pod_exec() { name_of=$1 && shift && runc exec "$name_of" "$@"; }
pod_log() { cat "$pods/$1/log"; }

# until_ended NAME COMMAND...: until it succeeds; fails when the container ends first, or after as many attempts as the
# operator's startup probe has.
until_ended() {
  of=$1 attempts=120
  shift
  until "$@" >/tmp/until 2>&1; do
    attempts=$((attempts - 1))
    if [ $attempts -eq 0 ] || ! pod_alive "$of"; then cat /tmp/until; pod_log "$of"; return 1; fi
    sleep 0.5
  done
}
pod_wait_log() { until_ended "$1" grep -qE "$2" "$pods/$1/log"; }
pod_wait_ready() { until_ended "$1" runc exec "$1" sh /usr/local/bin/startup-probe.sh; }
pod_wait_end() { while pod_alive "$1"; do sleep 0.2; done; }

pod_kill() {
  runc kill --all "$1" KILL
  pod_wait_end "$1"
}
container_clear() { # what is left of one that ended
  runc delete --force "$1" >/dev/null 2>&1
  if [ -d "$pods/$1/rootfs" ]; then
    umount "$pods/$1/rootfs"
    rm -rf "/var/lib/pods/$1" "$pods/$1/rootfs"
  fi
}
pod_clear() { # what is left of a pod whose container ended
  container_clear "$1"
  container_clear "$1.pause"
}
pod_delete() {
  validations=/run/nvidia/validations
  pod_alive "$1" || { echo "$1 does not run" && return 1; }
  runc exec "$1" /bin/sh -c "rm -f $validations/.driver-ctr-ready $validations/.driver-daemons-status"
  runc kill "$1" TERM
  grace=150
  while pod_alive "$1" && [ $grace -gt 0 ]; do
    grace=$((grace - 1))
    sleep 0.2
  done
  [ $grace -gt 0 ] || { runc kill --all "$1" KILL; echo "$1 had to be killed"; }
  pod_clear "$1"
  [ $grace -gt 0 ]
}

# k8s-driver-manager, steps C, E, H and I of driver-container contract 2.3: DIGEST is what the new pod has been given.
driver_manager() { # [DIGEST]
  if grep -q '^nvidia ' /proc/modules && [ "${1-}" != "$(cat /run/nvidia/nvidia-driver.state 2>/dev/null)" ]; then
    for module in nvidia_modeset nvidia_uvm nvidia_peermem nvidia; do
      ! grep -q "^$module " /proc/modules || rmmod $module || return 1
    done
  fi
  awk '$5 ~ "^/run/nvidia/driver(/|$)" { print $5 }' /proc/self/mountinfo | sort -r | while read -r mount; do
    umount -l "$mount"
  done
  rm -f /run/nvidia/nvidia-driver.pid
}

seconds() {
  begun=$(cut -d ' ' -f 1 /proc/uptime)
  "$@"
  set -- $?
  # shellcheck disable=SC2034 # for the tests
  took=$(awk -v begun="$begun" '{ printf "%.1f", $1 - begun }' /proc/uptime)
  return "$1"
}

# What the node has from a publisher (# beside: store), as it was left by an earlier start of the driver.
node_has_store() {
  mkdir -p /etc/kmodsmith /var/lib/kmodsmith
  cp -r /beside/trust /etc/kmodsmith/trust && cp -r /beside/store /var/lib/kmodsmith/store
}
