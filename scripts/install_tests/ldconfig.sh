# Part of test_install.sh: programs that find the libraries through the system's cache, as after make install and
# ldconfig, in a root folder of their own. The dynamic linker knows only /etc/ld.so.cache, so that root must become
# theirs: by chroot, alone or in a user namespace.

PATH=$PATH:/usr/sbin:/sbin
if ! command -v ldconfig > /dev/null; then
    echo "note: ldconfig is not here; the system's cache is not tested"
    return 0
fi
chrooted= sys=$work/root
mkdir -p "$sys/bin" "$sys/etc" "$sys/tmp"

bring() { # FILE: the libraries that it needs, but ours, to the same paths below the root folder
    ldd "$1" | sed -n 's|.*[[:space:]]\(/[^ ]*\) (0x.*|\1|p' | grep -v /libggml | while read -r needed; do
        [ -e "$sys$needed" ] || { mkdir -p "$sys$(dirname "$needed")" && cp -L "$needed" "$sys$needed"; }
    done
}
# Hosts that were linked to the original (or to the replacements of link.sh), in every order, and one that loads.
for program in "$work"/bin/other-* "$work/bin/loaded" "$work/nothing"; do
    cp "$program" "$sys/bin/"
    bring "$program"
done
bring "$prefix/lib/libggml-base.so"
cache() { # FOLDER ...: the cache of these and the system's folders
    { printf '%s\n' "$@"; (cd "$sys" && find . -name '*.so*' -type f ! -name 'libggml*' -exec dirname {} \;) | sed 's/^\.//' | sort -u; } > "$sys/etc/ld.so.conf"
    ldconfig -r "$sys" && ldconfig -r "$sys" -p | grep -q libc.so
}
check "a root folder with a cache" cache
for how in "chroot" "unshare -r chroot" "unshare -Ur chroot"; do
    if $how "$sys" /bin/nothing > /dev/null 2>&1; then
        chrooted=$how
        break
    fi
done
if [ -z "$chrooted" ]; then
    echo "note: neither chroot nor a user namespace is allowed here; the system's cache is not tested"
    return 0
fi
after() { cache /usr/local/lib && says "$@"; } # TEXT COMMAND ...: ldconfig first
system() { env -i PATH="$PATH" GGML_DISABLE_VULKAN=1 $chrooted "$sys" "$@"; }

all=/bin/other-ggml,cpu,base
missing="cannot open shared object file"
check "without libraries, a host does not start" says "$missing" system $all
put() { DESTDIR=$sys install /usr/local && rm -f "$sys"/usr/local/lib/*.a; }
check "make install" put
check "before ldconfig, a host does not start" says "$missing" system $all
ours="devices=1 vlen=0 copies=1"
check "after ldconfig, this library is used" after "version=$version $ours" system $all
for order in $orders; do
    check "linked to the original's $order" says "copies=1" system "/bin/other-$order"
done
for name in $libraries; do
    check "dlopen $name" says "$one" system /bin/loaded local "$name.so.0"
    check "dlopen all, $name first" says "$one" system /bin/loaded local "$name.so.0" libggml-cpu.so.0 libggml.so.0 libggml-base.so.0
    check "dlopen $name.so, which stands in the cache too" says "$one" system /bin/loaded global "$name.so" libggml-cpu.so libggml.so.0 libggml-base.so
done
mv "$sys/etc/ld.so.cache" "$sys/tmp/"
check "the cache is what they find it by" says "$missing" system $all
mv "$sys/tmp/ld.so.cache" "$sys/etc/"

# Beside an older original: ours. ldconfig gives a name to the file with the highest version.
cp -P "$work"/other/*.so* "$sys/usr/local/lib/"
check "beside an older original: ours" after "version=$version $ours" system $all
for order in $orders; do
    check "beside an older original, $order: ours" fails says stand-in system "/bin/other-$order"
done
check "dlopen, beside an older original" says "$one" system /bin/loaded local libggml.so.0 libggml-cpu.so.0 libggml-base.so.0

# Beside a newer one: the original's libraries completely. A file of ours that the original does not have reports the
# mismatch.
newer=${version%%.*}.99999.0
check "stand-ins for a newer original" stand_ins "$work/newer" "$newer"
rm "$work"/newer/libggml-vulkan.so*
cp -P "$work"/newer/*.so* "$sys/usr/local/lib/"
check "beside a newer original: the original" after "version=stand-in $newer devices=7 vlen=7 copies=1" system $all
for order in ggml base cpu; do
    check "beside a newer original, $order" fails says "devices=1" system "/bin/other-$order"
done
check "make install tells of it" says "libggml-base.so.$newer is newer" env DESTDIR="$sys" "$root/scripts/install.sh" /usr/local
[ -z "$vulkan" ] || check "what is left of ours fails at once" after "undefined symbol: ggml_rs_forward_vulkan" system /bin/loaded local libggml-vulkan.so.0
rm "$sys/usr/local/lib/libggml-cpu.so.$newer"
check "and so for a program that is linked to it" after "undefined symbol: ggml_rs_forward_cpu" system $all

# The newer one is removed, and then ours.
rm -f "$sys"/usr/local/lib/*."$newer"
check "without the newer original: ours again" after "version=$version $ours" system $all
check "make uninstall" env DESTDIR="$sys" "$root/scripts/install.sh" -r /usr/local
check "the older original is found again" after "version=stand-in 0.0.1 devices=7 vlen=7 copies=1" system $all

# In a folder of its own, which is the first one in ld.so.conf: all files come from there.
rm -f "$sys"/usr/local/lib/libggml* && mkdir -p "$sys/opt/other"
cp -P "$work"/newer/*.so* "$sys/opt/other/"
check "make install, with another copy elsewhere" put
check "ldconfig, ours first" cache /usr/local/lib /opt/other
check "ours" says "version=$version $ours" system $all
check "ldconfig, the other first" cache /opt/other /usr/local/lib
check "the other" says "version=stand-in $newer devices=7 vlen=7 copies=1" system $all
