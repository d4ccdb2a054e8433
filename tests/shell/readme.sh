#!/usr/bin/env bash
# The tests that the README names are there, and what it shows of commands is what they say.
. tests/lib/tap.sh
grep -oE '\[((unit|model|shell|screen)/[a-z_]+(, |; `[^`]*`)?)+\]' README.md | grep -oE '(unit|model|shell|screen)/[a-z_]+' |
    sort -u >"$dir/named"
check "the README names tests" [ "$(wc -l <"$dir/named")" -ge 15 ]
while read -r name; do
    check "$name" eval '[ -e "tests/$name.c" ] || [ -e "tests/$name.sh" ]'
done <"$dir/named"
check "hearth -c examples/run.ini" go 0 -c examples/run.ini -o "$dir/replies" </dev/null
check "the line of JSON" eval 'printf "{\"prompt\":\"hello\",\"id\":1}\n" | go 0 --private --stdin jsonl --jsonl && prints "\"type\":\"end\""'
done_testing
