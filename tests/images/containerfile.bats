#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# images/Containerfile with buildah, on a Debian of this machine's mirror: the same files and settings as scripts/images.sh makes.
# shellcheck disable=SC2154 # bats sets status and output; helper.bash sets top and images
load helper

setup_file() {
  [ "$(id -u)" -eq 0 ] || skip "only root can make images"
  export work=$BATS_FILE_TMPDIR suite base ROOT_LACKS=''
  suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  export CONTAINERS_STORAGE_CONF=$work/storage.conf
  mkdir -p "$work"/overlay/{lower,upper,work,merged}
  storage=vfs # which copies each layer whole
  ! unshare -m mount -t overlay -o "lowerdir=$work/overlay/lower,upperdir=$work/overlay/upper,workdir=$work/overlay/work" overlay \
    "$work/overlay/merged" 2>/dev/null || storage=overlay
  printf '[storage]\ndriver = "%s"\ngraphroot = "%s"\nrunroot = "%s"\n' "$storage" "$work/storage" "$work/run" >"$CONTAINERS_STORAGE_CONF"
  top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
  "$top/scripts/other-root.sh" "$suite" -- true >"$work/root.log" 2>&1 || {
    ROOT_LACKS="no Debian to build on: $(tail -n 1 "$work/root.log")" && return
  }
  base=$(buildah from scratch)
  tar -C "${KMODSMITH_CACHE:-$HOME/.cache/kmodsmith}/roots/$suite" --one-file-system --exclude=./src --exclude='./root/*' -cf "$work/base.tar" .
  buildah add -q "$base" "$work/base.tar" / >/dev/null
  buildah commit -q --rm "$base" "localhost/debian:$suite" >/dev/null
  rm "$work/base.tar"
  mkdir "$work/context"
  git -C "$top" ls-files -z --cached --others --exclude-standard | tar -C "$top" --null -T - --ignore-failed-read -c | tar -x -C "$work/context"
}
setup() { [ -z "$ROOT_LACKS" ] || skip "$ROOT_LACKS"; }
teardown_file() { # or their mounts stay
  [ "$(id -u)" -ne 0 ] || { buildah rm --all && buildah rmi --all --force; } >/dev/null
}
build() { # TARGET OPTION...
  run buildah build --isolation chroot --network host --layers -f "$work/context/images/Containerfile" --build-arg "DEBIAN=localhost/debian:$suite" \
    --target "$1" -t "localhost/$1" "${@:2}" "$work/context"
}
# A root's files. The program tells of the tree that it was built in, and the lists of the versions that this machine has.
files_in() { (cd "$1" && find . -type f ! -name kmodsmith ! -path '*/usr/share/kmodsmith/[sl]*' -printf '%P %m %s\n' | sort); } # ROOT
root_of() { # TARGET
  local container
  container=$(buildah from "localhost/$1")
  files_in "$(buildah mount "$container")"
  buildah umount "$container" >/dev/null
  buildah rm "$container" >/dev/null
}
settings() { buildah inspect "localhost/$1" | jq -cS '.OCIv1.config | .Env |= sort | del(.Labels["io.buildah.version"])'; } # TARGET

@test "the runtime has the files and settings of the one that scripts/images.sh makes" {
  build runtime
  assert_success
  run diff <(root_of runtime) <(files_in "$images/runtime/root")
  assert_output ""
  assert_equal "$(settings runtime)" "$(config_of runtime '.config | .Env |= sort | del(.User)' | jq -cS .)"
}

@test "the driver of the packages that were given; without one, of another version or digest it is no image" {
  local file
  build driver --build-arg DRIVER_VERSION="$DRIVER"
  assert_failure
  assert_output --partial "images: name NVIDIA's .run with --build-arg DRIVER_RUN=FILE|URL"
  mkdir "$work/context/packages"
  for file in $DRIVER_FILES; do cp "$file" "$work/context/packages/"; done
  build driver --build-arg DRIVER_RUN=packages
  assert_failure
  assert_output --partial "with --build-arg DRIVER_VERSION=VERSION"
  build driver --build-arg DRIVER_RUN=packages --build-arg DRIVER_VERSION="$DRIVER" --build-arg DRIVER_SHA256=1234
  assert_failure
  assert_output --partial "not DRIVER_SHA256, 1234"
  build driver --build-arg DRIVER_RUN=packages --build-arg DRIVER_VERSION="$DRIVER"
  assert_success
  run diff <(root_of driver) <(files_in "$images/driver/root")
  assert_output ""
  run jq -r '.Env[] | select(test("^(DRIVER_VERSION|KMODSMITH_PAYLOAD)="))' <<<"$(settings driver)"
  assert_output "DRIVER_VERSION=$DRIVER
KMODSMITH_PAYLOAD=/usr/share/kmodsmith/payload"
}
