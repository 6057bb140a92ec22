# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# R-D5: a module that somebody else is still loading. The load hangs on the GPU for as long as fakeslow is there.
# gpus: 1
# stub: yes
# packages: open
state() { cat /sys/module/nvidia/initstate 2>/dev/null; }
insmod /vm/modules/fakeslow.ko
insmod /packages/open.d/nvidia.ko &
load=$!
until [ "$(state)" = coming ]; do kill -0 "$load" || break; sleep 0.1; done

t "status does not wait" sh -c 'kmodsmith status; [ $? -eq 1 ]'
like "  and tells" "$out" 'FAIL +module +nvidia .*coming'
t "plan does not wait" kmodsmith plan --package /packages/open
like "  and tells" "$out" 'module nvidia is coming: an install would wait for it'
t_fails 1 "R-D5: an unload waits, with a deadline" kmodsmith unload --unload-timeout 1
like "  and names what it waited for" "$out" 'E_MODULE_BUSY: .*module nvidia is still coming after 1 s'
t_fails 1 "R-D5: an install too" kmodsmith install --package /packages/open --unload-timeout 1
like "  with the same code" "$out" 'E_MODULE_BUSY: .*module nvidia is still coming after 1 s'

kmodsmith install --package /packages/open >/tmp/log 2>&1 &
install=$!
until grep -q 'module nvidia is coming: waiting for it' /tmp/log; do kill -0 "$install" || break; sleep 0.1; done
is "R-D5: while an install waits" "$(state)" coming
t "  the load comes to its end" rmmod fakeslow
wait "$install"
is "  and the install with it" "$?" 0
out=$(cat /tmp/log)
like "  which loads only what is missing" "$out" 'load .* nvidia-uvm, nvidia-modeset'
unlike "  and unloads nothing" "$out" 'unload '
like "  ready" "$out" '^ready$'
wait "$load"
is "  whoever began the load did not fail" "$?" 0
