# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The container is restarted again and again, however it ends: the driver and who uses it do not notice (R-D1).
# kernel: K61
# gpus: 2
# stub: yes
# packages: open
# programs: strace flock
# mem: 1536M
# timeout: 900
init="kmodsmith init --package /packages/open"
start() { # LOG: in the background; until it is ready, or ended
  : >"$1"
  $init >>"$1" 2>&1 &
  pid=$!
  until grep -q 'ready: driver' "$1"; do kill -0 $pid 2>/dev/null || return 1; sleep 0.05; done
}
end() { kill -"$1" $pid; wait $pid; }
modules() { for m in nvidia nvidia_uvm nvidia_modeset; do
  echo "$m $(cat /sys/module/$m/srcversion) $(cat /sys/module/$m/refcnt)"; done; }
alive() { [ "$(readlink /proc/$holder/fd/9)" = /dev/nvidia0 ]; }
file() { ls -i /run/kmodsmith/status.json; }

t "init" start /tmp/log
end TERM
is "SIGTERM ends it with status 0" $? 0
hold /dev/nvidia0
before=$(modules) inode=$(file)
restarts() { # however each of them ends
  number=0
  while [ $number -lt 50 ]; do
    start /tmp/log || { echo "start $number:"; cat /tmp/log; return 1; }
    grep -q adopt /tmp/log || { echo "start $number does not adopt:"; cat /tmp/log; return 1; }
    if [ $((number % 2)) = 0 ]; then end TERM; else end KILL; fi
    [ "$(modules)" = "$before" ] || { echo "after start $number:"; modules; return 1; }
    alive || { echo "the holder did not survive start $number"; return 1; }
    number=$((number + 1))
  done
}
t "R-D1: 50 restarts while a process holds /dev/nvidia0" restarts
is "the modules are those of before, with their references" "$(modules)" "$before"
t "the holder has its descriptor still" alive
is "the published status was written once" "$(file)" "$inode"
t "status" kmodsmith status

# Every call that could change something, with the paths of its descriptors.
calls=connect,delete_module,init_module,finit_module,mount,umount2,execve,open,openat,openat2,creat,truncate,ftruncate,write,writev
calls=$calls,pwrite64,sendfile,copy_file_range,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,renameat2,link,linkat
calls=$calls,symlink,symlinkat,mknod,mknodat,chmod,fchmod,fchmodat,chown,fchown,fchownat,lchown,utimensat,setxattr,fallocate
t "the start that changes nothing, traced" strace -f -y -s 200 -o /tmp/trace -e trace=$calls \
  kmodsmith install --package /packages/open
like "  it does adopt" "$out" adopt
# Left are the calls that change something, without the program's own start and output.
changes() { sed 's/^[0-9]* *//' /tmp/trace | grep -vE '^execve\("[^"]*/kmodsmith"|^write\([12]<|^(---|\+\+\+)' |
  awk '!/^open(at2?)?\(/ || /O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)/'; }
is "no socket, no module, no program, no mount" "$(changes | grep -E '^(connect|.*_module|execve|u?mount)')" ""
is "no node, link, mode or owner" "$(changes | grep -E '^(mk|sym|link|f?ch|l?ch)')" ""
is "nothing is written outside of /run/kmodsmith" "$(changes | grep -vE '<(/run/kmodsmith|/run/kmodsmith/[^>]*)>|"/?run/kmodsmith/')" ""
like "inside it there is the lock" "$(changes)" '/run/kmodsmith/lock>?'
is "and nothing else" "$(changes | grep -v lock)" ""

# Two at once: the second one is told who works. The first is stopped behind its first module.
release
kmodsmith unload >/dev/null
strace -f -qq -o /dev/null -e trace=finit_module -e inject=finit_module:signal=STOP:when=1 $init >/tmp/first 2>&1 &
stopped() { first=$(cat /run/kmodsmith/lock) && grep -q '^State:.*[Tt] (' "/proc/$first/status" && grep -q '^nvidia ' /proc/modules; }
until stopped; do sleep 0.05; done
t_fails 1 "two at once: the second init" $init
like "  is told the pid of the first" "$out" "E_LOCKED: process $first is changing this node"
is "  which is an init" "$(tr '\0' ' ' </proc/"$first"/cmdline)" "$init "
like "meanwhile nobody is told that it is ready" "$(kmodsmith status)" "CHANGING since .*: load, by process $first"
kill -CONT "$first"
t "the first goes on" sh -c 'until grep -q "ready: driver" /tmp/first; do sleep 0.1; done'
like "and says that it is ready" "$(cat /run/kmodsmith/status.json)" '"state": "READY"'
kill "$first"
