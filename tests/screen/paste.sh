#!/usr/bin/env bash
# What is pasted is never a key, at the line prompt and in the full screen: whatever readline is in
# the middle of, while a reply comes, and where the paste itself comes slowly.
. tests/screen/lib/tmux.sh
endless=(--private --logit-bias 2045=-inf --logit-bias 2047=-inf --cpu scalar -t 1)
pasted=$'what is a page?\n/quit\necho from-the-shell\n'
# The paste stands in the line as it is, and nothing was sent.
holds() # NAME
{
    check "$1" last 'echo from-the-shell'
    check "  nothing of it was sent" hides 'status'
    keys C-u C-u C-u C-u
    while ! ends_in '>'; do keys C-h; done
}

# At the line prompt what was given up stays readable above.
ends_anew() { last '>' && hides "$([ "$face" = --tui ] && echo '> lost' || echo nothing)"; }

for face in --plain --tui; do
    screen 80 24
    start "$face" -q --private --temp 0
    keys 'hello' Enter
    shows 'small guide'
    paste "$pasted"
    holds "$face: a paste"
    keys C-r 'he'
    shows 'hello'
    paste "$pasted"
    holds "in a search"
    keys C-r 'no such line'
    paste "$pasted"
    holds "in a search that finds nothing"
    for begun in C-x C-v Escape M-3; do
        keys "$begun"
        paste "$pasted"
        holds "behind $begun"
    done
    mux send-keys -H 1b 5b 32 30 30 7e 61 62 63 0d # ESC [200~abc
    check "a paste that does not go on" shows 'has not said where the paste ends'
    mux send-keys -H 64 65 66 0d 2f 71 75 69 74 0d 1b 5b 32 30 31 7e # def, /quit, ESC [201~
    check "  is one all the same" last '/quit'
    check "    with what came first" shows 'abc'
    keys C-u C-u C-u
    while ! ends_in '>'; do keys C-h; done
    mux send-keys -H 1b 5b 32 30 30 7e 6c 6f 73 74
    sleep 0.5
    keys C-c # which may as well be a byte of the paste
    twice() { [ "$(text | grep -c 'has not said where the paste ends')" = 2 ]; }
    check "one without an end" within twice
    keys C-c
    check "  is given up by Ctrl-C" ends_anew
    keys 'hello' Enter
    keys C-d
    check "  and keys are keys again" left 0

    fresh_shell
    start "$face" -q --private --temp 0 --ctx 64
    keys '//undo' Enter
    last '>'
    keys '/edit' Enter
    check "$face: a message that begins with a slash comes back as one" last '> //undo'
    keys C-u
    paste "/quit $(printf 'many words %.0s' {1..40})"
    keys Enter
    check "  as one that is refused does" shows '> //quit many words'
    keys C-u
    last '>'
    keys C-d
    left 0

    # There C-x is a character, too, which C-g would bring into the line.
    echo 'set editing-mode vi' >"$INPUTRC"
    fresh_shell
    start "$face" -q --private --temp 0
    keys C-x
    paste "$pasted"
    holds "$face: behind C-x in vi mode"
    keys C-d
    left 0
    : >"$INPUTRC"
done

screen 80 24
start --plain -q "${endless[@]}"
keys 'tell me all' Enter
speaks
paste "$pasted"
keys C-c
check "what is pasted while a reply comes waits" last 'echo from-the-shell'
check "  as it is" shows '> what is a page?'
keys C-c
last '>'
keys C-d
check "  and the shell gets nothing of it" left 0

# A reply that goes on, in the full screen.
answering()
{
    fresh_shell
    start --tui -q "${endless[@]}"
    keys 'tell me all' Enter
    shows 'tok/s'
}
answering
paste '/quit'
keys Enter
check "a slash that was pasted while a reply comes waits" shows '1 waiting'
keys C-c
check "  and comes back as a message" last '> //quit'
keys C-u C-d
left 0
answering
keys '//quit' Enter
shows '1 waiting'
keys 'now' C-c
check "  as one of several lines, which are no command, as it is meant" shows '> /quit now'
keys C-u C-u
while ! ends_in '>'; do keys C-h; done
keys C-d
left 0

# A paste that is too large for the line goes with the message that is sent after it.
printf ' conversation%.0s' {1..640} >"$dir/paste"
mux load-buffer "$dir/paste"
exports() { keys "/export $dir/said" Enter && within [ -s "$dir/said" ]; }
# beside WORDS: how many messages there are, and which stands below the pasted text.
beside() { grep -c '^ conversation conversation' "$dir/said" && grep -A2 '^ conversation conversation' "$dir/said" | tail -n 1; }
fresh_shell
start --tui -q "${endless[@]}" -n 300
keys 'tell me all' Enter
shows 'tok/s'
keys '/set max-tokens 4' Enter 'the first' Enter
mux paste-buffer -p
keys 'the second' Enter
check "a large paste while a message waits is told" shows 'pasted 8,320 bytes'
check "  and goes" exports
check "  with the one sent after it" [ "$(beside)" = $'1\nthe second' ]
rm -f "$dir/said"
keys '/set max-tokens 300' Enter '/clear' Enter 'tell me all' Enter
shows 'tok/s'
keys 'the third' Enter
mux paste-buffer -p
shows 'pasted 8,320 bytes'
keys C-c
check "  what waited comes back" last '> the third'
keys C-u '/set max-tokens 4' Enter
last '>'
keys 'the fourth' Enter
check "    and the paste goes" exports
check "    with what is sent then" [ "$(beside)" = $'1\nthe fourth' ]
mux set-buffer -b blank "$(printf '\n%.0s' {1..9000} | tr '\n' '\r')"
mux paste-buffer -p -b blank
keys 'x'
last '> x'
check "blanks alone are no paste" eval '! has_text "pasted 0 bytes"'
mux delete-buffer -b blank
keys C-u
last '>'
keys '/set max-tokens 300' Enter '/help' Enter
shows '//x sends'
keys 'tell me more' Enter
shows 'tok/s'
keys '/set max-tokens 4' Enter 'the fifth' Enter
mux paste-buffer -p
shows 'pasted 8,320 bytes'
keys PgUp
shows ' more rows, End'
keys Enter
check "    and Return alone, which sends it, shows the end" within eval '! has_text " more rows, End"'
within eval '! has_text " waiting"'
last '>'
keys C-d
left 0

done_testing
