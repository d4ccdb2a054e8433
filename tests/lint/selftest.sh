#!/usr/bin/env bash
# Shows that floors.sh, rings.sh and spirv.sh fail on what they are there for. Prints TAP.
set -u
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0 failed=0

# check NAME WANT FILE INCLUDE [FILE INCLUDE]...: a house with these files; WANT is a part of the
# message, or "fine".
check()
{
    local name=$1 want=$2 out status
    shift 2
    rm -rf "$dir/src" && mkdir "$dir/src"
    while (($#)); do
        mkdir -p "$dir/src/$(dirname "$1")"
        printf '#include <stdio.h>\n#include "%s"\n' "$2" >>"$dir/src/$1"
        shift 2
    done
    out=$("$here/floors.sh" "$dir/src")
    status=$?
    ((n++))
    if { [ "$want" = fine ] && ((status == 0)) && [ -z "$out" ]; } ||
        { [ "$want" != fine ] && ((status == 1)) && [[ $out == *"$want"* ]]; }; then
        echo "ok $n - floors: $name"
    else
        ((failed++))
        echo "not ok $n - floors: $name (status $status: $out)"
    fi
}

check "down" fine gguf/a.c base/err.h app/main.c ui/line.h
check "within a folder" fine gguf/a.c gguf/b.h
check "up" "src/base/a.c:2: \"gguf/b.h\": goes up from base to gguf" base/a.c gguf/b.h
check "up from engine to chat" "goes up" engine/a.c chat/b.h
check "backend knows no cpu" "goes up" backend/a.h cpu/b.h
check "cpu and vulkan" "do not know each other" cpu/a.c vulkan/b.h
check "chat into cache" "chat includes only" chat/a.c cache/b.h
check "chat into the tokenizer" "chat includes only" chat/a.c text/tokenizer.h
check "chat's own guests" fine chat/a.c engine/engine.h chat/b.c text/spans.h chat/c.c config/options.h
check "ui knows no tensor" "ui knows nothing of gguf" ui/a.c gguf/gguf.h
check "an unknown folder" "not one of the floors" misc/a.c base/err.h
check "a relative path" "write the folder" gguf/a.c ../base/err.h
check "two files" "in a ring" text/a.h text/b.h text/b.h text/a.h
check "a ring of three" "in a ring" text/a.h text/b.h text/b.h text/c.h text/c.h text/a.h
check "an include of itself" "in a ring" text/a.h text/a.h

# ring NAME WANT FILE TEXT [FILE TEXT]...: objects of these sources.
ring()
{
    local name=$1 want=$2 out status objects=()
    shift 2
    rm -rf "$dir/src"
    while (($#)); do
        mkdir -p "$dir/src/$(dirname "$1")"
        printf '%s\n' "$2" | gcc -x c -c -o "$dir/src/${1%.c}.o" -
        objects+=("$dir/src/${1%.c}.o")
        shift 2
    done
    out=$("$here/rings.sh" "${objects[@]}")
    status=$?
    ((n++))
    if { [ "$want" = fine ] && ((status == 0)) && [ -z "$out" ]; } ||
        { [ "$want" != fine ] && ((status == 1)) && [ "$out" = "$want" ]; }; then
        echo "ok $n - rings: $name"
    else
        ((failed++))
        echo "not ok $n - rings: $name (status $status: $out)"
    fi
}
a="void b(void); void a(void) { b(); }" b="void c(void); void b(void) { c(); }"
ring "down" fine gguf/a.c "$a" gguf/b.c "$b" gguf/c.c "void c(void) {}"
ring "of two" "src/gguf/a.c takes b, gguf/b.c takes a, a ring" \
    gguf/a.c "$a" gguf/b.c "void a(void); void b(void) { a(); }"
ring "of three" "src/gguf/a.c takes b, gguf/b.c takes c, gguf/c.c takes a, a ring" \
    gguf/a.c "$a" gguf/b.c "$b" gguf/c.c "void a(void); void c(void) { a(); }"
ring "by a table" "src/ui/a.c takes x, ui/x.c takes a, a ring" \
    ui/a.c "extern void (*const x[])(void); void a(void) { x[0](); }" \
    ui/x.c "void a(void); void (*const x[])(void) = {a};"
ring "within a file" fine gguf/a.c "void a(void); void b(void) { a(); } void a(void) { b(); }"
ring "of the evaluator" fine \
    template/a.c "$a" template/b.c "void a(void); void b(void) { a(); }"

# shader NAME WANT TEXT: a shader with this statement.
shader()
{
    local out status
    printf '#version 450\nlayout(local_size_x = 1) in;\n' >"$dir/a.comp"
    printf 'layout(set = 0, binding = 0) buffer B { float x[]; };\nvoid main() { %s }\n' "$3" >>"$dir/a.comp"
    out=$("$here/spirv.sh" "$dir/a.comp")
    status=$?
    ((n++))
    if { [ "$2" = fine ] && ((status == 0)); } || { ((status == 1)) && [[ $out == *"$2"* ]]; }; then
        echo "ok $n - shaders: $1"
    else
        ((failed++))
        echo "not ok $n - shaders: $1 (status $status: $out)"
    fi
}
shader "an exact sum" fine "precise float r = x[0] + x[1]; x[2] = r;"
shader "a sum that may be fused" "OpFAdd without NoContraction" "x[2] = x[0] * x[1] + x[3];"
shader "a division" "OpFDiv is not exact" "precise float r = x[0] / x[1]; x[2] = r;"
shader "a library function" "OpExtInst is not exact" "x[0] = exp(x[0]);"
((failed == 0))
