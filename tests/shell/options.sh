#!/usr/bin/env bash
# Every option of the table, each value that it can take: it is in force, or it is refused by name
# because its feature is not built, and --help says so; a bad value is refused with what was expected.
. tests/lib/tap.sh

go()
{
    "$hearth" --print-config "$@" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

# help_of NAME: its lines of --help on one
"$hearth" --help | sed '/^Subcommands/q' >"$dir/help"
help_of()
{
    awk -v name="--$1" '
        /^  +-/ { on = 0; for (i = 1; i <= 2; i++) on = on || $i == name }
        on' "$dir/help" | tr -s ' \n' ' '
}

# What --help says is not built of an option: "all", words, or nothing.
missing_of()
{
    local text words
    text=$(help_of "$1")
    [[ $text == *"not built yet)"* ]] || return
    words=$(sed -nE 's/.*\(([^()]*)not built yet\).*/\1/p' <<<"$text")
    words=${words//,/ }
    [ -n "${words// /}" ] && echo "$words" || echo all
}

# in_force_or_refused NAME VALUE SHOWN ARGS...: SHOWN as --print-config writes it
in_force_or_refused()
{
    local name=$1 value=$2 shown=$3 missing
    shift 3
    missing=" $(missing_of "$name") "
    go "$@"
    if ((status == 0)); then
        grep -qF -- "$name = $shown  ; flag --$name" "$dir/out" ||
            { echo "# printed: $(grep -E "^(# )?$name\b" "$dir/out")" && return 1; }
        [[ $missing != *" ${value%%:*} "* ]] || { echo "# --help says it is not built" && return 1; }
    else
        ((status == 2)) || { echo "# status $status: $(cat "$dir/err")" && return 1; }
        grep -qE -- "^hearth: --$name: (.* )?is not built yet" "$dir/err" ||
            { echo "# said: $(cat "$dir/err")" && return 1; }
        [ ! -s "$dir/out" ] || { echo "# and printed something" && return 1; }
        [[ $missing == *" all "* || $missing == *" ${value%%:*} "* ]] ||
            { echo "# --help does not say so" && return 1; }
    fi
}

# takes NAME VALUE...: each value; where --help says that something is missing, something is
seen=" "
takes()
{
    local name=$1 value refused=0
    seen+="$name "
    shift
    for value; do
        check "--$name $value" in_force_or_refused "$name" "$value" "$value" "--$name" "$value"
        ((refused += status != 0))
    done
    if [ -n "$(missing_of "$name")" ]; then
        check "--$name: some of it is refused, as --help says" [ $refused != 0 ]
    fi
}

# switch NAME: on by itself, off by =off
switch()
{
    seen+="$1 "
    check "--$1" in_force_or_refused "$1" on on "--$1"
    go "--$1" "--$1=off"
    check "--$1=off" grep -qF -- "$1 = off  ; flag --$1" "$dir/out"
}

# refuses NAME VALUE EXPECTED
refuses()
{
    local found="'$2'"
    [ -n "$2" ] || found=nothing
    go "--$1" "$2"
    check "--$1 '$2' is refused" [ $status = 2 ]
    check "  with what was expected" grep -qxF -- \
        "hearth: --$1: expected $3, found $found (try hearth --help)" "$dir/err"
}

takes model /m.gguf
refuses model '' 'a path'
takes lora /a.gguf
takes lora-scale 0 1 -0.5 100
refuses lora-scale x 'a number from -100 to 100'
refuses lora-scale 101 'a number from -100 to 100'
takes draft off lookup
takes template /t.jinja
takes device auto cpu vulkan vulkan:1
refuses device gpu 'auto, cpu or vulkan[:N]'
refuses device vulkan:x 'auto, cpu or vulkan[:N]'
takes gpu-layers -1 0 3
refuses gpu-layers -2 'a whole number from -1 to 100000, all or auto'
for word in all auto; do
    check "--gpu-layers $word" in_force_or_refused gpu-layers -1 -1 --gpu-layers $word
done
go --gpu-layers 0 --device vulkan:0
check "no layers on a device that is named" [ $status = 2 ]
check "  are refused" grep -qF -- '--gpu-layers: 0 means the CPU, but --device is vulkan:0' "$dir/err"
switch allow-inexact
takes cpu auto scalar simd dotprod avx2 avxvnni avx512 amx
refuses cpu sse 'auto, scalar, simd, dotprod, avx2, avxvnni, avx512 or amx'
takes threads 0 7 256
refuses threads 1.5 'a whole number from 0 to 256'
refuses threads 257 'a whole number from 0 to 256'
check "as many threads as are allowed compute" exits 0 "$hearth" -q --private -t 256 -n 1 -p Hi </dev/null
takes ctx 0 4096
refuses ctx -1 'a whole number from 0 to 16777216'
takes kv-type f32 f16 q8_0 q4_0
refuses kv-type q6_K 'f32, f16, q8_0 or q4_0'
takes cache-ram 0 2G
takes cache-disk 0 512M
refuses cache-disk lots 'a size such as 512M or 4G'
takes warm-typing on off

takes system 'Be brief.'
takes prompt hello
takes file - /a.txt
takes stdin text lines jsonl
takes prompts /a.txt
switch interactive
switch forget
refuses stdin csv 'text, lines or jsonl'
takes output /dev/null
switch no-stream
switch json
switch jsonl
takes schema /s.json json off
refuses schema '' 'a path, {...}, off or json'
go --schema '{"type": "null"}'
check "--schema itself" grep -qxF 'schema = "{\"type\": \"null\"}"  ; flag --schema' "$dir/out"
go --schema $'\n{"type": 1}'
check "  behind a line end" grep -qxF 'schema = "\n{\"type\": 1}"  ; flag --schema' "$dir/out"

takes max-tokens -1 0 5
refuses max-tokens -2 'a whole number of at least -1'
takes temp 0 0.5 2
refuses temp -1 'a number from 0 to 100'
refuses temp hot 'a number from 0 to 100'
takes top-k 0 40
takes top-p 0 1
refuses top-p 1.01 'a number from 0 to 1'
takes min-p 0.05
takes repeat-penalty 1.1
refuses repeat-penalty 0 'a number from 0.01 to 100'
takes repeat-last-n -1 0 64
takes presence-penalty -0.5
takes frequency-penalty 0.5
takes logit-bias 5=-1.5
for bias in 5 5=1e7 5=inf; do
    refuses logit-bias $bias "ID=X, a token's number and a bias from -1e6 to 1e6 or -inf"
done
takes logit-bias 5=1e+06
takes seed 18446744073709551615
refuses seed -1 'a whole number below 2^64'
takes reply-seed 7
takes stop User:
takes overflow stop trim
refuses overflow wrap 'stop or trim'
takes think on off hide show
refuses think maybe 'on, off, hide or show'

takes session work
switch continue
switch private

switch tui
switch plain
switch accessible
takes color auto always never
refuses color sometimes 'auto, always or never'
takes wrap on off
refuses wrap words 'off or on'
switch quiet
switch verbose
# What hearth.ini(5) says on or off can be, of those that must be told, too.
reads() { go "--$1=$2" && grep -qF -- "$1 = $3  ; flag --$1" "$dir/out" || { cat "$dir/err" && return 1; }; }
for name in quiet warm-typing wrap; do
    for word in ON yes True 1; do check "--$name=$word is on" reads $name $word on; done
    for word in Off no false 0; do check "--$name=$word is off" reads $name $word off; done
done

# The rest is about hearth itself.
printf '[profile p]\ntemp = 1\n' >"$dir/c.ini"
go -c "$dir/c.ini" -P P
check "--config and --profile" grep -qF 'temp = 1  ; profile p' "$dir/out"
for flag in --help -h --version -V --list-devices --print-config "--completion bash"; do
    # shellcheck disable=SC2086
    "$hearth" $flag >"$dir/out" 2>"$dir/err"
    check "$flag" [ $? = 0 ] && check "  prints to stdout alone" [ -s "$dir/out" ] &&
        check "  nothing to stderr" [ ! -s "$dir/err" ]
done
seen+="config profile help version list-devices print-config "

# No row is forgotten here.
grep -oE -- '^ {2,6}(-., )?--[a-z0-9-]+' "$dir/help" | sed 's/.*--//' >"$dir/names"
while read -r name; do
    [[ $seen == *" $name "* ]] || check "--$name is tried here" false
done <"$dir/names"
check "all options of --help were tried" [ "$(wc -l <"$dir/names")" -gt 45 ]

# A value of higher rank takes the place of one that is not built.
go --tui --tui=off
check "an option taken back is not refused" [ $status = 0 ]
# From the environment and from a file it is refused by the name it has there.
HEARTH_SESSION=x go
session=$status
printf 'session = x\n' >"$dir/s.ini"
go -c "$dir/s.ini"
check "the environment and a file are treated alike" [ $session = $status ]
[ $status = 0 ] || check "  and the file is named" \
    grep -qF "$dir/s.ini:1: session: is not built yet" "$dir/err"

# Forms
same() { [ "$(grep '^temp' "$dir/out")" = "temp = 0.5  ; flag --temp" ] || cat "$dir/err"; }
for form in "--temp 0.5" "--temp=0.5" "--temp 1 --temp 0.5"; do
    # shellcheck disable=SC2086
    go $form
    check "$form" same
done
go -qn5
check "-qn5" eval 'grep -q "^quiet = on" "$dir/out" && grep -q "^max-tokens = 5 " "$dir/out"'
go --temp
check "a value that is missing" grep -qxF \
    "hearth: --temp: expected a number from 0 to 100 after it (try hearth --help)" "$dir/err"
go --tmep 1
check "a mistyped option" grep -qxF \
    "hearth: --tmep: unknown option, did you mean --temp? (try hearth --help)" "$dir/err"
check "  status 2" [ $status = 2 ]
# one_dash ARG NAME: which is no letters with a value.
one_dash()
{
    go "$1" x
    [ $status = 2 ] && grep -qxF -- "hearth: -$2: did you mean --$2? (try hearth --help)" "$dir/err" ||
        { sed 's/^/# /' "$dir/err" && return 1; }
}
for name in $(cat "$dir/names"); do
    check "-$name is not taken for letters" one_dash "-$name" "$name"
done
check "  nor with a value" one_dash -seed=5 seed
check "  nor one of a subcommand's own" exits 2 "$hearth" inspect greedy -ids 1
check "    which is named" says "hearth: inspect greedy: -ids: did you mean --ids?"
check "  but the value of another it may be" eval 'go -p -private && grep -qF "prompt = -private" "$dir/out"'
go -Z
check "an unknown letter" grep -qF "hearth: -Z: unknown option" "$dir/err"
go "$(printf -- '--\033[31m')"
check "a hostile name is shown harmless" grep -qF 'hearth: --\x1b[31m: unknown option' "$dir/err"
go model.gguf
check "a model without -m" grep -qF "model.gguf: unexpected argument; a model is named with -m" "$dir/err"
# Those that hearth(1) says exclude each other; the second one may be in the environment.
excludes()
{
    local first=$1 name=${2%%=*} value=on
    [[ $2 == *=* ]] && value=${2#*=}
    go "--$first" "--$2"
    [ $status = 2 ] || { echo "# both were taken" && return 1; }
    name=${name//-/_}
    export "HEARTH_${name^^}=$value"
    go "--$first"
    unset "HEARTH_${name^^}"
    [ $status = 0 ] || { cat "$dir/err" && return 1; }
}
for pair in json:jsonl session=a:continue session=a:private continue:private tui:plain tui:accessible \
    quiet:verbose prompt=x:prompts=/x prompt=x:stdin=lines prompt=x:stdin=jsonl interactive:prompts=/x \
    interactive:stdin=lines interactive:json interactive:jsonl gpu-layers=0:device=vulkan; do
    check "--${pair%:*} and --${pair#*:} exclude each other" excludes "${pair%:*}" "${pair#*:}"
done

# --- The names of llama.cpp and ollama
foreign()
{
    go "$1" "$2"
    grep -qF -- "$3 = $2  ; flag --$3" "$dir/out" || { cat "$dir/err" && return 1; }
}
for name in -ngl --n-gpu-layers --num-gpu; do check "$name" foreign $name 0 gpu-layers; done
for name in --ctx-size --num-ctx; do check "$name" foreign $name 512 ctx; done
for name in --predict --n-predict --num-predict; do check "$name" foreign $name 7 max-tokens; done
check "--num-thread" foreign --num-thread 2 threads
check "--temperature" foreign --temperature 0.5 temp
for name in -sys --system-prompt; do check "$name" foreign $name 'Be kind.' system; done
for name in -md --model-draft; do check "$name" foreign $name off draft; done
for name in -cnv --conversation --interactive-first; do check "$name" eval 'go $name && grep -qF "interactive = on  ; flag --interactive" "$dir/out"'; done
for name in --json-schema -jf --json-schema-file; do check "$name" foreign $name /s.json schema; done
check "--chat-template-file" foreign --chat-template-file /t.jinja template
check "-ngl=0" eval 'go -ngl=0 && grep -qF "gpu-layers = 0  ; flag --gpu-layers" "$dir/out"'
go --ctx-size x
check "a bad value is refused by the name that was given" grep -qF "hearth: --ctx-size: expected" "$dir/err"
# What has no counterpart is not taken for letters: -h and f, or a session named t.
refused()
{
    local name=${1#-}
    go "$1" x
    [ $status = 2 ] && [ ! -s "$dir/out" ] && grep -qF -- "hearth: $1: $2" "$dir/err" || return
    name=${name#-}
    grep -qF -- "${name//-/\\-}" man/hearth.1
}
for name in -hf -hfr --hf-repo -mu --model-url; do check "$name" refused $name 'hearth downloads none'; done
for name in -st --single-turn -no-cnv --no-conversation; do check "$name" refused $name 'hearth answers -p and exits'; done
for name in --grammar --grammar-file; do check "$name" refused $name '--schema FILE.gbnf takes a grammar'; done
check "--lora-scaled" refused --lora-scaled '--lora FILE names the adapter'
for name in -ctk -ctv --cache-type-k --cache-type-v; do check "$name" refused $name '--kv-type is'; done
for name in -sysf --system-prompt-file; do check "$name" refused $name '--system @FILE'; done
for name in -fa --flash-attn; do check "$name" refused $name 'there is one way'; done
go -ng 0
check "no other letters are a word" [ $status = 2 ]
for name in $(sed -nE 's/^ *\{"([a-z-]+)", OPT_.*/\1/p' src/config/option_table.c); do
    check "hearth(1) has $name" grep -qF -- "${name//-/\\-}" man/hearth.1
done
# Help of a subcommand, as ollama asks for it, and who is told of it.
for word in bench "inspect plan" sessions; do
    # shellcheck disable=SC2086
    check "help $word" cmp <("$hearth" help $word) <("$hearth" $word --help)
    # shellcheck disable=SC2086
    check "  which $word names when it is called wrongly" eval \
        '! "$hearth" $word --frob 2>"$dir/err" && grep -qF "(try hearth $word --help)" "$dir/err"'
done
check "--help fits 80 columns" eval '! "$hearth" --help | grep -qE ".{81}"'
check "help run" cmp <("$hearth" help run) <("$hearth" --help)
check "run --help" cmp <("$hearth" run --help) <("$hearth" --help)
check "help list" cmp <("$hearth" help list) <("$hearth" models --help)
for words in "help benhc" "benhc --help"; do
    # shellcheck disable=SC2086
    check "$words" exits 2 "$hearth" $words
    check "  is told what it may have been" grep -qF "benhc: unexpected argument, did you mean hearth bench?" "$dir/err"
done
check "help of no subcommand" exits 2 "$hearth" help frob
check "  is told, with those that there are" says "hearth: frob: no such subcommand, expected one of: bench, inspect, models, sessions, cache (try hearth --help)"
for words in "version x" "--version x"; do
    # shellcheck disable=SC2086
    check "$words" exits 2 "$hearth" $words
    check "  is too much" says "version: takes nothing after it"
done
check "version alone" cmp <("$hearth" version) <("$hearth" --version)
check "help alone" cmp <("$hearth" help) <("$hearth" --help)
done_testing
