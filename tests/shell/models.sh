#!/usr/bin/env bash
# hearth models: what llama.cpp, Hugging Face, Ollama and LM Studio keep, found and told apart.
. tests/lib/tap.sh
home=$dir/home
export HOME=$home
unset XDG_CACHE_HOME LLAMA_CACHE HF_HOME HF_HUB_CACHE OLLAMA_MODELS
mkdir -p "$home"
digest() { sha256sum "$1" | cut -d ' ' -f 1; }

# Without any: it says so. (A machine may have some where a system's Ollama keeps them.)
if [ ! -e /usr/share/ollama ]; then
    check "no models" go 0 models
    check "  is said" prints "no models were found"
fi

# llama.cpp: files in one folder; a projector, a later part and something else beside them.
cache=$home/.cache/llama.cpp
mkdir -p "$cache"
cp "$guide" "$cache/org_guide-Q8_0.gguf"
cp "$guide" "$cache/mmproj-guide.gguf"
cp "$guide" "$cache/big-00002-of-00002.gguf"
echo '{}' >"$cache/manifest=org=guide.json"
echo nonsense >"$cache/broken.gguf"
# Hugging Face: files are links to blobs.
hub=$home/.cache/huggingface/hub/models--some-org--tiny--model
mkdir -p "$hub/blobs" "$hub/snapshots/abc/q4"
"$hearth" inspect make --shape n_layer=2,n_vocab=2304,n_ff=512 --type Q4_0 "$hub/blobs/1"
ln -s ../../../blobs/1 "$hub/snapshots/abc/q4/tiny.Q4_0.gguf"
ln -s .. "$hub/snapshots/abc/loop"
# Ollama: manifests name blobs.
ollama=$home/.ollama/models
mkdir -p "$ollama/blobs" "$ollama/manifests/registry.ollama.ai/library/tiny" \
    "$ollama/manifests/registry.ollama.ai/me/other" "$ollama/manifests/example.org/a/b"
"$hearth" inspect make --shape n_layer=2,n_vocab=2304,n_ff=256 --type Q8_0 "$dir/o.gguf"
sha=$(digest "$dir/o.gguf")
mv "$dir/o.gguf" "$ollama/blobs/sha256-$sha"
manifest() { printf '{"layers":[{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:%064d"},{"mediaType":"application/vnd.ollama.image.model","digest":"%s"}]}' 0 "$1"; }
manifest "sha256:$sha" >"$ollama/manifests/registry.ollama.ai/library/tiny/1b"
cp "$ollama/manifests/registry.ollama.ai/library/tiny/1b" "$ollama/manifests/registry.ollama.ai/library/tiny/latest"
manifest "sha256:../../../../etc/passwd" >"$ollama/manifests/registry.ollama.ai/me/other/evil"
echo '[[[{' >"$ollama/manifests/registry.ollama.ai/me/other/broken"
# LM Studio: folders of publishers; one file is the same as one above, one has a hostile name.
lm=$home/.lmstudio/models/pub/model
mkdir -p "$lm"
ln "$cache/org_guide-Q8_0.gguf" "$lm/same.gguf"
"$hearth" inspect make --shape n_layer=2,n_vocab=2304,n_ff=128 --type F16 "$lm/$(printf 'e\033[31mvil').gguf"

export OLLAMA_MODELS=$ollama
before=$(find "$home" | sort | md5sum)
check "models" go 0 models
check "  of llama.cpp" prints '  1  org_guide-Q8_0 (llama.cpp)'
check "  of Hugging Face" prints '  2  some-org/tiny/model/q4/tiny.Q4_0 (Hugging Face)'
check "  of Ollama, by its name" prints '  3  tiny:1b (Ollama)'
check "  of LM Studio, its name made harmless" prints '  4  pub/model/e\x1b[31mvil (LM Studio)'
check "  no fifth: no projector, no later part, no second name, nothing broken" eval '! grep -q "^  5 " "$dir/out"'
check "  with type, size, context and fit" has '^ +Q8_0, [0-9.]+ MiB, context 2,048, fits in memory$'
check "  and path" prints "$ollama/blobs/sha256-$sha"
check "  quietly" quiet
check "  nothing was changed" [ "$(find "$home" | sort | md5sum)" = "$before" ]
check "list, as ollama says it" eval 'cp "$dir/out" "$dir/models"; go 0 list && cmp -s "$dir/out" "$dir/models"'
check "-m takes a name" go 0 -q --private -m org_guide-Q8_0 --temp 0 -p 'What is a draft model?' </dev/null
check "  and opens that model" prints 'A draft model is'
check "run NAME PROMPT, as ollama says it" eval 'cp "$dir/out" "$dir/reply"; go 0 run org_guide-Q8_0 "What is a draft model?" -q --private --temp 0 </dev/null && cmp -s "$dir/out" "$dir/reply"'
check "run of a name that nothing has" go 1 run nothing:7b hello </dev/null
check "  is neither that nor a file" says 'nothing:7b: there is no such file, and no model of that name among those that hearth models lists'
check "a path is that of a file" go 1 -m ./nothing:7b -p hello </dev/null
check "  which is missing" says './nothing:7b: No such file or directory'
check "a variable takes a name" eval 'HEARTH_MODEL=org_guide-Q8_0 go 0 -q --private --temp 0 -p "What is a draft model?" </dev/null && cmp -s "$dir/out" "$dir/reply"'
mkdir -p "$dir/config/hearth"
echo 'model = org_guide-Q8_0' >"$dir/config/hearth/hearth.ini"
check "and the configuration" eval 'go 0 -q --private --temp 0 -p "What is a draft model?" </dev/null && cmp -s "$dir/out" "$dir/reply"'
echo 'model = nothing:7b' >"$dir/config/hearth/hearth.ini"
check "  a name that nothing has" go 1 -q -p hello </dev/null
check "    is said as it stands there" says 'hearth.ini:1: model: nothing:7b: there is no such file, and no model'
rm "$dir/config/hearth/hearth.ini"
for tag in tiny:1b tiny:latest tiny; do
    check "$tag, as Ollama knows it" eval 'go 0 -q --private -n 1 --jsonl -m $tag -p x </dev/null && prints "blobs/sha256-$sha\""'
    check "  in hearth inspect, too" eval 'echo a | go 0 inspect tokens -m $tag && has "^[0-9]+ "'
done
cp "$ollama/blobs/sha256-$sha" "$home/.lmstudio/models/tiny.gguf"
check "a name as it is goes before one without its tag" eval 'go 0 -q --private -n 1 --jsonl -m tiny -p x </dev/null && prints "models/tiny.gguf\""'
rm "$home/.lmstudio/models/tiny.gguf"
check "half a name" go 1 -q -m tin -p x </dev/null
check "  is none" says 'tin: there is no such file, and no model of that name'
check "  but there are such that begin so" eval 'says "hearth models lists; names that begin so: tiny:1b, tiny:latest" && [ "$(wc -l <"$dir/err")" = 1 ]'
for n in 2 3 4 5; do cp "$ollama/manifests/registry.ollama.ai/library/tiny/1b" "$ollama/manifests/registry.ollama.ai/library/tiny/${n}b"; done
check "  of many the first" go 1 -q -m TINY: -p x </dev/null
check "    and how many" says 'names that begin so: tiny:1b, tiny:2b, tiny:3b, tiny:4b, tiny:5b and 1 more'
rm "$ollama/manifests/registry.ollama.ai/library/tiny/"[2-5]b
check "  and of nothing none" eval 'go 1 -q -m tine -p x </dev/null && says "that hearth models lists" && ! says "begin so"'
# A model of Ollama with an adapter is that, or none.
layer() { printf '{"mediaType":"application/vnd.ollama.image.%s","digest":"sha256:%s"}' "$1" "$2"; }
cp README.md "$dir/adapter"
tuned=$(digest "$dir/adapter")
mkdir "$ollama/manifests/registry.ollama.ai/library/tuned"
printf '{"layers":[%s,%s]}' "$(layer model "$sha")" "$(layer adapter "$tuned")" \
    >"$ollama/manifests/registry.ollama.ai/library/tuned/1b"
check "an adapter that has gone" go 1 -q -m tuned:1b -p x </dev/null
check "  makes it no model" says 'tuned:1b: there is no such file, and no model of that name'
cp README.md "$ollama/blobs/sha256-$tuned"
check "one that is there" go 1 -q -m tuned:1b -p x </dev/null
check "  is opened" says "$ollama/blobs/sha256-$tuned: not a GGUF file"
check "  unless another is named" go 1 -q -m tuned:1b --lora nowhere.gguf -p x </dev/null
check "    which is opened" says "nowhere.gguf: No such file"
check "  and listed beside the model alone" eval 'go 0 models && prints "tiny:1b (Ollama)" && prints "tuned:1b (Ollama)" && has ", with an adapter$"'
check "  with its path" eval "go 0 models --json && prints 'adapter\":\"$ollama/blobs/sha256-$tuned'"
rm -r "$ollama/manifests/registry.ollama.ai/library/tuned"
check "nor in hearth inspect" go 1 inspect greedy -m tin --ids 1
check "  which says so" says 'tin: there is no such file, and no model of that name'
check "run alone" go 2 run
check "  says how" says 'run: expected hearth run NAME [PROMPT]'
check "pull" go 2 pull tiny
check "  is not ours" says 'pull: hearth downloads none'
check "--json" go 0 models --json
check "  one object each" python3 -c '
import json, os, sys
models = [json.loads(l) for l in open(sys.argv[1])]
assert [m["found_by"] for m in models] == ["llama.cpp", "Hugging Face", "Ollama", "LM Studio"]
assert [m["type"] for m in models] == ["Q8_0", "Q4_0", "Q8_0", "F16"], models
assert all(os.path.isfile(m["path"]) and m["fits"] and m["context"] > 0 for m in models)
' "$dir/out"
check "a path from the list opens" go 0 -q --private -n 1 -m "$ollama/blobs/sha256-$sha" -p x </dev/null
check "LLAMA_CACHE is looked at instead" eval 'LLAMA_CACHE=$dir/none go 0 models && ! grep -q llama.cpp "$dir/out"'
check "  and HF_HOME" eval 'HF_HOME=$home/.cache/huggingface go 0 models && prints "(Hugging Face)"'
check "a pipe asks nothing" eval 'go 0 -n 1 -p x </dev/null && says "bundled guide" && ! grep -q "Which one" "$dir/err"'
check "an unknown word" go 2 models --frob
check "  is named" says "--frob: expected nothing or --json"
check "--help" go 0 models --help
done_testing
