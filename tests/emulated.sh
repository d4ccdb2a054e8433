#!/usr/bin/env bash
# Runs the kernels for AVX-VNNI, AVX-512 and AMX where the processor has none: in Bochs, an emulator
# that executes their instructions one by one, under a Linux that boots for this alone. The programs
# are those of $B as they stand, with their own shared libraries.
#
# usage: KERNEL=vmlinuz [BOCHS=bochs] [BXSHARE=folder] [MODEL=processor] [OPTIONS=...]
#        [CLEAR=N] tests/emulated.sh [COMMAND]
#
# COMMAND is a line for the shell of that Linux, in a folder with what the tests read; without one
# the tests of the processor's features, of rows, of the products and of attention run. What it
# prints comes to stdout, between begin and end, and its exit status is that of this script. It
# takes minutes to an hour and is no part of the suites.
#
# In Debian 12, after `make all tests`:
#   apt-get install busybox-static grub-pc-bin grub-common mtools xorriso
#   apt-get download linux-image-6.1.0-NN-cloud-amd64 and dpkg-deb -x: KERNEL is its boot/vmlinuz-*
# BOCHS and BXSHARE are as tests/emulated_bochs.sh prints them. Debian's own Bochs 2.7 has no AMX,
# and as its MODEL=tigerlake (DISPLAY_LIBRARY=rfb, which listens on port 5900) it boots, but Linux
# 6.1 then leaves AVX out. OPTIONS is for the emulated processor, such as
# 'exclude_features="amx amx_int8 amx_bf16"'. CLEAR is what Linux shall not use although the
# processor has it, by the numbers of its clearcpuid: 304 leaves AVX-512 out of XCR0, 600 AMX.
set -eu
cd "$(dirname "$0")/.."
B=${B:-build}
share=${BXSHARE:-/usr/share/bochs}
model=${MODEL:-sapphire_rapids}
display=${DISPLAY_LIBRARY:-nogui}
[ "$display" != rfb ] || display='rfb, options="timeout=0"'
: "${KERNEL:?the path of a vmlinuz}"
work=$(mktemp -d "${TMPDIR:-/tmp}/hearth-emulated-XXXXXX")
emulator=
trap '[ -z "$emulator" ] || kill "$emulator" 2>/dev/null; rm -rf "$work"' EXIT

# The first of several places of a file.
first()
{
    local f
    for f; do
        if [ -e "$f" ]; then
            echo "$f"
            return
        fi
    done
    echo "emulated: none of these is there: $*" >&2
    return 1
}
bios=$(first "$share/BIOS-bochs-latest" "$share/bios/BIOS-bochs-latest")
vga=$(first "$share/VGABIOS-lgpl-latest" "$share/VGABIOS-lgpl-latest.bin" \
    "$share/bios/VGABIOS-lgpl/VGABIOS-lgpl-latest.bin")

# ---- the files of that Linux: busybox, programs with their libraries, what the tests read ----
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,hearth/tests/ops,hearth/examples/guide}
cp "$(command -v busybox)" "$root/bin/busybox"
for p in hearth tests/unit/test_cpuid tests/ops/test_{row_kernels,tables_avx512,matmul,experts,attend}; do
    mkdir -p "$root/hearth/build/$(dirname $p)"
    strip -g -o "$root/hearth/build/$p" "$B/$p"
    ldd "$B/$p" | grep -o '/[^ ]*'
done | sort -u | while read -r lib; do
    mkdir -p "$root$(dirname "$lib")"
    cp -L "$lib" "$root$lib"
done
cp tests/ops/hashes.txt "$root/hearth/tests/ops/"
cp examples/guide/*.gguf "$root/hearth/examples/guide/"
cat >"$root/hearth/tests.sh" <<'TESTS'
status=0
build/tests/unit/test_cpuid || status=1
build/tests/ops/test_row_kernels || status=1
build/tests/ops/test_tables_avx512 || status=1
build/tests/ops/test_matmul || status=1
build/tests/ops/test_experts || status=1
build/tests/ops/test_attend || status=1
exit $status
TESTS
printf '%s\n' "${1:-. ./tests.sh}" >"$root/hearth/command.sh"
# The last lines are in the serial port's queue when the shell goes on.
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
stty -F /dev/ttyS0 -onlcr
cd /hearth
echo "--- begin"
sh ./command.sh
echo "--- end $?"
sleep 3
poweroff -f
INIT
chmod +x "$root/init"

# ---- a disc to boot from ----
# clearcpuid=580 is FSRM: Linux 6.1 takes it to mean that string moves are fast, Bochs says they
# are not, and memmove is left without its end.
mkdir -p "$work/disc/boot/grub"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$work/disc/boot/root.cpio"
cp "$KERNEL" "$work/disc/boot/vmlinuz"
cat >"$work/disc/boot/grub/grub.cfg" <<GRUB
linux /boot/vmlinuz console=ttyS0,115200 quiet mitigations=off clearcpuid=580${CLEAR:+,$CLEAR}
initrd /boot/root.cpio
boot
GRUB
grub-mkrescue -o "$work/disc.iso" "$work/disc" >"$work/disc.log" 2>&1 ||
    { cat "$work/disc.log" >&2; exit 1; }

# ---- the machine ----
# Where a processor tells its clock rate, it is to be the rate that Bochs keeps.
[ "$model" != sapphire_rapids ] || OPTIONS="cpuid_freq=ips${OPTIONS:+, $OPTIONS}"
cat >"$work/bochsrc" <<RC
display_library: $display
cpu: model=$model, count=1, ips=100000000${OPTIONS:+, $OPTIONS}
memory: guest=1024, host=1024
romimage: file=$bios
vgaromimage: file=$vga
ata0-master: type=cdrom, path=$work/disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial
log: $work/log
panic: action=fatal
RC
# Debian's Bochs begins in its debugger, where c means go on.
: >"$work/serial"
"${BOCHS:-bochs}" -q -f "$work/bochsrc" >"$work/out" 2>&1 <<<c &
emulator=$!
tail -s 1 --pid=$emulator -n +1 -f "$work/serial" | sed -u '/^--- end/q'
status=$(sed -n 's/^--- end \([0-9]*\).*/\1/p' "$work/serial")
if [ -z "$status" ]; then
    echo "emulated: Bochs ended before the command did:" >&2
    tail -n 20 "$work/log" "$work/out" >&2
fi
exit "${status:-1}"
