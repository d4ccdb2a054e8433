#!/usr/bin/env bash
# The terminal's modes, where somebody else sets them too: an editor that dies without putting
# them back, a shell that reads its line in modes of its own, one that leaves ours as they are, a
# signal that nobody expects.
. tests/screen/lib/tmux.sh

# The guide never ends its turn with these.
endless=(--private --temp 0 --logit-bias 2045=-inf --logit-bias 2047=-inf --cpu scalar -t 1)
# Something stands below the message that was sent last, and above the bar of the full screen.
has_reply() { text | grep -v ' F1 help' | awk '/^> ./ { sent = 1; n = 0; next } /[[:alnum:]]/ { n++ } END { exit !sent || n == 0 }'; }
asks() { keys "$1" Enter && shows "> $1" && within has_reply; }
has_stopped() { [ "$(text | grep -c 'stop: cancelled')" = "$1" ]; }

printf '#!/bin/sh\nstty raw -echo\necho >>%q/edits\nkill -9 $$\n' "$dir" >"$dir/editor"
chmod +x "$dir/editor"
has_edited() { [ "$(wc -l <"$dir/edits")" = "$1" ]; }
screen 80 40
keys "EDITOR=$dir/editor; export EDITOR; clear" Enter
for face in --plain --tui; do
    : >"$dir/edits"
    start $face "${endless[@]}"
    asks 'tell me all'
    keys C-c
    within has_stopped 1
    last '>'
    keys '/edit' Enter
    check "an editor that dies in raw mode, $face" shows 'failed; the text is as before'
    last '>'
    asks 'tell me more'
    keys C-c
    check "  Ctrl-C stops a reply still" within has_stopped 2
    last '>'
    keys 'a line' C-x C-e
    check "  the same of the line itself" within has_edited 2
    check "  which is where it was" last '> a line'
    keys C-u C-d
    check "  and the terminal is as it was" left 0
done

# A stop that no shell knows of, and one that a shell without modes of its own does.
signal() { kill -"$1" "$(cat "$dir/pid")"; }
for face in --plain --tui; do
    start $face "${endless[@]}"
    asks 'tell me all'
    signal CONT
    keys C-c
    check "SIGCONT in a reply, $face" within has_stopped 1
    last '>'
    keys C-d
    check "  and the terminal is as it was" left 0
    start $face "${endless[@]}"
    asks 'tell me all'
    signal STOP
    shows 'Stopped'
    keys 'fg; echo "status $?"; stty -g >'"$dir/after" C-j
    goes_on
    keys C-c
    check "SIGSTOP in a reply, $face" within has_stopped 1
    last '>'
    keys C-d
    check "  and the terminal is as it was" left 0
done

# Signals that nobody expects, as SIGXCPU of ulimit -t.
for face in --plain --tui; do
    for name in XCPU USR1 PROF; do
        start $face -q "${endless[@]}"
        asks 'tell me all'
        signal $name
        check "a stray SIG$name, $face" left $((128 + $(kill -l $name)))
        check "  the alternate screen, too" [ "$(mux display -p '#{alternate_on}')" = 0 ]
    done
done

# No controlling terminal, as below su -c.
for face in --plain --tui; do
    printf 'clear; stty -g >%q/before; setsid -w %q %s --private; echo "status $?"; stty -g >%q/after\n' \
        "$dir" "$hearth" $face "$dir" >"$dir/run"
    keys ". $dir/run" Enter
    last '>'
    keys 'a line'
    last '> a line'
    keys C-u C-d
    check "a terminal that is not ours to control, $face" left 0
done

# Readline's modes are none for a program: bash has its own for those, and only in front.
keys "PS1='shell: ' exec bash --norc --noprofile" Enter
is_stopped() { [ -s "$dir/pid" ] && grep -qs '^State:.*T' "/proc/$(cat "$dir/pid")/status"; }
for face in --plain --tui; do
    printf 'clear; stty -g >%q/before; sh -c '\''echo $$ >%q/pid; exec %q %s --private'\'' &\n' \
        "$dir" "$dir" "$hearth" $face >"$dir/run"
    rm -f "$dir/pid"
    keys ". $dir/run" Enter
    check "begun in the background it waits, $face" within is_stopped
    keys Enter
    shows 'Stopped' # so bash, before its next prompt
    fresh_shell
    keys 'fg; echo "status $?"; stty -g >'"$dir/after" Enter
    last '>'
    keys 'a line'
    check "  in front, what is typed is shown" last '> a line'
    keys C-z
    last 'shell:'
    keys 'clear; fg; echo "status $?"; stty -g >'"$dir/after" Enter
    last '> a line'
    keys ', longer'
    check "  so after a stop" last '> a line, longer'
    keys C-u C-d
    check "  and the terminal is as it was" left 0
    rm -f "$dir/pid"
    keys ". $dir/run" Enter
    within is_stopped
    keys 'kill %+; wait; clear' Enter
    check "  SIGTERM ends the wait" within eval '! kill -0 "$(cat "$dir/pid")" 2>/dev/null'
done

# Ended while it is stopped it touches the terminal no more, which is the shell's.
is_gone() { ! kill -0 "$(cat "$dir/pid")" 2>/dev/null; }
printf '#!/bin/sh\necho >>%q/edits\nexec sleep 60\n' "$dir" >"$dir/editor"
for face in --plain --tui; do
    for state in typing answering 'editing a line' 'editing a message'; do
        start $face "${endless[@]}"
        rm -f "$dir/edits"
        case $state in
        typing) keys 'a line' ;;
        answering) asks 'tell me all' ;;
        'editing a line') keys 'a line' C-x C-e ;;
        'editing a message')
            asks 'tell me all'
            keys C-c
            within has_stopped 1
            keys '/edit' Enter
            ;;
        esac
        [[ $state != editing* ]] || within [ -s "$dir/edits" ]
        keys C-z
        last 'shell:'
        keys 'kill %+; clear' Enter
        check "SIGTERM while stopped, $state, $face" within is_gone
        is_gone || signal KILL
        keys Enter # so bash, before its next prompt, says how the job ended
        fresh_shell
    done
done

# The time that it was stopped is none of the reply's.
took() { text | tr -s '\n ' ' ' | grep -oE '[0-9,]+ generated at [0-9.,]+ tok/s' | tr -d , | awk -v all="$all" '{ exit !($1 / $4 < all - 4) }'; }
for face in --plain --tui; do
    start $face "${endless[@]}"
    from=$(date +%s.%N)
    asks 'tell me all'
    keys C-z
    last 'shell:'
    sleep 5
    keys 'clear; fg; echo "status $?"; stty -g >'"$dir/after" Enter
    goes_on
    keys C-c
    within has_stopped 1
    all=$(date +%s.%N | awk -v from="$from" '{ print $1 - from }')
    check "a stop takes none of a reply's time, $face" took
    last '>'
    keys C-d
    left 0
done
printf '#!/bin/sh\necho >>%q/edits\nsleep 4\nprintf "What is a page?\\n" >"$1"\n' "$dir" >"$dir/editor"
for face in --plain --tui; do
    : >"$dir/edits"
    start $face --private --temp 0 -v -n 3
    keys 'hello' Enter
    shows 'prefilled at '
    last '>'
    keys '/edit' Enter
    within has_edited 1
    keys C-z
    last 'shell:'
    sleep 2
    keys 'clear; fg; echo "status $?"; stty -g >'"$dir/after" Enter
    shows 'What is a page?'
    shows 'prefilled at '
    last '>'
    check "  nor does an editor's of the next, $face" eval '! has_text "prefilled at - "'
    keys C-d
    left 0
done

# What was typed and not sent is there at the next start.
for face in --plain --tui; do
    for name in HUP TERM; do
        start $face -s typed
        keys "half a thought of $name"
        last "> half a thought of $name"
        signal $name
        check "SIG$name with a line that was not sent, $face" left $((128 + $(kill -l $name)))
        start $face -s typed
        keys Up
        check "  Up brings it back" last "> half a thought of $name"
        keys C-u C-d
        check "  and a line that was given up goes" left 0
    done
done

# The same where the terminal is gone and nobody says so: readline makes a line break of its end.
is_away() { [ -s "$dir/away" ] && ! kill -0 "$(cat "$dir/away")" 2>/dev/null; }
for face in --plain --tui; do
    rm -f "$dir/away"
    printf -v run 'trap "" HUP; echo $$ >%q; exec %q %s -s typed' "$dir/away" "$hearth" $face
    mux new-window "sh -c '$run'"
    last '>'
    keys "half a thought, $face"
    last "> half a thought, $face"
    mux kill-window
    check "the terminal is gone with a line that was not sent, $face" within is_away
    check "  which is as it was typed" \
        [ "$(tail -n 1 "$XDG_STATE_HOME/hearth/history")" = "half a thought, $face" ]
done

# Nobody reads what is drawn, as where a connection stands still: curses waits in its write.
has_saved() { go 0 sessions export --json "$1" && prints '"role": "assistant"'; }
for name in TERM HUP; do
    check "SIG$name while the terminal takes no more" exits $((128 + $(kill -l $name))) \
        python3 tests/screen/lib/stuck.py SIG$name "$hearth" --tui -s stuck-$name "${endless[@]:1}"
    check "  what came of the reply is saved" has_saved stuck-$name
done
done_testing
