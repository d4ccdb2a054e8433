#!/usr/bin/env bash
# hearth in a pipe, as scripts meet it: what is on stdout, what on stderr, and the exit status.
. tests/lib/tap.sh

# Standard input is $dir/in.
go() { exits "$1" timeout 300 "$hearth" "${@:2}" <"$dir/in"; }
given() { printf "$@" >"$dir/in"; }
lines() { [ "$(wc -l <"$dir/out")" = "$1" ] || { echo "# $(wc -l <"$dir/out") lines" && return 1; }; }
errors() { [ "$(wc -l <"$dir/err")" = "$1" ] || { echo "# stderr: $(cat "$dir/err")" && return 1; }; }
whole_lines() { [ -s "$dir/out" ] && [ "$(tail -c 1 "$dir/out")" = "" ] && [ "$(tail -c 2 "$dir/out" | tr -d '\n' | wc -c)" = 1 ]; }

# The guide never ends its turn with these; one byte-level token again and again with the next.
endless=(--logit-bias 2045=-inf --logit-bias 2047=-inf)
say_byte() { echo "--logit-bias $("$hearth" inspect tokens -m "$guide" <"$1")=1000 --temp 0"; }

# --- One turn
given 'x'
mkdir -p "$dir/state/hearth"
echo "$dir/gone.gguf" >"$dir/state/hearth/last-model"
check "-q tells of a model of last time that is gone" eval 'go 0 -q -n 1 && errors 1 && says "the model of last time cannot be read: $dir/gone.gguf: No such file"'
rm "$dir/state/hearth/last-model"
given 'What is a draft model?\n'
check "a question on stdin" go 0
check "  the reply, one line break at its end" whole_lines
check "  nothing but the reply: it is about draft models" grep -qi 'draft' "$dir/out"
check "  one line tells of the guide" errors 1
check "  which says how to load a real model" says "hearth -m MODEL.gguf"
check "quiet is quiet" go 0 -q
check "  no word on stderr" quiet
check "-v tells the statistics" go 0 -v
check "  on stderr" says " prefilled at "
check "  and the model and where it runs" says "hearth: hearth guide (qwen3) on "
go 0 -q --temp 0 && cp "$dir/out" "$dir/stdin_reply"
given ''
check "the same question as -p" go 0 -q --temp 0 -p 'What is a draft model?'
check "  gets the same reply" cmp -s "$dir/out" "$dir/stdin_reply"
printf 'What is a draft model?\n' >"$dir/question"
check "and as -f" go 0 -q --temp 0 -f "$dir/question"
check "  too" cmp -s "$dir/out" "$dir/stdin_reply"
check "and streamed or not" go 0 -q --temp 0 --no-stream -f "$dir/question"
check "  too" cmp -s "$dir/out" "$dir/stdin_reply"
given 'c code for strlen'
check "Markdown goes into a pipe as it is" eval 'go 0 -q --temp 0 && cp "$dir/out" "$dir/code" && ! grep -q $'"'\\033'"' "$dir/out"'
check "  and styled if that is asked for" eval 'go 0 -q --temp 0 --color always && grep -q $'"'\\033\\[36m'"' "$dir/out"'
check "    with every byte of it" eval 'sed "s/\x1b\[[0-9;]*m//g" "$dir/out" | cmp -s - "$dir/code"'
# on TERM ARGS...: what a terminal of that name is given as the answer to $dir/in.
on() { TERM=$1 timeout 300 python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$hearth" -q --temp 0 --private -f "$dir/in" "${@:2}" </dev/null >"$dir/out"; }
check "on a terminal, too" eval 'on xterm && grep -q $'"'\033\[36m'"' "$dir/out"'
colourless() { for t in vt100 xterm-mono dumb; do on $t && ! grep -q $'\033' "$dir/out" || return 1; done; }
check "  not on one that has no colours" colourless
printf 'paper, hc, cols#80, bel=^G, cr=\\r, ind=\\n,\n' >"$dir/paper"
check "    nor on paper" eval 'tic -o "$dir/terminfo" "$dir/paper" && TERMINFO=$dir/terminfo on paper && ! grep -q $'"'\033'"' "$dir/out"'
check "    unless that is asked for" eval 'on vt100 --color always && grep -q $'"'\033\[36m'"' "$dir/out"'
check "  and one that terminfo does not know has them" eval 'on nonsense && grep -q $'"'\033\[36m'"' "$dir/out"'
check "  but not in a file" eval 'go 0 -q --temp 0 --color always -o "$dir/reply" && cmp -s "$dir/reply" "$dir/code"'
check "  nor in JSON" eval 'go 0 -q --temp 0 --color always --json && ! grep -q "u001b" "$dir/out"'
given ''
check "-o FILE takes the reply" go 0 -q --temp 0 -f "$dir/question" -o "$dir/reply"
check "  the reply is there" cmp -s "$dir/reply" "$dir/stdin_reply"
check "  and not on stdout" nothing
check "-o - is standard output" eval '(cd "$dir" && go 0 -q --temp 0 -f question -o - && cmp -s out stdin_reply && [ ! -e ./- ])'
check "  whatever the environment says" eval 'HEARTH_OUTPUT=$dir/new go 0 -q --temp 0 -f "$dir/question" -o - && cmp -s "$dir/out" "$dir/stdin_reply" && [ ! -e "$dir/new" ]'
check "  and a file of that name has a folder" eval '(cd "$dir" && go 0 -q --temp 0 -f question -o ./- && cmp -s ./- stdin_reply && rm ./-)'
check "-o into a folder that is not there" go 1 -q -p x -o "$dir/no/such"
check "  says so" says "no/such: cannot be written: No such file or directory"
check "  and ends with JSON, too" go 1 -q --jsonl -p x -o "$dir/no/such"
check "  that has nowhere to go" nothing
echo 'an earlier reply' >"$dir/kept"
check "what is in FILE stays when nothing is answered" eval 'yes x | head -c 20000 >"$dir/long" && go 3 -q -f "$dir/long" -o "$dir/kept" && [ "$(cat "$dir/kept")" = "an earlier reply" ]'
check "  and goes when there are no prompts" eval 'go 0 -q --stdin lines -o "$dir/kept" && [ ! -s "$dir/kept" ]'
# none STATUS ARGS...: -o of a file that is not there leaves it so.
none() { rm -f "$dir/new" && go "$1" -q -o "$dir/new" "${@:2}" && [ ! -e "$dir/new" ]; }
check "a new FILE is not there then" none 3 -f "$dir/long"
check "  nor without a model" none 1 -m "$dir/none.gguf" -p x
check "  nor through a link" eval 'rm -f "$dir/to" && ln -s to "$dir/link" && go 3 -q -f "$dir/long" -o "$dir/link" && [ -L "$dir/link" ] && [ ! -e "$dir/to" ]'
check "  but without prompts it is" eval 'rm -f "$dir/new" && go 0 -q --stdin lines -o "$dir/new" && [ -f "$dir/new" ]'
check "a missing file of -f is missing as -o, too" none 1 -p x -f "$dir/new"
check "  and is named" says "new: No such file or directory"
check "  one of --prompts, too" none 1 --prompts "$dir/new"
check "    by name" says "new: No such file or directory"
check "  JSON says so in it" eval 'go 1 -q --json -p x -f "$dir/new" -o "$dir/new" && grep -q "new: No such file" "$dir/new"'
LC_ALL=C sed 's/qwen3/qwen9/g' examples/guide/guide-draft-q8_0.gguf >"$dir/draft.gguf"
check "a draft of another family, whose file is named once" eval \
    'go 1 --draft "$dir/draft.gguf" -p x && says "hearth: the draft: $dir/draft.gguf: hearth does not know the model family"'
for n in 64 512; do
    "$hearth" inspect make --type Q8_0 "$dir/draft$n.gguf" 2>/dev/null --shape \
        n_layer=1,n_embd=32,n_head=1,n_head_kv=1,head_dim=32,n_ff=32,n_vocab=2080,n_ctx=$n
done
say_all() { for _ in $(seq 80); do printf 'all of it '; done; }
check "a draft whose context is full" go 0 --draft "$dir/draft64.gguf" -n 4 -p "$(say_all)"
check "  says so" says "the draft's context of 64 tokens is full: it guesses no more"
check "a longer one is not" go 0 --draft "$dir/draft512.gguf" -n 4 -p "$(say_all)"
check "  and says nothing" eval '! says "is full"'
spares() # WHOSE ARGS...
{
    cp "$guide" "$dir/mine"
    go 2 -q -o "$dir/mine" "${@:2}" && cmp -s "$guide" "$dir/mine" &&
        says "--output: expected another file than that of $1, found '$dir/mine'"
}
check "-o into the model" spares --model -m "$dir/mine" -p x
check "-o into the draft" spares --draft --draft "$dir/mine" -p x
check "-o into a file of prompts" spares --prompts --prompts "$dir/mine"
check "-o into a file of -f" spares --file -f "$dir/mine" --json
echo 'max-tokens = 2' >"$dir/config.ini"
# keeps OPTION FILE ARGS...
keeps() { cp "$2" "$dir/kept" && go 2 -q -p x -o "$2" "${@:3}" && cmp -s "$2" "$dir/kept" && says "than that of $1, found '$2'"; }
check "-o into the configuration" keeps --config "$dir/config.ini" -c "$dir/config.ini"
mkdir -p "$dir/config/hearth" && cp "$dir/config.ini" "$dir/config/hearth/hearth.ini"
check "  also where no option names it" keeps --config "$dir/config/hearth/hearth.ini"
rm "$dir/config/hearth/hearth.ini"
check "  but into one that is not read" go 0 -q -p x -n 1 -o "$dir/config.ini"
echo 'Be brief.' >"$dir/brief"
check "-o into the system message" keeps --system "$dir/brief" --system "@$dir/brief"
sessions=$dir/state/hearth/sessions
check "-o into the session" eval 'go 0 -q -p x -n 1 -s spared && keeps --session "$sessions/spared.session" -s spared'
check "  also before it is there" go 2 -q -p x -n 1 -s nobody -o "$sessions/../sessions/nobody.session"
check "    by name" says "than that of --session, found '$sessions/../sessions/nobody.session'"
check "  or that of last time" keeps --continue "$sessions/spared.session" --continue
rm "$sessions/spared.session"
given 'x'
check "-o into standard input" go 2 -q -o "$dir/in"
check "  leaves it" eval '[ "$(cat "$dir/in")" = x ]'
given ''
check "-o into a device" go 0 -q -p x -n 1 -o /dev/null

# Stdin, a blank line, the prompt: the same tokens as that text, written out. Some
# of them may have been kept on disk.
prompt_tokens()
{
    sed -E 's/.*"cached":([0-9]+),"prefilled":([0-9]+).*/\1 \2/' "$dir/out" | {
        read -r cached prefilled
        echo $((cached + prefilled))
    }
}
joined()
{
    given 'one\ntwo\n\n'
    go 0 --json -n 1 -p 'three' && local a && a=$(prompt_tokens) || return 1
    given 'one\ntwo\n\nthree'
    go 0 --json -n 1 || return 1
    [ "$a" = "$(prompt_tokens)" ]
}
check "stdin comes before the prompt, a blank line between" joined
files()
{
    printf 'first' >"$dir/a"
    printf 'third\n' >"$dir/b"
    given 'second\n'
    go 0 --json -n 1 -f "$dir/a" -f - -f "$dir/b" -p 'fourth' && local a && a=$(prompt_tokens) || return 1
    given 'first\n\nsecond\n\nthird\n\nfourth'
    go 0 --json -n 1 || return 1
    [ "$a" = "$(prompt_tokens)" ]
}
check "-f - names the place of stdin among files" files

given ''
check "nothing to answer" go 2
check "  is said" says "nothing to answer: standard input is empty and there is no --prompt"
echo >"$dir/blank"
check "a blank prompt" go 2 -p '  ' -f "$dir/blank" </dev/null
check "  is not said to be missing" says "nothing to answer: standard input is empty, -f has no text and --prompt is blank"
given ' \n\n'
check "nor in blanks" go 2
given 'temp = 0.3\n'
check "nor where standard input is the configuration" go 2 -c -
check "  which is said" says "nothing to answer: standard input was read as the configuration and there is no --prompt"
given 'x'
check "a file that is missing" go 1 -f "$dir/none"
check "  is named" says "none: No such file or directory"
check "a folder as a file" go 1 -f "$dir"
check "  is named" says "irectory"
check "a model that is missing" go 1 -m "$dir/none.gguf"
check "  is named" says "none.gguf: No such file or directory"
check "a folder as a model" go 1 -m "$dir"
evil=$dir/$(printf 'evil\033[31m')
check "a hostile name" eval 'go 1 -m "$evil" && go 1 -f "$evil" && go 1 -o "$evil/x"'
check "  is made harmless" says 'evil\x1b[31m'
: >"$dir/empty.gguf"
check "an empty file as a model" go 1 -m "$dir/empty.gguf"
check "  is named" says "empty.gguf: is empty"
check "  and nothing is on stdout" nothing
check "a template that is not there" go 1 --template "$dir/none" -p x </dev/null
check "  is called one" says "the template: $dir/none: No such file or directory"
check "a template that is built in" exits 0 "$hearth" --template raw --private --jsonl -n 1 -p Hi </dev/null
check "  adds nothing to what is said" prints '"prefilled":1,'
check "  is none in another case" go 1 --template Raw -p x </dev/null
check "a FIFO is read to its end, as that of <(command)" eval \
    'go 0 -f <(echo "What is a draft model?") --temp 0 --private </dev/null && prints "A draft model is"'
check "  a template, too" eval \
    'go 0 --template <(echo "{{ messages[0].content }}") -n 2 --private -p x </dev/null'
check "  and a configuration" eval 'go 0 -c <(echo "max-tokens = 2") --private -p x </dev/null'
check "an unknown option" go 2 --temprature 1
check "a value out of range" go 2 --temp=-1
check "a full screen without a terminal" go 2 --tui
check "  is refused by name" says "--tui: needs a terminal, and standard input is none"
printf 'tui = on\n' >"$dir/tui.ini"
check "  but a configuration that asks for one leaves a pipe as it is" eval \
    'echo x | go 0 -c "$dir/tui.ini" --private -n 2'
check "  and --plain wins over it" eval 'go 0 -c "$dir/tui.ini" --plain --print-config && has "^tui = off"'
check "  also from the same place it is one or the other" go 2 --tui --plain
check "    by both names" says "--tui: cannot be together with --plain"
check "to go on at a terminal that is not there" exits 2 setsid -w "$hearth" -i -p x </dev/null
check "  is refused by name" says "--interactive: standard input is no terminal, and there is no other"
check "  or with JSON" go 2 -i --json -p x
check "    by both names" says "--interactive: cannot be together with --json"
check "  or with a turn per line" go 2 -i --stdin lines
check "    by both names" says "--interactive: cannot be together with --stdin"
check "  and what a configuration says leaves a pipe as it is" eval \
    'echo x | HEARTH_INTERACTIVE=on exits 0 setsid -w "$hearth" --private -n 2'
mkdir -p "$dir/config/hearth/hearth.ini"
check "an unreadable configuration" go 2
check "  is named" says "hearth.ini"
rmdir "$dir/config/hearth/hearth.ini"

# --- What is no text
given 'What is \xff\xfe a draft model?'
check "invalid UTF-8 on stdin" go 0
check "  one warning" says "standard input is not valid UTF-8"
check "  and no second" errors 2
given 'What is\0a draft model?'
check "NUL bytes" go 0
check "  are warned of" says "warning: standard input has NUL bytes: expected UTF-8 text"
given 'a\0b\ncaf\xe9\nx\n\xe9\n'
check "lines of both kinds" go 0 -q -n 1 --private --stdin lines
check "  are warned of" eval 'says "standard input has NUL bytes" && says "standard input is not valid UTF-8"'
check "  once each" errors 2
printf 'a\0b' >"$dir/nul.txt"
printf 'caf\xe9' >"$dir/latin.txt"
given ''
check "files that are no text" go 0 -q -n 1 --private -f "$dir/nul.txt" -f "$dir/latin.txt" -p x
check "  are all named" eval 'says "nul.txt has NUL bytes" && says "latin.txt is not valid UTF-8" && errors 2'
given 'What is\0a draft model?'
check "a NUL byte, quietly" go 0 -q
check "  a reply" whole_lines
check "  which its session keeps" eval 'go 0 -q -n 2 -s nul && go 0 sessions export --json nul && prints "What is\u0000a draft model?" && quiet'
printf '\0' >"$dir/nul"
given 'x'
check "  and one in a reply" eval 'go 0 -q -n 2 -s nul $(say_byte "$dir/nul") && go 0 sessions export --json nul && prints "\"\u0000\u0000\"" && quiet'
given '{"prompt":"What is\\u0000a page?","id":"\\u0000"}\n'
check "  and one in JSON" eval 'go 0 --jsonl --stdin jsonl -n 2 && prints "\"id\":\"\u0000\""'

# A byte order mark is none of the text.
cached() { grep -o '"usage":{[^}]*' "$dir/out"; }
unmarked() { given "$1" && go 0 --json -n 1 --private "${@:2}" && cached >"$dir/plain"; }
marked() { given '\xef\xbb\xbf'"$1" && go 0 --json -n 1 --private "${@:2}" && [ "$(cached)" = "$(cat "$dir/plain")" ]; }
check "a byte order mark before a text" eval 'unmarked "hello" && marked "hello"'
check "  before a file" eval 'unmarked "hello" -f - -p x && marked "hello" -f - -p x'
check "  before lines" eval 'unmarked "hello\n" --stdin lines && marked "hello\n" --stdin lines'
check "  before JSON" eval 'unmarked "{\"prompt\":\"x\"}\n" --stdin jsonl && marked "{\"prompt\":\"x\"}\n" --stdin jsonl'
check "  before a system message" eval 'unmarked "Be brief." -p x --system "@$dir/in" && marked "Be brief." -p x --system "@$dir/in"'
head -c 10000000 /dev/urandom | base64 -w 0 | head -c 10000000 >"$dir/in"
check "10 MB are refused as too long" go 3 -q
check "  with numbers" grep -qE 'the prompt has [0-9]+ tokens, the context holds 2048' "$dir/err"
check "  and nothing on stdout" nothing
truncate -s 70M "$dir/in"
check "70 MB are refused before they are read" go 3 -q
check "  with a number" says "more than 64 MiB"
for option in -f --prompts; do
    check "  as a file of $option, too" go 3 -q $option "$dir/in"
    check "    by name" says "hearth: $dir/in: more than 64 MiB, longer than any context"
done
head -c 30M /dev/zero | tr '\0' '\377' >"$dir/in"
cp "$dir/in" "$dir/large"
check "30 MB of bytes that are three each as U+FFFD, too" go 3 -q
check "  by name" says "hearth: standard input: more than 64 MiB, longer than any context"
check "  also as a file" eval 'go 3 -q -f "$dir/large" </dev/null && says "hearth: $dir/large: more than 64 MiB"'
tr '\377' x <"$dir/in" >"$dir/large"
check "and three files of which none is too long" eval 'go 3 -q -f "$dir/large" -f "$dir/large" -f "$dir/large" </dev/null && says "hearth: the message: more than 64 MiB"'
rm "$dir/large"

# Plain text is never a control token: it costs what its characters cost, not one token.
plain_tokens() { printf '%s' "$1" | "$hearth" inspect tokens -m "$guide" | wc -w; }
control_is_text()
{
    local with without
    given '%s' "x <|im_end|>"
    go 0 --json -n 1 && with=$(prompt_tokens) && given 'x' && go 0 --json -n 1 && without=$(prompt_tokens) || return 1
    ((with - without == $(plain_tokens 'x <|im_end|>') - $(plain_tokens 'x')))
}
check "a control token that is typed is text" control_is_text
control_in_file()
{
    local with without
    given ''
    printf 'x <|im_end|>' >"$dir/a"
    printf 'x' >"$dir/b"
    go 0 --json -n 1 -f "$dir/a" && with=$(prompt_tokens) && go 0 --json -n 1 -f "$dir/b" && without=$(prompt_tokens) || return 1
    ((with - without == $(plain_tokens 'x <|im_end|>') - $(plain_tokens 'x')))
}
check "in a file too" control_in_file
control_in_system()
{
    local with without
    given 'x'
    go 0 --json -n 1 --system 'x <|im_end|>' && with=$(prompt_tokens) &&
        go 0 --json -n 1 --system 'x' && without=$(prompt_tokens) || return 1
    ((with - without == $(plain_tokens 'x <|im_end|>') - $(plain_tokens 'x')))
}
check "in a system message too" control_in_system

# --- Many turns
given 'What is a draft model?\n\n  \n/help\r\nHow do I quit?'
check "--stdin lines" go 0 --stdin lines -q --temp 0
check "  a reply for each line that is not blank, nothing between" lines 3
check "  the first as if alone" cmp -s <(head -n 1 "$dir/out") "$dir/stdin_reply"
check "  the last ends its line" whole_lines
check "the turns are warm" go 0 --stdin lines --jsonl --temp 0 --cache-disk 0
check "  the second reuses the first" python3 -c '
import json, sys
ends = [e for e in map(json.loads, open(sys.argv[1])) if e["type"] == "end"]
assert len(ends) == 3 and ends[0]["usage"]["cached"] == 0
for a, b in zip(ends, ends[1:]):
    assert b["usage"]["cached"] >= a["usage"]["prefilled"] + a["usage"]["cached"], (a, b)
' "$dir/out"
# In a script nobody types a command: what is said of a full context is an option.
for i in 1 2 3; do echo 'Count from 1 to 20'; done >"$dir/in"
check "lines that fill the context" go 3 --stdin lines --ctx 128 --temp 0
check "  the option that makes room is named" says "; --overflow trim drops the oldest turns"
check "  no command is" eval '! says /trim >/dev/null'
given hi
check "a reply that the context cuts off" go 0 --stdin lines --ctx 10 --temp 0
check "  is told" says "warning: the context of 10 tokens is full: the reply is cut off"
for i in 1 2 3; do echo 'Count from 1 to 20'; done >"$dir/in"
check "--overflow trim goes on" go 0 --stdin lines --ctx 128 --temp 0 --overflow trim
check "  and says what it dropped" says 'dropped the oldest turn, "Count from 1 to 20"'
# Marks of the template are a token each: 30 turns of 9 and their replies fit.
for i in {1..30}; do echo hi; done >"$dir/in"
check "--overflow trim drops nothing that fits" \
    go 0 --stdin lines --temp 0 -n 5 --ctx 600 --overflow trim
check "  and says nothing" eval '! says dropped >/dev/null'
# A prompt that no context holds is refused alone.
{ echo hello && seq -s ' ' 700 && echo 'How do I quit?'; } >"$dir/in"
check "a line that is too long" go 3 -q --temp 0 --stdin lines
check "  is named" says "hearth: standard input, line 2: the prompt has "
check "  once" errors 1
check "  has an empty line for a reply" eval 'lines 3 && [ -z "$(sed -n 2p "$dir/out")" ]'
cp "$dir/out" "$dir/three"
given 'hello\nHow do I quit?\n'
check "  and leaves the conversation as it was" eval 'go 0 -q --temp 0 --stdin lines && cmp -s "$dir/out" <(sed 2d "$dir/three")'
{ seq -s ' ' 700 && echo hello; } >"$dir/in"
check "  files stand before the first that is answered" eval 'go 3 -q --temp 0 --stdin lines -f "$dir/question" && sed 1d "$dir/out" >"$dir/second" && given "hello\n" && go 0 -q --temp 0 --stdin lines -f "$dir/question" && cmp -s "$dir/out" "$dir/second"'
{ seq -s ' ' 700 && seq -s ' ' 800; } >"$dir/in"
check "  also when all lines are" eval 'go 3 -q --prompts "$dir/in" </dev/null && errors 2 && says "hearth: $dir/in, line 2: the prompt has "'
printf '{"prompt":"%s","id":"%s","new":%s}\n' hello a false "$(seq -s ' ' 700)" b true hello c false >"$dir/in"
check "  of JSON, too" go 3 -q --temp 0 --stdin jsonl --jsonl
check "    each end has its status, and the last that of the run" python3 -c '
import json, sys
e = [x for x in map(json.loads, open(sys.argv[1])) if x["type"] == "end"]
assert [(x.get("id"), x["exit"]) for x in e] == [("a", 0), ("b", 3), ("c", 0), (None, 3)], e
assert e[1]["error"].startswith("standard input, line 2: the prompt has ") and "error" not in e[2], e
assert e[2]["usage"]["prefilled"] + e[2]["usage"]["cached"] == e[0]["usage"]["prefilled"], e
' "$dir/out"
# Conversations that were left in a pipe are nobody's to go back to, but in a session.
for i in {1..1010}; do echo hi; done >"$dir/in"
check "a thousand conversations one after another" go 0 -q --private --stdin lines --forget -n 0
check "  say nothing of branches" quiet
check "  but in a session" eval 'go 0 -q -s left-behind --cache-disk 0 --stdin lines --forget -n 0 && says "1000 branches were left behind" && rm "$sessions/left-behind.session"'
given ''
check "no lines at all" go 0 --stdin lines
check "  no reply" nothing
given 'x\n'
check "lines and a prompt exclude each other" go 2 --stdin lines -p x
replies_come_at_once()
{
    coproc H { "$hearth" --stdin lines -q --temp 0 2>/dev/null; }
    local reply='' second='' pid=$H_PID
    echo 'What is a draft model?' >&"${H[1]}"
    read -r -t 120 reply <&"${H[0]}"
    echo 'How do I quit?' >&"${H[1]}"
    read -r -t 120 second <&"${H[0]}"
    eval "exec ${H[1]}>&-"
    wait "$pid" && [ "$reply" = "$(cat "$dir/stdin_reply")" ] && [ -n "$second" ]
}
check "each reply comes before the next line is read" replies_come_at_once
# cut_short_in_use BYTES ARGS...: a new download over the old file, say, that came so far.
cut_short_in_use()
{
    cp "$guide" "$dir/cut.gguf"
    coproc H {
        export ASAN_OPTIONS=handle_sigbus=0
        exec "$hearth" --private -m "$dir/cut.gguf" --stdin lines -q --temp 0 "${@:2}" 2>"$dir/err"
    }
    local reply='' pid=$H_PID
    echo 'What is a draft model?' >&"${H[1]}"
    read -r -t 120 reply <&"${H[0]}"
    truncate -s "$1" "$dir/cut.gguf"
    echo 'How do I quit?' >&"${H[1]}"
    eval "exec ${H[1]}>&-"
    wait "$pid"
    [ $? = 1 ] && [ "$reply" = "$(cat "$dir/stdin_reply")" ]
}
check "a model that is cut short while in use ends it" cut_short_in_use 0
check "  with its name" says "hearth: $dir/cut.gguf: can no longer be read: it was cut short while in use"
check "  on one line" errors 1
# The scalar products read the file itself, on all threads; the first half holds what comes first.
check "  also where several threads meet it" cut_short_in_use 4M --cpu scalar -t 4
check "    with its name" says "hearth: $dir/cut.gguf: can no longer be read: it was cut short while in use"
check "    once" errors 1


# --- Input that is typed
# On a terminal as both, what was typed and then the end of it.
typed() { timeout 300 script -qec "'$hearth' --private -n 2 $1" /dev/null <"$dir/in" 2>&1 | tr -d '\r' >"$dir/out"; }
hints() { typed "$1" && [ "$(grep -c "^hearth: type $2; Ctrl-D on a line of its own ends" "$dir/out")" = "$3" ]; }
given 'hello\nand who are you?\n'
check "typed lines are asked for, once" hints '--stdin lines' 'a message and Return' 1
check "  not with -q" hints '-q --stdin lines' 'a message and Return' 0
check "  nor where errors go elsewhere" hints "--stdin lines 2>'$dir/err'" 'a message and Return' 0
check "a typed message for -f -, too" hints '-f -' 'the message' 1
given '{"prompt":"hello"}\n'
check "typed JSON, too" hints '--stdin jsonl' '{"prompt": "..."} and Return' 1
no_screen() { typed "--tui $1"; prints "hearth: --tui: $2 (try hearth --help)"; }
check "no full screen for a prompt" no_screen '-p x' 'cannot be together with --prompt, which answers and exits (-i goes on)'
check "  nor for a file" no_screen '-f Makefile' 'cannot be together with --file, which answers and exits (-i goes on)'
check "  nor for JSON, which nothing goes on after" no_screen '--json -p x' 'cannot be together with --json, which answers and exits'
check "  nor without a screen" eval 'no_screen "2>&1 | cat" "needs a terminal, and standard output is none"'
check "nothing where nothing is typed" eval 'go 0 --stdin jsonl -n 2 && ! says Ctrl-D >/dev/null'

given ''
check "a warning within a reply leaves one line break behind it" eval \
    'XDG_CACHE_HOME=/dev/null timeout 300 script -qec "$hearth -p hello --temp 0" /dev/null <"$dir/in" | tr -d "\r" >"$dir/out" && has "^hearth: warning: what is computed" && ! grep -qx "" "$dir/out"'
check "  nor where both go into one file" eval \
    'XDG_CACHE_HOME=/dev/null "$hearth" -q -p hello --temp 0 >"$dir/out" 2>&1 <"$dir/in" && has "^hearth: warning: what is computed" && ! grep -qx "" "$dir/out"'
# Nothing of such a conversation can be saved: what leaves it asks once.
printf 'a\rb\r/quit\r/quit\r' >"$dir/in"
homeless() { XDG_STATE_HOME=/dev/null/x exits 0 timeout 300 script -qec "$hearth -q --plain" /dev/null <"$dir/in"; }
check "no home for a history" homeless
tr -d '\r' <"$dir/out" >"$dir/plain" && mv "$dir/plain" "$dir/out"
check "  is said by its name" has "^hearth: what you type is not remembered: /dev/null/x: cannot make the folder:"
check "  and once" [ "$(grep -c 'not remembered' "$dir/out")" = 1 ]

# --- JSON
given 'What is a draft model?\n'
json() { python3 - "$dir/out" "$@"; }
check "--json" go 0 --json --temp 0
check "  one object" lines 1
check "  with the text" json "$dir/stdin_reply" <<'PY'
import json, sys
e = json.loads(open(sys.argv[1]).read())
assert e["type"] == "end" and e["stop"] == "end" and e["exit"] == 0
assert e["text"] == open(sys.argv[2]).read().rstrip("\n")
assert set(e["usage"]) == {"cached", "prefilled", "generated", "drafted", "accepted"}
assert e["timings"]["decode_ms"] > 0
PY
check "--jsonl" go 0 --jsonl --temp 0
check "  start, prefill, text, end" json "$dir/stdin_reply" <<'PY'
import json, sys
events = [json.loads(l) for l in open(sys.argv[1])]
types = [e["type"] for e in events]
assert types[0] == "start" and types[1] == "prefill" and types[-1] == "end"
assert set(types) == {"start", "prefill", "text", "end"}
text = "".join(e["text"] for e in events if e["type"] == "text")
assert text == open(sys.argv[2]).read().rstrip("\n")
last = [e for e in events if e["type"] == "prefill"][-1]
assert last["done"] == last["total"]
PY
check "--jsonl with --no-stream" go 0 --jsonl --no-stream --temp 0
check "  has the reply in one piece" json "$dir/stdin_reply" <<'PY'
import json, sys
events = [json.loads(l) for l in open(sys.argv[1])]
texts = [e["text"] for e in events if e["type"] == "text"]
assert texts == [open(sys.argv[2]).read().rstrip("\n")], texts
assert [e["type"] for e in events[-2:]] == ["text", "end"]
PY
# All of a reply is reasoning where the prompt has begun some.
echo '{% for m in messages %}{{ m.content }}{% endfor %}<think>' >"$dir/think.jinja"
check "  and the reasoning" go 0 --jsonl --no-stream --temp 0 -n 8 --template "$dir/think.jinja"
check "  of one piece, too" json <<'PY'
import json, sys
events = [json.loads(l) for l in open(sys.argv[1])]
assert [e["type"] for e in events[-2:]] == ["reasoning", "end"], events
assert events[-1]["usage"]["generated"] == 8 and len(events[-2]["text"]) > 8, events
assert sum(e["type"] in ("text", "reasoning") for e in events) == 1, events
PY
check "--jsonl ends with an end whatever happens" go 1 --jsonl -m "$dir/none.gguf"
check "  with the error and the status" json <<'PY'
import json, sys
e = json.loads(open(sys.argv[1]).read().splitlines()[-1])
assert e["type"] == "end" and e["stop"] == "error" and e["exit"] == 1 and "none.gguf" in e["error"]
PY
check "  where the configuration is wrong there is no run" go 2 --json --system "@$dir/none" -p x </dev/null
check "    and no end of one" nothing
check "    but an error" says "--system: $dir/none: No such file or directory"
ends_with() { python3 -c '
import json, sys
e = [json.loads(line) for line in open(sys.argv[1])]
assert eval("(" + sys.argv[2] + ")"), e
' "$dir/out" "$1"; }
check "also when no model has the name" go 1 --jsonl -m nosuchmodel
check "  the same" ends_with 'e[-1]["type"] == "end" and e[-1]["exit"] == 1 and "nosuchmodel" in e[-1]["error"]'
check "  and on stderr" says 'hearth: nosuchmodel'
mkfifo "$dir/open"
refused_at_once()
{
    local writes reads got=0
    exec {writes}<>"$dir/open" {reads}<"$dir/open"
    exits 1 timeout 300 "$hearth" --jsonl -m nosuchmodel <&"$reads" || got=1
    exec {writes}>&- {reads}<&-
    return $got
}
check "  at once where standard input is a pipe that stays open" refused_at_once
check "    too" says 'hearth: nosuchmodel'
given '{"prompt":"hello","id":1}\n{"prompt":7,"id":"two"}\n'
check "also when a line is wrong after one that was right" go 2 --stdin jsonl --jsonl -n 1
check "  that turn and the error" ends_with '
    [x["exit"] for x in e if x["type"] == "end"] == [0, 2] and e[-1]["stop"] == "error" and
    "line 2" in e[-1]["error"] and e[-1]["id"] == "two"'
check "  with --json too" eval 'go 2 --stdin jsonl --json -n 1 && ends_with "[x[\"exit\"] for x in e] == [0, 2] and \"text\" in e[0]"'
for blank in '' ' \n'; do
    given '{"prompt":"hello"}\n{"prompt":"%s","id":"two"}\n' "$blank"
    check "also when a prompt is '$blank'" go 2 --stdin jsonl --jsonl -n 1
    check "  which is named" says 'standard input, line 2: "prompt" must be a text that is not empty'
    check "  with its id" ends_with 'e[-1]["exit"] == 2 and "line 2" in e[-1]["error"] and e[-1]["id"] == "two"'
done
given hello
go 0 -q -s kept -n 1
"$hearth" sessions export --plain kept >"$dir/before"
given '{"prompt":" ","new":true}\n'
check "  and begins no new conversation" go 2 -s kept --stdin jsonl
check "  in the session" cmp -s "$dir/before" <("$hearth" sessions export --plain kept)
given '{"prompt":""}\n'
check "  but behind a file it is one" go 0 --stdin jsonl -n 1 -f "$dir/question"
given '{"prompt":"hello"}\nhello\n'
check "also when a line is no JSON" go 2 --stdin jsonl --jsonl -n 1
check "  without what belongs to the turn before" ends_with '"id" not in e[-1] and "expected a JSON object: " in e[-1]["error"]'
# wrong_at_once LINE: behind which nothing comes, and no end of it either.
wrong_at_once()
{
    local writes reads got=0
    exec {writes}<>"$dir/open" {reads}<"$dir/open"
    echo "$1" >&"$writes"
    exits 2 timeout 60 "$hearth" -q --private --stdin jsonl --json <&"$reads" || got=1
    exec {writes}>&- {reads}<&-
    return $got
}
for line in garbage '{"id":3}' '{"prompt":" "}' '{"prompt":"x","schema":{"not":{}}}'; do
    check "a wrong line ends the run at once where more may come: $line" wrong_at_once "$line"
    check "  with an end" ends_with 'len(e) == 1 and e[0]["exit"] == 2 and "line 1" in e[0]["error"]'
done
given ''
check "also without any turn" go 0 --stdin jsonl --jsonl
check "  which is no error" ends_with 'len(e) == 1 and e[0]["stop"] == "end" and e[0]["exit"] == 0'
check "  no context nor seed, which only a turn has" ends_with '"seed" not in e[-1] and "context" not in e[-1] and "usage" in e[-1]'
terminated_between()
{
    rm -f "$dir/out" # what is looked for below is in that of the run before, too
    mkfifo "$dir/turns"
    env --default-signal=TERM "$hearth" -q --jsonl --stdin lines -n 1 <"$dir/turns" >"$dir/out" 2>"$dir/err" &
    local pid=$! status
    exec 8>"$dir/turns"
    echo hello >&8
    until grep -q '"end"' "$dir/out"; do kill -0 $pid || return 1; sleep 0.02; done
    kill -TERM $pid
    wait $pid
    status=$?
    exec 8>&-
    ((status == 143)) && ends_with '[x["exit"] for x in e if x["type"] == "end"] == [0, 143]'
}
check "also when a signal comes between two turns" terminated_between
yes | head -c 20000 >"$dir/in"
check "--json of a prompt that is too long" go 3 --json
check "  has the status" json <<'PY'
import json, sys
e = json.loads(open(sys.argv[1]).read())
assert e["type"] == "end" and e["exit"] == 3 and "context holds" in e["error"]
PY
printf '\033' >"$dir/esc"
given 'x\n'
# shellcheck disable=SC2046
check "an ESC in a reply" go 0 --jsonl -n 5 $(say_byte "$dir/esc")
check "  is escaped in JSON" eval '! grep -q $'"'\\033'"' "$dir/out" && grep -qF "\\u001b" "$dir/out"'
check "  and raw in a pipe" eval 'go 0 -q -n 5 $(say_byte "$dir/esc") && [ "$(tr -dc "\033" <"$dir/out" | wc -c)" = 5 ]'
check "  and shown at a terminal, also one that -o names" eval 'timeout 300 script -qec "$hearth -q -n 5 -p x -o /dev/tty $(say_byte "$dir/esc")" /dev/null </dev/null >"$dir/out" && [ "$(grep -o "\\\\x1b" "$dir/out" | wc -l)" = 5 ] && ! grep -q $'"'\\033'"' "$dir/out"'
printf '\377' >"$dir/ff"
check "a reply that is not UTF-8" eval 'go 0 -n 5 $(say_byte "$dir/ff")'
check "  is U+FFFD" grep -q $'\xef\xbf\xbd' "$dir/out"
check "  with one warning" errors 2
printf '\n' >"$dir/lf"
given 'x\ny\n'
check "replies of line breaks alone" eval 'go 0 -q -n 5 --stdin lines $(say_byte "$dir/lf")'
check "  end in one each" lines 2

# --- Endings
given 'x\n'
check "the limit of tokens" go 0 --json -n 7
check "  is the reason" grep -q '"stop":"length"' "$dir/out"
check "a full context" go 0 --json --ctx 100 "${endless[@]}"
check "  is the reason" grep -q '"stop":"context"' "$dir/out"
check "a stop string" go 0 --json --temp 0 --stop model -p 'What is a draft model?'
check "  is the reason" grep -q '"stop":"stop"' "$dir/out"
check "a full disk" eval '! "$hearth" -q -p x >/dev/full 2>"$dir/err"'
check "  one error" errors 1
check "  that says so" says "standard output: cannot be written: No space left on device"
limited() { (ulimit -f "$1" && go "${@:2}"); }
check "a limit on the size of files" limited 1 1 -q --cache-disk 0 -o "$dir/limited" "${endless[@]}" -p x
check "  one error" errors 1
check "  that says so" says "limited: cannot be written: File too large"
check "  what fitted is there" [ "$(wc -c <"$dir/limited")" = 1024 ]
# Where the address space ends, from before the weights are there to behind the scratch.
too_little()
{
    local kib
    for ((kib = 40000; kib <= 240000; kib += 20000)); do
        (ulimit -v $kib && "$hearth" -q -n 1 -p x </dev/null) >"$dir/out" 2>"$dir/err" && continue
        ! grep -q ' 0 [KMG]iB' "$dir/err" || { echo "# $kib: $(cat "$dir/err")" && return 1; }
    done
}
check "too little memory for something is told with its size" too_little
closed() { "$hearth" -q -p x >&- 2>"$dir/err"; [ $? = 1 ]; }
check "a closed stdout" closed
check "  one error" errors 1
no_stdin() { "$hearth" -q -p 'What is a draft model?' --temp 0 <&- >"$dir/out" 2>"$dir/err"; }
check "a closed stdin with a prompt" no_stdin
check "  a reply" cmp -s "$dir/out" "$dir/stdin_reply"
closed_stdin() { exits "$1" timeout 300 "$hearth" -q --private "${@:2}" <&-; }
check "  without one there is nothing to answer" closed_stdin 2
check "    and why is said" says "standard input is not open for reading and there is no --prompt"
check "  nor is it read where it is named" closed_stdin 1 -p x -f -
check "    which is said" says "standard input: is not open for reading"
check "    nor as lines" closed_stdin 1 --stdin lines
check "      which is said" says "standard input: is not open for reading"
check "  and one that is open for writing only is none either" eval \
    'exits 2 timeout 300 "$hearth" -q --private 0>"$dir/in" && says "standard input is not open for reading"'
reader_leaves()
{
    "$hearth" -q "${endless[@]}" -p x </dev/null 2>"$dir/err" | head -c 1 >/dev/null
    [ "${PIPESTATUS[0]}" = 141 ]
}
check "a reader that leaves ends it" reader_leaves
check "  quietly" quiet
reader_leaves_early()
{
    yes word | head -c 8000 >"$dir/long"
    "$hearth" -q --cpu scalar -t 1 "${endless[@]}" -f "$dir/long" </dev/null 2>"$dir/err" | true
    [ "${PIPESTATUS[0]}" = 141 ]
}
check "also before the first word" reader_leaves_early

# A job of a script ignores SIGINT until it has become hearth; a signal before that is lost.
is_hearth() { until [ "$(cat "/proc/$1/comm")" = hearth ]; do kill -0 "$1" || return 1; sleep 0.005; done 2>/dev/null; }
# signalled SIGNAL STATUS: at a random moment of load, prefill and decode.
signalled()
{
    local i pid got
    for ((i = 0; i < ${HEARTH_SOAK:-1} * 12; i++)); do
        env --default-signal=INT,TERM,HUP "$hearth" -q "${endless[@]}" --cpu scalar -t 1 -p "tell me all" \
            </dev/null >"$dir/out" 2>"$dir/err" &
        pid=$!
        is_hearth $pid
        sleep "0.$(printf %03d $((RANDOM % 400)))"
        kill -"$1" $pid
        wait $pid
        got=$?
        ((got == $2)) && [ ! -s "$dir/err" ] || { echo "# round $i: status $got, $(cat "$dir/err")" && return 1; }
        # What was said is there, as whole lines.
        [ ! -s "$dir/out" ] || whole_lines || { echo "# round $i: an open line" && return 1; }
    done
}
RANDOM=7
check "SIGINT at random moments" signalled INT 130
check "SIGTERM at random moments" signalled TERM 143
check "SIGHUP at random moments" signalled HUP 129
interrupted_stdin()
{
    local got
    mkfifo "$dir/fifo"
    env --default-signal=INT "$hearth" -q <"$dir/fifo" 2>"$dir/err" &
    local pid=$!
    exec 9>"$dir/fifo"
    is_hearth $pid
    kill -INT $pid
    wait $pid
    got=$?
    exec 9>&-
    ((got == 130))
}
check "SIGINT while stdin has not ended" interrupted_stdin

# A file that never comes: what waits for it ends at once.
waits_for()
{
    local pid got
    env --default-signal=INT,TERM "$hearth" -q -p x "${@:3}" "$dir/never" </dev/null >"$dir/out" 2>"$dir/err" &
    pid=$!
    is_hearth $pid
    until grep -q fifo "/proc/$pid/wchan" || [ "$(awk '{ print $3 }' "/proc/$pid/stat")" = S ]; do
        kill -0 $pid || break
        sleep 0.01
    done
    sleep 0.1
    kill -"$1" $pid
    timeout 120 tail --pid=$pid -f /dev/null || kill -9 $pid
    wait $pid
    got=$?
    ((got == $2)) || { echo "# status $got: $(cat "$dir/err")" && return 1; }
}
mkfifo "$dir/never"
check "SIGTERM ends the wait for a file" waits_for TERM 143 -f
check "  SIGINT too" waits_for INT 130 -f
check "  SIGTERM that for a template" waits_for TERM 143 --template
check "    quietly" quiet

# Stopped and woken it says what it would have said. Job control gives each job a group of its own.
stopped()
{
    "$hearth" -q --temp 0 -n 200 "${endless[@]}" --cpu scalar -t 1 -p "tell me all" </dev/null >"$dir/whole"
    set -m
    local i pid status=0
    for ((i = 0; i < ${HEARTH_SOAK:-1} * 6; i++)); do
        "$hearth" -q --temp 0 -n 200 "${endless[@]}" --cpu scalar -t 1 -p "tell me all" </dev/null >"$dir/out" &
        pid=$!
        sleep "0.$(printf %03d $((RANDOM % 300)))"
        kill -TSTP $pid 2>/dev/null
        sleep 0.05
        kill -CONT $pid 2>/dev/null
        wait -f $pid || status=1
        cmp -s "$dir/out" "$dir/whole" || status=1
    done 2>/dev/null
    set +m
    return $status
}
check "SIGTSTP and SIGCONT at random moments" stopped

check "no trace but the cache: a pipe keeps no history" [ ! -e "$dir/state/hearth/history" ]
done_testing
