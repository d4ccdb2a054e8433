#!/usr/bin/env bash
# What the README says against what is there: behind each line of ours in the table beside others
# stand tests or commands that exist, every option, command, target and file that it names is one,
# and the session that it shows is what the program says.
. tests/lib/tap.sh

# --- Behind each line of ours
# "name<TAB>what is ours", without what other programs have
awk -F ' *[|] *' '/^## / { inside = $0 == "## Beside others" } inside && /^\| [a-z]/ { print $2 "\t" $3 }' \
    README.md >"$dir/rows"
# has_options "hearth SUBCOMMAND --OPTION...": the help of the subcommand has them.
has_options()
{
    read -ra words <<<"$1"
    go 0 "${words[1]}" --help || return 1
    for word in "${words[@]:2}"; do has "^ +$word\b" || return 1; done
}
check "the table has its rows" [ "$(wc -l <"$dir/rows")" -ge 13 ]
while IFS=$'\t' read -r name ours; do
    check "$name names what shows it" grep -qE '\[[^]]+\]' <<<"$ours"
    grep -oE '\[[^]]+\]' <<<"$ours" | tr -d '[]' | sed -E 's/[,;] */\n/g' >"$dir/behind"
    while read -r what; do
        case $what in
        '`hearth '*) check "  $what" has_options "${what//\`/}" ;;
        *) check "  $what has cases" eval 'grep -qsE "^ *check |cmocka_unit_test" "tests/$what".[cs]*' ;;
        esac
    done <"$dir/behind"
done <"$dir/rows"

# --- What it names. The columns of the others are theirs.
awk -F '|' '/^## / { inside = $0 == "## Beside others" } inside && /^\|/ { print $2 $3; next } { print }' \
    README.md >"$dir/text"
# In a block of code the first word counts; what a terminal showed may hold anything.
grep -v '^    ' "$dir/text" >"$dir/prose"
{
    "$hearth" --help
    echo --completion # which is for a file, not for --help
    for name in bench models; do "$hearth" $name --help; done
    "$hearth" --help | sed -nE 's/^  (inspect|sessions|cache) ([a-z]+) .*/\1 \2/p' |
        while read -r name what; do "$hearth" "$name" "$what" --help; done
} >"$dir/help"
# known KIND FILE: every name of $dir/named is a line of this file
known()
{
    sort -u "$dir/named" | grep -vxFf "$dir/$2" | sed "s/^/# no $1 /" >"$dir/unknown"
    [ -s "$dir/named" ] && [ ! -s "$dir/unknown" ] || { cat "$dir/unknown" && return 1; }
}
grep -oE -- '--[a-z][a-z-]+' "$dir/help" >"$dir/options"
grep -oE -- '(^|[^a-z-])--[a-z][a-z-]+' "$dir/text" | grep -oE -- '--.*' >"$dir/named"
check "its options" known option options
# at_terminal ARGS...: what hearth shows of what is typed there. script sends Ctrl-D at the end of
# its input, and one that comes while hearth sets the terminal up is lost: /quit leaves. Return is
# typed, not a line feed, which breaks the line once the terminal is set up.
at_terminal() { { cat; echo /quit; } | tr '\n' '\r' | timeout 300 script -qec "'$hearth' $*" /dev/null; }
printf '/help\n' | at_terminal --private -q | grep -oE '/[a-z]+' >"$dir/commands"
grep -oE '`/[a-z]+' "$dir/prose" | tr -d '`' >"$dir/named"
check "its commands" known command commands
{ echo help; make help | sed -nE 's/^make ([a-z-]+) .*/\1/p'; } >"$dir/targets"
{ grep -oE '`make [a-z]+' "$dir/prose" | sed 's/.* //'; sed -nE 's/^    make ([a-z ]+[a-z]).*/\1/p' README.md | xargs -n 1; } >"$dir/named"
check "its targets" known target targets
{ git ls-files 2>/dev/null || find . -type f | sed 's,^\./,,'; } | sed 'p; s,/[^/]*$,/,' | sort -u >"$dir/files"
grep -oE '(examples|man|tests|src|\.ci)/[A-Za-z0-9_./-]*[A-Za-z0-9_/]' "$dir/text" >"$dir/named"
check "its files" known file files

# --- What it shows
check "hearth -c examples/run.ini" go 0 -c examples/run.ini -o "$dir/replies" </dev/null
check "the line of JSON" eval 'printf "{\"prompt\":\"hello\",\"id\":1}\n" | go 0 --private --stdin jsonl --jsonl && prints "\"type\":\"end\""'
check "a diff in a pipe" eval 'git diff --no-index /dev/null tests/shell/session_format.sh | go 0 -q --private -n 20 -p "Write a commit message for this." && [ -s "$dir/out" ]'

# The session with --seed 1, typed again: the lines that are not figures, and the seeds.
awk '/^## A session/ { on = 1 } /^## In scripts/ { on = 0 } on && /^    \$ build.hearth/ { n++ } n == 1 && /^    \$ echo/ { exit } n == 1' \
    README.md | sed -n 's/^    //p' >"$dir/shown"
sed -n 's/^> //p' "$dir/shown" >"$dir/typed"
check "the session has turns" [ "$(grep -vc '^/' "$dir/typed")" -ge 3 ]
# says_all ARGS...: what is typed there is answered with every one of the lines.
says_all()
{
    at_terminal "$@" --plain --wrap off <"$dir/typed" | tr -d '\r' | sed 's/\x1b\[[?0-9;]*[a-z]//g' >"$dir/said"
    while IFS= read -r line; do
        grep -qF -- "$line" "$dir/said" || echo "# not said: $line"
    done <"$dir/lines" >"$dir/missing"
    [ ! -s "$dir/missing" ] || { cat "$dir/missing"; sed "s/^/#   /" "$dir/said"; false; }
}
{
    awk '/^> \// { quiet = 1; next } /^> / { quiet = 0; next } !quiet' "$dir/shown" | sed -n '/^\[/d; /^hearth/d; /^weights/d; /is saved as/d; /^\$/d; /./p'
    grep -oE 'seed [0-9]{10,}' "$dir/shown"
    grep -oE '^back to before.*|^the same bits' "$dir/shown"
} >"$dir/lines"
check "  of several lines" [ "$(wc -l <"$dir/lines")" -ge 10 ]
check "  and is what the program says" says_all --seed 1

# What the model sees, rows that the terminal breaks included.
awk '/^What the model sees/ { on = 1 } /^## In scripts/ { on = 0 } on' README.md | sed -n 's/^    //p' >"$dir/shown"
read -ra words < <(sed -n 's/^\$ build.hearth //p' "$dir/shown")
sed -n 's/^> //p' "$dir/shown" >"$dir/typed"
sed -n '/^[$>[]/d; /^\.\.\.$/d; /./p' "$dir/shown" >"$dir/lines"
check "what the model sees has its lines" [ "$(wc -l <"$dir/lines")" -ge 20 ]
check "  and they are what the program says" says_all "${words[@]}"
done_testing
