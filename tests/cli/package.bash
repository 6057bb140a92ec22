# shellcheck shell=bash disable=SC2016,SC2034,SC2154 # helper.bash sets top and uses unchanged
# SPDX-License-Identifier: Apache-2.0
# Packages, sources and archives made of a few bytes, for tests that need a sound shape and no content.

# A module that the proof accepts for a kernel: what modinfo says, struct module's name, one export or import. With
# CRCS="SYMBOL=0xCRC ..." it imports these, too, and was built for a kernel with modversions; with COMPILER it says so.
tiny_module() { # FILE.ko KERNEL-RELEASE EXPORT IMPORT
  local name=${1##*/} kv
  name=${name%.ko}
  {
    printf '.section .modinfo,"a"\n'
    for kv in license=NVIDIA version=535.261.03 srcversion=ABCDEF0123456789ABCDEF0 depends= "name=${name//-/_}" ${EXTRA:+"$EXTRA"} \
      "vermagic=$2 SMP preempt mod_unload ${CRCS:+modversions }"; do
      printf '.asciz "%s"\n' "$kv"
    done
    printf '.section .gnu.linkonce.this_module,"aw"\n.zero 24\n.asciz "%s"\n.zero 800\n' "${name//-/_}"
    printf '.text\n.globl init_module\ninit_module: ret\n'
    [ -z "$3" ] || printf '.globl %s\n%s: ret\n.section __ksymtab_strings,"aMS",@progbits,1\n__kstrtab_%s: .asciz "%s"
.section ___ksymtab+%s,"a"\n__ksymtab_%s: .long 0,0,0\n' "$3" "$3" "$3" "$3" "$3" "$3"
    [ -z "$4" ] || printf '.text\ncall %s\n' "$4"
    for kv in ${CRCS-}; do
      printf '.section __versions,"a"\n.quad %s\n.asciz "%s"\n.balign 64\n' "${kv#*=}" "${kv%=*}"
      [ "${kv%=*}" = module_layout ] || printf '.text\ncall %s\n' "${kv%=*}"
    done
    [ -z "${COMPILER-}" ] || printf '.section .comment,"MS",@progbits,1\n.asciz "%s"\n' "$COMPILER"
  } | x86_64-linux-gnu-as -o "$1" -
}

# The build id of the kernel that loadable() has; nothing for any other one.
build_id_of() { # KERNEL-RELEASE
  [ "$1" != 6.1.0-56-cloud-amd64 ] || tr -d '\n' <"$top/tests/hosts/h100x2-unloaded/proc/version" | sha256sum | cut -d' ' -f1
}

# An OCI layout with a package of the modules in DIR.d, as another program would write it. OPTION: see make_layout.py.
# The same modules and options make the same bytes: once in a file of tests. With BUILD_ID= it does not say for which
# build of the kernel it was made.
layout() { # DIR KERNEL-RELEASE [OPTION...]
  local kept id=${BUILD_ID-$(build_id_of "$2")}
  kept=$(cd "$1.d" && { printf '%s\n' "$id" "${@:2}" *.ko && cat ./*.ko; } | sha256sum)
  kept=$BATS_FILE_TMPDIR/layout-${kept%% *}
  if [ ! -d "$kept" ]; then
    python3 "$top/tests/services/make_layout.py" --kernel "$2" --label "kernel.build-id=$id" "${@:3}" "$kept.new" "$1".d/*.ko >/dev/null
    mv "$kept.new" "$kept"
  fi
  rm -rf "$1"
  cp -r "$kept" "$1"
}

tiny_package() { # DIR KERNEL-RELEASE: modules in DIR.d, their package in the layout DIR; made once in a file of tests
  local kept=$BATS_FILE_TMPDIR/package-of-$2
  if [ ! -d "$kept" ]; then
    EXTRA='' CRCS='' COMPILER='' make_package "$kept.new" "$2"
    rm -rf "$kept.d" && mv "$kept.new.d" "$kept.d" && mv "$kept.new" "$kept"
  fi
  rm -rf "$1" "$1.d"
  cp -r "$kept" "$1"
  cp -r "$kept.d" "$1.d"
}
make_package() { # DIR KERNEL-RELEASE
  rm -rf "$1.d" && mkdir -p "$1.d"
  tiny_module "$1.d/nvidia.ko" "$2" nvidia_register_module ""
  tiny_module "$1.d/nvidia-uvm.ko" "$2" "" nvidia_register_module
  tiny_module "$1.d/nvidia-modeset.ko" "$2" "" nvidia_register_module
  layout "$1" "$2"
}

# Of a layout with one package: the blob of the manifest, the configuration or the layer.
blob() { # DIR manifest|config|layer
  local manifest
  manifest=$1/blobs/sha256/$(jq -r '.manifests[0].digest[7:]' "$1/index.json")
  case $2 in
  manifest) echo "$manifest" ;;
  config) echo "$1/blobs/sha256/$(jq -r '.config.digest[7:]' "$manifest")" ;;
  layer) echo "$1/blobs/sha256/$(jq -r '.layers[0].digest[7:]' "$manifest")" ;;
  esac
}

# What NVIDIA's layout has and kmodsmith looks for; it does not compile.
tiny_source() { # DIR
  mkdir -p "$1/kernel-open/nvidia"
  printf 'EXTRA_CFLAGS += -DNV_VERSION_STRING=\\"535.261.03\\"\n' >"$1/kernel-open/Kbuild"
  printf '#!/bin/sh\n' >"$1/kernel-open/conftest.sh"
  printf 'MODULE_LICENSE("Dual MIT/GPL");\n' >"$1/kernel-open/nvidia/nv.c"
  head -c 20000 /dev/urandom >"$1/kernel-open/nvidia/nv-kernel.o_binary"
}

tiny_firmware() { # VERSION: of every GPU that has a System Processor
  mkdir -p "$ROOT/lib/firmware/nvidia/$1"
  echo gsp | tee "$ROOT/lib/firmware/nvidia/$1"/gsp_{tu10x,ga10x}.bin >/dev/null
}

# A recorded machine whose kernel can be told to modules, and that after the load looks as the driver makes it look.
# The first test of a file that wants one makes it, the others copy it.
loadable() {
  local kept=$BATS_FILE_TMPDIR/loadable
  if [ ! -d "$kept" ]; then
    rm -rf "$kept.new" && mkdir "$kept.new"
    BATS_TEST_TMPDIR=$kept.new make_loadable
    mv "$kept.new" "$kept"
  fi
  ROOT=$BATS_TEST_TMPDIR/host
  rm -rf "$ROOT" "$BATS_TEST_TMPDIR"/package{,.d}
  cp -a "$kept"/{host,package,package.d} "$BATS_TEST_TMPDIR"
  unchanged=$kept/before
}
make_loadable() {
  local kernel=6.1.0-56-cloud-amd64
  host h100x2-unloaded
  cp "$top/tests/hosts/h100x8/proc/devices" "$ROOT/proc"
  sed -i /nvswitch/d "$ROOT/proc/devices"
  mkdir -p "$ROOT/proc/driver" "$ROOT/lib/modules/$kernel"
  cp -a "$top/tests/hosts/h100x8/proc/driver/nvidia" "$ROOT/proc/driver"
  rm -rf "$ROOT"/proc/driver/nvidia/gpus/0000:[6-9ab]*
  printf 'CONFIG_%s=y\n' MODULES X86_64 SMP PREEMPT_BUILD MODULE_UNLOAD >"$ROOT/lib/modules/$kernel/config"
  tiny_firmware 535.261.03
  tiny_package "$BATS_TEST_TMPDIR/package" "$kernel"
  snapshot
}

# Headers as far as kmodsmith looks at them, in Red Hat's shape: one tree. No compile gets far with them.
tiny_headers() { # FILE.tar KERNEL-RELEASE
  local work=$1.d
  local tree=$work/usr/src/kernels/$2
  mkdir -p "$tree/include/generated" "$tree/include/linux" "$tree/scripts" "$work/lib/modules/$2"
  ln -sfn "/usr/src/kernels/$2" "$work/lib/modules/$2/build"
  printf 'CONFIG_%s=y\n' MODULES X86_64 SMP MODULE_UNLOAD CC_IS_GCC >"$tree/.config"
  printf '#define UTS_RELEASE "%s"\n' "$2" >"$tree/include/generated/utsrelease.h"
  touch "$tree/include/generated/autoconf.h" "$tree/Makefile" "$tree/Module.symvers"
  tar -cf "$1" -C "$work" lib usr
}

tiny_payload() { # FILE.tar DRIVER-VERSION
  local work=$1.d
  mkdir -p "$work/usr/lib64" "$work/lib/firmware/nvidia/$2"
  echo cuda >"$work/usr/lib64/libcuda.so.$2"
  ln -sfn "libcuda.so.$2" "$work/usr/lib64/libcuda.so.1"
  echo gsp >"$work/lib/firmware/nvidia/$2/gsp_ga10x.bin"
  tar -cf "$1" -C "$work" lib usr
}

# Of each line "FILE NAME TYPE [LINK]" a tar with a good file and then an entry of this name: f, l, h, c (device), p.
hostile_tars() {
  python3 -c '
import io, sys, tarfile
kinds = {"f": tarfile.REGTYPE, "l": tarfile.SYMTYPE, "h": tarfile.LNKTYPE, "c": tarfile.CHRTYPE, "p": tarfile.FIFOTYPE}
for line in sys.stdin:
    name, entry, kind, *link = line.split()
    with tarfile.open(name, "w:gz") as tar:
        good = tarfile.TarInfo("usr/src/good")
        good.size = 4
        tar.addfile(good, io.BytesIO(b"good"))
        bad = tarfile.TarInfo(entry)
        bad.type = kinds[kind]
        bad.linkname = "".join(link)
        bad.size = 4 if kind == "f" else 0
        bad.devmajor, bad.devminor = 1, 3
        tar.addfile(bad, io.BytesIO(b"evil") if kind == "f" else None)'
}

# Headers of tiny_headers, of a kernel that a gcc of this major version built.
built_with() { # MAJOR FILE.tar KERNEL-RELEASE
  local config=$2.d/usr/src/kernels/$3/.config
  sed -i "/_VERSION/d; /PREEMPT/d" "$config"
  printf 'CONFIG_PREEMPT_BUILD=y\nCONFIG_CC_VERSION_TEXT="gcc-%s (made up) %s.1.0"\nCONFIG_GCC_VERSION=%s0100\n' \
    "$1" "$1" "$1" >>"$config"
  tar -cf "$2" -C "$2.d" lib usr
}

tiny_program() { cat >"$1" && chmod +x "$1"; }
# The root of a builder image, as far as a compile looks at it: busybox, and a compiler that says what it is and copies a
# module that lies beside it, after the seconds that /usr/made/slow says.
tiny_builder() { # FILE.tar MAJOR KERNEL-RELEASE: with links as merged distributions have them, and a device, as images have them
  local work=$1.d name library
  rm -rf "$work" && mkdir -p "$work/usr/bin" "$work/usr/lib" "$work/etc" "$work/usr/share/doc" "$work/usr/made"
  ln -s usr/bin "$work/bin"
  ln -s usr/lib "$work/lib"
  cp -L "$(command -v busybox)" "$work/usr/bin/busybox"
  for library in $(ldd "$(command -v busybox)" 2>/dev/null | grep -oE '/[^ ]+'); do
    mkdir -p "$work/${library%/*}" && cp -L "$library" "$work/${library%/*}"
  done
  for name in sh cat cp touch sleep awk cmp cut grep head ln mkdir mv rm sed sort tr uname uniq; do ln -s busybox "$work/usr/bin/$name"; done
  for name in strip ld patch; do tiny_program "$work/usr/bin/$name" <<<'#!/bin/sh'; done
  tiny_program "$work/usr/bin/gcc-$2" <<<"#!/bin/sh
echo 'gcc-$2 (made up) $2.1.0'"
  tiny_program "$work/usr/bin/make" <<'MAKE'
#!/bin/sh
case " $* " in
*" probe.o "*) touch /build/probe/probe.o /build/probe/good.o ;;
*" modules "*) [ ! -e /usr/made/slow ] || sleep "$(cat /usr/made/slow)"; cp /usr/made/*.ko /build/src/ && cp /usr/made/*.ko . ;;
esac
MAKE
  tiny_module "$work/usr/made/nvidia.ko" "$3" nvidia_register_module ""
  echo idle >"$work/usr/share/doc/idle"
  tar -cf "$1" -C "$work" --exclude=./dev .
  python3 - "$1" <<'PYTHON'
import sys, tarfile
with tarfile.open(sys.argv[1], "a") as tar:
    device = tarfile.TarInfo("./dev/null")
    device.type, device.devmajor, device.devminor = tarfile.CHRTYPE, 1, 3
    tar.addfile(device)
PYTHON
}

# A kernel's Makefile as far as the canaries go: what must compile does, what must not does not.
compiling_tree() { # DIR
  printf '%%.o:\n\tcase $@ in bad.o) false ;; *) $(CC) $(KCFLAGS) -x c -c -o $(M)/$@ /dev/null ;; esac\n' >"$1/Makefile"
}

# A source that compiles, for $kernel: three probes and three objects; each probe that is asked, and what NVIDIA's says of
# each object, is in the build's log.
compiling_source() { # DIR VERSION
  local name dir=$1/kernel-open
  tiny_source "$1"
  printf 'ccflags-y += -DNV_VERSION_STRING=\\"%s\\"\n# linux/mm.h\n' "$2" >"$dir/Kbuild"
  : >"$dir/nvidia/nvidia.Kbuild"
  tiny_module "$dir/nvidia/nvidia.ko" "$kernel" nvidia_register_module ""
  for name in one two three; do
    printf '#include "conftest/%s.h"\nint nv_%s(void) { return %d; }\n' "$name" "$name" "${#name}" >"$dir/nvidia/$name.c"
    echo "NVIDIA_SOURCES += nvidia/$name.c" >>"$dir/nvidia/nvidia.Kbuild"
  done
  cat >"$dir/conftest.sh" <<'SH'
#!/bin/sh
CC="$1"
compile_test() {
    case "$1" in
        one)
            echo "#define NV_ONE"
        ;;
        two)
            echo "#undef NV_TWO"
        ;;
        three)
            echo "#define NV_THREE"
        ;;
    esac
}
case "$5" in
    compile_tests) echo "asked: $7" >&2; sleep "$(cat slow 2>/dev/null || echo 0)"; compile_test "$7" ;;
esac
SH
  cat >"$dir/Makefile" <<'MAKE'
FLAGS = -O2 -DKBUILD_BASENAME=\"\#conftest$$$$\" -DKBUILD_MODNAME=\"\#conftest$$$$\" -DNV_VERSION_STRING=\"VERSION\" -Wall
NAMES = one two three
modules: $(NAMES:%=nvidia/%.o)
	objcopy $(foreach n,$(NAMES),--add-section .made.$(n)=nvidia/$(n).o) nvidia/nvidia.ko nvidia.ko
$(NAMES:%=nvidia/%.o): nvidia/%.o: nvidia/%.c conftest/%.h
	@echo "  CC [M]  $@"
	$(CC) $(KCFLAGS) -I. -DNV_VERSION_STRING=\"VERSION\" -c -o $@ $<
$(NAMES:%=conftest/%.h):conftest/%.h:
	@mkdir -p conftest
	@echo " CONFTEST: $*"
	@sh conftest.sh "$(CC)" $(ARCH) $(SYSSRC) $(SYSOUT) compile_tests "$(FLAGS)" $* >$@
MAKE
  sed -i "s/VERSION\\\\\"/$2\\\\\"/g" "$dir/Makefile"
}

# compiling_source in the shape of NVIDIA's open source release as it is published: the core is compiled from src/, by
# makefiles with its names, targets, outputs and messages, which say user, host, date and jobs as NVIDIA's do. What the
# core's make finds of the kernel ($kernel) stops it. The first core's sources lie in src/common, too.
release_source() { # DIR VERSION
  local core target dir=$1
  compiling_source "$dir" "$2"
  rm "$dir/kernel-open/nvidia/nv-kernel.o_binary"
  mkdir -p "$dir"/src/common "$dir/kernel-open/nvidia-modeset"
  : >"$dir/kernel-open/nvidia-modeset/nvidia-modeset.Kbuild"
  tiny_module "$dir/kernel-open/nvidia-modeset/nvidia-modeset.ko" "$kernel" "" nvidia_register_module
  sed -i "s,^modules:.*,&\n\t\$(foreach m\,\$(NV_KERNEL_MODULES)\,objcopy --add-section .core=\$m/\$(CORE_\$m) \$m/\$m.ko \$m.ko;),
    s,nvidia/nvidia.ko nvidia.ko\$,nvidia.ko," "$dir/kernel-open/Makefile"
  printf 'CORE_nvidia = nv-kernel.o_binary\nCORE_nvidia-modeset = nv-modeset-kernel.o_binary\n' >>"$dir/kernel-open/Makefile"
  printf 'NVIDIA_VERSION = %s\n' "$2" >"$dir/version.mk"
  printf '#!/bin/sh\nset -e\n[ "$1" = type ] && echo __GNUC__ | $2 -E -P - >/dev/null && echo gcc\n' >"$dir/nv-compiler.sh"
  chmod +x "$dir/nv-compiler.sh"
  cat >"$dir/utils.mk" <<'MAKE'
CC ?= gcc
LD ?= ld
OBJCOPY ?= objcopy
DATE ?= date
NV_BUILD_USER ?= $(shell whoami)
NV_BUILD_HOST ?= $(shell hostname)
TARGET_OS ?= $(shell uname)
TARGET_ARCH ?= $(shell uname -m)
OUTPUTDIR ?= _out/$(TARGET_OS)_$(TARGET_ARCH)
VERSION_MK_DIR ?= .
include $(VERSION_MK_DIR)/version.mk
MAKE
  cat >"$dir/Makefile" <<'MAKE'
include utils.mk
kernel-open/nvidia/nv-kernel.o_binary: src/nvidia/$(OUTPUTDIR)/nv-kernel.o
kernel-open/nvidia-modeset/nv-modeset-kernel.o_binary: src/nvidia-modeset/$(OUTPUTDIR)/nv-modeset-kernel.o
%.o_binary:
	cd $(dir $@) && ln -sf ../../$^ $(notdir $@)
.PHONY: src/nvidia/$(OUTPUTDIR)/nv-kernel.o src/nvidia-modeset/$(OUTPUTDIR)/nv-modeset-kernel.o
src/nvidia/$(OUTPUTDIR)/nv-kernel.o:
	$(MAKE) -C src/nvidia
src/nvidia-modeset/$(OUTPUTDIR)/nv-modeset-kernel.o:
	$(MAKE) -C src/nvidia-modeset
MAKE
  printf 'static const char common[] = "%s";\n' "$2" >"$dir/src/common/common.h"
  for core in nvidia nvidia-modeset; do
    target=nv-kernel.o
    [ "$core" = nvidia ] || target=nv-modeset-kernel.o
    mkdir -p "$dir/src/$core/src"
    printf 'SRCS ?=\nSRCS += src/one.c\nSRCS += src/two.c\n' >"$dir/src/$core/srcs.mk"
    printf '#include "common.h"\nconst char *one(void) { return common; }\n' >"$dir/src/$core/src/one.c"
    printf 'const char *two(void) { return __FILE__; }\n' >"$dir/src/$core/src/two.c"
    cat >"$dir/src/$core/Makefile" <<MAKE
VERSION_MK_DIR = ../..
include ../../utils.mk
include srcs.mk
\$(if \$(wildcard /usr/src/kernels/$kernel /usr/src/linux-headers-$kernel),\$(error the kernel's headers are seen))
\$(if \$(filter gcc,\$(shell ../../nv-compiler.sh type \$(CC))),,\$(error \$(CC) is no compiler))
OBJS = \$(SRCS:%.c=\$(OUTPUTDIR)/%.o)
\$(OUTPUTDIR)/$target: \$(OBJS) \$(OUTPUTDIR)/g_nvid_string.o
	\$(LD) -r -o \$@ \$^
	\$(OBJCOPY) --remove-section=.note.gnu.property \$@
\$(OBJS): \$(OUTPUTDIR)/%.o: %.c
	@mkdir -p \$(dir \$@); sleep \$\$(cat ../../slow 2>/dev/null || echo 0)
	@printf " [ %-17.17s ]  %s\n" $core "CC           \$<"
	@\$(CC) -I ../common -c -MMD -MF \$(@:.o=.d) -MT \$@ -o \$@ \$<
\$(OUTPUTDIR)/g_nvid_string.o: \$(OBJS)
	@echo "made with: \$(MAKEFLAGS)"
	@echo "const char id[] = \"nvidia id: \$(NVIDIA_VERSION)  (\$(NV_BUILD_USER)@\$(NV_BUILD_HOST))  \`\$(DATE)\`\";" >\$(@:.o=.c)
	@\$(CC) -c -o \$@ \$(@:.o=.c)
MAKE
  done
}
