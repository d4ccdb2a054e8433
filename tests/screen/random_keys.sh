#!/usr/bin/env bash
# Random keys at the line prompt, emacs and vi: afterwards it still answers, and leaves with status
# 0. Freed memory is filled, and what is freed twice ends the program; sanitizer builds see more.
. tests/lib/tap.sh
export LC_ALL=C.UTF-8 TERM=xterm INPUTRC=$dir/inputrc EDITOR=true
export GLIBC_TUNABLES=glibc.malloc.perturb=165:glibc.malloc.tcache_count=0
unset VISUAL
# Readline itself keeps a few bytes in vi mode.
echo leak:libreadline >"$dir/leaks"
export LSAN_OPTIONS=suppressions=$dir/leaks
for ((seed = 1; seed <= 2 * ${HEARTH_SOAK:-1}; seed++)); do
    for mode in emacs vi; do
        echo "set editing-mode $mode" >"$INPUTRC"
        check "keys in $mode mode, seed $seed" timeout 300 python3 \
            tests/screen/lib/random_keys.py $seed 200 "$hearth" -m "$guide" --temp 0 -n 3
    done
done
done_testing
