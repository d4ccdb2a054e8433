#!/usr/bin/env bash
# Makes the Bochs that tests/emulated.sh needs for AMX.
#
# usage: tests/emulated_bochs.sh SOURCE
#
# SOURCE is a copy of the folder bochs of github.com/bochs-emu/Bochs, version 3.0 or later; it is
# changed and built in place, by g++ and make, in some ten minutes. As of August 2026 (783b58fd6)
# three things are not as the Intel manual has them; the tests of products and of attention found
# the first two:
# - tdpbssd takes the bytes of both tiles as unsigned, tdpbsud those of the first (volume 2,
#   TDPBSSD).
# - xsave of tiles: rows and row lengths change places, eight rows of sixteen are kept, and tiles
#   count as in use when none is (volume 1, 13.5). Two threads get each other's tiles.
# - XFD is missing (volume 1, 13.14), by which Linux lends tile data to a process; on a processor
#   that has AMX without it Linux does not boot. One processor is emulated, so one copy of its two
#   registers does.
set -eu
cd "${1:?the folder of the sources of Bochs}"
add() { # FILE LINE: below the definition that every file of the processor begins with
    sed -i "/^#define LOG_THIS/a $2" "cpu/$1"
}

sed -i -e '/ DPBDSS(/,/^}/s/Bit8u/Bit8s/g' \
    -e '/ DPBDSU(/,/^}/{/xbyte\[4\]/s/Bit8u/Bit8s/g}' cpu/avx/amx.cc

sed -i -e '/::xsave_tilecfg_state(/,/^}/{s/\[n\]\.rows/[n].swapped/;s/\[n\]\.bytes_per_row/[n].rows/;s/swapped/bytes_per_row/}' \
    -e '/::x[a-z]*_tiledata_state(/,/^}/s/row < BX_TILE_REGISTERS/row < BX_TILE_MAX_ROWS/' \
    -e '/::xsave_tiledata_state_xinuse/,/^}/s/== 0/!= 0/' cpu/xsave.cc

sed -i '/XTILEDATA_BIT\]\.attr/s/;/ | BX_XSAVE_XFD_SUPPORT;/' cpu/crregs.cc
sed -i '/EBX.* containing all states enabled by/i if (is_cpu_extension_supported(BX_ISA_AMX)) leaf->eax |= 1 << 4;' \
    cpu/cpuid.cc
add msr.cc 'Bit64u ia32_xfd, ia32_xfd_err;'
add proc_ctrl.cc 'extern Bit64u ia32_xfd, ia32_xfd_err;'
add xsave.cc 'extern Bit64u ia32_xfd;'
awk '
function descriptor(name) {
    return "msr_desc[" name "] = new MSR_Descriptor(\"" name "\", BX_ISA_AMX, ~Bit64u(BX_XCR0_XTILEDATA_MASK));"
}
/msr_desc\[BX_MSR_XSS\]/ {
    print descriptor("BX_MSR_IA32_XFD")
    print descriptor("BX_MSR_IA32_XFD_ERROR")
}
/case BX_MSR_XSS:/ {
    if (n++ == 0) {
        print "case BX_MSR_IA32_XFD: val64 = ia32_xfd; break;"
        print "case BX_MSR_IA32_XFD_ERROR: val64 = ia32_xfd_err; break;"
    } else {
        print "case BX_MSR_IA32_XFD: ia32_xfd = val_64; handleAvxModeChange(); break;"
        print "case BX_MSR_IA32_XFD_ERROR: ia32_xfd_err = val_64; break;"
    }
}
{ print }' cpu/msr.cc >cpu/msr.new
mv cpu/msr.new cpu/msr.cc
sed -i '/::handleAvxModeChange/,/^}/s/XTILEDATA_MASK)) != 0)/XTILEDATA_MASK)) != 0 || ia32_xfd)/' cpu/proc_ctrl.cc
sed -i '/::BxNoAMX/,/^}/s/BX_ASSERT(0);/if (ia32_xfd) { ia32_xfd_err = ia32_xfd; exception(BX_NM_EXCEPTION, 0); }\n&/' \
    cpu/proc_ctrl.cc
sed -i '/::get_xinuse_vector/,/^}/s/return xinuse;/return xinuse \& ~Bit32u(ia32_xfd);/' cpu/xsave.cc

./configure --enable-x86-64 --enable-avx --enable-evex --enable-amx --enable-monitor-mwait \
    --enable-long-phy-address --enable-all-optimizations --disable-docbook --with-nogui
make -j2
echo "BOCHS=$PWD/bochs BXSHARE=$PWD"
