#!/usr/bin/env bash
# Runs suites of tests, counts their cases and ends with one line: N passed, N failed, N skipped.
# usage: [B=build] [HEARTH=build/hearth] tests/run.sh [SUITE|SUITE/TEST]...
# suites: unit ops model shell screen fuzz conformance; a test: unit/test_gguf, shell/install
# Everything must be built (`make test` does that). Logs of all programs lie in $B/test-logs.
set -u
cd "$(dirname "$0")/.."
export B=${B:-build}
export HEARTH=${HEARTH:-$B/hearth} LC_ALL=C.UTF-8
# Nothing of the user's own may leak in, nothing of ours out.
unset NO_COLOR CLICOLOR_FORCE COLUMNS LINES CDPATH BASH_ENV ENV
for name in "${!GIT_@}"; do unset "$name"; done
export TERM=xterm SHELL=/bin/sh # of script(1) and tmux
umask 022
for name in "${!HEARTH_@}"; do
    [ "$name" = HEARTH_SOAK ] || unset "$name"
done
logs=$B/test-logs
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hearth-tests-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$logs" "$scratch/home"
export HOME=$scratch/home TMPDIR=$scratch
unset XDG_CONFIG_HOME XDG_CACHE_HOME XDG_STATE_HOME

passed=0 failed=0 skipped=0
kit=../shared/conformance

# What this machine, or this user, may lack; where the kit is there, any other skip is a failure.
may_lack='avx|amx|vulkan|root|small_disk|zsh|fish'

# tally NAME STATUS LOG: adds what the TAP lines of a log say; a program that ended badly, or that
# ran no test, is a failure of its own.
tally()
{
    local name=$1 status=$2 log=$3 p f s
    grep -E '^(not )?ok\b.*# *SKIP' "$log" >"$scratch/skips"
    s=$(wc -l <"$scratch/skips")
    if [ -e "$kit" ]; then
        grep -viE "$may_lack" "$scratch/skips" |
            sed -E 's/^(not )?ok [0-9]*(.*)# *SKIP/not ok - skipped though the kit is there:\2/' \
                >"$scratch/wrong"
        ((s -= $(wc -l <"$scratch/wrong")))
        cat "$scratch/wrong" >>"$log"
    fi
    p=$(grep -E '^ok\b' "$log" | grep -vcE '# *SKIP')
    f=$(grep -E '^not ok\b' "$log" | grep -vcE '# *SKIP')
    if ((status == 124 || status == 137)); then
        ((f++))
        echo "not ok - $name did not end within $deadline s" >>"$log"
    elif ((status != 0 && f == 0)); then
        f=1
        echo "not ok - $name ended with status $status" >>"$log"
    elif ((p + f + s == 0)); then
        f=1
        echo "not ok - $name ran no test" >>"$log"
    fi
    ((passed += p, failed += f, skipped += s))
    if ((f)); then
        echo "--- $name: $f failed; $log ends:"
        grep -vE '^ok\b' "$log" | tail -n 40
    fi
}

# A test that hangs is ended, and named. The longest takes minutes; a machine may be slow, and shared.
deadline=${TEST_TIMEOUT:-1800}

# run NAME COMMAND...: one program that prints TAP.
run()
{
    local name=$1 log=$logs/${1//\//-}.log status=0
    shift
    timeout -k 10 "$deadline" "$@" >"$log" 2>&1 </dev/null || status=$?
    tally "$name" "$status" "$log"
}

# one SOURCE: a test by its file, whatever its kind.
one()
{
    local thing
    # What these call is not built for another processor.
    if [[ $1 = tests/ops/test_emulated* && $(uname -m) != x86_64 ]]; then
        ((skipped++))
        return
    fi
    case $1 in
    tests/fuzz/driver.c) ;;
    tests/fuzz/*.c)
        thing=${1#tests/fuzz/fuzz_}
        run "${1%.c}" "$B/${1%.c}" "tests/fuzz/corpus/${thing%.c}"
        ;;
    *.c) CMOCKA_MESSAGE_OUTPUT=TAP run "${1%.c}" "$B/${1%.c}" ;;
    *.sh) run "${1%.sh}" bash "$1" ;;
    esac
}

# suite NAME: every test of a folder, or the single one of folder/test.
suite()
{
    local source found=0
    for source in tests/"$1"/*.c tests/"$1"/*.sh tests/"$1".c tests/"$1".sh; do
        [ -e "$source" ] || continue
        found=1
        one "$source"
    done
    if ((!found)); then
        echo "tests/run.sh: no test $1" >&2
        exit 2
    fi
}

# The kit's own checker drives `hearth inspect`; its last line is "what: N/M agree".
conformance()
{
    local what only log status good all
    for what in quants tokenizers templates logits; do
        if [ ! -e "$kit" ]; then
            ((skipped++))
            echo "skipped: $what of the conformance kit ($kit is not there)"
            continue
        fi
        only=.
        [ $what = logits ] && only=${LOGITS:-'^(llama|qwen2$|qwen3($|-)|phi3|mistral3|smollm3)'}
        log=$logs/conformance-$what.log status=0
        timeout -k 10 "$deadline" python3 "$kit/tools/check.py" $what --hearth "$HEARTH" --only "$only" \
            -v >"$log" 2>&1 || status=$?
        read -r good all < <(sed -nE '$s/^[a-z]+: ([0-9]+)\/([0-9]+) agree.*/\1 \2/p' "$log")
        if [ -z "${all:-}" ]; then
            ((failed++))
            echo "--- conformance $what: status $status; $log ends:"
            tail -n 10 "$log"
            continue
        fi
        ((passed += good, failed += all - good))
        ((good == all)) || { echo "--- conformance: $(tail -n 1 "$log")"; head -n 20 "$log"; }
        good='' all=''
    done
}

minutes()
{
    local tenths=$((($1 + 3) / 6))
    echo "$((tenths / 10)).$((tenths % 10)) min"
}

suites=("$@")
((${#suites[@]})) || suites=(unit ops model shell screen fuzz conformance)
for suite in "${suites[@]}"; do
    start=$SECONDS p=$passed f=$failed s=$skipped
    case $suite in
    conformance) conformance ;;
    unit | ops | model | shell | screen | fuzz | */*) suite "$suite" ;;
    *)
        echo "tests/run.sh: no suite $suite" >&2
        exit 2
        ;;
    esac
    printf '%-12s %6d passed, %d failed, %d skipped, %s\n' "$suite:" \
        $((passed - p)) $((failed - f)) $((skipped - s)) "$(minutes $((SECONDS - start)))"
done
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0 && passed > 0))
