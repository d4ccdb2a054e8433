# hearth: a terminal chat for local language models. `make help` lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0
CC ?= gcc
config ?= release

CPPFLAGS += -D_GNU_SOURCE -DHEARTH_VERSION='"$(VERSION)"' -DHEARTH_PREFIX='"$(PREFIX)"' -Isrc
# -ffp-contract=off: multiply and add are rounded separately, on every path (hearth-numerics(7)).
CFLAGS_ALL := -std=c11 -g -pthread -ffp-contract=off -fno-strict-aliasing \
	-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror $(CFLAGS)
LDLIBS := -lreadline -lncursesw -lzstd -liniparser -lpcre2-8 -lutf8proc -lxxhash -ljansson -lvulkan -lm

ifeq ($(config),release)
B := build
CFLAGS_ALL += -O2
else
B := build/$(config)
endif
ifeq ($(config),asan)
CFLAGS_ALL += -O1 -fsanitize=address -fno-omit-frame-pointer
endif
ifeq ($(config),ubsan)
CFLAGS_ALL += -O1 -fsanitize=undefined -fno-sanitize-recover=all
endif
ifeq ($(config),tsan)
CFLAGS_ALL += -O1 -fsanitize=thread
endif
ifeq ($(config),coverage)
CFLAGS_ALL += -O0 --coverage
endif
ifeq ($(config),fuzz)
CC := clang
CFLAGS_ALL += -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
endif

SRC := $(sort $(wildcard src/*/*.c))
OBJ := $(SRC:%.c=$B/%.o)
LIB := $(filter-out $B/src/app/main.o,$(OBJ))

# A kernel file names its instruction set at the end of its name and is built for just that.
$B/src/cpu/%_avx2.o: ISA := -mavx2 -mf16c

all: $B/hearth

$B/hearth: $(OBJ)
	$(CC) $(CFLAGS_ALL) -o $@ $^ $(LDLIBS)

$B/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS_ALL) $(ISA) -MMD -MP -c -o $@ $<

# Every tests/<suite>/<name>.c of these suites is one cmocka program.
TEST_SRC := $(sort $(wildcard tests/unit/*.c tests/ops/*.c tests/model/*.c))
TEST_BIN := $(TEST_SRC:%.c=$B/%)

$(TEST_BIN): $B/%: $B/%.o $(LIB)
	$(CC) $(CFLAGS_ALL) -o $@ $^ $(LDLIBS) -lcmocka

tests: $(TEST_BIN)

clean:
	rm -rf build

.PHONY: all tests clean
.SECONDARY:
-include $(OBJ:.o=.d) $(TEST_SRC:%.c=$B/%.d)
