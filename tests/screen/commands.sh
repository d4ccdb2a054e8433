#!/usr/bin/env bash
# Commands that leave the program: the editor of /edit, the clipboard of /copy, the model that is
# remembered; and what /show prompt looks like.
. tests/screen/lib/tmux.sh

# An editor that asks something else, and clipboards that keep what they get.
mkdir "$dir/bin"
printf '#!/bin/sh\ncp "$1" %q/edited\nprintf "How do I quit?\\n" >"$1"\n' "$dir" >"$dir/bin/ed1"
printf '#!/bin/sh\nexit 3\n' >"$dir/bin/ed2"
# One that writes a mark before the text, and one a text in another set, with a NUL.
printf '#!/bin/sh\nprintf "\\357\\273\\277%%s" "What is a page?" >"$1"\n' >"$dir/bin/ed3"
printf '#!/bin/sh\nprintf "na\\357ve, \\000 it is\\n" >"$1"\n' >"$dir/bin/ed4"
# One whose text is longer than hearth takes.
printf '#!/bin/sh\ntruncate -s 17M "$1"\n' >"$dir/bin/ed5"
for tool in wl-copy xclip xsel; do
    printf '#!/bin/sh\necho "$0 $*" >%q/tool\ncat >%q/clipboard\n' "$dir" "$dir" >"$dir/bin/$tool"
done
printf '#!/bin/sh\nexit 1\n' >"$dir/bin/wl-copy"
chmod +x "$dir"/bin/*
cat >"$dir/env" <<END
PATH=$dir/bin:\$PATH EDITOR=ed1 TMPDIR=$dir
unset DISPLAY WAYLAND_DISPLAY SSH_CONNECTION SSH_TTY VISUAL
export PATH EDITOR TMPDIR
clear
END
screen 80 24
keys ". $dir/env" Enter
start --temp 0
keys 'What is a draft model?' Enter
shows ' prefilled, '
keys '/edit' Enter
check "/edit opens the editor" shows 'sent: How do I quit?'
check "  on the message" [ "$(cat "$dir/edited")" = 'What is a draft model?' ]
shows 'Ctrl-D'
last '>'
check "  and the old reply is a branch" eval 'keys /branches Enter; shows "What is a draft"'
fresh
keys '/show prompt' Enter
check "/show prompt" shows 'markup  <|im_start|>user\n'
check "  marks the user's text" shows 'text    How do I quit?'
check "  and the reply" shows 'reply   '
fresh

mux set-option -g set-clipboard on
# What is a text of its own can be copied as it is: the terminal breaks its lines, nobody else.
literal='Answer in short sentences, and  where there are several things to say, in a list of them.'
is_there() { text | grep -qF -- "$literal"; }
keys "/system $literal" Enter
last '>'
fresh
keys '/show system' Enter
check "/show system breaks no line" within is_there
last '>'
fresh
literal="{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content']"
keys '/show template' Enter
check "/show template neither" within is_there
last '>'
keys '/system -' Enter
last '>'
fresh
keys '/copy' Enter
check "/copy without a desktop" shows 'copied '
quits() { mux show-buffer | grep -q quit; }
check "  is the terminal's" within quits
check "  and no tool's" [ ! -e "$dir/clipboard" ]
keys C-d
left 0
keys 'DISPLAY=:9 WAYLAND_DISPLAY=w; export DISPLAY WAYLAND_DISPLAY EDITOR=ed2' Enter
start --temp 0 -q
keys 'What is a draft model?' Enter
shows 'draft'
last '>'
keys '/copy' Enter
last '>'
check "/copy on a desktop goes to the first tool that takes it" within grep -qs 'xclip -selection clipboard$' "$dir/tool"
check "  as it was said" eval '"$hearth" -q --private --temp 0 -p "What is a draft model?" </dev/null | head -c -1 | cmp - "$dir/clipboard"'
keys '/edit' Enter
check "an editor that fails is said" shows '/edit: the editor ed2 failed'
check "  and nothing was sent" last '>'
check "  nor does its file stay" [ -z "$(find "$dir" -name 'hearth-*.md')" ]
keys C-d
left 0
keys 'EDITOR=ed5; export EDITOR' Enter
start --temp 0 -q -n 3 --private
keys 'hello' Enter
last '>'
keys '/edit' Enter
check "what an editor wrote and hearth cannot take is said" shows '/edit: the text stays in its file: '
check "  with the reason" shows '.md: more than 16 MiB'
check "  and stays" [ "$(find "$dir" -name 'hearth-*.md' -size +16M | wc -l)" = 1 ]
keys C-d
left 0
for face in --plain --tui; do
    keys 'EDITOR=ed3; export EDITOR' Enter
    start --temp 0 -q -n 3 --private $face
    keys 'hello' Enter
    last '>'
    keys '/edit' Enter '/show prompt' Enter
    check "a byte order mark of an editor is no text, $face" shows 'text    What is a page?'
    keys '/clear' Enter x C-x C-e
    last '> What is a page?'
    keys C-a C-d
    check "  nor at the line" last '> hat is a page?'
    keys C-e C-u
    last '>'
    keys C-d
    left 0
    keys 'EDITOR=ed4; export EDITOR' Enter
    start --temp 0 -q -n 3 --private $face
    keys 'hello' Enter
    last '>'
    keys '/edit' Enter
    check "text of an editor that is not UTF-8 is warned of" shows 'the edited text is not valid UTF-8'
    last '>'
    keys '/show prompt' Enter
    check "  and mended" shows 'text    na�ve, � it is'
    keys '/clear' Enter x C-x C-e
    check "  also at the line" last '> na�ve, � it is'
    keys C-u
    last '>'
    keys C-d
    left 0
done
printf '#!/bin/sh\ncp "$1" %q/edited\nprintf "What is a page?\\n" >"$1"\n' "$dir" >"$dir/bin/vi"
chmod +x "$dir/bin/vi"
keys 'unset EDITOR DISPLAY WAYLAND_DISPLAY' Enter
start --temp 0 -q -n 20
keys 'What is a draft model?' Enter
shows 'draft'
last '>'
keys '/edit' Enter
check "/edit without an editor puts the message into the prompt" last '> What is a draft model?'
keys C-c
last '>'
paste "$(printf 'row %s\n' {1..30})"
shows 'pasted '
keys 'in short' Enter
shows '> in short'
last '>'
rm -f "$dir/edited"
keys '/edit' Enter
check "  but vi opens one that has more rows than the terminal" within grep -qsx 'row 30' "$dir/edited"
fresh
keys '/edit' Enter
check "    and what it leaves was sent" last '> What is a page?'
keys C-c
last '>'
keys C-d
left 0

# What /edit has put into the prompt is given up with the line.
for face in --plain --tui; do
    start --temp 0 -n 3 --private $face
    keys 'hello' Enter
    shows ' prefilled, '
    last '>'
    keys '/edit' Enter
    last '> hello'
    keys C-c
    check "Ctrl-C gives /edit up, $face" shows 'the conversation is as it was before /edit'
    last '>'
    keys '/branches' Enter
    check "  and nothing has changed" shows '* 1 main           2 messages  hello'
    last '>'
    keys C-d
    left 0
done

# A session brings its own settings and system message back, above the file's and below a profile
# that is named.
mkdir -p "$XDG_CONFIG_HOME/hearth"
printf '%s\n' 'system = From the file.' '[profile hot]' 'temp = 1.5' >"$XDG_CONFIG_HOME/hearth/hearth.ini"
start -s mine -q
keys '/system From the chat.' Enter
keys '/set temp 0.25' Enter
keys 'hello' Enter
last '>'
keys C-d
left 0
start -s mine -q
keys '/system' Enter
check "a session brings its system message back" shows 'From the chat.'
keys '/set temp' Enter
check "  and its settings" shows '0.25       the session'
keys C-d
left 0
start -s mine -q -P hot
keys '/set temp' Enter
check "  but not where a profile is named" shows '1.5        profile hot'
keys C-d
left 0
rm "$XDG_CONFIG_HOME/hearth/hearth.ini"

# The model: the one that /model opened is the one of the next start; one that failed is not.
cp "$guide" "$dir/other.gguf"
start --temp 0
keys "/model $dir/none.gguf" Enter
check "/model with a file that is not there" shows 'there is no such file, and no model of that name'
last '>'
check "  keeps the model that is loaded" hides 'going on with'
echo nonsense >"$dir/none.gguf"
keys "/model $dir/none.gguf" Enter
check "/model with a file that is no model" shows 'none.gguf: not a GGUF file'
last '>'
check "  keeps it, too" hides 'going on with'
keys C-d
left 0
check "  is not remembered" [ ! -e "$XDG_STATE_HOME/hearth/last-model" ]
start --temp 0
keys "/model $dir/other.gguf" Enter
shows 'context 2048'
last '>'
keys C-d
left 0
start --private --tui -m "$guide"
keys "/model $dir/other.gguf" Enter
keys '/set temp' Enter
shows 'it can be a number from'
greetings() { text | grep -c 'F1 shows the keys'; }
check "/model greets nobody again" [ "$(greetings)" = 1 ]
keys C-d
left 0
check "/model remembers its choice" [ "$(cat "$XDG_STATE_HOME/hearth/last-model")" = "$dir/other.gguf" ]
start --temp 0
keys '/show model' Enter
check "  for the next start" shows 'other.gguf'
keys C-d
left 0
start --private -m "$guide"
keys C-d
left 0
check "--private remembers none" [ "$(cat "$XDG_STATE_HOME/hearth/last-model")" = "$dir/other.gguf" ]
start --private
keys '/show model' Enter
check "  and opens that of last time" shows 'other.gguf'
keys C-d
left 0

# What /verify shows while it computes is gone when it is stopped, while the conversation is brought
# to the engine (nothing is on disk) and while it is computed again.
for ((i = 0; i < 60; i++)); do echo "line $i of what is to be read"; done >"$dir/long.txt"
start -q -s long --temp 0 -n 1
keys "/read $dir/long.txt" Enter
shows 'they go before'
keys 'Go' Enter C-d
left 0
for face in '' --tui; do
    for pages in 0 1G; do
        start $face -s long --cache-disk $pages --warm-typing off --cpu scalar -t 1
        keys '/verify' Enter
        check "/verify ${face:-at the prompt}, $pages on disk, tells how far it is" shows 'reading '
        keys C-c
        last '>'
        check "  but not once it is stopped" within eval '! has_text "reading "'
        keys C-d
        left 0
    done
done
done_testing
