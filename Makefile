# hearth: a terminal chat for local language models. `make help` lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
ifeq ($(origin CC),default)
CC := gcc
endif
config ?= release

# Debian 12 packages: to build; to run the tests, to check and fuzz. `make setup` installs them, the
# second kind only where another goal than these three is to come, or none.
PACKAGES := gcc libc6-dev binutils libreadline-dev libncurses-dev libzstd-dev libiniparser-dev \
	libpcre2-dev libutf8proc-dev libxxhash-dev libjansson-dev libsimde-dev libvulkan-dev glslang-tools
JUST_BUILD := all run install
TEST_PACKAGES := libcmocka-dev tmux python3 man-db procps build-essential dpkg-dev locales \
	mesa-vulkan-drivers vulkan-validationlayers spirv-tools clang libclang-rt-14-dev clang-format-14 \
	cppcheck

ifneq ($(filter setup,$(MAKECMDGOALS)),)
# setup comes first and alone, also under -j; the other goals run in a second make, which looks
# for tools and libraries only once they are there.
REST := $(filter-out setup,$(MAKECMDGOALS))
ifneq ($(if $(REST),$(filter-out $(JUST_BUILD),$(REST)),all of them),)
PACKAGES += $(TEST_PACKAGES)
endif
.PHONY: setup $(REST)

setup:
	@missing=; \
	for p in $(PACKAGES); do \
		dpkg-query -W -f='$${db:Status-Status}\n' $$p 2>/dev/null | grep -qx installed || \
			missing="$$missing $$p"; \
	done; \
	if [ -z "$$missing" ]; then echo "setup: all packages are installed"; exit 0; fi; \
	as_root=; \
	if [ "$$(id -u)" != 0 ]; then \
		if ! command -v sudo >/dev/null; then \
			echo "setup: not root and no sudo; as root run: apt-get install$$missing" >&2; \
			exit 1; \
		fi; \
		as_root=sudo; \
	fi; \
	apt="$$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q"; \
	echo "setup: installing with apt$${as_root:+ through sudo}:$$missing"; \
	$$apt update && $$apt install -y --no-install-recommends $$missing
ifneq ($(REST),)
	@echo "$$MAKEFLAGS" | grep -q -e -j || jobs=-j$$(nproc); \
	$(MAKE) --no-print-directory $$jobs $(REST)
endif

$(REST): setup
	@:

else

VERSION := 0.1.0
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:

# One short line per step; V=1 shows the commands, -s nothing.
ifeq ($(V),)
Q := @
say = $(if $(findstring s,$(firstword -$(MAKEFLAGS))),,@echo "  $(1)")
endif

# -ffp-contract=off: multiply and add are rounded separately, on every path (hearth-numerics(7)).
# -O2, not -O3: gcc 12 at -O3 mis-sums some vectorised int8 loops.
CPPFLAGS += -D_GNU_SOURCE -DHEARTH_VERSION='"$(VERSION)"' -Isrc -I$B
CFLAGS_ALL := -std=c11 -g -pthread -ffp-contract=off -fno-strict-aliasing \
	-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror
LDLIBS := -lreadline -lncursesw -lzstd -liniparser -lpcre2-8 -lutf8proc -lxxhash -ljansson \
	-lvulkan -lm

# Each config has a build folder of its own. asan includes the checks of ubsan.
ifeq ($(config),release)
B := build
CFLAGS_ALL += -O2
else ifeq ($(config),asan)
B := build/asan
CFLAGS_ALL += -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifeq ($(config),ubsan)
B := build/ubsan
CFLAGS_ALL += -O1 -fsanitize=undefined -fno-sanitize-recover=all
else ifeq ($(config),tsan)
B := build/tsan
CFLAGS_ALL += -O1 -fsanitize=thread
else ifeq ($(config),coverage)
B := build/coverage
CFLAGS_ALL += -O0 --coverage
else ifeq ($(config),fuzz)
B := build/fuzz
CC := clang
CFLAGS_ALL += -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
FUZZ_LINK := -fsanitize=fuzzer
else
$(error config=$(config) is not one of release, asan, ubsan, tsan, coverage, fuzz)
endif
ifneq ($(findstring -fsanitize,$(CFLAGS_ALL)),)
CPPFLAGS += -DHEARTH_SANITIZED
endif
# Under sanitizers gcc warns of what cannot be; clang, which builds them in CI, does not.
ifeq ($(filter release,$(config))$(findstring clang,$(CC)),)
CFLAGS_ALL += -Wno-error
endif
CFLAGS_ALL += $(CFLAGS)

# What is for x86-64 alone, and for ARM alone.
defines = $(filter 1,$(shell echo $(1) | $(CC) $(CFLAGS) -E -P - 2>/dev/null))
X86_64 := $(call defines,__x86_64__)
LEFT_OUT := $(if $(X86_64),,\
	%_avx2.c %_avxvnni.c %_avx512.c %_amx.c $(wildcard tests/ops/test_emulated*.c)) \
	$(if $(call defines,__aarch64__),,src/cpu/%_dotprod.c)

SRC := $(filter-out $(LEFT_OUT),$(sort $(wildcard src/*/*.c)))
# The kernels of AVX2 once more, with vectors of 128 bits (src/cpu/simd.h): first, for one of them
# takes the longest of all.
SIMD_OBJ := $(sort $(patsubst %_avx2.c,$B/%_simd.o,$(wildcard src/cpu/*_avx2.c)))
# Products of AVX-512 twice more, with GFNI (src/cpu/gfni.h) and for Zen 5 (src/cpu/zen5.h).
AGAIN_OBJ := $(if $(X86_64),$(patsubst %,$B/src/cpu/matmul_%.o,gfni zen5))
OBJ := $(SIMD_OBJ) $(AGAIN_OBJ) $(SRC:%.c=$B/%.o)
MAIN := $B/src/app/main.o
LIB := $B/libhearth.a

# A kernel file names its instruction set at the end of its name and is built for just that; the
# program asks the processor before it calls into one.
AVX512 := -mavx2 -mf16c -mfma -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
$B/src/cpu/%_avx2.o: ISA := -mavx2 -mf16c -mfma
$B/src/cpu/%_avxvnni.o: ISA := -mavx2 -mf16c -mfma -mavxvnni
$B/src/cpu/%_avx512.o: ISA := $(AVX512)
$B/src/cpu/%_amx.o: ISA := $(AVX512) -mamx-tile -mamx-int8
$B/src/cpu/%_dotprod.o: ISA := -include src/cpu/simd.h -Wno-psabi -march=armv8.2-a+dotprod
$(SIMD_OBJ): ISA := -include src/cpu/simd.h -Wno-psabi $(if $(X86_64),-msse4.1)
$(AGAIN_OBJ): ISA = -include $(@:$B/src/cpu/matmul_%.o=src/cpu/%.h) $(AVX512) -mgfni
# Vectors of 64 bytes as plain C: how they would be passed to other files does not matter.
$(patsubst %,$B/tests/ops/test_%.o,emulated emulated_zen5 emulated_attend row_kernels): ISA := -Wno-psabi
$(patsubst %,$B/tests/ops/test_emulated_%.o,avxvnni dotprod): ISA := -mavx2 -mf16c -mfma

.PHONY: all
all: $B/hearth

$B/hearth: $(MAIN) $(LIB)
	$(call say,LD  $@)
	$(Q)$(CC) $(CFLAGS_ALL) -o $@ $^ $(LDFLAGS) $(LDLIBS)

$(LIB): $(filter-out $(MAIN),$(OBJ))
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

define compile
@mkdir -p $(@D)
$(call say,CC  $@)
$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(ISA) -MMD -MP -c -o $@ $<
endef
$B/%.o: %.c $B/flags
	$(compile)
$(SIMD_OBJ): $B/%_simd.o: %_avx2.c $B/flags
	$(compile)
$(AGAIN_OBJ): src/cpu/matmul_avx512.c $B/flags
	$(compile)

# Only the files that name the installed places are built again when PREFIX changes.
PREFIX_OBJ := $(patsubst %.c,$B/%.o,$(shell grep -l HEARTH_PREFIX $(SRC)))
$(PREFIX_OBJ): CPPFLAGS += -DHEARTH_PREFIX='"$(PREFIX)"'
$(PREFIX_OBJ): $B/prefix

# A stamp holds what its name says and is touched only when that changes.
.PHONY: FORCE
define stamp
@mkdir -p $(@D)
@printf '%s\n' '$(subst ','\'',$(1))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(1))' > $@
endef
$B/flags: FORCE
	$(call stamp,$(CC) $(CPPFLAGS) $(CFLAGS_ALL))
$B/prefix: FORCE
	$(call stamp,$(PREFIX))

# shaders/<name>.comp becomes the array shader_<name> in shaders/<name>.h of the build folder.
SHADER := $(sort $(wildcard shaders/*.comp))
SHADER_H := $(SHADER:%.comp=$B/%.h)
$B/shaders/%.h: shaders/%.comp $(wildcard shaders/lib/*) src/base/numeric.h \
		src/vulkan/elementary_list.h
	@mkdir -p $(@D)
	$(call say,SPV $@)
	$(Q)glslangValidator -V --target-env vulkan1.2 -Isrc -Ishaders/lib --quiet \
		--vn shader_$(subst -,_,$*) -o $@ $<
src/base/numeric.h src/vulkan/elementary_list.h:
$(OBJ): | $(SHADER_H)

# Every tests/<suite>/<name>.c of these suites is one cmocka program.
TEST_SRC := $(filter-out $(LEFT_OUT),$(sort $(wildcard tests/unit/*.c tests/ops/*.c tests/model/*.c)))
TEST_BIN := $(TEST_SRC:%.c=$B/%)
$(TEST_BIN): WRAP :=
$(TEST_BIN): $B/%: $B/%.o $(LIB)
	$(call say,LD  $@)
	$(Q)$(CC) $(CFLAGS_ALL) -o $@ $^ $(WRAP:%=-Wl,--wrap=%) $(LDFLAGS) $(LDLIBS) -lcmocka

# They count what a save looks at, and what a turn makes tokens of.
$B/tests/unit/test_archive: WRAP := conversation_branch
$B/tests/model/test_engine: WRAP := bpe_encode

# tests/fuzz/fuzz_<thing>.c: a libFuzzer target in config=fuzz; elsewhere a driver of our own runs
# it over the corpus and seeded changes of it.
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BIN := $(FUZZ_SRC:%.c=$B/%)
FUZZ_DRIVER := $(if $(FUZZ_LINK),,$B/tests/fuzz/driver.o)
$(FUZZ_BIN): $B/%: $B/%.o $(FUZZ_DRIVER) $(LIB)
	$(call say,LD  $@)
	$(Q)$(CC) $(CFLAGS_ALL) $(FUZZ_LINK) -o $@ $^ $(LDFLAGS) $(LDLIBS)

.PHONY: tests fuzzers run test test-refresh soak bench bench-gpu lint install uninstall clean help
tests: $(TEST_BIN) $(FUZZ_BIN)
fuzzers: $(FUZZ_BIN)

run: all
	@$B/hearth $(ARGS)

# SUITES="unit shell/install" runs just these.
test: all tests
	@B=$B HEARTH=$B/hearth tests/run.sh $(SUITES)

# Golden screens as they are now; git diff shows what that changes.
test-refresh: all
	@B=$B HEARTH=$B/hearth GOLDEN_REFRESH=1 tests/run.sh screen/golden

# The random tests read HEARTH_SOAK: how many times their usual length they run.
soak: all tests
	@B=$B HEARTH=$B/hearth HEARTH_SOAK=20 TEST_TIMEOUT=$${TEST_TIMEOUT:-3600} tests/run.sh $(SUITES)

bench: all
	@$B/hearth bench $(if $(MODEL),-m $(MODEL)) $(ARGS)

# The same on the first hardware device, or on DEVICE, and on the CPU beside it.
bench-gpu: all
	@$B/hearth bench --device $(or $(DEVICE),vulkan) $(if $(MODEL),-m $(MODEL)) $(ARGS)

lint: $(OBJ)
	@tests/lint/run.sh $(OBJ)

SHARE := $(DESTDIR)$(PREFIX)/share
MAN := $(wildcard man/*.[1-8])
EXAMPLES := $(wildcard examples/*.ini examples/*.txt)
SCRIPTS := $(wildcard examples/scripts/*)
GUIDE := $(wildcard examples/guide/*.gguf examples/guide/README.md)
COMPLETION := $(SHARE)/bash-completion/completions/hearth
COMPLETION_ZSH := $(SHARE)/zsh/site-functions/_hearth
COMPLETION_FISH := $(SHARE)/fish/vendor_completions.d/hearth.fish

# copy MODE FILES FOLDER
copy = $(foreach f,$(2),install -D -m $(1) $f $(3)/$(notdir $f) &&) :
install: all
	$(call say,INSTALL  $(DESTDIR)$(PREFIX)/bin/hearth)
	$(Q)install -D -m 755 $B/hearth $(DESTDIR)$(PREFIX)/bin/hearth
	$(call say,INSTALL  $(SHARE)/man)
	$(Q)$(foreach m,$(MAN),$(call copy,644,$m,$(SHARE)/man/man$(subst .,,$(suffix $m))) &&) :
	$(call say,INSTALL  $(SHARE)/hearth)
	$(Q)$(call copy,644,$(GUIDE),$(SHARE)/hearth/guide)
	$(Q)$(call copy,644,$(EXAMPLES),$(SHARE)/hearth/examples)
	$(Q)$(call copy,755,$(SCRIPTS),$(SHARE)/hearth/examples/scripts)
	$(call say,INSTALL  $(SHARE): completion of bash zsh fish)
	$(Q)install -d $(dir $(COMPLETION) $(COMPLETION_ZSH) $(COMPLETION_FISH))
	$(Q)$B/hearth --completion bash >$(COMPLETION)
	$(Q)$B/hearth --completion zsh >$(COMPLETION_ZSH)
	$(Q)$B/hearth --completion fish >$(COMPLETION_FISH)

uninstall:
	$(Q)rm -f $(DESTDIR)$(PREFIX)/bin/hearth $(COMPLETION) $(COMPLETION_ZSH) $(COMPLETION_FISH)
	$(Q)rm -f $(foreach m,$(MAN),$(SHARE)/man/man$(subst .,,$(suffix $m))/$(notdir $m))
	$(Q)rm -rf $(SHARE)/hearth

# The sources as committed, without the machine's own leavings; build/ keeps the archive.
DIST := hearth-$(VERSION)
.PHONY: dist
dist:
	@mkdir -p build
	git archive --prefix=$(DIST)/ HEAD | gzip -9n >build/$(DIST).tar.gz
	@echo build/$(DIST).tar.gz

clean:
	rm -rf build

help:
	@echo "make                  build/hearth"
	@echo "make setup            install the Debian packages that are missing (apt, sudo)"
	@echo "make run              build, then chat (ARGS=\"-m model.gguf\")"
	@echo "make test             all tests (SUITES=\"unit ops model shell screen fuzz conformance\")"
	@echo "make test-refresh     take the screens as they are for the golden ones"
	@echo "make soak             the same with the random tests twenty times as long"
	@echo "make bench            prefill and decode speed (MODEL=path)"
	@echo "make bench-gpu        the same on the first graphics processor (DEVICE=vulkan:1 on"
	@echo "                      another), with the CPU beside it"
	@echo "make lint             format, static analysis, the order of the floors"
	@echo "make install          program, man pages, guide model, examples, completion"
	@echo "make uninstall        remove these (PREFIX=$(PREFIX), DESTDIR=)"
	@echo "make dist             build/$(DIST).tar.gz of what is committed"
	@echo "make clean            remove build/"
	@echo "config=asan|ubsan|tsan|coverage|fuzz   a build in a folder of its own: build/<config>"
	@echo "Targets may be combined: make setup run, make setup test."

.SECONDARY:
-include $(OBJ:.o=.d) $(TEST_SRC:%.c=$B/%.d) $(FUZZ_SRC:%.c=$B/%.d) $B/tests/fuzz/driver.d

endif
