#!/usr/bin/env bash
# Other sizes while a reply comes, down to ones in which nothing can be shown: afterwards the screen
# is the one of a view that had its last size from the start, and no word is lost.
. tests/screen/lib/tmux.sh

# The guide never ends its turn with these; one thread of scalar code leaves time to resize.
args=(--private -q --temp 1 --seed 1 --draft off --warm-typing off --cpu scalar -t 1 -n 160
    --logit-bias 2045=-inf --logit-bias 2047=-inf)
question='tell me all about pages, drafts, branches and how they are saved'
"$hearth" "${args[@]}" --json -p "$question" </dev/null >"$dir/end"
field() { python3 -c 'import json, sys; print(eval("json.load(open(sys.argv[1]))" + sys.argv[2]))' "$dir/end" "$1"; }
field '["text"]' >"$dir/reply"
n_used=$(field '["context"]["used"]')
resize() { mux resize-window -x "${1%x*}" -y "${1#*x}"; }
same_now() { masked | cmp -s "$dir/steady" -; }
# The screen becomes the one that was kept.
same()
{
    local deadline=$((SECONDS + 60))
    until same_now; do
        if ((SECONDS > deadline)); then
            masked | diff "$dir/steady" - | sed 's/^/# /'
            return 1
        fi
        sleep 0.05
    done
}
masked() { mux capture-pane -p | sed -E 's/[ 0-9.,]{5} tok\/s/    N tok\/s/; s/ +$//'; }
used()
{
    local n
    n=$(text | sed -nE 's/.*[ ~]([0-9]+)\/2,048.*/\1/p')
    echo "${n:-0}"
}
until_used()
{
    local deadline=$((SECONDS + 60))
    until [ "$(used)" -ge "$1" ]; do ((SECONDS > deadline)) && return 1 || sleep 0.05; done
}
# The whole reply is there: prompt and reply fill so much of the context.
complete() { until_used "$n_used"; }
# … or not yet, on a screen that shows how much.
writes()
{
    local n deadline=$((SECONDS + 60))
    until n=$(used) && ((n > 0)); do ((SECONDS > deadline)) && return 1 || sleep 0.02; done
    writing=no
    ((n < n_used)) && writing=yes || { echo "# $n of $n_used" && return 1; }
}
words() { tr -s ' \n' '\n\n' | grep .; }

for final in 80x24 300x100 41x9; do
    screen "${final%x*}" "${final#*x}"
    start --tui "${args[@]}"
    keys "$question" Enter
    complete
    # The last token may be counted before what the filters held back is shown.
    until masked >"$dir/steady" && sleep 0.2 && masked | cmp -s "$dir/steady" -; do :; done
    keys C-d
    left 0

    # Where others keep tmux waiting, the reply may be complete before the last size: then fewer
    # sizes, and in the end one alone.
    for attempt in 1 2 3 4 5; do
        start --tui "${args[@]}"
        keys "$question" Enter
        until_used $((60 - 10 * attempt))
        sizes=(120x40 40x12 10x4 20x5 2x1 300x100 19x4 81x23 10x4 "$final")
        for size in "${sizes[@]:2 * (attempt - 1)}"; do
            resize "$size"
            sleep 0.04
        done
        # There and back before a frame is drawn, some of these times.
        for ((i = 0; i < 10 / attempt; i++)); do
            resize 10x4
            resize "$final"
        done
        writes && break || ((attempt == 5)) && break
        keys C-d
        left 0
    done
    check "$final: the reply still came at the last size" [ "$writing" = yes ]
    complete
    check "  the screen is as if it had been so from the start" same
    if [ "$final" = 80x24 ]; then
        # The size went away and came back before the program looked.
        printf '\033[2J' >"$(mux display-message -p '#{pane_tty}')"
        within eval '! same_now'
        kill -WINCH "$(cat "$dir/pid")"
        check "  and after a size that came and went unseen" same
    fi
    if [ "$final" = 300x100 ]; then
        check "  nothing of it is lost" eval '
            text | sed "/^ hearth guide/,\$d" | sed 1,2d | words | cmp - <(words <"$dir/reply")'
        resize 10x4
        shows 'too small'
        resize "$final"
        check "  also from a size without room, when all is there" eval '
            shows "$(head -n 1 "$dir/reply" | cut -c 1-20)" && same'
    fi
    keys C-d
    left 0
done
done_testing
