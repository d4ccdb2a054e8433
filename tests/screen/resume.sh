#!/usr/bin/env bash
# A session that is gone on with at the line prompt: its last exchange stands above the prompt.
. tests/screen/lib/tmux.sh

screen 80 24
start --temp 0 -s one
keys 'what is the KV cache?' Enter
shows ' prefilled, '
last '>'
fresh
keys 'Write a C function for the maximum of two ints' Enter
shows ' cached, '
last '>'
keys C-d
left 0
fresh_shell
check "a session" start --temp 0 -s one
check "  says which" shows 'session one: 4 messages'
check "  shows the last message" shows '> Write a C function for the maximum of two ints'
check "  and its reply" shows 'return a > b ? a : b; } ```'
check "  in its looks" looks 'return' fg=6
check "  and no more" hides 'KV cache?'
keys C-d
left 0
fresh_shell
start --temp 0 -s one -q
check "quiet: none of it" hides 'return a > b'
keys C-d
left 0
fresh_shell
keys "$hearth --temp 0 -s one --accessible; echo status \$?" Enter
check "--accessible has labels" shows 'You: Write a C function for the maximum of two ints Assistant:'
last 'You:'
keys C-d
shows 'status 0'

fresh_shell
end=$(printf '<|im_end|>' | "$hearth" inspect tokens -m "$guide" --special | awk 'NR == 1 { print $1 }')
keys "$hearth --temp 0 -s empty --accessible --logit-bias $end=100; echo status \$?" Enter
shows 'You:'
last 'You:'
keys 'what is a token?' Enter
shows ' prefilled, '
last 'You:'
keys C-d
shows 'status 0'
fresh_shell
keys "$hearth -s empty --accessible; echo status \$?" Enter
check "of a reply that is empty, the message alone" shows 'You: what is a token?'
check "  without a label of a reply" hides 'Assistant:'
last 'You:'
keys C-d
shows 'status 0'

fresh_shell
kept() { ls "$XDG_STATE_HOME/hearth/sessions"; }
before=$(kept)
start --ctx 64
for i in $(seq 20); do printf 'this is line %d of a text that is too long\n' "$i"; done >"$dir/long"
keys "/read $dir/long" Enter
shows 'they go before'
last '>'
keys 'what is that?' Enter
shows 'the context holds 64'
last '> what is that?'
keys C-u
last '>'
keys C-d
left 0
check "a chat whose one message did not fit leaves no session" [ "$(kept)" = "$before" ]

fresh_shell
start --temp 0 -s two -n 1
for i in $(seq 20); do printf 'line %d\n' "$i"; done >"$dir/lines"
keys "/read $dir/lines" Enter
shows 'they go before'
last '>'
keys 'what is that?' Enter
shows 'stop: length'
last '>'
fresh
keys '/load one' Enter
check "/load, too" shows 'return a > b ? a : b; } ```'
last '>'
fresh
keys '/load two' Enter
check "a long message is shown from its end on" shows '... > line 19 line 20 what is that?'
last '>'
fresh
keys '/clear' Enter
shows 'what was there is branch 2'
last '>'
fresh
keys '/switch 2' Enter
check "another branch, too" shows '... > line 19 line 20 what is that?'
last '>'
keys C-d
left 0
done_testing
