# Part of test_install.sh: programs that load the libraries at run time. In every way of loading, there is one copy of
# everything.

check "the host that loads" $CC -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror "$root/c_tests/install/loaded.c" -o "$work/bin/loaded" -ldl
loaded() { LD_LIBRARY_PATH="$prefix/lib" "$work/bin/loaded" "$@"; }
one="version=$version devices=1"
for name in $libraries; do
    for how in local global deep "local close"; do
        check "dlopen $name.so, $how" says "$one" loaded $how $name.so
        check "dlopen all, $name.so.0 first, $how" says "$one" loaded $how $name.so.0 libggml-cpu.so libggml.so.0 libggml-base.so libggml.so libggml-base.so.0 "$prefix/lib/libggml-cpu.so"
    done
    check "dlopen $name by its path alone" says "$one" "$work/bin/loaded" "$prefix/lib/$name.so.0"
done
check "what cargo built, alone" says "$one" "$work/bin/loaded" "$target/release/libggml.so"
check "what cargo built, then the small files" says "$one" loaded local "$target/release/libggml.so" libggml.so libggml-cpu.so libggml-base.so.0

# A program that is linked to some of them and loads the others.
for order in ggml base cpu; do
    check "the host that loads, linked to $order" $CC -std=c11 -D_GNU_SOURCE "$root/c_tests/install/loaded.c" -o "$work/bin/both-$order" \
        -Wl,--no-as-needed -L"$other" -Wl,--unresolved-symbols=ignore-in-shared-libs "-l$(echo "ggml-$order" | sed s/ggml-ggml/ggml/)" -ldl
    check "linked to $order, and loads" says "$one" env LD_LIBRARY_PATH="$prefix/lib" "$work/bin/both-$order" local libggml-cpu.so libggml.so libggml-base.so.0
done
