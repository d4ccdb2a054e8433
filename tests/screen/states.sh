#!/usr/bin/env bash
# The line prompt in every state under every signal, under a large paste, without a locale, with
# standard input or output that is no terminal; the terminal is left as it was.
. tests/screen/lib/tmux.sh
endless=(--private --logit-bias 2045=-inf --logit-bias 2047=-inf --cpu scalar -t 1)
signal() { kill -"$1" "$(cat "$dir/pid")"; }
# What each state is and how to get there.
typing() { keys 'half a line' && last '> half a line'; }
answering() { keys 'tell me all' Enter && shows '> tell me all' && speaks; }
printf '#!/bin/sh\necho editing\nexec sleep 100\n' >"$dir/editor"
chmod +x "$dir/editor"
editing() { keys 'x' Enter && shows ' prefilled, ' && last '>' && keys '/edit' Enter && shows 'editing'; }

# Another size without a prompt: so many rows later all of the screen came at that width.
screen 80 24
printf '%q ' "$hearth" -q --temp 0 "${endless[@]}" -p 'tell me all' >"$dir/once"
has_rows() { [ "$(text | grep -c .)" -ge 4 ]; }
has_new_rows() { [ "$(mux display-message -p '#{history_size}')" -ge 30 ]; }
too_wide() { text | sed 's/ *$//' | grep -E '.{41}'; }
keys "clear; . $dir/once" Enter
within has_rows
mux resize-window -x 40 -y 12
mux clear-history
check "a narrower window without a prompt: more rows" within has_new_rows
check "  as narrow, between words" eval '! too_wide'
keys C-c
last 'shell:'

screen 80 24
keys "EDITOR=$dir/editor; export EDITOR" Enter
for end in TERM:143 HUP:129; do
    for state in typing answering editing; do
        args=("${endless[@]}")
        [ $state = editing ] && args=(--private -n 3)
        start "${args[@]}"
        $state
        signal "${end%:*}"
        check "SIG${end%:*} while $state" left "${end#*:}"
    done
done
keys 'unset EDITOR' Enter

# Another size: the line is drawn anew, a reply goes on.
start "${endless[@]}"
typing
mux resize-window -x 40 -y 12
keys ' and more'
check "a narrower window at the prompt" last '> half a line and more'
mux resize-window -x 100 -y 30
keys C-u
# A message of several rows: it stands once, and what is above it stays.
fresh
keys '/help' Enter
shows 'says more'
keys '/set temp' Enter
shows 'it can be a number'
last '>'
keys 'the first line of a message, which takes two rows where sixty columns are' C-j \
    'a second one that takes more rows than one, too, if the window is narrow' C-j 'and the third' \
    Left Left Left Left
mux clear-history
once() { [ "$(text | grep -c "$1")" = 1 ]; }
is_kept() { mux capture-pane -p -J -S - | grep -q "$1"; } # also where it went off the screen
is_sized() { [ "$(stty size -F "$(mux display-message -p '#{pane_tty}')")" = "30 $columns" ]; }
for columns in 60 35 90 25 60; do
    mux resize-window -x $columns -y 30
    within is_sized # the program is told a little later
    keys x
    last 'and the txhird'
    keys BSpace
    check "$columns columns: the message is drawn anew" last 'and the third'
    check "  and stands once" eval 'once "^> the first line" && once "^a second one"'
    check "  what is above it stays" eval 'is_kept "it can be a number" && is_kept "^> /set temp"'
done
keys C-c
last '>'
mux resize-window -x 100 -y 30
fresh
answering
for size in 40x10 200x50 80x24; do mux resize-window -x "${size%x*}" -y "${size#*x}"; done
keys C-c
check "other sizes in a reply" shows 'stop: cancelled'
# A stop in a reply: keys typed in the shell meanwhile are the shell's.
answering
keys C-z
last 'shell:'
keys 'echo mine' Enter
is_mine() { text | grep -qx mine; }
check "a stop in a reply" within is_mine
keys 'fg' Enter
goes_on
keys C-c
check "  goes on and can be stopped" eval 'shows "stop: cancelled" && last ">"'

# 5 MB pasted: told, not shown, never a command.
fresh
yes '/quit' | head -c 5000000 >"$dir/paste"
mux load-buffer "$dir/paste"
mux paste-buffer -p
check "a paste of 5 MB is counted" shows 'pasted 5,000,000 bytes, '
check "  in tokens" eval 'text | tr -d "\n" | grep -qE "bytes, [0-9,]{7,} tokens"'
check "  and runs nothing" last '>'
keys 'a question' Enter
check "  what is too long is said" shows 'what was read or pasted before the message is dropped'
check "  and the question stays" last '> a question'
keys C-u
fresh
yes 'a page' | head -c 9000 >"$dir/paste"
mux load-buffer "$dir/paste"
keys '/clear'
mux paste-buffer -p
check "a paste behind a command" shows 'pasted 9,000 bytes, '
check "  leaves the line as it was" last '> /clear'
keys C-c
last '>'
check "Ctrl-C gives the line up first" hides 'is dropped'
keys C-c
check "  on an empty line what was pasted" shows 'what was read or pasted is dropped'
last '>'
fresh
seq 60 >"$dir/paste"
mux load-buffer "$dir/paste"
mux paste-buffer -p
check "a paste of more rows than the screen has is told, too" shows 'pasted 170 bytes, '
check "  and not shown" last '>'
keys C-c
shows 'is dropped'
fresh
seq 5 >"$dir/paste"
mux load-buffer "$dir/paste"
mux paste-buffer -p
check "a few rows are shown" last '5'
keys C-c
last '>'
keys C-d
check "the end after a stop" last 'shell:'

start --private --temp 0 --ctx 2048 -n 4
for i in {1..1000}; do echo "word $i"; done >"$dir/paste"
mux load-buffer "$dir/paste"
mux paste-buffer -p
shows 'pasted '
keys Enter
check "Return alone sends it" shows 'the prompt has '
last '>'
keys C-d
left 0

# No locale, one that is not UTF-8, a dumb terminal: it answers, and nothing is mangled.
for locale in C POSIX en_US.ISO-8859-1; do
    keys "LC_ALL=$locale; export LC_ALL; clear" Enter
    start --private --temp 0
    keys 'What is a draft model?' Enter
    check "a reply with LC_ALL=$locale" shows ' prefilled, '
    keys C-d
    check "  and the end" left 0
done
keys 'LC_ALL=C.UTF-8; unset TERM; clear' Enter
start --private --temp 0
keys 'What is a draft model?' Enter
check "a reply without TERM" shows ' prefilled, '
keys C-d
check "  and the end" left 0
keys 'TERM=tmux-256color; export TERM; clear' Enter

# Without a folder of the user nothing is saved, which is said.
homeless()
{
    printf 'clear; env -u HOME -u XDG_STATE_HOME %q %s; echo "status $?"\n' "$hearth" "$1" >"$dir/run"
    keys ". $dir/run" Enter
    last '>'
}
homeless ''
check "without HOME" shows 'the conversation is not saved: neither XDG_STATE_HOME nor HOME names a folder'
keys C-d
check "  and the end" shows 'status 0'
homeless --private
check "  with --private nothing was to be saved" hides 'not saved'
keys C-d
check "  and the end" shows 'status 0'

# A limit on the size of files is said and ends nothing. What was written before it is kept.
yes 'a long line for the session' | head -n 100 | tr '\n' ' ' >"$dir/paste"
mux load-buffer "$dir/paste"
keys "ulimit -f 2; clear" Enter
for face in --plain --tui; do
    start $face -s "full$face" --cache-disk 0 -n 5
    keys 'hello' Enter
    shows ' prefilled, '
    mux paste-buffer -p
    keys Enter
    check "a session past the limit on files, $face" shows 'File too large'
    keys Enter 'and now?' Enter
    check "  the next reply comes" shows 'and now?'
    last '>'
    if [ $face = --tui ]; then
        for answer in 'is not saved to its end: /save NAME or /export FILE' 'session full--plain: '; do
            keys F4
            shows '┌─ sessions'
            keys Down Enter
            check "  F4 lets go of it the second time: $answer" shows "$answer"
            last '>'
        done
    else
        keys C-d
        check "  Ctrl-D lets go of it the second time" shows 'Ctrl-D again lets it go'
        last '>'
    fi
    keys C-d
    check "  and the terminal is as it was" left 0
    keys 'clear' Enter
done

# Standard input and output that are none.
printf 'clear; %q --private -q </dev/null; echo "status $?"\n' "$hearth" >"$dir/run"
keys ". $dir/run" Enter
check "/dev/null as standard input" shows 'status 2'
check "  is said" shows 'nothing to answer'
printf 'clear; %q --private -q >/dev/full; echo "status $?"\n' "$hearth" >"$dir/run"
keys ". $dir/run" Enter
last '>'
keys 'hello' Enter
check "/dev/full as standard output" shows 'status 1'
check "  is one error" eval '[ "$(text | grep -c "No space left on device")" = 1 ]'
check "  and the terminal is as it was" eval 'keys "stty -a" Enter; shows " icanon "; shows " echo "'

# A file of -o that takes no more is said when it happens, once, and the chat goes on.
for face in --plain --tui; do
    start --private -o /dev/full $face
    keys 'hello' Enter
    check "-o on a full disk, $face" shows 'the replies are no longer copied: /dev/full: cannot be written: No space left on device'
    shows ' prefilled, '
    keys 'hello again' Enter
    within eval '[ "$(text | grep -c " prefilled, ")" = 2 ]'
    check "  is said once" eval '[ "$(text | grep -c "no longer copied")" = 1 ]'
    keys C-d
    check "  and the status tells" left 1
    fresh_shell
done

# What nohup ignores stays ignored: a terminal that goes away ends it all the same, whatever is
# typed, and nothing runs on.
is_over() { ! kill -0 "$1" 2>/dev/null; }
for face in '' --tui; do
    for typed in 'half a thought' M-3; do
        screen 80 24
        keys "trap '' HUP" Enter
        start --private $face
        keys 'x' "$typed"
        if [ "$typed" = M-3 ]; then shows '(arg: 3)'; else last "> x$typed"; fi
        pid=$(cat "$dir/pid")
        mux kill-server
        check "the terminal goes away, SIGHUP ignored, '$typed' ${face:-at the prompt}" within is_over "$pid"
        is_over "$pid" || kill -KILL "$pid"
    done
done
done_testing
