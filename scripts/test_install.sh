#!/bin/sh
# Checks the files of make install, and find_package(ggml), beside the original in GGML_ORACLE_PREFIX, too.
# tools/tests/install.rs has programs that link and load the libraries. Needs a build; takes seconds.
set -u
. "$(dirname "$0")/checks.sh"
oracle=${GGML_ORACLE_PREFIX:-}
fails() { ! "$@"; }
needed() { readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(libggml.*\)\]/\1/p' | tr '\n' ' '; }
install() { "$root/scripts/install.sh" "$@"; }
uninstall() { install -r "$@"; }
libraries="libggml-base libggml libggml-cpu libggml-rpc"
[ ! -e "$target/release/small/libggml-vulkan.so" ] || libraries="$libraries libggml-vulkan"

prefix=$work/some\ where
check "install into a folder with a space in its name" install "$prefix"
dynamic() { readelf -d "$prefix/lib/$1.so"; }
for name in $libraries; do
    check "links of $name" test "$(readlink "$prefix/lib/$name.so") $(readlink "$prefix/lib/$name.so.0")" = "$name.so.0 $name.so.$version"
    check "the files of $name" test -f "$prefix/lib/$name.so.$version" -a ! -L "$prefix/lib/$name.so.$version" -a -f "$prefix/lib/$name.a"
    check "the soname of $name" says "soname: [$name.so.0]" dynamic "$name"
    [ $name = libggml-base ] || check "$name needs libggml-base" says "[libggml-base.so.0]" dynamic "$name"
done
check "one library with code in it" test "$(find "$prefix/lib" -type f -name 'lib*.so*' -size +64 | wc -l)" = 1
check "libggml-base stays loaded" says NODELETE dynamic libggml-base
check "libggml-base needs no other file of ours" test -z "$(needed "$prefix/lib/libggml-base.so")"
check "every header" diff -r include "$prefix/include"

ages() { find "$1" -printf '%p %T@ %m\n' | grep -v -e gguf.h -e '/include '; }
unchanged() { # files that do not change keep their time, and only changed files get a new one
    rm "$prefix/include/gguf.h"
    sleep 0.01
    before=$(ages "$prefix")
    install "$prefix" && [ "$before" = "$(ages "$prefix")" ] && [ -f "$prefix/include/gguf.h" ]
}
check "a second install leaves alone what is there" unchanged
check "nothing is left of the writing" test -z "$(find "$prefix" -name '.*')"
former() { # a version that had one file more
    echo more > "$prefix/lib/more" && echo "file $(cksum < "$prefix/lib/more") lib/more" >> "$prefix/lib/cmake/ggml/libggml-rs.manifest" &&
        install "$prefix" && [ ! -e "$prefix/lib/more" ]
}
check "a file that only the version before had is removed" former

# As root without Rust and without a compiler: make, and the tools of every system.
mkdir -p "$work/tools"
for tool in make sh sed awk grep find cp mv rm rmdir mkdir mktemp ln readlink chmod cksum dirname basename head tail cut sort cat pwd tr; do
    ln -sf "$(command -v $tool)" "$work/tools/$tool"
done
bare() { env -i PATH="$work/tools" ${CARGO_TARGET_DIR:+CARGO_TARGET_DIR="$CARGO_TARGET_DIR"} "$@"; }
check "make install without cargo and compiler" bare make -C "$root" install PREFIX="$work/bare"
check "the same is installed" diff -r -x cmake -x pkgconfig "$prefix" "$work/bare"
mkdir "$work/copy"
needs() { env -i PATH="$work/tools" CARGO_TARGET_DIR="$target" "$work/copy/scripts/build.sh" if-needed; }
check "a copy of the sources, with the times they have" cp -a src macros vulkan_shaders scripts tools build.rs Cargo.toml Cargo.lock "$work/copy"
check "which needs no build" needs
touch "$work/copy/src/lib.rs"
check "a newer source without cargo is an error" says "cargo is missing" needs
check "another GGML_MAX_NAME without cargo is an error" says "cargo is missing" env -i PATH="$work/tools" GGML_MAX_NAME=96 CARGO_TARGET_DIR="$target" "$root/scripts/build.sh" if-needed
rm -rf "$work/copy"
check "make uninstall without cargo and compiler" bare make -C "$root" uninstall PREFIX="$work/bare"
check "nothing is left, the folder included" test ! -e "$work/bare"

# In a folder that was empty, nothing is left.
check "DESTDIR, LIBDIR and INCLUDEDIR" env DESTDIR="$work/stage/of" "$root/scripts/install.sh" /usr lib/x86_64-linux-gnu include/ggml
staged=$work/stage/of/usr
check "the staged package" test -e "$staged/lib/x86_64-linux-gnu/cmake/ggml/ggml-config.cmake" -a -e "$staged/include/ggml/ggml.h" -a -e "$staged/lib/x86_64-linux-gnu/libggml.so.0"
check "nothing outside of it" test -z "$(find "$work/stage" -type f ! -path "$staged/lib/x86_64-linux-gnu/*" ! -path "$staged/include/ggml/*" ! -path "$staged/bin/ggml-rpc-server" ! -path "$staged/bin/ggml-info")"
check "no file names the staging place" fails grep -rqF "$work/stage" --include='*.cmake' --include='*.pc' --include='*.manifest' "$work/stage"
check "uninstall it" env DESTDIR="$work/stage/of" "$root/scripts/install.sh" -r /usr lib/x86_64-linux-gnu
check "nothing is left of it" test ! -e "$work/stage"
check "uninstall where nothing is" fails uninstall "$work/stage"
check "LIBDIR outside of PREFIX is refused" fails install "$work/x" /lib

# Files of others, and our files that have been changed, stay.
others() {
    mkdir -p "$work/shared/lib/pkgconfig" "$work/shared/include" && echo theirs > "$work/shared/lib/pkgconfig/other.pc" &&
        echo theirs > "$work/shared/include/other.h" && echo theirs > "$work/shared/lib/libggml-rpc.so.0.0.1" &&
        install "$work/shared" && echo changed >> "$work/shared/include/gguf.h" && ln -sfn elsewhere "$work/shared/lib/libggml.so" &&
        uninstall "$work/shared" && (cd "$work/shared" && find . ! -type d | sort | tr '\n' ' ') > "$work/left" && cat "$work/left" &&
        [ "$(cat "$work/left")" = "./include/gguf.h ./include/other.h ./lib/libggml-rpc.so.0.0.1 ./lib/libggml.so ./lib/pkgconfig/other.pc " ]
}
check "uninstall leaves what is not ours" others

# A full disk, or a kill, in the middle of a file: the old file stays whole.
half() {
    mkdir -p "$work/cp" && printf '#!/bin/sh\ncase "$2" in */lib/.libggml-rs.*) head -c 1000 "$1" > "$2"; exit 1;; esac\nexec %s "$@"\n' "$(command -v cp)" > "$work/cp/cp" &&
        chmod +x "$work/cp/cp" && echo old > "$work/shared/lib/libggml-base.so.$version" &&
        fails env PATH="$work/cp:$PATH" "$root/scripts/install.sh" "$work/shared" && [ "$(cat "$work/shared/lib/libggml-base.so.$version")" = old ] &&
        [ -z "$(find "$work/shared" -name '.*')" ] && rm "$work/shared/lib/libggml-base.so.$version"
}
check "an install that fails halfway leaves no half file" half
check "and can be taken away" uninstall "$work/shared"

check "STRIP=1" env STRIP=1 "$root/scripts/install.sh" "$work/stripped"
smaller() { [ "$(wc -c < "$work/stripped/lib/$1")" -lt "$(($(wc -c < "$prefix/lib/$1") / 2))" ]; }
check "a smaller shared library" smaller libggml-base.so
check "a smaller static library" smaller libggml-base.a
again() { before=$(ages "$work/stripped") && STRIP=1 install "$work/stripped" && [ "$before" = "$(ages "$work/stripped")" ]; }
check "and again, with nothing to do" again

# find_package(ggml), shared and static.
PATH=$PATH:$root/target/venv/bin
if ! command -v cmake > /dev/null; then
    echo "note: cmake is not here; its checks are left out"
    finish install
fi
packaged() { # FOLDER PREFIX FLAGS ...
    build=$1 where=$2
    shift 2
    cmake -S "$root/c_tests/install" -B "$build" -DCMAKE_PREFIX_PATH="$where" -DWANTED="$version" "$@" && cmake --build "$build" && (cd "$build" && ctest)
}
check "find_package(ggml)" packaged "$work/cmake/shared" "$prefix"
check "find_package(ggml), moved" sh -c 'mv "$1" "$2"' - "$prefix" "$work/moved"
check "in its new place" cmake -S "$root/c_tests/install" -B "$work/cmake/moved" -DCMAKE_PREFIX_PATH="$work/moved" -DWANTED="$version"
mv "$work/moved" "$prefix"
# Without debug information, static libraries link sooner. Not every system can link statically.
check "find_package(ggml), static" packaged "$work/cmake/static" "$work/stripped" -Dggml_USE_STATIC_LIBS=ON
way=-static
echo 'int main(void) { return 0; }' | $CC -static -x c - -o "$work/nothing" 2> /dev/null || way=-no-pie
check "find_package(ggml), GGML_STATIC and $way" packaged "$work/cmake/all" "$work/stripped" -DGGML_STATIC=ON "-DCMAKE_EXE_LINKER_FLAGS=$way"
check "the static hosts need no libggml" test -z "$(needed "$work/cmake/static/host-ggml")"
no_archive() { mv "$prefix/lib/libggml-cpu.a" "$work/" && packaged "$work/cmake/none" "$prefix" -Dggml_USE_STATIC_LIBS=ON; mv "$work/libggml-cpu.a" "$prefix/lib/"; }
check "a missing static library is reported" says "there is no library libggml-cpu.a" no_archive
if [ -f "$oracle/lib/cmake/ggml/ggml-config.cmake" ]; then
    # Two copies on one system: the package's own files, whatever is searched first.
    between() { cmake -S "$root/c_tests/install" -B "$work/cmake/two" "-DCMAKE_PREFIX_PATH=$prefix;$oracle" -DWANTED="$version" && grep GGML_LIBRARY "$work/cmake/two/CMakeCache.txt"; }
    check "not another copy's library" says "GGML_LIBRARY:FILEPATH=$prefix" between
fi
finish install
