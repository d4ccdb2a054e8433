#!/usr/bin/env bash
# make install and make uninstall with DESTDIR: everything is in its place, then nothing is left.
. tests/lib/tap.sh

# The config given to make comes through MAKEFLAGS; the parallel jobs of that make are not ours.
export MAKEFLAGS="${MAKEFLAGS:-}"
MAKEFLAGS=$(sed -E 's/ ?--jobserver[^ ]*//g; s/(^| )-j[0-9]*//g' <<<"$MAKEFLAGS")
installed() { make -s "$1" DESTDIR="$dir" >"$dir/log" 2>&1 || { sed 's/^/# /' "$dir/log" && return 1; }; }
there() { [ -s "$dir$1" ] || { echo "# no $1" && return 1; }; }

root=/usr/local
check "install" installed install
check "the program" there $root/bin/hearth
check "  runs" eval '"$dir$root/bin/hearth" --version | grep -q "^hearth [0-9]"'
for page in man/*.[1-8]; do
    check "$page" there "$root/share/man/man${page##*.}/$(basename "$page")"
done
check "the guide" there $root/share/hearth/guide/guide-q8_0.gguf
check "its draft" there $root/share/hearth/guide/guide-draft-q8_0.gguf
for example in examples/*.ini; do
    check "$example" there "$root/share/hearth/examples/$(basename "$example")"
done
for script in examples/scripts/*; do
    check "$script" [ -x "$dir$root/share/hearth/$script" ]
done
completion=$root/share/bash-completion/completions/hearth
check "completion" there $completion
check "  is bash" bash -n "$dir$completion"
check "  registers hearth" grep -q '^complete .*hearth' "$dir$completion"
check "completion of zsh" there $root/share/zsh/site-functions/_hearth
check "completion of fish" there $root/share/fish/vendor_completions.d/hearth.fish
check "uninstall" installed uninstall
check "nothing is left" eval '[ -z "$(find "$dir" -type f ! -name log)" ]'
done_testing
