#!/usr/bin/env bash
# The manual pages against the program's own tables: what hearth(1) and hearth.ini(5) list is what
# --help and --print-config list, in the same order, and neither has more. Their examples work.
. tests/lib/tap.sh
export MANWIDTH=1000 LC_ALL=C.UTF-8
unset MANOPT MANPAGER PAGER MANROFFOPT

page() { man --nh --nj -l "man/$1"; }

tags() { python3 tests/man_tags.py "man/$1" "$2"; }
tags hearth.1 OPTIONS >"$dir/options"
tags hearth.ini.5 KEYS >"$dir/keys"

# text_of FILE TAG: the lines with a tag that this expression finds
text_of() { awk -F '\t' -v tag="$2" '$1 ~ tag { print $2 }' "$1"; }

same()
{
    [ -s "$dir/program" ] || { echo "# the program lists nothing" && return 1; }
    diff -u --label "the program" "$dir/program" --label "the page" "$dir/page" >"$dir/diff" ||
        { sed 's/^/# /' "$dir/diff" && return 1; }
}

"$hearth" --help >"$dir/help"
"$hearth" --print-config >"$dir/printed"

for path in man/*.[1-8]; do
    name=$(basename "$path")
    MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 "$path" >/dev/null 2>"$dir/warnings"
    check "$name is formatted without a warning" [ ! -s "$dir/warnings" ]
    sed 's/^/# /' "$dir/warnings"
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W warning "$path" >"$dir/warnings" 2>&1
        check "$name: mandoc has no warning" [ ! -s "$dir/warnings" ]
        sed 's/^/# /' "$dir/warnings"
    fi
    page "$name" | awk '/^SEE ALSO/ { inside = 1; next } /^[A-Z]/ { inside = 0 } inside' |
        grep -oE 'hearth[-.a-z]*\([1-8]\)' | tr '()' '. ' >"$dir/others"
    while read -r other; do
        check "$name names $other, which is there" [ -s "man/$other" ]
    done <"$dir/others"
done

# "  -m, --model FILE   the model" and "      --draft DRAFT" as "-m, --model FILE", "--draft DRAFT".
sed -nE '/^Subcommands:/q; s/^ {2,6}(-.*)/\1/p' "$dir/help" | sed -E 's/ {2,}.*//' >"$dir/program"
cut -f 1 "$dir/options" >"$dir/page"
check "hearth(1) has the options of --help" same

# What --print-config and the environment leave out is said to have no key, no variable.
sed -nE 's/^.*--([a-z0-9-]+).*/\1/p' "$dir/program" >"$dir/names"
while read -r name; do
    grep -qE "^(# )?$name( =|:| is not set)" "$dir/printed"
    has_key=$?
    text_of "$dir/options" "--$name( |\$)" | grep -q "No key"
    says_none=$?
    check "hearth(1): $name has $( ((has_key)) && echo no || echo a) key" [ $has_key != $says_none ]
done <"$dir/names"

sed -nE '/^Subcommands:/,/^$/p' "$dir/help" |
    sed -nE 's/^  ([a-z]+( [a-z]+)?) {2,}.*/\1/p' >"$dir/subcommands"
fits_80() { ! "$hearth" "$@" --help | sed 1d | grep -E '.{81}'; }
while read -r name; do
    # shellcheck disable=SC2086
    check "$name --help has 80 columns below its usage" fits_80 $name
done <"$dir/subcommands"
while read -r name; do
    # shellcheck disable=SC2086
    "$hearth" $name --help 2>&1 | sed -nE '1s/^usage: //p' | sed -E 's/ <.*//'
done <"$dir/subcommands" >"$dir/program"
tags hearth.1 SUBCOMMANDS | cut -f 1 >"$dir/page"
check "hearth(1) has the subcommands of --help, as each explains itself" same
check "  all of them" [ "$(wc -l <"$dir/page")" = "$(wc -l <"$dir/subcommands")" ]

"$hearth" bench --help | sed '1,/^And of/d' | tr -s ' ' '\n' | grep -e -- >"$dir/program"
page hearth.1 | awk '/^[A-Z]/ { s = $0 } s == "SUBCOMMANDS"' | sed -nE '/take/p' | head -n 1 |
    grep -oE -e '--[a-z-]+' >"$dir/page"
check "hearth(1) has the options that subcommands take" same

# Of each mode of bench the options that --help puts below it; then those of every mode.
"$hearth" bench --help | sed -nE 's/^ {6,}(--[a-z-]+( [A-Z]+)?).*/\1/p' | grep -v -- '^--json$' >"$dir/program"
sed -n '/^\.B hearth bench/,/^\.RE/s/^\.IP "\(.*\)"/\1/p' man/hearth.1 |
    sed 's/\\f[BIR]//g; s/\\-/-/g' | grep -oE -- '--[a-z-]+( [A-Z]+)?' >"$dir/page"
check "hearth(1) has the modes of bench and what each takes" same

# And the workloads of --spec.
"$hearth" bench --spec --draft lookup --workloads no >"$dir/out" 2>"$dir/err"
sed -nE "s/.* is none of ([a-z, -]+) \(try.*/\1/p" "$dir/err" | tr -d , | tr ' ' '\n' >"$dir/workloads"
check "bench has workloads" [ "$(wc -l <"$dir/workloads")" -ge 6 ]
"$hearth" bench --help | grep -A 1 -e --workloads >"$dir/bench"
page hearth.1 | grep -e '--workloads for some of' >"$dir/text"
while read -r name; do
    check "bench --help has the workload $name" grep -qw -e "$name" "$dir/bench"
    check "hearth(1) has it" grep -qw -e "$name" "$dir/text"
done <"$dir/workloads"

# "temp = 0.7" where there is a built-in value; "model = FILE" where there is none.
while read -r line; do
    case $line in
    "# hearth "* | "[hearth]") ;;
    "# "*" is not set")
        key=${line#\# }
        key=${key% is not set}
        echo "$key = $(sed -nE "s/^.*--$key ([A-Za-z=]+).*/\1/p" "$dir/help")"
        ;;
    *) sed -E 's/ +; built-in$//' <<<"$line" ;;
    esac
done <"$dir/printed" >"$dir/program"
cut -f 1 "$dir/keys" >"$dir/page"
check "hearth.ini(5) has the keys and built-in values of --print-config" same

# Words that an option takes stand in both pages.
"$hearth" --completion bash >"$dir/completion"
n_words=0
while read -r key; do
    text_of "$dir/options" "--$key( |\$)" >"$dir/text"
    grep -E "^$key = " "$dir/keys" >"$dir/key"
    words=$(sed -nE "s/^ *\*,--$key(\|\*,-.)?\) .*\"([a-z0-9_][a-z0-9_. -]*)\".*/\2/p" "$dir/completion")
    for word in $words; do
        ((n_words++))
        check "hearth(1): $key takes $word" grep -qw -- "$word" "$dir/text"
        # Completion's shells are no key, and the templates are many.
        [ ! -s "$dir/key" ] || [ $key = template ] ||
            check "hearth.ini(5): $key takes $word" grep -qw -- "$word" "$dir/key"
    done
done <"$dir/names"
check "options take words" [ "$n_words" -gt 30 ]

# A number that the page calls the most is the most.
most_of() { sed -nE "s/^$1 = .*[Aa]t most ([0-9]+);.*/\\1/p" "$dir/keys"; }
for key in threads ctx; do
    most=$(most_of $key)
    check "hearth.ini(5): $key says what is the most" [ -n "$most" ]
    check "  $most is taken" exits 0 "$hearth" --print-config "--$key" "$most"
    check "  $((most + 1)) is not" exits 2 "$hearth" --print-config "--$key" $((most + 1))
done

# The example of hearth.ini(5) is a file that hearth reads.
sed -n '/^\.EX/,/^\.EE/{/^\.E[XE]/d;p;}' man/hearth.ini.5 | sed '/^hearth: /,$d' |
    sed 's/\\-/-/g; s/\\(rs/\\/g' >"$dir/example.ini"
"$hearth" -c "$dir/example.ini" -P code --print-config >"$dir/out" 2>"$dir/err"
check "the example of hearth.ini(5) is read" [ $? = 0 ]
check "  its [hearth]" grep -qF "system = \"You are brief.\\nYou answer in English.\"" "$dir/out"
check "  its profile" grep -qE '^temp = 0\.2 .*profile code' "$dir/out"
check "  its list" grep -qF 'stop = "User:,\\n\\n"' "$dir/out"

# Its diagnostics are the program's.
printf '%s\n' '[hearth]' 'ctx = 10' 'tmep = 1' >"$dir/1"
printf '%s\n' '[hearth]' '' '' '' 'top-p = 1.5' >"$dir/2"
printf '%s\n' '' '' '' 'temp = 1' '' '' '' '' 'Temp = 0' >"$dir/3"
for i in 1 2 3; do
    cp "$dir/$i" "$dir/hearth.ini"
    (cd "$dir" && "$hearth" -c hearth.ini --print-config) >"$dir/message" 2>&1
    check "hearth.ini(5): diagnostic $i is what hearth says" \
        grep -qxF "       $(cat "$dir/message")" <(page hearth.ini.5 | sed 's/^ */       /')
    sed 's/^/# /' "$dir/message"
done

# Of each object of JSON the page names the keys that it has, and no others.
# keys TYPE: of all objects on standard input, or of the events of that type
cat >"$dir/keys.py" <<'end'
import json
import re
import sys


def keys(value):
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    for item in value if isinstance(value, list) else []:
        yield from keys(item)


text, at, found = sys.stdin.read(), 0, set()
while at < len(text):
    value, at = json.JSONDecoder().raw_decode(text, at)
    at = re.compile(r'\s*').match(text, at).end()
    if len(sys.argv) == 1 or value['type'] == sys.argv[1]:
        found.update(keys(value))
print(*sorted(found - set(sys.argv[1:] and ['type'])), sep='\n')
end
tags hearth.1 JSON >"$dir/json"
# same_keys TAG FILE [TYPE]
same_keys()
{
    text_of "$dir/json" "$1" | grep -oE '"[a-z_]+"' | tr -d '"' | sort -u >"$dir/page"
    python3 "$dir/keys.py" "${@:3}" <"$dir/$2" >"$dir/program"
    same
}
printf '%s' '{% for m in messages %}{{ m.content }}{% endfor %}<think>' >"$dir/think.jinja"
printf '%s\n' '{"prompt":"Hi","id":1}' '{"prompt":1,"id":"a"}' |
    "$hearth" -q --private --template "$dir/think.jinja" -n 4 --stdin jsonl --jsonl >"$dir/events" 2>"$dir/err"
"$hearth" -q --private -n 4 --jsonl -p Hi </dev/null >>"$dir/events"
printf '{"prompt":"Hi","id":1}\n{"prompt":1}\n' |
    "$hearth" -q --private --template "$dir/think.jinja" -n 4 --stdin jsonl --json >"$dir/ends" 2>"$dir/err"
for type in start prefill reasoning text; do
    check "hearth(1): JSON: $type" same_keys "$type" events "$type"
done
check "hearth(1): JSON: end" same_keys '^end' ends end
mkdir "$dir/models"
cp "$guide" "$dir/models"
LLAMA_CACHE=$dir/models "$hearth" models --json >"$dir/models.json"
check "hearth(1): JSON: models" same_keys 'hearth models' models.json
"$hearth" -q --template "$dir/think.jinja" -n 4 -s said -p Hi </dev/null >"$dir/out"
"$hearth" sessions export --json said >"$dir/session.json"
check "hearth(1): JSON: sessions export" same_keys 'sessions export' session.json
printf '{"prompt":"a b"}\n{"prompt":"a c"}\n' | "$hearth" inspect plan -m "$guide" --jsonl >"$dir/plan"
check "hearth(1): JSON: inspect plan" same_keys 'inspect plan' plan

# The exit codes of the program's table.
sed -nE 's/^ *EXIT_[A-Z_]+ = ([0-9]+).*/\1/p' src/*/command_line.h src/*/exit_status.h 2>/dev/null >"$dir/program"
tags hearth.1 "EXIT STATUS" | cut -f 1 >"$dir/page"
check "hearth(1) has the exit codes of the source" same

# The sections that a page about a program has.
for section in SYNOPSIS DESCRIPTION OPTIONS COMMANDS KEYS SUBCOMMANDS JSON "EXIT STATUS" SIGNALS ENVIRONMENT FILES EXAMPLES SECURITY; do
    check "hearth(1) has $section" grep -qx ".SH $section" man/hearth.1
done
done_testing
