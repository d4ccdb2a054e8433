#!/usr/bin/env bash
# What a Modelfile has added to a model of Ollama's: SYSTEM and PARAMETER count as the model's own.
# (tests/screen/models.sh shows them at a prompt, with /model and at the next start.)
. tests/lib/tap.sh
export HOME=$dir/home
unset XDG_CACHE_HOME LLAMA_CACHE HF_HOME HF_HUB_CACHE OLLAMA_MODELS
. tests/lib/ollama.sh
printf '@You are Mario, a plumber.\nBe short.' >"$dir/system"
echo '{"temperature":1.5,"top_k":7,"repeat_last_n":-1,"num_predict":9,"num_ctx":64,"seed":42,
"stop":["<|im_end|>","a, b"],"mirostat":2,"mirostat_tau":5,"typical_p":1,"frob":[1]}' >"$dir/params"
# reply ARG...: what was generated and from how many tokens, by which seed.
reply()
{
    go 0 --private --jsonl -p 'What is a draft model?' "$@" </dev/null &&
        sed -n 's/.*"text":"\(.*\)"}/\1/p' "$dir/out" | tr -d '\n' >"$dir/reply" &&
        grep -o '"usage":.*"generated":[0-9]*\|"seed":"[0-9]*"\|"stop":"[a-z]*"' "$dir/out" >>"$dir/reply"
}
same() { cmp -s "$dir/reply" "$dir/$1"; }
keep() { cp "$dir/reply" "$dir/$1"; }

ollama_put plain model "$guide"
ollama_put mario model "$guide" system "$dir/system" params "$dir/params"
check "the settings and the system message by hand" reply -m plain --system "@$(cat "$dir/system")" \
    --temp 1.5 --top-k 7 --repeat-last-n -1 -n 9 --seed 42
keep by_hand
check "a model that brings them" reply -m mario
check "  replies so" same by_hand
check "  and says what has no counterpart" \
    says "of the model's settings these have no counterpart: mirostat, frob"
check "  in one line" [ "$(wc -l <"$dir/err")" = 1 ]
check "what the user says goes before" reply -m mario --temp 0 --system 'You are Luigi.'
keep luigi
check "  of both" eval 'reply -m plain --temp 0 --system "You are Luigi." --top-k 7 --repeat-last-n -1 -n 9 --seed 42 && same luigi'
check "an empty system message is none" reply -m mario --system ''
keep none
check "  indeed" eval 'reply -m plain --temp 1.5 --top-k 7 --repeat-last-n -1 -n 9 --seed 42 && same none'

echo '{"stop":"model","temperature":0}' >"$dir/params"
ollama_put stops model "$guide" params "$dir/params"
check "one text to stop at" eval 'reply -m stops -q && grep -q "^A draft .*\"stop\":\"stop\"" "$dir/reply"'
check "  is heard of no more" quiet

# bad KIND TEXT: a model with a part of this text.
bad()
{
    printf "$2" >"$dir/part"
    ollama_put bad model "$guide" "$1" "$dir/part"
}
bad params '{"temperature":-1e3,"top_p":7,"min_p":"x"}'
check "values out of range" reply -m bad --temp 0 -n 1
check "  are said" says "the model's top-p is not taken: expected a number from 0 to 1, found '7'"
check "  as one that is no number is" says 'no counterpart: min_p'
bad params '[1,'
check "settings that are no JSON" reply -m bad -n 1
check "  are said" eval 'says "the model'"'"'s settings are left out: /" && says " is no JSON object"' 
bad system 'a\377'
check "a system message that is no text" reply -m bad -n 1
check "  is said" eval 'says "the model'"'"'s system message is left out: " && says "is not UTF-8 text"' 
bad messages '[]'
check "messages to begin with" reply -m bad -n 1
check "  are said" says 'the messages that the model begins with are left out'

check "the list tells" go 0 models
check "  the two of one file apart" eval 'prints "mario:latest (Ollama)" && prints "plain:latest (Ollama)"'
check "  by the system message" has ', fits in memory, with a system message$'
check "  with paths" eval 'go 0 models --json && python3 -c "
import json, sys
found = {m[\"name\"]: m for m in map(json.loads, open(sys.argv[1]))}
assert found[\"plain:latest\"][\"system\"] is None and found[\"plain:latest\"][\"settings\"] is None
mario = found[\"mario:latest\"]
assert open(mario[\"system\"]).read().startswith(\"@You are Mario\") and \"top_k\" in open(mario[\"settings\"]).read()
" "$dir/out"'
rm "$(python3 -c 'import json, sys
print(next(m["system"] for m in map(json.loads, open(sys.argv[1])) if m["name"] == "mario:latest"))' "$dir/out")"
check "without its system message" go 1 -m mario -q -p x </dev/null
check "  it is that model no more" says 'mario: there is no such file, and no model of that name'
done_testing
