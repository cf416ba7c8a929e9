# Part of test_install.sh: the static libraries, in the orders in which hosts name them.

archives=$prefix/lib # without debug information, they link sooner
[ ! -f "$work/stripped/lib/libggml-base.a" ] || archives=$work/stripped/lib
statics() { # FLAGS LIBRARIES ...
    flags=$1
    shift
    $CC $flags "$root/c_tests/install/host.c" -o "$work/bin/static" -I"$prefix/include" "$@" && "$work/bin/static"
}
echo 'int main(void) { return 0; }' > "$work/nothing.c"
ways="-no-pie"
for way in -static -static-pie; do
    if $CC $way "$work/nothing.c" -o "$work/nothing" 2> /dev/null && "$work/nothing"; then
        ways="$ways $way"
    else
        echo "note: this system cannot link with $way"
    fi
done
for way in $ways; do
    for order in "ggml ggml-cpu ggml-base" "ggml-base ggml-cpu ggml" "ggml-cpu ggml ggml-base" "ggml-base ggml"; do
        check "$way, $order" statics "$way -Wl,--gc-sections" -L"$archives" $(printf -- '-l:lib%s.a ' $order) -lm -lpthread -ldl
    done
    # It cannot open libvulkan, and does not try, even if the user requests a device.
    check "$way looks for no Vulkan device" env -u GGML_DISABLE_VULKAN GGML_VK_VISIBLE_DEVICES=0 "$work/bin/static"
done
whole() { # a library of a host's with all of ggml in it
    $CC -shared -o "$work/libwhole.so" -Wl,--whole-archive "$archives/libggml.a" "$archives/libggml-cpu.a" "$archives/libggml-base.a" -Wl,--no-whole-archive -lm &&
        "$work/bin/loaded" "$work/libwhole.so"
}
check "all of it in a library of a host's" says "devices=1" whole

if command -v pkg-config > /dev/null; then
    for way in $ways; do
        [ $way != -no-pie ] || continue # there -lggml is the shared library
        by_static() { $CC $way "$root/c_tests/install/host.c" -o "$work/bin/static" $(by_pkg_config --static --cflags --libs) && "$work/bin/static"; }
        check "pkg-config --static, $way" by_static
    done
    if command -v rustc > /dev/null; then
        # The libraries that rustc lists for a static library. A C compiler adds its own and the C library.
        : > "$work/empty.rs"
        asked() { rustc --crate-type staticlib --print native-static-libs "$work/empty.rs" -o "$work/empty.a" 2>&1 | sed -n 's/.*native-static-libs: //p' | tr ' ' '\n' | grep -vx -e -lgcc_s -e -lc; }
        complete() { for library in $(asked); do by_pkg_config --static --libs | tr ' ' '\n' | grep -qx -- "$library" || { echo "no $library"; return 1; }; done; [ -n "$(asked)" ]; }
        check "pkg-config --static names what rustc asks for" complete
    fi
fi
