#!/usr/bin/env bash
# When pages get to disk: between turns and without a word, however many, so that a kill while
# nothing is computed loses none of them; at the end in any case.
. tests/lib/tap.sh
pages=$dir/cache/hearth/pages

# One page of it is a quarter of what may wait to be written.
wide=$dir/wide.gguf
"$hearth" inspect make --type F16 "$wide" --shape \
    n_embd=32,n_layer=1,n_head=64,n_head_kv=64,head_dim=1024,n_ff=32,n_ctx=4096 || exit 1
question=$(seq -s ' ' 1 150)
chat=(-m "$wide" --kv-type f32 -s long -n 2 --temp 0 -v)
files() { find "$pages" -name "*.$1" | wc -l; }

# At the end all is written: how much there is of it, and how much may be read again.
check "a prompt of many pages" go 0 "${chat[@]}" -p "$question" </dev/null
n_pages=$(files page)
check "  is on disk at the end" [ "$n_pages" -ge 6 ]
check "  with what follows the last page" [ "$(files snap)" = 1 ]
# The question that comes next has fewer tokens than there are rows behind the last page.
all=' ([45][0-9]{2}) cached \(\1 from disk\), [12]?[0-9] prefilled'
check "  and read, not computed" go 0 "${chat[@]}" -p more </dev/null
check "  all of it" found err -E "$all"

rm -rf "$dir/cache" "$dir/state"
mkfifo "$dir/lines"
killed_while_idle()
{
    "$hearth" "${chat[@]}" --stdin lines <"$dir/lines" >"$dir/out" 2>"$dir/err" &
    local pid=$! i
    exec 8>"$dir/lines"
    echo "$question" >&8
    # Its thread has what others leave of the machine, which may be next to nothing.
    for ((i = 0; i < 9000; i++)); do
        (($(files page) == n_pages && $(files snap) >= 1)) && break
        kill -0 $pid || break
        sleep 0.1
    done
    kill -0 $pid
    local alive=$?
    kill -9 $pid
    wait $pid
    exec 8>&-
    ((alive == 0 && i < 9000)) || { echo "# $(files page) of $n_pages pages after $i" && return 1; }
}
check "while nothing is asked all of it gets there, too" killed_while_idle 2>/dev/null
check "  which a kill leaves" go 0 "${chat[@]}" -p more </dev/null
check "  as it was" found err -E "$all"
done_testing
