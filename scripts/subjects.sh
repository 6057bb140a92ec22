#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The subjects of commits: `component: imperative`, at most 72 columns, lower case after the colon, no full stop. Prints
# each that is not so as COMMIT:WHY: SUBJECT; exit 1 if there is one. Looks at the commits since this script last changed.
#   scripts/subjects.sh [FILE]    FILE: a message that is about to be committed, as the hook commit-msg gets it
# Without a git history (an archive of the sources) it says so and is content.
set -euo pipefail
cd "$(dirname "$0")/.."
judge() { # lines of COMMIT SUBJECT
  awk '
    function say(why) { print commit ":" why ": " subject; bad = 1 }
    { commit = $1; subject = substr($0, length($1) + 2); text = subject }
    subject ~ /^(Revert "|fixup! |squash! |Merge )/ { next }
    length(subject) > 72 { say("has " length(subject) " columns, and 72 are allowed") }
    subject ~ /\.$/ { say("ends with a full stop") }
    !sub(/^[A-Za-z0-9._][A-Za-z0-9._\/*-]*(, [A-Za-z0-9._][A-Za-z0-9._\/*-]*)*: /, "", text) { say("does not begin with `component: `"); next }
    text ~ /^[A-Z][a-z]/ { say("begins with a capital after the colon") }
    # What no imperative begins with: enough for the usual slips.
    text ~ /^(an?|the|no|not|it|this|that|what|who|when|where|how|all|each|some|two|its|more|one) / ||
    text ~ /^(add|fix|change|use|move|remove|rename|make|update|write|mark|test|check|say|name|keep|read|tell|give|take|look)(s|es|d|ed|ing) / {
      say("is not an imperative (\"add\", not \"adds\", \"added\" or a description)")
    }
    END { exit bad }'
}
if [ $# -gt 0 ]; then
  grep -m 1 -vE '^(#|[[:space:]]*$)' "$1" | sed 's/^/commit /' | judge
  exit
fi
if ! git rev-parse -q --verify HEAD >/dev/null 2>&1; then
  echo "there is no git history here, so no subjects are looked at"
  exit
fi
since=$(git log -1 --format=%H -- scripts/subjects.sh)
[ -n "$since" ] || { echo "scripts/subjects.sh is not committed yet, so no subjects are looked at"; exit; }
git log --no-merges --format='%h %s' "$since..HEAD" | judge
