# SPDX-License-Identifier: Apache-2.0
# make            build/release/kmodsmith            make demo    the main job on a real kernel with simulated GPUs
# make static     build/release/kmodsmith-static     make images  the container images, in build/images
# make MODE=asan  with ASan and UBSan                make check   what a change can break; check-mine: in a minute
# make fuzz, make coverage, make mutate, make measure: see scripts/NAME
# V=1 shows the commands, CC=clang builds with clang, B=DIR builds elsewhere, ARCH=arm64 builds for arm64 (CONTRIBUTING.md).
MODE ?= release
CROSS := $(if $(filter arm64,$(ARCH)),aarch64-linux-gnu-)
CC := $(if $(filter default,$(origin CC)),$(CROSS)gcc,$(CC))
PKG_CONFIG ?= $(if $(CROSS),PKG_CONFIG_LIBDIR=/usr/lib/$(CROSS:-=)/pkgconfig:/usr/share/pkgconfig )pkg-config
B ?= build/$(MODE)$(if $(filter clang%,$(CC)),-clang)$(if $(CROSS),-$(ARCH))
V ?= 0
Q := $(if $(filter 0,$(V)),@)
VERSION := 0.1.0
PREFIX ?= /usr/local
PKGS := jansson libcurl libmicrohttpd libssl libcrypto libseccomp libkmod
# libarchive is linked statically: the shared one drags in libxml2 and ICU (38.9 MB) for formats that are never named.
# Its tar writer refers to nettle, which the linker drops. libcrypto comes first: a start looks up most symbols in it.
ARCHIVE := -l:libarchive.a -lz -llzma -lzstd -llz4 -lacl -l:libnettle.a
LACK := $(shell $(PKG_CONFIG) --print-errors --exists $(PKGS) libarchive 2>&1 || exit 1)
CPPFLAGS += -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DKMODSMITH_VERSION='"$(VERSION)"' -DFORKSERVER_LIBRARY='"$B/forkserver.so"' -DGPU_HELPER='"$B/gpu-helper"' -Iinstaller -I. \
  $(if $(LACK),,$(shell $(PKG_CONFIG) --cflags $(PKGS)))
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wundef -Wformat=2 -Wvla -Wcast-qual
$(if $(filter release,$(MODE)),$(if $(shell command -v $(firstword $(CC))),$(eval -include $B/hardening.mk)))
CFLAGS_release := -O2 -g -U_FORTIFY_SOURCE $(HARDENING) -fstack-protector-strong -fPIE -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables
CFLAGS_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
CFLAGS_coverage := -O0 -g --coverage -ffunction-sections -fdata-sections
CFLAGS += -std=gnu11 $(WARN) $(CFLAGS_$(MODE)) $(if $(WERROR),-Werror)
LDFLAGS_release := -pie -Wl,-z,relro,-z,now,-z,noexecstack
LDFLAGS_asan := -fsanitize=address,undefined
LDFLAGS += $(LDFLAGS_$(MODE)) -Wl,--gc-sections,--as-needed
LIBS := -lcrypto $(ARCHIVE) $(if $(LACK),,$(shell $(PKG_CONFIG) --libs $(PKGS)))

SRC := $(filter-out installer/main.c installer/mkman.c kmod/forkserver/preload.c installer/gpu_check/helper_%,$(shell find installer kmod precompiled -name '*.c'))
COMMIT := $(shell scripts/commit.sh $B/commit)
DATA := $(sort $(wildcard kmod/source/patches/*.patch))
OBJ := $(SRC:%.c=$B/%.o)
LIB := $B/libkmodsmith.a
CMDS := $(sort $(shell sed -n 's/^COMMAND(\(.*\))$$/\1/p' installer/cmd/common/commands.def | tr _ -))
MAN := $(patsubst docs/man/%.scd,$B/man/%,$(wildcard docs/man/*.scd)) $(CMDS:%=$B/man/kmodsmith-%.8) $B/man/kmodsmith.8 $B/man/kmodsmith-errors.7 $B/man/kmodsmith-reasons.7
UNIT_OBJ := $(patsubst %.c,$B/%.o,$(wildcard tests/unit/*_test.c))
UNIT := $(UNIT_OBJ:$B/tests/unit/%.o=$B/unit/%)
SIM := $(patsubst %.c,$B/%.o,$(wildcard tests/sim/*.c))
FUZZ := $(patsubst %.c,$B/%.o,$(filter-out tests/fuzz/main.c tests/fuzz/seed.c,$(wildcard tests/fuzz/*.c)))

.DELETE_ON_ERROR:
.PHONY: all static images images-test unit unit-build install uninstall deb rpm tarball clean deps demo demo-cluster demo-registry check check-mine \
  check-all cli cluster cluster-oldest whole services matrix vm bench lint format man docs print-flags fuzz coverage mutate measure compile_commands.json
all: $B/kmodsmith
$B/hardening.mk: Makefile scripts/hardening.sh
	@mkdir -p $(@D)
	@scripts/hardening.sh $(CC) >$@

$B/kmodsmith: $B/installer/main.o $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

STATIC := -static-pie -Wl,--wrap=getaddrinfo,--wrap=freeaddrinfo,--wrap=gethostbyname,--wrap=dlopen
STATIC_OBJ := $(patsubst %,$B/static/%.o,installer/base/http/http_lib installer/base/formats/yaml kmod/load/host_modules)
static tarball: $B/kmodsmith-static # for foreign roots: needs no file of the place where it runs, and asks nobody
$B/kmodsmith-static: $B/installer/main.o $(STATIC_OBJ) $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS) $(filter-out -pie,$(LDFLAGS)) $(STATIC) -o $@ $^ $(ARCHIVE) $(shell $(PKG_CONFIG) --static --libs $(filter-out libcurl libmicrohttpd libkmod,$(PKGS)))
$B/static/%.o: %.c Makefile
	@echo "  CC      $< (static)"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -DKMODSMITH_STATIC -MMD -MP -c -o $@ $<

$(LIB): $(OBJ)
	@echo "  AR      $@"
	$(Q)rm -f $@ && $(CROSS)ar rcs $@ $^
$B/%.o: %.c Makefile
	$(if $(LACK),$(error development files are missing, see `make deps`: $(LACK)))@echo "  CC      $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$B/installer/cmd/common/version.o: CPPFLAGS += -DKMODSMITH_COMMIT='"$(COMMIT)"'
$B/installer/cmd/common/version.o: $B/commit
$B/kmod/source/patch.o: $(DATA)
$B/kmod/build/probes.o: kmod/build/ask.sh
$B/installer/cmd/common/completion.o: $(wildcard packaging/completion/*)
$B/kmod/forkserver/forkserver.o: kmod/forkserver/check.sh $B/forkserver.so
$B/installer/gpu_check/gpu_helper.o: $B/gpu-helper
# For any distribution: the one for compilers, linked with nothing, the other with the oldest C library; without sanitizers.
$B/forkserver.so: kmod/forkserver/preload.c kmod/forkserver/directives.c kmod/forkserver/directives.h
$B/gpu-helper: $(sort $(wildcard installer/gpu_check/helper_*.c)) installer/gpu_check/helper.h
$B/forkserver.so $B/gpu-helper: Makefile
	$(Q)mkdir -p $(@D) && $(CC) -D_GNU_SOURCE -Iinstaller -I. -std=gnu11 $(WARN) $(if $(WERROR),-Werror) -O2 -fPIC -fno-stack-protector \
	  -U_FORTIFY_SOURCE -Wl,-z,now,-z,noexecstack,-z,noseparate-code,-z,norelro,--strip-all,--no-as-needed \
	  $(if $(filter %.so,$@),-shared -nostdlib,-pie -nostartfiles) -o $@ $(filter %.c,$^) $(if $(filter %.so,$@),,-l:libdl.so.2)
# Tests are many and each runs once: to optimize them takes longer than it saves, but for simulations and models.
$(filter-out $B/tests/unit/sim_% $B/tests/unit/%_model_test.o,$(UNIT_OBJ)): CFLAGS += $(if $(filter asan,$(MODE)),-O0)
$B/unit/%: $B/tests/unit/%.o $(LIB)
	@echo "  LD      $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) -lcmocka -larchive $(LIBS)

# The Kubernetes client on a simulated server: what is in tests/sim comes before the library's own of the same names.
$(filter $B/unit/sim_%,$(UNIT)) $B/bench/scale: $(SIM)
$B/unit/corpus_test: $(FUZZ)
$(UNIT): $B/tests/unit/descriptors.o
$B/cluster/client $B/cluster/conform $B/bench/crowd $B/bench/scale $B/fuzz/seed: $B/%: tests/%.c $(LIB) Makefile
	@echo "  CC      $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -MT $@ -MF $@.d $(LDFLAGS) -o $@ $(filter %.c %.o,$^) $(LIB) -lcmocka $(LIBS)

$B/fuzz: $B/tests/fuzz/main.o $(FUZZ) $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)

unit-build: $(UNIT)
unit cli services cluster whole images-test matrix vm lint:
	@scripts/check.sh $(@:images-test=images)
cluster-oldest: ; @KUBERNETES=1.30 scripts/check.sh cluster
check check-mine check-all:
	@scripts/check.sh $(patsubst -%,--%,$(@:check%=%)) $(if $(RESUME),--resume)
print-flags: # one a line, for scripts/analyze.sh
	@printf '%s\n' $(CPPFLAGS) -std=gnu11 $(WARN)
deps demo demo-cluster demo-registry fuzz coverage mutate:
	@scripts/$@.sh
measure: ; @scripts/measure.py $(REV)
compile_commands.json: ; @scripts/compile_commands.py $(CC) $(CPPFLAGS) $(CFLAGS) >$@
bench: $B/kmodsmith $B/kmodsmith-static $B/bench/scale $B/bench/crowd ; @scripts/bench.sh
format: ; find installer kmod precompiled tests/unit tests/sim tests/fuzz -name '*.[ch]' | xargs clang-format -i
images: $B/kmodsmith $B/kmodsmith-static ; $(Q)scripts/images.sh
# Manual pages: commands and errors from the program's own tables, the rest from docs/man/NAME.SECTION.scd
$B/mkman: $B/installer/mkman.o $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)
$B/man/kmodsmith.8 $B/man/kmodsmith-errors.7 $B/man/kmodsmith-reasons.7 $(CMDS:%=$B/man/kmodsmith-%.8): $B/mkman
	@echo "  MAN     $@"
	@mkdir -p $(@D)
	$(Q)$< $(patsubst kmodsmith-%,%,$(basename $(@F))) | scdoc >$@
$B/man/%: docs/man/%.scd
	@echo "  MAN     $<"
	@mkdir -p $(@D)
	$(Q)scdoc <$< >$@
man: $(MAN)
docs: $B/mkman # the parts of docs/*.md that come from the program's own tables
	@scripts/docs.sh $<
$B/kmodsmith.conf: $B/mkman
	$(Q)$< conf >$@
install uninstall: $B/kmodsmith $B/kmodsmith.conf $(MAN)
	$(Q)scripts/install.sh $(if $(filter uninstall,$@),--remove) $B $(PREFIX) $(DESTDIR)
deb rpm tarball: $B/kmodsmith $B/kmodsmith.conf $(MAN) ; $(Q)scripts/package.sh $@ $B $(PREFIX)
clean: ; rm -rf build
-include $(OBJ:.o=.d) $(SIM:.o=.d) $(FUZZ:.o=.d) $(STATIC_OBJ:.o=.d) $(wildcard $B/cluster/*.d) $B/installer/main.d $B/installer/mkman.d $(UNIT_OBJ:.o=.d)
