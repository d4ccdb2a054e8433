#!/usr/bin/env bash
# The order of the floors: an #include between folders of src goes down, never up or sideways; chat
# and ui include only what they may; no two files include each other, and no ring of files does.
# usage: tests/lint/floors.sh [SRC-FOLDER]     prints the offenders, exit 1 if there are any
set -u
src=${1:-$(dirname "$0")/../../src}
cd "$src" || exit 2

grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' -r . --include='*.[ch]' |
    sed -E 's|^\./||' | LC_ALL=C sort | awk '
BEGIN {
    # From the cellar to the roof; cpu and vulkan share a floor and do not know each other.
    n_floors = split("base config gguf template text backend cpu=vulkan model cache engine chat ui app",
              floors, " ")
    for (i = 1; i <= n_floors; i++) {
        m = split(floors[i], rooms, "=")
        for (k = 1; k <= m; k++) level[rooms[k]] = i
    }
    chat_may["engine/engine.h"] = chat_may["text/spans.h"] = 1
    split("template config base", rooms, " ")
    for (k in rooms) chat_may_room[rooms[k]] = 1
    split("cache model cpu vulkan backend gguf", rooms, " ")
    for (k in rooms) ui_may_not[rooms[k]] = 1
}
function bad(text) { print "src/" where ": " text; failed = 1 }
{
    # path:line:#include "room/file.h"
    split($0, part, ":")
    file = part[1]
    where = file ":" part[2]
    target = $0
    sub(/^[^"]*"/, "", target)
    sub(/".*/, "", target)
    from = file
    sub(/\/.*/, "", from)
    if (target ~ /^\.\.?\// || target !~ /\//) {
        if (target ~ /^shaders\//) next
        bad("\"" target "\": write the folder, as in \"base/err.h\"")
        next
    }
    to = target
    sub(/\/.*/, "", to)
    if (to == "shaders") next
    if (!(from in level)) { bad("folder " from " is not one of the floors"); next }
    if (!(to in level)) { bad("\"" target "\": folder " to " is not one of the floors"); next }
    if (level[to] > level[from])
        bad("\"" target "\": goes up from " from " to " to)
    else if (level[to] == level[from] && to != from)
        bad("\"" target "\": " from " and " to " do not know each other")
    if (from == "chat" && to != "chat" && !(target in chat_may) && !(to in chat_may_room))
        bad("\"" target "\": chat includes only engine/engine.h, text/spans.h, template, config and base")
    if (from == "ui" && to in ui_may_not)
        bad("\"" target "\": ui knows nothing of " to)
    targets[file] = targets[file] " " target
    line[file, target] = where
}
# Depth first over the includes; state 1: on the path, 2: done.
function visit(file,    list, n, i) {
    state[file] = 1
    n = split(targets[file], list, " ")
    for (i = 1; i <= n; i++) {
        if (state[list[i]] == 1) {
            where = line[file, list[i]]
            bad("\"" list[i] "\": these files include each other in a ring")
        } else if (!state[list[i]]) visit(list[i])
    }
    state[file] = 2
}
END {
    for (file in targets) names[++count] = file
    for (i = 1; i <= count; i++) if (!state[names[i]]) visit(names[i])
    exit failed
}'
