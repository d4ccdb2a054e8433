#!/usr/bin/env bash
# The full-screen view on terminals of 8, 16, 256 and all colours, on such without any, and where
# colour is not wanted: each kind of text looks as it should and what matters can be told apart.
. tests/screen/lib/tmux.sh

# Not every machine knows the terminals that have more than 8 colours but 256.
cat >"$dir/terms" <<'END'
hearth-16|sixteen colours,
	colors#16, pairs#256,
	setab=\E[%?%p1%{8}%<%t%p1%{40}%+%e%p1%{92}%+%;%dm,
	setaf=\E[%?%p1%{8}%<%t%p1%{30}%+%e%p1%{82}%+%;%dm,
	use=xterm,
hearth-direct|the colours themselves,
	RGB, colors#0x1000000, pairs#0x7ffff,
	setab=\E[%?%p1%{8}%<%t4%p1%d%e48\:2\:\:%p1%{65536}%/%d\:%p1%{256}%/%{255}%&%d\:%p1%{255}%&%d%;m,
	setaf=\E[%?%p1%{8}%<%t3%p1%d%e38\:2\:\:%p1%{65536}%/%d\:%p1%{256}%/%{255}%&%d\:%p1%{255}%&%d%;m,
	use=xterm,
END
tic -x -o "$dir/terminfo" "$dir/terms"
colourless() { ! grep -qE $'\033\\[([0-9;:]*[;:])?([34][0-8]|9[0-7]|10[0-7])([;:][0-9;:]*)?m' "$raw"; }

# A reply with code, an error, a search with two matches, a dialog with a chosen row, the bar.
# LOOKS: of the message, code, a language, an error, a match, the one found, the name in the bar,
# the rest of it, its meter, a dialog's title, its edge, its chosen row.
shows_all() # NAME LOOKS...
{
    local name=$1
    shift
    keys 'c code for strlen' Enter
    shows '}'
    last '>'
    keys '/nonsense' Enter
    check "$name: a message" looks 'c code for strlen' "$1"
    check "  code" looks 'return n' "$2"
    check "  its language" looks_above 'size_t length' 'c' "$3"
    check "  an error" looks 'no command /nonsense' "$4"
    check "  the name in the bar" looks 'hearth guide' "$7"
    check "  the bar" looks "private" "$8"
    check "  its meter" looks '█' "$9"
    keys F6 'size' Enter
    check "  a match" looks_above 'size_t n' 'size' "$5"
    check "  the one that is stood at" looks 'size' "$6"
    keys q F3
    check "  a dialog" looks 'branches' "${10}"
    check "  its edge" looks '┌' "${11}"
    check "  its chosen row" looks '* 1 main' "${12}"
    keys q C-d
    left 0
}
# looks_above ROW TEXT LOOK: the last place with TEXT above the row that has ROW.
is_above()
{
    mux capture-pane -p -e | sed -E "/$(sed 's/./&(\x1b\[[0-9;]*m)*/g' <<<"$1")/,\$d" >"$dir/above"
    got=$(python3 tests/screen/lib/looks.py "$2" <"$dir/above" 2>&1)
    [ "$got" = "$3" ]
}
looks_above()
{
    local got
    within is_above "$@" || { echo "# '$2' looks '$got', expected '$3'" && return 1; }
}
tui() { start --tui -q --private --temp 0 "$@"; }
term() { keys "TERM=$1; export TERM; clear" Enter; }

screen 80 24
keys "TERMINFO=$dir/terminfo TERMINFO_DIRS=$dir/terminfo:/etc/terminfo:/lib/terminfo:/usr/share/terminfo" Enter
keys 'export TERMINFO TERMINFO_DIRS' Enter
for name in xterm hearth-16; do
    term $name
    tui
    shows_all $name bold fg=6 'bold fg=6' fg=1 'underline fg=3' 'fg=0 bg=3' \
        'bold fg=0 bg=7' 'fg=0 bg=7' 'fg=2 bg=7' bold fg=6 reverse
done
term xterm-256color
tui
shows_all xterm-256color bold fg=73 'bold fg=73' fg=167 'underline fg=179' 'fg=16 bg=179' \
    'bold fg=255 bg=237' 'fg=250 bg=237' 'fg=71 bg=237' 'bold fg=255 bg=235' 'fg=73 bg=235' \
    'reverse fg=252 bg=235'
term hearth-direct
tui
shows_all 'true colour' bold 'fg=#5fafaf' 'bold fg=#5fafaf' 'fg=#d75f5f' 'underline fg=#d7af5f' \
    'fg=0 bg=#d7af5f' 'bold fg=#eeeeee bg=#3a3a3a' 'fg=#bcbcbc bg=#3a3a3a' \
    'fg=#5faf5f bg=#3a3a3a' 'bold fg=#eeeeee bg=#262626' 'fg=#5fafaf bg=#262626' \
    'reverse fg=#d0d0d0 bg=#262626'
mono=(bold plain bold bold underline reverse 'bold reverse' reverse reverse bold plain reverse)
for name in vt100 xterm-mono; do
    term $name
    record
    tui
    shows_all $name "${mono[@]}"
    check "  no colour was sent" colourless
done
term xterm-256color
record
tui --color never
shows_all '--color never' "${mono[@]}"
check "  no colour was sent" colourless
keys 'NO_COLOR=1; export NO_COLOR' Enter
record
tui
shows_all NO_COLOR "${mono[@]}"
check "  no colour was sent" colourless
tui --color always
check "--color always goes before NO_COLOR" looks 'hearth guide' 'bold fg=255 bg=237'
keys '/nonsense' Enter
looks 'no command' 'fg=167'
keys '/set color never' Enter
check "/set color never takes the colours away" looks 'no command' bold
check "  of the bar, too" looks 'hearth guide' 'bold reverse'
keys '/set color always' Enter
check "  and back they are" looks 'no command' 'fg=167'
keys C-d
left 0
tui
looks 'hearth guide' 'bold reverse'
keys '/set color always' Enter
check "a view that began without them has them, too" looks 'hearth guide' 'bold fg=255 bg=237'
keys C-d
left 0
done_testing
