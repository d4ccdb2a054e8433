#!/usr/bin/env bash
# The first start on a terminal: models that others keep are offered once; the choice is remembered.
. tests/screen/lib/tmux.sh
export OLLAMA_MODELS=$dir/ollama
ollama=$OLLAMA_MODELS
. tests/lib/ollama.sh
mkdir -p "$XDG_CACHE_HOME/llama.cpp"
cp "$guide" "$XDG_CACHE_HOME/llama.cpp/small.gguf"
last_model=$XDG_STATE_HOME/hearth/last-model
is_gone() { ! has_text "$1"; }
# go_in ARGS...: hearth in the pane, up to the text that comes first.
go_in()
{
    local wait=$1
    shift
    # What the run before has left is not what this one shows.
    keys clear Enter
    within is_gone "$wait"
    printf 'clear; %q' "$hearth" >"$dir/run"
    printf ' %q' "$@" >>"$dir/run"
    echo '; echo "status $?"' >>"$dir/run"
    keys ". $dir/run" Enter
    shows "$wait"
}
screen 80 24
check "the first start asks" go_in 'Return for the bundled guide:' --temp 0
check "  with what it found" shows '  1  small (llama.cpp)'
check "  and what that is" shows 'context 2,048, fits in memory'
keys '7' Enter
check "a number that is not there" shows 'expected a number from 1 to 1'
keys 'x' Enter
asked() { [ "$(text | grep -c "Which one")" = "$1" ]; }
check "  or none is asked again" within asked 3
keys 'y' Enter 'z' Enter
check "    as often as it takes" within asked 5
keys C-c
check "Ctrl-C leaves" last 'shell:'
check "  and nothing is remembered" [ ! -e "$last_model" ]
go_in 'Return for the bundled guide:' --temp 0
keys C-d
check "so does Ctrl-D" shows 'status 0'
check "  and nothing is remembered" [ ! -e "$last_model" ]
go_in 'Return for the bundled guide:' --temp 0
keys '1' Enter 'typed ahead'
check "a number opens it" shows '/help lists'
check "  what was typed behind it is at the prompt" last '> typed ahead'
keys C-u '/show model' Enter
check "  it is the one" shows 'llama.cpp/small.gguf'
keys C-d
shows 'status 0'
check "  it is remembered" [ "$(cat "$last_model")" = "$XDG_CACHE_HOME/llama.cpp/small.gguf" ]
go_in '/help lists' --temp 0
check "the next start does not ask" hides 'Which one'
keys C-d
shows 'status 0'
echo "$dir/gone.gguf" >"$last_model"
go_in 'Return for the bundled guide:' --temp 0
check "a model of last time that is gone is missed" shows 'the model of last time cannot be read: '
keys C-c
last 'shell:'
: >"$dir/empty.gguf"
echo "$dir/empty.gguf" >"$last_model"
go_in 'empty.gguf: is empty' --temp 0
check "one that does not open is said to be of last time" \
    shows 'the model of last time does not open; -m names another'
last 'shell:'
rm "$last_model"
go_in 'Return for the bundled guide:' --temp 0
keys Enter
check "Return alone is the guide" shows 'this is the bundled guide'
last '>'
keys C-d
shows 'status 0'
go_in '/help lists' --temp 0
check "  and is not asked again" hides 'Which one'
check "  but told of it" shows 'hearth models lists those'
keys C-d
shows 'status 0'
rm "$last_model"
go_in '/help lists' -m "$guide"
check "a model that is named asks nothing" hides 'Which one'
keys C-d
shows 'status 0'
rm -f "$last_model"
go_in 'status 0' --private -n 2 -p hello
check "nor does a prompt that is given" hides 'Which one'

# Two models of Ollama's with the weights of the guide: what a Modelfile has added comes with them.
printf 'You are Mario.' >"$dir/system"
echo '{"temperature":0.25,"top_k":7}' >"$dir/params"
ollama_put mario model "$guide" system "$dir/system" params "$dir/params"
printf 'You are Luigi.' >"$dir/system"
ollama_put luigi model "$guide" system "$dir/system"
go_in '/help lists' -m mario
check "a model of Ollama's tells of its system message" \
    shows 'the model brings a system message: "You are Mario."; /system shows it'
check "  and is remembered by its name" within grep -qx mario:latest "$last_model"
keys '/show settings' Enter
check "its settings are the model's" shows 'temp               0.25       the model'
last '>'
keys '/model luigi' Enter
check "/model to one of the same weights" shows 'the model brings a system message: "You are Luigi."'
last '>'
keys '/show settings' Enter
check "  has its own settings" shows 'temp               0.7        built-in'
keys '/system mine' Enter '/model mario' Enter
last '>'
keys '/system' Enter
check "one of the user's stays" within eval 'text | grep -qx mine'
keys '/system -' Enter '/model luigi' Enter
last '>'
keys '/system' Enter
check "  as none does" shows 'no system message'
keys C-d
shows 'status 0'
go_in '/help lists' --top-p 1
check "the next start has what was last" shows 'a system message: "You are Luigi."'
cp "$guide" "$dir/plain.gguf"
keys "/model $dir/plain.gguf" Enter
check "/model of a file" shows 'the system message was of the model before, and is left out'
keys '/system' Enter
check "  has none" shows 'no system message'
keys C-d
shows 'status 0'
echo gone:latest >"$last_model"
go_in 'Return for the bundled guide:' --temp 0
check "a name that is listed no more is missed" shows 'the model of last time is missing: gone:latest'
done_testing
