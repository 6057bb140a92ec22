# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A kernel update whose CRCs are all equal: 6.1.192-1 to -2, both Debian's own builds. The package that was made for the
# kernel before is loaded into this one, without compiler, headers and network; that of an older kernel is refused by name
# of the symbols before anything is touched.
# kernel: K61
# gpus: 2
# stub: yes
# packages: open:K61B open:K61R proprietary:K61B
# programs: mke2fs
# disk: 256M
# boots: 2
# mem: 2G
# timeout: 600
state=/var/lib/kmodsmith
loaded() { cat /sys/module/nvidia/srcversion /sys/module/nvidia/taint /proc/sys/kernel/tainted 2>/dev/null | tr '\n' ' '; }
forced() { [ $(($(cat /proc/sys/kernel/tainted) & 2)) != 0 ] && echo forced || echo not; }
mkdir -p $state
if [ "$boot" = 1 ]; then /usr/bin/mke2fs -q -t ext4 /dev/nvme0n1; fi
mount -t ext4 /dev/nvme0n1 $state
dmesg_since >/dev/null

if [ "$boot" = 2 ]; then
  rm -r /packages
  t "another boot: from the store, nobody is asked" kmodsmith install --driver 535.261.03
  unlike "  and nothing is decided again" "$out" '^kmodsmith: reuse '
  like "  it says so" "$out" '^pass +package +compatible \(made for 6\.1\.0-55-cloud-amd64\)'
  like "  it runs" "$(cat /proc/driver/nvidia/version)" '  535\.261\.03 '
  exit 0
fi

t_fails 1 "an older kernel's: refused" kmodsmith install --package /packages/open-K61R
like "  with the symbols" "$out" 'E_ABI: no package: nvidia made for 6\.1\.0-50-cloud-amd64: 128 CRCs differ: module_layout, .* and 118 more'
t_fails 20 "  as check says" kmodsmith check --package /packages/open-K61R
t_fails 1 "not allowed: refused" kmodsmith install --package /packages/open-K61B --reuse off
like "  as if there were none" "$out" 'E_NO_PACKAGE'
is "nothing was touched" "$(loaded)" "$(cat /proc/sys/kernel/tainted) "

t_fails 10 "the kernel before: compatible" kmodsmith check --package /packages/open-K61B
t "planned" kmodsmith plan --package /packages/open-K61B
like "  with the proof" "$out" 'package .* compatible: made for kernel 6\.1\.0-55-cloud-amd64, nvidia: .* all 315 CRCs equal'
t "installed" kmodsmith install --package /packages/open-K61B
printf '%s\n' "$out" | sed -n 's/^kmodsmith: /# /p'
unlike "  nothing was compiled" "$out" '^kmodsmith: compile '
like "  it says so" "$out" '^pass +package +compatible \(made for 6\.1\.0-55-cloud-amd64\)'
like "  it runs" "$(cat /proc/driver/nvidia/version)" 'Open Kernel Module for x86_64  535\.261\.03 '
is "  not forced" "$(forced)" not
unlike "  and the kernel had nothing to say" "$(dmesg_since)" 'disagrees|version magic|no symbol version'
t "a GPU can be opened" sh -c ': </dev/nvidia0'
t "status" kmodsmith status --json
like "  says it, too" "$out" '"made_for": "6\.1\.0-55-cloud-amd64"'
first=$(loaded)
t "again" kmodsmith install --driver 535.261.03 --flavour open
like "  adopts" "$out" '^kmodsmith: adopt '
rm /run/kmodsmith/loaded.json
t "without the note of this boot" kmodsmith install --driver 535.261.03 --flavour open
like "  it is still ours" "$out" '^kmodsmith: adopt '
is "  and was not loaded anew" "$(loaded)" "$first"

t "replaced by the other flavour, of the kernel before as well" kmodsmith install --package /packages/proprietary-K61B
t_fails 1 "a load that fails" kmodsmith install --driver 535.261.03 --flavour open --param nvidia:NVreg_DeviceFileMode=often
like "  what was compatible comes back" "$out" 'back .* 535\.261\.03 proprietary is loaded again'
like "  and is known as such" "$(kmodsmith status)" 'package +compatible \(made for 6\.1\.0-55-cloud-amd64\)'
rm /run/kmodsmith/loaded.json # that it is ours is known to the store
t "and the open one from the store, after a proof of its own" kmodsmith install --driver 535.261.03 --flavour open
t "what serves stays when garbage is collected" kmodsmith store gc
like "  listed with its kernel" "$(kmodsmith store ls)" '6\.1\.0-55-cloud-amd64 .*compatible with 6\.1\.0-56-cloud-amd64'
