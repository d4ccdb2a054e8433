#!/usr/bin/env bash
# Models whose files bring no chat template: which one of those that are built in they are given, and
# how this is said.
. tests/lib/tap.sh

# The guide's file under another name of the template's key, TO, and of the tokens that begin and
# end a turn. Each name comes with its length; the lengths make up for each other, so that the
# tensors move by a multiple of 32 bytes, as they are aligned.
made() # FILE KEY BEGIN END
{
    local script=':a;N;$!ba;' old new # a length may be a line end
    set -- "$1" tokenizer.chat_template "$2" '<|im_start|>' "$3" '<|im_end|>' "$4"
    local file=$1
    shift
    while (($# > 1)); do
        old=$1 new=$2
        script+=$(printf 's/\\x%02x\\x00\\{7\\}%s/\\x%02x\\x00\\x00\\x00\\x00\\x00\\x00\\x00%s/;' \
            ${#old} "${old//./\\.}" ${#new} "$new")
        shift 2
    done
    LC_ALL=C sed "$script" "$guide" >"$file"
}
made "$dir/chatml.gguf" tokenizer.chat_templatx '<|im_start|>' '<|im_end|>'
made "$dir/plain.gguf" tokenizer.chat_templatx '<|xx_start|>' '<|xx_end|>'
made "$dir/gemma.gguf" tokenizer.chat_template_of_nobody_at_all_ever_xyz '<start_of_turn>' '<end_of_turn>'
echo '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
 "add_generation_prompt": true}' >"$dir/c.json"
of() { go 0 inspect prompt -m "$dir/$1.gguf" --context "$dir/c.json"; }
# ask FILE ARGS...: a reply of a token.
ask() { go 0 -m "$dir/$1.gguf" --draft off -n 1 "${@:2}" </dev/null; }

gemma="; its tokens are Gemma's, so --template gemma is used"
check "a file without a template, but with Gemma's tokens" of gemma
check "  is rendered Gemma's way" eval \
    'printf "<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n" | cmp - "$dir/out"'
check "  which is said, and why" says "gemma.gguf has no chat template$gemma"
check "it is talked to" ask gemma -p Hi
check "  with a warning of the same words" says "warning: the model has no chat template$gemma"
check "  not where the template is given" ask gemma -q --template gemma -p Hi
check "    so that nothing is to be told" quiet
check "one with ChatML's" of chatml
check "  is rendered so" prints '<|im_start|>system'
check "  which is said" says "; its tokens are ChatML's, so --template chatml is used"
check "one with no such tokens" of plain
check "  is rendered as ChatML" prints '<|im_start|>system'
check "  which is said, and what else there is" says \
    'plain.gguf has no chat template, nor the tokens of one that is built in; using ChatML (--template raw gives'
check "  as a warning of a talk" eval 'ask plain -p Hi && says "warning: the model has no chat template, nor the tokens"'

# Vocabularies of real models, with no template or without theirs.
vocabularies=../shared/conformance/tokenizers
real() # NAME TEMPLATE
{
    local file=$vocabularies/ggml-vocab-$1.gguf.gz
    if [ -f "$file" ]; then
        gzip -dc "$file" | LC_ALL=C sed 's/tokenizer\.chat_template/tokenizer.chat_templatX/' >"$dir/real.gguf"
        check "the vocabulary of $1 tells $2" eval 'of real && says "so --template '"$2"' is used"'
    else
        skip "the vocabulary of $1" "no $vocabularies"
    fi
}
real llama-bpe llama3
real phi-3 phi3
real qwen2 chatml
real deepseek-llm deepseek2

check "a template by its name" go 0 inspect prompt --template llama3 --context "$dir/c.json"
check "  is that one" prints '<|start_header_id|>system<|end_header_id|>'
check "llama.cpp's name of the option" ask gemma -q --chat-template gemma -p Hi
check "  means the same" quiet
check "a name that is none" go 1 -m "$guide" --template gemna -p x
check "  is a file that is not there" says 'hearth: the template: gemna: No such file or directory'
check "  but nearly a name" says 'did you mean gemma, which is built in?'
check "a file that is not there" go 1 -m "$guide" --template "$dir/of/mine" -p x
check "  is like no name" eval '! grep -q "did you mean" "$dir/err"'
check "bench takes the same" go 0 bench --spec -m "$dir/gemma.gguf" --draft lookup --workloads chat-short --gen 1 --lengths 1 --repeats 1

done_testing
