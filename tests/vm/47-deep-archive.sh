# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A source archive with 50,000 directories in each other, and a tree of 6,000 that an earlier version left in the scratch
# directory when it met one: the archive is refused, the tree goes, and the node has its driver.
# gpus: 1
# stub: yes
# beside: deep
# mem: 1536M
# timeout: 300
state=/var/lib/kmodsmith
leave_deep() { # deeper than a path can name, or a process may have files open
  level=$(printf 'd/%.0s' $(seq 500))
  mkdir -p $state/.tmp/source.0
  (cd $state/.tmp/source.0 && for _ in $(seq 12); do mkdir -p "$level" && cd -P "./$level" || exit 1; done)
}

t "a driver to begin with" kmodsmith install --package /beside/a
t "unload" kmodsmith unload
t_fails 1 "a compile from the archive" kmodsmith install --source /beside/deep.tar
like "  is refused for the archive" "$out" 'error: E_ARCHIVE_UNSAFE: '
is "  and leaves nothing" "$(find $state/.tmp -mindepth 1)" ""
t "  the node ends with the driver that worked last" kmodsmith status
t "unload" kmodsmith unload
t "a tree is left as by an earlier version" leave_deep
(ulimit -n 256 && kmodsmith install --driver "$OPEN_VERSION") >/tmp/out 2>&1
is "the next start is not stopped by it" "$?" 0
cat /tmp/out
is "  it is gone" "$(find $state/.tmp -mindepth 1)" ""
t "  and the node is ready" kmodsmith status
