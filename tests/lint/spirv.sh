#!/usr/bin/env bash
# The SPIR-V of every shader: valid for Vulkan 1.2, every addition, subtraction and multiplication
# of floats decorated NoContraction, and nothing whose rounding a driver may choose.
# usage: tests/lint/spirv.sh [SHADER.comp]...     prints the offenders, exit 1 if there are any
set -u
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
[ $# -gt 0 ] || set -- shaders/*.comp
[ "$(find shaders -name '*.comp' | wc -l)" -lt 60 ] || { echo "60 shaders or more" && failed=1; }
for shader in "$@"; do
    glslangValidator -V --target-env vulkan1.2 -Isrc -Ishaders/lib --quiet -o "$dir/spv" "$shader" &&
        spirv-val --target-env vulkan1.2 "$dir/spv" || {
        echo "$shader: not valid"
        failed=1
        continue
    }
    spirv-dis --raw-id "$dir/spv" | awk -v shader="$shader" '
        $1 == "OpDecorate" && $3 == "NoContraction" { exact[$2] = 1 }
        $3 ~ /^OpF(Add|Sub|Mul)$/ {
            n++
            if (!exact[$1]) { print shader ": " $3 " without NoContraction"; bad = 1 }
        }
        $3 ~ /^Op(ExtInst|FDiv|FRem|FMod|FNegate|VectorTimesScalar|MatrixTimes.*|Dot|QuantizeToF16)$/ {
            print shader ": " $3 " is not exact"; bad = 1
        }
        END { exit bad }' || failed=1
done
exit $failed
