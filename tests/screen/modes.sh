#!/usr/bin/env bash
# The terminal's modes where somebody else sets them, too: an editor that dies without putting
# them back, a shell that hearth was started behind, a signal that nobody expects.
. tests/screen/lib/tmux.sh
endless=(--private --temp 0 --logit-bias 2045=-inf --logit-bias 2047=-inf --cpu scalar -t 1)
# Words of the reply stand below the message, above the bar of the full screen.
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
    start "$face" -v "${endless[@]}"
    asks 'tell me all'
    keys C-c
    within has_stopped 1
    last '>'
    keys '/edit' Enter
    check "$face: an editor that dies in raw mode" shows 'failed; the text is as before'
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

# Behind a shell that reads lines by itself, without echo, as bash does.
screen 80 24
keys "bash --norc --noprofile" Enter
keys "PS1='bash: '; clear" Enter
last 'bash:'
printf '%q ' "$hearth" -q --private --temp 0 >"$dir/command"
keys ". $dir/command &" Enter Enter
stopped() { keys Enter && sleep 0.1 && has_text Stopped; }
check "hearth & stops until it is in front" within stopped
keys fg Enter
last '>'
keys 'hello'
check "  there what is typed is seen" last '> hello'
keys C-u C-d
last 'bash:'
keys 'exit' Enter

screen 80 24
for face in --plain --tui; do
    for signal in XCPU USR1 PROF; do
        start "$face" -q "${endless[@]}"
        asks 'tell me all'
        kill -s "$signal" "$(cat "$dir/pid")"
        check "$face: a stray SIG$signal leaves the terminal as it was" left $((128 + $(kill -l "$signal")))
        check "  the alternate screen, too" [ "$(mux display -p '#{alternate_on}')" = 0 ]
    done
done

done_testing
