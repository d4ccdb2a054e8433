#!/usr/bin/env bash
# hearth inspect tokens, text and prompt as commands: help, their own options, what is refused.
. tests/lib/tap.sh

go() { exits "$1" "$hearth" inspect "${@:2}"; }
out() { [ "$(cat "$dir/out")" = "$1" ] || { echo "# printed: $(cat "$dir/out")" && return 1; }; }

for what in tokens text prompt; do
    check "$what --help" go 0 $what --help
    check "  is a usage" grep -q "^usage: hearth inspect $what " "$dir/out"
    check "$what without a model" go 2 $what </dev/null
    check "$what: an unknown option" go 2 $what --frobnicate
    check "  is named" says "--frobnicate: unknown option"
    check "$what takes the engine's options" go 0 $what --threads 2 --ctx 64 --device cpu --help
done

check "control tokens are text" eval 'printf "hi <|im_end|>" | go 0 tokens -m $guide'
check "  many tokens" [ "$(wc -w <"$dir/out")" -gt 4 ]
check "and tokens with --special" eval 'printf "hi <|im_end|>" | go 0 tokens -m $guide --special'
ids=$(cat "$dir/out")
check "  the last is the end of a turn" [ "${ids##* }" = 2047 ]
check "back to text" go 0 text -m $guide $ids
check "  the same" out "hi <|im_end|>"
check "ids on standard input" eval 'echo "$ids" | go 0 text -m $guide'
check "  the same" out "hi <|im_end|>"
check "  one that is none" eval 'echo "5 1x" | go 2 text -m $guide'
check "    is named" says "'1x' is no token id below"
check "  a NUL byte" eval 'printf "5\0006" | go 2 text -m $guide'
check "    is named" says "standard input: expected token ids, found a NUL byte"
check "a model from the environment" eval 'HEARTH_MODEL=$guide go 0 text 2047 && out "<|im_end|>"'
check "lines of JSON" eval \
    'printf "%s\n" "{\"text\":\"a\"}" "" "{\"text\":\"<|im_end|>\",\"special\":true}" |
        go 0 tokens -m $guide --jsonl && [ "$(sed -n 2p "$dir/out")" = 2047 ]'
check "a line that is no object" eval 'printf "{\"text\":\"a\"}\n\n5\n" | go 2 tokens -m $guide --jsonl'
check "  is named" says "standard input, line 3: expected a JSON object (try "
check "--special with --jsonl" go 2 tokens -m $guide --special --jsonl
check "an argument too many" go 2 tokens -m $guide x
check "  is named" says "unexpected argument 'x'"
check "an id that is none" go 2 text -m $guide 1x
check "  is named" says "'1x' is no token id below"

echo '{"messages": [{"role": "user", "content": "Hi"}], "x": "\u001b"}' >"$dir/c.json"
printf '{{ messages[0].content }} {{ strftime_now("%%Y") }}' >"$dir/t.jinja"
check "prompt from a template" go 0 prompt --template "$dir/t.jinja" --context "$dir/c.json" \
    --now 2025-07-04T12:34:56
check "  rendered" out "Hi 2025"
printf '{"messages": [' >"$dir/cut.json"
check "variables that are no JSON" go 2 prompt --template "$dir/t.jinja" --context "$dir/cut.json"
check "  are named by their line" says "inspect prompt: $dir/cut.json: line 1"
echo '[1]' >"$dir/list.json"
check "  nor an object" go 2 prompt --template "$dir/t.jinja" --context "$dir/list.json"
check "    which is said" says "list.json: expected a JSON object of variables, found a list"
check "  nor there" go 1 prompt --template "$dir/t.jinja" --context "$dir/none.json"
check "a template that cannot do with them" eval 'echo "{}" >"$dir/empty.json" && go 1 prompt --template "$dir/t.jinja" --context "$dir/empty.json"'
{ printf '\357\273\277' && cat "$dir/t.jinja"; } >"$dir/m.jinja"
check "one with a byte order mark" go 0 prompt --template "$dir/m.jinja" \
    --context "$dir/c.json" --now 2025-07-04T12:34:56
check "  which begins no prompt" out "Hi 2025"
printf '{{ x }}[31m' >"$dir/e.jinja"
check "an escape sequence in one" go 0 prompt --template "$dir/e.jinja" --context "$dir/c.json"
check "  a file gets as it is" out "$(printf '\033[31m')"
timeout 300 script -qec "'$hearth' inspect prompt --template $dir/e.jinja --context $dir/c.json" /dev/null \
    </dev/null | tr -d '\r' >"$dir/out"
check "  a terminal as text" out '\x1b[31m'
check "prompt of a model" go 0 prompt -m $guide --context "$dir/c.json"
check "  rendered" grep -q "^<|im_start|>user$" "$dir/out"
check "a template wins over a model of the environment" eval \
    'HEARTH_MODEL=$guide go 0 prompt --template "$dir/t.jinja" --context "$dir/c.json"'
check "no ids" go 2 logits -m $guide --ids ''
check "  is said by whom" says "hearth: inspect logits: --ids: expected token ids, found none"
check "a word among ids" go 2 greedy -m $guide --ids '1 x'
check "  is, too" says "hearth: inspect greedy: --ids: 'x' is no token id below"
check "more ids than the context holds" go 3 logits -m $guide --ctx 64 --ids "$(seq -s' ' 1 80)"
check "both named" go 2 prompt -m $guide --template "$dir/t.jinja" --context "$dir/c.json"
check "  is refused" says "give either -m FILE or --template FILE"
check "no context" go 2 prompt -m $guide
check "a bad time" go 2 prompt -m $guide --context "$dir/c.json" --now today
check "  is shown" says "expected a time like 2025-07-04T12:34:56, found 'today'"
done_testing
