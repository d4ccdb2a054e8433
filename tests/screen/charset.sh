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
else
    skip "ISO-8859-1" "the locale cannot be made here"
fi
done_testing
