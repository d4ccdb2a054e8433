#!/usr/bin/env bash
# Random keys and sizes in the full-screen view: it neither ends by itself nor shows a terminal
# anything but what it may. HEARTH_SOAK: how many times as long.
. tests/screen/lib/tmux.sh
export EDITOR=true # C-x C-e

pieces=(F1 F2 F3 F4 F5 F6 PgUp PgDn Home End Up Down Left Right Enter Enter Escape Tab Tab BSpace M-p M-n
    C-a C-e C-k C-u C-w C-y C-r C-l C-j C-x C-t C-n C-p C-_ M-Enter M-b M-f M-d M-. Space q n N r b g
    G k j / '?' 'draft' 'pages ' '/he' '/fork' '/switch 1' '/undo' '/retry' '/clear' '/branches'
    '/set ' '/think hide' '/show ' 'What is a page?' '漢字かな' 'é́́' '👩‍👩‍👧 ' '$(' '1' C-v C-c)
sizes=('80 24' '120 40' '300 100' '41 12' '20 5' '19 4' '7 3' '2 1' '80 24')

# What reaches the terminal has no control character but those of curses: ESC, CR, LF, BS, TAB,
# BEL, SI and SO.
only_harmless() { ! LC_ALL=C tr -d '\033\r\n\b\t\a\016\017\040-\176\200-\377' <"$raw" | grep -q .; }
alive() { kill -0 "$(cat "$dir/pid")" 2>/dev/null || { text | tail -n 30 | sed 's/^/#   /' && return 1; }; }
# None of its threads has anything to do.
rests() { ! sed 's/.*) //' /proc/"$(cat "$dir/pid")"/task/*/stat 2>/dev/null | grep -qv '^S'; }
storm()
{
    local i key n=$((150 * ${HEARTH_SOAK:-1}))
    for ((i = 0; i < n; i++)); do
        key=${pieces[RANDOM % ${#pieces[@]}]}
        keys "$key"
        # A second one that comes a second after an unanswered first rightly ends the program.
        [ "$key" != C-c ] || within rests
        if ((RANDOM % 12 == 0)); then
            # shellcheck disable=SC2086
            set -- ${sizes[RANDOM % ${#sizes[@]}]}
            mux resize-window -x "$1" -y "$2"
        fi
        if ((RANDOM % 20 == 0)); then paste $'/quit\e[31m\x9b\tpasted\nlines'; fi
        alive || { echo "# seed $seed, key $i" && return 1; }
    done
}

for seed in 1 2 3; do
    screen 80 24
    start --tui --private --cpu scalar -t 1 -n 40
    record
    RANDOM=$seed
    check "random keys and sizes, $seed" storm
    check "  nothing but what curses writes" only_harmless
    mux resize-window -x 80 -y 24
    kill -TERM "$(cat "$dir/pid")"
    check "  and a clean end" left 143
done
done_testing
