# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Driver packages for guests, made by `kmodsmith build`: `package NAME KEY` prints the directory of the package of NVIDIA's
# source NAME (open, proprietary, tesla535, tesla470) for the kernel KEY.

compile_package() { # DIR DEB HEADERS RELEASE FLAVOUR BUILDER
  local headers=$3
  "${KMODSMITH:-$top/build/release/kmodsmith}" build --source "$2" --headers "${headers// /,}" --kernel "$4" --flavour "$5" \
    --state-dir "$cache/build" --output "$1/package" && mv "$1"/package/* "$1" && rmdir "$1/package"
}

# What decides the bytes of a package, beside its inputs.
builder() {
  cat "$top"/kmod/{build,compile,patch,recipe,source,toolchain,tree}.c "$top"/kmod/patches/* "$top"/precompiled/package.c \
    "$top"/installer/node/compile.c | sha256sum
}

package() { # NAME KEY
  local deb debs release made
  deb=$(of "${1^^}")
  debs=$(of "$2" _HEADERS)
  release=$(of "$2")
  made=$(builder)
  cached "package-$1-$2" compile_package "$deb" "$debs" "$release" "$([ "$1" = open ] && echo open || echo proprietary)" "$made"
}
