# What every test in bash shares, sourced from the top of the checkout: the program, the guide, a
# folder that goes away again and takes hearth's own files, TAP lines, and a command with what it
# printed.
set -u
hearth=$(realpath "${HEARTH:-build/hearth}")
guide=$PWD/examples/guide/guide-q8_0.gguf
dir=$(mktemp -d)
# A job that a signal ends before it has become its program would run this trap, too.
ours() { [ "$BASHPID" = $$ ]; }
trap 'ours && rm -rf "$dir"' EXIT
export XDG_STATE_HOME=$dir/state XDG_CONFIG_HOME=$dir/config XDG_CACHE_HOME=$dir/cache
# Nor models of other programs: the first start would ask about them.
export OLLAMA_MODELS=$dir/none
unset HEARTH_MODEL NO_COLOR LLAMA_CACHE HF_HOME HF_HUB_CACHE COLUMNS LINES
export TERM=xterm SHELL=/bin/sh # of script(1) and tmux
n=0 failed=0 checking=

# check NAME COMMAND...: one case, which passes if the command succeeds.
check()
{
    local name=$1 checking=yes
    shift
    ((n++))
    if "$@"; then echo "ok $n - $name"; else echo "not ok $n - $name" && ((failed++)); fi
}
# skip NAME REASON: one case that cannot be tried here.
skip() { echo "ok $((++n)) - $1 # SKIP $2"; }
# The plan, and the status of the whole test.
done_testing()
{
    echo "1..$n"
    ((failed == 0))
}

# exits STATUS COMMAND...: keeps $dir/out and $dir/err and compares the status.
exits()
{
    local want=$1 got
    shift
    "$@" >"$dir/out" 2>"$dir/err"
    got=$?
    ((got == want)) || { echo "# status $got, expected $want: $(head -c 500 "$dir/err")" && return 1; }
}
# go STATUS ARGS...: hearth itself; standard input is the caller's.
go() { exits "$1" "$hearth" "${@:2}"; }

# found FILE GREP-ARGS...: a line of a file of $dir.
found() { grep -q "${@:2}" "$dir/$1" || { sed "s/^/# $1: /" "$dir/$1" && return 1; }; }
says() { found err -F -- "$1"; }   # this text, on standard error
prints() { found out -F -- "$1"; } # on standard output
has() { found out -E -- "$1"; }    # this expression
quiet() { [ ! -s "$dir/err" ] || { sed 's/^/# err: /' "$dir/err" && return 1; }; }
nothing() { [ ! -s "$dir/out" ] || { sed 's/^/# out: /' "$dir/out" && return 1; }; }
