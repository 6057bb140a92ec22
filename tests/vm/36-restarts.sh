# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The container is restarted again and again, however it ends: the driver and who uses it do not notice (R-D1).
# kernel: K61
# gpus: 2
# stub: yes
# packages: smallopen
# programs: strace flock
# mem: 1536M
# timeout: 900
init="kmodsmith init --package /packages/smallopen"
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

t "init becomes ready" start /tmp/log
end TERM
is "SIGTERM ends it with status 0" $? 0
hold /dev/nvidia0
before=$(modules) inode=$(file)
restarts=50
if [ "$CHECK" = check ]; then restarts=15 && echo "# CHECK=check: 15 restarts, 35 left out"; fi
restart() { # however each of them ends
  number=0
  while [ $number -lt $restarts ]; do
    start /tmp/log || { echo "start $number:"; cat /tmp/log; return 1; }
    grep -q adopt /tmp/log || { echo "start $number does not adopt:"; cat /tmp/log; return 1; }
    if [ $((number % 2)) = 0 ]; then end TERM; else end KILL; fi
    [ "$(modules)" = "$before" ] || { echo "after start $number:"; modules; return 1; }
    alive || { echo "the holder did not survive start $number"; return 1; }
    number=$((number + 1))
  done
}
t "R-D1: $restarts restarts while a process holds /dev/nvidia0" restart
is "the modules are those of before, with their references" "$(modules)" "$before"
t "the holder has its descriptor still" alive
is "the published status was written once" "$(file)" "$inode"
t "status finds everything right after the restarts" kmodsmith status

# Every call that could change something, with the paths of its descriptors.
calls=connect,delete_module,init_module,finit_module,mount,umount2,execve,open,openat,openat2,creat,truncate,ftruncate,write,writev
calls=$calls,pwrite64,sendfile,copy_file_range,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,renameat2,link,linkat
calls=$calls,symlink,symlinkat,mknod,mknodat,chmod,fchmod,fchmodat,chown,fchown,fchownat,lchown,utimensat,setxattr,fallocate
t "the start that changes nothing, traced" strace -f --seccomp-bpf -y -s 200 -o /tmp/trace -e trace=$calls \
  kmodsmith install --package /packages/smallopen
like "the start that changes nothing adopts" "$out" adopt
# Left are the calls that change something, without the program's own start and output.
changes() { sed 's/^[0-9]* *//' /tmp/trace | grep -vE '^execve\("[^"]*/kmodsmith"|^write\([12]<|^(---|\+\+\+)' |
  awk '!/^open(at2?)?\(/ || /O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)/'; }
is "a start that changes nothing uses no socket, module, program or mount" "$(changes | grep -E '^(connect|.*_module|execve|u?mount)')" ""
is "a start that changes nothing makes no node and link, and changes no mode and owner" "$(changes | grep -E '^(mk|sym|link|f?ch|l?ch)')" ""
is "a start that changes nothing writes nothing outside of /run/kmodsmith" "$(changes | grep -vE '<(/run/kmodsmith|/run/kmodsmith/[^>]*)>|"/?run/kmodsmith/')" ""
like "a start that changes nothing takes the lock" "$(changes)" '/run/kmodsmith/lock>?'
is "a start that changes nothing writes nothing but the lock" "$(changes | grep -v lock)" ""

# Two at once: the second one is told who works. The first is stopped while it waits for the child that loads its first module.
release
kmodsmith unload >/dev/null
strace -f -qq -o /dev/null -e trace=pidfd_open -e inject=pidfd_open:signal=STOP:when=1 $init >/tmp/first 2>&1 &
stopped() { first=$(cat /run/kmodsmith/lock) && grep -q '^State:.*[Tt] (' "/proc/$first/status" && grep -q '^nvidia ' /proc/modules; }
until stopped; do sleep 0.05; done
t_fails 75 "two at once: the second init fails" $init
like "two at once: the second init is told the pid of the first" "$out" "E_LOCKED: process $first is changing this node"
is "two at once: that pid is an init" "$(tr '\0' ' ' </proc/"$first"/cmdline)" "$init "
like "two at once: status says that a change is under way" "$(kmodsmith status)" "CHANGING since .*: load, by process $first"
kill -CONT "$first"
t "two at once: the first goes on" sh -c 'until grep -q "ready: driver" /tmp/first; do sleep 0.1; done'
like "two at once: the first says in the end that the driver is ready" "$(cat /run/kmodsmith/status.json)" '"state": "READY"'
kill "$first"
