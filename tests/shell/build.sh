#!/usr/bin/env bash
# What a build is made of on another processor, and what the compiler refuses by name. Nothing is
# built: make only says what it would do.
. tests/lib/tap.sh
CC=${CC:-gcc}
# Those of make test, of which this is part, are not for the make below.
unset MAKEFLAGS MFLAGS MAKELEVEL

# plan FLAGS: the commands of a whole build.
plan() { exits 0 make -n -B V=1 CC="$CC" CFLAGS="$1" all tests; }
if [ "$(uname -m)" = x86_64 ]; then
    check "a build for x86-64" plan ""
    check "  has its kernels" has '-o [^ ]*/src/cpu/matmul_avx2\.o '
fi
check "a build for another processor" plan -U__x86_64__
check "  has the scalar kernels" has '-o [^ ]*/src/cpu/ref_matmul\.o '
check "  and those of 128 bits" has '-o [^ ]*/src/cpu/matmul_simd\.o '
check "  and none of x86-64 or ARM, nor their flags" eval \
    '! grep -E "_(avx[a-z0-9]*|amx|dotprod)\.o|-m(sse|avx|amx|arch)" "$dir/out"'
check "a build for ARM" plan "-U__x86_64__ -D__aarch64__=1"
check "  has its dot products" has '-march=armv8.2-a\+dotprod .*-o [^ ]*/src/cpu/matmul_dotprod\.o '

# A test that stands in for a function of the program does so whatever the linker is told.
check "a build with flags for the linker" exits 0 make -n -B V=1 CC="$CC" LDFLAGS=-Wl,-z,now all tests
check "  has those of a test, too" has '--wrap=bpe_encode .*-z,now'

# The vectors of 128 bits are called so also where the compiler may use AVX2 throughout.
if [ "$(uname -m)" = x86_64 ]; then
    check "a set of kernels for a processor with AVX2" exits 0 "$CC" -D_GNU_SOURCE -Isrc -march=haswell \
        -include src/cpu/simd.h -E src/cpu/matmul_avx2.c
    check "  keeps its name" has '\.name = "simd"'
fi

# compile HEADER FLAGS...
compile() { exits 1 "$CC" -Isrc "${@:2}" -include "$1" -E -P - </dev/null; }
check "-ffast-math is refused" compile base/numeric_c.h -ffast-math
check "  by name" says "hearth computes the same bits everywhere: -ffast-math"
check "a processor of 32 bits is refused" compile base/mem.h -U__SIZEOF_POINTER__ -D__SIZEOF_POINTER__=4
check "  by name" says "needs a 64-bit processor"
check "one of the other byte order is refused" \
    compile base/bytes.h -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__
check "  by name" says "needs a little-endian machine"
done_testing
