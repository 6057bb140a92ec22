#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Stands in place of NVIDIA's conftest.sh while a driver is compiled, and hands every question on to it, except those
# that were answered before for the same kernel, source, compiler, flags and text (kmod/build/probes.c). Called as that is:
#   conftest.sh CC ARCH SOURCES OUTPUT compile_tests|test_kernel_header FLAGS NAME
# An answer appears in new/ in one write, so whole or not at all. What was answered before costs no other process.
kept=/build/probes asked=/build/src/conftest.asked.sh
real() { /bin/sh "$asked" "$@"; }
cc=${1#*/ccache } # a snippet's file is named after a process: an object cache would only grow
shift
set -- "$cc" "$@"
case $5 in
compile_tests | test_kernel_header) ;;
*) real "$@"; exit ;;
esac
case $#$7 in
7*[!a-zA-Z0-9_./-]* | 7/* | 7*..*) real "$@"; exit ;;
7?*) ;;
*) real "$@"; exit ;;
esac
# Without what differs from build to build and never decides an answer: a process's number, the driver's version.
rest=${6#*-DKBUILD_MODNAME=}
flags=${6%%-DKBUILD_BASENAME=*}${rest#* }
rest=${flags#*-DNV_VERSION_STRING=}
flags=${flags%%-DNV_VERSION_STRING=*}${rest#* }
[ -f "$kept/flags" ] || { printf '%s\n' "$flags" >"$kept/.flags.$$" && mv "$kept/.flags.$$" "$kept/flags"; }
IFS= read -r now <"$kept/flags"
[ "$now" = "$flags" ] || { real "$@"; exit; }
known=
[ ! -f "$kept/known.flags" ] || IFS= read -r known <"$kept/known.flags"
if [ "$known" = "$flags" ] && [ -f "$kept/known/$7=" ]; then
  while IFS= read -r line; do printf '%s\n' "$line"; done <"$kept/known/$7="
  : >"$kept/used/$7="
  exit 0
fi
case $7 in */*) [ -d "$kept/new/${7%/*}" ] || mkdir -p "$kept/new/${7%/*}" ;; esac
answer=$(real "$@") || { status=$?; printf '%s\n' "$answer"; exit $status; }
[ -n "$answer" ] || exit 0
printf '%s\n' "$answer"
printf '%s\n' "$answer" >"$kept/new/$7=" || rm -f "$kept/new/$7="
