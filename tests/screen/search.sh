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
check "closed, a dialog leads back to the search" shows 'transcript: '
check "  as it was" looks latte 'fg=16 bg=179'
keys q
check "back with q" ended 'F1 help'
keys F6 'latte' Enter
shows 'transcript: '
keys F3
shows '┌─ branches'
keys F2
check "  which F2 closes, and the search goes on" shows 'transcript: '
check "    highlighted" looks latte 'fg=16 bg=179'
keys C-c
check "back with Ctrl-C" ended 'F1 help'
keys F6 'latte' Enter
shows 'transcript: '
paste 'pasted'
check "back with a paste" ended 'F1 help' pasted
keys C-u
last '>'
keys F6 'la'
last '/la'
paste $'tte\n'
check "a paste while words are typed goes behind them" last '/latte'
keys F1
check "help while words are typed" shows '┌─ help'
keys q
check "  leads back to them" last '/latte'
keys Enter
shows 'transcript: '
check "what was pasted is found" looks 'latte' 'fg=16 bg=179'
keys q C-d
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
keys q
last '>'

# Given up, it leads back to where it began.
up() { shows ' more rows, End' && [ "$(text | head -n 20)" = "$before" ]; }
keys PgUp
shows ' more rows, End'
before=$(text | head -n 20)
keys F6 'zebra 001'
shows '> zebra 001'
keys Escape
check "Esc leads back to where the search began" within up
check "  beside the line" last '>'
keys F2
shows 'transcript: '
keys '/'
last '/'
keys 'zebra 001'
shows '> zebra 001'
keys Escape
check "  in the transcript, too" within up
check "    whose keys count again" shows 'transcript: '
keys q C-d
left 0

# Matches may overlap, and words have characters that nobody sees.
start --tui --private -q --temp 0 -n 1
keys 'xxxxx' Enter
shows '> xxxxx'
last '>'
keys F6 'xx' Enter
shows 'transcript: '
check "a match that overlaps others is marked" looks 'xx' 'fg=16 bg=179'
keys q
last '>'
word=$'\u0645\u06cc\u200c\u0631\u0648\u0645'
paste "$word."
keys Enter
shows "> $word."
last '>'
keys F6
last '/'
keys "$word"
last "/$word"
keys Enter
shows 'transcript: '
check "a word with a joiner that is typed" looks "$word" 'fg=16 bg=179'
keys F3
shows '┌─ branches'
check "  in a dialog, too" shows "$word."
keys q q C-d
left 0
done_testing
