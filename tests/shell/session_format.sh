#!/usr/bin/env bash
# hearth-session(5) against the code that writes the bytes: the same fields with the same tags.
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
grep -oE 'FIELD\([0-9]+, [A-Z]+, [a-z_]+\)' src/chat/record.c |
    sed -E 's/FIELD.([0-9]+), [A-Z]+, ([a-z_]+)./\1 \2/' >"$dir/code"
sed -nE 's/^([0-9]+)\|([a-z_]+)\|.*/\1 \2/p' man/hearth-session.5 >"$dir/page"
if [ "$(wc -l <"$dir/code")" -gt 20 ] && diff "$dir/code" "$dir/page" | sed 's/^/# /'; then
    cmp -s "$dir/code" "$dir/page" && echo "ok 1 - the table of fields" && exit
fi
echo "not ok 1 - the table of fields"
exit 1
