#!/usr/bin/env bash
# A reply that was cut inside a code block and goes on by /continue: its looks go on, too, at the
# line prompt and in the full-screen view.
. tests/screen/lib/tmux.sh

screen 80 24
start --private --temp 0 -n 20
keys 'c code for strlen' Enter
shows 'stop: length'
last '>'
fresh
keys '/continue' Enter
shows 'stop: length'
last '>'
check "the rest of a code block is styled as code" looks 'while' fg=6
keys C-d
left 0

start --tui --private -q --temp 0 -n 20
keys 'c code for strlen' Enter
shows '    size_'
last '>'
keys '/continue' Enter
shows 'size_t n'
last '>'
check "in the full-screen view, too" looks 'while' fg=73
check "  where it goes on in the same row" shows '    size_t n = 0;'
check "  as if it had never stopped" hides '/continue'
keys '/think' Enter
shows 'think show'
keys '/continue' Enter
shows '}'
last '>'
check "behind another note it has a part of its own" shows '> /continue'
check "  in the same look" looks '}' fg=73
keys C-d
left 0

# By a schema as if it had never been cut, and no further than where it is whole.
start --private --temp 0 -n 12 --schema '{"required": ["a"], "properties": {"a": {"const": [1, 22, 333, 4444, 55555]}}}'
keys 'Numbers.' Enter
shows 'stop: length'
last '>'
whole() { text | grep -qF 'the reply was complete'; }
for _ in 1 2 3 4 5; do
    fresh
    keys '/continue' Enter
    shows 'prefilled,'
    last '>'
    whole && break
done
check "a reply goes on by its schema" whole
fresh
keys '/show conversation' Enter
check "  to where it is whole" shows '[1,22,333,4444,55555]'
last '>'
fresh
keys '/set schema {"not": {}}' Enter
check "a schema that cannot be promised is refused" shows "/: 'not' is not supported"
keys '/set schema' Enter
check "  and the one before stays" shows 'schema             {"required'
fresh
keys '/set schema {"const": 7}' Enter
shows 'schema             {"const": 7}'
keys 'Seven.' Enter
check "another counts from the next turn on" within eval 'text | grep -qxE " ?7"'
fresh
echo 'root ::= "Eight" "!"{3}' >"$dir/eight.gbnf"
keys "/set schema $dir/eight.gbnf" Enter
keys 'Say a number.' Enter
check "and so does a grammar" within eval 'text | grep -qxE " ?Eight!!!"'
fresh
keys '/set schema off' Enter
shows 'schema             off'
keys 'What is a draft model?' Enter
check "  or none" shows 'A draft'
last '>'
keys C-d
left 0
done_testing
