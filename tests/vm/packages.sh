# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Driver packages for guests, made by `kmodsmith build`: `package NAME KEY` prints a directory with the package of NVIDIA's
# source NAME (open, proprietary, tesla535, tesla470, open13 ...) for the kernel KEY, as an OCI layout in layout/, and with the
# module files of its layer, as tar unpacks them, in modules/. NAME may also be `liar`, modules of another kernel that are said
# to be of this one, `cut`, with a module that ends early, `small`, the driver of one file in tests/vm/driver, or `given`, the
# open modules of the directory DRIVER_SOURCE. KEY-NAME is the package NAME with modules that KEY signed (secure_keys), KEY.sha512-NAME
# with that hash, and KEY.tampered-NAME with modules that were changed after it.

compile_package() { # DIR DEB HEADERS RELEASE FLAVOUR BUILDER [TOOLS [ANYTHING that decides the bytes, too]]
  local headers=$3 layer state
  state=$(state_with "${7-}") || return
  "${KMODSMITH:-$top/build/release/kmodsmith}" build --source "$2" --headers "${headers// /,}" --kernel "$4" --flavour "$5" \
    --state-dir "$state" --output "oci:$1/layout" && layer=$(blob_of "$1/layout" layers) && mkdir "$1/modules" &&
    tar --zstd -xf "$layer" -C "$1/modules" --strip-components=4 --wildcards '*.ko'
}

state_with() { # TOOLS -> a state directory whose builder is that directory of images/tools.sh; nothing: this machine's compilers
  local state=$cache/build${1:+-$(basename "${1%-tools-*}")}
  if [ -n "$1" ] && [ "$(cat "$state/tools" 2>/dev/null)" != "$1" ]; then
    "${KMODSMITH:-$top/build/release/kmodsmith}" pack builder "$1/root.tar" --state-dir "$state" >&2 && echo "$1" >"$state/tools" || return
  fi
  echo "$state"
}

blob_of() { # LAYOUT config|layers: the file of the one package's configuration, or of its layer
  local manifest
  manifest=$1/blobs/sha256/$(jq -r ".manifests[] | select(.artifactType == \"application/vnd.kmodsmith.kmod.package.v1\").digest[7:]" "$1/index.json")
  echo "$1/blobs/sha256/$(jq -r "[.$2] | flatten[0].digest[7:]" "$manifest")"
}

# What decides the bytes of modules, beside their inputs, and the format that they are kept in.
builder() {
  {
    cat "$top"/kmod/{build/build,source/{module_type,patch,recipe,source},kernel_tree/{toolchain,tree}}.c "$top"/kmod/source/patches/*
    grep 'FORMAT =' "$top/precompiled/package/package.c"
  } | sha256sum
}

# Modules in a layout that says something else of them.
forge_package() { # DIR MODULES RELEASE [SIZE of nvidia.ko]
  cp -r "$2" "$1/modules" && { [ -z "${4-}" ] || truncate -s "$4" "$1/modules/nvidia.ko"; } &&
    python3 "$top/tests/services/make_layout.py" --kernel "$3" --label kernel.build-id= "$1/layout" "$1"/modules/*.ko
}

# The same package, of modules that were signed after the compile: what a site's signing service would publish.
sign_package() { # DIR PACKAGE KEY[.CHANGE] KEYS SIGNER MAKE_LAYOUT
  local config change=${3#"${3%%.*}"} hash=sha256 labels
  case $change in '' | .tampered) ;; *) hash=${change#.} ;; esac
  config=$(blob_of "$2/layout" config) && cp -r "$2/modules" "$1/modules" && chmod -R u+w "$1/modules" &&
    HASH=$hash "$5" "$4/${3%%.*}" "$1"/modules/*.ko || return
  [ "$change" != .tampered ] || sed -i 's/GCC: (Debian/GCC: (debian/' "$1"/modules/*.ko || return # a comment, and nothing that runs
  mapfile -t labels < <(jq -r '.config.Labels | del(.["io.kmodsmith.files"]) | to_entries[] |
    "--label", "\(.key | ltrimstr("io.kmodsmith."))=\(.value)"' "$config")
  python3 "$6" --kernel "$(jq -r '.config.Labels["io.kmodsmith.kernel.release"]' "$config")" \
    --driver "$(jq -r '.config.Labels["io.kmodsmith.driver"]' "$config")" \
    --flavour "$(jq -r '.config.Labels["io.kmodsmith.flavour"]' "$config")" "${labels[@]}" "$1/layout" "$1"/modules/*.ko
}

# The driver of one file and its other modules, in one tree. The licence and the words of the open flavour make it one; its
# version is of a branch that no patch is for.
smallopen_version=545.1.01
small_source() { # DIR DRIVER FLAVOUR VERSION
  cp -r "$2/kernel" "$1/" && cp -r "$2"/others/* "$1/kernel/" || return
  [ "$3" = proprietary ] || sed -i -e 's|MODULE_LICENSE("NVIDIA")|MODULE_LICENSE("Dual MIT/GPL")|' \
    -e 's|"x86_64 Kernel Module"|"Open Kernel Module for x86_64"|' -e "s|\(NV_VERSION_STRING=..\)[0-9.]*|\1$4|" \
    "$1"/kernel/nvidia*/*.c "$1/kernel/Kbuild"
}

package() { # NAME KEY
  local deb debs release made other files tools keys flavour=proprietary
  release=$(of "$2")
  made=$(builder)
  case $1 in
  liar)
    other=$(package smallset K61R)
    cached "package-liar-$2" forge_package "$other/modules" "$release"
    ;;
  cut)
    other=$(package open "$2")
    cached "package-cut-$2" forge_package "$other/modules" "$release" 5000000
    ;;
  db[-.]* | site[-.]* | curve[-.]* | leaf[-.]* | stranger[-.]* | old*-* | mute-*)
    other=$(package "${1#*-}" "$2")
    keys=$(secure_keys)
    cached "package-$1-$2" sign_package "$other" "${1%%-*}" "$keys" "$here/sign-module.sh" "$top/tests/services/make_layout.py"
    ;;
  small)
    debs=$(of "$2" _HEADERS)
    files=$(find "$here/driver" -type f -exec sha256sum {} + | sort)
    cached "package-small-$2" compile_package "$here/driver" "$debs" "$release" proprietary "$made" "" "$files"
    ;;
  given)
    debs=$(of "$2" _HEADERS)
    tools=$(tools_of "$2")
    files=$(find "${DRIVER_SOURCE:?}" -name .git -prune -o -type f -exec sha256sum {} + | sort)
    cached "package-given-$2" compile_package "$DRIVER_SOURCE" "$debs" "$release" open "$made" "$tools" "$files"
    ;;
  smallset | smallopen)
    debs=$(of "$2" _HEADERS)
    files=$(find "$here/driver" -type f -exec sha256sum {} + | sort)
    [ "$1" = smallset ] || flavour=open
    other=$(cached "source-$1" small_source "$here/driver" "$flavour" "$smallopen_version" "$files")
    cached "package-$1-$2" compile_package "$other" "$debs" "$release" "$flavour" "$made"
    ;;
  *)
    deb=$(of "${1^^}")
    debs=$(of "$2" _HEADERS)
    tools=$(tools_of "$2")
    [[ $1 != open* ]] || flavour=open
    cached "package-$1-$2" compile_package "$deb" "$debs" "$release" "$flavour" "$made" ${tools:+"$tools"}
    ;;
  esac
}
