#!/usr/bin/env bash
# hearth bench, inspect logits and inspect greedy on the bundled guide.
. tests/lib/tap.sh
status() { # wanted status, wanted stderr (a part), command...
    local want=$1 part=$2 got err
    shift 2
    err=$("$@" 2>&1 >/dev/null)
    got=$?
    [ "$got" = "$want" ] && [[ $err == *"$part"* ]] || { echo "# $got: $err"; return 1; }
}

json=$("$hearth" bench -m $guide --prompt 40 --gen 8 --threads 1 --json)
keys() {
    python3 -c '
import json, sys
d = json.loads(sys.argv[1])
for k in "prefill_tok_s decode_tok_s decode_gb_s read_gb_s decode_share".split():
    assert d[k] > 0, k
assert len(d["logits_hash"]) == 16
assert abs(d["decode_share"] - d["decode_gb_s"] / d["read_gb_s"]) < 0.01' "$json"
}
check "bench prints one JSON object with its keys" keys
hash_of() { "$hearth" bench -m $guide --prompt 40 --gen 8 "$@" --json | grep -o '"logits_hash": "[0-9a-f]*"'; }
check "the hash does not depend on threads" [ "$(hash_of --threads 2)" = "$(hash_of --threads 1)" ]
check "nor on the instruction set" [ "$(hash_of --cpu scalar)" = "$(hash_of)" ]
turns() { # what each kind of turn computes; times only that they are there
    python3 -c '
import json, sys
d = json.loads(sys.argv[1])
want = {"cold": (100, 100), "exact repeat": (100, 0), "shared prefix": (100, 7),
        "edited tail": (100, 40), "after switch": (100, 0), "extended prompt": (113, 13),
        "stripped thought": (145, 45), "after idle, thought": (145, 13),
        "typed text": (145, 45), "after idle, typed": (145, 5), "after restart": (113, 13)}
assert {t["turn"]: (t["tokens"], t["computed"]) for t in d["turns"]} == want
assert all(t["ms"] > 0 and t["batch_ms"] > 0 for t in d["turns"])
assert d["prompt"] == 100 and d["kv_type"] == "f16" and d["kv_bytes_per_token"] == 4096
' "$("$hearth" bench --turns -m $guide --prompt 100 --json)"
}
check "bench --turns prints one JSON object" turns
draft_turns() { # the draft computes what the model computes, and one token more after a switch
    python3 -c '
import json, sys
d = json.loads(sys.argv[1])
got = {t["turn"]: (t["computed"], t["draft_computed"]) for t in d["turns"]}
assert got["cold"] == (100, 100) and got["exact repeat"] == (0, 0), got
assert got["after switch"] == (0, 1) and got["edited tail"] == (40, 40), got
assert got["after idle, typed"] == (5, 5) and got["after restart"] == (13, 13), got
' "$("$hearth" bench --turns -m $guide --draft examples/guide/guide-draft-q8_0.gguf \
        --prompt 100 --json)"
}
check "with a draft both models are warm, after a restart too" draft_turns
state_turns() { # a draft with states goes on from where a prompt ended
    "$hearth" inspect make --type Q8_0 --shape family=qwen35,n_layer=4,ssm_dim=32,n_embd=64,\
n_head=2,n_head_kv=1,head_dim=32,n_ff=64,n_vocab=2080 "$dir/states.gguf" 2>/dev/null || return
    python3 -c '
import json, sys
d = json.loads(sys.argv[1])
got = {t["turn"]: (t["computed"], t["draft_computed"]) for t in d["turns"]}
assert got["after switch"] == (0, 0) and got["stripped thought"] == (45, 45), got
' "$("$hearth" bench --turns -m $guide --draft "$dir/states.gguf" --prompt 100 --json)"
}
check "  and if it has states, where a prompt ended" state_turns
check "and a line per kind" grep -q "^exact repeat  *70  *0 .* ms" \
    <("$hearth" bench --turns -m $guide --prompt 70)
unmeasured() { # without room for a second prompt, nobody knows what the pages of one take
    "$hearth" bench --turns -m $guide --prompt 70 --cache-ram 0 "$@" | grep -q "$want"
}
want="^KV of a token: 4096 bytes, pages of 64 tokens" check "what was not measured has no figure" unmeasured
want='"kv_resident_per_token": null,' check "  in JSON, either" unmeasured --json
check "bench --turns refuses what is longer than the context" status 2 \
    "turns of up to 710 tokens do not fit the context of 700" \
    "$hearth" bench --turns -m $guide --prompt 601 --ctx 700
check "and a prompt shorter than a page" status 2 "--prompt is 63, --turns needs at least 64" \
    "$hearth" bench --turns -m $guide --prompt 63
disk() { # what a turn adds to the disk, and what a restart computes again
    python3 -c '
import json, sys
short, long = map(json.loads, sys.argv[1:])
assert [[s["depth"] for s in d["saves"]] for d in (short, long)] == [[64], [128, 640]]
for d in short, long:
    for save in d["saves"]:
        assert (save["tokens"], save["files"]) == (64, 2)
        assert save["raw_bytes"] == 64 * 4096 + 2048 * 4
        assert 0.5 < save["packed_bytes"] / save["raw_bytes"] < 1
        assert 0 < save["call_ms"] < save["done_ms"] and save["cpu_ms"] > 0
    resume = d["resume"]
    assert (resume["read"], resume["computed"]) == (d["prompt"], 13)
    assert 0 < resume["read_ms"] < resume["ms"] and resume["warm_ms"] > 0
    # pages of the prompt, and its snapshot; the writer may be at the end of one as a turn begins
    assert d["files"] == d["prompt"] // 64 + 1 and d["files_meanwhile"] <= 1
    assert d["pairs"] == 7
    for what in "prefill", "decode", "turn":
        s = d[what]
        assert s["writing_tok_s"] > 0 and s["low"] <= s["percent"] <= s["high"]
' "$("$hearth" bench --disk -m $guide --prompt 64 --gen 4 --repeats 7 --json)" \
        "$("$hearth" bench --disk -m $guide --prompt 640 --gen 4 --repeats 7 --depth 128,640 --json)"
}
check "bench --disk: a turn costs the same after 64 and 640 tokens" disk
disk_lines() { "$hearth" bench --disk -m $guide --prompt 64 --gen 1 --repeats "$1" >"$TMPDIR/$1"; }
disk_lines 5 && disk_lines 6
check "and prints lines" grep -q "^after restart .* to read 64 tokens, .* to compute 13: " "$TMPDIR/5"
bounds() { [ "$(grep -c "^[pda].* %, $2 between " "$TMPDIR/$1")" = 3 ]; }
check "  with bounds that 6 pairs bear out" bounds 6 "with 95 %"
check "  and all of fewer" bounds 5 all
check "  and refuses pairs and depths that are none" status 2 \
    "--repeats is '0', expected a number of 1 to 501" "$hearth" bench --disk -m $guide --repeats 0
check "  of saving" status 2 "--depth is '64,x', expected up to 16 numbers of 64 to" \
    "$hearth" bench --disk -m $guide --depth 64,x
check "  before it looks for the model" status 2 "--prompt is 63, --disk needs at least 64" \
    "$hearth" bench --disk -m nofile.gguf --prompt 63
check "bench --disk refuses what is longer than the context" status 2 \
    "600 tokens, 7 turns of 64 and 64 decoded ones do not fit the context of 700" \
    "$hearth" bench --disk -m $guide --prompt 600 --ctx 700
is_gone() { # what lay on disk, which is removed behind the program
    for ((i = 0; i < 600; i++)); do
        [ -z "$(ls "$dir/ended")" ] && return
        sleep 0.05
    done
    echo "# left: $(ls "$dir/ended")" && return 1
}
ended() { # a signal: it ends the program by that signal, and leaves nothing
    mkdir -p "$dir/ended"
    TMPDIR=$dir/ended env --default-signal="$1" "$hearth" bench --disk -m $guide --repeats 501 &
    local pid=$! got
    until [ -n "$(ls "$dir"/ended/*/pages 2>/dev/null)" ]; do
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    kill -"$1" $pid
    wait $pid 2>/dev/null
    got=$?
    [ "$got" = $((128 + $(kill -l "$1"))) ] || { echo "# status $got" && return 1; }
    is_gone
}
for signal in INT TERM HUP; do
    check "bench --disk leaves nothing behind when SIG$signal ends it" ended $signal
done
ended_at_once() { # a signal that comes as the folder does, which is written to soon after
    for _ in {1..12}; do
        TMPDIR=$dir/ended python3 -c '
import os, subprocess, sys
bench = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
while bench.poll() is None and not os.listdir(os.environ["TMPDIR"]):
    pass
bench.terminate()
assert bench.wait() in (-15, 0)  # 0: the folder was gone before anybody looked' \
            "$hearth" bench --turns -m $guide --prompt 64 && is_gone || return
    done
}
check "bench --turns leaves nothing behind when a signal comes with its folder" ended_at_once
full() { # a mode, where no file of a page fits: it has no figures
    (ulimit -f 64 && status 1 ": File too large" "$hearth" bench "$1" -m $guide --prompt 64)
}
check "bench --disk ends where the disk takes no more" full --disk
check "  and so does bench --turns" full --turns
spec() {
    python3 -c '
import json, sys
d = json.loads(sys.argv[1])
ws = d["workloads"]
assert [(w["workload"], w["stop"]) for w in ws] == [
    ("list", "natural"), ("list", "forced"), ("edit", "recorded")]
for w in ws:
    assert [l["length"] for l in w["lengths"]] == ["0", "4", "adaptive"]
    plain, four, own = w["lengths"]
    assert plain["drafted"] == 0 and plain["ratio"] == 1 and plain["tok_s"] > 0
    assert 0 < four["accepted"] <= four["drafted"] and four["steps"] < plain["steps"]
    assert own["accepted"] <= own["drafted"]
' "$("$hearth" bench --spec -m $guide --draft examples/guide/guide-draft-q8_0.gguf,lookup \
        --workloads list,edit --lengths 4 --repeats 1 --gen 40 --json)"
}
check "bench --spec compares drafts with plain decoding" spec
bad_spec() { # option, value, a part of stderr; nothing is opened for it
    status 2 "$3" "$hearth" bench --spec -m nofile.gguf --draft lookup "$1" "$2"
}
check "it refuses to compare nothing" status 2 "--spec: nothing drafts" \
    "$hearth" bench --spec -m nofile.gguf --draft off
check "and lengths that there are not" bad_spec --lengths 17 \
    "--lengths is '17', expected up to 16 numbers of 0 to 16"
check "  that are no numbers" bad_spec --lengths 1,x "--lengths is '1,x', expected"
check "  or more than it has room for" bad_spec --lengths 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2 \
    "expected up to 16 numbers"
check "and no repeats" bad_spec --repeats 0 "--repeats is '0', expected a number of 1 to 99"
check "  or a list of them" bad_spec --repeats 5,9 "--repeats is '5,9', expected a number"
check "  with nothing for the terminal in what it says" bad_spec --repeats $'\e[31m' \
    "--repeats is '\x1b[31m', expected"
spec_full() { # as many lengths as a list holds, beside plain decoding and hearth's own choice
    python3 -c '
import json, sys
for w in json.loads(sys.argv[1])["workloads"]:
    assert [l["length"] for l in w["lengths"]] == ["0"] + ["1"] * 15 + ["2", "adaptive"]
' "$("$hearth" bench --spec -m $guide --draft lookup --workloads list --repeats 1 --gen 4 \
        --lengths 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2 --json)"
}
check "16 lengths are all measured" spec_full
each_set() { # an instruction set has the same bits, or is refused by name
    local set out
    for set in simd dotprod avx2 avxvnni avx512 amx; do
        if out=$("$hearth" bench -m $guide --prompt 40 --gen 8 --cpu $set --json 2>&1); then
            [[ $out == *"$(hash_of)"* ]] || return 1
        else
            [[ $out == *"this CPU has no "*": use "* ]] || return 1
        fi
        echo "# --cpu $set: ${out##*hearth: }"
    done
}
check "every instruction set has these bits or is refused" each_set
tokenizer() {
    python3 -c '
import json, sys
d = json.loads(sys.argv[1])
assert len(d["texts"]) >= 6
for t in d["texts"]:
    assert t["mb_s"] > 0 and t["ms"] > 0 and 0 < t["tokens"] <= t["bytes"] == 1000000' \
        "$("$hearth" bench --tokenizer -m $guide --json)"
}
check "bench --tokenizer prints one JSON object" tokenizer
check "and a line per text" grep -q "^prose and code .* MB/s .* tokens$" \
    <("$hearth" bench --tokenizer -m $guide)
check "a model that is not there" status 1 "nofile.gguf: No such file" \
    "$hearth" bench --tokenizer -m nofile.gguf
kv_error() {
    python3 -c '
import json, sys
d = json.loads(sys.argv[1])
assert d["tokens"] > 200
t = {x["kv_type"]: x for x in d["types"]}
assert list(t) == ["f32", "f16", "q8_0", "q4_0"]
size = [x["token_bytes"] for x in d["types"]]
assert [s * 128 for s in size] == [size[0] * f for f in (128, 64, 33, 18)]
assert t["f32"]["error"] == 0 and t["f32"]["same_first"] == 1
assert 0 < t["f16"]["error"] < 0.02 and 0 < t["q8_0"]["error"] < 0.02
assert 0.02 < t["q4_0"]["error"] < 0.2
assert abs(t["q8_0"]["perplexity"] / t["f32"]["perplexity"] - 1) < 0.01' \
        "$("$hearth" bench --kv-error "$1" -m $guide --json)"
}
head -c 1500 examples/guide/samples.txt >"$TMPDIR/text"
check "bench --kv-error compares the KV types over a text" kv_error "$TMPDIR/text"
check "it names a text that is not there" status 1 "nofile: No such file" \
    "$hearth" bench --kv-error nofile -m $guide
: >"$TMPDIR/empty"
check "it needs some text" status 1 "two tokens at least" \
    "$hearth" bench --kv-error "$TMPDIR/empty" -m $guide
check "  and a context that holds some" status 2 "a context of two tokens at least is needed" \
    "$hearth" bench --kv-error "$TMPDIR/text" -m $guide --ctx 1
norm_is() { # name, bytes of a weight: the guide with another norm before its logits
    python3 -c '
import sys
old, new, weight = sys.argv[1:]
d = bytearray(open(old, "rb").read())
at = len(d) - 7263232  # where the tensors begin, of which that norm is the first
d[at:at + 1024] = bytes.fromhex(weight) * 256
open(new, "wb").write(d)' $guide "$TMPDIR/$1.gguf" "$2"
}
norm_is nan 0000c07f
check "logits that are not numbers have no error" status 1 "the model's logits are not numbers" \
    "$hearth" bench --kv-error "$TMPDIR/text" -m "$TMPDIR/nan.gguf" --json
check "bench --spec says that a workload has no room before it measures another" status 2 \
    "chat-long: 2128 tokens do not fit the context of 2048" \
    "$hearth" bench --spec -m "$TMPDIR/nan.gguf" --draft lookup --gen 1990
norm_is zero 00000000
no_error() {
    python3 -c '
import json, sys
types = json.loads(sys.argv[1], parse_constant=exit)["types"]
assert [(t["perplexity"], t["error"]) for t in types] == [(2048, 0)] * 4' \
        "$("$hearth" bench --kv-error "$TMPDIR/text" -m "$TMPDIR/zero.gguf" --json)"
}
check "those that are all 0 have none" no_error
check "an option of another mode is an error that names both" status 2 \
    "--rows is for --table, not for --speed" "$hearth" bench -m $guide --rows 1
check "  of several" status 2 "--gen is for --speed, --disk and --spec, not for --ops" \
    "$hearth" bench -m $guide --ops --gen 4
check "  of the engine" status 2 "--draft is for --turns and --spec, not for --disk" \
    "$hearth" bench -m $guide --disk --draft lookup
check "  but not where a configuration has it" env HEARTH_DRAFT=lookup \
    "$hearth" bench -m $guide --prompt 8 --gen 1 --json
check "two modes are an error" status 2 "--turns and --table: one of them at a time" \
    "$hearth" bench -m $guide --table --turns
check "a mode may be named that is there without a name" [ -n "$(hash_of --speed)" ]
check "CSV has no ratios" status 2 "--csv prints the table alone: it goes with no --compare" \
    "$hearth" bench --table --csv --compare none.csv -m $guide
check "no workload" bad_spec --workloads '' "--workloads is '', expected names with commas between"
check "a workload that there is not" bad_spec --workloads code,lists \
    "--workloads: 'lists' is none of code, list,"
help_of() { # the options below a mode
    "$hearth" bench --help | awk -v mode="--$1" '/^ +--/ { if ($0 ~ /^      --/) here = $1 == mode; else if (here) printf "%s ", $1 }'
}
check "--help puts options below their mode" [ "$(help_of disk)" = "--prompt --gen --depth --repeats " ]
check "  those of no mode nowhere" [ "$(help_of ops)$(help_of tokenizer)" = "" ]
check "  with what each is if it is not given" grep -qx " *--prompt N  *tokens to prefill (571)" \
    <("$hearth" bench --help)
check "bench has nothing to decode in a context of one" status 2 \
    "a context of two tokens at least is needed, not of 1" "$hearth" bench -m $guide --ctx 1
check "bench refuses more than the context" status 2 "do not fit the context of 2048" \
    "$hearth" bench -m $guide --prompt 2048 --gen 1
check "bench refuses a bad number" status 2 "--gen is '0'" "$hearth" bench -m $guide --gen 0

table=(--table -m $guide --rows 1,3 --depth 0,100)
"$hearth" bench "${table[@]}" --each-threads 1,2 --csv >"$TMPDIR/table.csv"
check "bench --table --csv has a line for each of threads, depth and rows" \
    [ "$(cut -d, -f4-6 "$TMPDIR/table.csv" | tr '\n' ' ')" = \
    "threads,depth,rows 1,0,1 1,0,3 1,100,1 1,100,3 2,0,1 2,0,3 2,100,1 2,100,3 " ]
compared() {
    python3 -c '
import json, sys
lines = json.loads(sys.argv[1])["lines"]
assert [(l["depth"], l["rows"]) for l in lines] == [(0, 1), (0, 5), (100, 1), (100, 5)]
for l in lines:
    assert l["tok_s"] > 0 and abs(l["tok_s"] - 1000 * l["rows"] / l["ms"]) < 0.01 * l["tok_s"]
    assert (l["ratio"] > 0) == (l["rows"] == 1), l' \
        "$("$hearth" bench "${table[@]}" --rows 1,5 -t 2 --json --compare "$TMPDIR/table.csv")"
}
models=examples/guide/guide-draft-q8_0.gguf,$guide
check "--each-model: a head and lines for every file" [ "$("$hearth" bench --table --rows 1 \
    --cpu scalar -t 1 --each-model "$models" | cut -d' ' -f1 | tr '\n' ' ')" = \
    "guide-draft-q8_0.gguf, cpu scalar guide-q8_0.gguf, cpu scalar " ]
check "--compare gives ratios where the earlier table has the line" compared
check "a scalar table beside the best" grep -q "^scalar  *1  *0  *1 " \
    <("$hearth" bench --table -m $guide --rows 1 -t 1 --each-cpu auto,scalar)
each() { # an option, the list that takes its place
    status 2 "$1 and $3: one of them at a time" "$hearth" bench --table "$@"
}
check "a list takes the place of an option: both are an error" each --cpu scalar --each-cpu avx2
check "  of threads" each --threads 1 --each-threads 2
check "  of the model" each --model $guide --each-model $guide
check "  but not where a configuration has it" env HEARTH_CPU=scalar HEARTH_MODEL=nofile.gguf \
    "$hearth" bench --table --rows 1 -t 1 --each-model $guide --each-cpu auto
check "an instruction set that there is not" status 2 "nosuch" \
    "$hearth" bench --table -m $guide --rows 1 -t 1 --each-cpu nosuch
# A file that opens, but is no model of hearth's: it fails only once it is measured.
LC_ALL=C sed 's/qwen3/qwen9/g' $guide >"$TMPDIR/other.gguf"
check "  which is told before anything is measured" status 2 "nosuch" \
    "$hearth" bench --table --each-model "$TMPDIR/other.gguf" --rows 1 -t 1 --each-cpu scalar,nosuch
check "  and so is a file that there is not" status 1 "/nosuch.gguf: No such file" \
    "$hearth" bench --table --each-model "$TMPDIR/other.gguf,/nosuch.gguf" --rows 1 -t 1
check "an empty list of them" status 2 "--each-cpu is '', expected" \
    "$hearth" bench --table -m $guide --rows 1 -t 1 --each-cpu ''
check "  or of models" status 2 "--each-model is '', expected" \
    "$hearth" bench --table --rows 1 -t 1 --each-model ''
check "a bad list" status 2 "--rows is '1,x', expected" "$hearth" bench --table -m $guide --rows 1,x
check "a depth beyond the context" status 2 "2049 positions do not fit the context of 2048" \
    "$hearth" bench --table -m $guide --rows 1 --depth 2048
check "more lines than a table has" status 2 "--table: 1280 lines, more than 1024" \
    "$hearth" bench --table -m $guide --depth "$(seq -s, 16)" --rows "$(seq -s, 16)" --each-threads 1,2,1,2,1
echo "1,2" >"$TMPDIR/none.csv"
check "--compare with another file" status 1 "none.csv: line 1 is none of a bench table" \
    "$hearth" bench "${table[@]}" --compare "$TMPDIR/none.csv"
head -n 1 "$TMPDIR/table.csv" >"$TMPDIR/none.csv"
check "  or with one that a run left empty" status 1 "none.csv: has no line of a bench table" \
    "$hearth" bench "${table[@]}" --compare "$TMPDIR/none.csv"
sed '2s/[^,]*/0.00/8' "$TMPDIR/table.csv" >"$TMPDIR/slow.csv"
check "  or with a speed of nothing" status 1 "slow.csv: line 2 is none of a bench table" \
    "$hearth" bench "${table[@]}" --compare "$TMPDIR/slow.csv"

rows() { [ "$("$hearth" inspect logits -m $guide --ids "$1" --rows "$2" | wc -c)" = "$3" ]; }
check "logits of all rows" rows "1 2 3" all $((3 * 2048 * 4))
check "logits of the last row" rows "1 2 3" last $((2048 * 4))
check "the last row is the last of all" cmp -s \
    <("$hearth" inspect logits -m $guide --ids "5 6 7 8" --rows all | tail -c 8192) \
    <("$hearth" inspect logits -m $guide --ids "5,6,7,8")
check "a bad id is named" status 2 "'x' is no token id" "$hearth" inspect logits -m $guide --ids "1 x"
check "so are two without a blank" status 2 "'1+2' is no token id" "$hearth" inspect logits -m $guide --ids 1+2
check "an id beyond the vocabulary is refused" status 2 "'2048' is no token id below 2048" \
    "$hearth" inspect logits -m $guide --ids 2048
check "ids beyond the context end with 3" status 3 "has 5 tokens, the context holds 4" \
    "$hearth" inspect logits -m $guide --ids "1 2 3 4 5" --ctx 4
check "more than fit behind one id" status 2 "1 token and 2048 more do not fit the context of 2048" \
    "$hearth" inspect greedy -m $guide --ids 1 -n 2048
check "no model is a usage error" status 2 "-m FILE is missing" "$hearth" inspect greedy --ids 1
greedy=$("$hearth" inspect greedy -m $guide --ids "1 2 3" -n 8)
check "greedy draws as many as asked" [ "$(wc -w <<<"$greedy")" = 8 ]
one_by_one() { # greedy ids are the argmax of the logits, whatever prefilled them
    python3 - "$hearth" $guide "$greedy" <<'PY'
import struct, subprocess, sys
hearth, guide, want = sys.argv[1:]
ids, want = [1, 2, 3], [int(x) for x in want.split()]
for k in range(3):
    out = subprocess.run([hearth, 'inspect', 'logits', '-m', guide, '--ids', ' '.join(map(str, ids))],
                         stdout=subprocess.PIPE, check=True).stdout
    row = struct.unpack('<2048f', out)
    ids.append(row.index(max(row)))
sys.exit(ids[3:] != want[:3])
PY
}
check "greedy follows the logits" one_by_one
slow_reader() { # of a pipe that does not wait for room: all of it comes, in the end
    python3 - "$hearth" $guide "$1" <<'PY'
import os, subprocess, sys, time
hearth, guide, want = sys.argv[1:]
reads, writes = os.pipe()
os.set_blocking(writes, False)
child = subprocess.Popen([hearth, 'inspect', 'logits', '-m', guide, '--ids', '1 ' * 40, '--rows', 'all'],
                         stdout=writes)
os.close(writes)
time.sleep(1)
n = 0
while got := os.read(reads, 65536):
    n += len(got)
assert child.wait() == 0 and n == int(want), n
PY
}
check "a pipe that does not wait gets them all" slow_reader $((40 * 2048 * 4))
check "a closed output is quiet" status 141 "" bash -c \
    "set -o pipefail; $hearth inspect logits -m $guide --ids '$(seq -s' ' 1 400)' --rows all | head -c 1"
done_testing
