#!/usr/bin/env bash
# The checks of `make lint`; ends with one line: N passed, N failed, N skipped (checks, not files).
# usage: tests/lint/run.sh OBJECT...     of all sources
set -u
cd "$(dirname "$0")/../.."
passed=0 failed=0

# step NAME COMMAND...: one check; what it prints is shown when it fails.
step()
{
    local name=$1 out start=$SECONDS
    shift
    if out=$("$@" 2>&1); then
        ((passed++))
        echo "ok - $name ($((SECONDS - start)) s)"
    else
        ((failed++))
        echo "$out"
        echo "not ok - $name"
    fi
}

format()
{
    find src tests -name '*.[ch]' -print0 | xargs -0 clang-format-14 --dry-run -Werror
}

# Warnings and portability only: style is clang-format's. Tests run under sanitizers instead.
# This cppcheck knows the attribute, but not _Noreturn.
analyse()
{
    cppcheck --quiet --error-exitcode=1 --std=c11 -j "$(nproc)" --inline-suppr -D_GNU_SOURCE \
        -DHEARTH_VERSION='"0"' -DHEARTH_PREFIX='"/usr"' "-D_Noreturn=__attribute__((noreturn))" \
        --enable=warning,portability --suppressions-list=tests/lint/cppcheck.txt -Isrc src
}

# Every header can be included first and alone, but for texts that take their types from the
# includer and say "No include guard". One named after an instruction set may use it.
headers()
{
    local h isa status=0
    while read -r h; do
        grep -q 'No include guard' "$h" && continue
        case $h in
        *_avx2.h | */panel8.h) isa="-mavx2 -mf16c" ;;
        *_avx512.h | *_amx.h | *16.h) isa="-mavx2 -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq" ;;
        *) isa= ;;
        esac
        # shellcheck disable=SC2086
        printf '#include "%s"\n' "${h#src/}" |
            gcc $isa -std=c11 -D_GNU_SOURCE -Isrc -Wall -Wextra -Werror -fsyntax-only -x c - || {
            echo "$h does not stand alone"
            status=1
        }
    done < <(find src -name '*.h' | LC_ALL=C sort)
    return $status
}

step "the floors" tests/lint/floors.sh
step "no ring of calls" tests/lint/rings.sh "$@"
step "the floors check finds what it should" tests/lint/selftest.sh
step "shaders" tests/lint/spirv.sh
step "clang-format" format
step "headers stand alone" headers
step "cppcheck" analyse
echo "$passed passed, $failed failed, 0 skipped"
((failed == 0))
