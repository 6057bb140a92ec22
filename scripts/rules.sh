#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The house rules that no ready-made tool checks. Prints each violation as FILE:LINE:TEXT; exit 1 if there is one.
#   scripts/rules.sh RULE    one of those that scripts/rules.sh --list prints
set -uo pipefail; export LC_ALL=C.UTF-8; cd "$(dirname "$0")/.." || exit 2
sources() { find installer kmod precompiled -name '*.[ch]' 2>/dev/null | sort; }
ours() { find installer kmod precompiled tests scripts .ci images deploy packaging -type f 2>/dev/null |
  grep -E '\.(c|h|sh|bash|bats|py|S|def|y?aml)$|^\.ci/run$' | sort; }
# Lines of our C that match a regular expression, comments left out.
code() { sources | grep -vxE "$1" | xargs -r grep -nHE "$2" | grep -vE '^[^:]*:[0-9]+:[[:space:]]*(//|\*)'; }
# Where each rule has its one exception, as FILE regular expressions:
seams='installer/base/file/(resolve|root|file)\.c' # these implement roots
programs='installer/base/process/(proc|launch)\.c' # the directories where programs are looked for, /dev/null as input, our own program
mounts='kmod/sandbox/(sandbox|jail|inside)\.c|kmod/forkserver/preload\.c|installer/gpu_check/helper_cuda\.c' # make or run in another root
callers='kmod/load/bounded\.c|installer/gpu_check/gpu_(start|helper)\.c' # a call that hangs in the kernel takes its caller with it: a child makes it; posix_spawn(3) cannot chroot
links='installer/base/process/sys\.c|kmod/load/host_modules\.c' # mount(2) and libkmod take a descriptor only by its link in proc
texts='installer/holders/proc_scan\.c|installer/driver_root/mount_ns\.c|kmod/build/build\.c' # compare names and what links of proc say; open nothing by them
speakers='installer/cmd/[a-z_/]+\.c|installer/(main|mkman)\.c|installer/base/process/log\.c'
calls() { # no shell, no unbounded copy, no process without exec, no host path that bypasses a root
  code 'none' '\<(system|popen|strcpy|strcat|sprintf|vsprintf|gets|strtok|mktemp|tmpnam|alloca|vfork|atoi|atol)[(]'
  code "$mounts|$callers" '\<fork[(]'
  code "$seams|$mounts" '\<(open|fopen|freopen|creat|opendir|unlink|rename|mkdir|symlink|mknod)[(]|\<AT_FDCWD\>'
  code "$seams|$programs|$mounts" '\<(stat|lstat|chmod|chown|truncate|scandir|realpath)[(]'
}
paths() { code "$seams|$programs|$mounts|$links|$texts" '"/(etc|proc|sys)[/"]'; }; prints() { code "$speakers" '\<(v?f?printf|puts|putchar|perror|fputs)[(]'; }
nodes() { # shellcheck disable=SC2016 # perl's own variables
  sources | xargs perl -0777 -ne 'print "$ARGV:1: $1: both roots\n" while /^struct (?!node )(\w+) \{(?=(?:(?!^\}).)*?\*host\b)(?=(?:(?!^\}).)*?\*kern\b)/smg'
}
hosts() { # neither the mirrors that this machine uses nor Debian's well-known ones
  local names; names=$(grep -rhoE '[a-z+]+://[^/ ]+' /etc/apt/sources.list{,.d} 2>/dev/null | sed 's#.*//##' | sort -u)
  { ours; find Makefile ./*.md docs -type f 2>/dev/null; } | xargs -r grep -nHFs -e "${names:-no mirror is configured}" -e "deb"".debian.org" -e "security"".debian.org"
}
# Tables (.def) read as rows; what a shell test runs and expects stands on one line, up to a bound.
columns() { # shellcheck disable=SC2016 # perl's own variables
  { ours; echo Makefile; } | grep -vE '\.def$' | xargs perl -CSDA -ne 'chomp; 1 while s/\t/" " x (8 - $-[0] % 8)/e;
    print "$ARGV:$.:$_\n" if length > ($ARGV =~ /\.[ch]$/ ? 120 : 180); close ARGV if eof'
}
sizes() {
  [ "$(wc -l <Makefile)" -lt 150 ] || echo "Makefile:1: has 150 lines or more"
  grep -nH '[$](MAKE)' Makefile
  find scripts -name '*.sh' ! -name inputs.sh -print0 |
    xargs -0 awk 'FNR == 61 { print FILENAME ":1: has more than 60 lines" }'
  { sources; find tests -name '*.[ch]'; } | xargs -r awk 'FNR == 901 { print FILENAME ":1: has more than 900 lines" }
    FILENAME !~ /^tests/ && /^{$/ { start = FNR } FILENAME !~ /^tests/ && /^}$/ && FNR - start > 101 { print FILENAME ":" start ": function has more than 100 lines" }'
}
spdx() {
  ours | xargs awk 'FNR == 1 { if (file && !seen) print file ":1: has no SPDX line"; file = FILENAME; seen = 0 }
    FNR <= 3 && /SPDX-License-Identifier: / { seen = 1 } END { if (file && !seen) print file ":1: has no SPDX line" }'
}
notes() { { ours; echo Makefile; } | xargs -r grep -nHwE 'TO[D]O|FI[X]ME|X[X]X|HA[C]K'; }; versions() { scripts/versions.sh; }
vacuous() { find tests \( -name '*.bats' -o -name '*.bash' \) -print0 | sort -z | xargs -0r scripts/vacuous.sh; }
strays() { git ls-files 2>&- | grep -vE '^(\.[a-z]+|deploy|docs|images|installer|kmod|packaging|precompiled|scripts|tests)/|^(M[a-z]+|[A-Z_]+(\.md)?|\.[a-z-]+)$' | sed 's/$/:1/'; }
checked() { "$1" || echo "$1:1: ended with $?"; } # a rule that cannot judge does not pass
papers() { checked scripts/papers.sh; }; ids() { checked tests/check/ids.py; }; links() { checked scripts/links.sh; }
rules=" calls paths nodes prints hosts columns sizes spdx notes versions vacuous papers ids links strays "
case $rules in
*" ${1:?usage: rules.sh RULE} "*) found=$("$1") ;;
*) [ "$1" = --list ] && xargs -n1 <<<"$rules" && exit; echo "rules: there is no rule '$1'" >&2 && exit 2 ;;
esac
[ -z "$found" ] || { echo "$found"; exit 1; }
