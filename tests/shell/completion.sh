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
    COMP_LINE=${whole_line-${COMP_WORDS[*]}} COMP_POINT=${#COMP_LINE}
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

if command -v zsh >/dev/null; then
    check "zsh may source it" exits 0 zsh -f -c 'autoload -Uz compinit && compinit -D -u; source $1; print $_comps[hearth]' - "$dir/script.zsh"
    check "  which registers it" prints _hearth
    check "  and says nothing" quiet
else
    skip "zsh may source it" "zsh is not installed"
fi
if command -v fish >/dev/null; then
    check "fish has no profiles where there is no hearth.ini" eval \
        'HOME=$dir XDG_CONFIG_HOME=$dir/none exits 0 fish -N -c "source $dir/script.fish; complete -C \"hearth -P \""'
    check "  of which it offers none" nothing
    check "  and says nothing" quiet
else
    skip "fish has no profiles where there is no hearth.ini" "fish is not installed"
fi

mkdir -p "$dir/names/hearth/sessions"
touch "$dir/names/hearth/sessions/"{'to do','to go',work}.session
check "sessions with blanks" eval 'XDG_STATE_HOME=$dir/names offers -s to -- "to\ do to\ go"'
check "  once a part is there" eval 'XDG_STATE_HOME=$dir/names offers -s "to\ d" -- "to\ do"'
check "  in quotes" eval 'XDG_STATE_HOME=$dir/names offers -s "\"to d" -- "to do"'

# Names of models, as hearth models finds them; of one bash replaces only what is behind the colon.
export OLLAMA_MODELS=$dir/ollama
library=$OLLAMA_MODELS/manifests/registry.ollama.ai/library
blob=sha256-$(sha256sum "$guide" | cut -d ' ' -f 1)
mkdir -p "$dir/bin" "$OLLAMA_MODELS/blobs" "$library/tiny" "$library/small"
ln -s "$hearth" "$dir/bin/hearth"
PATH=$dir/bin:$PATH
cp "$guide" "$OLLAMA_MODELS/blobs/$blob"
printf '{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"%s"}]}' "${blob/-/:}" >"$library/tiny/1b"
"$hearth" inspect make --shape n_layer=2,n_vocab=2304,n_ff=128 --type Q8_0 "$dir/small.bin"
blob=sha256-$(sha256sum "$dir/small.bin" | cut -d ' ' -f 1)
mv "$dir/small.bin" "$OLLAMA_MODELS/blobs/$blob"
printf '{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"%s"}]}' "${blob/-/:}" >"$library/small/q8"
typed() { local whole_line="hearth $1" && offers "${@:2}"; }
check "a model by its name" typed '-m tin' -m tin -- tiny:1b
check "  behind the colon" typed '-m tiny:' -m tiny : -- 1b
check "    and a part of it" typed '-m tiny:1' -m tiny : 1 -- 1b
check "    as Tab writes it" typed '-m tiny\:' -m 'tiny\:' -- tiny:1b
check "  behind run" typed 'run tiny:' run tiny : -- 1b
check "  in quotes" typed '-m "tin' -m '"tin' -- tiny:1b
touch "$dir/10.txt"
check "  no file behind a colon" typed '-f tiny:1' -f tiny : 1 -- ''
check "  after =" typed '--model=small:q' --model = small : q -- q8
check "  which another has" typed '-m tiny:q' -m tiny : q -- ''

# What all three offer behind the same words: LINE|WHAT, with the word to complete at its end.
mkdir -p "$dir/state/hearth/sessions"
touch "$dir/state/hearth/sessions/"{work,home}.session "$dir/state/hearth/sessions/other.txt"
cat >"$dir/lines" <<'END'
--list-d|--list-devices
--top|--top-k --top-p
--color a|always auto
--device |auto cpu vulkan
--draft of|off off.gguf
-m ti|tiny:1b
-m off|off.gguf
bench --model sm|small:q8
-P c|code
--profile |code story x
-s |home work
--session w|work
ins|inspect
|bench cache inspect models run sessions
run ti|tiny:1b
run tiny:1b --top|--top-k --top-p
inspect to|tokens
inspect tokens --sp|--special
inspect tokens --kv|--kv-type
inspect logits --kv-type f3|f32
inspect logits --rows |all last
inspect gguf off|off.gguf
inspect gguf --kv|
inspect make --sh|--shape
inspect make off|off.gguf
inspect prompt --con|--config --context
inspect prompt --template off|off.gguf
bench --pr|--profile --prompt
bench --spe|--spec --speed
bench --each|--each-cpu --each-model --each-threads
bench --kv-error off|off.gguf
bench --stdin|
models --j|--json
models --kv|
sessions s|show
sessions show |home work
sessions rm home w|work
cache c|check clear
cache list --kv|
END

# bash_offers, zsh_offers, fish_offers: what stands behind each line, sorted, a line for each
bash_offers()
{
    while IFS='|' read -r line _; do
        read -ra COMP_WORDS <<<"hearth $line"
        [[ $line = '' || $line = *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
        COMP_LINE="hearth $line" COMP_POINT=$((7 + ${#line}))
        _hearth
        printf '%s\n' "${COMPREPLY[@]}" | sort | xargs
    done <"$dir/lines"
}
fish_offers()
{
    while IFS='|' read -r line _; do printf '%s\n' "hearth $line"; done <"$dir/lines" >"$dir/asked"
    HOME=$dir fish -N -c "source $dir/script.fish
        while read -l line
            echo (complete -C \$line | string replace -r '\t.*' '' | sort)
        end <$dir/asked"
}
# A terminal within the shell, where a key completes and what would be added goes to a file.
zsh_offers()
{
    cat >"$dir/zshrc" <<'END'
PS1= PS2=
fpath=($SITE $fpath)
autoload -Uz compinit && compinit -D -u
zstyle ':completion:*' completer _complete
zstyle ':completion:*' format ''
unsetopt list_beep beep zle_bracketed_paste
bindkey '^I' complete-word
compadd()
{
    local -a hits
    if [[ ${@[1,(i)(-|--)]} != *-[OAD]* ]]; then
        builtin compadd -A hits "$@"
        (($#hits)) && print -rl -- $hits >>$OFFERS
        return 1
    fi
    builtin compadd "$@"
}
done-with() { print -n "$BUFFER" | wc -c >/dev/null; print '=' >>$OFFERS; BUFFER=; zle redisplay }
zle -N done-with
bindkey '^T' done-with
print READY >>$OFFERS
END
    mkdir -p "$dir/site" && cp "$dir/script.zsh" "$dir/site/_hearth"
    SITE=$dir/site OFFERS=$dir/seen HOME=$dir zsh -f -c '
        zmodload zsh/zpty
        : >$OFFERS
        zpty -b terminal "zsh -f -i"
        zpty -w terminal "source '"$dir"'/zshrc"
        wait_for() { until [[ $(grep -c "$1" $OFFERS) -ge $2 ]]; do zpty -r terminal got; sleep 0.02; done }
        wait_for READY 1
        n=0
        while IFS="|" read -r line what; do
            zpty -n -w terminal "hearth $line"$'"'\t\024'"'
            wait_for "^=" $((++n))
        done <'"$dir/lines"'
        zpty -d terminal
    ' &
    timeout 600 tail --pid=$! -f /dev/null || kill $!
    sed '/READY/d' "$dir/seen" | awk '/^=$/ { print "END"; next } { print }' |
        while IFS= read -r word; do
            [ "$word" = END ] && { printf '%s\n' "${found[@]+"${found[@]}"}" | sort -u | xargs; found=(); continue; }
            found+=("$word")
        done
}
cut -d '|' -f 2 "$dir/lines" >"$dir/wanted"
for shell in bash zsh fish; do
    if command -v $shell >/dev/null; then
        ${shell}_offers >"$dir/$shell.log"
        check "what $shell offers" eval 'diff -U 0 "$dir/wanted" "$dir/$shell.log" >"$dir/diff" || { sed "s/^/# /" "$dir/diff"; false; }'
    else
        skip "what $shell offers" "$shell is not installed"
    fi
done
done_testing
