#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The runtime image: what a node needs and no more. From the base root it takes the programs below, the
# libraries that they name, and what those name; there is neither a compiler nor a package manager.
#   images/runtime.sh
# shellcheck source=images/common.bash
. "$(dirname "$0")/common.bash"
base=$(images/base.sh)
root=$out/runtime/root
# What the pods' containers, probes and hooks call, and what somebody who looks into a container types.
applets=(awk basename cat chmod chown chroot cmp cp cut date dd df dirname dmesg du echo env expr false find free grep
  head hostname id kill ln ls mkdir mknod mktemp mount mv nsenter od pgrep pidof pkill printf ps pwd readlink realpath
  rm rmdir sed seq sha256sum sleep sort stat stty sync tail tar tee test timeout touch tr true tty umount uname uniq
  vi wc which xargs)

# libcurl names these for protocols that are never spoken (base/http/http.c allows http and https) and for cookies, and with
# them comes a second TLS library, Kerberos and 14 more: 7 MB. Two are called all the same: of libssh2 its beginning, which
# succeeds, and of libidn2, which brings 2 MB of tables, the spelling of host names that are not ASCII, which fails. libmicrohttpd's
# GnuTLS would be 6 MB: its beginning succeeds, and it tells no version, by which base/http/http_server.c knows that there is no TLS.
declare -A standins=([librtmp.so.1]='' [libldap-2.5.so.0]='' [liblber-2.5.so.0]='' [libldap.so.2]='' [liblber.so.2]=''
  [libgssapi_krb5.so.2]='' [libpsl.so.5]='' [libssh2.so.1]=0 [libidn2.so.0]=-1 [libgnutls.so.30]=0)

take() { # PATH...: from the base root with all that it needs, once; a link becomes a relative one
  local path to
  for path in "$@"; do
    if [ -e "$root/$path" ] || [ -L "$root/$path" ]; then continue; fi
    [ -e "$base/$path" ] || [ -L "$base/$path" ] || fail "the base root has no '$path'"
    mkdir -p "$root/$(dirname "$path")"
    if [ -L "$base/$path" ]; then
      to=$(within "$path" "$(readlink "$base/$path")")
      ln -sr "$root/$to" "$root/$path"
      take "$to"
    else
      cp -a "$base/$path" "$root/$path"
      needs "$root/$path"
    fi
  done
}
within() { # PATH TARGET: what the link at PATH means, with merged /usr
  case $2 in /*) echo "${2#/}" ;; *) realpath -ms --relative-to=/ "/$(dirname "$1")/$2" ;; esac |
    sed -E 's#^(bin|sbin|lib|lib64)/#usr/&#'
}
needs() { # ELF: the libraries and the loader that it names
  local name
  for name in $(objdump -p "$1" 2>/dev/null | sed -n 's/^  NEEDED *//p'); do
    name=usr/lib/$triplet/$name
    if [ -z "${standins[${name##*/}]+is}" ]; then
      take "$name"
    elif [ ! -e "$root/$name" ]; then
      images/standin.sh "$base/$name" "$root/$name" "${standins[${name##*/}]}"
    fi
  done
  name=$(readelf -lW "$1" 2>/dev/null | sed -nE 's#.*interpreter: /(.*)\]#usr/\1#p') || return 0
  [ -z "$name" ] || take "$name"
}
programs() {
  local name
  take usr/bin/{bash,dash,busybox,kmod} usr/lib/modprobe.d/aliases.conf
  # curl, yaml and microhttpd are loaded when they are needed; the others are the C library's, and NVIDIA's programs name them
  take "usr/lib/$triplet"/lib{curl.so.4,dl.so.2,m.so.6,microhttpd.so.12,pthread.so.0,rt.so.1,util.so.1,yaml-0.so.2}
  ln -s dash "$root/usr/bin/sh"
  ln -s kmod "$root/usr/bin/lsmod"
  for name in "${applets[@]}"; do ln -s busybox "$root/usr/bin/$name"; done
  for name in depmod insmod modinfo modprobe rmmod; do ln -s ../bin/kmod "$root/usr/sbin/$name"; done
}
ours() { # the build id would tell in which directory it was built
  local name
  mkdir -p "$root/usr/libexec"
  strip -R .note.gnu.build-id -o "$root/usr/bin/kmodsmith" build/release/kmodsmith
  strip -R .note.gnu.build-id -o "$root/usr/libexec/kmodsmith" build/release/kmodsmith-static
  needs "$root/usr/bin/kmodsmith"
  for name in nvidia-driver driver-manager ocp_dtk_entrypoint; do ln -s kmodsmith "$root/usr/bin/$name"; done
}
files() {
  mkdir -p "$root"/{dev,drivers,etc/modprobe.d,etc/ssl/certs,mnt,opt,proc,root,run,sys,usr/local/bin,var/lib,var/log} "$root"/usr/share
  mkdir -p "$root"/{tmp,var/tmp}
  chmod 1777 "$root"/{tmp,var/tmp}
  chmod 700 "$root/root"
  ln -s ../run "$root/var/run"
  printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
  printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
  cat "$base"/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
  take usr/lib/os-release
  ln -s ../usr/lib/os-release "$root/etc/os-release"
}

for name in kmodsmith kmodsmith-static; do
  [ -x "build/release/$name" ] || fail "there is no build/release/$name; run: make all static"
done
skeleton "$root"
programs
ours
files
epoch=$(epoch_of "$base")
describe runtime "$epoch" --base "$base"
pack "$root" "$epoch" "$root.tar"
echo "$epoch" >"$root.epoch"
[ -z "${ROOT_ONLY-}" ] || exit 0 # Containerfile makes the image
images/layer.sh "$root.tar" "$out/runtime/layer.tar"
images/oci.sh runtime "$epoch" "$out/runtime/oci.tar" "$out/runtime/layer.tar" "${environment[@]}"
