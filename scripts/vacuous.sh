#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lines of bats tests and their helpers that look like a check and cannot fail. Prints each as FILE:LINE:TEXT.
#   A && B       the failure of A ends nothing (set -e looks at the last of a list alone): one check a line
#   ! A          set -e does not look at it at all: run ! A, refute, or ! A || fail "..."
#   A || true    whatever A says
#   run A        and nobody looks at $status or $output before the next run or the end of the test: run -0 A
# The last line of a function is its result and may be any of the first two.
#   scripts/vacuous.sh FILE...
set -euo pipefail
[ $# -gt 0 ] || exit 0
exec awk '
function say(at, text) { print FILENAME ":" at ":" text }
function is_check(s) { return s ~ /^[[:space:]]*(!|\[\[?|\(\(|(e?grep|cmp|diff|test|assert_[a-z_]+|refute[a-z_]*) )/ }
# A list at the beginning of a line; what stands in quotes, in a substitution or behind a keyword is none.
function plain(s) {
  gsub(/\\./, "", s)
  gsub(/"[^"]*"/, "Q", s)
  gsub(/\047[^\047]*\047/, "Q", s)
  gsub(/\[\[[^]]*( \]\]|$)/, "[[ Q ]]", s)
  while (sub(/[$<>]\([^()]*\)/, "Q", s)) ;
  sub(/[[:space:]]#.*/, "", s)
  return s
}
function judge(s, at, text,   n, part, i) {
  if (s ~ /^[[:space:]]*(if|elif|while|until|case|for|function) / || s ~ /^[^ ]+\(\)/ || s ~ /; (then|do)$/)
    return
  sub(/^[[:space:]]*/, "", s)
  if (s ~ /^[^|]*\|\| *(true|:) *$/ && is_check(s)) {
    say(at, text)
  } else if (s !~ /\|\|/) {
    n = split(s, part, / && /)
    for (i = 1; i < n; i++)
      if (is_check(part[i]) && is_check(part[i + 1])) break
    if (i < n || (s ~ /^! / && n == 1)) { last_at = at; last = text }
  }
}
function end_run() { if (ran) say(ran, ran_text); ran = 0 }
FNR == 1 { until = ""; held = ""; ran = 0; last_at = 0; inside = 0 }
until != "" { t = $0; sub(/^\t+/, "", t); if (t == until) until = ""; next }
{
  if (held == "") { at = FNR; text = $0 }
  s = held $0
  held = ""
  if (s ~ /(&&|\|\||\\)$/) { sub(/\\$/, "", s); held = s " "; next }
  if (match($0, /<<-?[\047"]?[A-Z_]+/)) { until = substr($0, RSTART, RLENGTH); gsub(/[<\047"-]/, "", until) }
}
/^[^ }#].*\{$/ { inside = 1; last_at = 0; next }
/^}/ { last_at = 0; end_run(); inside = 0; next }
!inside || /^[[:space:]]*(#|$)/ { next }
{
  if (last_at) { say(last_at, last); last_at = 0 }
  if (s ~ /(assert|refute|fail|told|\$\{?#?(status|output|lines|stderr)|<<<"\$)/) ran = 0
  if (s ~ /^[[:space:]]*([A-Za-z_]+=[^ ]* )*run / && s !~ / run (--[a-z-]+ )*(!|-[0-9])/ && s !~ /^run (!|-[0-9])/) {
    end_run()
    ran = at; ran_text = text
  }
  judge(plain(s), at, text)
}' "$@"
