# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# One driver for another, and back; and every way in which the next one can be no good: the old one works afterwards.
# kernel: K61
# gpus: 2
# stub: yes
# packages: open proprietary tesla535 tesla470 open:K61R liar cut
# mem: 3G
# timeout: 600
state=/var/lib/kmodsmith
kernel_has() { echo "$(sed -n 's/.*Kernel Module\( for x86_64\)\? *\([0-9.]*\) .*/\2/p' /proc/driver/nvidia/version)" \
  "$(cat /sys/module/nvidia/srcversion) $(sed -n 's/^DeviceFileMode: //p' /proc/driver/nvidia/params)"; }
recorded() { sed -n 's/.*"code": "\(.*\)",/\1/p' $state/journal | tail -n 1; }

t "install the open modules with a parameter" kmodsmith install --package /packages/open --param nvidia:NVreg_DeviceFileMode=432
first=$(kernel_has)
hold /dev/nvidia0
t_fails 75 "another version is refused while a process has the GPU" kmodsmith install --package /packages/tesla535 --flavour proprietary
like "  the holder is named" "$out" "E_IN_USE: .*pid $holder sleep"
is "  and nothing was touched" "$(kernel_has)" "$first"
release
t "another version, proprietary, replaces the open modules" kmodsmith install --package /packages/tesla535 --flavour proprietary
like "  proven before anything is unloaded" "$(printf '%s ' $out)" 'prove .* unload .* load .* nodes .* verify'
like "  it runs" "$(cat /proc/driver/nvidia/version)" "x86_64 Kernel Module  $TESLA535_VERSION"
hold /dev/nvidia1
t_fails 75 "the way back is refused while a process has the GPU" kmodsmith install --driver "$OPEN_VERSION" --flavour open
like "  the holder is named" "$out" "E_IN_USE: .*pid $holder sleep"
release
t "the proprietary modules of one version replace those of another" kmodsmith install --package /packages/proprietary
like "  it runs" "$(cat /proc/driver/nvidia/version)" "x86_64 Kernel Module  $PROPRIETARY_VERSION"
t "the open modules replace the proprietary ones, from the store" kmodsmith install --driver "$OPEN_VERSION" --flavour open --param nvidia:NVreg_DeviceFileMode=432
is "  with its parameter" "$(kernel_has)" "$first"
like "a parameter that is no longer requested is a difference" "$(kmodsmith plan --driver "$OPEN_VERSION" --flavour open)" \
  'unload .*only parameters differ: nvidia NVreg_DeviceFileMode is no longer requested'
t "R-D1: an install with another parameter alone" kmodsmith install --driver "$OPEN_VERSION" --flavour open --param nvidia:NVreg_DeviceFileMode=438
like "  the plan says that only parameters differ" "$(kmodsmith plan --driver "$OPEN_VERSION" --flavour open --param nvidia:NVreg_DeviceFileMode=432)" \
  'unload .*only parameters differ'
like "  the package comes from the store" "$out" 'package .* from oci:'
t "an install with the first parameter again" kmodsmith install --driver "$OPEN_VERSION" --flavour open --param nvidia:NVreg_DeviceFileMode=432
is "  as it was" "$(kernel_has)" "$first"

broken() { # CODE NAME COMMAND...: refused or undone with this code, and the old driver works with its parameter
  code=$1 name=$2 && shift 2
  t_fails 1 "$name" "$@"
  refusal=$out
  like "  its code" "$out" "error: $code: "
  like "  with a next step" "$out" '^kmodsmith: next: '
  is "  the old driver is loaded, with its parameters" "$(kernel_has)" "$first"
  t "  and everything about it is right" kmodsmith status
  like "  R-K1: what happened is recorded" "$out" "^last run: .* at .*: $code "
}
broken E_ABI "wrong kernel: a package of another one, by proof" kmodsmith install --package /packages/open-K61R
broken E_ABI "wrong kernel: a package that lies" kmodsmith install --package /packages/liar
mv $state/store /tmp/store # which has it from the replacements above
broken E_DIGEST "truncated on the way" sh -c 'rm -rf /tmp/p && cp -rL /packages/proprietary /tmp/p &&
  truncate -s 900000 $(find /tmp/p/blobs -type f -size +1000k) && kmodsmith install --package /tmp/p'
rm -rf $state/store && mv /tmp/store $state/store
broken E_ELF "truncated before it was packed" kmodsmith install --package /packages/cut

broken E_UNSUPPORTED_GPU "a GPU that the new one does not support" kmodsmith install --package /packages/tesla470 --flavour proprietary

broken E_PARAM "a parameter that fails the load" kmodsmith install --package /packages/proprietary --param nvidia:NVreg_DeviceFileMode=often
like "  the load was undone" "$refusal" "back +.* $OPEN_VERSION open is loaded again"
is "  R-K1: the code is kept" "$(recorded)" E_PARAM
like "  and status tells" "$(kmodsmith status)" "bad target: $PROPRIETARY_VERSION proprietary failed at .* E_PARAM: .*invalid for parameter"
broken E_TARGET_FAILED "R-E1: the same is not tried again" \
  kmodsmith install --package /packages/proprietary --param nvidia:NVreg_DeviceFileMode=often
like "  it says what happened" "$refusal" 'it failed at .* with E_PARAM: .*invalid for parameter'
unlike "  nothing was unloaded for that" "$refusal" 'unload +'
broken E_PARAM "R-E1: the same is tried again when --retry is given" \
  kmodsmith install --package /packages/proprietary --param nvidia:NVreg_DeviceFileMode=often --retry
broken E_NOT_READY "a post-condition that is false" kmodsmith install --package /packages/proprietary \
  --param nvidia:NVreg_DeviceFileMode=438,nvidia:NVreg_ModifyDeviceFiles=0
like "  the load was undone" "$refusal" "back +.* $OPEN_VERSION open is loaded again"
is "  the code is kept" "$(recorded)" E_NOT_READY

mv "/lib/firmware/nvidia/$TESLA535_VERSION" /tmp/firmware
broken E_FIRMWARE "missing firmware" kmodsmith install --package /packages/tesla535 --flavour proprietary
mv /tmp/firmware "/lib/firmware/nvidia/$TESLA535_VERSION"
mkdir -p /tmp/full && mount -t tmpfs -o size=40M tmpfs /tmp/full && cp -r $state/journal $state/roots.json /tmp/full/
broken E_STORE_FULL "disk full" kmodsmith install --package /packages/tesla535 --flavour proprietary --state-dir /tmp/full
umount /tmp/full

t "another parameter makes it another target" kmodsmith install --package /packages/proprietary
t "the open modules with their parameter are installed again" kmodsmith install --driver "$OPEN_VERSION" --flavour open --param nvidia:NVreg_DeviceFileMode=432
is "  as it was" "$(kernel_has)" "$first"
echo 1 >/sys/module/module/parameters/sig_enforce
broken E_SIGNING_REQUIRED "unsigned where signatures are enforced" kmodsmith install --package /packages/proprietary
