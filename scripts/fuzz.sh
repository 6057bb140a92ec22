#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzz a parser with clang's libFuzzer, starting from the committed corpus; finds stay in build/fuzz.
#   scripts/fuzz.sh TARGET [SECONDS]    TARGET: module, vmlinuz     (60 seconds)
#   scripts/fuzz.sh seed                write the first corpus anew
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?which target} seconds=${2:-60} b=build/fuzz cc=clang # needs libclang-rt-14-dev
flags="-std=gnu11 -g -O1 -D_GNU_SOURCE -Iinstaller -I. -fsanitize=address,undefined -fno-sanitize-recover=undefined"
libs="-l:libarchive.a -lz -llzma -lzstd -llz4 -lacl -lelf -ljansson -lcrypto"
mkdir -p "$b/$target"
if [ "$target" = seed ]; then
  # shellcheck disable=SC2086
  $cc $flags -o "$b/seed/seed" tests/fuzz/seed.c installer/base/{str,err}.c $libs
  exec "$b/seed/seed" tests/fuzz/corpus
fi
sources=(installer/base/{str,err,file,root,resolve,digest,inflate}.c
  kmod/{abi,elf,modsig,prove,sections,symvers,versions,vmlinuz}.c)
# shellcheck disable=SC2086
$cc $flags -fsanitize=fuzzer -o "$b/$target.run" "tests/fuzz/${target}_fuzz.c" "${sources[@]}" $libs
exec "$b/$target.run" -max_total_time="$seconds" -max_len=65536 -rss_limit_mb=4096 -artifact_prefix="$b/" \
  "$b/$target" "tests/fuzz/corpus/$target"
