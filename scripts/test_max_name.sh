#!/usr/bin/env bash
# A library for tensors' names of another size, beside the usual one: test_max_name.sh [NUMBER]
#
# Builds it (128 by default), installs both below one prefix, and runs hosts with names that long, and those of c_tests/
# that are for any size. On demand: two release builds, some minutes. The last line counts the checks.
set -u
. "$(dirname "$0")/checks.sh"
number=${1:-128}
work=$target/max-name
prefix=$work/install usual=$work/usual
lib=$prefix/lib/ggml-$number include=$prefix/include/ggml-$number
rm -rf "$work"
fails() { says "$@" && [ "$status" != 0 ]; } # TEXT COMMAND ...
compiles() { echo '#include "ggml.h"' | $CC -x c -std=c11 -fsyntax-only "$@" -; }
variant() { env GGML_MAX_NAME="$number" "$@"; }
count() { # NUMBER: the checks of a log, at least so many
    grep -B 30 '^FAIL' "$log"
    passed=$((passed + $(grep -c '^PASS' "$log"))) failed=$((failed + $(grep -c '^FAIL' "$log")))
    check "all of $log ran" test "$(grep -c '^PASS' "$log")" -ge "$1"
}

for wrong in 0 16 63 100 1040 0128 -64 many; do
    check "GGML_MAX_NAME=$wrong is refused" fails "it must be a multiple of 16 from 32 to 1024" env GGML_MAX_NAME="$wrong" scripts/build.sh
done
echo "building with GGML_MAX_NAME=$number ..."
check "the build" variant scripts/build.sh
check "the usual build" scripts/build.sh if-needed
build_rs() { GGML_MAX_NAME=63 OUT_DIR="$work" CARGO_MANIFEST_DIR="$root" "$(ls -t "$target/max-name-$number"/release/build/libggml-rs-*/build-script-build | head -n 1)"; }
check "cargo alone refuses wrong numbers, too" fails "it must be a multiple of 16 from 32 to 1024" build_rs
check "make install does not build it again" make CARGO=none install PREFIX="$prefix" GGML_MAX_NAME="$number"
check "but for another number it would" fails "cargo" make CARGO=none install PREFIX="$prefix" GGML_MAX_NAME=$((number + 16))
listing "$prefix" > "$work/alone"
check "the usual one beside it" make CARGO=none install PREFIX="$prefix"
check "and elsewhere" scripts/install.sh "$usual"
usual_files() { listing "$prefix" | grep -v -e "ggml-$number" -e /libggml-rs.manifest > "$work/1"; listing "$usual" | grep -v -e /libggml-rs.manifest -e '\.pc$' > "$work/2"; grep -v '\.pc$' "$work/1" | diff - "$work/2"; }
check "the usual one is as without it" usual_files

# Headers.
check "a host of the same number" compiles -I"$include" -DGGML_MAX_NAME="$number"
check "a host that does not say" compiles -I"$include"
for other in 64 $((number + 16)); do
    check "a host of $other" fails "this libggml is built with GGML_MAX_NAME $number" compiles -I"$include" -DGGML_MAX_NAME="$other"
done
check "the headers differ in that alone" test "$(diff -r "$root/include" "$include" | grep -c '^>')" = 3

# Which one a host gets. No program without a path in it finds the variant, and none for the variant finds the usual.
needs() { readelf -d "$1" | grep -c "NEEDED.*libggml.*-$number.so.0"; }
log=$work/variants.log
cmake -DPREFIX="$prefix" -DNUMBER="$number" -DVERSION="$version" -DWORK="$work/cmake" -P c_tests/install/variants.cmake > "$log" 2>&1
count 9
built() { PKG_CONFIG_PATH="$prefix/lib/pkgconfig" pkg-config --cflags --libs "$1" > "$work/flags" && $CC c_tests/install/host.c -o "$work/host" $(cat "$work/flags") && "$work/host"; }
check "pkg-config" built "ggml-$number"
check "LD_LIBRARY_PATH does not change it" env LD_LIBRARY_PATH="$prefix/lib" "$work/host"
loads() { LD_LIBRARY_PATH="$prefix/lib" ldd "$1" | sed -n 's/.*=> \(.*libggml[^ ]*\) .*/\1/p' | xargs -n 1 dirname | sort -u; }
check "the host loads nothing of the usual one" test "$(loads "$work/host")" = "$lib"
check "ggml-info --check" says "$lib/libggml-base-$number.so.0" "$prefix/bin/ggml-info" --check "$work/host"
check "a host of another ggml for it is swapped" env GGML_PREFIX="$prefix" cargo test --quiet --profile tools --features internals --test info names_of
cached() { # by the cache of a system that lists the folder: nothing of it by a usual name
    mkdir -p "$work/root/etc" && DESTDIR=$work/root scripts/install.sh /usr && DESTDIR=$work/root variant scripts/install.sh /usr &&
        echo "/usr/lib/ggml-$number" > "$work/root/etc/ld.so.conf" && PATH=$PATH:/sbin:/usr/sbin ldconfig -r "$work/root" && PATH=$PATH:/sbin:/usr/sbin ldconfig -r "$work/root" -p > "$work/cache" &&
        grep "ggml-base.so.0 .*/usr/lib/libggml-base.so.0" "$work/cache" && grep "/ggml-$number/" "$work/cache" && ! grep "/ggml-$number/" "$work/cache" | grep -v "libggml.*-$number.so.0 "
}
check "ldconfig" cached

# Each is removed alone.
check "make uninstall" make uninstall PREFIX="$prefix"
check "leaves the variant as it was" diff "$work/alone" <(listing "$prefix")
check "both again" scripts/install.sh "$prefix"
check "make uninstall GGML_MAX_NAME=$number" make uninstall PREFIX="$prefix" GGML_MAX_NAME="$number"
check "leaves the usual one" usual_files
check "and the variant again" variant scripts/install.sh "$prefix"

host() { # FLAGS ...: compiles the host of long names and runs it
    $CC -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I"$include" c_tests/install/long_names.c -o "$work/long_names" "$@" \
        -L"$lib" -Wl,-rpath,"$lib" -lggml -lggml-cpu -lggml-base -lm && "$work/long_names" "$work/names.gguf"
}
check "names of $number bytes" host -DGGML_MAX_NAME="$number"
check "and without the macro" host
if command -v valgrind > /dev/null; then
    check "and under valgrind" valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$work/long_names" "$work/names.gguf"
fi
# Hosts of all kinds, compiled with the macro.
log=$work/c_tests.log
mkdir "$work/view"
ln -s "$lib" "$work/view/lib"
ln -s "$include" "$work/view/include"
CC="$CC -DGGML_MAX_NAME=$number" CXX="${CXX:-c++} -DGGML_MAX_NAME=$number" GGML_PREFIX=$work/view GGML_ORACLE_PREFIX='' C_TESTS_OUT=$work/c_tests ASYNC_SEEDS=40 \
    c_tests/run.sh host async meta plugin bad rs > "$log" 2>&1
count 100
check "all of c_tests ran" grep -qE '^[0-9]+ passed, 0 failed$' "$log"

# stable-diffusion.cpp, unmodified: a random network on its own ggml and on ours.
if [ "$number" = 128 ] && command -v cmake > /dev/null; then
    cache=${GGML_CACHE:-$root/target/cache}
    sd=$cache/diffusion
    echo "building stable-diffusion.cpp twice ..."
    check "its sources" python3 scripts/fetch.py "$cache/src" diffusion
    mkdir -p "$sd" && check "a random network" python3 c_tests/foreign/random_esrgan.py "$sd/model.safetensors"
    # Headers that have not changed keep their times, and so do the objects that were compiled with them.
    check "the variant for it" variant scripts/install.sh "$sd/prefix"
    rm -rf "$sd/CMakeCache.txt" "$sd/CMakeFiles" # of another clone, maybe
    check "configures" cmake -S c_tests/install/diffusion -B "$sd" -DSOURCES="$cache/src/stable-diffusion.cpp" -DPREFIX="$sd/prefix" -DMODEL="$sd/model.safetensors"
    check "builds" cmake --build "$sd"
    check "needs the variant" test "$(needs "$sd-ours/bin/libstable-diffusion.so")" -gt 0
    check "ggml-info: its own ggml is inside" says "ggml is inside this file" "$prefix/bin/ggml-info" --check "$sd-own/bin/libstable-diffusion.so"
    check "computes the same" ctest --test-dir "$sd" -V
    grep 'values from' "$work/log"
fi
finish max-name
