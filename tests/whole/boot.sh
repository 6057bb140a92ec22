#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first process of a node (tests/whole/node, which says what is in the environment): mounts what a boot mounts, and keeps what a node runs.
# shellcheck disable=SC2154,SC2046 # the environment; two numbers
set -euo pipefail
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$root,upperdir=$dir/state/upper,workdir=$dir/state/work" "$dir/root"
cd "$dir/root"

mount -t proc proc proc
mount -t sysfs sysfs sys
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup2 sys/fs/cgroup
  # No process may be where controllers are handed on.
  mkdir sys/fs/cgroup/boot && echo 0 >sys/fs/cgroup/boot/cgroup.procs
  sed 's/[a-z]*/+&/g' sys/fs/cgroup/cgroup.controllers >sys/fs/cgroup/cgroup.subtree_control
else
  mount -t tmpfs tmpfs sys/fs/cgroup
  for controller in cpu cpuacct cpuset memory devices freezer blkio pids; do
    mkdir "sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" cgroup "sys/fs/cgroup/$controller"
  done
  mkdir sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi
mount -t tmpfs tmpfs dev
mkdir dev/{pts,shm}
for device in null zero full random urandom tty; do mknod -m 666 "dev/$device" c $(stat -c '0x%t 0x%T' "/dev/$device"); done
mknod -m 600 dev/kmsg c 1 11
ln -s /proc/self/fd dev/fd
for number in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${number%:*}" "dev/${number#*:}"; done
mount -t devpts devpts dev/pts -o newinstance,ptmxmode=0666
ln -s pts/ptmx dev/ptmx
for folder in dev/shm run tmp; do mount -t tmpfs tmpfs "$folder"; done

# A kubelet and a proxy set what is the kernel's and not the node's: they get files that say it is set, and cannot write the rest.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount --bind proc/sys/net proc/sys/net
mount -o remount,bind,rw proc/sys/net
mkdir run/sysctl
for value in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file=run/sysctl/${value//[\/=]/-}
  echo "${value#*=}" >"$file"
  mount --bind "$file" "proc/sys/${value%=*}"
done
echo 1 >proc/sys/net/ipv4/ip_forward

mkdir -p var/lib/{containerd,kubelet} machine etc/{kubernetes,cni/net.d,containerd/certs.d/"$registry"} opt/whole
mount --bind "$dir/state/containerd" var/lib/containerd
mount --bind "$dir/state/kubelet" var/lib/kubelet
mount --bind "$dir/log" var/log
mount --bind "$dir/machine" machine
mount --bind "$KUBE_NODE" opt/whole
cp "$dir"/etc/{node.conf,proxy.conf,ca.pem,kubelet.yaml} etc/kubernetes
sed "s/PODS/$pods/" "$dir/etc/cni.json" >etc/cni/net.d/10-whole.conflist
cp "$dir/etc/containerd.toml" etc/containerd/config.toml
cp "$dir/etc/hosts.toml" "etc/containerd/certs.d/$registry"
hostname "$name"
printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" >etc/hosts
: >etc/resolv.conf

mkdir -p .old
pivot_root . .old
umount -l .old
mount --make-rshared /
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
keep() { # NAME COMMAND...: started again when it ends, as a service manager does, with nothing of the test in its environment
  while :; do
    env -i PATH="$PATH" HOME=/root "${@:2}" >>"/var/log/$1.log" 2>&1
    sleep 1
  done
}
set +e
keep containerd containerd &
until [ -S /run/containerd/containerd.sock ]; do sleep 0.1; done
keep kubelet /opt/whole/kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/etc/kubernetes/node.conf --hostname-override="$name" \
  --node-ip="$address" --node-labels="nvidia.com/gpu.present=true" -v=2 &
keep kube-proxy /opt/whole/kube-proxy --kubeconfig=/etc/kubernetes/proxy.conf --proxy-mode=iptables --cluster-cidr=10.244.0.0/16 \
  --hostname-override="$name" --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0 &
while :; do wait -n || sleep 1; done
