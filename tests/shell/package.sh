#!/usr/bin/env bash
# make dist and the Debian package: built from what is built already, unpacked, and run from there.
. tests/lib/tap.sh
export MAKEFLAGS="${MAKEFLAGS:-}"
MAKEFLAGS=$(sed -E 's/ ?--jobserver[^ ]*//g; s/(^| )-j[0-9]*//g; s/config=[a-z]*//g' <<<"$MAKEFLAGS")

# Somebody else's checkout, or none at all, has no archive.
if git rev-parse --verify -q HEAD >/dev/null 2>&1; then
    check "make dist" exits 0 make -s dist
    archive=build/hearth-$("$hearth" --version | cut -d ' ' -f 2).tar.gz
    check "  names the archive" has "^$archive\$"
    tar -tzf "$archive" >"$dir/list"
    for file in Makefile README.md LICENSE debian/rules src/app/main.c examples/guide/guide-q8_0.gguf; do
        check "  with $file" grep -qxE "hearth-[0-9.]+/$file" "$dir/list"
    done
    check "  and nothing that was built" eval '! grep -qE "/build/|\.o$" "$dir/list"'
fi

# The package is of the release build; in another config there is none to take.
if command -v dpkg-buildpackage >/dev/null && [ "${B:-build}" = build ]; then
    mkdir "$dir/src"
    cp -a Makefile README.md LICENSE debian src shaders man examples "$dir/src"
    mkdir -p "$dir/src/build"
    cp -a build/src build/shaders build/flags build/prefix build/libhearth.a "$dir/src/build" 2>/dev/null
    package()
    {
        (cd "$dir/src" && dpkg-buildpackage -b -us -uc -nc -d) >"$dir/log" 2>&1 ||
            { tail -n 20 "$dir/log" | sed 's/^/# /' && return 1; }
    }
    check "dpkg-buildpackage" package
    deb=$(echo "$dir"/hearth_*.deb)
    check "  makes a package" [ -s "$deb" ]
    check "  that needs readline" eval 'dpkg-deb -f "$deb" Depends | grep -q libreadline8'
    check "  of root's files" eval '! dpkg-deb -c "$deb" | grep -v " root/root "'
    check "unpacked" dpkg-deb -x "$deb" "$dir/root"
    check "  the program runs" exits 0 "$dir/root/usr/bin/hearth" --version
    check "  its sums are right" eval 'dpkg-deb -e "$deb" "$dir/control" && cd "$dir/root" && md5sum --quiet -c "$dir/control/md5sums"'
    for file in share/man/man1/hearth.1.gz share/hearth/guide/guide-q8_0.gguf share/hearth/examples/scripts/translate \
        share/bash-completion/completions/hearth share/doc/hearth/copyright; do
        check "  $file" [ -s "$dir/root/usr/$file" ]
    done
fi
done_testing
