#!/usr/bin/env bash
# The full-screen view: chatting, leaving, the terminal as it was after every kind of end.
. tests/screen/lib/tmux.sh

# The guide never ends its turn with these.
endless=(--tui --private --logit-bias 2045=-inf --logit-bias 2047=-inf --cpu scalar -t 1)
# A crash is ours to clean up after, also where a sanitizer would report it.
export ASAN_OPTIONS=handle_segv=0:handle_abort=0
signal() { kill -"$1" "$(cat "$dir/pid")"; }
back() { rm -f "$dir/after" && keys "fg; echo \"status \$?\"; stty -g >$dir/after" "$1"; }
# The alternate screen is left: what the shell printed before is there again.
is_alone() { mux display-message -p '#{alternate_on}' | grep -qx "$1"; }
alone() { within is_alone "$1"; }

screen 80 24
check "a start" start --tui --temp 0
check "  on the alternate screen" alone 1
check "what was said before it is told there, too" shows 'this is the bundled guide'
check "the greeting names the model" shows 'hearth guide'
check "  and the key for help" shows 'F1 shows the keys'
keys 'What is a draft model?' Enter
check "a reply" shows 'A draft model is'
check "  with its figures" shows ' prefilled, '
check "  and its session" shows 'saved'
keys 'one' C-j 'two' M-Enter 'three'
check "a line of several rows" last 'three'
keys C-c
check "Ctrl-C gives it up" last '>'
keys Up
check "  but not the history" last '> What is a draft model?'
keys C-u '/he' Tab
check "TAB completes" last '> /help'
keys C-u '/s' Tab Tab
check "  and shows what there is" shows '/sessions'
# Terminals send the wheel as arrow keys where nobody asked for the mouse, several at once.
keys C-u '/help' Enter
shows '//x sends'
keys 'half a line'
last '> half a line'
mux send-keys -H 1b 5b 41 1b 5b 41 1b 5b 41
check "the wheel scrolls up" shows ' more rows, End'
check "  and leaves the line" last '> half a line'
mux send-keys -H 1b 4f 42 1b 4f 42 1b 4f 42 1b 4f 42
check "  and down" within eval '! has_text "more rows, End"'
mux resize-window -x 40 -y 24
within eval 'text | grep -q "^a message\."' # drawn for it
keys PPage
check "a narrow bar has room for how to come back, too" shows ' more, End'
check "  beside the model" within eval 'text | grep -qE " hearth guide +[0-9]+ more, End"'
keys NPage
within eval '! has_text "more, End"'
mux resize-window -x 80 -y 24
last '> half a line'
keys Up
check "one arrow key is one" last '> /help'
keys Down
last '> half a line'
# Terminals differ in the columns of a picture that is made of several.
keys C-u '👨‍👩‍👧 hi' C-a 'x' C-e 'y'
check "a joined picture is its parts" last '> x👨👩👧 hiy'
check "  and leaves the bar alone" shows '│ saved '
keys C-u '👍🏽 ❤️ 1️⃣ z' C-a 'w' C-e
check "  a colour of skin is blank, a sign is text" last '> w👍   ❤ 1⃣ z'
# Only cells that change are written.
keys C-u
last '>'
check "an idle screen writes nothing" within silent
keys 'x'
last '> x'
within [ -s "$raw" ]
sleep 0.2
check "a letter writes little more than itself" [ "$(wc -c <"$raw")" -lt 64 ]
mux pipe-pane

# The keys of the transcript make room for how much is below, whole words at a time.
keys C-u '/help' Enter
shows '//x sends'
keys F2 g
check "the way back has room beside what is below" shows 'transcript: / searches, n goes on, ? help, q back'
mux resize-window -x 40 -y 24
check "  in a narrow bar, too" within eval 'text | grep -qE "^ \? help, q back +[0-9]+ more, End"'
mux resize-window -x 80 -y 24
keys q End
last '>'

# Keys as a terminal sends them, all at once; one that has no meaning in a dialog leaves it open.
keys C-u F1
shows 'Beside the line'
keys z
sleep 0.2
check "a key without a meaning does nothing in a dialog" shows 'Beside the line'
mux send-keys -H 1b 68 69
check "Esc in a dialog and keys in haste" last '> hi'
check "  the dialog is gone" hides 'Beside the line'
keys F1
shows 'Beside the line'
mux send-keys -H 1b 4f
check "  also one that might have been part of a key" last '> hiO'
keys C-u
mux send-keys -H 1b 5b 32 30 30 7e 61 1b 5b 32 30 31 7e 1b 4f 50 71 62
check "keys behind a paste reach dialogs, too" last '> ab'
keys C-u 'typed' C-d
check "Ctrl-D on a line that is not empty stays" last '> typed'
keys C-u C-d
check "Ctrl-D on an empty line leaves" left 0
check "  the alternate screen, too" alone 0

# Nothing wakes it but the line itself: no work while the line rests, no other key.
start --tui --private --temp 0 --warm-typing off
keys '/quit' Enter
check "/quit leaves at once" left 0
check "  the alternate screen, too" alone 0
start --tui --private --temp 0 --warm-typing off -n 40 --cpu scalar -t 1
keys 'What is a draft model?' Enter '/bye' Enter
check "  also when it waited for a reply" left 0
keys ". $dir/run" Enter '/exit' Enter
check "  or for the model" left 0

start --tui -q --private --temp 0
keys 'What is a page?' Enter
shows 'compressed with zstd'
keys '/fork a-branch-with-a-long-name' Enter
shows 'branch 2'
keys F3
check "columns stand behind the longest name" shows '* 2 a-branch-with-a-long-name   2 messages  What is a page?'
check "  of every row" shows '  1 main                        2 messages  What is a page?'
mux resize-window -x 50 -y 20
check "what does not fit ends in a mark" shows '2 messages … │'
mux resize-window -x 80 -y 24
keys q C-d
left 0

# The bar tells a rate once there is one: none is far above that of the whole.
start --tui --private --temp 0 --logit-bias 2045=-inf --logit-bias 2047=-inf
record
keys 'tell me all' Enter
shows 'tok/s'
keys C-c
shows 'stop: cancelled'
mux pipe-pane
check "no rate of the first tokens alone" eval 'text | cat "$raw" - | grep -aoE "[0-9.,]+ tok/s" | tr -d , |
    awk "{ if (\$1 > most) most = \$1; last = \$1 } END { exit !(NR > 1 && most < 5 * last) }"'
keys C-d
left 0

for how in 'TERM 143' 'HUP 129' 'ABRT 134' 'SEGV 139'; do
    start "${endless[@]}"
    keys 'tell me all' Enter
    shows 'tok/s'
    signal "${how% *}"
    check "SIG${how% *} in a reply" left "${how#* }"
    check "  leaves the screen" alone 0
done
start "${endless[@]}"
keys 'half a line'
last '> half a line'
signal TERM
check "SIGTERM while a line is typed" left 143
check "  leaves the screen" alone 0

start "${endless[@]}"
keys 'tell me all' Enter
shows 'tok/s'
keys 'typed ahead'
check "a line is typed while a reply comes" last '> typed ahead'
keys Enter
check "  and waits when it is sent" shows '1 waiting'
keys C-r 'tell'
check "  meanwhile the history is searched" shows 'reverse-i-search'
keys C-c
check "Ctrl-C stops the reply" shows 'stop: cancelled'
check "  and gives the line back" last '> typed ahead'
keys '!'
check "  which is no search any more" last '> typed ahead!'
keys BSpace
keys C-z
check "Ctrl-Z stops" last 'shell:'
check "  and leaves the screen" alone 0
keys "clear; stty -g | cmp - $dir/before && echo alike" Enter
check "  the terminal is the shell's meanwhile" shows 'alike'
back Enter
check "  fg brings all of it back" last '> typed ahead'
check "  with the transcript" shows 'stop: cancelled'
signal STOP
shows 'Stopped'
back C-j
check "a stop that nobody can catch" last '> typed ahead'
keys C-u C-d
check "the terminal is as it was" left 0

# Keys that come at once: what was sent by Enter goes before what is behind it.
start --tui -q --temp 0 -n 20
keys 'first words' Enter C-d
check "Ctrl-D right behind Enter leaves" left 0
check "  what was sent is sent" eval '"$hearth" sessions | grep -q "first words"'
start "${endless[@]}" --temp 0 -n 200
keys '/fork there' Enter 'in a branch' Enter
shows ' prefilled, '
last '>'
keys 'List five fruits' Enter F3 Down Enter
check "a choice right behind Enter waits for what is sent" shows 'not while this runs'
check "  which goes to its branch" shows '* 2 there          3 messages  List five fruits'
keys q C-d
left 0

start --tui --temp 0 --logit-bias 2045=-inf --logit-bias 2047=-inf --cpu scalar -t 1 -n 200
keys 'tell me all' Enter
shows 'tok/s'
keys '/save kept' Enter
shows '1 waiting'
keys C-d
check "Ctrl-D while a line waits says that it is done before" shows 'leaves after what waits'
check "  and leaves then" left 0
check "  the line was done" eval '"$hearth" sessions | grep -q kept'
start "${endless[@]}"
keys 'tell me all' Enter
shows 'tok/s'
keys '/stats' Enter
shows '1 waiting'
keys C-d
shows 'leaves after what waits'
keys C-d
check "  at once if it is pressed again" left 0

# Esc leads back to the line, where readline takes another for the beginning of a key.
start --tui -q --private
keys F2
shows 'transcript:'
keys Escape
within eval '! has_text transcript:'
keys Escape
sleep 1
keys F1
check "F1 long behind Esc is F1" shows 'Beside the line'
keys q
check "  and types nothing" last '>'
keys 'one two' Escape
sleep 1
keys Escape b x
check "  and with a letter it means what Esc does" last '> one xtwo'
keys DC
check "Delete deletes" last '> one xwo'
keys C-e C-u C-d
left 0

# Debian's /etc/inputrc has these for terminals such as tmux.
printf '"\\e[1~": beginning-of-line\n"\\e[4~": end-of-line\n' >"$INPUTRC"
start --tui -q --private
keys '/help' Enter
shows '//x sends'
mux send-keys -H 1b 5b 31 7e
check "Home goes to the beginning, whatever the inputrc of all says" shows ' more rows, End'
mux send-keys -H 1b 5b 34 7e
check "  and End to the end" within eval '! has_text "more rows, End"'
keys 'ab'
mux send-keys -H 1b 5b 31 7e
keys 'x'
check "  but those of the line where there is one" last '> xab'
keys C-e C-u C-d
left 0

# In vi mode.
echo 'set editing-mode vi' >"$INPUTRC"
start --tui -q --private
keys 'typed' Escape x
last '> type'
keys C-c
last '>'
keys 'ix'
check "vi mode: behind Ctrl-C a line begins as any other" last '> ix'
keys C-c
last '>'
keys C-d
left 0
cat >>"$INPUTRC" <<'END'
set show-mode-in-prompt on
set vi-cmd-mode-string "\1\e[31m\2(cmd)\1\e[0m\2"
END
keys ". $dir/run" Enter
check "the mode is shown where the inputrc wants it" last '(ins)>'
keys 'typed' Escape
check "  also the other" last '(cmd)> typed'
check "    which is the prompt's, and no more" looks '(cmd)> ' 'bold fg=71'
check "    " looks 'typed' plain
keys C-c
last '(ins)>'
keys C-r 'ty'
check "  but not before what is asked" last "(failed reverse-i-search)\`ty':"
keys C-c
last '(ins)>'
keys C-d
left 0
# Half a second each time, which is too short to be looked for once.
echo 'set blink-matching-paren on' >"$INPUTRC"
start --tui --private -q
blinks() { keys C-u '(a)' && sleep 0.1 && ends_in '> (a)' && [ "$(mux display -p '#{cursor_x}')" = 2 ]; }
check "a parenthesis shows the other one, where the inputrc wants that" within blinks
keys C-u C-d
left 0
: >"$INPUTRC"

# A long name of the model leaves room for how much is used and whether it is saved.
"$hearth" inspect make --shape qwen3-0.6b,n_embd=64,n_layer=1,n_ff=64,n_vocab=2048 --type Q8_0 "$dir/long.gguf"
start --tui --private -m "$dir/long.gguf" --ctx 2048
bar() { text | grep -qE "$1"; }
check "a long name of a model is cut" within bar '^ qwen3-0.6b,[^ ]*… │ '
check "  not what stands beside it" within bar ' [0-9]+/2,048 │ private'
keys C-d
left 0

check "a dumb terminal is refused" eval 'keys "clear; TERM=dumb $hearth --tui; echo status \$?" Enter && shows "status 2"'
check "  in one line" shows "the terminal 'dumb' cannot place its cursor"
check "  so is one that terminfo does not know" eval 'keys "clear; TERM=nonsense $hearth --tui; echo status \$?" Enter && shows "status 2"'
check "    which is said" shows "the terminal 'nonsense' of \$TERM is not in terminfo"
for asked in '' HEARTH_TUI=on; do
    keys "clear; TERM=dumb $asked $hearth --private; echo status \$?" Enter
    check "  it has the line prompt, ${asked:-without --tui}" last '>'
    hides 'status' && keys C-d
    shows 'status 0'
done

# A line that waited takes the view from nobody.
start "${endless[@]}" -q -n 60
keys '/help' Enter
shows '//x sends'
keys 'tell me all' Enter
shows 'tok/s'
keys 'and more' Enter Home F2
within eval '! has_text " waiting"'
check "who reads above goes on when a line that waited is sent" shows ' more rows, End'
within eval '! has_text "tok/s │" || has_text "F1 help"'
check "  to the end of the reply" shows '> /help'
keys q
last '>'
keys PgUp
shows ' more rows, End'
keys 'x' Enter
check "  and who sends a line now sees it" shows '> x'
keys C-c
# A message that was given up before its reply began comes back into the line.
emptied() { keys C-u && sleep 0.1 && ends_in '>'; }
within emptied
keys C-d
left 0

# What the bar counts is the conversation as it is.
counts() { text | grep -oE '~?[0-9,]+/2,048' | grep -qxE "$1/2,048"; }
start --tui --private --temp 0 --warm-typing off --cpu scalar -t 1 -n 4
keys 'hello' Enter
within counts '[1-9][0-9]*'
last '>'
before=$(text | grep -oE '[0-9,]+/2,048')
printf ' conversation%.0s' {1..1280} >"$dir/paste"
mux load-buffer "$dir/paste"
mux paste-buffer -p
shows 'pasted '
keys 'and now?' Enter
shows 'reading 1,'
keys C-c
check "a prompt that was given up" last '> and now?'
check "  is not counted" within counts "${before%/*}"
keys C-u
last '>'
keys C-c
shows 'is dropped'
keys 'hello again' Enter
shows '> hello again'
within eval '! counts "${before%/*}"'
last '>'
keys '/undo' Enter
check "what /undo leaves is counted, nearly" within counts "~[1-9][0-9]?"
keys "/model $guide" Enter
check "another model has no rate of the one before" within eval '! has_text "tok/s │"'
check "  and the same conversation" within counts "~[1-9][0-9]?"
keys '/clear' Enter
check "an empty conversation has no tokens" within counts 0
keys C-d
left 0
done_testing
