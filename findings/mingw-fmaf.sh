#!/usr/bin/env bash
# `fmaf` of MinGW-w64 10.0.0, Debian 12's, does not round the exact sum: a quarter of these results differ from it, in
# the last bits. Rust's `f32::mul_add` for x86_64-pc-windows-gnu calls it wherever the compiler does not know that the
# processor has the instruction. This library is not used: the function is taken out of MinGW's static library, and
# called on Linux, beside glibc's. Its arguments are ordinary numbers: two between 1 and 2, and one between -2 and -1.
#
# Seen 2026-11-30 on Debian 12: "glibc: 0 of 1000000 wrong; MinGW-w64: 251934 of 1000000 wrong", the first of them
# 0x1.b4733ap+0 * 0x1.0cf06cp+0 + -0x1.a1674p+0: 0x1.48da28p-3, not 0x1.48da26p-3
#
# Fails if this changes, or if the package cannot be had. Needs Debian 12 on x86-64, gcc and binutils. Nothing is
# installed outside of a temporary folder.
set -eu
version=10.0.0-3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -qq download "mingw-w64-x86-64-dev=$version" 2> apt.log || { cat apt.log; exit 1; }
dpkg-deb -x mingw-w64-x86-64-dev_*.deb root
library=root/usr/x86_64-w64-mingw32/lib/libmingwex.a
member=$(ar t $library | grep -E 'fmaf\.o$')
ar x $library "$member"
objcopy -O elf64-x86-64 --redefine-sym fmaf=mingw_fmaf "$member" fmaf.o
cat > compare.c << 'C'
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

__attribute__((ms_abi)) float mingw_fmaf(float, float, float);

static uint32_t state = 1;

static float between_1_and_2(void) {
    state = state * 1664525u + 1013904223u;
    uint32_t bits = state >> 9 | 0x3f800000;
    float    f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

int main(void) {
    int wrong[2] = { 0, 0 };
    for (int i = 0; i < 1000000; i++) {
        volatile float a = between_1_and_2(), b = between_1_and_2(), c = between_1_and_2() - 3.0f;
        /* Exact: the product has 48 bits, and the sum, between -1 and 3, as many. */
        const float right = (float) ((double) a * b + c), results[2] = { fmaf(a, b, c), mingw_fmaf(a, b, c) };
        for (int k = 0; k < 2; k++) { wrong[k] += results[k] != right; }
        if (results[1] != right && wrong[1] == 1) { printf("%a * %a + %a: %a, not %a\n", a, b, c, results[1], right); }
    }
    printf("glibc: %d of 1000000 wrong; MinGW-w64: %d of 1000000 wrong\n", wrong[0], wrong[1]);
    return !(wrong[0] == 0 && wrong[1] > 200000);
}
C
gcc -O1 -fno-builtin -z noexecstack compare.c fmaf.o -o compare -lm -no-pie
./compare || { echo "the behaviour has changed"; exit 1; }
