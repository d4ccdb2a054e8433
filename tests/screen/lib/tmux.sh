# A terminal for the screen tests: a tmux server of our own with one pane, a plain shell in it.
# Sourced, not run. Waits are for what is to be seen, up to a deadline that only a failure meets;
# nothing sleeps for luck.
. tests/lib/tap.sh
export LC_ALL=C.UTF-8 INPUTRC=$dir/inputrc TMUX_TMPDIR=$dir
unset VISUAL EDITOR TMUX ENV
: >"$INPUTRC"
# Readline itself keeps a few bytes in vi mode.
echo leak:libreadline >"$dir/leaks"
export LSAN_OPTIONS=suppressions=$dir/leaks

# A server that was told to end may still take one that connects: each has a name of its own.
server=0
mux() { tmux -u -L "hearth$$-$server" -f /dev/null "$@"; }
trap 'ours && { mux kill-server 2>/dev/null; rm -rf "$dir"; }' EXIT

# screen WIDTH HEIGHT: a new pane with a shell.
screen()
{
    mux kill-server 2>/dev/null
    ((server++))
    mux new-session -d -x "$1" -y "$2" "PS1='shell: ' exec sh -i"
    mux set-option -g default-terminal tmux-256color
    shows 'shell: '
}
# within COMMAND...: it holds before the deadline. Outside of a check, too, it is a failure if it does
# not: whatever comes next would be about another screen.
patience=60
within()
{
    local deadline=$((SECONDS + patience))
    until "$@"; do
        if ((SECONDS > deadline)); then
            [ -n "$checking" ] || check "what line ${BASH_LINENO[-2]} waits for" false
            return 1
        fi
        sleep 0.03
    done
}
keys() { mux send-keys -- "$@"; }
paste() { mux set-buffer -- "$1" && mux paste-buffer -p; }
text() { mux capture-pane -p -J; }

# shows TEXT: it is on the screen before the deadline, perhaps on two rows.
has_text() { { text && text | tr -s '\n ' ' '; } | grep -qF -- "$1"; }
shows() { within has_text "$1" || { echo "# no '$1' on:" && text | sed 's/^/#   /' && return 1; }; }
hides() { ! text | grep -qF -- "$1" || { echo "# '$1' on:" && text | sed 's/^/#   /' && return 1; }; }
# looks TEXT LOOK: that is how the last place with this text looks (tests/screen/lib/looks.py).
do_look() { got=$(mux capture-pane -p -e | python3 tests/screen/lib/looks.py "$1" 2>&1) && [ "$got" = "$2" ]; }
looks()
{
    local got
    within do_look "$@" || { echo "# '$1' looks '$got', expected '$2'" && return 1; }
}
# last TEXT: the last line on the screen that is not empty is this.
ends_in() { [ "$(text | sed 's/ *$//' | grep . | tail -n 1)" = "$1" ]; }
last() { within ends_in "$1" || { echo "# the last line is not '$1' on:" && text | sed 's/^/#   /' && return 1; }; }
# speaks: words of a reply stand below the last line that was sent.
has_words() { text | awk '/^> ./ { sent = 1; n = 0; next } /[[:alpha:]]/ { n++ } END { exit !sent || n == 0 }'; }
speaks() { within has_words; }
# goes_on: the program that was stopped is in front again, so that keys are its own.
runs() { ! grep -q '^State:.*T' "/proc/$(cat "$dir/pid")/status"; }
goes_on() { within runs; }
# An empty screen with the prompt on it, and nothing of what was there before.
is_all() { [ "$(text | sed 's/ *$//' | grep .)" = "$1" ]; }
all() { within is_all "$1" || { echo "# not only '$1':" && text | sed 's/^/#   /' && return 1; }; }
fresh() { keys C-l && all '>'; }
# The same of the shell: without what the program before has left, which is not to be waited for.
fresh_shell() { keys clear Enter && all 'shell:'; }
# record: everything that reaches the terminal from now on, as bytes, in $raw. A file of its own: who
# wrote the one before may not be done with it.
raw=$dir/raw-0
record() { raw=${raw%-*}-$((${raw##*-} + 1)) && : >"$raw" && mux pipe-pane "exec cat >>'$raw'"; }
# silent: for a second nothing reaches the terminal. (What was on its way may come first.)
silent() { record && sleep 1 && [ ! -s "$raw" ]; }

# start ARGS...: hearth in the pane, up to its prompt; its exit status is shown at its end.
start()
{
    printf '%q ' "$hearth" "$@" >"$dir/command"
    printf 'clear; stty -g >%q/before; sh -c '\''echo $$ >%q/pid; exec %s'\''; echo "status $?"; stty -g >%q/after\n' \
        "$dir" "$dir" "$(sed "s/'/'\\\\''/g" "$dir/command")" "$dir" >"$dir/run"
    keys ". $dir/run" Enter
    last '>'
}
same_terminal()
{
    within [ -s "$dir/after" ] || { echo "# the shell did not come back" && return 1; }
    cmp -s "$dir/before" "$dir/after" || { echo "# $(cat "$dir/before") became $(cat "$dir/after")" && return 1; }
}
# leave STATUS: Ctrl-D; the program ends with the status and the terminal is as before.
left()
{
    shows "status $1" && same_terminal
    local result=$?
    rm -f "$dir/after"
    return $result
}