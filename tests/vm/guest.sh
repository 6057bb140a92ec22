# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A guest: a Debian kernel, an initramfs with the simulated devices, driver packages and a script, in QEMU.
# The first comment lines of the script describe the machine (words separated by blanks; `packages@13`, `next@13` and
# `kernel-debs@13` are in place of these on the kernels of Debian 13):
#   # kernel: K61 ...        keys of scripts/inputs.sh (K61 newest 6.1, K61B the one before, K61R older, K612, K13
#                          and K13B Debian 13's and the newest of its backports)  [K61]
#   # gpus: 2                # switches: 0    # fakegpu: gpu_id=0x20b2 ...   more parameters of the simulated GPU
#   # stub: yes              load the bring-up stub, so that /dev/nvidiaN can be opened                          [no]
#   # packages: open:K61 ... driver packages, layouts in /packages/open-K61 and the bare modules in /packages/open-K61.d;
#                            a bare name is for the kernel that runs: /packages/open
#   # firmware: no           leave out what stands for the GPUs' firmware of every driver version              [yes]
#   # debs: MODPROBE ...     Debian packages (keys of scripts/inputs.sh) unpacked into the guest's /
#   # programs: strace ...   programs of this machine, with the libraries they need, or of tests/vm/programs
#   # files: PATH ...        files of this repository, in /files under their base names
#   # net: yes              a network card; 10.0.2.2 is the loopback of this machine, and nothing else is reached
#   # beside: registry      tests/vm/beside/registry runs meanwhile; what it prepares lies in the guest's /beside
#   # disk: 512M            an NVMe disk, /dev/nvme0n1, empty at first
#   # boots: 2              the machine is started so often, with the same disk; $boot counts them. With two numbers, the
#                            first is for CHECK=check
#   # next: K61             from the second boot on it starts this kernel
#   # kernel-debs: K61 ...  Debian's packages of these kernels, image and headers, in /files
#   # modules: NAME ...     modules of the kernel that runs, with what they need, where modprobe finds them; none without
#   # root: debian          a Debian on a disk (root.sh) with runc, podman and all of the kernel's modules; with boots
#                            what it holds survives each of them. `stock`: one with apt, and nothing to compile with;
#                            `service`: one with systemd, which runs the script when its boot is complete, of the
#                            Debian that the kernel is of
#   # deb: yes               our own package, in /files/kmodsmith.deb
#   # image: driver         the driver image, of a few packages, unpacked in /images/driver; its configuration is
#                            /images/driver.json
#   # toolkit: yes          a root with a compiler and this kernel's headers in /toolkit/root, /toolkit/image.json
#   # secure-boot: db        UEFI Secure Boot: the firmware starts what a key in db signed, here kernel, initrd and command line
#                            as one EFI program. That key is in /vm/secure-boot, db.key, db.pem, db.der; so is stranger.*,
#                            which nobody knows, and sign-module.sh. The simulated devices are signed by db     [no]
#   # built-in: site:K61 curve:K612   the kernel has this certificate of secure_keys built in, in place of its own modules'
#   # mem: 1G (2G with secure-boot)   # cpus: 1   # append: lockdown=integrity ...
#   # timeout: 300          seconds of processor time that each boot may use; limit.sh says what else ends a guest
# Without Secure Boot the simulated devices are not signed, and enforced signatures would refuse them: let the script ask for
# that at run time, with
#   echo 1 >/sys/module/module/parameters/sig_enforce
# shellcheck source=cache.sh
. "$(dirname "${BASH_SOURCE[0]}")/cache.sh"
# shellcheck source=packages.sh
. "$here/packages.sh"
# shellcheck source=root.sh
. "$here/root.sh"
# shellcheck source=header.sh
. "$here/header.sh"
# shellcheck source=accel.sh
. "$here/accel.sh"
# shellcheck source=limit.sh
. "$here/limit.sh"
# shellcheck source=uefi.sh
. "$here/uefi.sh"

# BAR0 of the simulated devices lies here; init.sh knows the address, too.
# The kernel's tests of its own ciphers at each boot tell nothing of ours.
# The boot-time check of the timer fails where the host is too busy to deliver four ticks in time; under KVM Linux leaves it out,
# too.
always="console=ttyS0 memmap=256M\$0x30000000 panic=-1 oops=panic mitigations=off cryptomgr.notests no_timer_check"

add_program() { # ROOT PROGRAM GUEST-PATH...: with the libraries that ldd finds
  local root=$1 program=$2 path
  shift 2
  for path in "$@"; do install -D "$program" "$root$path"; done
  { ldd "$program" 2>/dev/null || true; } | sed -nE 's|.*[[:space:]](/[^ ]+) \(.*|\1|p' | while read -r path; do
    install -D "$path" "$root$path"
  done
}

add_base() { # ROOT KEY SCRIPT
  local kmod release modules image
  release=$(of "$2")
  if is_secure "$3"; then modules=$(signed_test_modules "$2"); else modules=$(test_modules "$2"); fi
  kmod=$(readlink -f "$(command -v modprobe)")
  mkdir -p "$1"/{bin,sbin,dev,proc,sys,run,tmp,var,root,etc,files,packages,vm,lib/modules/"$release"}
  add_program "$1" "$(command -v busybox)" /bin/busybox
  # Not busybox sh, because that prefers its own insmod and modprobe whatever PATH says.
  add_program "$1" "$(command -v dash)" /bin/sh
  add_program "$1" "$kmod" /sbin/{insmod,rmmod,lsmod,modprobe,modinfo,depmod}
  install "$here/init.sh" "$1/init"
  cp "$here/lib.sh" "$1/vm/lib.sh"
  cp -r "$here/pods" "$1/vm/"
  # As on any host: without headers, the kernel's image and configuration tell what a module must fit.
  image=$(kernel "$2")
  mkdir -p "$1/boot"
  cp "$image/boot/vmlinuz-$release" "$image/boot/config-$release" "$1/boot/"
  ln -s "$modules" "$1/vm/modules"
}

add_wishes() { # ROOT KEY SCRIPT: what the script's header asks for
  local name key made
  for name in $(header "$3" packages "" "$2"); do
    key=${name#*:}
    [ "$key" != "$name" ] || key=$2
    made=$(package "${name%:*}" "$key")
    ln -sT "$made/layout" "$1/packages/${name/:/-}"
    ln -sT "$made/modules" "$1/packages/${name/:/-}.d"
  done
  if [ "$(header "$3" firmware yes)" = yes ]; then add_firmware "$1"; fi
  for name in $(header "$3" debs ""); do
    made=$(of "$name")
    dpkg-deb --extract "$made" "$1"
  done
  for name in $(header "$3" programs ""); do
    if [ -f "$here/programs/$name.c" ]; then
      made=$(cached "program-$name" compile_program "$here/programs/$name.c")/program
    else
      made=$(command -v "$name")
    fi
    add_program "$1" "$made" "/usr/bin/$name"
  done
  for name in $(header "$3" files ""); do ln -s "$top/$name" "$1/files/"; done
  if [ "$(header "$3" deb no)" = yes ]; then
    made=$(flock "$top/build/release/make.lock" make -s -C "$top" deb | tail -n 1)
    ln -s "$made" "$1/files/kmodsmith.deb"
  fi
  for name in $(header "$3" modules ""); do add_module "$1" "$2" "$name"; done
  for name in $(header "$3" kernel-debs "" "$2"); do
    # shellcheck disable=SC2046 # several paths
    ln -s $(of "$name" _IMAGE) $(of "$name" _HEADERS) "$1/files/"
  done
  if is_secure "$3"; then add_secure_boot "$1" "$2"; fi
  if [ "$(header "$3" net no)" = yes ]; then add_drivers "$1" "$2" virtio_pci virtio_net; fi
}

compile_program() { gcc -O1 -static -o "$1/program" "$2"; } # DIR SOURCE

# The simulated GPUs have no processor that would take it: its presence is all that counts.
add_firmware() { # ROOT
  local source version
  for source in OPEN PROPRIETARY TESLA535 SMALL SMALLOPEN OPEN13 TESLA13 GIVEN; do
    [[ $source != *13 ]] || [ -n "${K13-}" ] || continue
    [ $source != GIVEN ] || [ -n "${DRIVER_SOURCE-}" ] || continue
    version=$(version_of "$source")
    mkdir -p "$1/lib/firmware/nvidia/$version"
    echo placeholder | tee "$1/lib/firmware/nvidia/$version"/gsp_{tu10x,ga10x}.bin >/dev/null
  done
}

version_of() { # KEY of a driver source, SMALL or SMALLOPEN
  case $1 in
  SMALL) sed -n 's/.*NV_VERSION_STRING=\\"\([0-9.]*\).*/\1/p' "$here/driver/kernel/Kbuild" ;;
  SMALLOPEN) echo "$smallopen_version" ;;
  GIVEN) grep -rhoE 'NV_VERSION_STRING=[\\]*"[0-9.]+' --include=Kbuild "$DRIVER_SOURCE" | sed -n '1s/.*"//p' ;;
  *) driver_version "$1" ;;
  esac
}

# What the script may know of this run's inputs: K61, K61B, K61R and K612 (K13 and K13B in a guest of Debian 13) are releases, OPEN_VERSION and so on the driver
# versions of the sources. A script names no version itself: what apt offers changes every month. $CHECK is `check` where a
# script with very many like steps may take every third of them, by $DAY, which is another number each day, else `all`.
inputs_of_run() {
  local key
  printf '%s="%s"\n' CHECK "${CHECK:-all}" DAY $(($(date +%s) / 86400))
  for key in K61 K61B K61R K612 ${K13:+K13 K13B}; do ! has_input "$key" || printf '%s="%s"\n' "$key" "$(of "$key")"; done
  for key in OPEN PROPRIETARY TESLA535 TESLA470 SMALL SMALLOPEN; do
    ! has_input "$key" || printf '%s_VERSION="%s"\n' "$key" "$(version_of "$key")"
  done
  [ -z "${K13-}" ] || for key in OPEN13 PROPRIETARY13 TESLA13; do printf '%s_VERSION="%s"\n' "$key" "$(version_of "$key")"; done
}

files_of_modules() { # IMAGE RELEASE MODULE... -> their files in the order of loading; none of what is built in
  local image=$1 release=$2 name
  shift 2
  for name in "$@"; do modprobe -d "$image" -S "$release" --show-depends "$name"; done |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

add_module() { # ROOT KEY MODULE
  local image release file
  image=$(kernel "$2")
  release=$(of "$2")
  for file in $(files_of_modules "$image" "$release" "$3"); do
    install -D -m 644 "$file" "$1/lib/modules/$release/kernel/${file##*/}"
  done
  cp "$image/lib/modules/$release"/modules.{order,builtin,builtin.modinfo} "$1/lib/modules/$release/"
  depmod -b "$1" "$release"
}

add_drivers() { # ROOT KEY MODULE...: the kernel's own modules, numbered in the order of loading, uncompressed
  local root=$1 image release file number=10
  image=$(kernel "$2")
  release=$(of "$2")
  shift 2
  mkdir -p "$root/vm/drivers"
  for file in $(files_of_modules "$image" "$release" "$@"); do
    case $file in
    *.xz) xz -dc "$file" >"$root/vm/drivers/$number-$(basename "$file" .xz)" ;;
    *) ln -s "$file" "$root/vm/drivers/$number-${file##*/}" ;;
    esac
    number=$((number + 1))
  done
}

# guest_prepare SCRIPT KEY DIR [LIBRARY]: make DIR/vmlinuz and DIR/initrd, and those in DIR/next; the script starts with
# what LIBRARY defines.
guest_prepare() {
  local next
  rm -rf "$3" && mkdir -p "$3/root"
  start_beside "$1" "$2" "$3"
  make_initrd "$@"
  next=$(header "$1" next "" "$2")
  if [ -n "$next" ]; then
    mkdir -p "$3/next/root"
    make_initrd "$1" "$next" "$3/next" "${@:4}"
  fi
  add_disks "$1" "$2" "$3"
}

start_beside() { # SCRIPT KEY DIR
  local beside
  beside=$(header "$1" beside "")
  [ -n "$beside" ] || return 0
  mkdir -p "$3/beside" "$3/root/beside"
  cp /proc/sys/kernel/random/boot_id "$3/beside/machine"
  # Not with the lock of the guest (run), which is not to be held by a server that outlives the run.
  "$here/beside/$beside" start "$3/beside" "$3/root/beside" "$2" 8>&-
}

# Also what a killed run has left: process ids are of the boot of this machine that they were noted in.
stop_beside() { # DIR
  [ -x "$1/beside/stop" ] || return 0
  # Not by cmp, which takes the size of a file in proc for its length.
  if [ "$(</proc/sys/kernel/random/boot_id)" = "$(<"$1/beside/machine")" ]; then "$1/beside/stop" 8>&-; fi
}

built_in() { # SCRIPT KEY of a kernel: whose certificate that kernel shall have
  local name
  for name in $(header "$1" built-in ""); do [ "${name#*:}" != "$2" ] || echo "${name%:*}"; done
}

replace_certificate() { # DIR IMAGE CERTIFICATE PROGRAM: the ELF file that QEMU starts, and what /boot would have
  "$4" "$2" "$3" "$1/vmlinux" && gzip -1 --keep "$1/vmlinux"
}

make_initrd() { # SCRIPT KEY DIR [LIBRARY]: of DIR/root, which holds what is there already
  local script=$1 key=$2 dir=$3 root=$3/root kmodsmith=${KMODSMITH:-$top/build/release/kmodsmith}
  local release image name library start keys made
  release=$(of "$key")
  image=$(kernel "$key")
  start=$image/boot/vmlinuz-$release
  add_base "$root" "$key" "$script"
  add_wishes "$root" "$key" "$script"
  name=$(built_in "$script" "$key")
  if [ -n "$name" ]; then
    keys=$(secure_keys)
    made=$(cached "built-in-$name-$key" replace_certificate "$start" "$keys/$name.der" "$here/built_in.py")
    start=$made/vmlinux
    cp "$made/vmlinux.gz" "$root/boot/vmlinuz-$release"
  fi
  if [ -x "$kmodsmith" ]; then add_program "$root" "$kmodsmith" /usr/bin/kmodsmith; fi
  if [ "$(header "$script" net no)" = yes ]; then # loaded when a remote source or an API server is asked
    for name in libcurl.so.4 libyaml-0.so.2; do
      library=$(ldconfig -p | sed -n "s|.*${name//./\\.} .*x86-64.* => ||p")
      add_program "$root" "$library" "$library"
    done
  fi
  cp "$script" "$root/vm/script"
  printf '. %s\n' "${@:4}" /vm/script >"$root/vm/start"
  inputs_of_run >"$root/vm/inputs"
  printf '%s="%s"\n' key "$key" gpus "$(header "$script" gpus 0)" switches "$(header "$script" switches 0)" \
    stub "$(header "$script" stub no)" fakegpu "$(header "$script" fakegpu "")" net "$(header "$script" net no)" \
    secure "$(header "$script" secure-boot "")" root "$(header "$script" root "")" image "$(header "$script" image "")" toolkit "$(header "$script" toolkit "")" \
    >"$root/vm/machine"
  ln -s "$start" "$dir/vmlinuz"
  (cd "$root" && find -L . -print0 | cpio --null --create --dereference --format=newc --quiet) >"$dir/initrd"
  rm -rf "$root"
}

add_disks() { # SCRIPT KEY DIR
  local disk
  if [ -n "$(header "$1" image "")" ]; then
    disk=$(image_disk "$(header "$1" image "")")
    ln -s "$disk" "$3/image.disk"
  fi
  if [ "$(header "$1" toolkit "")" = yes ]; then
    disk=$(toolkit_disk "$2")
    ln -s "$disk" "$3/toolkit.disk"
  fi
  case $(header "$1" root "") in
  debian) disk=$(root_disk "$2") ;;
  stock) disk=$(stock_disk "$2") ;;
  service) disk=$(service_disk "$2") ;;
  *) return 0 ;;
  esac
  if [ "$(boots "$1")" -gt 1 ]; then cp --sparse=always "$disk" "$3/root.disk"; else ln -s "$disk" "$3/root.disk"; fi
}

# guest_boot SCRIPT DIR OUTPUT: OUTPUT is the chardev for what the script prints; DIR/console.log is the kernel's log, and
# DIR/artifact what the script wrote to /dev/ttyS2. Fails when the guest was ended by force.
guest_boot() {
  local script=$1 dir=$2 output=$3 boot disk file kernel line mem=1G status=0 machine=() more=() start=$2 what
  kernel=$(kernel K61)
  accel_choose "$kernel/boot/vmlinuz-$(of K61)" || return
  mapfile -t machine < <(accel_options)
  # The firmware's tables are at the end of the memory: with 1G they would lie where the simulated devices do.
  if is_secure "$script"; then mem=2G; fi
  machine+=(-smp "$(header "$script" cpus 1)" -m "$(header "$script" mem "$mem")" -nodefaults -display none -no-reboot
    -chardev "file,path=$dir/console.log,append=on,id=console" -serial chardev:console
    -chardev "$output,id=out" -chardev "file,path=$dir/artifact,id=artifact")
  # Firmware writes to both of the first two serial ports.
  if is_secure "$script"; then
    machine+=(-device "isa-serial,chardev=out,index=2,iobase=0x3e8,irq=3" -device "isa-serial,chardev=artifact,index=3,iobase=0x2e8,irq=5")
  else
    machine+=(-serial chardev:out -serial chardev:artifact)
  fi
  if [ "$(header "$script" net no)" = yes ]; then
    more+=(-netdev "user,id=net" -device "virtio-net-pci,netdev=net,romfile=")
  fi
  if [ -n "$(header "$script" disk "")" ]; then
    truncate -s "$(header "$script" disk "")" "$dir/disk"
    more+=(-drive "file=$dir/disk,format=raw,if=none,id=disk" -device "nvme,drive=disk,serial=disk")
  fi
  for disk in image toolkit root; do
    # A link is to a disk that others use, too: what is written to it goes to a file that is gone afterwards.
    file=$dir/$disk.disk
    [ -e "$file" ] || continue
    more+=(-drive "file=$file,format=raw,if=none,id=$disk,snapshot=$([ -L "$file" ] && echo on || echo off)"
      -device "nvme,drive=$disk,serial=$disk")
  done
  for ((boot = 1; boot <= $(boots "$script"); boot++)); do
    [ "$boot" -eq 1 ] || [ ! -d "$dir/next" ] || start=$dir/next
    line="$always boot=$boot $(header "$script" append "")"
    if is_secure "$script"; then
      uefi_prepare "$script" "$dir" "$start" "$line" || return
      mapfile -t what < <(uefi_options "$dir")
      [ "$(header "$script" mok 0)" -ne "$boot" ] || confirm_mok "$script" "$dir" "${machine[@]}" "${more[@]}" "${what[@]}" || status=$?
    else
      what=(-kernel "$start/vmlinuz" -initrd "$start/initrd" -append "$line")
    fi
    boot_once "$script" "$dir" "${machine[@]}" "${more[@]}" "${what[@]}" || status=$?
    [ ! -f "$dir/limit" ] || break
  done
  stop_beside "$dir" || true
  return "$status"
}

boot_once() { # SCRIPT DIR QEMU-OPTION...; DIR/limit says which limit ended it, when one did
  local script=$1 dir=$2 limit idle qemu watcher status=0 pinned=()
  shift 2
  limit=$(header "$script" timeout 300) idle=$limit
  # It may wait for servers of this machine, and those for a processor.
  if [ "$(header "$script" net no)" = yes ]; then idle=$((3 * limit)); fi
  [ -z "${VM_PINNED-}" ] || pinned=(taskset -c "$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)")
  # A guest does not outlive who watches it.
  setpriv --pdeathsig KILL "${pinned[@]}" qemu-system-x86_64 "$@" </dev/null &
  qemu=$!
  limit_watch "$qemu" "$limit" "$idle" "$dir/limit" "$dir/console.log" &
  watcher=$!
  wait "$qemu" || status=$?
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  return "$status"
}

guest_status() { # SCRIPT DIR: the script's exit status as the guest reported it, of its boots the first that is not 0; nothing
  # when one of them never got there
  sed -n 's/.*guest: exit \([0-9]*\).*/\1/p' "$2/console.log" | awk -v boots="$(boots "$1")" '
    $1 && !bad { bad = $1 } END { if (NR == boots) print bad + 0 }'
}

guest_log() { # DIR: the end of the kernel's log without the boot and without the registers and call traces of a panic
  awk '/Run \/init/ { n = 0 } !/^\[[^]]*\]  *([?<]|R[A-Z0-9]+:|Code:|[a-z_0-9.]+\+0x)/ { line[n++] = $0 }
    END { for (i = n > 25 ? n - 25 : 0; i < n; i++) print line[i] }' "$1/console.log"
}
