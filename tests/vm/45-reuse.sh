# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A kernel update: the package that was made for the kernel before it. When all CRCs are equal it is loaded, without compiler,
# headers and network; when one differs it is refused with the names of the symbols, before anything is touched, as is that of
# an older kernel. Which of the two this run's kernels are, modprobe and Module.symvers decide.
# kernel: K61
# gpus: 2
# stub: yes
# packages: open:K61B open:K61R proprietary:K61B
# beside: symvers
# programs: mke2fs
# disk: 256M
# boots: 2
# mem: 2G
# timeout: 600
state=/var/lib/kmodsmith
# shellcheck source=/dev/null
. /beside/crcs.sh
loaded() { cat /sys/module/nvidia/srcversion /sys/module/nvidia/taint /proc/sys/kernel/tainted 2>/dev/null | tr '\n' ' '; }
forced() { [ $(($(cat /proc/sys/kernel/tainted) & 2)) != 0 ] && echo forced || echo not; }
fits() { crcs_fit /beside/symvers "/packages/$1.d"; }
refused() { # PACKAGE RELEASE: the module that differs most is named, six of its symbols and how many more
  most=0
  for module in nvidia nvidia-uvm nvidia-modeset; do
    crcs_of /beside/symvers "/packages/$1.d/$module.ko" "/packages/$1.d/nvidia.ko" | sed -n 's/^differs //p' >/tmp/differ
    differ=$(wc -l </tmp/differ)
    [ "$differ" -le "$most" ] || { most=$differ worst=$module && mv /tmp/differ /tmp/worst; }
  done
  t_fails 1 "the package of $1 does not fit: the kernel itself refuses its module" insmod "/packages/$1.d/$worst.ko"
  like "  it disagrees about a symbol" "$(dmesg_since)" 'disagrees about version of symbol'
  before=$(loaded)
  t_fails 1 "the package of $1 does not fit: install refuses it" kmodsmith install --package "/packages/$1"
  like "  the count of CRCs is that of modprobe" "$out" "E_ABI: no package: $worst made for $2: $most CRCs differ: "
  printf '%s\n' "$out" | sed -n 's/.* CRCs differ: \([^:;]*\).*/\1/p' | head -n 1 | sed 's/ and [0-9]* more.*//' | tr -d ' ' | tr ',' '\n' >/tmp/named
  is "  so many symbols are named" "$(wc -l </tmp/named)" $((most > 6 ? 6 : most))
  is "  all of them are among those of modprobe" "$(grep -vxFf /tmp/worst /tmp/named)" ""
  [ "$most" -le 6 ] || like "  the rest is counted" "$out" " and $((most - 6)) more"
  t_fails 20 "  check says so, too" kmodsmith check --package "/packages/$1"
  is "  nothing was touched" "$(loaded)" "$before"
}
mkdir -p $state
if [ "$boot" = 1 ]; then /usr/bin/mke2fs -q -t ext4 /dev/nvme0n1; fi
mount -t ext4 /dev/nvme0n1 $state
dmesg_since >/dev/null

if [ "$boot" = 2 ]; then
  rm -r /packages
  if [ ! -e $state/fits ]; then
    t_fails 1 "another boot: what was refused is in no store" kmodsmith install --driver "$OPEN_VERSION"
    like "  there is no package" "$out" 'E_NO_PACKAGE'
    exit 0
  fi
  t "another boot: from the store, nobody is asked" kmodsmith install --driver "$OPEN_VERSION"
  unlike "  nothing is decided again" "$out" '^kmodsmith: reuse '
  like "  the kernel that it was made for is told" "$out" "^pass +package +compatible \(made for $K61B\)"
  like "  it runs" "$(cat /proc/driver/nvidia/version)" "  $OPEN_VERSION "
  exit 0
fi

refused open-K61R "$K61R"
if ! fits open-K61B; then
  refused open-K61B "$K61B"
  is "nothing is kept of what was refused" "$(find $state/store/blobs -type f 2>/dev/null | wc -l)" 0
  exit 0
fi

t_fails 1 "a package of the kernel before, and reuse is off: refused" kmodsmith install --package /packages/open-K61B --reuse off
like "  as if there were none" "$out" 'E_NO_PACKAGE'
is "  nothing was touched" "$(loaded)" "$(cat /proc/sys/kernel/tainted) "
t_fails 10 "check of a package of the kernel before: compatible" kmodsmith check --package /packages/open-K61B
t "plan with a package of the kernel before" kmodsmith plan --package /packages/open-K61B
equal=$(crcs_of /beside/symvers /packages/open-K61B.d/nvidia.ko | grep -c '^equal')
like "  all CRCs that modprobe counts are equal" "$out" "package .* compatible: made for kernel $K61B, nvidia: .* all $equal CRCs equal"
dmesg_since >/dev/null
t "install a package of the kernel before" kmodsmith install --package /packages/open-K61B
printf '%s\n' "$out" | sed -n 's/^kmodsmith: /# /p'
unlike "  nothing was compiled" "$out" '^kmodsmith: compile '
like "  the kernel that it was made for is told" "$out" "^pass +package +compatible \(made for $K61B\)"
like "  it runs" "$(cat /proc/driver/nvidia/version)" "Open Kernel Module for x86_64  $OPEN_VERSION "
is "  the load was not forced" "$(forced)" not
unlike "  the kernel had nothing to say" "$(dmesg_since)" 'disagrees|version magic|no symbol version'
t "  a GPU can be opened" sh -c ': </dev/nvidia0'
t "status of a driver that was made for the kernel before" kmodsmith status --json
like "  made_for is that kernel" "$out" "\"made_for\": \"$K61B\""
first=$(loaded)
t "install what is loaded again" kmodsmith install --driver "$OPEN_VERSION" --flavour open
like "  it is adopted" "$out" '^kmodsmith: adopt '
rm /run/kmodsmith/loaded.json
t "install what is loaded without the note of this boot" kmodsmith install --driver "$OPEN_VERSION" --flavour open
like "  it is still ours" "$out" '^kmodsmith: adopt '
is "  it was not loaded anew" "$(loaded)" "$first"

if fits proprietary-K61B; then
  t "the other flavour, of the kernel before as well, replaces it" kmodsmith install --package /packages/proprietary-K61B
  t_fails 1 "a load that fails after that" kmodsmith install --driver "$OPEN_VERSION" --flavour open --param nvidia:NVreg_DeviceFileMode=often
  like "  what was compatible comes back" "$out" "back .* $PROPRIETARY_VERSION proprietary is loaded again"
  like "  it is known as compatible" "$(kmodsmith status)" "package +compatible \(made for $K61B\)"
  rm /run/kmodsmith/loaded.json # that it is ours is known to the store
  t "the open one comes from the store, after a proof of its own" kmodsmith install --driver "$OPEN_VERSION" --flavour open
fi
t "what serves stays when garbage is collected" kmodsmith store gc
like "  store ls tells its kernel" "$(kmodsmith store ls)" "$K61B .*compatible with $K61"
: >$state/fits
