#!/usr/bin/env bash
# Conversations on disk from outside: resumed with nothing computed again and the same words,
# refused with exit 4, nothing at all with --private; hearth sessions and hearth cache.
. tests/lib/tap.sh
sessions=$dir/state/hearth/sessions
pages=$dir/cache/hearth/pages

usage_of() { sed -nE "s/.*\"$1\":([0-9]+).*/\\1/p" "$dir/err" "$dir/out" | tail -n 1; }
mode() { [ "$(stat -c %a "$1")" = "$2" ]; }
lines() { printf 'hello\nwhat is hearth?\nand who are you?\n'; }
seeds=(--seed 7 --temp 0.8 -n 40)

# Where nothing is yet.
check "no session" go 0 sessions
check "  is said" says 'no session has been saved yet'
check "  beside the list" nothing
check "nothing computed" go 0 cache
check "  is said" says 'nothing is kept'
check "--continue without a session" go 4 --continue -q -p hello </dev/null
check "  is refused" says '--continue: there is no session yet'
echo 'continue = on' >"$dir/always.ini"
check "continue = on begins with the first one" go 0 -c "$dir/always.ini" -q -n 1 -p hello </dev/null
check "HEARTH_CONTINUE=on, too" eval 'HEARTH_CONTINUE=on go 0 -q -n 1 -p hello </dev/null && quiet'

# A file that is given away does not say where things lie.
draft=$PWD/examples/guide/guide-draft-q8_0.gguf
check "a session with a draft" go 0 -s drafted -q -n 3 --draft "$draft" -p hello </dev/null
check "  names its file" grep -qa 'guide-draft-q8_0\.gguf' "$sessions/drafted.session"
check "  and no folder" eval '! grep -qaF "${draft%/*}" "$sessions/drafted.session"'

# That a session has no stop strings is one of its settings.
echo 'stop = a, e, i, o, u' >"$dir/stops.ini"
check "a session without stop strings" go 0 -s no-stops -q -n 3 -p hello </dev/null
check "  goes on without those of a configuration" \
    go 0 -s no-stops -c "$dir/stops.ini" -q --json -n 3 -p hello </dev/null
check "    to where it ends" prints '"stop":"length"'
check "  which another one has" go 0 -s stops -c "$dir/stops.ini" -q --json -n 3 -p hello </dev/null
check "    to where it ends" prints '"stop":"stop"'

# So is a bias, which names other tokens in another vocabulary.
other=tests/data/models/qwen2.gguf
check "a session with a bias" go 0 -s biased -q -n 3 --logit-bias 5=1 -p hello </dev/null
check "  goes on with another model" go 0 -s biased -m "$other" -q -n 3 -p hello </dev/null
check "    and says so" says 'logit-bias names tokens by their numbers, and with this model these are other tokens; --logit-bias= takes them back'
check "  not with the same" go 0 -s biased -m "$other" -q -n 3 -p hello </dev/null
check "    again" eval '! says logit-bias >"$dir/ignored"'
check "  nor where it is taken back" go 0 -s biased -q -n 3 --logit-bias= -p hello </dev/null
check "    at once" eval '! says logit-bias >"$dir/ignored"'
check "a session with a bias of tokens" go 0 -s beyond -q -n 3 --logit-bias 600=1 --logit-bias 65=1000 --logit-bias 700=1 -p hello </dev/null
check "  that another model does not have goes on" go 0 -s beyond -m "$other" -q --json -n 3 -p hello </dev/null
check "    without them" says 'logit-bias of token 600 and others is left out: the session brings it, and the vocabulary has 512 tokens'
check "    but with the others" eval 'grep -o "\"text\":\"[^\"]*" "$dir/out" >"$dir/left" && go 0 --private -m "$other" -q --json -n 3 --logit-bias 65=1000 -p hello </dev/null && prints "$(cat "$dir/left")\""'
check "  it keeps them for the model that has them" go 0 -s beyond -q -n 3 -p hello </dev/null
check "    of which nothing is said" eval '! says "left out" >"$dir/ignored"'
check "  what is given for this run is an error" go 1 -s beyond -m "$other" -q -n 3 --logit-bias 600=1 -p hello </dev/null
check "    that names it" says 'logit-bias names token 600, but the vocabulary has 512 tokens'

# So is the length of a reply, which a script that gave none is told of where it cuts one off.
lines_of() { printf 'What is a draft model?\nWhat is a token?\n'; }
check "a session with a limit of tokens" eval 'lines_of | go 0 -s short -q -n 3 --stdin lines && quiet'
check "  goes on with it" eval 'lines_of | go 0 -s short -q --stdin lines'
check "    and says so" says 'warning: the reply is cut off: the session brings max-tokens 3; --max-tokens gives another'
check "    once" [ "$(wc -l <"$dir/err")" = 1 ]
check "  but not of a limit that is given" go 0 -s short -q -n 3 -p hello </dev/null
check "    again" quiet

# So is its seed, whatever [hearth] says; a flag is of this run.
echo 'seed = 1' >"$dir/seed.ini"
# second SESSION ARGS...: the seed of the second reply, the first one's session having 7
second()
{
    go 0 -s "$1" --seed 7 -q -n 1 -p hello </dev/null &&
        go 0 -s "$1" "${@:2}" -q --json -n 1 -p hello </dev/null && grep -o '"seed":"[0-9]*"' "$dir/out"
}
of_7=$(second seed) of_2=$(second other-seed --seed 2)
check "a session has a seed" [ -n "$of_7" ]
check "  which goes before that of a configuration" [ "$(second own-seed -c "$dir/seed.ini")" = "$of_7" ]
check "  but not before a flag's" [ "$of_2" != "$of_7" ]

# Without a HOME there is no place for what is computed.
placeless() { exits 0 env -u XDG_STATE_HOME -u XDG_CONFIG_HOME -u XDG_CACHE_HOME -u HOME "$hearth" "$@" </dev/null; }
check "no HOME" placeless -n 1 -p hello
check "  costs what is kept on disk, which is said" says \
    'warning: what is computed is not kept on disk: neither XDG_CACHE_HOME nor HOME names a folder'
for quietly in -q --private --cache-disk=0; do
    check "  but not with $quietly" eval 'placeless $quietly -n 1 -p hello && ! says "not kept" >"$dir/ignored"'
done

# Services and sandboxes have a HOME that is no folder: nothing is there either.
homeless()
{
    exits "$1" env -u XDG_STATE_HOME -u XDG_CONFIG_HOME -u XDG_CACHE_HOME HOME=/dev/null \
        "$hearth" "${@:2}" </dev/null
}
check "HOME=/dev/null" homeless 0 -q --private -n 1 -p hello
check "  nothing is said of it" quiet
check "  a profile has no file there" homeless 2 -P p -p hello
check "    which is said" says 'there is no configuration file at /dev/null/.config/hearth/hearth.ini'
check "  no session" homeless 0 sessions
check "    is said" says 'no session has been saved yet'
check "  none to check" homeless 0 sessions check
check "  none of a name" homeless 1 sessions show talk
check "    is said" says 'there is no session talk'
check "  nothing to continue" homeless 4 --continue -q -p hello
check "    is said" says '--continue: there is no session yet'
check "  nothing computed" homeless 0 cache
check "    is said" says 'nothing is kept'
check "  nothing to clear" homeless 0 cache clear
check "    is said" prints 'removed 0 files'
check "  nothing to check" homeless 0 cache check
check "    is said" prints '0 sound, 0 damaged'

# The same words, in one go and with a restart after each turn.
in_pieces()
{
    lines | go 0 --private "${seeds[@]}" --stdin lines && mv "$dir/out" "$dir/whole" || return 1
    : >"$dir/pieces"
    while read -r line; do
        go 0 -s pieces "${seeds[@]:2}" $first -v -p "$line" </dev/null || return 1
        cat "$dir/out" >>"$dir/pieces"
        first=
    done < <(lines)
    diff "$dir/whole" "$dir/pieces" | sed 's/^/# /'
    cmp -s "$dir/whole" "$dir/pieces"
}
first='--seed 7'
check "a conversation in pieces says what it says in one go" in_pieces
check "  and computes none of it again" grep -qE '\[([0-9]+) cached \(\1 from disk\), [0-9]{1,2} prefilled' "$dir/err"
check "the session's mode" mode "$sessions/pieces.session" 600
check "its folder's mode" mode "$sessions" 700
check "the pages' mode" [ -z "$(find "$pages" -type f ! -perm 600)" ]
check "their folders' mode" [ -z "$(find "$pages" -type d ! -perm 700)" ]

# Standard output may be a terminal: one answer is no conversation all the same.
before=$(ls "$sessions")
timeout 300 script -qec "'$hearth' -p hello" /dev/null </dev/null >"$dir/out"
check "one answer on a terminal is an answer" [ -s "$dir/out" ]
check "  and is not saved" [ "$(ls "$sessions")" = "$before" ]
check "  nor is it said to be" eval '! grep -q "is saved" "$dir/out"'

go 0 --continue -v -p more </dev/null
check "--continue goes on with the last one" says "session pieces: 6 messages"
check "  with all of it from disk" says "from disk"
go 0 -s pieces --kv-type f32 -v -p more </dev/null
check "another KV type is named" says "held with a KV cache of type f16: what was not kept with f32, too, is computed anew"
check "  and starts cold" says "[0 cached, "
go 0 -s pieces -v -p more --cache-disk 0 </dev/null
check "without a cache on disk it starts cold" says "[0 cached, "
yes 'What is a token?' | head -n 60 >"$dir/long"
go 0 -s long -n 4 -f "$dir/long" -p Why </dev/null
go 0 -s long -n 4 -p more --cache-disk 0 </dev/null
check "  and what was switched off is not missed" eval '! says "found on disk" >/dev/null'

# A folder that cannot be looked into, here a link that leads to itself, may hold the conversation.
ln -s loop "$dir/loop"
check "a session that cannot be reached is not begun anew" \
    eval 'XDG_STATE_HOME=$dir/loop go 4 -s pieces -q -n 1 -p x </dev/null'
check "  and says why" says "pieces.session: Too many levels of symbolic links"

# What cannot be a session.
printf 'this is a text\n' >"$sessions/text.session"
check "a file that is no session is refused" go 4 -s text -p x </dev/null
check "  and says so" says "text.session: is no session of hearth"
check "a name with a slash is refused" go 4 -s a/b -p x </dev/null
check "--private goes with no session" go 2 --private -s x -p x </dev/null
mv "$sessions/text.session" "$dir/text" && ln -s "$dir/text" "$sessions/text.session"
check "a symbolic link is refused" go 4 -s text -p x </dev/null
check "  and says so" says "text.session: is a symbolic link"
rm "$sessions/text.session" && mkdir "$sessions/text.session"
check "a folder is refused" go 4 -s text -p x </dev/null
check "  and says so" says "text.session: Is a directory"
rmdir "$sessions/text.session"
chmod 400 "$sessions/pieces.session"
obeys=() # of root modes hold only without its powers
[ "$(id -u)" != 0 ] || obeys=(setpriv --bounding-set -all --inh-caps -all)
check "a session that may not be written is refused in a pipe" exits 4 "${obeys[@]}" "$hearth" -s pieces -p x </dev/null
check "  and says so" says "session pieces: its file may not be written"
chmod 600 "$sessions/pieces.session"
open_elsewhere() # command...
{
    exec 9<"$sessions/pieces.session"
    flock 9
    go 4 "$@" </dev/null
    local status=$?
    exec 9<&-
    return $status
}
check "a session that is open elsewhere is refused in a pipe" open_elsewhere -s pieces -p x
check "  and says so" says "another hearth has it open"
check "  and not removed" open_elsewhere sessions rm pieces
check "    which is said" says "another hearth has this session open"
for verb in show export rm check; do
    check "a name that none can have: $verb" go 4 sessions $verb ../pieces
done

# A frame that is damaged is told, and what was in it: here the system message and the settings.
go 0 -s frame --system 'You are a pirate.' -n 4 -p hello </dev/null
damage_frame()
{
    python3 - "$sessions/frame.session" <<'END'
import sys
data = bytearray(open(sys.argv[1], 'rb').read())
data[data.index(b'pirate')] ^= 1
open(sys.argv[1], 'wb').write(data)
END
}
check "a session whose first frame is damaged" damage_frame
go 0 -s frame -n 4 -p more </dev/null
check "  says which bytes" says "are damaged (frame 1); the rest is loaded"
check "  and what they were" \
    says "session frame: its system message and settings cannot be read; it goes on without them"
check "  and blames nothing else" eval '! says arithmetic >/dev/null'

# Killed in the middle of an answer: what was said before is there.
killed()
{
    local before after i
    before=$("$hearth" sessions | awk '/^pieces / { print $6 }')
    for i in 0.05 0.1 0.2 0.3; do
        "$hearth" -s pieces -n 40 -p 'tell me more' </dev/null >"$dir/out" 2>"$dir/err" &
        sleep $i
        kill -9 $! && wait $! 2>/dev/null
    done
    go 0 -s pieces -v -p more </dev/null || return 1
    after=$("$hearth" sessions | awk '/^pieces / { print $6 }')
    ((after >= before + 2))
}
check "kill -9 loses nothing that was said" killed 2>/dev/null
check "  and leaves a sound file" go 0 sessions check pieces

# Killed before there is a reply: the message stays, and the next one takes its place, for there
# are templates that take no two of the user.
cat >"$dir/strict.jinja" <<'END'
{%- for m in messages -%}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif -%}
<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor -%}
<|im_start|>assistant
END
endless=(--logit-bias 2045=-inf --logit-bias 2047=-inf)
cut_short()
{
    "$hearth" -q -s cut "${endless[@]}" -p 'My name is Bob.' </dev/null >"$dir/out" 2>&1 &
    for _ in {1..6000}; do [ -s "$sessions/cut.session" ] && break || sleep 0.01; done
    kill -9 $! && wait $! 2>/dev/null
    go 0 sessions check cut && prints 'cut: sound, 1 message'
}
check "kill -9 before the reply" cut_short 2>/dev/null
check "  the session goes on" go 0 -v --template "$dir/strict.jinja" -s cut -n 3 -p hello </dev/null
check "  and says what there is" says 'session cut: 1 message, the last of yours "My name is Bob.", which has no reply'
check "  and says what becomes of the message" says '"My name is Bob." had no reply: your new message stands in its place; it is branch 2 now'
check "  which is there" eval 'go 0 sessions show cut && ! grep -q Bob "$dir/out" && go 0 sessions check cut && prints "cut: sound, 2 messages"'

# What a session brings back and would be another without it is said.
brief=(-n 3 --temp 0 --stop 'x,y' --system 'Be brief.')
check "a session with settings" go 0 -s brief -q "${brief[@]}" -p hello </dev/null
check "  goes on with them" go 0 -v -s brief -p hello </dev/null
check "  and says which" says 'session brief brings its system message, max-tokens 3, temp 0, stop x\,y; /set and /system change that'
check "  with others given" go 0 -v -s brief -n 4 --temp 0.5 --system 'Be long.' -p hello </dev/null
check "  says what is left" says 'session brief brings stop x\,y; /set and /system change that'
check "  which are its own then" go 0 -v -s brief "${brief[@]}" -p hello </dev/null
check "  of what is given again nothing" eval '! grep -q "session brief brings" "$dir/err"'

# The subcommands.
go 0 sessions
check "hearth sessions lists" grep -qE '^pieces .* messages  hearth guide: hello$' "$dir/out"
check "hearth sessions show" go 0 sessions show pieces
check "  prints the conversation" prints "what is hearth?"
printf 'a\0b\033c' | "$hearth" -q -s odd -n 1 >/dev/null
check "  behind a NUL, too, and no control character" eval \
    'go 0 sessions show odd && prints "a\\x00b\\x1bc"'
rm -f "$sessions/odd.session"
check "hearth sessions export" go 0 sessions export pieces
check "  prints it too" prints "## Assistant"
check "  as plain text" go 0 sessions export pieces --plain
check "    with labels" has '^Assistant:$'
check "    and no Markdown" eval '! grep -q "^## " "$dir/out"'
check "  as JSON" go 0 sessions export --json pieces
check "    one object" python3 -c 'import json, sys; m = json.load(open(sys.argv[1]))["messages"]
assert [m[0]["role"], m[1]["role"]] == ["user", "assistant"] and m[0]["content"] == "hello"' "$dir/out"
check "  one of them only" go 2 sessions export --json --plain pieces
check "    is said" says "expected [--json | --plain] and one NAME"
check "  of a NAME" go 2 sessions export --json
# Another byte than the one that is there, whatever that is.
flip()
{
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059
    printf "\\$(printf %o $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
# A message for which there is no room begins a conversation with nothing in it.
no_room() { seq 100 | tr '\n' ' ' | cat <(echo hello) - | go 3 -s left -q -n 2 --ctx 64 --stdin lines --forget; }
check "a conversation that was left for a new one" no_room
check "  is not shown" eval 'go 0 sessions show left && nothing'
check "    which is said" says 'session left: no messages on its current branch; in a chat /branches lists where'
check "  nor in an export" eval 'go 0 sessions export --json left && ! prints hello'
check "    which is said" says 'session left: no messages on its current branch'
flip "$sessions/pieces.session" 700
check "hearth sessions check finds damage" go 4 sessions check
check "  and names it" prints "pieces: bytes "
check "  and goes on past a session that is not there" go 1 sessions check cut missing long
check "    which is said" says "hearth: there is no session missing; hearth sessions lists them"
check "    between those that are" eval 'has "^cut: sound" && has "^long: sound"'
check "  damage is told before it" go 4 sessions check missing pieces
odd=$dir/odd$'\033'
mkdir -p "$odd/hearth/sessions"
cp "$sessions/pieces.session" "$odd/hearth/sessions"
check "  with the folder's name in print" eval 'XDG_STATE_HOME=$odd go 0 sessions show pieces && says "odd\x1b/hearth/sessions/pieces.session: bytes "'
check "which costs a message and no more" go 0 -s pieces -v -p more </dev/null
check "  and is said" says "are damaged (frame"
check "hearth sessions rm" go 0 sessions rm pieces
check "  removes it" [ ! -e "$sessions/pieces.session" ]
check "a name that begins with a dash" go 0 -q -s -odd -p hello
check "  is taken for an option" go 2 sessions show -odd
check "  which is said" says 'sessions show: expected one NAME, behind -- if it begins with a dash'
check "  but not behind --" eval 'go 0 sessions show -- -odd && prints hello'
check "  nor in an export" eval 'go 0 sessions export --plain -- -odd && prints hello'
check "  or a check" eval 'go 0 sessions check -- -odd && prints "odd: sound"'
check "  rm wants it so, too" go 2 sessions rm -odd
check "  and then" go 0 sessions rm -- -odd
check "    it is gone" go 1 sessions show -- -odd
check "rm takes no option between names" go 2 sessions rm keep -x
ln -s long.session "$dir/state/hearth/sessions/linked.session"
check "hearth sessions rm of a symbolic link" go 1 sessions rm linked
check "  says that it is one" says "linked.session: is a symbolic link, expected a file of its own"
check "  and leaves both" eval '[ -L "$dir/state/hearth/sessions/linked.session" ] && go 0 sessions check long'
rm "$dir/state/hearth/sessions/linked.session"
check "hearth sessions rm of none" go 1 sessions rm pieces
check "  is said" says "hearth: there is no session pieces; hearth sessions lists them"
check "nor can it be shown" go 1 sessions show pieces
check "  which is said" says "hearth: there is no session pieces; hearth sessions lists them"
check "hearth cache lists" go 0 cache
check "  the model" grep -qE '^guide-q8_0.gguf +[0-9]+ pages +[0-9]+ snapshots' "$dir/out"
flip "$(find "$pages" -name '*.page' | head -n 1)" 300
check "hearth cache check" go 0 cache check
check "  finds damage" prints ", 1 damaged"
go 0 cache check
check "  and removes it" prints ", 0 damaged"
one=$(find "$pages" -name '*.page' | head -n 1)
truncate -s 1025M "${one%/*}/0123456789abcdef0123456789abcdef.page"
check "one that is longer than any" go 0 cache check
check "  is damage, too" prints "0123456789abcdef0123456789abcdef.page: too long; removed"
chmod 000 "$one"
check "one that cannot be read" exits 1 "${obeys[@]}" "$hearth" cache check
check "  is named" says "hearth: $one: Permission denied"
check "  is no damage" prints ", 0 damaged"
check "  and stays" [ -e "$one" ]
chmod 600 "$one"
check "hearth cache clear" go 0 cache clear
check "  leaves no page" [ -z "$(find "$pages" -name '*.page' -o -name '*.snap')" ]
check "an unknown word" go 2 sessions what
check "  is answered with those that are known" says "expected one of: list, show, export, rm, check"

# A name that no session can have.
check "a name of blanks" go 4 -s ' ' -p hello </dev/null
check "  is said to be none" says "' ' cannot be the name of a session"
for form in '' --json; do
    check "a name that cannot be $form" go 4 -s a/b $form -p hello </dev/null
    check "  is said, and nothing of the model" eval 'says "'"'a/b'"' cannot be the name of a session" && [ "$(wc -l <"$dir/err")" = 1 ]'
done
check "  is in the object" has '"exit":4'
cp examples/hearth.ini "$dir/in.ini"
check "  an input is spared all the same" go 2 -s a/b --json -c "$dir/in.ini" -o "$dir/in.ini" -p hello </dev/null
check "    and as it was" cmp -s examples/hearth.ini "$dir/in.ini"

# Nothing anywhere.
rm -rf "$dir/state" "$dir/cache"
check "--private" go 0 --private -p hello </dev/null
check "  writes no session" [ ! -e "$dir/state" ]
check "  and no page" [ ! -e "$dir/cache" ]
go 0 -p hello </dev/null
check "a pipe without -s keeps no session" [ ! -e "$sessions" ]

# A session that cannot be written: one line, and the answers all the same.
rm -rf "$dir/state"
printf x >"$dir/state"
lines >"$dir/in"
check "a session that cannot be written is an error" go 1 -s nowhere --stdin lines -n 5 <"$dir/in"
check "  that is said once" [ "$(grep -c '^hearth: the session is not saved: ' "$dir/err")" = 1 ]
check "  and stops no answer" [ "$(wc -l <"$dir/out")" = 3 ]
check "--jsonl has the status and the error" go 1 -s nowhere --jsonl -n 4 -p hello </dev/null
check "  in its end" python3 -c '
import json, sys
e = json.loads(open(sys.argv[1]).read().splitlines()[-1])
assert e["type"] == "end" and e["stop"] == "length" and e["exit"] == 1, e
assert "the session is not saved: " in e["error"], e' "$dir/out"
rm "$dir/state"

# A cache folder that cannot be written: one line, and the answer all the same.
rm -rf "$dir/cache"
printf x >"$dir/cache"
lines | go 0 --stdin lines -n 5
check "a cache that cannot be written" [ "$(wc -l <"$dir/out")" = 3 ]
check "  is said once" [ "$(grep -c 'computed from now on is not kept on disk' "$dir/err")" = 1 ]

# A prompt that the context has no room for leaves the session as it was, and begins none.
rm -rf "$dir/cache"
yes 'words without end' | head -c 100000 >"$dir/endless"
check "a session" go 0 -s room -q -n 3 -p hello </dev/null
size=$(stat -c %s "$sessions/room.session")
check "a prompt that is too long for it" go 3 -s room -q -f "$dir/endless" -p 'How many?' </dev/null
check "  leaves no trace in its file" [ "$(stat -c %s "$sessions/room.session")" = "$size" ]
check "  nor a session where there was none" \
    eval 'go 3 -s no-room -q -f "$dir/endless" -p hi </dev/null && [ ! -e "$sessions/no-room.session" ]'

# A limit on the size of files is met as a full disk is: said, never the end of the program.
limited() { (ulimit -f "$1" && go "${@:2}"); }
rm -rf "$dir/cache"
check "a disk that is full at the end, when the first page is written" eval 'limited 2 0 -p hello -n 5 </dev/null'
check "  is said all the same" says 'computed from now on is not kept on disk'
check "    with the reason" says 'File too large'
printf 'hello\n%s\nand who are you?\n' "$(printf 'word %.0s' {1..600})" >"$dir/long"
check "a session that is full in the middle" eval 'limited 2 1 -s full --cache-disk 0 --stdin lines -n 5 <"$dir/long"'
check "  answers all the same" [ "$(wc -l <"$dir/out")" = 3 ]
check "  and says so once" [ "$(grep -c 'the session is no longer saved: .*File too large' "$dir/err")" = 1 ]
check "  what fitted is there" eval 'go 0 sessions show full && prints "hello"'
check "a conversation that is exported past the limit" eval 'go 0 -s big --cache-disk 0 --stdin lines -n 5 <"$dir/long" && (ulimit -f 1; exits 1 sh -c "\"$hearth\" sessions export big >\"$dir/kept\"")'
check "  is an error, too" says 'standard output: cannot be written: File too large'

done_testing
