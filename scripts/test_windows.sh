#!/usr/bin/env bash
# The library for Windows on x86-64 in Wine, on Linux: test_windows.sh [SECTION ...]
#
# Sections: files, c, x86, swap, visual, vulkan, units, original, llama, soak. `all`: all of them but the last; without
# any, the first four. `run COMMAND ...`: a command in the same surroundings, in which programs for Windows start like
# any others. The last line counts the checks.
set -u
export CARGO_TARGET=x86_64-pc-windows-gnu
mingw=x86_64-w64-mingw32
suite=windows
# shellcheck source=/dev/null
. "$(dirname "$0")/emulated.sh"
if [ -z "${EMULATED:-}" ]; then
    wine=$(command -v wine64 /usr/lib/wine/wine64 wine | head -n 1)
    missing "wine64 gcc-mingw-w64-x86-64 g++-mingw-w64-x86-64" "${wine:-wine64}" $mingw-gcc-posix $mingw-g++-posix
    emulated "$wine" MZ '' '' "$0" "$@"
    skip "this kernel passes no programs for Windows to Wine"
fi
# shellcheck source=/dev/null
. "$(dirname "$0")/checks.sh"
here=$CC
export CC=$mingw-gcc-posix CXX=$mingw-g++-posix GGML_CACHE=${GGML_CACHE:-$root/target/cache}
system=Windows exe=.exe linked= rpc=Z:$target/windows/install/bin/ggml-rpc.dll processors=wine
out=$target/windows ours=$target/windows/install x86=$target/install
mkdir -p "$out/stubs"
# Debian 12's Wine lacks a library that Rust's programs load. Where Wine looks for it, and for those of the compilers.
[ -e "$out/stubs/bcryptprimitives.dll" ] ||
    $CC -shared -o "$out/stubs/bcryptprimitives.dll" c_tests/windows/bcryptprimitives.c -ladvapi32 || skip "$CC cannot link"
export WINEDEBUG=-all WINEPREFIX=$out/wine WINEPATH
WINEPATH="Z:$ours/bin;Z:$out/stubs;Z:$(dirname "$($CC -print-libgcc-file-name)");Z:$(dirname "$($CC -print-file-name=libwinpthread-1.dll)")"
# A server that ends with its last program resets the connection of one that starts at that moment.
for server in $(command -v wineserver64 wineserver /usr/lib/wine/wineserver64); do mkdir -p "$WINEPREFIX" && "$server" -p120 > /dev/null 2>&1 < /dev/null && break; done
case ${1:-} in run) shift; exec "$@" ;; '') set -- files c x86 swap ;; all) set -- files c x86 swap visual vulkan units original llama ;; esac

same_files() { # by the names that Linux's have here
    for file in "$ours"/bin/*; do $mingw-objdump -f "$file" | grep -q pei-x86-64 || { echo "error: $file"; return 1; }; done
    diff <(cd "$x86" && find . ! -name '*.manifest' -a ! -name '*.so.?*' | sed -e 's|^./lib/lib\(.*\)\.so$|./bin/\1.dll\n./lib/lib\1.dll.a\n./lib/\1.lib|; s|^\./bin/ggml-[^.]*$|&.exe|' | sort) \
        <(cd "$ours" && find . ! -name '*.manifest' | sort)
}
exports() { $mingw-objdump -p "$1" | sed -n 's/^\t\[ *[0-9]*\] \([A-Za-z_].*\)$/\1/p' | grep -v ggml_rs_forward | sort; }
same_exports() { # NAME
    diff <(nm -D --defined-only "$x86/lib/lib$1.so" | awk '$2 ~ /[TDBR]/ { print $3 }' | grep -v -e '^_' -e ggml_rs_forward | sort) <(exports "$ours/bin/$1.dll")
}
# Every function of the headers that the original's exports; and else only such functions, and a module's.
like_original() { # NAME
    local headers=$work/headers
    cut -d' ' -f1 c_tests/abi/signatures.txt | sort > "$headers"
    comm -13 <(exports "$ours/bin/$1.dll") <(exports "$original/bin/$1.dll") | comm -12 - "$headers" | sed 's/^/error: missing: /' > "$work/differences"
    comm -23 <(exports "$ours/bin/$1.dll" | grep -vxE 'ggml_rs_.*|ggml_backend_(init|score)') <(sort -u "$headers" <(exports "$original/bin/$1.dll")) |
        sed 's/^/error: more: /' >> "$work/differences"
    cat "$work/differences" && [ ! -s "$work/differences" ]
}
section_files() {
    check "the files are those of Linux, as Windows names them" same_files
    for name in ggml-base ggml ggml-cpu ggml-rpc ggml-vulkan; do check "$name.dll exports what Linux does" same_exports $name; done
    check "ggml-info" says "libggml-rs" "$ours/bin/ggml-info.exe"
    ! command -v cmake > /dev/null || check "hosts by CMake" by_cmake
}
section_units() { # those of Vulkan need a display
    check "unit tests" env -u GGML_TEST_VULKAN CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=$mingw-gcc \
        cargo test --quiet --locked --target "$CARGO_TARGET" --profile tools --features internals --lib -- --skip vulkan::
    grep "test result" "$work/log"
}
hosts() { GGML_PREFIX=$ours C_TESTS_OUT=$out/c_tests bash c_tests/run.sh "$@"; }
section_c() { check "c_tests" hosts dump host meta train plugin bad robust rs windows && grep passed "$work/log"; }
section_soak() { SOAK_SECONDS=${SOAK_SECONDS:-3600} check "the soak" hosts soak && grep note "$work/log"; }
# Compiled for Visual C++'s ABI, and linked by LLVM's linker, without Microsoft's files.
link_args="/entry:begin /subsystem:console /nodefaultlib $ours/lib/ggml.lib $ours/lib/ggml-cpu.lib $ours/lib/ggml-base.lib"
visual() {
    rustc --edition 2024 --target x86_64-pc-windows-msvc -O -C panic=abort -C linker-flavor=lld-link -C linker="$lld" \
        -C link-args="$link_args" -o "$out/visual.exe" c_tests/windows/visual.rs && "$out/visual.exe"
}
throws() {
    import() { # LIBRARY NAME ...: the import library for these names
        printf '%s\n' "LIBRARY $1.dll" EXPORTS "${@:2}" > "$out/$1.def" && "$lld" -flavor link /lib /machine:x64 "/def:$out/$1.def" "/out:$out/$1.lib"
    }
    # shellcheck disable=SC2086
    import vcruntime140 _CxxThrowException __CxxFrameHandler3 memset memcpy && import msvcrt printf exit &&
        clang++ --target=x86_64-pc-windows-msvc -std=c++17 -O1 -fexceptions -fcxx-exceptions -c c_tests/windows/visual.cpp -o "$out/throws.obj" &&
        "$lld" -flavor link "$out/throws.obj" $link_args "$out/vcruntime140.lib" "$out/msvcrt.lib" "/out:$out/throws.exe" && says " 0 failed" "$out/throws.exe"
}
section_visual() {
    local lld
    lld=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
    if command -v clang++ > /dev/null; then check "exceptions of Visual C++" throws; else echo "visual: exceptions are skipped: clang is missing: install the package clang"; fi
    [ -d "$(rustc --print sysroot)/lib/rustlib/x86_64-pc-windows-msvc" ] || { echo "visual is skipped: rustup target add x86_64-pc-windows-msvc"; return; }
    check "a host for Visual C++'s ABI" visual
    # Its C compiler is not needed to see whether the code is right: another one makes the object.
    check "the library for Visual C++'s ABI compiles" env CC_x86_64_pc_windows_msvc=$mingw-gcc "AR_x86_64_pc_windows_msvc=$lld -flavor link /lib" \
        cargo check --quiet --locked --target x86_64-pc-windows-msvc --profile tools --lib
}
# Wine passes Vulkan on to Linux if it has a display.
section_vulkan() {
    command -v Xvfb > /dev/null || { echo "vulkan is skipped: Xvfb is missing: install the package xvfb"; return; }
    rm -f "$out/display"
    Xvfb -displayfd 7 7> "$out/display" > /dev/null 2>&1 &
    local screen=$!
    timeout 30 bash -c "until [ -s '$out/display' ]; do sleep 0.1; done"
    # Another prefix has another desktop, which finds the display.
    with_vulkan() { env -u GGML_DISABLE_VULKAN WINEPREFIX="$out/wine-vulkan" DISPLAY=":$(cat "$out/display")" GGML_VK_VISIBLE_DEVICES=0 "$@"; }
    check "a host of Vulkan" $CC -std=c11 -D_GNU_SOURCE -O1 -Iinclude -Ic_tests/common c_tests/vulkan/test_vulkan.c -o "$out/test_vulkan.exe" "-L$ours/lib" -lggml -lggml-vulkan -lggml-base -lpsapi
    check "ggml-info: a device of Vulkan" says "Vulkan0" with_vulkan "$ours/bin/ggml-info.exe"
    check "computing on it" says " 0 failed" with_vulkan timeout 600 "$out/test_vulkan.exe"
    grep passed "$work/said"
    kill $screen
}
# The original's DLLs, built by the same compilers.
section_original() {
    original=$GGML_CACHE/$CARGO_TARGET/original
    check "the original for Windows" scripts/oracle.sh original
    for name in ggml-base ggml ggml-cpu ggml-rpc; do check "$name.dll exports what the original's does" like_original $name; done
    check "its modules, and a whisper.cpp" eval "scripts/oracle.sh modules && scripts/oracle.sh whisper"
    ORACLE_FOR=windows GGML_ORACLE_PREFIX=$original GGML_ORACLE_SRC=$GGML_CACHE/src/ggml/src GGML_MODULES=$GGML_CACHE/$CARGO_TARGET/modules GGML_WHISPER=$GGML_CACHE/src/whisper.cpp \
        check "c_tests with the original" hosts dump host sched quant ops train plugin foreign whisper
    grep passed "$work/log"
}
app=$out/app linux=("$x86/bin/ggml-info" --from "$ours") windows=("$ours/bin/ggml-info.exe")
a_host() { # FLAG ...: in $app, of another ggml, whose base has this name if it is given
    local base=${name:-ggml-base}.dll other
    rm -rf "$app" && mkdir "$app" && $CC -DBASE -shared c_tests/windows/swapped.c -o "$app/$base" || return 1
    for other in ggml ggml-cpu-haswell; do $CC -DOTHER -shared c_tests/windows/swapped.c -o "$app/$other.dll" || return 1; done
    $CC "$@" c_tests/windows/swapped.c -o "$app/main.exe" "$app/$base" "$app/ggml.dll" && listing "$app" > "$out/before" && ends 0 "0.20.0 368 0" "$app/main.exe"
}
is_ours() { ends 0 "$version 368 1" "$app/main.exe" && ends 0 "built for          0.20.0" "$1" --check "$app/main.exe"; }
back() { ends 0 "taken back" "$1" --unswap "$app" && ends 0 "0.20.0 368 0" "$app/main.exe" && listing "$app" | diff "$out/before" -; }
there() { ends 0 "result      swapped" "$@" --swap "$app" && is_ours "$1" && ends 0 "swapped already" "$@" --swap "$app"; }
running() { # COMMAND ...: while the host runs, which has its files open
    rm -f "$work/line" && mkfifo "$work/line" && { "$app/main.exe" wait <> "$work/line" > "$out/running" & }
    timeout 60 bash -c "until grep -q 368 '$out/running'; do sleep 0.2; done" && "$@"
    local status=$?
    echo 1<> "$work/line" && wait $! && return $status
}
section_swap() {
    local name info
    for name in "" ggml-base-0123456789abcdef0123456789abcdef; do
        check "a host${name:+, $name}" a_host
        check "swapped on Linux" there "${linux[@]}"
        check "taken back in Wine" back "${windows[@]}"
        check "swapped in Wine" there "${windows[@]}"
        check "taken back on Linux" back "${linux[0]}"
    done
    check "swapped while it runs" running there "${windows[@]}"
    check "taken back while it runs" running ends 0 "taken back" "${windows[0]}" --unswap "$app"
    check "what was open goes later" eval 'ends 2 "nothing here" "${windows[@]}" --unswap "$app"; listing "$app" | diff "$out/before" -'
    name=
    check "a host with a function of its ggml" a_host -DOWN
    for info in linux windows; do declare -n it=$info; check "it is refused" ends 1 "functions of its own: ggml_own" "${it[@]}" --swap "$app"; done
    check "no library for Windows" ends 1 "is for Windows: --from" "$x86/bin/ggml-info" --swap "$app"
}

check "make" scripts/build.sh if-needed
check "make install" env STRIP=1 scripts/install.sh "$ours"
[ "$failed" = 0 ] || finish windows
for section; do
    echo "$section: $(date +%T)"
    "section_$section"
done
finish windows
