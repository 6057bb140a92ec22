#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh check.sh CC: do the fork servers (forkserver.h) compile as CC does alone? Runs in the sandbox of a compile. Writes the
# cc1 that COMPILER_PATH leads to; the last line of the output says why it cannot be used.
here=$(cd "${0%/*}" && pwd) cc=$1
fail() { echo "$1"; exit 1; }
real=$("$cc" -print-prog-name=cc1) || fail "$cc has no cc1"
case $real in /*) ;; *) fail "$cc has no cc1" ;; esac
cat >"$here/cc1" <<END
#!/bin/sh
LD_PRELOAD=$here/preload.so FORKSERVER_LOG=\${FORKSERVER_LOG-$here/log} exec $real "\$@"
END
chmod 755 "$here/cc1"
work=$here/check
mkdir -p "$work/alone" "$work/forked" || fail "cannot write to $work"
cd "$work" || fail "cannot enter $work"

# A header that the sources share, with what depends on place and order; one source asks for its own name early, one
# warns, one fails, one is told apart by its name alone.
cat >shared.h <<'END'
#ifndef SHARED
#define SHARED
struct shared { int a[__COUNTER__ + 2]; const char *where; };
static inline int twice(struct shared *s) { s->where = __FILE__; return s->a[0] * 2 + __LINE__; }
#endif
END
echo 'static const char *const early = KBUILD_BASENAME;' >early.h
body='#define NAME(x) x
int NAME(at) = __LINE__ + __COUNTER__; const char *file = __FILE__, *base = __BASE_FILE__, *own = KBUILD_BASENAME;
int call(struct shared *s) { static int calls; return twice(s) + calls++; }'
printf '/* a */\n#include "shared.h" // shared\n%s\n' "$body" >one.c
printf '#include "shared.h"\n\n#if 1\n#include <stddef.h>\n#endif\n%s\nsize_t size;\n' "$body" >two.c
printf '#include "shared.h"\n#include "early.h"\n%s\nconst char *first(void) { return early; }\n' "$body" >early.c
printf '#include "shared.h"\n%s\nint bad(struct shared *s) { return s->absent; }\n' "$body" >fails.c
printf '#include "shared.h"\n%s\nint warns(void) { int unused; return 0; }\n' "$body" >warns.c
compile() { # DIR NAME
  "$cc" -O2 -g0 -Wall "-DKBUILD_BASENAME=\"$2\"" "-Wp,-MMD,$1/$2.d" -c -o "$1/$2.o" "$2.c" 2>"$1/$2.err"
  echo $? >"$1/$2.status"
  "$cc" -O2 "-DKBUILD_BASENAME=\"$2\"" -c -o "$1/$2.silent.o" "$2.c" >/dev/null 2>&1
  echo $? >>"$1/$2.status"
  tr -s ' \\\n' '\n' <"$1/$2.d" >"$1/$2.names" 2>/dev/null
  rm -f "$1/$2.d"
}
for name in one two early fails warns; do compile alone $name; done
export COMPILER_PATH="$here" FORKSERVER_LOG="$work/log"
for name in one two early fails warns; do compile forked $name; done
for file in alone/*; do
  cmp -s "$file" "forked/${file#*/}" || fail "a forked $cc gives another ${file#*/}"
done
[ "$(grep -c forked log)" = 8 ] || fail "a forked $cc is not used"
