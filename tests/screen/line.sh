#!/usr/bin/env bash
# The line prompt on a terminal: greeting, turns, keys, history, completion, leaving.
. tests/screen/lib/tmux.sh
history=$XDG_STATE_HOME/hearth/history
is_newest() { [ "$(tail -n 1 "$history" 2>/dev/null)" = "$1" ]; }
newest() { within is_newest "$1" || { echo "# $(tail -n 1 "$history")" && return 1; }; }

screen 80 24
check "a prompt" start --temp 0
check "the guide says what it is" shows 'this is the bundled guide'
check "the greeting names the model" shows 'hearth guide'
check "  and how to go on" shows '/help lists the commands'
keys 'What is a draft model?' Enter
check "a reply" shows 'A draft model is'
check "  with its statistics" shows ' prefilled, '
check "  and a new prompt" last '>'
fresh
keys Enter '  ' Enter
check "a blank line is no turn" last '>'
check "  and nothing to remember" newest 'What is a draft model?'
fresh
keys '/help' Enter
check "a command" shows 'says more; //x sends'
fresh
keys '/hlep' Enter
check "a wrong command is said to be one" shows '/help'
fresh
keys '//help' Enter
check "// sends a message that begins with a slash" shows ' prefilled, '

fresh
keys 'one' C-j 'two' M-Enter 'three' Enter
check "Ctrl-J and Alt-Enter break the line" shows 'two'
check "  the message is one" newest 'one\ntwo\nthree'
check "  and sent once" shows ' prefilled, '
fresh
keys 'one'
mux send-keys -H 1b 5b 31 33 3b 32 75
keys 'and'
mux send-keys -H 1b 5b 32 37 3b 32 3b 31 33 7e
keys 'two'
check "so does Shift-Enter of terminals that have it" last 'two'
keys C-a C-k 'a'
mux send-keys -H 1b 5b 32 34 3b 32 7e 1b 5b 49 1b 5b 39 39 3b 39 75 1b 5b 5b 41
keys 'b'
check "a key that does nothing types nothing" last '> ab'
# A hand takes longer than a terminal; so may a machine with other work, then once more.
alt_bracket() { keys C-u 'ab' && mux send-keys -H 1b 5b && sleep 2 && keys 'xy' && patience=5 last '> abxy'; }
check "Alt-[ takes no key with it" within alt_bracket
keys C-u '日本語文字' C-j 'éécd' Up 'x'
check "a column is one of the screen, not a byte" shows '> 日本x語文字'
keys C-c
last '>'
keys Up
check "history brings it back whole" last 'three'
keys Up
check "  the key goes up in it first" last 'three'
keys C-c
check "Ctrl-C clears the line" shows '^C'
check "  and stays" last '>'
keys '/stats' Enter
last '>'
keys '/help' Enter
last '>'
keys Up 'changed' Up Down
last '> /helpchanged'
keys C-c
check "  also out of a history line that was changed and left" last '>'
keys Up Down Enter '/stats' Enter
check "  which harms nothing" shows 'memory '
last '>'
keys C-l Up
check "  and leads to the end of the history" last '> /stats'
keys C-c
last '>'
keys C-r 'draft'
check "history is searched" shows 'What is a draft model?'
keys C-c
check "  Ctrl-C leaves the search" last '>'
keys PageUp '!'
check "PageUp on an empty line is Up" last '> /stats!'
keys C-c
last '>'
keys 'new' M-p Enter
check "a search for no string at all shows the line that was typed" last '> new'
keys Up Up M-p 'dra' C-g
check "  so does one that is given up" last '> new'
keys Up
check "  from which the history begins at its end" last '> /stats'
keys Up M-p 'draft' Enter
check "a search for a string from within the history" last '> What is a draft model?'
keys C-e 'x' Up
check "  is one of what was typed, too" last '> /stats'
keys Down
check "  and one goes back to what it found" last '> What is a draft model?x'
keys C-c
check "  Ctrl-C gives it up" last '>'
keys Up Up M-p 'dra' C-c
check "  also while its string is typed" last '>'
keys Up
check "  and changes nothing of the history" last '> /stats'
keys Up
check "    where it was" last '> /help'
keys C-c
last '>'
keys Up PageUp 'x' Up Down
check "one that finds nothing leaves the line at the end of the history" last '> /statsx'
keys C-c
last '>'
keys 'abc' C-r 'draft'
shows 'What is a draft model?'
keys C-c
check "  also one begun with text in the line" last '>'
keys C-r 'draft'
shows 'What is a draft model?'
mux send-keys -H 1b 05 15 61 62 63
check "  an escape ends it, and what comes with it is typed" last '> abc'
keys C-u
last '>'
keys Up Down Enter '/stats' Enter
check "  which harms nothing" shows 'memory '
last '>'

fresh
keys '/he' Tab
check "TAB completes a command" last '> /help'
keys C-u '/set tem' Tab
check "  a setting" last '> /set temp'
: >"$dir/file with blanks.txt"
keys C-u "/read $dir/file" Tab
check "  a file name, with its blanks" shows 'file with blanks.txt'
keys C-c
last '>'
keys "/system @$dir/fi" Tab
check "  also behind an @" shows 'file with blanks.txt'
keys C-c
last '>'
keys "/set schema $dir/fi" Tab
check "  and where it is a setting's value" shows 'file with blanks.txt'
keys C-c
last '>'

fresh
paste '/quit'
check "a pasted command waits" last '> /quit'
keys Enter
check "  and is a message" shows ' prefilled, '
check "  also when it comes from the history" newest '//quit'
fresh
paste $'/quit\nnow\033[31m red\a'
check "a paste of several lines is not sent by itself" last 'now[31m red'
keys Enter
check "  and is one message without control characters" newest '/quit\nnow[31m red'
check "  that is answered" shows ' prefilled, '

printf '#!/bin/sh\ncp "$1" %q/edited\nprintf "What is a page?\\nIn short.\\r\\n" >"$1"\n' "$dir" >"$dir/editor"
chmod +x "$dir/editor"
keys '/quit' Enter
check "/quit leaves" left 0
check "the history is private" [ "$(stat -c %a "$history")" = 600 ]
check "  as is its folder" [ "$(stat -c %a "$(dirname "$history")")" = 700 ]

printf 'EDITOR=%q\nexport EDITOR\n' "$dir/editor" >"$dir/env"
keys ". $dir/env" Enter
check "a second start" start --temp 0 -q
check "quiet: no greeting" hides '/help lists'
keys Up Up
check "remembers the history" last 'now[31m red'
keys C-c
last '>'
keys 'draft' C-x C-e
check "Ctrl-X Ctrl-E opens the editor" last 'In short.'
check "  with the line" [ "$(cat "$dir/edited")" = draft ]
keys Enter
check "  and its text is sent by Return" newest 'What is a page?\nIn short.'
last '>'
check "no statistics when quiet" hides 'prefilled'
{
    printf '#!/bin/sh\ntrap "echo >>%q/interrupts" INT\n: >%q/interrupts\n' "$dir" "$dir"
    printf 'until [ $(wc -l <%q/interrupts) = 2 ]; do sleep 0.1; done\necho kept >>"$1"\n' "$dir"
} >"$dir/editor"
interrupted() { [ "$(wc -l 2>/dev/null <"$dir/interrupts")" = "$1" ]; }
keys 'draft' C-x C-e
within interrupted 0
keys C-c
within interrupted 1
sleep 1.1 # in which nobody takes it
keys C-c
check "Ctrl-C in the editor is the editor's" last 'kept'
keys C-c
last '>'
keys 'x' C-d
check "Ctrl-D on a line that is not empty stays" last '> x'
keys C-u C-d
check "Ctrl-D on an empty line leaves" left 0

check "--private" start --private
keys 'a secret' Enter
shows ' prefilled, '
last '>'
keys Up
check "  has a history" last '> a secret'
keys C-c
last '>'
keys C-d
left 0
check "  but not on disk" eval '! grep -q secret "$history"'

# The user's inputrc wins.
printf 'set editing-mode vi\n"\\C-j": accept-line\n"\\C-o": "/think\\C-m/set temp\\C-m"\n' >"$INPUTRC"
check "with an inputrc" start --temp 0
keys 'abcd' Escape x x
check "vi mode" last '> ab'
keys A C-j
check "a binding of the user's own" newest 'ab'
shows ' prefilled, '
last '>'
keys C-o
check "a macro of several lines" shows 'it can be a number from'
last '>'
keys C-d
check "  leaves too" left 0
echo 'set completion-ignore-case on' >"$INPUTRC"
start --private
keys '/HE' Tab
check "TAB in any case, where the inputrc wants that" last '> /help'
keys C-u '/set TEM' Tab
check "  a setting" last '> /set temp'
mkdir "$dir/folder"
: >"$dir/folder/Read Ünder.txt"
keys C-u "/read $dir/folder/rEAD ü" Tab
check "  a file" shows '/Read Ünder.txt'
keys C-c
last '>'
keys "/system @$dir/folder/rEAD ü" Tab
check "  behind an @" shows '/Read Ünder.txt'
keys C-c
last '>'
fresh
keys 'What is a draft model?' Enter
shows ' prefilled, '
last '>'
for key in Left M-b Home; do
    keys C-r 'draft'
    shows "\`draft': What is a draft model?"
    keys "$key" '<'
    case $key in
    Left) check "a key ends a search as it does at a shell: $key" last '> What is a< draft model?' ;;
    M-b) check "  $key" last '> What is <a draft model?' ;;
    *) check "  $key" last '> <What is a draft model?' ;;
    esac
    keys C-c
    last '>'
    fresh
done
keys C-r 'draft'
shows "\`draft': What is a draft model?"
keys C-x
last '> What is a draft model?'
keys x '<'
check "  one of two keys that nothing is bound to, too" last '> What is a <draft model?'
keys C-c
last '>'
fresh
keys C-d
left 0
: >"$INPUTRC"

check "a narrow window" eval 'start --temp 0 && mux resize-window -x 40 -y 12'
keys 'a line that is longer than forty columns, so it must be broken'
check "  shows all of a long line" last '> a line that is longer than forty columns, so it must be broken'
mux resize-window -x 80 -y 24
keys ' X'
check "  and a wide one again" last '> a line that is longer than forty columns, so it must be broken X'
keys C-u C-d
left 0

# Nobody tells of a size while others have the terminal.
printf '#!/bin/sh\ntmux resize-window -x 60 -y 20\n' >"$dir/editor"
start --private
keys 'half a line' C-z
last 'shell:'
mux resize-window -x 70 -y 20
keys "fg; echo \"status \$?\"; stty -g >$dir/after" Enter
keys '!'
check "one prompt in a window that changed while it was stopped" last '> half a line!'
keys C-x C-e
within eval '[ "$(mux display-message -p "#{window_width}")" = 60 ]'
keys '?'
check "  or while an editor ran" last '> half a line!?'
keys C-u C-d
left 0
mux resize-window -x 80 -y 24

# The guide never ends its turn with these.
start --private --logit-bias 2045=-inf --logit-bias 2047=-inf --cpu scalar -t 1
keys 'tell me all' Enter
speaks
mux resize-window -x 40 -y 12
keys C-c
shows 'stop: cancelled'
last '>'
keys 'what is longer than forty columns, so it must be broken' C-a 'all '
check "a narrower window since the reply" last '> all what is longer than forty columns, so it must be broken'
keys C-u C-k C-d
left 0
mux resize-window -x 80 -y 24

# A search and a count show prompts of their own, with the line behind them.
start --private -q -n 4
words='what has more than a row of sixty columns is longer, so that it must be broken'
keys "$words" Enter
last '>'
keys C-r 'longer'
shows "\`longer': what has"
# tmux breaks rows anew at once and tells the program of the size up to 250 ms later: keys between
# the two are drawn for a width that is none any more.
has_size() { [ "$(stty size <"$(mux display-message -p '#{pane_tty}')")" = "$2 $1" ]; }
sized() { mux resize-window -x "$1" -y "$2" && within has_size "$1" "$2"; }
squeezed() { tr -d ' \n'; }
once() { [ "$(mux capture-pane -p | sed -n '/reverse/,$p' | squeezed)" = "$(squeezed <<<"$1$words")" ]; }
sized 40 12
check "a narrower window while the history is searched" within once "(reverse-i-search)\`longer':"
keys 'zz'
shows 'longerzz'
sized 30 12
check "  also than the prompt of the search" within once "(failed reverse-i-search)\`longerzz':"
sized 80 24
keys C-g
last '>'
keys 'abc def ghi jkl mno pqr' Escape 1 2
last '(arg: 12) abc def ghi jkl mno pqr'
sized 20 12
keys 3
check "  or while a count is given" last '(arg: 123) abc def ghi jkl mno pqr'
keys C-g
last '> abc def ghi jkl mno pqr'
keys C-u C-d
left 0
mux resize-window -x 80 -y 24

# What the inputrc puts before the prompt has its columns, too.
printf 'set show-mode-in-prompt on\nset emacs-mode-string (mode)\n' >"$INPUTRC"
start_with_mode() { keys "clear; $hearth --private -q" Enter && last '(mode)>'; }
check "the inputrc's show-mode-in-prompt" start_with_mode
words='seventy-six columns with what the prompt has are one row, but not of seventy'
keys "$words"
last "(mode)> $words"
mux resize-window -x 79 -y 24
keys C-b '!'
check "  counts where the width changes" all "(mode)> ${words%?}!${words: -1}"
keys C-e C-u C-d
shows 'shell:'
: >"$INPUTRC"
mux resize-window -x 80 -y 24

# Linux keeps 4 KiB that nobody reads, and what comes behind them waits.
start --private --logit-bias 2045=-inf --logit-bias 2047=-inf --cpu scalar -t 1
keys 'tell me all' Enter
speaks
paste "$(printf 'ahead %.0s' {1..1500})"
keys C-c
check "Ctrl-C behind much that came during a reply" shows 'stop: cancelled'
check "  which is there then" shows 'pasted 9,000 bytes'
keys C-c
check "  and can be dropped" shows 'is dropped'
keys C-d
left 0

check "a bias of a token that the model does not have" start --private --logit-bias 99999=1
check "  is warned of at once" shows 'logit-bias names token 99999, but the vocabulary has 2048 tokens'
keys C-d
left 0
done_testing
