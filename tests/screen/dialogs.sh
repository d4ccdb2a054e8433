#!/usr/bin/env bash
# The dialogs of the full-screen view: what they list, and how they fit the screen.
. tests/screen/lib/tmux.sh
sessions=$dir/state/hearth/sessions

screen 100 30
go 0 -q -s one -n 1 -p hello </dev/null
for i in {001..104}; do cp "$sessions/one.session" "$sessions/s$i.session"; done
start --tui -q --temp 0
keys F4
shows '┌─ sessions'
keys G
check "more sessions than are listed" shows 'and 5 more: hearth sessions lists all'
keys Enter
check "  are nothing to choose" within eval '! has_text "┌─ sessions"'
rm "$sessions"/s00[1-5].session
keys F4
shows '┌─ sessions'
keys G
shows 's006'
check "  as many as are listed are all" hides ' more: '
keys q
last '>'
keys C-d
left 0

# A choice must wait while a reply is written, which is said for as long as that is so.
start --tui -q --private --temp 0 --logit-bias 2045=-inf --logit-bias 2047=-inf --cpu scalar -t 1
keys 'tell me all' Enter
shows 'tok/s'
keys F3
shows '┌─ branches'
keys Enter
check "a choice in a reply" shows 'not while this runs: Ctrl-C stops it'
keys C-c
check "  the notice goes with the reply" shows ' hearth guide │ '
keys q
last '>'
keys C-d
left 0

# The help of a narrower window is the one that opens there, and back.
text_of_help() { text | grep -F '│' | grep -vF 'hearth guide'; }
same_help() { [ "$(text_of_help)" = "$narrow" ]; }
mux resize-window -x 40 -y 14
start --tui -q --private --temp 0
keys F1
shows '┌─ help'
narrow=$(text_of_help)
keys q
last '>'
mux resize-window -x 100 -y 30
shows 'cpu ('
keys F1
shows 'show the keys and the commands'
mux resize-window -x 40 -y 14
check "the help in a window that has become narrow" within same_help
keys G
shows 'compare the bits'
mux resize-window -x 100 -y 30
check "  at its end stays there when the window widens" shows 'compute the conversation again, compare the bits'
keys q C-d
left 0

# What others write on the screen goes with Ctrl-L, in a dialog and in a search as elsewhere.
scribble() { printf '\033[5;10Hscribble' >"$(mux display-message -p '#{pane_tty}')" && shows scribble; }
drawn_again() { scribble && keys C-l && within eval '! has_text scribble' && shows "$1"; }
start --tui -q --private --temp 0
keys F1
shows '┌─ help'
keys G
shows 'compare the bits'
keys k
within eval '! has_text "compare the bits"'
before_last=$(text_of_help)
same_rows() { [ "$(text_of_help)" = "$before_last" ]; }
keys g
shows 'Beside the line'
keys G k
check "the end and a row up are the same at once as one by one" within same_rows
check "Ctrl-L in a dialog draws the screen again" drawn_again '┌─ help'
keys q F6 'words'
last '/words'
check "  and while words are searched for" drawn_again '/words'
keys Escape
last '>'
keys C-d
left 0

screen 30 6
start --tui -q --private --temp 0
keys '/' Tab Tab
check "what TAB shows in a low window begins with the first" shows '/? '
check "  and tells that there is more" shows '…'
keys C-c
last '>'
keys C-d
left 0

touch "$dir/one-name-that-is-longer-than-the-screen" "$dir/one-name-that-is-longer-than-all"
screen 30 12
start --tui -q --private --temp 0
keys "/read $dir/one" Tab Tab Tab
check "a choice of TAB that is wider than the window ends in a mark" shows 'one-name-that-is-longer-than-…'
keys C-c
last '>'
keys C-d
left 0
done_testing
