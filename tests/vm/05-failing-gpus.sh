# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Simulated GPUs that fail or block when they are started: each as the stub is told, at run time, and in the real driver's words.
# kernel: K61
# gpus: 2
# stub: yes
# packages: open
stub=/sys/module/fakeopen/parameters
first=0000:40:00.0 second=0000:50:00.0

insmod /packages/open.d/nvidia.ko
node nvidia0 nvidia 0
node nvidia1 nvidia 1
dmesg_since >/tmp/said
opens() { true <"/dev/$1"; } # `:` would end the shell
starts() { tr '\n' ' ' <$stub/starts; }

is "nothing was started by the load" "$(starts)" ""
t "both GPUs start" sh -c 'true </dev/nvidia0 && true </dev/nvidia1'
hold /dev/nvidia0
t "a GPU that is held is opened again" opens nvidia0
is "  it was started with the first open alone" "$(starts)" "$first 2 $second 1 "
release

echo $second >$stub/fail
t "one of two fails: the other starts" opens nvidia0
t_fails 2 "one of two fails: its open" opens nvidia1
like "  with EIO" "$out" 'Input/output error'
dmesg_since >/tmp/said
is "  in the driver's words" "$(cat /tmp/said)" "NVRM: RmInitAdapter: Cannot initialize GSP firmware RM
NVRM: GPU $second: RmInitAdapter failed! (0x62:0x25:1679)
NVRM: GPU $second: rm_init_adapter failed, device minor number 1"
echo "$first=0x26:0x56:1474,$second=unexpected WPR2 already up" >$stub/fail
t_fails 2 "other numbers" opens nvidia0
dmesg_since >/tmp/said
is "  are printed" "$(cat /tmp/said)" "NVRM: GPU $first: RmInitAdapter failed! (0x26:0x56:1474)
NVRM: GPU $first: rm_init_adapter failed, device minor number 0"
t_fails 2 "other words" opens nvidia1
dmesg_since >/tmp/said
is "  are printed before the numbers" "$(head -n 1 /tmp/said)" "NVRM: unexpected WPR2 already up"
echo "$first=" >$stub/fail
t_fails 2 "a GPU that fails without a reason, as one that is drained" opens nvidia0
dmesg_since >/tmp/said
is "  only nv_open says so" "$(cat /tmp/said)" "NVRM: GPU $first: rm_init_adapter failed, device minor number 0"
echo all >$stub/fail
t_fails 2 "all fail: the first" opens nvidia0
t_fails 2 "all fail: the second" opens nvidia1

echo 2 >$stub/from
echo >$stub/starts
t "from the second time on: the first start" opens nvidia0
t_fails 2 "from the second time on: the second start" opens nvidia0
t_fails 2 "from the second time on: the third start" opens nvidia0
t "from the second time on: another GPU's first start" opens nvidia1
echo 3 >$stub/until
t "until the third time: the fourth start" opens nvidia0
is "starts that fail count, too" "$(starts)" "$first 4 $second 1 "
echo 1 >$stub/from
echo 2 >$stub/until
echo >$stub/starts
t_fails 2 "the first two fail: the first" opens nvidia0
t_fails 2 "the first two fail: the second" opens nvidia0
t "the first two fail: the third" opens nvidia0

echo 100 >$stub/until
echo "$OPEN_VERSION" >$stub/driver
t_fails 2 "it fails under the driver that is named by its version" opens nvidia0
cat /sys/module/nvidia/srcversion >$stub/driver
t_fails 2 "it fails under the driver that is named by its srcversion" opens nvidia0
echo 1.2.3 >$stub/driver
t "it starts under another driver" opens nvidia0
echo >$stub/driver
echo >$stub/fail

echo $second >$stub/block
{ true </dev/nvidia1; } &
opener=$!
blocks() { until grep -q '^State:.D' /proc/$opener/status; do sleep 0.05; done; }
t "a start blocks, in the kernel" blocks
kill -9 $opener
t "it cannot be killed" blocks
t_fails 1 "the driver cannot be removed meanwhile" rmmod nvidia
echo >$stub/block
t_fails 137 "it ends when the GPU is no longer in the list" wait $opener
echo all >$stub/block
echo 300 >$stub/block_ms
t "a start blocks for some time, and works" opens nvidia0
echo $first >$stub/fail
t_fails 2 "a start blocks for some time, and fails" opens nvidia0
unlike "the kernel found nothing strange" "$(dmesg)" 'WARNING|BUG|fakeopen: nv_state_t'
t "nvidia is removed" rmmod nvidia
