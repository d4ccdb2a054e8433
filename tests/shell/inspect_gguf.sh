#!/usr/bin/env bash
# hearth inspect gguf and dequant as a user meets them: right files, wrong files, broken pipes.
. tests/lib/tap.sh

go() { exits "$1" "$hearth" inspect "${@:2}" </dev/null; }

corpus=tests/fuzz/corpus/gguf
check "arrays.gguf" go 0 gguf $corpus/arrays.gguf
check "  keys" has '^  general.alignment +u32  64$'
check "  strings with ESC made harmless" has 'string\[4\]  "a", "", "\\x1b\[31m", "▁the"$'
check "  no raw control byte" eval '! LC_ALL=C grep -q "[^[:print:][:space:]]" <(LC_ALL=C tr -d "\200-\377" <"$dir/out")'
check "  tensor" has '^  t +F32 +3 +12$'
check "scalars.gguf" go 0 gguf $corpus/scalars.gguf
check "  u64 beyond i64" has 'u64  9223372036854775808$'
check "  f64" has 'f64  -2.5$'
check "types-256.gguf" go 0 gguf $corpus/types-256.gguf
check "  shape and bytes" has '^  q6_k +Q6_K +256 +210$'

check "missing file" go 1 gguf "$dir/none.gguf"
check "  message" says "none.gguf: No such file or directory"
check "directory" go 1 gguf "$dir"
check "  message" says "is a directory"
: >"$dir/empty.gguf"
check "empty file" go 1 gguf "$dir/empty.gguf"
check "  message" says "empty.gguf: is empty"
head -c 100 $corpus/types-32.gguf >"$dir/cut.gguf"
check "cut file" go 1 gguf "$dir/cut.gguf"
check "  message" says "claims 10 tensors"
check "  nothing on stdout" nothing
printf 'MZ\33[2J' >"$dir/magic.gguf"
check "another kind of file" go 1 gguf "$dir/magic.gguf"
check "  message without a raw ESC" says "begins with 'MZ\\x1b['"
check "split file alone" go 1 gguf $corpus/split.gguf
check "  message" says "expected a name that ends in -00001-of-00002.gguf"
check "no file named" go 2 gguf
check "help" go 0 gguf --help
check "unknown option" go 2 gguf --frobnicate

readme_families()
{
    sed -n '/^Families of models/,/^What is not/{/^[- ] /p}' README.md |
        sed 's/^- [^:]*: //; s/([^)]*)//g' | tr -s ', ' '\n' | grep . | LC_ALL=C sort -u
}
check "families, each on its line" eval '"$hearth" inspect families >"$dir/out" && has "^gpt-oss$"'
check "  all that the README lists" eval 'readme_families | cmp -s - <(LC_ALL=C sort "$dir/out")'
check "  and counts" grep -q "the $(wc -l <"$dir/out") families below" README.md
check "families of something" go 2 families x

dequant()
{
    "$hearth" inspect dequant --type "$1" <"tests/data/quants/$1.bin" >"$dir/out" &&
        cmp -s "$dir/out" "tests/data/quants/$1.f32"
}
for bin in tests/data/quants/*.bin; do
    type=$(basename "$bin" .bin)
    check "dequant $type" dequant "$type"
done
check "dequant of nothing" eval '"$hearth" inspect dequant --type q4_k </dev/null >"$dir/out" && nothing'
check "half a block" eval 'head -c 200 tests/data/quants/Q4_K.bin | exits 2 "$hearth" inspect dequant --type Q4_K'
check "  message" says "hearth: inspect dequant: standard input ends with 56 bytes, a block of Q4_K has 144"
check "  the whole block is there" eval '[ $(stat -c %s "$dir/out") = 1024 ]'
check "standard input that cannot be read" exits 1 "$hearth" inspect dequant --type Q4_K </
check "  message" says "standard input: cannot be read: Is a directory"
check "unknown type" go 2 dequant --type Q4_X
check "  message lists the known" says "is not a weight type; known: F32 F16 BF16"
check "a full disk" eval '! "$hearth" inspect dequant --type Q4_K <tests/data/quants/Q4_K.bin >/dev/full 2>"$dir/err"'
check "  message" says "No space left on device"
done_testing
