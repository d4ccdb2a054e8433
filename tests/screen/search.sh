#!/usr/bin/env bash
# The full-screen view's search: where it begins, what it highlights, and how it ends.
. tests/screen/lib/tmux.sh

screen 80 24
start --tui --private -q --temp 0 -n 8

# A match may end, or begin, within what is one character to a reader.
paste $'cafe\u0301 latte'
keys Enter
shows $'> cafe\u0301 latte'
last '>'
keys F6 'cafe'
last '/cafe'
check "a match that ends before an accent" shows $'> cafe\u0301 latte'
check "  has it all the same" looks $'cafe\u0301' "fg=16 bg=179"
keys C-u $'\u0301 l'
check "one that begins with it" shows $'> cafe\u0301 latte'
keys C-u 'CAFÉ'
last '/CAFÉ'
keys C-u 'café'
last '/café'
check "a letter with its accent in one is found as well" looks $'cafe\u0301' "fg=16 bg=179"
keys Escape
last '>'

# A search ends with the way back to the line, whichever that is.
ended() { shows "$1" && looks latte bold && last ">${2:+ $2}"; }
keys F6 'latte' Enter
shows 'transcript: '
keys '?'
shows '┌─ help'
keys q
check "back by way of a dialog" ended 'F1 help'
keys F6 'latte' Enter
shows 'transcript: '
keys F3
shows '┌─ branches'
keys F2
check "  which F2 closes, and the search goes on" shows 'transcript: '
check "    highlighted" looks latte 'fg=16 bg=179'
keys C-c
check "back with Ctrl-C" ended 'F1 help'
keys F6 'latte'
last '/latte'
paste 'pasted'
check "back with a paste" ended 'F1 help' pasted
keys C-u C-d
left 0

# It begins with what is on the screen, also where newer matches are below.
seq -f 'zebra %03.0f' 60 | go 0 -q -s zoo -n 8
start --tui -q -s zoo
shows 'zebra 060'
keys PgUp
shows ' more rows, End'
before=$(text | grep -F zebra)
keys F6 'zebra' Enter
shows 'transcript: '
check "the newest match in a view that is scrolled up" looks zebra 'fg=16 bg=179'
check "  which stays where it is" [ "$(text | grep -F zebra)" = "$before" ]
keys n
check "  and then the one before" looks zebra 'underline fg=179'
keys q C-d
left 0
done_testing
