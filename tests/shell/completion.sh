#!/usr/bin/env bash
# The bash completion as bash runs it: options, their values, subcommands, files, profiles.
. tests/lib/tap.sh

"$hearth" --completion bash >"$dir/script"
check "it is bash" bash -n "$dir/script"
# shellcheck source=/dev/null
source "$dir/script"
check "it is registered" grep -q ' _hearth hearth$' <(complete -p hearth)

# offers WORDS... -- WANT: what Tab gives behind these words, on one line
offers()
{
    COMP_WORDS=(hearth)
    while [ "$1" != -- ]; do COMP_WORDS+=("$1") && shift; done
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _hearth
    [ "${COMPREPLY[*]}" = "$2" ] || { echo "# offered: ${COMPREPLY[*]}" && return 1; }
}

check "an option" offers --list -- --list-devices
check "two of them" offers --top -- "--top-k --top-p"
check "letters too" eval 'offers - -- "" >/dev/null; [[ " ${COMPREPLY[*]} " == *" -m "* ]]'
check "nothing that does not begin so" offers --frob -- ""
check "words of an option" offers --color a -- "auto always"
check "  after a letter" offers -q --stdin t -- text
check "  after =, which bash takes for a word" offers --color = n -- never
check "  right behind the =" eval 'offers --color = -- "auto always never"'
check "an option with a number offers nothing" offers --top-k "" -- ""
touch "$dir/a b.gguf" "$dir/off.gguf"
cd "$dir" || exit 1
check "files of -m, with blanks in them" offers -m a -- "a b.gguf"
check "files and words of --draft" offers --draft of -- "off.gguf off"
mkdir -p "$dir/config/hearth"
printf '[hearth]\n[profile code]\n  [ profile x ]\n[profile story] # x\n' >"$dir/config/hearth/hearth.ini"
XDG_CONFIG_HOME=$dir/config
check "profiles" offers -P "" -- "code x story"
check "subcommands" offers ins -- inspect
check "  only first" offers -q ins -- ""
check "  what to inspect" offers inspect to -- tokens
check "  its own options" offers inspect tokens --sp -- --special
check "  the engine's options" offers inspect logits --kv -- --kv-type
check "  their values" offers inspect logits --kv-type f3 -- f32
check "  formats of a session" offers sessions export --pl -- --plain
check "  files" offers inspect gguf off -- off.gguf
check "  options of bench" offers bench --pr -- "--prompt --profile"
check "an unknown shell is refused" eval '! "$hearth" --completion csh 2>/dev/null'

# zsh and fish: every option and subcommand that --help has, and what their shells say where they are.
"$hearth" --help >"$dir/help"
for shell in zsh fish; do
    check "$shell" exits 0 "$hearth" --completion $shell
    cp "$dir/out" "$dir/script.$shell"
    for name in $(sed -nE '/^Subcommands/q; s/^ +(-., )?--([a-z-]+).*/\2/p' "$dir/help"); do
        grep -qE -- "(--|-l )$name\b" "$dir/script.$shell" || echo "$name"
    done >"$dir/missing"
    check "  has every option" [ ! -s "$dir/missing" ]
    for name in $(sed -nE '/^Subcommands/,/^$/s/^  ([a-z]+) .*/\1/p' "$dir/help" | sort -u); do
        grep -qE "('| -a )$name\b" "$dir/script.$shell" || echo "$name"
    done >"$dir/missing"
    check "  has every subcommand" [ ! -s "$dir/missing" ]
    if command -v $shell >/dev/null; then
        check "  is $shell" $shell -n "$dir/script.$shell"
    else
        skip "  is $shell" "$shell is not installed"
    fi
done
if command -v fish >/dev/null; then
    fish_offers() { [ "$(HOME=$dir fish -c "source $dir/script.fish; complete -C '$1'" | cut -f 1 | sort | xargs)" = "$2" ]; }
    check "  options" fish_offers 'hearth --top' '--top-k --top-p'
    check "  words" fish_offers 'hearth --color ' 'always auto never'
    check "  subcommands" fish_offers 'hearth ins' 'inspect'
    check "  what to inspect" fish_offers 'hearth inspect to' 'tokens'
else
    skip "  what fish offers" "fish is not installed"
fi
done_testing
