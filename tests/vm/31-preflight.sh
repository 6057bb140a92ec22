# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# What is told before anything is touched (R-P6), and that it is what the kernel then does: the real driver asks the real
# kernel for its firmware when a GPU is opened, and doctor must have known the answer.
# kernel: K61 K612
# gpus: 1
# firmware: no
# packages: open proprietary
# programs: setpriv xz
# mem: 1536M
# timeout: 200
# No GPU starts here, with or without firmware, which is a placeholder: ready means the modules alone, until the end.
open="kmodsmith install --gpu-check none --package /packages/open"
proprietary="kmodsmith install --gpu-check none --package /packages/proprietary"
parameter=/sys/module/firmware_class/parameters/path
file=nvidia/$OPEN_VERSION/gsp_ga10x.bin
here=/lib/firmware/nvidia/$OPEN_VERSION other=$TESLA535_VERSION
nothing() {
  is "  nothing is loaded" "$(grep -c ^nvidia /proc/modules)" 0
  unlike "  and nothing was fetched" "$out" '^kmodsmith: (package|prove) '
}
put() { mkdir -p "$1/${file%/*}" && echo placeholder >"$1/$file${2-}"; }

t_fails 1 "R-P6: no firmware and the open modules" $open
like "  the file, the GPU and the places are named" "$out" \
  "E_FIRMWARE: preflight: $file: the open modules need it for 0000:40:00.0 \(Hopper\); the kernel would look in /lib/firmware/updates/"
nothing
t_fails 1 "R-P6: switching it off does not help the open modules" $open --param nvidia:NVreg_EnableGpuFirmware=0
nothing
t_fails 1 "R-P6: the proprietary ones use it on this GPU, too" $proprietary
like "  the code is E_FIRMWARE" "$out" 'E_FIRMWARE: .*the proprietary modules need it'
nothing
put /lib/firmware
mv "$here" "/lib/firmware/nvidia/$other"
t_fails 1 "R-P6: firmware of another version" $open
nothing
t "doctor tells which firmware is there" kmodsmith doctor
like "  the version is told" "$out" "^pass +firmware +for $other in "
t "R-P6: proprietary modules told to do without" $proprietary --param nvidia:NVreg_EnableGpuFirmware=0
like "  are ready" "$out" '^ready$'
t "unload" kmodsmith unload
rm -r /var/lib/kmodsmith # with a last good driver that would come back

printf /opt/theirs >$parameter
t_fails 1 "R-P6: a path that somebody else has set" $open
like "  the path is named" "$out" "look in /opt/theirs, .*firmware_class.path is '/opt/theirs'"
nothing
put /opt/theirs
t_fails 1 "R-K1: without the right to load modules" /usr/bin/setpriv --bounding-set -sys_module $open
like "  the capability is named" "$out" 'E_RIGHTS: preflight: this process lacks CAP_SYS_MODULE \(to load and unload modules\)'
nothing
mkdir -p /tmp/full && mount -t tmpfs -o size=32k tmpfs /tmp/full
t_fails 1 "no room for the journal" $open --state-dir /tmp/full
like "  the bytes are named" "$out" "E_NO_SPACE: preflight: '/tmp/full' has [0-9]+ bytes free, 65536 are needed"
nothing
t "R-P6: firmware in the path of somebody else" $open
is "  the path stays as it was" "$(cat $parameter)" /opt/theirs

# Both are asked: the kernel through the driver, and kmodsmith about the driver that is loaded.
said() {
  dmesg_since >/dev/null
  cat /dev/nvidia0 2>/dev/null
  if dmesg_since | grep -q "Direct firmware load for $file failed"; then echo missing; else echo found; fi
  kmodsmith doctor >/tmp/doctor
  if grep -q '^FAIL *firmware *E_FIRMWARE' /tmp/doctor; then echo missing; else echo found; fi
}
for row in "/opt/theirs" "/lib/firmware" "/lib/firmware/$(uname -r)" "/lib/firmware/updates" "/lib/firmware/updates/$(uname -r)"; do
  rm -rf /opt/theirs /lib/firmware
  printf /opt/theirs >$parameter
  is "without $row" "$(said | tr '\n' ' ')" "missing missing "
  put "$row"
  is "  with it the firmware is found" "$(said | tr '\n' ' ')" "found found "
done
rm -rf /lib/firmware
put /opt/theirs
echo /opt/theirs >$parameter
case $(uname -r) in
6.1.*) is "a newline at the end of the path is a part of it" "$(said | tr '\n' ' ')" "missing missing " ;;
*) is "a newline at the end of the path is cut off" "$(said | tr '\n' ' ')" "found found " ;;
esac
rm -rf /opt/theirs
printf '' >$parameter
put /lib/firmware
: >/lib/firmware/$file
is "an empty file is none" "$(said | tail -n 1)" missing
put /lib/firmware
/usr/bin/xz --check=crc32 /lib/firmware/$file
is "xz, which this kernel has" "$(said | tr '\n' ' ')" "found found "
mv /lib/firmware/$file.xz /lib/firmware/$file.zst
is "another ending is not taken for it" "$(said | head -n 1)" missing

# Ready is what the kernel finds firmware for: neither adoption nor the way back goes around that.
rm -r /lib/firmware
t_fails 1 "R-P6: a driver that lost its firmware is not adopted as ready" kmodsmith install --driver "$OPEN_VERSION"
like "  for its firmware" "$out" "E_FIRMWARE: verify: firmware: $file: "
is "  it stays loaded" "$(cat /sys/module/nvidia/version)" "$OPEN_VERSION"
t_fails 1 "  status says so" kmodsmith status
like "  with the cause" "$out" "^FAIL +firmware +$file: "
t_fails 1 "  and so does the probe" kmodsmith probe readiness
t "unload" kmodsmith unload
t_fails 1 "R-P6: the last good driver does not come back without its firmware" kmodsmith install --driver "$OPEN_VERSION"
like "  for the same reason" "$out" "E_FIRMWARE: preflight: $file: .*; and the last good driver could not be brought back \(driver $OPEN_VERSION: $file: "
nothing
put /lib/firmware
t "with its firmware it comes back" kmodsmith install --gpu-check none --driver "$OPEN_VERSION"
t "  ready" kmodsmith status
like "  and nobody has measured the GPU" "$out" '^pass +gpus +1 of 1; not measured \(--gpu-check none\)$'

# NVIDIA's own driver on a GPU whose firmware does not boot, in its own words.
t_fails 1 "a GPU that does not start is found when somebody asks" kmodsmith status --check-gpus
like "  status names it" "$out" '^FAIL +gpus +0 of 1 start \([0-9.]+ s\); 0000:40:00.0: .*\(RmInitAdapter 0x[0-9a-f]+:0x[0-9a-f]+:[0-9]+\)$'
like "  and what to do" "$out" '^next: .*kmodsmith explain E_GPU_START'
t_fails 1 "install is not ready with it" kmodsmith install --driver "$OPEN_VERSION"
like "  for that reason" "$out" 'E_GPU_START: verify: gpus, measured at .*: 0 of 1 start '
is "  and the driver stays: there is no better one" "$(cat /sys/module/nvidia/version)" "$OPEN_VERSION"
t "who asks for the modules alone is ready" $open
t "unload" kmodsmith unload
t_fails 1 "a first install is not ready when no GPU starts" kmodsmith install --package /packages/open
like "  for that reason" "$out" 'E_GPU_START: verify: gpus: 0 of 1 start '
t_fails 1 "  nor is the node" kmodsmith status
unlike "  and no target is bad: nothing worked before" "$out" '^bad target'

