#!/usr/bin/env bash
# The line prompt and its terminal: signals at any moment, settings left as they were, nothing
# hostile on the screen, colours and redrawn lines only where they are allowed.
. tests/screen/lib/tmux.sh

# The guide never ends its turn with these.
endless=(--private --logit-bias 2045=-inf --logit-bias 2047=-inf --cpu scalar -t 1)
# A crash is ours to clean up after, also where a sanitizer would report it.
export ASAN_OPTIONS=handle_segv=0:handle_abort=0:handle_sigbus=0
raw() { grep -qF -- "$1" "$raw"; }
signal() { kill -"$1" "$(cat "$dir/pid")"; }
# Brings the stopped program back; KEY is what the shell takes for Return.
back() { rm -f "$dir/after" && keys "fg; echo \"status \$?\"; stty -g >$dir/after" "$1"; }
# Something on the screen changes.
differs() { [ "$(text)" != "$1" ]; }
moves()
{
    local before
    before=$(text)
    within differs "$before"
}

screen 80 24
start "${endless[@]}"
keys 'tell me all' Enter
check "a long reply" speaks
keys C-c
check "Ctrl-C stops it" shows 'stop: cancelled'
check "  back at the prompt" last '>'
keys '/show conversation' Enter
last '>'
fresh
keys '/stats' Enter
check "  what was said is kept" shows 'stop cancelled'
fresh
keys 'tell me more' Enter
speaks
keys 'typed ahead'
sleep 0.1
check "what is typed during a reply is not shown" hides 'typed ahead'
keys C-c
check "  but waits for the prompt" last '> typed ahead'
keys C-u

fresh
keys 'half a line' M-b C-z
check "Ctrl-Z at the prompt stops" last 'shell:'
keys "stty -g | cmp - $dir/before && echo alike" Enter
check "  the terminal is the shell's meanwhile" shows 'alike'
back Enter
check "  fg brings the line back" last '> half a line'
keys '!'
check "    and the cursor where it was" last '> half a !line'
keys C-c
last '>'
fresh
keys 'tell me all' Enter
speaks
keys C-z
check "Ctrl-Z in a reply stops" last 'shell:'
keys "clear; stty -g | cmp - $dir/before && echo alike" Enter
check "  the terminal is the shell's meanwhile" shows 'alike'
back Enter
check "  fg goes on with the reply" moves
keys C-c
check "  which can be stopped" shows 'stop: cancelled'
last '>'
keys 'still here'
check "  and keys are shown again" last '> still here'
keys M-b
signal STOP
shows 'Stopped'
# This shell leaves the terminal as it finds it: Return is no line feed now.
back C-j
check "a stop that nobody can catch" last '> still here'
keys '!'
check "  nor does that move the cursor" last '> still !here'
keys C-e C-u C-d
check "the terminal is as it was" left 0

# The shell's next line stands in a row of its own.
in_own_row() { mux capture-pane -p | grep -qx "status $1"; }
for name in TERM HUP; do
    start "${endless[@]}"
    keys 'tell me all' Enter
    speaks
    signal $name
    check "SIG$name in a reply" left $((128 + $(kill -l $name)))
    check "  ends its row" in_own_row $((128 + $(kill -l $name)))
done
start "${endless[@]}"
keys 'half a line'
last '> half a line'
signal TERM
check "SIGTERM at the prompt" left 143
start "${endless[@]}"
signal HUP
check "SIGHUP" left 129
start "${endless[@]}"
signal ABRT
check "a crash" left 134
start "${endless[@]}"
keys 'tell me all' Enter
speaks
signal SEGV
check "a crash in a reply" left 139
cp "$guide" "$dir/cut.gguf"
start --private -m "$dir/cut.gguf"
: >"$dir/cut.gguf"
keys 'hello' Enter
check "a model that is cut short meanwhile" left 1
check "  is named" shows 'cut.gguf: can no longer be read: it was cut short'
check "a model that is missing" eval 'keys "clear; $hearth -m /no/such.gguf; echo status \$?" Enter && shows "status 1"'
check "  is said in one line" shows 'hearth: /no/such.gguf: No such file or directory'

RANDOM=11
any_moment()
{
    local i
    for ((i = 0; i < ${HEARTH_SOAK:-1} * 6; i++)); do
        printf 'clear; stty -g >%q/before; sh -c '\''echo $$ >%q/pid; exec %q -q "$@"'\'' sh %s; echo "status $?"; stty -g >%q/after\n' \
            "$dir" "$dir" "$hearth" "${endless[*]}" "$dir" >"$dir/run"
        rm -f "$dir/pid"
        keys ". $dir/run" Enter 'tell me all' Enter
        until [ -s "$dir/pid" ]; do sleep 0.01; done
        sleep "0.$(printf %03d $((RANDOM % 500)))"
        signal TERM
        left 143 || return 1
    done
}
check "SIGTERM at random moments" any_moment
# Typed at once, whether the model is open by then or the prompt still tells how far it is.
"$hearth" inspect make --shape qwen3-0.6b,n_layer=8 --type Q4_0 "$dir/large.gguf"
for try in 1 2 3; do
    printf 'clear; stty -g >%q/before; %q --private -m %q/large.gguf --cpu scalar -t 1; echo "status $?"; stty -g >%q/after\n' \
        "$dir" "$hearth" "$dir" "$dir" >"$dir/run"
    keys ". $dir/run" Enter
    shows 'memory available'
    sleep "0.$((try * 2))"
    keys '/show mod'
    sleep "0.$((try * 2))"
    keys 'el' Enter
    check "a line typed while the model loads, $try" shows 'vocabulary'
    last '>'
    keys C-d
    check "  and the end" left 0
done
rm "$dir/large.gguf"

# What a model says is never obeyed.
esc=$(printf '\033' | "$hearth" inspect tokens -m "$guide")
start --temp 0 -n 5 --logit-bias "$esc=1000"
record
keys 'x' Enter
check "an ESC in a reply is shown" shows '\x1b\x1b\x1b\x1b\x1b'
check "  and never sent" eval '! raw $'"'\\033\\033'"
keys C-d
left 0
printf 'text' >"$dir/$(printf 'evil\033[31mname')"
start --temp 0
record
keys "/read $dir/evil" Tab Enter
last '>'
check "a hostile file name is never sent" eval '! raw $'"'evil\\033'"
keys C-d
left 0

# Replies into a file: the prompt stays on the terminal.
printf 'clear; %q --private --temp 0 | tee %q/replies >%q/copy; echo ended\n' "$hearth" "$dir" "$dir" >"$dir/run"
keys ". $dir/run" Enter
check "a prompt while stdout is a pipe" last '>'
keys 'What is a draft model?' Enter
shows ' prefilled, '
last '>'
keys C-d
check "  leaves" shows 'ended'
check "  and only the reply went there" [ "$(wc -l <"$dir/replies")" = 1 ]

# Markdown: styled, and what is copied off the screen is what the model wrote.
"$hearth" -q --private --temp 0 -p 'c code for strlen' </dev/null >"$dir/code"
start --private --temp 0
record
keys 'c code for strlen' Enter
shows ' prefilled, '
last '>'
check "code is styled" within raw $'\033[36m'
check "  its language is named" within raw $'\033[36;1mc\033[0m'
check "  and copied it is the source" eval '
    text | sed -n "/^> c code/,/^\[/p" | sed "1d;\$d" >"$dir/copied"; diff "$dir/code" "$dir/copied"'
keys C-d
left 0

# Words are whole at the edge; what is no prose is the terminal's.
rows_have() { mux capture-pane -p | grep -qxF -- "$1"; }
mux resize-window -x 40 -y 24
start --private --temp 0
keys 'What is a draft model?' Enter
shows ' prefilled, '
last '>'
check "a reply is not cut inside a word" rows_have 'A draft model is a small model that'
check "  and goes on below" rows_have 'guesses tokens for a large one. Both'
fresh
keys '/switch none' Enter
check "nor is a message" within rows_have "hearth: /switch: no branch 'none';"
last '>'
fresh
keys '/set wrap off' Enter
last '>'
fresh
keys 'What is a draft model?' Enter
shows ' prefilled, '
last '>'
check "--wrap off cuts where the row ends" rows_have 'A draft model is a small model that gues'
check "  which is one line for who copies it" eval 'text | grep -qF "guesses tokens for a large one. Both need"'
keys C-d
left 0
start --private --temp 0 -q
keys 'c code for strlen' Enter
last '>'
check "code is not broken" eval '
    text | sed -n "/^> c code/,/^> *\$/p" | sed "1d;\$d" | grep . >"$dir/copied"; grep . "$dir/code" | diff - "$dir/copied"'
keys C-d
left 0
mux resize-window -x 80 -y 24

# Colours.
start --temp 0 -n 5
record
keys 'x' Enter
shows ' prefilled, '
last '>'
check "colours on a terminal" within raw $'\033[2m'
keys C-d
left 0
keys 'NO_COLOR=1; export NO_COLOR' Enter
start --temp 0 -n 5
record
keys 'x' Enter
shows ' prefilled, '
last '>'
check "NO_COLOR" eval '! raw $'"'\\033[2m'"' && ! raw $'"'\\033[1;32m'"
keys C-d
left 0
keys 'unset NO_COLOR; TERM=dumb; export TERM' Enter
start --temp 0 -n 5
record
keys 'x' Enter
shows ' prefilled, '
last '>'
check "a dumb terminal gets no escape at all" eval '! raw $'"'\\033'"
keys 'c code for strlen' Enter
shows '```c'
check "  nor for Markdown" eval '! raw $'"'\\033'"
last '>'
keys '/copy' Enter
check "  nor for the clipboard, which it has not" shows 'there is no clipboard here'
check "    and none came" eval '! raw $'"'\\033'"
keys C-d
left 0
keys 'TERM=of-nobody; clear' Enter
start --private -q -n 5 --color always
keys 'a line that is longer than the row in which a search of the history shows it is' Enter
last '>'
keys C-r 'longer'
shows "longer': a line"
keys C-g 'y'
check "one that cannot clear a row keeps nothing of a search in it" last '> y'
keys C-u C-d
left 0
keys 'TERM=tmux-256color; clear' Enter
printf '%q --accessible --temp 0 -n 5; echo "status $?"\n' "$hearth" >"$dir/run"
keys ". $dir/run" Enter
check "--accessible asks with a word" last 'You:'
record
keys 'hello' Enter
check "  names the reply" shows 'Assistant:'
last 'You:'
check "  and redraws nothing" eval '! raw $'"'\\033[K'"
check "  nor breaks the line of statistics" grep -q '\[stop: length, .*, seed [0-9]*\]' "$raw"
keys C-d
check "  and leaves" shows 'status 0'
done_testing
