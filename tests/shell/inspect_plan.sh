#!/usr/bin/env bash
# hearth inspect plan: what prompts would share, by counts and in words.
. tests/lib/tap.sh
go() { exits "$1" "$hearth" inspect plan "${@:2}"; }
seq_ids() { seq -s ' ' "$1" "$2"; }

check "help" go 0 --help
check "  is a usage" has "^usage: hearth inspect plan "

{
    seq_ids 1 200
    seq_ids 1 200
    seq_ids 1 260
    echo "$(seq_ids 1 190) $(seq_ids 1000 1060)"
    seq_ids 1 200
    seq_ids 1 150
    echo 7 8 9
} >"$dir/ids"
check "ids, a prompt per line" go 0 -m $guide --ids <"$dir/ids"
row() { has "^ +$1 +$2 +$3 +$4 +$5  $6"; } # prompt tokens kept restored computed why
check "the first computes all" row 1 200 0 0 200 "nothing was there$"
check "the same again computes nothing" row 2 200 200 0 0 "the same again; its logits are held$"
check "going on computes what is new" row 3 260 200 0 60 "goes on$"
check "an edit computes from where it is" row 4 251 190 0 61 \
    "token 190 is now \".*\", was \".*\"; another branch shares the open page: copied$"
check "coming back computes nothing" row 5 200 190 10 0 \
    "token 190 is .*; 10 come from another branch; its logits are held$"
check "a cut computes the last token" row 6 150 149 0 1 "cut, 50 tokens fewer; the last one for its logits$"
check "another beginning computes all" row 7 3 0 0 3 "token 0 is now"
check "and what it takes" has "^8 pages of 64 tokens and 5 snapshots, .* MiB; .* off the last prompt"

seq_ids 1 3 >"$dir/few"
check "a short prompt alone" go 0 -m $guide --ids <"$dir/few"
check "  takes a page" has "^1 page of 64 tokens and [01] snapshots?, "

check "without memory for branches" go 0 -m $guide --ids --cache-ram 0 <"$dir/ids"
check "  going on is as before" row 3 260 200 0 60 "goes on$"
check "  coming back is not" row 5 200 190 0 10 "token 190 is"
check "  and pages were dropped" has "; [0-9]+ pages? dropped$"

printf '%s\n' '{"prompt": "one two three", "reply": " four five"}' \
    '{"prompt": "one two three four five six"}' \
    '{"prompt": [5, 6, 7], "reply": [8]}' '{"prompt": [5, 6, 7, 8, 9]}' >"$dir/jsonl"
check "objects in, objects out" go 0 -m $guide --jsonl <"$dir/jsonl"
objects()
{
    python3 -c '
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) == 4
for r in rows:
    assert r["kept"] + r["restored"] + r["computed"] == r["tokens"]
assert rows[0]["computed"] == rows[0]["tokens"] and rows[0]["reply"] > 0
assert rows[1]["kept"] == rows[0]["tokens"] + rows[0]["reply"] and rows[1]["computed"] == 1
assert rows[2]["diverged"]["at"] == 0 and rows[2]["kept"] == 0
assert (rows[3]["tokens"], rows[3]["kept"], rows[3]["computed"]) == (5, 4, 1)
assert rows[3]["pages"] == 2 and rows[3]["bytes"] > 0
' "$dir/out"
}
check "  with counts that add up" objects

# Of a model with states a snapshot has these, too, and a long prompt leaves some on its way, which
# go before those that prompts have left at their ends.
states=tests/data/models/granitehybrid-moe.gguf
shorts() { for from in 1 20 40 60; do seq_ids "$from" $((from + 9)); done; }
{ shorts && printf '%s ' $(for _ in 1 2 3 4 5 6 7; do seq 100 499; done) && echo && shorts; } >"$dir/long"
check "a long prompt of a model with states" go 0 -m $states --ctx 4096 --ids --cache-ram 1100K <"$dir/long"
come_back() { for prompt in "$@"; do row "$prompt" 10 0 10 0 ".*10 come from another branch" || return; done; }
check "  leaves the ends of those before it" come_back 6 7 8 9
printf '%s\n' '{"prompt": [1]}' '{"prompt": [1, 2]}' >"$dir/two"
check "two ends in a page" go 0 -m $states --jsonl <"$dir/two"
check "  differ by the states" python3 -c '
import json, sys
one, two = (json.loads(line) for line in open(sys.argv[1]))
assert (one["pages"], two["pages"], two["snapshots"]) == (1, 1, 2)
assert two["bytes"] - one["bytes"] > 80000
' "$dir/out"

check "text with control tokens" eval 'printf "<|im_start|>user hi<|im_end|>\n" | go 0 -m $guide'
check "  is one row" row 1 4 0 0 4 "nothing was there$"
check "hostile tokens are shown harmless" eval 'printf "1 2 3\n1 2 4\n" | go 0 -m $guide --ids && ! LC_ALL=C grep -q "[[:cntrl:]]" <(tr -d "\n" <"$dir/out")'
check "no prompt" go 2 -m $guide </dev/null
check "  is an error" says "no prompt on standard input"
check "no model" go 2 </dev/null
check "  is an error" says "-m FILE is missing"
check "no adapter" eval 'echo hi | go 1 -m $guide --lora README.md'
check "  is an error" says "README.md: not a GGUF file"
check "an odd id" eval 'printf "1 2\n3 x\n" | go 2 -m $guide --ids'
check "  is named with its line" says "standard input, line 2: 'x' is no token id below 2048"
check "ids behind a NUL are not left out" eval 'printf "1 2\0 3\n" | go 2 -m $guide --ids'
check "  without a word" says "standard input, line 1: a NUL is no token id"
check "an empty line of DOS is empty" eval 'printf "1 2\r\n\r\n1 2 3\r\n" | go 0 -m $guide --ids'
check "  between two rows" row 2 3 2 0 1 "goes on$"
check "  of objects, too" eval 'printf "{\"prompt\": [1]}\r\n\r\n" | go 0 -m $guide --jsonl'
check "an id beyond the vocabulary" eval 'echo 2048 | go 2 -m $guide --ids'
check "an object without a prompt" eval 'echo "{}" | go 2 -m $guide --jsonl'
check "  is named" says "standard input, line 1: \"prompt\" must be a text or a list of token ids"
check "no JSON" eval 'echo "{" | go 2 -m $guide --jsonl'
check "  is named" says "standard input, line 1: expected a JSON object: "
check "both forms at once" go 2 -m $guide --ids --jsonl </dev/null
done_testing
