#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The version is the line VERSION of the Makefile; what else must name it follows here.
#   scripts/release.sh --check    does everything name that version? Prints what does not as FILE:LINE:TEXT
#   scripts/release.sh X.Y.Z      write X.Y.Z everywhere, date the changelog, commit, and make the tag vX.Y.Z. Pushes nothing.
# docs/releasing.md says what comes before and after.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^VERSION := //p' Makefile)
number='[0-9]+\.[0-9]+\.[0-9]+'
places() { grep -rnoE "kmodsmith-runtime:$number|^(appV|v)ersion: $number" deploy docs ./*.md 2>/dev/null || true; } # of images, and the chart's
die() { echo "release: $*" >&2; exit 1; }

check() {
  local tag bad=0
  [[ $version =~ ^$number$ ]] || { echo "Makefile:1: VERSION is '$version', not X.Y.Z" && bad=1; }
  places | grep -vE "[: ]${version//./\\.}$" | sed "s/$/ is not $version, which the Makefile says/" | grep . && bad=1
  # Of a release, the tag and the changelog, too.
  while read -r tag; do
    [ "$tag" = "v$version" ] || { echo "Makefile:1: VERSION is $version, and this commit has the tag $tag" && bad=1; }
    grep -q "^## $version - " CHANGELOG.md || { echo "CHANGELOG.md:1: $tag has no heading '## $version - DATE'" && bad=1; }
  done < <(git tag --points-at HEAD 2>/dev/null | grep -E "^v$number$")
  return $bad
}

release() { # X.Y.Z
  local passed file next=$1
  [[ $next =~ ^$number$ ]] || die "'$next' is no version X.Y.Z"
  [ -z "$(git status --porcelain)" ] || die "the work tree has changes that are not committed"
  ! git rev-parse -q --verify "refs/tags/v$next" >/dev/null || die "there is a tag v$next already"
  [ "$(printf '%s\n' "$version" "$next" | sort -V | tail -n 1)" = "$next" ] || die "$next is older than $version"
  passed=$(head -n 1 tests/check/passed | cut -d' ' -f1)
  git merge-base --is-ancestor "$passed" HEAD 2>/dev/null || die "make check-all passed on $passed, which is not in this history"
  file=$(git diff --name-only "$passed" HEAD -- installer kmod precompiled Makefile images deploy | head -n 1)
  [ -z "$file" ] || die "$file has changed since make check-all passed: run it again and commit tests/check/passed"
  sed -n '/^## Unreleased$/,/^## [0-9]/p' CHANGELOG.md | grep -q '^- ' || die "CHANGELOG.md has nothing below '## Unreleased'"
  sed -i "s/^VERSION := .*/VERSION := $next/" Makefile
  sed -i "s/^## Unreleased$/&\n\n## $next - $(date -u +%F)/" CHANGELOG.md
  places | cut -d: -f1 | sort -u | xargs -r sed -i -E "s/(kmodsmith-runtime:|^(appV|v)ersion: )$number/\1$next/"
  git commit -qam "release: name version $next"
  git tag -a "v$next" -m "kmodsmith $next"
  echo "v$next is made here. Look at it (git show v$next), then: git push origin HEAD v$next"
}

case ${1-} in
--check) check ;;
'' | -*) sed -n '4,6s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
*) release "$1" ;;
esac
