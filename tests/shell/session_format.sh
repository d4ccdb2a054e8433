#!/usr/bin/env bash
# hearth-session(5) against the code that writes the bytes: the same fields with the same tags.
. tests/lib/tap.sh
grep -oE 'FIELD\([0-9]+, [A-Z]+, [a-z_]+\)' src/chat/record.c |
    sed -E 's/FIELD.([0-9]+), [A-Z]+, ([a-z_]+)./\1 \2/' >"$dir/code"
sed -nE 's/^([0-9]+)\|([a-z_]+)\|.*/\1 \2/p' man/hearth-session.5 >"$dir/page"
check "the code has fields" [ "$(wc -l <"$dir/code")" -gt 20 ]
check "the page has the same" diff "$dir/code" "$dir/page"
done_testing
