#!/usr/bin/env bash
# Replies that are JSON of a schema, whatever the model would rather say: with and without drafts,
# in pipes and after a thought; and schemas that nobody can promise to keep to.
. tests/lib/tap.sh

go() { exits "$1" timeout 300 "$hearth" "${@:2}" </dev/null; }

cat >"$dir/person.json" <<'JSON'
{
    "title": "Person", "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "born": {"type": "string", "format": "date"},
        "best": {"$ref": "#/$defs/pet"}
    },
    "required": ["name", "age", "tags", "score", "born", "best"],
    "$defs": {"pet": {"anyOf": [{"type": "null"}, {"properties": {"kind": {"type": "string", "maxLength": 9}}}]}}
}
JSON
# Whether each line of $dir/out is such a person, and nothing else.
cat >"$dir/person.py" <<'PY'
import datetime, json, sys
lines = open(sys.argv[1]).read()
decoder, at, n = json.JSONDecoder(), 0, 0
while lines[at:].strip():
    at += len(lines[at:]) - len(lines[at:].lstrip())
    p, at = decoder.raw_decode(lines, at)
    n += 1
    assert list(p) == ["name", "age", "tags", "score", "born", "best"], p
    assert 1 <= len(p["name"]) <= 20, p
    assert type(p["age"]) is int and 0 <= p["age"] <= 120, p
    assert 1 <= len(p["tags"]) <= 3 and set(p["tags"]) <= {"a", "b"}, p
    assert 0 <= p["score"] <= 1, p
    datetime.date.fromisoformat(p["born"])
    assert p["best"] is None or set(p["best"]) <= {"kind"}, p
assert n == int(sys.argv[2]), n
PY
people() { python3 "$dir/person.py" "$dir/out" "$1"; }

ask=(-q --private -p "Tell me of somebody.")
check "a reply is what the schema says" go 0 "${ask[@]}" --seed 1 --schema "$dir/person.json"
check "  as others read it" people 1
many()
{
    for seed in $(seq 12); do
        exits 0 "$hearth" "${ask[@]}" --seed "$seed" --temp 3 "$@" --schema "$dir/person.json" </dev/null || return
        cat "$dir/out"
    done >"$dir/all" && cp "$dir/all" "$dir/out"
}
check "  at any temperature" many
check "  each of them" people 12
cp "$dir/out" "$dir/with"
check "a draft changes nothing" many --draft off
check "  not a byte" cmp -s "$dir/with" "$dir/out"
check "nor does a guess of what was said" many --draft lookup
check "  not a byte, either" cmp -s "$dir/with" "$dir/out"
check "nor one thread, or the plainest processor" many --threads 1 --cpu scalar
check "  at all" cmp -s "$dir/with" "$dir/out"
check "without a temperature" go 0 "${ask[@]}" --temp 0 --top-k 1 --schema "$dir/person.json"
check "  too" people 1

# Patterns, as another program finds them. (Its $ would stand before a line break, too.)
cat >"$dir/patterns.py" <<'PY'
import json, re, sys
patterns = [
    r"^[A-Z]{2}\d{3}$", r"^\d{4}-(0[1-9]|1[0-2])$", r"^#[0-9a-fA-F]{6}$", r"^(yes|no|perhaps)$",
    r"^[^a-z]{1,9}$", r"^.{3,12}$", r"^\d\S{1,9}[ \t]$", r"^(\+49|0)[1-9]\d{2,8}$", r"^\W{1,5}\w{1,5}$",
    r"^[\u00e0-\u00fc\u20ac]{2,4}$", r"^(a|b(c|d)?){1,6}$", r"^[\x00-\x1f\"\\\\]{1,8}$", r"^a*?b+$|^c?$", r"^\w{0,9}(x|y)\d$",
]
if sys.argv[1] == "schema":
    each = {str(i): {"type": "string", "pattern": p} for i, p in enumerate(patterns)}
    print(json.dumps({"properties": each, "required": list(each)}))
else:
    decoder, text, at, n = json.JSONDecoder(), open(sys.argv[1], newline="").read(), 0, 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        reply, at = decoder.raw_decode(text, at)
        n += 1
        assert list(reply) == [str(i) for i in range(len(patterns))], reply
        for i, p in enumerate(patterns):
            assert re.search(p.replace("$", r"\Z"), reply[str(i)], re.ASCII), (p, reply[str(i)])
    assert n == int(sys.argv[2]), n
PY
python3 "$dir/patterns.py" schema >"$dir/patterns.json"
patterns()
{
    for seed in $(seq 6); do
        exits 0 "$hearth" "${ask[@]}" --seed "$seed" --temp 3 --ctx 4096 "$@" --schema "$dir/patterns.json" </dev/null || return
        cat "$dir/out"
    done >"$dir/all" && cp "$dir/all" "$dir/out"
}
check "patterns are kept to at any temperature" patterns
check "  as others match them" python3 "$dir/patterns.py" "$dir/out" 6

check "the schema may be the text itself" go 0 "${ask[@]}" --schema '{"enum": ["yes", "no"]}'
word() { python3 -c 'import json, sys; assert json.load(open(sys.argv[1])) in ["yes", "no"]' "$dir/out"; }
check "  of a few words" word
check "  behind the blanks of who quotes a page" go 0 "${ask[@]}" --schema $'\n\t {"enum": ["yes", "no"]}'
check "  too" word
printf '\357\273\277{"enum": ["yes", "no"]}' >"$dir/mark.json"
check "a byte order mark is no part of it" go 0 "${ask[@]}" --schema "$dir/mark.json"
check "  either" word
any()
{
    for seed in $(seq 12); do
        exits 0 "$hearth" "${ask[@]}" --seed "$seed" --temp 4 --schema json </dev/null || return
        python3 -c 'import json, sys; assert type(json.load(sys.stdin)) in (dict, list)' <"$dir/out" || return
    done
}
check "json is any object or array" any
printf 'schema = person.json\n' >"$dir/in.ini"
check "an INI file names it from where it is" go 0 -c "$dir/in.ini" "${ask[@]}"
check "  too" people 1
check "the environment, too" eval 'HEARTH_SCHEMA=$dir/person.json go 0 "${ask[@]}" && people 1'
lines() { printf 'one\ntwo\nthree\n' | "$hearth" -q --private --stdin lines --schema "$dir/person.json" >"$dir/out"; }
check "a reply for each line" eval 'lines && people 3'

# --- A line of JSON that says what its one reply is
cat >"$dir/own.jsonl" <<'END'
{"prompt": "one", "schema": {"properties": {"b": {"const": 0.1}, "a": {"enum": ["\u00e9\n", 1e300]}}, "required": ["b", "a"]}}
{"prompt": "two"}
{"schema": "json", "prompt": "three"}
{"prompt": "four", "schema": "off", "new": true, "id": 4}
{"prompt": "five", "schema": {"enum": ["yes", "no"]}}
END
own() { exits 0 "$hearth" -q --private --temp 3 --seed 1 -n 400 --stdin jsonl --json "$@" <"$dir/own.jsonl"; }
cat >"$dir/own.py" <<'PY'
import json, sys
ends = [e for e in map(json.loads, open(sys.argv[1])) if e["type"] == "end"]
texts = [e["text"] for e in ends]
assert len(ends) == 5, ends
first = json.loads(texts[0])
assert list(first) == ["b", "a"] and first["b"] == 0.1 and first["a"] in ["é\n", 1e300], first
if sys.argv[2] == "word":
    assert json.loads(texts[1]) == "maybe", texts
else:
    try: json.loads(texts[1]); assert False, texts
    except ValueError: pass
assert type(json.loads(texts[2])) in (dict, list), texts
try: json.loads(texts[3]); assert False, texts
except ValueError: pass
assert ends[3]["id"] == 4
assert json.loads(texts[4]) in ["yes", "no"], texts
PY
check "a line says what its reply is" own
check "  and no other line's" python3 "$dir/own.py" "$dir/out" free
check "  the option is back behind it" eval 'own --schema "{\"const\": \"maybe\"}" && python3 "$dir/own.py" "$dir/out" word'
check "  --prompts, too" exits 0 "$hearth" -q --private --temp 3 --seed 1 -n 400 --json --prompts "$dir/own.jsonl"
check "  as read from a file" python3 "$dir/own.py" "$dir/out" free
wrong() # SCHEMA MESSAGE
{
    printf '{"prompt": "x", "schema": {"const": 1}}\n{"prompt": "y", "id": "b", "schema": %s}\n{"prompt": "z"}\n' "$1" |
        exits 2 "$hearth" -q --private --stdin jsonl --jsonl &&
        says "hearth: standard input, line 2: \"schema\"$2" &&
        tail -n 1 "$dir/out" | grep -q '"id":"b".*"exit":2'
}
check "one that cannot be promised" wrong '{"properties": {"a": {"not": {}}}}' ": /properties/a: 'not' is not supported"
check "one that is no object" wrong '"person.json"' ' must be an object, "json" or "off"'
check "one that is nothing" wrong null ' must be an object, "json" or "off"'
check "one that is too long" eval 'wrong "{\"const\": \"$(head -c 1048576 /dev/zero | tr "\0" x)\"}" ": expected at most 1048576 bytes, found 1048588"'
exits 0 "$hearth" -q --session kept --stdin jsonl <<<'{"prompt": "a", "schema": {"const": 1}}'
check "a line that is wrong begins nothing anew" exits 2 "$hearth" -q --session kept --stdin jsonl <<<'{"prompt": "b", "new": true, "schema": {"not": {}}}'
check "  what was said is there" eval 'exits 0 "$hearth" -q --session kept --json --stdin jsonl <<<"{\"prompt\": \"c\", \"schema\": {\"const\": 2}}" && [ "$("$hearth" sessions show kept | grep -c "^ *[12]$")" = 2 ]'

# The end of the reply is where it is whole, and costs no token.
check "--json says how it ended" go 0 "${ask[@]}" --json --temp 0 --schema '{"const": 1}'
check "  by itself" prints '"stop":"end"'
check "a reply that is cut is not whole" go 3 "${ask[@]}" --json -n 3 --schema "$dir/person.json"
check "  and says so" prints '"stop":"length"'
check "    with the status" prints '"exit":3'
cut='hearth: warning: the reply is cut off: with max-tokens 3 it may be less than the schema asks for'
check "    and on standard error" says "$cut"
check "  nor as text" go 3 "${ask[@]}" -n 3 --schema "$dir/person.json"
check "    which says so" says "$cut"
check "    and is there" [ -s "$dir/out" ]
check "  nor of a grammar" eval 'echo "root ::= [a-z]{90}" >"$dir/az.gbnf"; go 3 "${ask[@]}" -n 3 --schema "$dir/az.gbnf" && says "$cut"'
check "  nor by the context" go 3 "${ask[@]}" --ctx 32 --schema "$dir/az.gbnf"
check "    which says so" says "warning: the context of 32 tokens is full: the reply is cut off"
check "  one of a stop string is as it was asked for" eval 'go 0 "${ask[@]}" --stop , --schema "$dir/person.json" && quiet'
check "  nor is one without a schema told" eval 'go 0 "${ask[@]}" -n 3 && quiet'
printf '{"prompt": "%s", "schema": %s}\n' a '{"const": 1}' b '{"const": "a b c d e f"}' c '{"const": 2}' >"$dir/cut.jsonl"
check "  others go on behind it" exits 3 "$hearth" -q --private -n 3 --json --prompts "$dir/cut.jsonl" </dev/null
check "    each with its own status, and the last object with that of the run" [ "$(grep -o '"exit":.' "$dir/out" | tr -dc "0-9")" = 0303 ]
check "  of none that was asked for nothing is cut" eval 'go 0 "${ask[@]}" -n 0 --schema "$dir/az.gbnf" && quiet'

# A thought is free, and what follows it is not.
echo '{% for m in messages %}{{ m.content }}{% endfor %}<think>' >"$dir/think.jinja"
check "a thought that never ends is no answer" go 3 "${ask[@]}" --json -n 8 --temp 0 --template "$dir/think.jinja" --schema "$dir/person.json"
check "  and is not bound" prints '"text":""'

# --- Grammars as llama.cpp writes them
cat >"$dir/list.gbnf" <<'GBNF'
# A list, and behind it a sum, with its own rules.
root ::= ("- " item){2,4} sum
item ::= [^\r\n\x85\u2028\u2029]{1,20} "\n"
sum  ::= num (" " [-+] " " num)+ " = " ("(" num ")" | num) "\n"
num  ::= [1-9] [0-9]{0,2}
GBNF
# That the replies in $dir/out, which are so many, are such texts and nothing more, but for the line
# end that a reply ends with.
cat >"$dir/list.py" <<'PY'
import re, sys
text, n = open(sys.argv[1], encoding="utf-8", newline="").read(), int(sys.argv[2])
item = r"- [^\r\n\x85\u2028\u2029]{1,20}\n"
num = r"[1-9][0-9]{0,2}"
one = rf"(?:{item}){{2,4}}{num}(?: [-+] {num})+ = (?:\({num}\)|{num})\n"
assert re.fullmatch(rf"(?:{one}\n?){{{n}}}", text), text
PY
lists()
{
    for seed in $(seq 8); do
        exits 0 "$hearth" "${ask[@]}" --seed "$seed" --temp 3 "$@" --schema "$dir/list.gbnf" </dev/null || return
        cat "$dir/out"
    done >"$dir/all" && cp "$dir/all" "$dir/out"
}
check "a file that ends in .gbnf is a grammar" lists
check "  which all replies are of" python3 "$dir/list.py" "$dir/out" 8
cp "$dir/out" "$dir/with"
check "a draft changes nothing of it" lists --draft off
check "  not a byte" cmp -s "$dir/with" "$dir/out"
check "nor does a guess" lists --draft lookup
check "  not a byte, either" cmp -s "$dir/with" "$dir/out"
check "nor one thread, or the plainest processor" lists --threads 1 --cpu scalar
check "  at all" cmp -s "$dir/with" "$dir/out"
printf 'root ::= "one"' >"$dir/one.gbnf"
check "the reply ends where the grammar does" go 0 "${ask[@]}" --json --temp 0 --schema "$dir/one.gbnf"
check "  by itself" prints '"stop":"end"'
check "  with that text" prints '"text":"one"'

# --- What is refused
refuses() { go 1 "${ask[@]}" --schema "$1" && nothing && says "hearth: $2"; }
check "a schema that is not there" refuses "$dir/none" "the schema: $dir/none: No such file or directory"
echo '{"type": "object", }' >"$dir/bad.json"
check "no JSON" refuses "$dir/bad.json" "the schema: $dir/bad.json: line 1: "
check "a word that cannot be kept to" refuses '{"properties": {"a": {"not": {}}}}' "the schema: /properties/a: 'not' is not supported"
check "a pattern that cannot" refuses '{"properties": {"a": {"pattern": "a(?=b)"}}}' "the schema: /properties/a: pattern: character 2: what looks ahead or behind cannot be kept to"
check "a reference to elsewhere" refuses '{"$ref": "other.json"}' 'the schema: /: $ref: expected a place in this schema'
printf 'root ::= "a" | sum\n\nsum ::= sum "+"\n' >"$dir/bad.gbnf"
check "a rule that begins with itself" refuses "$dir/bad.gbnf" "the schema: $dir/bad.gbnf: line 3: the rule 'sum' begins with itself"
printf 'root ::= "a"\nend ::= <|im_end|>\n' >"$dir/bad.gbnf"
check "a token" refuses "$dir/bad.gbnf" "the schema: $dir/bad.gbnf: line 2: tokens (<...>) cannot be kept to, only characters"
printf 'schema = none\n' >"$dir/in.ini"
check "the INI file is named with a file that is not there" go 1 -c "$dir/in.ini" -p x
check "  and its line" says "hearth: $dir/in.ini:1: schema: $dir/none: No such file or directory"
check "an output over the schema" go 2 "${ask[@]}" --schema "$dir/person.json" -o "$dir/person.json"
check "  leaves it" says "--output: expected another file than that of --schema"
done_testing
