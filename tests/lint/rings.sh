#!/usr/bin/env bash
# No ring of files calls itself: what a file takes from another, as its object names it, lies below
# it. The template language is one evaluator in several files, which recurses through all of them.
# usage: tests/lint/rings.sh OBJECT...     prints the rings, exit 1 if there are any
set -u
(($# > 0)) || exit 2

nm -A "$@" | awk '
{
    # build/src/room/file.o:0000 T name, or build/src/room/file.o:     U name
    file = $1
    sub(/\.o:.*/, "", file)
    sub(/^.*src\//, "", file)
    kind = $(NF - 1)
    if (kind ~ /:U$/ || kind == "U") wants[file] = wants[file] " " $NF
    else if (kind ~ /^[TDBRCV]$/) home[$NF] = file
    if (file != names[n_files]) names[++n_files] = file
}
function is_template(file) { return file ~ /^template\// }
# Depth first; state 1: on the path, 2: done.
function visit(file,    list, n, i, to) {
    state[file] = 1
    path[++depth] = file
    n = split(wants[file], list, " ")
    for (i = 1; i <= n; i++) {
        to = home[list[i]]
        if (to == "" || to == file || (is_template(file) && is_template(to))) continue
        why[depth] = list[i]
        if (state[to] == 1) tell(to)
        else if (!state[to]) visit(to)
    }
    state[file] = 2
    depth--
}
function tell(to,    i, text) {
    failed = 1
    for (i = depth; path[i] != to; i--)
        ;
    for (; i <= depth; i++) text = text path[i] ".c takes " why[i] ", "
    print "src/" text "a ring"
}
END {
    for (at = 1; at <= n_files; at++) if (!state[names[at]]) visit(names[at])
    exit failed
}'
