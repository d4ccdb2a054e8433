#!/usr/bin/env bash
# A chat that begins with what the command line gives, -p, -f or a pipe, and goes on at the
# terminal: at the line prompt and in the full screen.
. tests/screen/lib/tmux.sh

# begin COMMAND: it runs in the pane, $H being hearth; its exit status is shown at its end.
begin()
{
    printf 'H=%q\nclear; stty -g >%q/before; %s; echo "status $?"; stty -g >%q/after\n' \
        "$hearth" "$dir" "$1" "$dir" >"$dir/run"
    keys ". $dir/run" Enter
}
never_ends='--logit-bias 2045=-inf --logit-bias 2047=-inf --cpu scalar -t 1'

screen 80 24
begin '$H --temp 0 -s one -i -p "What is a draft model?"'
check "-i -p" shows 'A draft model is a small model'
check "  the prompt stands where a typed one would" shows '> What is a draft model?'
check "  and the chat goes on" last '>'
fresh
keys 'what is the KV cache?' Enter
check "  with a turn that knows the first" shows ' cached, '
last '>'
keys C-d
check "  until it is left" left 0

fresh_shell
begin '$H --temp 0 -s one -i -p /help'
check "a session goes on with it" shows 'session one: 4 messages'
check "  and a slash is no command there" shows ' prefilled, '
last '>'
keys '/show conversation' Enter
check "  at its end" shows 'User: /help'
last '>'
keys C-d
left 0

fresh_shell
printf 'What is a page?\n' >"$dir/a.txt"
begin '$H --private --temp 0 -i -f '"$dir"'/a.txt'
check "-i -f alone" shows "a.txt: 15 bytes"
check "  is a message" shows ' prefilled, '
last '>'
fresh
keys '/show conversation' Enter
check "  and nothing but that" shows 'User: What is a page? '
last '>'
keys C-d
left 0

fresh_shell
begin 'echo from a pipe | $H --private --temp 0 -i -f '"$dir"'/a.txt -f - -p "in short"'
check "a pipe, files and a prompt" shows "a.txt, standard input: 28 bytes"
check "  with the prompt alone where it was typed" shows '> in short'
last '>'
fresh
keys '/show conversation' Enter
check "  are one message" shows 'User: What is a page? from a pipe in short'
last '>'
keys C-c
check "  keys come from the terminal" shows '^C'
last '>'
keys C-d
check "  and it is as before afterwards" left 0

fresh_shell
begin '$H --private --temp 0 -i -f - -p "in short"'
check "-f - at a terminal" shows 'type the message; Ctrl-D'
keys 'typed before' Enter C-d
check "  reads it from there" shows 'standard input: 12 bytes'
check "  and goes on there" last '>'
keys C-d
left 0

fresh_shell
begin '$H --private -c - --print-config | grep top-k'
check "-c - at a terminal" shows 'type the configuration; Ctrl-D'
keys '[hearth]' Enter 'top-k = 7' Enter C-d
check "  reads it from there" shows 'top-k = 7 '
last 'shell:'

fresh_shell
mkfifo "$dir/fifo"
begin '(echo by a fifo >'"$dir"'/fifo &); $H --private --temp 0 -i -f '"$dir"'/fifo -p "in short"'
check "a FIFO is read to its end" shows 'fifo: 9 bytes'
last '>'
keys C-d
left 0

fresh_shell
begin '$H --private '"$never_ends"' -i -p "tell me all"'
speaks
keys C-c
check "Ctrl-C stops the first reply" shows 'stop: cancelled'
check "  and not the program" last '>'
keys C-d
left 0

fresh_shell
yes 'word' | head -n 5000 >"$dir/long.txt"
begin '$H --private --temp 0 -i -f '"$dir"'/long.txt -p "what of it?"'
check "what is longer than the context" shows 'the context holds 2048'
check "  is dropped, and the prompt stands in the line" last '> what of it?'
keys C-u 'short' Enter
check "  where the chat goes on" shows ' prefilled, '
last '>'
keys C-d
left 0

fresh_shell
begin '$H --private --temp 0 -i -f '"$dir"'/a.txt </dev/null'
check "an empty standard input is not named" shows "a.txt: 15 bytes"
last '>'
keys C-d
left 0

fresh_shell
printf ' \n \n' >"$dir/blank.txt"
begin '$H --private --temp 0 -i -f '"$dir"'/blank.txt'
last '>'
check "a blank file is no message" hides ' prefilled, '
keys C-d
left 0

fresh_shell
truncate -s 65M "$dir/large"
begin '$H --private --temp 0 -i -f '"$dir"'/large'
check "a file that is too long" shows 'large: more than 64 MiB, longer than any context status 3'

fresh_shell
begin '$H --private --temp 0 --accessible -i -p "What is a page?"'
check "--accessible" shows 'You: What is a page?'
shows ' prefilled, '
last 'You:'
keys C-d
left 0

fresh_shell
printf '\377 page\n' >"$dir/bad.txt"
begin '$H --private --temp 0 -i -p "$(printf "see\\033[31m")" -f '"$dir"'/bad.txt'
check "bytes that are no text are said" shows 'bad.txt is not valid UTF-8'
check "  and an escape is harmless" shows 'see\x1b[31m'
last '>'
keys C-d
left 0

fresh_shell
begin '$H --tui --private --temp 0 -p hello'
check "--tui alone takes no prompt" shows 'together with --prompt, which answers and exits (-i goes on)'
left 2
fresh_shell
begin '$H --tui --private --temp 0 -i -f '"$dir"'/a.txt -p "in short"'
check "--tui -i shows the turn" shows 'What is a page? in short'
check "  and its reply" shows ' prefilled, '
check "  above the line" last '>'
keys 'what is the KV cache?' Enter
check "  which goes on" shows ' cached, '
last '>'
keys C-d
left 0
fresh_shell
begin 'echo from a pipe | $H --tui --private '"$never_ends"' -i'
check "--tui -i with a pipe" shows 'from a pipe'
shows 'tok/s │ private'
keys C-c
check "  Ctrl-C stops the reply" shows 'stop: cancelled'
last '>'
keys C-d
left 0
done_testing
