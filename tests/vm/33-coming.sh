# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-D5: a module that somebody else is still loading. The load hangs on the GPU for as long as fakeslow is there.
# gpus: 1
# stub: yes
# packages: smallopen
state() { cat /sys/module/nvidia/initstate 2>/dev/null; }
insmod /vm/modules/fakeslow.ko
insmod /packages/smallopen.d/nvidia.ko &
load=$!
until [ "$(state)" = coming ]; do kill -0 "$load" || break; sleep 0.1; done

t "status does not wait" sh -c 'kmodsmith status; [ $? -eq 1 ]'
like "status says that a module is coming" "$out" 'FAIL +module +nvidia .*coming'
t "plan does not wait" kmodsmith plan --package /packages/smallopen
like "plan says that an install would wait for the module" "$out" 'module nvidia is coming: an install would wait for it'
t_fails 75 "R-D5: an unload waits, with a deadline" kmodsmith unload --unload-timeout 1
like "an unload names the module that it waited for" "$out" 'E_MODULE_BUSY: .*module nvidia is still coming after 1 s'
t_fails 75 "R-D5: an install waits for a module that is coming, with a deadline" kmodsmith install --package /packages/smallopen --unload-timeout 1
like "an install names the module that it waited for" "$out" 'E_MODULE_BUSY: .*module nvidia is still coming after 1 s'

kmodsmith install --package /packages/smallopen >/tmp/log 2>&1 &
install=$!
until grep -q 'module nvidia is coming: waiting for it' /tmp/log; do kill -0 "$install" || break; sleep 0.1; done
is "R-D5: the module is still coming while an install waits" "$(state)" coming
t "the GPU lets the load come to its end" rmmod fakeslow
wait "$install"
is "an install that waited for a module ends with success" "$?" 0
out=$(cat /tmp/log)
like "an install that waited for a module loads only what is missing" "$out" 'load .* nvidia-uvm, nvidia-modeset'
unlike "an install that waited for a module unloads nothing" "$out" 'unload '
like "an install that waited for a module says ready" "$out" '^ready$'
wait "$load"
is "whoever began the load did not fail" "$?" 0
