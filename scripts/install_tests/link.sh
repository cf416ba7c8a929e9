# Part of test_install.sh: programs that are linked, with pkg-config and by hand. A program that is linked to the
# original and one that is linked to this library need the same files.

# Libraries with the original's names: `stand_ins FOLDER VERSION`. Every function returns 7, and the version identifies
# them.
stand_ins() {
    mkdir -p "$1"
    for part in libggml-base libggml-cpu libggml libggml-rpc libggml-vulkan; do
        if [ $part = libggml-base ]; then
            echo "const char *ggml_version(void) { return \"stand-in $2\"; }"
        else
            awk -v part="[$part]" '/^\[/ { on = $1 == part; next } on && NF { print "int " $1 "(void) { return 7; }" }' "$root/c_tests/abi/files.txt"
        fi > "$1/$part.c"
        needs=
        [ $part = libggml-base ] || needs=$1/libggml-base.so
        $CC -w -shared -fPIC -o "$1/$part.so.$2" "$1/$part.c" -Wl,--no-as-needed $needs -Wl,-soname,$part.so.0 || return 1
        ln -sfn "$part.so.$2" "$1/$part.so.0"
        ln -sfn "$part.so.0" "$1/$part.so"
        rm "$1/$part.c"
    done
}
check "stand-ins for the original" stand_ins "$work/other" 0.0.1
other=$work/other
if [ -n "$oracle" ]; then other=$oracle/lib; fi

# linked LIBDIR OUTPUT FLAGS ...: a host of c_tests/install/linked.c
linked() {
    from=$1 output=$2
    shift 2
    $CC -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror "$root/c_tests/install/linked.c" -o "$output" -I"$prefix/include" -L"$from" \
        -Wl,-rpath-link,"$from" -Wl,--unresolved-symbols=ignore-in-shared-libs "$@" -ldl
}
mkdir "$work/bin"
vulkan=
case $libraries in *vulkan*) vulkan=y ;; esac

# Every order in which a program may name them; it calls what it names. Swapped both ways.
needed() { readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(libggml.*\)\]/\1/p' | tr '\n' ' '; }
orders="ggml base cpu ggml,base base,ggml ggml,cpu cpu,ggml base,cpu cpu,base ggml,cpu,base cpu,ggml,base base,ggml,cpu base,cpu,ggml ggml,base,cpu cpu,base,ggml"
swap() { # ORDER
    flags=
    for part in $(echo "$1" | tr , ' '); do
        case $part in
            ggml) flags="$flags -DUSE_GGML -lggml" ;;
            base) flags="$flags -DUSE_BASE -lggml-base" ;;
            cpu) flags="$flags -DUSE_CPU -lggml-cpu" ;;
        esac
    done
    # shellcheck disable=SC2086
    linked "$other" "$work/bin/other-$1" -Wl,--no-as-needed $flags && linked "$prefix/lib" "$work/bin/ours-$1" -Wl,--no-as-needed $flags || return 1
    if command -v readelf > /dev/null; then
        [ "$(needed "$work/bin/other-$1")" = "$(needed "$work/bin/ours-$1")" ] && [ -n "$(needed "$work/bin/ours-$1")" ] || return 1
    fi
    LD_LIBRARY_PATH="$prefix/lib" "$work/bin/other-$1" && LD_LIBRARY_PATH="$prefix/lib" "$work/bin/ours-$1" && LD_LIBRARY_PATH="$other" "$work/bin/ours-$1"
}
for order in $orders; do
    check "linked to $order, swapped both ways" swap "$order"
done

# A program from when one file of ours had everything: it needs libggml alone.
former_host() {
    mkdir -p "$work/one" && { echo 'const char *ggml_version(void) { return "one"; }' && awk 'NF && !/^[[#]/ { print "int " $1 "(void) { return 7; }" }' "$root/c_tests/abi/files.txt"; } > "$work/one/one.c" &&
        $CC -w -shared -fPIC -o "$work/one/libggml.so" "$work/one/one.c" -Wl,-soname,libggml.so.0 && linked "$work/one" "$work/bin/former" -DUSE_GGML -DUSE_BASE -DUSE_CPU -lggml &&
        LD_LIBRARY_PATH="$prefix/lib" "$work/bin/former"
}
check "a program that was linked to the layout of before" says "version=$version devices=1 vlen=0 copies=1" former_host

# What libraries in C++ take from libggml where the C++ library lacks it.
terminate() {
    ${CXX:-c++} -Wall -Wextra -Werror "$root/c_tests/install/terminate.cpp" -o "$work/bin/terminate" -Wl,--no-as-needed -L"$prefix/lib" -lggml -lggml-base || return 1
    LD_LIBRARY_PATH="$prefix/lib" "$work/bin/terminate"
    [ $? = 7 ]
}
check "an exception in a function that is noexcept" terminate

# A processor that forward.sh has no jump for: files without functions, which libggml-base makes up for.
case $($CC -dumpmachine) in
    x86_64-* | aarch64-*)
        elsewhere() {
            env CC="$CC -U__x86_64__ -U__aarch64__" "$root/scripts/forward.sh" "$prefix/lib/libggml-base.so" "$work/elsewhere" &&
                ln -sf libggml.so "$work/elsewhere/libggml.so.0" && ln -sf libggml-cpu.so "$work/elsewhere/libggml-cpu.so.0" &&
                ln -sf "$prefix/lib/libggml-base.so" "$work/elsewhere/libggml-base.so" && ln -sf "$prefix/lib/libggml-base.so" "$work/elsewhere/libggml-base.so.0" &&
                linked "$work/elsewhere" "$work/bin/elsewhere" -DUSE_GGML -DUSE_BASE -DUSE_CPU -Wl,--no-as-needed -lggml -lggml-cpu -lggml-base &&
                LD_LIBRARY_PATH="$work/elsewhere" "$work/bin/elsewhere" && LD_LIBRARY_PATH="$work/elsewhere" "$work/bin/other-ggml,cpu,base"
        }
        check "a processor without jumps" elsewhere
        ;;
esac

# With --as-needed, a program needs the files in which the linker found something. libggml-base comes last, as in every
# build that orders libraries by their dependencies. If it comes first, it has everything here, and the others are not
# needed.
as_needed() { # DEFINES LIBRARIES
    # shellcheck disable=SC2086
    linked "$other" "$work/bin/as-other" $1 -Wl,--as-needed $2 && linked "$prefix/lib" "$work/bin/as-ours" $1 -Wl,--as-needed $2 || return 1
    needed "$work/bin/as-other"
    needed "$work/bin/as-ours"
    [ "$(needed "$work/bin/as-other")" = "$(needed "$work/bin/as-ours")" ] && LD_LIBRARY_PATH="$prefix/lib" "$work/bin/as-other" && LD_LIBRARY_PATH="$other" "$work/bin/as-ours"
}
if command -v readelf > /dev/null; then
    for use in -DUSE_GGML -DUSE_BASE -DUSE_CPU "-DUSE_GGML -DUSE_BASE" "-DUSE_BASE -DUSE_CPU" "-DUSE_GGML -DUSE_CPU" "-DUSE_GGML -DUSE_BASE -DUSE_CPU"; do
        check "--as-needed, $use" as_needed "$use" "-lggml -lggml-cpu -lggml-base"
        check "--as-needed, $use, the CPU first" as_needed "$use" "-lggml-cpu -lggml -lggml-base"
    done
    if [ -n "$vulkan" ] && [ -z "$oracle" ]; then
        check "--as-needed with Vulkan" as_needed "-DUSE_GGML -DUSE_BASE -DUSE_VULKAN" "-lggml -lggml-vulkan -lggml-cpu -lggml-base"
    fi
fi

if command -v pkg-config > /dev/null; then
    install "$work/plain" > /dev/null
    by_pkg_config() { PKG_CONFIG_PATH="$work/plain/lib/pkgconfig" pkg-config "$@" ggml; }
    # shellcheck disable=SC2046
    built() { $CC "$root/c_tests/install/host.c" -o "$work/host" $(by_pkg_config --cflags --libs) && LD_LIBRARY_PATH="$work/plain/lib" "$work/host"; }
    check "pkg-config" built
    check "its version" test "$(by_pkg_config --modversion)" = "$version"
else
    echo "note: pkg-config is not here; its checks are left out"
fi
