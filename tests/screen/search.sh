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
keys Escape
last '>'
keys C-d
left 0
done_testing
