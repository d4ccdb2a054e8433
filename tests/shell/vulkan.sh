#!/usr/bin/env bash
# hearth on a Vulkan device: the words of the CPU, greedy, sampled and drafted; a conversation that
# was kept on one device goes on warm on the other; nothing that the validation layers complain of.
. tests/lib/tap.sh

"$hearth" --list-devices >"$dir/devices"
taken=$("$hearth" bench --device cpu --prompt 8 --gen 2 2>"$dir/err" |
    sed -n 's/^[^,]*, cpu (\([a-z0-9]*\), .*/\1/p')
check "--list-devices begins with cpu, and what is taken of it" \
    grep -q "^cpu  ${taken:-nothing}, [0-9]* cores\?\$" "$dir/devices"
check "a device that is not there is an error" go 1 --device vulkan:99 -p x </dev/null
check "  and is named" says "vulkan:99: there "
check "  beside those that are there" eval \
    'case $(grep -c ^vulkan: "$dir/devices") in 0) says "is no Vulkan device" ;; 1) says "there is only vulkan:0" ;; *) says "there are only vulkan:0 to vulkan:" ;; esac'
if ! grep -q '^vulkan:0  ' "$dir/devices"; then
    skip "the words of the CPU" "no Vulkan device"
    done_testing
    exit
fi

ask=(--cache-disk 0 -q -n 24 -p 'What is a draft model?')
same()
{
    go 0 --device cpu "${ask[@]}" "$@" </dev/null && mv "$dir/out" "$dir/cpu" &&
        go 0 --device vulkan:0 "${ask[@]}" "$@" </dev/null && cmp "$dir/out" "$dir/cpu"
}
check "greedy, the words of the CPU" same --temp 0
check "sampled, too" same --temp 0.8 --reply-seed 5 --repeat-penalty 1.1 --top-p 0.9
check "drafted, too" same --temp 0.8 --reply-seed 5 --draft lookup
check "bound to a schema, too" same -n 100 --temp 2 --reply-seed 5 --schema '{"properties": {"a": {"enum": ["b", "c"]}, "n": {"type": "integer"}}, "required": ["a", "n"]}'
check "with codes as keys and values, too" same --temp 0.8 --reply-seed 5 --kv-type q8_0
# Mesa's software driver becomes a device with subgroups of sixteen lanes; others do not read this.
export LP_NATIVE_VECTOR_WIDTH=512
check "with twice as many lanes, too" same --temp 0.8 --reply-seed 5
check "  and codes" same --temp 0.8 --reply-seed 5 --kv-type q4_0
unset LP_NATIVE_VECTOR_WIDTH

check "-ngl 99 is the whole model" same --temp 0 -ngl 99
check "-ngl all, too" same --temp 0 -ngl all
check "-ngl 2 is its last two layers" same --temp 0.8 --reply-seed 5 -ngl 2
check "  drafted, too" same --temp 0.8 --reply-seed 5 -ngl 2 --draft lookup
check "  and -v says so" go 0 --device vulkan:0 -ngl 2 -v -n 1 --private -p x </dev/null
check "  with what they take" found err -E -- '; on the device 2 of [0-9]+ layers, [0-9.]+ MiB$'
check "-ngl 0 is the CPU" go 0 -ngl 0 -v -n 1 -p x </dev/null

seeds=(--seed 7 --temp 0.8 -n 12 --stdin lines)
lines() { printf 'hello\nwhat is hearth?\nand who are you?\n'; }
whole() { lines | go 0 --private "${seeds[@]}" && mv "$dir/out" "$dir/whole"; }
# A turn on the CPU, the next on the device, the last on the CPU again; then, of another
# conversation, the second on both.
in_pieces()
{
    local device=cpu first='--seed 7' name=$1
    shift
    : >"$dir/pieces"
    while read -r line; do
        go 0 -s "$name" --device $device "$@" "${seeds[@]:2:4}" $first -v -p "$line" </dev/null || return 1
        cat "$dir/out" >>"$dir/pieces"
        cp "$dir/err" "$dir/$device.err"
        first=
        if [ $device = cpu ]; then device=vulkan:0; else device=cpu; fi
    done < <(lines)
    cmp "$dir/whole" "$dir/pieces"
}
warm='([0-9]+) cached \(\1 from disk\), [0-9]{1,2} prefilled'
check "a conversation on the CPU" whole
check "says the same in pieces on two devices" in_pieces pieces
check "  the device computes none of the CPU's again" grep -qE "$warm" "$dir/vulkan:0.err"
check "  nor the CPU of the device's" grep -qE "$warm" "$dir/cpu.err"
go 0 cache clear
check "and where a device has some of the layers" in_pieces layers -ngl 1
check "  which computes none of the CPU's again" grep -qE "$warm" "$dir/vulkan:0.err"
check "  nor the CPU of theirs" grep -qE "$warm" "$dir/cpu.err"

guide=examples/guide/guide-q8_0.gguf
check "bench" go 0 bench --prompt 16 --gen 4 -m $guide --device vulkan:0
check "  against the device's copies" grep -qE "% of the copies' [0-9.]+ GB/s$" "$dir/out"
check "  and with the CPU beside it" grep -qE "% of this machine's [0-9.]+ GB/s$" "$dir/out"
check "  of the same bits" grep -qx 'the same bits' "$dir/out"
check "bench --ops" go 0 bench --ops -m $guide --device vulkan:0
check "  times products" grep -qE '^matmul    Q8_0 +[0-9]+ +[0-9]+\.[0-9]{3} ms' "$dir/out"
check "  and attention" grep -qE '^attend .* ms' "$dir/out"
check "  and says what is all" grep -qE '^all .* 100\.0% .* 100\.0%$' "$dir/out"
check "  beside what steps take" \
    grep -qE "^this machine's clock +[0-9]+\.[0-9]{3} ms +[0-9]+\.[0-9]{3} ms$" "$dir/out"
check "bench --table" go 0 bench --table --rows 1 -m $guide --device vulkan:0
check "  names the device" grep -q '^vulkan:0  *[0-9]' "$dir/out"
check "bench --ops as JSON, too" go 0 bench --ops --json -m tests/data/models/qwen35moe.gguf --device vulkan:0
sums()
{
    python3 -c 'import json, sys
d = json.load(sys.stdin)
for t in "decode", "prefill":
    assert d[t + "_ms"] > 0 and abs(sum(o[t + "_ms"] for o in d["ops"]) - d[t + "_ms"]) < 0.01
    assert d[t + "_wall_ms"] > 0' <"$dir/out"
}
check "  whose times sum up" sums
check "the CPU has no such clock" go 1 bench --ops -m $guide --device cpu
check "  and says so" says 'has no clock for its ops'

pipelines=$XDG_CACHE_HOME/hearth/pipelines
none() { ! compgen -G "$pipelines/*" >/dev/null; }
rm -rf "$pipelines"
once() { go 0 --device vulkan:0 -n 1 -q -p x "$@" </dev/null; }
check "nothing is kept of pipelines under --private" once --private
check "  nothing" none
check "pipelines are kept" once
check "  privately" test "$(stat -c %a "$pipelines"/*.pipelines)" = 600
check "hearth cache lists them" go 0 cache list
check "  by size" grep -qE '^\(pipelines of devices\) +[1-9][0-9]* files? +[0-9.]+ (bytes|KiB|MiB)$' "$dir/out"
printf x >>"$(echo "$pipelines"/*.pipelines)"
check "a damaged file is a miss" once
check "  and is replaced" go 0 cache check
check "  soundly" grep -q ', 0 damaged' "$dir/out"
printf x >>"$(echo "$pipelines"/*.pipelines)"
check "hearth cache check removes a damaged one" go 0 cache check
check "  and says so" grep -q 'pipelines: not as it was written; removed' "$dir/out"
check "pipelines are kept again" once
check "hearth cache clear removes them" go 0 cache clear
check "  all" none

hybrid=family=qwen35,n_embd=64,n_layer=4,n_head=2,n_head_kv=1,head_dim=32,n_ff=64,n_vocab=2080
hybrid=$hybrid,n_ctx=512,ssm_heads=4,ssm_groups=2,ssm_dim=32
check "a hybrid is made" go 0 inspect make --shape $hybrid --type Q8_0 "$dir/hybrid.gguf"
check "  and drafts for itself, the words of the CPU" same --temp 0.8 --reply-seed 5 \
    -m "$dir/hybrid.gguf" --draft "$dir/hybrid.gguf"
check "  and is drafted for" same --temp 0.8 --reply-seed 5 \
    -m "$dir/hybrid.gguf" --draft examples/guide/guide-draft-q8_0.gguf

layer=VK_LAYER_KHRONOS_validation
# Barriers, too, within a command buffer and from one to the next. An unknown separator would leave
# both out without a word.
enables=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
enables=$enables:VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT
# The layer writes to standard output.
clean()
{
    exits 0 env VK_INSTANCE_LAYERS=$layer VK_LAYER_ENABLES=$enables "$@" </dev/null &&
        ! grep -hE 'VUID|Validation|ERROR|HAZARD' "$dir/out" "$dir/err"
}
if [ -e /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json ]; then
    on=("$hearth" --device vulkan:0)
    check "the validation layers have nothing to say" clean "${on[@]}" "${ask[@]}" --temp 0
    check "  of draws and drafts" clean "${on[@]}" "${ask[@]}" --temp 0.8 --draft lookup --kv-type q8_0
    check "  of drafts in one submission" clean "${on[@]}" "${ask[@]}" --temp 0.8 --repeat-penalty 1.2 \
        -m examples/guide/guide-q8_0.gguf --draft examples/guide/guide-draft-q8_0.gguf
    check "  of recurrent layers and experts" clean "${on[@]}" "${ask[@]}" --temp 0.8 --draft lookup \
        -m tests/data/models/qwen35moe.gguf
    check "  of recurrent layers in blocks" clean "${on[@]}" "${ask[@]}" --temp 0.8 \
        --logit-bias 300=60 --logit-bias 301=60 --draft "$dir/hybrid.gguf" -m "$dir/hybrid.gguf"
    check "    that guess wrong" clean "${on[@]}" "${ask[@]}" --temp 0.8 \
        -m "$dir/hybrid.gguf" --draft examples/guide/guide-draft-q8_0.gguf
    check "  of staged memory, products, groups shaped as hardware is" clean "$B/tests/ops/test_fused"
else
    skip "the validation layers have nothing to say" "no Vulkan validation layers"
fi
done_testing
