# SPDX-License-Identifier: Apache-2.0
# make            build/release/kmodsmith            make demo    the main job on a real kernel with simulated GPUs
# make static     build/release/kmodsmith-static     make images  the container images, in build/images
# make MODE=asan  with ASan and UBSan                make check   every test
# V=1 shows the commands, CC=clang builds with clang, B=DIR builds elsewhere.
MODE ?= release
CC := $(if $(filter default,$(origin CC)),gcc,$(CC))
B ?= build/$(MODE)$(if $(filter clang%,$(CC)),-clang)
V ?= 0
Q := $(if $(filter 0,$(V)),@)
VERSION := 0.1.0
PREFIX ?= /usr/local

PKGS := libelf jansson libcurl libssl libcrypto
# libarchive is linked statically: the shared one drags in libxml2 and ICU (38.9 MB) for formats that are never named.
# Its tar writer drags in references to nettle, which the linker drops again but wants to see.
ARCHIVE := -l:libarchive.a -lz -llzma -lzstd -llz4 -lacl -l:libnettle.a
HAVE := $(shell pkg-config --exists $(PKGS) libarchive && echo yes)
CPPFLAGS += -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DKMODSMITH_VERSION='"$(VERSION)"' -Iinstaller -I. \
  $(if $(HAVE),$(shell pkg-config --cflags $(PKGS)))
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wundef \
  -Wformat=2 -Wvla -Wcast-qual
CFLAGS_release := -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE -ffunction-sections -fdata-sections
CFLAGS_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_analyzer := -O1 -g -fanalyzer
CFLAGS += -std=gnu11 $(WARN) $(CFLAGS_$(MODE))
LDFLAGS_release := -pie -Wl,-z,relro,-z,now,--gc-sections,--as-needed
LDFLAGS_asan := -fsanitize=address,undefined -Wl,--gc-sections,--as-needed
LDFLAGS_analyzer := -Wl,--gc-sections,--as-needed
LDFLAGS += $(LDFLAGS_$(MODE))
LIBS := $(ARCHIVE) $(if $(HAVE),$(shell pkg-config --libs $(PKGS)))

SRC := $(wildcard installer/*/*.c kmod/*.c precompiled/*.c)
DATA := $(sort $(wildcard kmod/patches/*.patch))
OBJ := $(SRC:%.c=$B/%.o)
LIB := $B/libkmodsmith.a
CMDS := $(sort $(shell grep -oE '&cmd_[a-z_]+' installer/cmd/commands.c | cut -c6- | tr _ -))
MAN := $(patsubst man/%.scd,$B/man/%,$(wildcard man/*.scd)) $(CMDS:%=$B/man/kmodsmith-%.8) \
  $B/man/kmodsmith.8 $B/man/kmodsmith-errors.7
UNIT := $(patsubst tests/unit/%.c,$B/unit/%,$(wildcard tests/unit/*_test.c))
SIM := $(patsubst %.c,$B/%.o,$(wildcard tests/sim/*.c))

.DELETE_ON_ERROR:
.PHONY: all static images images-test unit unit-build install clean deps demo demo-cluster demo-registry check cli cluster cluster-oldest services bench lint format man
all: $B/kmodsmith

$B/kmodsmith: $B/installer/main.o $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

STATIC := -static-pie -Wl,--wrap=getaddrinfo,--wrap=freeaddrinfo,--wrap=gethostbyname,--wrap=dlopen
# The same program for foreign roots: needs no file of the place where it runs, and asks nobody (base/http_lib.c, yaml.c).
static: $B/kmodsmith-static
$B/kmodsmith-static: $B/installer/main.o $B/static/http_lib.o $B/static/yaml.o $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(STATIC) -o $@ $^ $(ARCHIVE) $(shell pkg-config --static --libs $(filter-out libcurl,$(PKGS)))
$B/static/%.o: installer/base/%.c Makefile
	@echo "  CC      $< (static)"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -DKMODSMITH_STATIC -MMD -MP -c -o $@ $<

$(LIB): $(OBJ)
	@echo "  AR      $@"
	$(Q)rm -f $@ && ar rcs $@ $^

$B/%.o: %.c Makefile
	@echo "  CC      $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$B/kmod/patch.o: $(DATA)
$B/kmod/probes.o: kmod/ask.sh

$B/unit/%: tests/unit/%.c $(LIB) Makefile
	@echo "  CC      $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -MT $@ -MF $@.d $(LDFLAGS) -o $@ $< $(LIB) -lcmocka -larchive $(LIBS)

# The Kubernetes client on a simulated server: what is in tests/sim comes before the library's own of the same names.
$(filter $B/unit/sim_%,$(UNIT)) $B/bench/scale: $B/%: tests/%.c $(SIM) $(LIB) Makefile
	@echo "  CC      $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -MT $@ -MF $@.d $(LDFLAGS) -o $@ $< $(SIM) $(LIB) -lcmocka $(LIBS)

$B/cluster/client $B/cluster/conform $B/bench/crowd: $B/%: tests/%.c $(LIB) Makefile
	@echo "  CC      $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -MT $@ -MF $@.d $(LDFLAGS) -o $@ $< $(LIB) -lcmocka $(LIBS)

unit-build: $(UNIT)
unit: unit-build
	$(Q)scripts/unit.sh $(UNIT)

deps:
	scripts/deps.sh
check:
	@scripts/check.sh
demo:
	@scripts/demo.sh
demo-cluster:
	@scripts/demo-cluster.sh
demo-registry:
	@scripts/demo-registry.sh
bench: $B/kmodsmith $B/bench/scale $B/bench/crowd
	@scripts/bench.sh
lint:
	@scripts/lint.sh
format:
	clang-format -i $(wildcard installer/*.[ch] installer/*/*.[ch] kmod/*.[ch] precompiled/*.[ch] tests/unit/*.[ch] tests/sim/*.[ch])
images: $B/kmodsmith $B/kmodsmith-static
	$(Q)scripts/images.sh
cli: $B/kmodsmith
	$(Q)scripts/cli.sh $<
images-test: $B/kmodsmith $B/kmodsmith-static
	$(Q)scripts/images-test.sh $<
services: $B/kmodsmith
	$(Q)scripts/services.sh $<
cluster cluster-oldest: $B/kmodsmith $B/cluster/client $B/cluster/conform
	$(Q)$(if $(filter %-oldest,$@),KUBERNETES=1.30) scripts/cluster.sh $<

# Manual pages: commands and errors from the program's own tables, the rest from man/NAME.SECTION.scd
$B/mkman: $B/installer/mkman.o $(LIB)
	@echo "  LD      $@"
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)
$B/man/kmodsmith.8 $B/man/kmodsmith-errors.7 $(CMDS:%=$B/man/kmodsmith-%.8): $B/mkman
	@echo "  MAN     $@"
	@mkdir -p $(@D)
	$(Q)$< $(patsubst kmodsmith-%,%,$(basename $(@F))) | scdoc >$@
$B/man/%: man/%.scd
	@echo "  MAN     $<"
	@mkdir -p $(@D)
	$(Q)scdoc <$< >$@
man: $(MAN)

install: $B/kmodsmith $(MAN)
	install -D -m 755 $< $(DESTDIR)$(PREFIX)/bin/kmodsmith
	$(Q)for page in $(MAN); do \
	  install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/} || exit 1; done

clean:
	rm -rf build

-include $(OBJ:.o=.d) $(SIM:.o=.d) $(wildcard $B/static/*.d $B/cluster/*.d) $B/installer/main.d $B/installer/mkman.d $(UNIT:%=%.d)
