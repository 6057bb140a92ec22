# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# How guests run: under KVM where it works, else under software emulation, with the same results. A file /dev/kvm proves
# nothing: many virtual machines have one that aborts QEMU or never starts a kernel. So a boot of at most 3 seconds
# decides, once a start of this machine for each QEMU and kernel. KMODSMITH_ACCEL=kvm|tcg decides without asking.
accel_mark="guest: a kernel runs"

accel_probe() { # DIR KERNEL CPU: what KVM does with this kernel; prints why when it does not start it
  local status=0
  timeout --kill-after=1 3 qemu-system-x86_64 -accel kvm -machine q35 -cpu "$3" -m 256M -nodefaults -display none -no-reboot \
    -serial "file:$1/console" -kernel "$2" -initrd "$1/initrd" -append "console=ttyS0 panic=-1" \
    </dev/null >"$1/said" 2>&1 || status=$?
  if grep -qs "$accel_mark" "$1/console"; then return 0; fi
  case $status in
  0) echo "no kernel started" ;;
  124 | 137) echo "no kernel started within 3 s" ;;
  *) grep -m 1 . "$1/said" | sed 's/^qemu-system-x86_64: //' | grep . || echo "QEMU ended with status $status" ;;
  esac
  return 1
}

accel_initrd() { # DIR
  mkdir -p "$1"/root/{bin,dev}
  add_program "$1/root" "$(command -v busybox)" /bin/busybox
  printf '#!/bin/busybox sh\necho "%s"\n/bin/busybox poweroff -f\n' "$accel_mark" >"$1/root/init"
  chmod +x "$1/root/init"
  (cd "$1/root" && find . -print0 | cpio --null --create --format=newc --quiet) >"$1/initrd"
}

# Where QEMU aborts at once with this machine's own processor, another one may do.
accel_ask() { # KERNEL: "kvm CPU", or "tcg WHY"
  local made cpu why first=
  made=$(mktemp -d)
  accel_initrd "$made"
  for cpu in host qemu64; do
    if why=$(accel_probe "$made" "$1" "$cpu"); then rm -rf "$made" && echo "kvm $cpu" && return; fi
    first=${first:-$why}
    case $why in no\ kernel*) break ;; esac
  done
  rm -rf "$made"
  echo "tcg $first"
}

# accel_choose KERNEL: sets accel to kvm or tcg, and accel_why to the processor or to why KVM is not used. The answer is in a
# file of the cache, below the line that says what was asked.
accel_choose() {
  local asked file=$cache/vm/accel lock
  case ${KMODSMITH_ACCEL:-} in
  kvm) accel=kvm accel_why=host && return ;;
  tcg) accel=tcg accel_why="KMODSMITH_ACCEL=tcg" && return ;;
  '') ;;
  *) echo "vm: KMODSMITH_ACCEL is '$KMODSMITH_ACCEL', neither kvm nor tcg" >&2 && return 1 ;;
  esac
  asked="$(</proc/sys/kernel/random/boot_id) $(qemu-system-x86_64 --version | head -n 1) $1"
  if [ "$(head -n 1 "$file" 2>/dev/null)" != "$asked" ]; then
    exec {lock}>"$file.lock" && flock "$lock"
    if [ "$(head -n 1 "$file" 2>/dev/null)" != "$asked" ]; then
      printf '%s\n' "$asked" "$(accel_ask "$1" {lock}>&-)" >"$file.new" && mv "$file.new" "$file"
    fi
    exec {lock}>&-
  fi
  read -r accel accel_why <<<"$(sed -n 2p "$file")"
}

accel_says() {
  if [ "$accel" = kvm ]; then
    echo "vm: guests run under KVM"
  else
    echo "vm: guests run under software emulation (KVM: $accel_why)"
  fi
}

# An emulated processor pays for wide vectors: guests run a quarter faster on one that has none. What no guest has a use for,
# its kernel need not find.
accel_options() {
  if [ "$accel" = kvm ]; then
    printf '%s\n' -accel kvm -machine q35 -cpu "$accel_why"
  else
    printf '%s\n' -accel tcg -machine q35,hpet=off,smm=off,sata=off,usb=off,vmport=off -cpu qemu64
  fi
}
