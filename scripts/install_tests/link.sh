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

# A host linked to the original and one linked to this library need the same files, and run with either.
swap() { # NAME FLAGS ...
    other_host=$work/bin/other-$1 our_host=$work/bin/ours-$1
    shift
    linked "$other" "$other_host" "$@" && linked "$prefix/lib" "$our_host" "$@" || return 1
    echo "needed: $(needed "$other_host"), and by ours: $(needed "$our_host")"
    [ "$(needed "$other_host")" = "$(needed "$our_host")" ] && [ -n "$(needed "$our_host")" ] &&
        LD_LIBRARY_PATH="$prefix/lib" "$other_host" && LD_LIBRARY_PATH="$prefix/lib" "$our_host" && LD_LIBRARY_PATH="$other" "$our_host"
}
# Every order in which a program may name them; it calls what it names.
orders="ggml base cpu ggml,base base,ggml ggml,cpu cpu,ggml base,cpu cpu,base ggml,cpu,base cpu,ggml,base base,ggml,cpu base,cpu,ggml ggml,base,cpu cpu,base,ggml"
for order in $orders; do
    check "linked to $order, swapped both ways" swap "$order" -Wl,--no-as-needed \
        $(echo ",$order" | sed 's/,ggml/ -DUSE_GGML -lggml/; s/,base/ -DUSE_BASE -lggml-base/; s/,cpu/ -DUSE_CPU -lggml-cpu/')
done

# What libraries in C++ take from libggml where the C++ library lacks it.
terminate() {
    ${CXX:-c++} -Wall -Wextra -Werror "$root/c_tests/install/terminate.cpp" -o "$work/bin/terminate" -Wl,--no-as-needed -L"$prefix/lib" -lggml -lggml-base || return 1
    LD_LIBRARY_PATH="$prefix/lib" "$work/bin/terminate"
    [ $? = 7 ]
}
check "an exception in a function that is noexcept" terminate

# A processor that forward.sh has no jump for: files without functions, which libggml-base makes up for.
elsewhere() {
    env CC="$CC -U__x86_64__ -U__aarch64__" "$root/scripts/forward.sh" "$prefix/lib/libggml-base.so" "$work/elsewhere" || return 1
    ln -s "$prefix/lib/libggml-base.so" "$work/elsewhere/"
    for name in libggml libggml-cpu libggml-base; do ln -s "$name.so" "$work/elsewhere/$name.so.0"; done
    linked "$work/elsewhere" "$work/bin/elsewhere" -DUSE_GGML -DUSE_BASE -DUSE_CPU -Wl,--no-as-needed -lggml -lggml-cpu -lggml-base &&
        LD_LIBRARY_PATH="$work/elsewhere" "$work/bin/elsewhere" && LD_LIBRARY_PATH="$work/elsewhere" "$work/bin/other-ggml,cpu,base"
}
check "a processor without jumps" elsewhere

# With --as-needed, a program needs the files in which the linker found something. libggml-base comes last, as in every
# build that orders libraries by their dependencies. If it comes first, it has everything here, and the others are not
# needed.
for use in -DUSE_GGML -DUSE_BASE -DUSE_CPU "-DUSE_GGML -DUSE_BASE" "-DUSE_BASE -DUSE_CPU" "-DUSE_GGML -DUSE_CPU" "-DUSE_GGML -DUSE_BASE -DUSE_CPU"; do
    check "--as-needed, $use" swap as-needed $use -Wl,--as-needed -lggml -lggml-cpu -lggml-base
    check "--as-needed, $use, the CPU first" swap as-needed $use -Wl,--as-needed -lggml-cpu -lggml -lggml-base
done
if [ -n "$vulkan" ] && [ -z "$oracle" ]; then
    check "--as-needed with Vulkan" swap as-needed -DUSE_GGML -DUSE_BASE -DUSE_VULKAN -Wl,--as-needed -lggml -lggml-vulkan -lggml-cpu -lggml-base
fi

if command -v pkg-config > /dev/null; then
    install "$work/plain" > /dev/null # a path without spaces
    by_pkg_config() { PKG_CONFIG_PATH="$work/plain/lib/pkgconfig" pkg-config "$@" ggml; }
    built() { $CC c_tests/install/host.c -o "$work/host" $(by_pkg_config --cflags --libs) && LD_LIBRARY_PATH="$work/plain/lib" "$work/host"; }
    check "pkg-config" built
    check "its version" test "$(by_pkg_config --modversion)" = "$version"
else
    echo "note: pkg-config is not here; its checks are left out"
fi
