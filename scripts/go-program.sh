#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build a program of others from its Go module, and print its path: of the commit that we read it in (nvidia.def), if the proxy has
# that, else the newest release that it offers. It is kept in
# ~/.cache/kmodsmith/go, and asked for anew after a month. Status 3: it cannot be had, and the last line of stderr says why.
#   scripts/go-program.sh MODULE/PATH     github.com/sigstore/cosign/v2/cmd/cosign
#   scripts/go-program.sh --source MODULE/PATH   the folder of its module's source, too: with what else is in it
#   scripts/go-program.sh --main FILE MODULE     of a module that is a library: FILE is the program's main
# CGO_ENABLED=1 is for those that are partly C.
set -euo pipefail
source='' main=''
[ "${1-}" != --source ] || { source=yes && shift; }
[ "${1-}" != --main ] || { main=$(realpath "${2-}") && shift 2; }
package=${1:?usage: go-program.sh [--source | --main FILE] MODULE/PATH}
cache=${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith}/go
made=$cache/${package//\//+}${main:+-$(sha256sum <"$main" | cut -c1-8)}
unset GOFLAGS GOROOT GOBIN
export CGO_ENABLED=${CGO_ENABLED:-0} GOTOOLCHAIN=auto GOPATH=${GOPATH:-$HOME/go}

lacking() { echo "$1" >&2 && exit 3; }
is_young() { [ -n "$(find "$made" -mtime -30 2>/dev/null)" ]; }
# A Go before 1.21 knows of no toolchains: it fetches a newer one as what it is, a module, whose programs only lack their mode.
find_go() {
  local go dir wanted
  go=$(type -P go) || lacking "there is no 'go'; run scripts/deps.sh cluster"
  if [[ $("$go" env GOVERSION) =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 21)); then echo "$go" && return; fi
  wanted=$(sed -nE 's/^go //p' "$(dirname "$0")/../tests/cluster/tools/go.mod")
  dir=$(cd / && "$go" mod download -json "golang.org/toolchain@v0.0.1-go$wanted.$("$go" env GOOS)-$("$go" env GOARCH)" 2>>"$cache/log" | jq -r .Dir) ||
    lacking "no newer Go from the module proxy: $(tail -n 1 "$cache/log")"
  chmod -R u+w "$dir/bin" "$dir/pkg/tool" && chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/*
  echo "$dir/bin/go"
}
commit() { [[ $package != github.com/NVIDIA/* ]] || sed -nE "s|^SOURCE\(\"$(cut -d/ -f3 <<<"$package")\", [^,]*, \"([0-9a-f]*)\".*|\1|p" \
  "$(dirname "$0")/../installer/cluster/node_state/nvidia.def"; }
install() ( # VERSION: into $made.new
  [ -n "$main" ] || GOBIN=$made.new exec nice -n 10 "$go" install -trimpath -ldflags=-s "$package@$1"
  mkdir "$made.main" && cp "$main" "$made.main/main.go" && cd "$made.main" || exit
  "$go" mod init main && "$go" get "$package@$1" &&
    exec nice -n 10 "$go" build -mod=mod -trimpath -ldflags=-s -o "$made.new/${package##*/}" .
)

mkdir -p "$cache"
exec 9>"$made.lock" && flock 9
if ! is_young; then
  : >"$cache/log"
  go=$(find_go)
  rm -rf "$made".{new,main}
  of=$(commit)
  if { [ -n "$of" ] && install "$of"; } 2>>"$cache/log" || install latest 2>>"$cache/log"; then
    mv "$made.new/${package##*/}" "$made" && rm -rf "$made".{new,main}
  elif [ ! -x "$made" ]; then # an older one is better than none
    lacking "$package: $(tail -n 1 "$cache/log")"
  fi
fi
[ -n "$source" ] || { echo "$made" && exit; }
go=${go-$(find_go)}
cd /
"$go" mod download -json "$("$go" version -m "$made" | awk '$1 == "mod" { print $2 "@" $3 }')" 2>>"$cache/log" | jq -er .Dir ||
  lacking "$package: no source: $(tail -n 1 "$cache/log")"
