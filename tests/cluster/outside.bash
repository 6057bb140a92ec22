# shellcheck shell=bash disable=SC2034,SC1090 # the helpers use what is set here
# SPDX-License-Identifier: Apache-2.0
# The helpers of this tier for scripts that are not run by bats: `. outside.bash DIR HELPER...`; DIR, which is there and
# empty, takes what bats would keep in its folders. The caches of whoever calls stay where they are.
BATS_TEST_DIRNAME=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BATS_TEST_TMPDIR=$1 BATS_FILE_TMPDIR=$1 BATS_TEST_NUMBER=
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache}
shift
bats_require_minimum_version() { :; }
bats_load_library() { :; }
load() { . "$BATS_TEST_DIRNAME/$1.bash"; }
fail() { echo "${*:-$(cat)}" >&2 && return 1; }
for helper in "$@"; do load "$helper"; done
