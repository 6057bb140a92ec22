#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build a program of Kubernetes from the Go modules that a go.mod names, once; prints its path. Built programs are kept in
# ~/.cache/kmodsmith/cluster. Status 3: the modules or a Go to build them cannot be had; the last line of stderr says why.
#   tests/cluster/tools/build.sh kube-apiserver
#   KUBERNETES=1.30 tests/cluster/tools/build.sh kube-apiserver    by the go.mod of that version, here or in a folder here
set -euo pipefail
cd "$(dirname "$0")"
self=$PWD/build.sh
name=${1:?usage: build.sh PROGRAM}
for mod in go.mod */go.mod; do
  version=$(sed -nE 's#^require k8s.io/kubernetes (v.*)#\1#p' "$mod")
  [[ $version. != v${KUBERNETES:+$KUBERNETES.}* ]] || break
  version=
done
[ -n "$version" ] || { echo "there is no go.mod for Kubernetes $KUBERNETES" >&2; exit 1; }
cd "$(dirname "$mod")"
wanted=$(sed -nE 's/^go //p' go.mod)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kmodsmith/cluster
out=$cache/$(cat go.mod go.sum "$self" | sha256sum | cut -c1-16)/$name
unset GOFLAGS GOROOT
export CGO_ENABLED=0 GOTOOLCHAIN=auto

lacking() { echo "${1//$'\n'/ }" >&2; exit 3; }
# The first Go that knows of toolchains (1.21) fetches the one that go.mod wants. Debian's is older; it fetches that
# toolchain as what it is, a module, whose programs only lack their mode.
find_go() {
  local go dir target
  while read -r go; do
    if [[ $("$go" env GOVERSION) =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 21)); then echo "$go" && return; fi
  done < <(type -aP go)
  hash go 2>/dev/null || lacking "there is no 'go'; run scripts/deps.sh cluster"
  target=$(go env GOOS)-$(go env GOARCH)
  dir=$(cd / && go mod download -json "golang.org/toolchain@v0.0.1-go$wanted.$target" 2>"$cache/log" | jq -r .Dir) ||
    lacking "no Go $wanted from the module proxy: $(tail -1 "$cache/log")"
  chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/* 2>/dev/null || { chmod u+w "$dir"/{bin,pkg/tool/*}{,/*} && chmod +x "$dir"/{bin,pkg/tool/*}/*; }
  echo "$dir/bin/go"
}

[ ! -x "$out" ] || { echo "$out"; exit; }
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
[ ! -x "$out" ] || { echo "$out"; exit; }
go=$(find_go)
"$go" list -deps "k8s.io/kubernetes/cmd/$name" >/dev/null 2>"$cache/log" || lacking "Go modules: $(tail -1 "$cache/log")"
mkdir -p "${out%/*}"
nice -n 10 "$go" build -p 2 -buildvcs=false -trimpath -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$version" \
  -o "$out.part" "k8s.io/kubernetes/cmd/$name" >&2
mv "$out.part" "$out"
echo "$out"
