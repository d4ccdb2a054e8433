#!/usr/bin/env bash
# hearth inspect make: a made model opens, computes numbers, and is the same file every time.
. tests/lib/tap.sh
make_of() { exits "$1" "$hearth" inspect make --shape "$2" --type "$3" "$4"; }
four_ids()
{
    exits 0 "$hearth" inspect greedy -m "$1" --ids '5 6 7' -n 4 && [ "$(wc -w <"$dir/out")" = 4 ]
}

shape=n_layer=2,n_vocab=2304,n_ff=512
for type in Q4_0 Q8_0 Q4_K_M Q6_K MXFP4 F16; do
    check "$type: made" make_of 0 $shape $type "$dir/$type.gguf"
    check "$type: four ids are drawn" four_ids "$dir/$type.gguf"
done
make_of 0 $shape Q4_0 "$dir/again.gguf"
check "the same shape gives the same file" cmp -s "$dir/Q4_0.gguf" "$dir/again.gguf"
check "a file that is there is refused" make_of 1 n_layer=1,n_vocab=2304,n_ff=256 Q8_0 "$dir/again.gguf"
check "  by name" says "hearth: $dir/again.gguf: is there already; give it another name"
check "  and stays" cmp -s "$dir/Q4_0.gguf" "$dir/again.gguf"
exits 0 "$hearth" inspect gguf "$dir/Q4_K_M.gguf"
check "Q4_K_M mixes types" has 'blk.1.ffn_down.weight *Q6_K'
check "  the other" has 'blk.1.ffn_up.weight *Q4_K'
# Logits of these files agree with those of llama.cpp (node-llama-cpp 3.22.1, F32 keys and values),
# each row less its mean, within a normalised mean square error of 2e-12 over 95 ids, mamba2 1.3e-11,
# mamba 7.9e-11, gpt2 5.7e-8 for llama.cpp's table of the GELU.
logits_are()
{
    exits 0 "$hearth" inspect logits -m "$dir/$1.gguf" --ids "$(seq -s' ' 11 21 2000)" --rows all \
        --kv-type f32 && [ "$(sha256sum <"$dir/out" | cut -c1-16)" = "$2" ]
}
tiny=n_embd=128,n_head=4,n_head_kv=2,head_dim=32,n_layer=7,n_ff=256
for family in olmo2=d2e6fcdbf1effc66 glm4=b3c91bde80c62d28 mamba2=171bde1507b565c0 \
    mamba=1288f696a10c759a gpt2=9eb5641c83e3392e; do
    make_of 0 "family=${family%=*},$tiny" F32 "$dir/${family%=*}.gguf"
    check "${family%=*}: the logits that another program gives" logits_are ${family/=/ }
done
check "gemma2: made" make_of 0 "family=gemma2,$tiny,window=64" Q8_0 "$dir/gemma2.gguf"
check "gemma2: four ids are drawn" four_ids "$dir/gemma2.gguf"
exits 0 "$hearth" inspect gguf "$dir/gemma2.gguf"
for what in 'attention\.sliding_window .*64' 'attn_logit_softcapping .*50' 'final_logit_softcapping .*30' \
    'blk\.6\.post_ffw_norm\.weight '; do
    check "  it has ${what%% *}" has "$what"
done
check "  and no norms of heads" eval '! found out attn_q_norm'
check "options of the engine are refused" exits 2 "$hearth" inspect make --shape n_embd=64 --type Q4_0 --ctx 100 "$dir/x.gguf"
check "  by name" says 'inspect make: --ctx: no model is opened'
check "  and not among the help" eval '! "$hearth" inspect make --help | grep -q -- --ctx'
check "an unknown shape is refused" make_of 2 nothing Q4_0 "$dir/x.gguf"
check "  by name" says "'nothing' is unknown"
check "a folder that is not there is an error" make_of 1 $shape Q4_0 "$dir/none/x.gguf"
check "  which is said of the name that was given" says "$dir/none/x.gguf: No such file"
check "a refused file leaves nothing behind" eval '[ -z "$(find "$dir" -name "x.gguf*")" ]'

# Ended halfway: the file has no name yet, so nothing is left of it. SIGINT, because what the shell
# starts behind itself ignores it, is set to its default.
ended_by() # SIGNAL
{
    local pid folder=$dir/$1
    mkdir "$folder"
    env --default-signal=INT "$hearth" inspect make --shape qwen3-0.6b --type Q8_0 \
        "$folder/x.gguf" 2>/dev/null &
    pid=$!
    until [ -n "$(find -L "/proc/$pid/fd" -type f -size +1024 -newer "$folder" 2>/dev/null)" ]; do
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    kill "-$1" $pid && ! wait $pid 2>/dev/null && rmdir "$folder"
}
if python3 -c 'import os, sys; os.open(sys.argv[1], os.O_TMPFILE | os.O_WRONLY)' "$dir" 2>/dev/null; then
    for signal in INT TERM KILL; do check "ended by SIG$signal: nothing is left" ended_by $signal; done
else
    skip "ended by a signal" "the file system has no files without a name"
fi
done_testing
