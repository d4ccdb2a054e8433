#!/usr/bin/env bash
# hearth in scripts: turns from a file and as JSON, and every script of examples/ with the guide.
. tests/lib/tap.sh
export HEARTH=$hearth
scripts=$PWD/examples/scripts
lines() { [ "$(wc -l <"$dir/out")" = "$1" ] || { sed 's/^/# out: /' "$dir/out" && return 1; }; }
alone() { "$hearth" -q --private --temp 0 -p "$1" </dev/null; }

# --- A run in one file
cp examples/run.ini examples/questions.txt "$dir"
check "hearth -c run.ini" go 0 -c "$dir/run.ini" </dev/null
check "  a reply for each line" lines 3
check "  each as if alone" eval '[ "$(sed -n 3p "$dir/out")" = "$("$hearth" -c "$dir/run.ini" --prompts <(echo "How do I leave hearth?") </dev/null)" ]'
check "  into a file" eval 'cp "$dir/out" "$dir/replies"; go 0 -c "$dir/run.ini" -o "$dir/kept" </dev/null && cmp "$dir/kept" "$dir/replies"'
check "  standard input is left alone" eval 'echo rest | { go 0 -c "$dir/run.ini"; cat; } | grep -qx rest'
check "  on a terminal too" eval 'timeout 300 script -qec "$hearth -c $dir/run.ini" /dev/null </dev/null | grep -c . | grep -qx 3'
check "a file that is not there" go 1 --prompts "$dir/none" </dev/null
check "  is named" says "none: No such file or directory"
check "--prompts - is standard input" eval 'echo "How do I leave hearth?" | go 0 -q --private --temp 0 --prompts -'
check "  a turn for each line" [ "$(cat "$dir/out")" = "$(alone 'How do I leave hearth?')" ]
check "  or for each object" eval 'echo "{\"prompt\": \"How do I leave hearth?\"}" | go 0 -q --private --temp 0 --prompts - --stdin jsonl && lines 1'
check "  in a configuration, too" eval 'echo "prompts = -" >"$dir/in.ini"; echo hello | go 0 -q --private -c "$dir/in.ini" && lines 1'
check "  and must be open" go 1 -q --prompts - <&-
check "    which is said" says "standard input: is not open for reading"
check "--prompts and --prompt exclude each other" go 2 --prompts "$dir/questions.txt" -p x </dev/null
check "  by name" says "--prompts: takes its prompts from a file"
: >"$dir/empty"
check "an empty file has no turns" go 0 -q --prompts "$dir/empty" </dev/null
check "  and no replies" nothing
together() { go 0 -q --private --temp 0 --json --prompts "$dir/questions.txt" "$@" </dev/null; }
context_of() { sed -n "$1s/.*\"used\":\([0-9]*\).*/\1/p" "$dir/out"; }
check "without --forget" together
last=$(context_of 3)
check "  and with" together --forget
check "  the third question stands alone" [ "$(context_of 3)" -lt $((last - 20)) ]
printf 'Notes first.' >"$dir/notes"
check "files of -f stand before each turn then" eval 'together --forget -n 1 -f "$dir/notes" && [ "$(context_of 3)" -gt "$(together --forget -n 1; context_of 3)" ]'
go 0 -q --temp 0 -s old -p 'What is a draft model?' </dev/null
printf 'How do I quit?\n' >"$dir/one"
check "a session that goes on is begun anew, too" eval 'go 0 -q --temp 0 -s old --json --prompts "$dir/one" --forget </dev/null'
afresh=$(context_of 1)
check "  as if alone" eval 'go 0 -q --temp 0 --private --json --prompts "$dir/one" </dev/null && [ "$(context_of 1)" = "$afresh" ]'
echo '{"prompt": "How do I quit?", "new": true}' >"$dir/new.jsonl"
check "  and by new: true" eval 'go 0 -q --temp 0 -s old --json --prompts "$dir/new.jsonl" </dev/null && [ "$(context_of 1)" = "$afresh" ]'
check "  and goes on without" eval 'go 0 -q --temp 0 -s old --json --prompts "$dir/one" </dev/null && [ "$(context_of 1)" -gt "$afresh" ]'

# --- JSON in
cat >"$dir/in.jsonl" <<'END'
{"prompt": "What is a draft model?", "id": "first"}

{"id": 2, "prompt": "How do\u0020I quit?"}
{"prompt": "How do I quit?", "new": true}
END
check "--stdin jsonl" go 0 -q --private --temp 0 --stdin jsonl <"$dir/in.jsonl"
check "  a reply for each" lines 3
check "  the first as if asked plainly" [ "$(head -n 1 "$dir/out")" = "$(alone 'What is a draft model?')" ]
check "  new: true begins anew" [ "$(tail -n 1 "$dir/out")" = "$(alone 'How do I quit?')" ]
check "a .jsonl file is JSON by its name" eval 'cp "$dir/out" "$dir/replies"; go 0 -q --private --temp 0 --prompts "$dir/in.jsonl" </dev/null && cmp "$dir/out" "$dir/replies"'
check "--jsonl" go 0 -q --private --temp 0 --stdin jsonl --jsonl <"$dir/in.jsonl"
check "  ids come back" python3 -c '
import json, sys
events = [json.loads(l) for l in open(sys.argv[1])]
for kind in "start", "end":
    assert [e.get("id") for e in events if e["type"] == kind] == ["first", 2, None], events
' "$dir/out"
wrong() # LINE MESSAGE
{
    printf '{"prompt": "x"}\n%s\n' "$1" | go 2 -q --private -n 1 --stdin jsonl &&
        says "hearth: standard input, line 2: $2"
}
check "no JSON" wrong hello "expected a JSON object: invalid token near 'hello' at byte 5"
check "  one that ends too soon" wrong '{"prompt"' 'expected a JSON object: '
for value in '[1]' 5 null; do check "no object: $value" wrong "$value" 'expected a JSON object with a "prompt"'; done
check "no prompt" wrong '{"id": 1}' 'the object has no "prompt"'
check "no text" wrong '{"prompt": 7}' '"prompt" must be a text'
check "a key that is unknown" wrong '{"prompt": "x", "promt": "y"}' 'unknown key "promt", expected prompt, id, new or schema'
check "an id that is no whole number" wrong '{"prompt": "x", "id": 1.5}' '"id" must be a text of at most 256 bytes or a whole number'
check "an id that is none" wrong '{"prompt": "x", "id": {}}' '"id" must be a text'
check "two of one key" wrong '{"prompt": "x", "prompt": "y"}' 'expected a JSON object: duplicate object key'
check "an error ends in an end" eval 'echo "{}" | go 2 -q --private --stdin jsonl --jsonl; grep -q "\"type\":\"end\".*\"exit\":2" "$dir/out"'
check "a control token in JSON is text" eval '
    echo "{\"prompt\":\"x <|im_end|>\"}" | go 0 -q --private --json -n 1 --stdin jsonl && a=$(context_of 1) &&
    echo "{\"prompt\":\"x\"}" | go 0 -q --private --json -n 1 --stdin jsonl && ((a - $(context_of 1) > 3))'

# --- The scripts of examples/
mkdir "$dir/repo"
cd "$dir/repo" || exit 1
git init -q . && git config user.name x && git config user.email x@example.org
check "commit-message with nothing staged" exits 1 "$scripts/commit-message"
check "  says so" says "nothing is staged"
echo 'int x;' >a.c && git add a.c
mkdir "$dir/broken"
printf '#!/bin/sh\necho "diff --git a/a.c b/a.c"\nexit 128\n' >"$dir/broken/git"
chmod +x "$dir/broken/git"
check "commit-message of a diff that git cannot finish" exits 128 env PATH="$dir/broken:$PATH" "$scripts/commit-message"
check "  makes none up" nothing
check "commit-message" exits 0 "$scripts/commit-message"
check "  prints something" [ -s "$dir/out" ]
check "  and nothing else" quiet
cd - >/dev/null || exit 1
check "summarise" exits 0 "$scripts/summarise" examples/questions.txt
check "  prints something" [ -s "$dir/out" ]
for i in {1..600}; do echo "Line $i of a text that is much longer than the context."; done >"$dir/long"
check "summarise in parts" exits 0 "$scripts/summarise" "$dir/long"
check "  prints something" [ -s "$dir/out" ]
check "  and nothing else" quiet
yes word | head -n 10000 | tr '\n' ' ' >"$dir/line"
check "summarise a line that is too long" exits 3 "$scripts/summarise" "$dir/line"
check "  says so" says "a line is longer than the context"
# What is summarised is kept, where a hearth stands in that takes 60 bytes.
cat >"$dir/small" <<'END'
#!/bin/sh
cat >"$SEEN.now"
[ "$(wc -c <"$SEEN.now")" -le 60 ] || exit 3
cat "$SEEN.now" >>"$SEEN"
echo said
END
chmod +x "$dir/small"
in_full() # FILE
{
    : >"$dir/seen"
    SEEN=$dir/seen HEARTH=$dir/small exits 0 "$scripts/summarise" "$1" &&
        [ "$(head -c "$(wc -c <"$1")" "$dir/seen")" = "$(cat "$1")" ]
}
for count in 2 3 4 5; do
    for ((i = 1; i < count; i++)); do echo "line $i, and so many words that it takes most of it"; done >"$dir/parts"
    printf 'line %d, the last one, which has no line break' $count >>"$dir/parts"
    check "summarise $count lines without the last line break" in_full "$dir/parts"
done
check "summarise without a file" exits 1 "$scripts/summarise" "$dir/none"
check "  says so" says "none: No such file or directory"
check "  once" [ "$(wc -l <"$dir/err")" = 1 ]
printf 'one\n\ntwo words\n' >"$dir/list"
check "translate" exits 0 "$scripts/translate" German <"$dir/list"
check "  a line for each" lines 2
check "  behind the original" has $'^two words\t.'
check "translate a list whose last line has no line break" exits 0 "$scripts/translate" German < <(printf 'one\ntwo words')
check "  the last one, too" has $'^two words\t.'
check "translate an empty list" exits 0 "$scripts/translate" German < <(printf '\n \n')
check "  is an empty one" nothing
{ echo one && cat "$dir/line" && printf '\nthree\n'; } >"$dir/list"
check "translate with a line that is too long" exits 3 "$scripts/translate" German <"$dir/list"
check "  says so" says "line 2: the prompt has "
check "  has no translation of it" has $' word \t$'
check "  and has the others" eval 'lines 3 && has "^one	." && has "^three	."'
check "translate without a model" eval 'HEARTH_MODEL=$dir/none exits 1 "$scripts/translate" German <"$dir/list"'
check "  has none" nothing
printf 'What is a draft model?\nHow do I quit?\n' >"$dir/asked"
check "interview" exits 0 "$scripts/interview" talk <"$dir/asked"
check "  shows the questions" has '^> How do I quit[?]$'
check "  and keeps the session" eval 'go 0 sessions show talk && prints "How do I quit?"'
check "  which goes on, with a last line that has no line break" exits 0 "$scripts/interview" talk < <(printf 'What is a token?')
check "    too" has '^> What is a token[?]$'
check "  warm" eval 'go 0 -s talk --json -n 1 -p x </dev/null && grep -qE "\"cached\":[1-9][0-9]+" "$dir/out"'
check "jsonl_client.py" exits 0 "$scripts/jsonl_client.py" 'What is a draft model?' 'How do I quit?'
check "  answers" prints "$(alone 'What is a draft model?')"
check "  the second is warm" eval 'grep -oE "[0-9]+ tokens were there" "$dir/out" | tail -n 1 | grep -qE "^[1-9][0-9]"'
check "jsonl_client.py with a question that is too long" exits 3 "$scripts/jsonl_client.py" "$(cat "$dir/line")" 'How do I quit?'
check "  says so in one line" [ "$(wc -l <"$dir/err")" = 1 ]
check "  or with one that is blank" exits 2 timeout 60 "$scripts/jsonl_client.py" 'How do I quit?' '' 'What is a token?'
for script in interview summarise translate jsonl_client.py; do
    check "$script alone" exits 2 "$scripts/$script"
    check "  says how it is used" says "usage: $script "
done
done_testing
