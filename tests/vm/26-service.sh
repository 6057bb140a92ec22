# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-E5: a host of its own, with systemd as its first process. The administrator types the commands of README's quick start: apt
# installs our package, a driver is loaded, and stays. apt installs the next kernel, the administrator the next driver; the watcher has
# packages for both before the reboot, and that boot loads the new one by itself. apt purges the package, and nothing of it is left but the
# driver that is loaded.
# kernel: K61R K13
# next: K61
# next@13: K13B
# gpus: 1
# stub: yes
# packages: tesla535:K61R tesla535:K61 open:K61R open:K61
# packages@13: tesla13:K13 tesla13:K13B open13:K13 open13:K13B
# kernel-debs: K61
# kernel-debs@13: K13B
# deb: yes
# files: README.md
# root: service
# boots: 2
# mem: 3G
# append: systemd.show_status=no
# timeout: 1800
conf=/etc/kmodsmith/kmodsmith.conf
old=$TESLA535_VERSION new=$OPEN_VERSION next=$K61 from=
[ ! -d /packages/open13-K13 ] || old=$TESLA13_VERSION new=$OPEN13_VERSION next=$K13B
export DEBIAN_FRONTEND=noninteractive
modules() { awk '/^nvidia/ { print $1 }' /proc/modules | sort | tr '\n' ' '; }
apt() { apt-get -o APT::Sandbox::User=root -y --no-install-recommends "$@"; }
# All that is the machine's, but logs, caches and what systemd and the package manager note about themselves.
machine() {
  find / -xdev \( -path /tmp -o -path /root -o -path /var/log -o -path /var/cache -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/systemd \
    -o -path /var/tmp \) -prune -o ! -type d -print | sort
}
# The commands of README's block for a host, about this driver. Its modules come from a repository: here a compile would take too long.
readme() { # VERSION
  sed -n "/^## Quick start: a host/,/^## /{ s/^    //; T; s/  *#.*//; s/^scripts.* && apt/apt/
    s/[0-9][0-9]*\.[0-9][0-9]*\.[0-9][0-9]*/$1/g; s/--source NVIDIA[^ ]*/--driver $1/; p }" /files/README.md
}
type_all() { # <3 COMMANDS
  while read -r command <&3; do t "README: $command" eval "$command"; done
}
# NVIDIA's .run as far as a payload is made of it. Its sources are never compiled.
nvidia_run() { # VERSION
  mkdir -p run/firmware run/kernel/nvidia
  printf 'ccflags-y += -DNV_VERSION_STRING=\\"%s\\"\n' "$1" >run/kernel/Kbuild
  echo placeholder | tee run/firmware/gsp_tu10x.bin run/firmware/gsp_ga10x.bin run/kernel/nvidia/nv.c "run/libcuda.so.$1" >/dev/null
  {
    printf 'NVIDIA Accelerated Graphics Driver\n%s\n1\nnvidia\n0\n0\n0\n0\n' "$1"
    echo "libcuda.so.$1 0755 CUDA_LIB NATIVE / MODULE:compute"
    cd run && find firmware -type f -printf '%p 0644 FIRMWARE INHERIT_PATH_DEPTH:1\n' &&
      find kernel -type f -printf '%p 0644 KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1\n' && cd ..
  } >run/.manifest
  { printf '#!/bin/sh\nskip=3\n' && tar -C run -c .; } >"NVIDIA-Linux-x86_64-$1.run"
  rm -r run
}
until_ready() { # DRIVER; the watcher looks when something tells it, and every 15 minutes: what it does not find at once it says
  for _ in $(seq 300); do
    ! grep -qF "\"driver\": \"$1\"" /run/kmodsmith/kernels.json || ! grep -q '"verdict": "ready"' /run/kmodsmith/kernels.json || return 0
    sleep 1
  done
  cat /run/kmodsmith/kernels.json
  journalctl -b -u kmodsmith-watch -o cat
  return 1
}
of_unit() { for name in "$@"; do systemctl show -P "$name" kmodsmith; done | tr '\n' ' '; } # PROPERTY...

if [ "$boot" = 1 ]; then
  is "systemd is the first process" "$(cat /proc/1/comm)" systemd
  is "  of the Debian that the kernel is of" "$(. /etc/os-release && echo "$VERSION_ID")" "$(uname -r | sed 's/.*+deb\([0-9]*\).*/\1/; t; s/^6\.1\..*/12/')"
  machine >/root/before
  mkdir -p build/packages
  cp /files/kmodsmith.deb build/packages/kmodsmith_1.deb
  readme "$old" | sed -n 1p >first
  type_all 3<first
  like "  it says what to do next" "$out" "systemctl enable --now kmodsmith kmodsmith-watch"
  is "  nothing is started by itself" "$(systemctl is-enabled kmodsmith kmodsmith-watch) $(systemctl is-active kmodsmith kmodsmith-watch)" \
    "$(printf 'disabled\ndisabled inactive\ninactive')"
  t_fails 1 "a start without a driver named fails" systemctl start kmodsmith
  is "  at once, and is not tried again" "$(of_unit SubState ExecMainStatus NRestarts)" "failed 2 0 "
  errors=$(journalctl -b -t kmodsmith -p err -o cat)
  like "  the journal says why, among its errors" "$errors" "^error: E_USAGE: nothing says what to install"
  like "  and what to do next" "$errors" "^next: .kmodsmith install VERSION --from "
  unlike "  without the name that it has anyway" "$(journalctl -b -t kmodsmith -o cat)" "kmodsmith: "
  for layout in /packages/*/index.json; do from="${from:+$from,}oci:${layout%/*}"; done
  printf 'from = %s\ninsecure-skip-verify = yes\n' "$from" >>$conf
  nvidia_run "$old"
  readme "$old" | sed 1d >rest
  is "README has all of it" "$(wc -l <rest)" 7
  type_all 3<rest
  like "the old driver is loaded" "$(kmodsmith status)" "^Ready: driver $(literally "$old") "
  is "  all modules are" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
  like "  its user space is exported" "$(find /run/nvidia/driver/ -name 'libcuda.so.*')" "/libcuda.so.$(literally "$old")$"
  is "  it is kept" "$(systemctl is-enabled kmodsmith kmodsmith-watch) $(systemctl is-active kmodsmith kmodsmith-watch)" \
    "$(printf 'enabled\nenabled active\nactive')"
  loaded=$(cat /sys/module/nvidia/srcversion) watcher=$(systemctl show -P MainPID kmodsmith-watch)
  t "apt installs the next kernel" apt install $(find /files -name 'linux-*.deb' ! -name '*-headers-*' ! -name '*-kbuild-*')
  echo "$out" | grep -E 'postinst.d|initrd|Setting up' | sed 's/^/#   /'
  t "the watcher has its package before the reboot" until_ready "$old"
  like "  status tells it" "$(kmodsmith status)" "^kernel $(literally "$next") .*ready"
  is "  the driver was not touched" "$(cat /sys/module/nvidia/srcversion) $(modules)" "$loaded nvidia nvidia_modeset nvidia_uvm "
  t "a restart of the service changes nothing" systemctl restart kmodsmith
  is "  the driver was not touched, either" "$(cat /sys/module/nvidia/srcversion)" "$loaded"
  nvidia_run "$new"
  readme "$new" | sed 1d >rest
  type_all 3<rest
  status=$(kmodsmith status)
  like "the new driver is loaded" "$status" "^Ready: driver $(literally "$new") "
  is "  all modules are" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
  like "  it is the last good one" "$status" "^last good: $(literally "$new") open"
  t "the watcher, as it ran, has its package for the next kernel" until_ready "$new"
  is "  it was not started again" "$(systemctl show -P MainPID kmodsmith-watch)" "$watcher"
  exit
fi

is "the next kernel runs" "$(uname -r)" "$next"
t "the boot loaded the driver" systemctl is-active kmodsmith
like "  the new one" "$(kmodsmith status)" "^Ready: driver $(literally "$new") .*kernel $(literally "$next")"
is "  all modules are" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
log=$(journalctl -b -u kmodsmith -o cat)
like "  in the journal, which is no error" "$log" '^detect .* driver not loaded'
unlike "  nor a warning" "$(journalctl -b -u kmodsmith -p warning -o cat)" detect
like "  from the store" "$log" 'package .* from .*/store'
unlike "  without a compile" "$log" 'compile +[0-9]'
like "  before what opens GPUs" "$(of_unit Before)" 'docker.service.* containerd.service|containerd.service.* docker.service'
kmodsmith serve --listen 9477 & # as nobody, who must be able to see all of it
served() { busybox wget -q -O - "http://127.0.0.1:9477/$1"; }
t "metrics and health are served" sh -c 'until busybox wget -q -O /dev/null http://127.0.0.1:9477/; do kill -0 $0 || exit; sleep 0.2; done' $!
is "  by nobody" "$(stat -c %u /proc/$!)" 65534
is "  readiness" "$(served readyz)" "yes, driver $new"
like "  metrics of the node and of its kernels" "$(served metrics)" '^kmodsmith_ready 1$'
t "  also those of the watcher, once it has looked" sh -c \
  'until busybox wget -q -O - http://127.0.0.1:9477/metrics | grep -qx "kmodsmith_next_kernel_ready 1"; do kill -0 $0 || exit; sleep 1; done' $!
kill $!
t "the watcher runs" systemctl is-active kmodsmith-watch
t "apt removes the package" apt remove kmodsmith
t "  its configuration and its store stay" ls $conf /var/lib/kmodsmith/store/index.json
is "  the driver stays loaded" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
is "  the watcher is gone" "$(systemctl is-active kmodsmith-watch)" inactive
t "apt purges it" apt purge kmodsmith
is "  nothing is exported any more" "$(ls -A /run/nvidia/driver)$(cat /sys/module/firmware_class/parameters/path)" ""
machine >/root/after
is "  the kernel has its own modules" "$(grep ^/usr/lib/modules/ /root/before | comm -23 - /root/after)" ""
cat /var/lib/dpkg/info/*.list >/root/others # the kernel came with packages of its own
is "  and nothing of it is left" "$(comm -13 /root/before /root/after | grep -vxFf /root/others | grep -vF "$next" | grep -vE '^/(vmlinuz|initrd.img)(.old)?$')" ""
