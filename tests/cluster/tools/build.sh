#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build Kubernetes from the Go modules that a go.mod names, once, and print the path of one of its programs: those of its servers
# (main.go here) or of its nodes (in tests/whole/tools). What was built is kept in ~/.cache/kmodsmith/cluster with its digest; a
# damaged file is built again. Status 3: it is not there, and the last line of stderr says why it cannot be had. Status 1: it does
# not build.
#   tests/cluster/tools/build.sh [--cached] kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kube-proxy
#   KUBERNETES=1.30 tests/cluster/tools/build.sh kube-apiserver    by the go.mod of that version, here or in a folder here
# With --cached nothing is built or fetched.
set -euo pipefail
cd "$(dirname "$0")"
readonly CPU_SECONDS=830 # of one build; the modules that it fetches are 120 MB
is_cached=
[ "${1-}" != --cached ] || { is_cached=yes && shift; }
name=${1:?usage: build.sh [--cached] PROGRAM}
tier=cluster programs=(kube-apiserver kube-controller-manager kube-scheduler)
case $name in kubelet | kube-proxy) tier=whole && cd ../../whole/tools && programs=(kubelet kube-proxy) ;; esac
for mod in go.mod */go.mod; do
  version=$(sed -nE 's#^\tk8s.io/kubernetes (v.*)#\1#p' "$mod")
  [[ $version. != v${KUBERNETES:+$KUBERNETES.}* ]] || break
  version=
done
[ -n "$version" ] || { echo "there is no go.mod for Kubernetes $KUBERNETES" >&2; exit 1; }
wanted=$(sed -nE 's/^go //p' "$mod")
options=(-modfile="$mod" -buildvcs=false -trimpath -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$version")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kmodsmith/cluster
made=$cache/$({ echo "${options[@]}"; cat "$mod" "${mod%mod}sum" main.go; } | sha256sum | cut -c1-16)
unset GOFLAGS GOROOT
export CGO_ENABLED=0 GOTOOLCHAIN=auto

lacking() { echo "${1//$'\n'/ }" >&2; exit 3; }
failed() { # WHAT: what went wrong in $cache/log; without the network it is lacking, on a full disk it is an error
  ! grep -q 'no space left on device' "$cache/log" || { echo "$1: no space left on the disk of $cache or of Go's caches" >&2; exit 1; }
  lacking "$1: $(tail -1 "$cache/log")"
}
is_whole() { [ -x "$made/kubernetes" ] && (cd "$made" && sha256sum --status -c kubernetes.sha256 2>/dev/null); }
found() {
  [ -L "$made/$name" ] || { echo "Kubernetes is built without a '$name'" >&2; exit 1; }
  echo "$made/$name"
  exit
}
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
    failed "no Go $wanted from the module proxy"
  chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/* 2>/dev/null || { chmod u+w "$dir"/{bin,pkg/tool/*}{,/*} && chmod +x "$dir"/{bin,pkg/tool/*}/*; }
  echo "$dir/bin/go"
}
build() { # the digest is there before the program, which comes whole or not at all
  local go
  go=$(find_go)
  "$go" list "${options[@]:0:1}" -deps . >/dev/null 2>"$cache/log" || failed "Go modules"
  rm -rf "$made.part" "$made" && mkdir "$made.part"
  nice -n 10 "$go" build "${options[@]}" -o "$made.part/kubernetes" . 2>"$cache/log" ||
    { ! grep -q 'no space left' "$cache/log" || failed Kubernetes; cat "$cache/log" >&2; exit 1; }
  (cd "$made.part" && sha256sum kubernetes >kubernetes.sha256)
  for program in "${programs[@]}"; do ln -s kubernetes "$made.part/$program"; done
  sync -f "$made.part" && mv "$made.part" "$made"
}

! is_whole || found
if [ -n "$is_cached" ]; then
  lacking "the $tier tier needs Kubernetes built from its Go modules, about $((CPU_SECONDS / 60 / $(nproc) + 1)) minutes here: make check-all builds it"
fi
mkdir -p "$cache"
exec 9>"$cache/lock"
flock -n 9 || { echo "another run builds Kubernetes; waiting for it" >&2 && flock 9; }
! is_whole || found
[ ! -e "$made/kubernetes" ] || echo "$made/kubernetes is damaged; building it again" >&2
build
found
