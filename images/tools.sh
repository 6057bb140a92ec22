#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The compilers and tools of the builder image as a layer. The packages are unpacked whole, and the layer is kept in the
# cache: it changes seldom, and the rest of the image with each commit. Prints the directory of root.tar, layer.tar, epoch.
#   images/tools.sh [SUITE]     of another suite of Debian, as a root alone, for kernels that its own gcc built
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
unset SOURCE_DATE_EPOCH # the time is that of the packages, whichever commit comes first
cache=${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith}/images
# gcc as far as Debian has it (a kernel wants the one that built it), clang with its linker for kernels built with it,
# what kernel headers and their scripts call, and the GNU tools where busybox knows less.
packages=('^(gcc|g[+][+])-1[1-4]$' gcc g++ clang lld llvm make libc6-dev libelf-dev libssl-dev bc bison flex perl gawk coreutils
  findutils grep sed tar gzip patch cpio xz-utils zstd kmod dwarves file diffutils python3-minimal rsync ccache bash dash)
suite=${1-} closure=(scripts/inputs.sh ${1:+--suite "$1"} --closure)
[ -z "$suite" ] || packages=(bash dash gcc g++ make libc6-dev libelf-dev libdw-dev bc bison flex perl gawk coreutils findutils grep sed tar gzip patch
  xz-utils zstd kmod file diffutils debianutils)

plain_texts() { # ROOT: a link to the texts of another package becomes a directory, as in the runtime
  local link text
  find "$1"/usr/share/doc -maxdepth 1 -type l | while read -r link; do
    text=$(realpath "$link")/copyright
    rm "$link"
    [ ! -e "$text" ] || install -D -p -m 644 "$text" "$link/copyright"
  done
}
tools() { # ROOT DEB...: unpacked without manuals and translations; what a script of a package would have made
  local root=$1
  shift
  skeleton "$root"
  unpack "$root" "$@"
  find "$root"/usr/share/doc -type f ! -name copyright -delete
  rm -rf "$root"/usr/share/{man,info,locale,lintian,bash-completion,doc-base,gdb,initramfs-tools,bug,gcc/python,menu} \
    "$root"/var/cache "$root"/etc/{init.d,cron.daily,logrotate.d,apt}
  plain_texts "$root"
  find "$root"/usr/share/doc -type d -empty -delete
  ln -sf gawk "$root/usr/bin/awk"
  ln -sf gcc "$root/usr/bin/cc"
  ln -sf dash "$root/usr/bin/sh"
}
mapfile -t debs < <("${closure[@]}" "${packages[@]}")
[ ${#debs[@]} -gt 0 ] || fail "apt offers none of: ${packages[*]}"
key=$({ printf '%s\n' "${debs[@]##*/}"; cat images/{tools,layer}.sh images/common.bash; } | sha256sum | cut -c1-16)
kind=${suite:+$suite-}tools
made=$cache/$kind-$key
mkdir -p "$cache" "$out"
exec 9>"$cache/lock" && flock 9
if [ ! -d "$made" ]; then
  echo "images: the builder's ${#debs[@]} packages${suite:+ of $suite}, once until they change" >&2
  rm -rf "$cache/$kind"-*
  mkdir "$made.new"
  tools "$made.new/root" "${debs[@]}"
  epoch_of "$made.new/root" >"$made.new/epoch"
  pack "$made.new/root" "$(<"$made.new/epoch")" "$made.new/root.tar"
  rm -rf "$made.new/root"
  [ -n "$suite" ] || images/layer.sh "$made.new/root.tar" "$made.new/layer.tar"
  mv "$made.new" "$made"
fi
echo "$made"
