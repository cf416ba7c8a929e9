#!/usr/bin/env bash
# The Debian packages: built from HEAD, installed, used and removed: test_debian.sh [symbols | for ARCHITECTURE]
#
# On demand: a release build, and every step of dpkg-buildpackage. It needs no network once cargo has fetched the
# crates. Rust may come from rustup, so dpkg's own list of build dependencies is not checked (-d). dpkg installs the
# packages into an overlay over this system, which is dropped afterwards: the system does not change. That needs root
# (or a user namespace that may mount); otherwise they are only unpacked. The last line counts the checks.
#
#   symbols    writes packaging/debian/*.symbols from the exports of the release build in target/
#   for arm64  only builds them, for this architecture of Debian, in target/debian-arm64
set -u
. "$(dirname "$0")/checks.sh"
work=$root/target/debian architecture=$(dpkg --print-architecture)
[ "${1:-}" != for ] || { architecture=$2 work=$work-$2; }
export LC_ALL=C.UTF-8
unset PREFIX LIBDIR MAKEFLAGS MAKELEVEL
packages="libggml0 libggml0-backend-vulkan"
gensymbols() { # PACKAGE FOLDER OPTION ...: of the package's libraries in the folder
    local elf=("-e$2/libggml-vulkan.so.$version")
    [ "$1" != libggml0 ] || elf=("-e$2"/libggml{-base,-cpu,-rpc,}".so.$version")
    dpkg-gensymbols -p"$1" -v"$version" "${@:3}" "${elf[@]}"
}

if [ "${1:-}" = symbols ]; then
    stage=$temporary
    CARGO_TARGET_DIR=$target scripts/install.sh "$stage/all" > /dev/null || exit 1
    cp -r packaging/debian "$stage/debian"
    rm -f "$stage"/debian/*.symbols
    for package in $packages; do
        (cd "$stage" && gensymbols "$package" all/lib -q -Oout) || exit 1
        # The tables of src/capi/forward.rs, whose names change with their contents: private to this source.
        awk '/^[^ ]/ { print; print "* Build-Depends-Package: libggml-dev"; next }
            / ggml_rs_forward_/ { if (!printed) print " (optional|regex)\"^ggml_rs_forward_[a-z]+_[0-9a-f]+@Base$\" " $2; printed = 1; next }
            { print }' "$stage/out" > "packaging/debian/$package.symbols"
        echo "packaging/debian/$package.symbols: $(grep -c '^ ' "packaging/debian/$package.symbols") symbols"
    done
    exit
fi

for tool in dpkg-buildpackage dh cargo; do
    command -v "$tool" > /dev/null || { echo "debian: skipped: $tool is missing (apt-get install dpkg-dev debhelper)"; exit 0; }
done

# The source package's tree.
tree=$work/libggml-rs-$version
rm -rf "$tree" "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$work/apart"
mkdir -p "$tree"
source_tree() { git archive HEAD | tar -x -C "$tree" && cp -r "$tree/packaging/debian" "$tree/debian"; }
check "the tree of HEAD" source_tree
vendored() { (cd "$tree" && cargo vendor --locked vendor); }
check "the crates, as the tarball orig-vendor has them" vendored
same_version() { [ "$(cd "$tree" && dpkg-parsechangelog -S Version)" = "$version-1" ]; }
check "the changelog's version is that of Cargo.toml" same_version
# debhelper gives the build another HOME, so rustup's proxies would not find the compiler.
compiler=$(rustc --print sysroot)/bin
build() {
    (cd "$tree" && env -u CARGO_TARGET_DIR -u RUSTFLAGS PATH="$compiler:$PATH" DEB_BUILD_OPTIONS="parallel=$(nproc) ${DEB_BUILD_OPTIONS:-}" \
        dpkg-buildpackage -a "$architecture" -us -uc -b -d) > "$work/build.log" 2>&1 || { grep -E '^error|rror:' "$work/build.log"; tail -n 20 "$work/build.log"; return 1; }
}
echo "building the packages ..."
check "dpkg-buildpackage" build
[ "$failed" = 0 ] || finish debian
offline() { ! grep -E 'Downloading|Updating .*index' "$work/build.log"; }
check "nothing was fetched" offline
debs=("$work"/*_"$version"-1_*.deb)
symbols() {
    for package in $packages; do
        dpkg-deb -x "$work/${package}_$version-1_$architecture.deb" "$work/apart" || return 1
        (cd "$tree" && gensymbols "$package" "$(echo "$work"/apart/usr/lib/*linux*)" -c4 -I"debian/$package.symbols" -O/dev/null) || return 1
    done
}
check "the symbols files list what is exported (test_debian.sh symbols writes them)" symbols
no_paths() { ! grep -rlF -e "$root" -e "$HOME/" "$work/apart"; }
check "no folder of the build shows" no_paths
[ "${1:-}" != for ] || finish debian
if command -v lintian > /dev/null; then
    # There has been no upload that could close a request for the package.
    check "lintian has neither errors nor warnings" lintian --allow-root --fail-on error,warning --tag-display-limit 0 \
        --suppress-tags initial-upload-closes-no-bugs "$work"/*.changes
else
    echo "note: lintian is not here"
fi

# Installed and used, in an overlay over this system. Everything in it runs without LD_LIBRARY_PATH.
cat > "$work/inside.sh" << 'S'
set -eu
mount -t tmpfs none "$WORK/overlay"
mkdir "$WORK/overlay/upper" "$WORK/overlay/work" "$WORK/overlay/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$WORK/overlay/upper,workdir=$WORK/overlay/work" "$WORK/overlay/root"
sys=$WORK/overlay/root
mount -t tmpfs none "$sys/tmp"
mount --bind /dev "$sys/dev"
mount -t proc none "$sys/proc"
[ "$1" != probe ] || { chroot "$sys" /bin/true; exit; }
mkdir "$sys/tmp/debs" "$sys/tmp/hosts"
cp "$WORK"/*.deb "$sys/tmp/debs/"
cp -r "$TREE/debian/tests" "$TREE/c_tests/install" "$sys/tmp/hosts/"
[ ! -e "$WORK/original/linked" ] || cp -r "$WORK/original" "$sys/tmp/hosts/"
cp "$WORK/steps.sh" "$sys/tmp/"
exec chroot "$sys" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin GGML_DISABLE_VULKAN=1 GGML_NO_BACKTRACE=1 LC_ALL=C.UTF-8 VERSION="$VERSION" bash /tmp/steps.sh
S
cat > "$work/steps.sh" << 'S'
set -u
step() { # WHAT COMMAND ...
    if "${@:2}" > /tmp/log 2>&1; then echo "PASS debian $1"; else echo "FAIL debian $1"; tail -n 15 /tmp/log; fi
}
files() { find /usr/lib /usr/include /usr/share /usr/bin -name '*ggml*' | grep -v -e /lintian/ "$@"; }
cd /tmp
step "no ggml is installed before" [ -z "$(files -e /doc/)" ]
step "dpkg -i: the libraries" dpkg -i debs/libggml0_*.deb debs/libggml0-backend-vulkan_*.deb
step "autopkgtest loads, without the development package" hosts/tests/loads
for pair in libggml-dev:host ggml-rpc-server:rpc ggml-info:info; do
    step "dpkg -i: ${pair%:*}" dpkg -i "debs/${pair%:*}"_*.deb
    step "autopkgtest ${pair#*:}" "hosts/tests/${pair#*:}"
done
for order in "ggml cpu base" "base" "cpu base" "ggml base" "vulkan base" "vulkan cpu ggml base"; do
    flags=$(echo "$order" | sed -E 's/\w+/-DUSE_\U&\E -lggml-&/g; s/-lggml-ggml/-lggml/')
    compiled() { cc -std=c11 -D_GNU_SOURCE hosts/install/linked.c -o linked -Wl,--no-as-needed $flags -ldl && ./linked; }
    step "c_tests/install/linked.c, linked to: $order" compiled
done
[ ! -d hosts/original ] || step "linked to the original" hosts/original/linked
owned() { for file in /usr/lib/*/libggml*; do dpkg -S "$file" || return 1; done; }
step "dpkg knows every library" owned
step "dpkg --purge" dpkg --purge ggml-info ggml-rpc-server libggml-dev libggml0-backend-vulkan libggml0
step "nothing is left" [ -z "$(files)" ]
S
# Hosts that are linked to the original, where the other suites have built it.
original=${GGML_CACHE:-$root/target/cache}/original
rm -rf "$work/original"
if [ -e "$original/done" ]; then
    mkdir "$work/original"
    check "a host is linked to the original" $CC -std=c11 -D_GNU_SOURCE -DUSE_GGML -DUSE_BASE -DUSE_CPU -I"$original/include" c_tests/install/linked.c \
        -o "$work/original/linked" -L"$original/lib" -Wl,--no-as-needed -Wl,--allow-shlib-undefined -lggml -lggml-cpu -lggml-base -ldl
fi
inside() { env WORK="$work" TREE="$tree" VERSION="$version" $how sh "$work/inside.sh" "$1"; }
mkdir -p "$work/overlay"
how=
for how in "unshare -m" "unshare -Urm" ""; do
    [ -z "$how" ] || ! inside probe > /dev/null 2>&1 || break
done
if [ -n "$how" ]; then
    inside run 2>&1 | tee "$work/inside.log"
    passed=$((passed + $(grep -c '^PASS debian' "$work/inside.log")))
    failed=$((failed + $(grep -c '^FAIL debian' "$work/inside.log")))
    check "the steps went to their end" grep -q 'debian nothing is left$' "$work/inside.log"
else
    echo "note: neither root nor a user namespace may mount here: the packages are not installed, and their tests do not run"
fi
for deb in "${debs[@]}"; do echo "   $(basename "$deb"): $(($(wc -c < "$deb") / 1024)) KiB"; done
finish debian
