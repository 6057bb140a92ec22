# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Disks for guests that run containers: a Debian root with the real runc and podman, the unpacked driver image, and what
# stands for OpenShift's driver toolkit. All are ext4 files made without root rights or loop devices, kept by what they are
# made from; no guest ever changes one.

# Every package by name, because the closure that apt makes drags in perl, GnuPG and network plug-ins that nobody calls.
# podman needs the files of golang-github-containers-*; the others are libraries of the programs. NAME|NAME: as Debian 12 and
# as Debian 13 call it.
root_packages="base-files libc6 libgcc-s1 busybox-static dash bash libtinfo6 kmod libkmod2 liblzma5 libzstd1 libssl3|libssl3t64
  jq libjq1 libonig5 runc libseccomp2 conmon libglib2.0-0|libglib2.0-0t64 libpcre2-8-0 libsystemd0 liblz4-1 libcap2 libgcrypt20
  libgpg-error0 podman libgpgme11|libgpgme11t64 libassuan0|libassuan9 libdevmapper1.02.1 libselinux1 libudev1 libsubid4|libsubid5
  netavark libatomic1 libbsd0 libmd0 zlib1g libsqlite3-0 libacl1 libattr1 libaudit1 libcap-ng0 libcrypt1 libsemanage2
  libsepol2 libbz2-1.0 libpam0g
  golang-github-containers-image golang-github-containers-common"

# The compiler of Debian's kernels, and what the build of a kernel module calls.
toolkit_packages="gcc make bash coreutils diffutils findutils grep sed gawk patch libelf1"

root_debs() { # -> paths, asked of apt as seldom as the kernels are
  local list
  list=$cache/vm/root-debs.$(digest "$root_packages" | sha256sum | cut -c1-16)
  if [ ! -s "$list" ] || [ "$list" -ot "$cache/inputs.env" ]; then
    # shellcheck disable=SC2086 # several names
    "$top/scripts/inputs.sh" $root_packages >"$list.$$"
    mv "$list.$$" "$list"
  fi
  cat "$list"
}

# as_root COMMAND...: files made by COMMAND belong to root, for mkfs at least
as_root() { unshare --map-root-user "$@"; }

# What the packages' scripts would do, as far as anything here needs it.
fill_root() { # TREE KERNEL DEB...
  local tree=$1 kernel=$2 deb applet dir
  shift 2
  mkdir -p "$tree"/usr/{bin,sbin,lib,lib64}
  for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$tree/$dir"; done
  for deb in "$@"; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$tree" --no-same-owner --keep-directory-symlink \
      --exclude='./usr/share/[dlm]o[c-e]*/*' --exclude='./usr/share/man/*' || return
  done
  ln -sf dash "$tree/usr/bin/sh"
  for applet in $("$tree/bin/busybox" --list); do
    [ -e "$tree/usr/bin/$applet" ] || [ -e "$tree/usr/sbin/$applet" ] || ln -s busybox "$tree/usr/bin/$applet"
  done
  ldconfig -r "$tree" && cp -r "$kernel/lib/modules" "$tree/usr/lib/" &&
    echo "root:x:0:0:root:/root:/bin/sh" >"$tree/etc/passwd" && echo "root:x:0:" >"$tree/etc/group" &&
    : >"$tree/etc/resolv.conf" && echo "127.0.0.1 localhost" >"$tree/etc/hosts" &&
    mkdir -p "$tree"/{vm,files,packages,beside,boot,images,var/lib,var/log,etc/containers}
}

make_disk() { # FILE SIZE TREE: sparse, so that only what is in it takes room
  truncate -s "$2" "$1" && mkfs.ext4 -q -d "$3" -E lazy_itable_init=1,lazy_journal_init=1 "$1"
}

make_root() { # DIR KERNEL DEB...
  fill_root "$1/tree" "${@:2}" && make_disk "$1/disk" 6G "$1/tree" && rm -rf "$1/tree"
}

# A machine that nobody prepared: a shell and a package manager, no compiler, no headers.
stock_packages="apt bash busybox-static coreutils dash dpkg findutils grep kmod mount sed"

make_stock() { # DIR KERNEL DEB...
  fill_root "$1/tree" "${@:2}" && mkdir -p "$1/tree"/var/lib/dpkg/info && : >"$1/tree/var/lib/dpkg/status" &&
    rm -rf "$1/tree"/etc/apt/sources.list.d/* && make_disk "$1/disk" 3G "$1/tree" && rm -rf "$1/tree"
}

stock_disk() { # KEY -> file
  local image debs code made
  image=$(kernel "$1")
  # shellcheck disable=SC2086 # several names
  debs=$("$top/scripts/inputs.sh" --closure $stock_packages)
  code=$(declare -f fill_root make_disk | sha256sum)
  # shellcheck disable=SC2086 # several paths
  made=$(cached "stock-$1" with_code "$code" make_stock "$image" $debs)
  echo "$made/disk"
}

# A machine with systemd as its first process, a package manager whose database says what is there, and what a kernel's package
# and ours ask for. guest.service runs the script once everything else that a boot starts has started.
service_packages="apt base-files base-passwd bash busybox-static coreutils dash debianutils diffutils dpkg findutils grep gzip hostname libc-bin
  init-system-helpers initramfs-tools kmod libacl1 libcurl4 libjansson4 libmicrohttpd12
  libseccomp2 libyaml-0-2 linux-base login mount ncurses-bin perl-base sed systemd-sysv sysvinit-utils tar udev util-linux zstd"

make_service() { # DIR KERNEL DEB...
  local tree=$1/tree info=$1/tree/var/lib/dpkg/info deb name arch
  fill_root "$tree" "${@:2}" && mkdir -p "$info" "$tree"/var/lib/dpkg/updates "$tree"/etc/systemd/system/multi-user.target.wants &&
    rm -rf "$tree"/etc/apt/sources.list.d/* && cp "$tree/usr/share/base-passwd/passwd.master" "$tree/etc/passwd" &&
    cp "$tree/usr/share/base-passwd/group.master" "$tree/etc/group" && : >"$tree/etc/machine-id" || return
  for deb in "${@:3}"; do
    name=$(dpkg-deb -f "$deb" Package) arch=$(dpkg-deb -f "$deb" Multi-Arch Architecture)
    if [[ $arch = *"Multi-Arch: same"* ]]; then name=$name:${arch##*Architecture: }; fi
    { dpkg-deb -f "$deb" | sed '1a Status: install ok installed'; echo; } >>"$tree/var/lib/dpkg/status"
    dpkg-deb --fsys-tarfile "$deb" | tar -t | sed 's|^\.||; s|/$||; s|^$|/.|' >"$info/${name%:all}.list"
  done
  cat >"$tree/etc/systemd/system/guest.service" <<'END' && ln -s ../guest.service "$tree/etc/systemd/system/multi-user.target.wants/" &&
[Unit]
DefaultDependencies=no
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /vm/init script
TimeoutStartSec=infinity
END
    for name in serial-getty@ttyS0 getty@tty1 apt-daily.timer apt-daily-upgrade.timer systemd-networkd-wait-online; do
      ln -s /dev/null "$tree/etc/systemd/system/${name%.timer}$([[ $name = *.timer ]] && echo .timer || echo .service)" || return
    done && make_disk "$1/disk" 4G "$tree" && rm -rf "$tree"
}

service_disk() { # KEY -> file
  local image debs code made suite=()
  case $1 in K13*) suite=(--suite trixie) ;; esac
  image=$(kernel "$1")
  # shellcheck disable=SC2086 # several names
  debs=$("$top/scripts/inputs.sh" "${suite[@]}" --closure $service_packages)
  code=$(declare -f fill_root make_disk make_service | sha256sum)
  # shellcheck disable=SC2086 # several paths
  made=$(cached "service-$1" with_code "$code" make_service "$image" $debs)
  echo "$made/disk"
}

root_disk() { # KEY -> file
  local image debs made code
  image=$(kernel "$1")
  debs=$(root_debs)
  code=$(declare -f fill_root make_disk | sha256sum)
  # shellcheck disable=SC2086 # several paths
  made=$(cached "root-$1" with_code "$code" make_root "$image" $debs)
  echo "$made/disk"
}

with_code() { # DIR CODE FUNCTION ARGUMENT...: CODE is there to be part of the key
  as_root bash -euc "$(declare -f fill_root make_disk make_root make_stock make_service); "'"$@"' bash "$3" "$1" "${@:4}"
}

# The image's files in /NAME, what its configuration says in /NAME.json: the way a container runtime has them unpacked.
make_image() { # DIR NAME OCI-TAR ROOT-TAR
  local tree=$1/tree work=$1/oci manifest
  mkdir -p "$tree/$2" "$work" && tar -x -C "$work" -f "$3" &&
    manifest=$(jq -r '.manifests[0].digest[7:]' "$work/index.json") &&
    jq .config "$work/blobs/sha256/$(jq -r '.config.digest[7:]' "$work/blobs/sha256/$manifest")" >"$tree/$2.json" &&
    tar -x -C "$tree/$2" --no-same-owner -f "$4" && make_disk "$1/disk" 4G "$tree" && rm -rf "$tree" "$work"
}

# What the tests look at, and the smaller one of the two sources: a third of what `make images` puts into a driver image. A
# guest copies all of it at the first start of a driver, and its processor is emulated.
make_driver_image() {
  local version files
  version=$(dpkg-deb -f "$(of OPEN)" Version)
  files=$("$top/scripts/inputs.sh" {libcuda1,libnvidia-ml1,nvidia-smi,firmware-nvidia-gsp,nvidia-kernel-source}="$version" \
    'libtirpc3|libtirpc3t64' libtirpc-common libgcc-s1)
  files+=$'\n'$("$top/scripts/inputs.sh" nvidia-modprobe nvidia-persistenced | { grep "_${version%%.*}\." || true; })
  make -s -C "$top" all static
  "$top/scripts/images.sh" runtime
  # shellcheck disable=SC2086 # several paths
  "$top/scripts/images.sh" driver --driver "${version%%-*}" $files
}

image_disk() { # NAME -> file, of an image that is not older than the program in it
  local dir=$top/build/images-vm/$1 code made lock
  mkdir -p "$top/build" && exec {lock}>"$top/build/images.lock" && flock "$lock"
  if [ ! -f "$dir/oci.tar" ] || [ "$dir/oci.tar" -ot "$top/build/release/kmodsmith" ]; then
    IMAGES_OUT=$top/build/images-vm "make_$1_image" >&2
  fi
  exec {lock}>&-
  code=$(declare -f make_image make_disk | sha256sum)
  made=$(cached "image-$1" unpack_image "$code" "$1" "$dir/oci.tar" "$dir/root.tar")
  echo "$made/disk"
}

unpack_image() { # DIR CODE NAME OCI-TAR ROOT-TAR
  as_root bash -euc "$(declare -f make_disk make_image); "'make_image "$@"' bash "$1" "${@:3}"
}

# A container's root that is none of ours, with a compiler, and the kernel's headers and image where Red Hat's toolkit has
# them; beside it what the image's configuration would say.
make_toolkit() { # DIR KERNEL RELEASE DEB...
  local made=$1 tree=$1/tree root=$1/tree/root image=$2 release=$3 dir deb
  shift 3
  mkdir -p "$root"/usr/{bin,sbin,lib,lib64}
  for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$root/$dir"; done
  for deb in "$@"; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --no-same-owner --keep-directory-symlink \
      --exclude='./usr/share/[dlm]o[c-e]*/*' --exclude='./usr/share/man/*' || return
  done
  ln -sf bash "$root/usr/bin/sh" && ln -sf gawk "$root/usr/bin/awk" && ldconfig -r "$root" &&
    mkdir -p "$root"/{dev,proc,sys,tmp,mnt,host-etc,run,var/log} &&
    cp "$image/boot/vmlinuz-$release" "$root/usr/lib/modules/$release/vmlinuz" &&
    echo '{"Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]}' >"$tree/image.json" && make_disk "$made/disk" 2G "$tree" &&
    rm -rf "$tree"
}

toolkit_disk() { # KEY -> file
  local image release headers debs code made
  image=$(kernel "$1")
  release=$(of "$1")
  headers=$(of "$1" _HEADERS)
  # shellcheck disable=SC2086 # several names
  debs=$("$top/scripts/inputs.sh" --closure $toolkit_packages)
  code=$(declare -f make_toolkit make_disk | sha256sum)
  # shellcheck disable=SC2086 # several paths
  made=$(cached "toolkit-$1" unpack_toolkit "$code" "$image" "$release" $debs $headers)
  echo "$made/disk"
}

unpack_toolkit() { # DIR CODE KERNEL RELEASE DEB...
  as_root bash -euc "$(declare -f make_disk make_toolkit); "'make_toolkit "$@"' bash "$1" "${@:3}"
}
