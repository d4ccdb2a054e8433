#!/usr/bin/env bash
# hearth inspect make: a made model opens, computes numbers, and is the same file every time.
set -u
hearth=${HEARTH:-build/hearth}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0 bad=0
check()
{
    ((++n))
    if [ "$2" = 0 ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; bad=1; fi
}

shape=n_layer=2,n_vocab=2304,n_ff=512
for type in Q4_0 Q8_0 Q4_K_M Q6_K MXFP4 F16; do
    "$hearth" inspect make --shape $shape --type $type "$dir/$type.gguf"
    check "$type: made" $?
    set -- $("$hearth" inspect greedy -m "$dir/$type.gguf" --ids '5 6 7' -n 4 2>/dev/null)
    [ $# = 4 ]
    check "$type: four ids are drawn" $?
done

"$hearth" inspect make --shape $shape --type Q4_0 "$dir/again.gguf" &&
    cmp -s "$dir/Q4_0.gguf" "$dir/again.gguf"
check "the same shape gives the same file" $?

"$hearth" inspect gguf "$dir/Q4_K_M.gguf" >"$dir/list"
grep -q 'blk.1.ffn_down.weight *Q6_K' "$dir/list" && grep -q 'blk.1.ffn_up.weight *Q4_K' "$dir/list"
check "Q4_K_M mixes types" $?

! "$hearth" inspect make --shape nothing --type Q4_0 "$dir/x.gguf" 2>"$dir/err" &&
    grep -q "'nothing' is unknown" "$dir/err"
check "an unknown shape is refused by name" $?
! "$hearth" inspect make --shape $shape --type Q4_0 "$dir/none/x.gguf" 2>"$dir/err" &&
    grep -q "No such file" "$dir/err"
check "a folder that is not there is an error" $?
[ "$(find "$dir" -name 'x.gguf*' | wc -l)" = 0 ]
check "a refused file leaves nothing behind" $?

echo "1..$n"
exit $bad
