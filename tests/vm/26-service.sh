# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-E5: a host of its own, with systemd as its first process. apt installs our package, the administrator says which driver, and one
# command loads it and keeps it; apt installs the next kernel, the watcher has its package before the reboot, and that boot loads it by
# itself. apt purges the package, and nothing of it is left but the driver that is loaded.
# kernel: K61R K13
# next: K61
# next@13: K13B
# gpus: 1
# stub: yes
# packages: open:K61R open:K61
# packages@13: open13:K13 open13:K13B
# kernel-debs: K61
# kernel-debs@13: K13B
# deb: yes
# root: service
# boots: 2
# mem: 3G
# append: systemd.show_status=no
# timeout: 1800
conf=/etc/kmodsmith/kmodsmith.conf
driver=$OPEN_VERSION next=$K61 from="oci:/packages/open-K61R, oci:/packages/open-K61"
[ ! -d /packages/open13-K13 ] || driver=$OPEN13_VERSION next=$K13B from="oci:/packages/open13-K13, oci:/packages/open13-K13B"
export DEBIAN_FRONTEND=noninteractive
modules() { awk '/^nvidia/ { print $1 }' /proc/modules | sort | tr '\n' ' '; }
apt() { apt-get -o APT::Sandbox::User=root -y --no-install-recommends "$@"; }
# All that is the machine's, but logs, caches and what systemd and the package manager note about themselves.
machine() {
  find / -xdev \( -path /tmp -o -path /root -o -path /var/log -o -path /var/cache -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/systemd \
    -o -path /var/tmp \) -prune -o ! -type d -print | sort
}
until_ready() { # the watcher looks when a hook tells it, and every 15 minutes: what it does not find at once it says
  for _ in $(seq 150); do
    ! grep -q '"verdict": "ready"' /run/kmodsmith/kernels.json || return 0
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
  mkdir -p "/lib/firmware/nvidia/$driver" # of the driver's user space, which is left to the distribution
  for name in tu10x ga10x; do echo placeholder >"/lib/firmware/nvidia/$driver/gsp_$name.bin"; done
  machine >/root/before
  t "apt installs the package" apt install /files/kmodsmith.deb
  like "  and says what to do next" "$out" "systemctl enable --now kmodsmith kmodsmith-watch"
  is "  nothing is started by itself" "$(systemctl is-enabled kmodsmith kmodsmith-watch) $(systemctl is-active kmodsmith kmodsmith-watch)" \
    "$(printf 'disabled\ndisabled inactive\ninactive')"
  t_fails 1 "a start without a driver named fails" systemctl start kmodsmith
  is "  at once, and is not tried again" "$(of_unit SubState ExecMainStatus NRestarts)" "failed 2 0 "
  errors=$(journalctl -b -t kmodsmith -p err -o cat)
  like "  the journal says why, among its errors" "$errors" "^error: E_USAGE: nothing says what to install"
  like "  and what to do next" "$errors" "^next: .kmodsmith install VERSION --from "
  unlike "  without the name that it has anyway" "$(journalctl -b -t kmodsmith -o cat)" "kmodsmith: "
  printf '%s\n' "driver = $driver" "from = $from" "insecure-skip-verify = yes" >>$conf
  t "one command: the driver, now and at each boot, and the watcher" systemctl enable --now kmodsmith kmodsmith-watch
  t "the node is ready" kmodsmith status
  is "  all modules are loaded" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
  loaded=$(cat /sys/module/nvidia/srcversion)
  t "apt installs the next kernel" apt install $(find /files -name 'linux-*.deb' ! -name '*-headers-*' ! -name '*-kbuild-*')
  echo "$out" | grep -E 'postinst.d|initrd|Setting up' | sed 's/^/#   /'
  t "the watcher has its package before the reboot" until_ready
  like "  status tells it" "$(kmodsmith status)" "^kernel $(literally "$next") .*ready"
  is "  the driver was not touched" "$(cat /sys/module/nvidia/srcversion) $(modules)" "$loaded nvidia nvidia_modeset nvidia_uvm "
  t "a restart of the service changes nothing" systemctl restart kmodsmith
  is "  the driver was not touched, either" "$(cat /sys/module/nvidia/srcversion)" "$loaded"
  exit
fi

is "the next kernel runs" "$(uname -r)" "$next"
t "the boot loaded the driver" systemctl is-active kmodsmith
t "the node is ready" kmodsmith status
is "  all modules are loaded" "$(modules)" "nvidia nvidia_modeset nvidia_uvm "
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
is "  readiness" "$(served readyz)" "yes, driver $driver"
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
machine >/root/after
cat /var/lib/dpkg/info/*.list >/root/others # the kernel came with packages of its own
is "  and nothing of it is left" "$(comm -13 /root/before /root/after | grep -vxFf /root/others | grep -vF "$next" | grep -vE '^/(vmlinuz|initrd.img)(.old)?$')" ""
