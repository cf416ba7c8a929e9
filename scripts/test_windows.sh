#!/usr/bin/env bash
# The library for Windows on x86-64 in Wine, on Linux: test_windows.sh [SECTION ...]
#
# Sections: files, c, x86, units, llama. `all`: all of them; without any, the first three. `run COMMAND ...`: a command
# in the same surroundings, in which programs for Windows start like any others. The last line counts the checks.
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
case ${1:-} in run) shift; exec "$@" ;; '') set -- files c x86 ;; all) set -- files c x86 units llama ;; esac

same_files() { # by the names that Linux's have here
    for file in "$ours"/bin/*; do $mingw-objdump -f "$file" | grep -q pei-x86-64 || { echo "error: $file"; return 1; }; done
    diff <(cd "$x86" && find . ! -name '*.manifest' -a ! -name '*.so.?*' | sed -e 's|^./lib/lib\(.*\)\.so$|./bin/\1.dll\n./lib/lib\1.dll.a|; s|^\./bin/ggml-[^.]*$|&.exe|' | sort) \
        <(cd "$ours" && find . ! -name '*.manifest' | sort)
}
same_exports() { # NAME
    diff <(nm -D --defined-only "$x86/lib/lib$1.so" | awk '$2 ~ /[TDBR]/ { print $3 }' | grep -v -e '^_' -e ggml_rs_forward | sort) \
        <($mingw-objdump -p "$ours/bin/$1.dll" | sed -n 's/^\t\[ *[0-9]*\] \([A-Za-z].*\)$/\1/p' | grep -v ggml_rs_forward | sort)
}
section_files() {
    check "the files are those of Linux, as Windows names them" same_files
    for name in ggml-base ggml ggml-cpu ggml-rpc ggml-vulkan; do check "$name.dll exports what Linux does" same_exports $name; done
    check "ggml-info" says "libggml-rs" "$ours/bin/ggml-info.exe"
    ! command -v cmake > /dev/null || check "hosts by CMake" by_cmake
}
section_units() { check "unit tests" env CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=$mingw-gcc cargo test --quiet --locked --target "$CARGO_TARGET" --profile tools --features internals --lib; }
hosts() { GGML_PREFIX=$ours C_TESTS_OUT=$out/c_tests bash c_tests/run.sh "$@"; }
section_c() { check "c_tests" hosts dump host meta train robust rs && grep passed "$work/log"; }

check "make" scripts/build.sh if-needed
check "make install" env STRIP=1 scripts/install.sh "$ours"
[ "$failed" = 0 ] || finish windows
for section; do
    echo "$section: $(date +%T)"
    "section_$section"
done
finish windows
