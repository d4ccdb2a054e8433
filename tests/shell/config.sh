#!/usr/bin/env bash
# Configuration from outside: the example files, the order of precedence, --print-config read back,
# and what a wrong file says.
. tests/lib/tap.sh

# config STATUS ARGS...: prints the configuration to $dir/out, messages to $dir/err.
config() { exits "$1" "$hearth" --print-config "${@:2}" </dev/null; }

# has KEY VALUE [ORIGIN]: a line of the output
has()
{
    grep -qF -- "$1 = $2  ; ${3:-}" "$dir/out" ||
        { echo "# found: $(grep -E "^(# )?$1\b" "$dir/out")" && return 1; }
}
says() { found err -xF -- "hearth: $1"; }

# --- The examples
values() { sed -E 's/  ; .*//; /^#/d' "$1"; }
for file in examples/*.ini; do
    check "$file" config 0 -c "$file"
    check "  says nothing" [ ! -s "$dir/err" ]
    mapfile -t profiles < <(sed -nE 's/^\[profile +([^]]+)\]/\1/p' "$file")
    for profile in "${profiles[@]}"; do
        check "  profile $profile" config 0 -c "$file" -P "$profile"
        check "    sets something" grep -q "; profile $profile, $file:" "$dir/out"
        cp "$dir/out" "$dir/first.ini"
        check "    and is read back" config 0 -c "$dir/first.ini"
        check "    with the same values" cmp <(values "$dir/first.ini") <(values "$dir/out")
    done
done
# A key that is commented out, as in "#ctx = 8192", is a key too.
sed -E 's/^#([a-z-]+ = )/\1/' examples/hearth.ini >"$dir/all.ini"
check "hearth.ini with everything switched on" config 0 -c "$dir/all.ini"
check "  has a context" has ctx 8192 "[hearth], $dir/all.ini:"
# On standard input, which then nothing else reads.
piped() { local status=$1; shift; echo "top-k = 7" | exits "$status" "$hearth" "$@"; }
check "-c - is standard input" piped 0 -c - --print-config
check "  where its values come from" has top-k 7 "[hearth], standard input:1"
check "  what is wrong there" eval 'echo top-k | exits 2 "$hearth" -c - --print-config'
check "    has its place" says "standard input:1: expected KEY = VALUE, found 'top-k'"
check "  the prompt is another's to give" eval 'echo "max-tokens = 1" | exits 0 "$hearth" -q -c - -p hello && [ -s "$dir/out" ]'
check "  or its own" eval 'printf "max-tokens = 1\nprompt = hello\n" | exits 0 "$hearth" -q -c - && [ -s "$dir/out" ]'
for other in "--file -" "--prompts -" "--stdin lines" "--stdin jsonl"; do
    check "  it goes with no $other" piped 2 -c - $other
    check "    which is said" says "--config - and $other: only one of them can read standard input"
done
check "  nor with what subcommands read" piped 2 inspect tokens -c -
check "    which is said" says "inspect tokens: --config: expected a file, found '-': standard input is what subcommands work on (try hearth inspect tokens --help)"
check "  one that is closed" exits 2 "$hearth" -c - --print-config <&-
check "    is said" says "standard input: is not open for reading"
check "  a file of that name" eval 'echo "top-k = 8" >"$dir/-" && cd "$dir" && piped 0 -c ./- --print-config && cd "$OLDPWD" && has top-k 8'
check "a system message over two lines" config 0 -c examples/code.ini -P commit
check "  is one text" grep -q '^system = "*Write .* imperative, an empty line' "$dir/out"
check "script.ini stops at a line break" eval \
    'config 0 -c examples/script.ini -P classify && has stop "\"\\\\n\"" "profile classify"'

# --- Precedence: flag > environment > profile > [hearth] > built-in
mkdir -p "$dir/config/hearth"
printf '%s\n' 'temp = 0.1' 'top-k = 1' 'min-p = 0.3' '[profile p]' 'temp = 0.2' 'top-k = 2' \
    >"$dir/config/hearth/hearth.ini"
ini=$dir/config/hearth/hearth.ini
check "all sources" eval 'HEARTH_TEMP=0.3 config 0 -P p --seed 5'
check "  a flag" has seed 5 "flag --seed"
check "  the environment above a profile" has temp 0.3 "environment HEARTH_TEMP"
check "  a profile above [hearth]" has top-k 2 "profile p, $ini:6"
check "  [hearth]" has min-p 0.3 "[hearth], $ini:3"
check "  built-in" has top-p 0.95 "built-in"
check "a flag above the environment" eval 'HEARTH_TEMP=0.3 config 0 --temp 0.4 && has temp 0.4 "flag --temp"'
check "an empty variable is none" eval 'HEARTH_TEMP= config 0 && has temp 0.1 "[hearth]"'
check "the profile may come from the environment" eval 'HEARTH_PROFILE=p config 0 && has top-k 2 "profile p"'
check "an unknown variable is reported" eval 'HEARTH_TMEP=1 config 0'
check "  with what was meant" says \
    "warning: HEARTH_TMEP in the environment is no option; did you mean HEARTH_TEMP?"
check "  with nothing where nothing is near" eval \
    'HEARTH_FOO=1 config 0 && ! says "did you mean"'
check "  with -q, too: it is no hint" eval 'HEARTH_TMEP=1 config 0 -q && [ -s "$dir/err" ]'
check "-c replaces your own file" eval \
    'echo "top-k = 7" >"$dir/other.ini" && config 0 -c "$dir/other.ini" && has top-k 7 && has temp 0.7 "built-in"'

# A file that is read unasked is not waited for; one that is named is, as that of <(command).
mv "$ini" "$dir/kept.ini"
mkfifo "$ini"
check "a FIFO as your own file" config 2
check "  is refused" says "$ini: is a FIFO, expected an INI file; -c reads one"
check "one that is named is read" eval '(echo "top-k = 7" >"$ini" &) && config 0 -c "$ini" && has top-k 7'
mv "$dir/kept.ini" "$ini"

# What excludes each other is named as it was written.
printf '%s\n' 'session = a' 'private = on' >"$dir/two.ini"
check "two keys that exclude each other" config 2 -c "$dir/two.ini"
check "  are named by their lines" says "$dir/two.ini:2: private: cannot be together with session in line 1"
printf '%s\n' 'prompt = a' 'stdin = lines' >"$dir/two.ini"
check "  prompts, too" eval 'config 2 -c "$dir/two.ini" && says "$dir/two.ini:2: stdin: takes its prompts from a file or standard input, not from prompt in line 1"'
check "two variables" eval 'HEARTH_JSON=on HEARTH_JSONL=on config 2'
check "  by these" says "HEARTH_JSON: cannot be together with HEARTH_JSONL"
check "two flags" config 2 --json --jsonl
check "  as such" says "--json: cannot be together with --jsonl"

# --- What is printed holds wherever it is put
mkdir -p "$dir/here" "$dir/there"
touch "$dir/here/m.gguf" "$dir/here/d.gguf" "$dir/here/t.jinja"
echo "Be brief." >"$dir/here/off"
hearth_at=$(realpath "$hearth")
from_here()
{
    (cd "$dir/here" && "$hearth_at" --print-config "$@" </dev/null) >"$dir/there/hearth.ini"
    "$hearth" -c "$dir/there/hearth.ini" --print-config </dev/null >"$dir/out"
}
from_here -m m.gguf --draft d.gguf,lookup --template t.jinja --system @off
check "a file named from here is printed from the root on" \
    grep -qF "model = $dir/here/m.gguf  ;" "$dir/out"
check "  the draft, too" grep -qF "draft = $dir/here/d.gguf,lookup  ;" "$dir/out"
check "  the template" grep -qF "template = $dir/here/t.jinja  ;" "$dir/out"
check "  the file of the system message" grep -qF "system = @$dir/here/off  ;" "$dir/out"
mkdir -p "$dir/here/sub"
printf 'system = @../off\n[profile near]\nsystem = @near\n' >"$dir/here/sub/in.ini"
echo "Be near." >"$dir/here/sub/near"
from_here -c sub/in.ini
check "    that a configuration names, too" grep -qF "system = @$dir/here/sub/../off  ;" "$dir/out"
from_here -c sub/in.ini -P near
check "    or a profile of it" grep -qF "system = @$dir/here/sub/near  ;" "$dir/out"
touch "$dir/here/@off"
from_here --system @@off
check "  but none where the text itself begins with @" grep -qF "system = @@off  ;" "$dir/out"
from_here --draft off -p @off
check "a word is no file" grep -qF "draft = off  ;" "$dir/out"
from_here --template raw
check "  nor is a template that is built in" grep -qF "template = raw  ;" "$dir/out"
touch "$dir/here/raw" && from_here --template ./raw
check "  but for a file of its name" grep -qF "template = $dir/here/./raw  ;" "$dir/out"
from_here --draft off -p @off
check "  and a prompt no name" grep -qF "prompt = @off  ;" "$dir/out"

# --- What is wrong: status 2, nothing on stdout, file and line
# The whole of what it says: --help would not explain a file.
says_just() { found err -xF -- "hearth: $1"; }
# wrong NAME MESSAGE CONTENT: the message without "hearth: FILE:"
wrong()
{
    local name=$1 message=$2
    printf "$3" >"$dir/bad.ini"
    check "$name" config 2 -c "$dir/bad.ini"
    check "  says where" says_just "$dir/bad.ini:$message"
    check "  and prints nothing" [ ! -s "$dir/out" ]
}
wrong "an unknown key" "2: unknown key tmep, did you mean temp?" '[hearth]\ntmep = 1\n'
wrong "a key as llama.cpp calls it" "1: unknown key ctx-size, did you mean ctx?" 'ctx-size = 512\n'
wrong "a bad value" "1: top-p: expected a number from 0 to 1, found '1.5'" 'top-p = 1.5\n'
wrong "a key set twice" "3: temp is set twice, first in line 1" 'temp=1\n\nTEMP=2\n'
wrong "a bad value in a profile that is not chosen" \
    "2: color: expected auto, always or never, found 'red'" '[profile x]\ncolor = red\n'
wrong "no value's place" "1: expected KEY = VALUE, found 'temp 1'" 'temp 1\n'
wrong "an unknown section" "1: unknown section [sampling], expected [hearth] or [profile NAME]" \
    '[sampling]\n'
wrong "an escape sequence is shown harmless" "1: a control character: 0x1b" 'system = \033[31m\n'
wrong "a byte that is not UTF-8" "1: not valid UTF-8: byte 0xff" 'system = \377\n'
wrong "a line that is too long" \
    "2: a line of more than 1000 bytes (a long system message can stand in a file: system = @FILE)" \
    "[hearth]\nsystem = $(printf '%01000d' 0)\n"
wrong "a quote left open" '1: the quote " is not closed' 'system = "a\n'

check "a file that is not there" config 2 -c "$dir/none.ini"
check "  is named" says_just "--config: $dir/none.ini: No such file or directory"
check "a folder" config 2 -c "$dir"
check "  is named" says_just "$dir: is a directory, expected an INI file"
check "a profile that is not there" config 2 -P q
check "  is named, with those that are" says_just "no profile q in $ini; there are: p"
check "  and its variable" eval 'HEARTH_PROFILE=q config 2 && says_just "HEARTH_PROFILE: no profile q in $ini; there are: p"'
check "a variable that names one without a file" eval 'XDG_CONFIG_HOME=$dir/none HEARTH_PROFILE=q config 2'
check "  is named" says_just "HEARTH_PROFILE: there is no configuration file at $dir/none/hearth/hearth.ini"
check "a flag that does" eval 'XDG_CONFIG_HOME=$dir/none config 2 -P q'
check "  is, too" says_just "--profile: there is no configuration file at $dir/none/hearth/hearth.ini"
if [ "$(id -u)" = 0 ]; then
    skip "a file that may not be read" "root reads everything"
else
    chmod 000 "$dir/other.ini"
    check "a file that may not be read" config 2 -c "$dir/other.ini"
    check "  is named" says_just "$dir/other.ini: Permission denied"
fi

# A file that is named in one, or by a variable, and is missed: the place is told beside it.
missing() { printf "$1" >"$dir/names.ini" && exits 1 "$hearth" -q -n 1 -c "$dir/names.ini" "${@:2}" </dev/null; }
for key in model=no.gguf draft=no.gguf,lookup template=no.jinja prompts=no.txt; do
    file=${key#*=} key=${key%%=*} ask=(-p x)
    [ $key != prompts ] || ask=()
    check "a missing $key" missing "# a comment\n$key = $file\n" "${ask[@]}"
    check "  is told with its line" says_just "$dir/names.ini:2: $key: $dir/${file%,*}: No such file or directory"
done
check "a missing file of a profile" missing "[profile p]\nfile = $dir/out, no.txt\n" -P p
check "  is told with its line" says_just "$dir/names.ini:2: file: no.txt: No such file or directory"
check "a model without a file" missing "model = nobody\n" -p x
check "  is told with its line" says_just "$dir/names.ini:1: model: nobody: there is no such file, and no model of that name among those that hearth models lists"
check "    in JSON, too" eval 'missing "model = nobody\n" -p x --json && grep -qF "names.ini:1: model: nobody" "$dir/out"'
check "a variable's" eval 'HEARTH_TEMPLATE=no.jinja missing "" -p x'
check "  is told with its name" says_just "HEARTH_TEMPLATE: no.jinja: No such file or directory"
check "what a flag names instead counts" eval 'exits 1 "$hearth" -q -c "$dir/names.ini" -m "$dir/none.gguf" -p x </dev/null'
check "  and is told as before" says_just "$dir/none.gguf: No such file or directory"

check "a full disk" eval '! "$hearth" --print-config >/dev/full 2>"$dir/err"'
check "  is one error" says "standard output: cannot be written: No space left on device"
done_testing
