#!/usr/bin/env bash
# Golden screens of the full-screen view: scripted keys at three sizes, every dialog and state,
# compared with tests/screen/golden/WIDTHxHEIGHT/NAME. Figures that differ from run to run are
# masked. GOLDEN_REFRESH=1 writes the files anew (make test-refresh); read their difference then.
. tests/screen/lib/tmux.sh
golden=tests/screen/golden

# Speeds, sizes of memory, dates, what is computed when a prefill is stopped: by letters of the
# same width where the layout depends on it.
mask()
{
    sed -E -e 's/[ 0-9.,]{5} tok\/s │/    N tok\/s │/g' \
        -e 's/[0-9.]+ [MG]iB of memory/N MiB of memory/' \
        -e 's/20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}/YYYY-MM-DD HH:MM/g' \
        -e '/~/s/█/▒/g' -e 's/(reading [0-9,]+ tokens) .*/\1 .../' -e 's/ +$//'
}
# golden NAME [-e]: the screen is this one, within a deadline; with -e its colours, too.
golden()
{
    local file=$golden/$size/$1 deadline=$((SECONDS + patience))
    if [ -n "${GOLDEN_REFRESH:-}" ]; then
        sleep 1
        mkdir -p "$golden/$size"
        mux capture-pane -p ${2:-} | mask >"$file"
    fi
    until mux capture-pane -p ${2:-} | mask | cmp -s - "$file"; do
        if ((SECONDS > deadline)); then
            mux capture-pane -p ${2:-} | mask | diff "$file" - | cat -v | sed 's/^/#   /'
            echo "# if that is meant: make test-refresh, and read git diff"
            return 1
        fi
        sleep 0.05
    done
}
same() { check "$size: $1" golden "$@"; }

# Nothing here depends on how fast this machine is.
tui() { start --tui -q --temp 0 --seed 1 --cpu scalar -t 1 --warm-typing off --draft off "$@"; }
# Reasoning without an end.
printf '{%% for m in messages %%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{%% endfor %%}<|im_start|>assistant\n<think>\n' >"$dir/think.jinja"
for ((i = 0; i < 120; i++)); do echo "line $i of what is to be read"; done >"$dir/long.txt"

screen 80 24
keys "cd $dir" Enter
for size in 80x24 120x40 300x100; do
    mux resize-window -x "${size%x*}" -y "${size#*x}"
    rm -rf "$XDG_STATE_HOME" "$XDG_CACHE_HOME"
    tui -s first
    same start
    keys F1
    same help
    keys PgDn PgDn
    same help-end
    keys q '/undo' Enter '/nonsense' Enter
    same error
    keys C-d
    left 0

    tui -s second
    keys 'What is a page?' Enter
    same reply
    keys '/fork other' Enter 'How do I save a chat?' Enter
    same fork
    keys 'a line of' C-j 'three rows, the last of which is long enough to be broken on a screen that is not' C-j 'wide'
    same long-line
    keys F3
    same branches
    keys Up
    same branches-up
    keys q
    same long-line
    keys C-c
    same line-given-up
    keys F3 Up Enter
    same switched
    keys F6 'page'
    same search -e
    keys Enter
    same search-transcript -e
    keys n
    same search-next -e
    keys q '/s' Tab Tab
    same choices
    keys C-u F4
    same sessions
    keys q C-d
    left 0

    tui --private -n 24 --template "$dir/think.jinja"
    keys 'Think of pages' Enter
    same folded
    keys F5
    same unfolded
    mux resize-window -x 60 -y 20
    same resized-60x20
    mux resize-window -x 18 -y 4
    same resized-18x4
    mux resize-window -x "${size%x*}" -y "${size#*x}"
    same unfolded
    keys F5 '/read long.txt' Enter
    shows 'they go before'
    keys 'Go' Enter C-l
    shows 'reading 1,'
    same prefill
    keys PgUp
    same prefill-scrolled
    keys C-c
    same prefill-stopped
    keys C-u C-d
    left 0
done
done_testing
