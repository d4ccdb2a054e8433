#!/usr/bin/env python3
"""Writes the small vocabularies of the tests: bpe.gguf (gpt2), spm.gguf (llama), gemma4.gguf,
plamo2.gguf.
usage: make.py [DIR]. They hold no tensors. Standard library only."""
import os
import re
import struct
import sys
from collections import Counter

TEXT = """A small program reads one line at a time and answers in plain words. It says what it
keeps, what it drops and why; when the two numbers differ, look at the first place where they do.
She said it's late, they're here, we've won, I'm sure you'd know, he'll come, and I can't stay.
int main(void) { for (int i = 0; i < 10; i++) printf("%d\\n", i * 2); return 0; }
Der Hund und die Katze sind im Haus, aber die Stra\u00dfe ist gr\u00fcn. O\u00f9 est le caf\u00e9? L'\u00e9t\u00e9 \u00e0 No\u00ebl.
\u041f\u0440\u0438\u0432\u0435\u0442, \u043a\u0430\u043a \u0434\u0435\u043b\u0430? \u0425\u043e\u0440\u043e\u0448\u043e. \u4f60\u597d\uff0c\u4e16\u754c\u3002\u4f60\u597d\u5417\uff1f \u3053\u3093\u306b\u3061\u306f\u3001\u4e16\u754c\u3002 \uc548\ub155\ud558\uc138\uc694
\u0928\u092e\u0938\u094d\u0924\u0947 \u0645\u0631\u062d\u0628\u0627 \U0001f642\U0001f642 \U0001f468\u200d\U0001f469\u200d\U0001f467 1 12 123 1234 2024 2025 3.14 99% $5 #7 a@b.c ... --- ==== ////
""" * 2
SPACE = "\u2581"
# These two vocabularies have no tokens for what lies beyond: it is spelled in bytes.
KNOWN = "".join(c for c in TEXT if ord(c) < 0x3000)


def pack_str(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


class Writer:
    def __init__(self):
        self.kv = []

    def add(self, key, kind, value):
        put = {8: pack_str, 4: lambda v: struct.pack("<I", v), 5: lambda v: struct.pack("<i", v),
               6: lambda v: struct.pack("<f", v), 7: lambda v: struct.pack("<?", v)}[kind]
        if isinstance(value, list):
            body = struct.pack("<IIQ", 9, kind, len(value)) + b"".join(map(put, value))
        else:
            body = struct.pack("<I", kind) + put(value)
        self.kv.append(pack_str(key) + body)

    def write(self, path):
        with open(path, "wb") as f:
            f.write(struct.pack("<4sIQQ", b"GGUF", 3, 0, len(self.kv)) + b"".join(self.kv))


def byte_chars():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in own]
    table = {b: chr(b) for b in own}
    table.update({b: chr(256 + i) for i, b in enumerate(rest)})
    return table


def learn(words, n, taken):
    """Greedy pair merging over a Counter of symbol tuples."""
    merges, words, taken = [], dict(words), set(taken)
    while len(merges) < n:
        pairs = Counter()
        for word, k in words.items():
            for pair in zip(word, word[1:]):
                if "".join(pair) not in taken:
                    pairs[pair] += k
        if not pairs:
            break
        best = max(pairs.items(), key=lambda kv: (kv[1], kv[0]))[0]
        merges.append(best)
        taken.add("".join(best))
        after = Counter()
        for word, k in words.items():
            out, i = [], 0
            while i < len(word):
                both = word[i:i + 2] == best
                out.append("".join(best) if both else word[i])
                i += 2 if both else 1
            after[tuple(out)] += k
        words = after
    return merges


def common(w, model, tokens, types, bos, eos, unk=None):
    w.add("general.architecture", 8, "llama")
    w.add("tokenizer.ggml.model", 8, model)
    w.add("tokenizer.ggml.tokens", 8, tokens)
    w.add("tokenizer.ggml.token_type", 5, types)
    w.add("tokenizer.ggml.bos_token_id", 4, bos)
    w.add("tokenizer.ggml.eos_token_id", 4, eos)
    if unk is not None:
        w.add("tokenizer.ggml.unknown_token_id", 4, unk)


def bpe(path):
    chars = byte_chars()
    cut = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+|\d| ?[^\s\w]+\n*|\s+")
    words = Counter(tuple(chars[b] for b in m.encode()) for m in cut.findall(TEXT))
    tokens = [chars[b] for b in range(256)]
    blank = (chars[10], chars[10])  # an empty line, which many prompts have at their borders
    merges = [blank] + learn(words, 500, tokens + ["".join(blank)])
    tokens += ["".join(m) for m in merges]
    types = [1] * len(tokens)
    n = len(tokens)
    tokens += ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "\n\n\n"]
    types += [3, 3, 3, 4, 4, 4]
    w = Writer()
    common(w, "gpt2", tokens, types, n, n + 2)
    w.add("tokenizer.ggml.pre", 8, "qwen2")
    w.add("tokenizer.ggml.merges", 8, [" ".join(m) for m in merges])
    w.add("tokenizer.ggml.add_bos_token", 7, False)
    w.add("tokenizer.chat_template", 8, "{{ messages }}")
    w.add("tokenizer.chat_template.tool_use", 8, "{{ tools }}")
    w.write(path)


def spm(path):
    words = Counter(tuple(SPACE + w) for w in KNOWN.split())
    chars = sorted({c for w in words for c in w})
    head = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    merges = learn(words, 300, head + chars)
    pieces = ["".join(m) for m in merges] + chars + [SPACE * 2, SPACE * 4]
    w = Writer()
    common(w, "llama", head + pieces, [2, 3, 3] + [6] * 256 + [1] * len(pieces), 1, 2, 0)
    w.add("tokenizer.ggml.scores", 6, [0.0] * len(head) + [-float(i) for i in range(len(pieces))])
    w.write(path)


def gemma4(path):
    lines = Counter(tuple(line.replace(" ", SPACE)) for line in KNOWN.split("\n") if line)
    chars = sorted({c for line in lines for c in line})
    head = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>", "<|channel>", "<channel|>"]
    head += ["<0x%02X>" % b for b in range(256)]
    types = [3, 3, 3, 2, 3, 3, 3, 3] + [6] * 256
    newlines = ["\n" * k for k in range(1, 5)]
    merges = learn(lines, 400, head + chars)
    pieces = newlines + chars + ["".join(m) for m in merges] + ["<html>"]
    types += [1] * (len(pieces) - 1) + [4]
    w = Writer()
    common(w, "gemma4", head + pieces, types, 2, 1, 3)
    w.add("tokenizer.ggml.merges", 8, [" ".join(m) for m in merges])
    w.add("tokenizer.ggml.add_bos_token", 7, True)
    w.add("tokenizer.ggml.add_space_prefix", 7, False)
    w.write(path)


def plamo2(path):
    lines = Counter(tuple(line + "\n") for line in KNOWN.split("\n") if line)
    chars = sorted({c for line in lines for c in line} - set("#$\u00e9"))
    head = ["<|plamo:%s|>" % name for name in ("unk", "bos", "eos", "pad", "op")]
    head += ["<0x%02X>" % b for b in range(256)]
    types = [2, 3, 3, 3, 3] + [6] * 256
    runs = ["\n\n", "  ", "    "]
    pieces = chars + runs + ["".join(m) for m in learn(lines, 400, head + chars + runs)]
    w = Writer()
    # The longer a token, the less likely, but more so than its parts; some are as good as these.
    scores = [-float(8 + len(p) * 3 // 2 + i % 3) for i, p in enumerate(pieces)]
    common(w, "plamo2", head + pieces + ["[PAD1]"], types + [1] * len(pieces) + [5], 1, 2, 0)
    w.add("tokenizer.ggml.scores", 6, [0.0] * len(head) + scores + [-1000.0])
    w.add("tokenizer.ggml.eot_token_id", 4, 4)
    w.add("tokenizer.ggml.add_space_prefix", 7, False)
    w.write(path)


out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
bpe(os.path.join(out, "bpe.gguf"))
spm(os.path.join(out, "spm.gguf"))
gemma4(os.path.join(out, "gemma4.gguf"))
plamo2(os.path.join(out, "plamo2.gguf"))
