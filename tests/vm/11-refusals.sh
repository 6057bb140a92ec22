# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# What must not be loaded is refused, each for its own reason, and the kernel stays as it was.
# kernel: K61
# gpus: 1
# stub: yes
# packages: open smallset:K61R liar cut
# beside: symvers
# shellcheck source=/dev/null
. /beside/crcs.sh
refused() { # CODE NAME COMMAND...
  code=$1 name=$2 && shift 2
  t_fails 1 "$name" "$@"
  like "  its code is $code" "$out" "error: $code: "
  like "  and a next step" "$out" '^kmodsmith: next: '
  is "  no module is loaded" "$(grep -c ^nvidia /proc/modules)" 0
}
copy() { rm -rf /tmp/p && cp -rL "$1" /tmp/p && chmod -R u+w /tmp/p; }
layer() { find /tmp/p/blobs -type f -size +1000k; } # the one large blob

refused E_ABI "a package for another kernel" kmodsmith install --package /packages/smallset-K61R
like "  both kernels are named" "$out" "$(literally "kernel release is $K61R, wanted $(uname -r)")"
refused E_ABI "R-B9: a package that lies about its kernel" kmodsmith install --package /packages/liar
list=$(crcs_of /beside/symvers /packages/smallset-K61R.d/nvidia.ko | sed -n 's/^differs //p' | paste -sd'|')
like "  a symbol that differs by modprobe is named" "$out" "CRCs differ( \(module/kernel\))?: ($list)[ ,]"
refused E_ELF "a module that ends early, with digests that agree" kmodsmith install --package /packages/cut
copy /packages/open
truncate -s 3000000 "$(layer)"
refused E_DIGEST "R-N2: a truncated layer" kmodsmith install --package /tmp/p
rm "$(layer)"
t_fails 1 "a missing layer" kmodsmith install --package /tmp/p
t_fails 1 "no package at all" kmodsmith install --package /tmp
t_fails 2 "an unknown option" kmodsmith install --pakage /packages/open
t_fails 2 "a flavour that is none" kmodsmith install --package /packages/open --flavour closed
mkdir -p /etc/kmodsmith && echo 'pakage = /packages/open' >/etc/kmodsmith/kmodsmith.conf
t_fails 2 "an unknown key in the configuration file" kmodsmith install
like "  named with its file, line and the nearest" "$out" "E_CONFIG: '/etc/kmodsmith/kmodsmith.conf', line 1: unknown key 'pakage'; did you mean 'package'"
rm /etc/kmodsmith/kmodsmith.conf
refused E_NO_PACKAGE "a version that nothing offers" kmodsmith install --driver 570.1
mkdir -p /tmp/full && mount -t tmpfs -o size=1M tmpfs /tmp/full
refused E_STORE_FULL "no room for the node's copy" kmodsmith install --package /packages/open --state-dir /tmp/full
is "  no module stays" "$(find /tmp/full -name '*.ko' | wc -l)" 0

echo 1 >/sys/module/module/parameters/sig_enforce
refused E_SIGNING_REQUIRED "R-C1: unsigned modules where signatures are enforced" kmodsmith install --package /packages/open
t_fails 1 "doctor where signatures are enforced" kmodsmith doctor
like "  only signed modules load" "$out" 'E_SIGNING_REQUIRED'
