#!/usr/bin/env bash
# Terminals without UTF-8, or without a locale: what is typed is what is sent, at the line prompt
# and in the full-screen view, and nothing the terminal does not have is written.
. tests/screen/lib/tmux.sh
raw() { LC_ALL=C grep -qF -- "$1" "$raw"; }

# Nobody has chosen a locale: a character is deleted whole.
screen 80 24
keys 'unset LANG LC_CTYPE; LC_ALL=C; export LC_ALL; clear' Enter
for face in '' --tui; do
    start --private -q --temp 0 -n 3 $face
    keys 'naïve' BSpace BSpace BSpace 'x' Enter '/show prompt' Enter
    check "LC_ALL=C ${face:-at the prompt}: a character is deleted whole" shows 'text    nax'
    check "  for the program it is UTF-8" hides '\x'
    [ -z "$face" ] || check "  and lines are lines" shows '│ private'
    keys C-d
    left 0
done

printf '#!/bin/sh\ncp "$1" %q/edited\n' "$dir" >"$dir/keeps"
printf '#!/bin/sh\nprintf "%%s\\n" "na\303\257f, \346\227\245" >"$1"\n' >"$dir/writes" # naïf, 日
chmod +x "$dir/keeps" "$dir/writes"
if localedef -i en_US -f ISO-8859-1 "$dir/en_US.ISO-8859-1" 2>/dev/null; then
    keys "LOCPATH=$dir LC_ALL=en_US.ISO-8859-1; export LOCPATH LC_ALL; clear" Enter
    for face in '' --tui; do
        record
        start --private -q --temp 0 -n 3 $face
        mux send-keys -H 6e 61 ef 76 65 20 63 61 66 e9 # naïve café
        check "ISO-8859-1 ${face:-at the prompt}: what is typed is shown" within raw $'caf\351'
        keys BSpace
        mux send-keys -H 1b 5b 32 30 30 7e e8 fc 1b 5b 32 30 31 7e # pasted: èü
        within raw $'\350\374'
        keys Enter '/show prompt' Enter
        check "  and sent" within raw $'text    na\357ve caf\350\374'
        check "  and nothing is UTF-8" eval '! raw $'"'\\303'"
        [ -z "$face" ] || check "  nor are lines" shows '| private'
        stand_in='??'
        [ -z "$face" ] || stand_in='? ?'
        keys '/system 日本 é' Enter '/system' Enter
        check "  what it has not is a question mark" within raw "$stand_in"
        keys C-d
        left 0
        for editor in keeps writes; do
            rm -f "$dir/edited"
            keys "EDITOR=$dir/$editor; export EDITOR" Enter
            record
            start --private -q --temp 0 -n 3 $face
            mux send-keys -H 6e 61 ef 76 65 20 # naïve
            keys C-x C-e x Enter '/show prompt' Enter
            if [ $editor = keeps ]; then
                check "  an editor leaves it as it is" within raw $'text    na\357ve x'
                check "    and gets it as UTF-8" grep -qx 'naïve ' "$dir/edited"
            else
                check "  or writes something else" within raw $'text    na\357f, ?x'
                check "    of which nothing is UTF-8 here" eval '! raw $'"'\\303'"
            fi
            keys C-d
            left 0
        done
    done
    mux resize-window -x 30 -y 6
    start --private -q --tui
    keys / Tab Tab
    check "  more than TAB has room for has a mark of ASCII" shows ' ~'
    mux resize-window -x 80 -y 24
    keys C-c
    last '>'
    keys C-d
    left 0
else
    skip "ISO-8859-1" "the locale cannot be made here"
fi

# What comes back of the history and of TAB is typed again: of that a set of several bytes to a
# character loses most.
history=$XDG_STATE_HOME/hearth/history
nihon=$'\306\374\313\334' # 日本
if localedef -i ja_JP -f EUC-JP "$dir/ja_JP.EUC-JP" 2>/dev/null; then
    keys "LOCPATH=$dir LC_ALL=ja_JP.EUC-JP; export LOCPATH LC_ALL" Enter
    for face in '' --tui; do
        rm -rf "$(dirname "$history")"
        start -q --temp 0 -n 3 $face
        mux send-keys -H c6 fc cb dc
        keys Enter
        check "EUC-JP ${face:-at the prompt}: the history's file is UTF-8" \
            within grep -qx 日本 "$history"
        last '>'
        record
        keys Up
        check "  what comes back of it is what was typed" within raw "$nihon"
        keys x Enter '/show prompt' Enter
        check "  and changed, it is sent" within raw "text    ${nihon}x"
        check "  and kept" within grep -qx 日本x "$history"
        keys '/fork '
        mux send-keys -H c6 fc cb dc
        keys Enter '/fork '
        mux send-keys -H c6 fc b8 ec # 日語
        keys Enter
        within grep -qx '/fork 日語' "$history"
        record
        keys '/switch '
        mux send-keys -H c6 fc
        keys Tab Tab
        check "  TAB shows what begins with it" within raw $'\306\374\270\354'
        mux send-keys -H cb dc
        keys Enter
        check "  and what is chosen is sent" within grep -qx '/switch 日本' "$history"
        record
        keys C-r
        mux send-keys -H c6 fc
        check "  a search shows what is searched for" within raw $'\306\374\':'
        keys C-g C-d
        left 0
        record
        start -q --temp 0 -n 3 $face
        keys Up
        check "  the next start has it, too" within raw $'/switch \306\374'
        keys C-u C-d
        left 0
    done
else
    skip "EUC-JP" "the locale cannot be made here"
fi
done_testing
