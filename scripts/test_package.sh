#!/usr/bin/env bash
# The archives of cargo publish: both crates, packed from the committed and uncommitted files that git knows, unpacked
# elsewhere and built from there. The last line counts the checks.
#
# Without the network, if cargo has fetched the dependencies before. Needs the release build. The library is built
# without optimization: one minute the first time, in target/package-test. `cargo package` of two crates that need each
# other needs cargo 1.90 or later.
set -u
. "$(dirname "$0")/checks.sh"
work=$root/target/package-test
export CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$work/build
mkdir -p "$work"

# cargo's own patterns: a file that git does not know (a model in src/, say) would be packed, too. So unknown ones are
# refused below.
pack() {
    rm -rf "$work/build/package"
    cargo package --workspace --no-verify --allow-dirty --offline "$@"
}
check "cargo package" pack
library=$work/libggml-rs-$version macros=$work/libggml-macros-$version
rm -rf "$library" "$macros" "$work/host"
unpack() { # NAME BYTES: an archive smaller than this
    local archive=$work/build/package/$1-$version.crate
    tar -xzf "$archive" -C "$work" && (cd "$work/$1-$version" && find . -type f | sed 's|^\./||' | sort) > "$work/$1.list"
    wc -c "$archive" && [ "$(wc -c < "$archive")" -lt "$2" ]
}
check "libggml-rs is below 6 MB (registries take 10)" unpack libggml-rs 6000000
check "libggml-macros is below 50 kB" unpack libggml-macros 50000
[ "$failed" = 0 ] || finish package

# What is in them.
everything() { # all that git has of these is in the archive
    git ls-files -- src build.rs vulkan_shaders include cmake Makefile docs ':!docs/measurements' c_tests/examples c_tests/modules/toy_module.c README.md SECURITY.md LICENSE scripts/build.sh \
        tools/forward.S scripts/forward.sh scripts/install.sh scripts/target.sh | while read -r path; do [ ! -e "$path" ] || echo "$path"; done | sort > "$work/must"
    ! comm -23 "$work/must" "$work/libggml-rs.list" | grep . && [ "$(grep -cx -e src/lib.rs -e LICENSE -e README.md "$work/libggml-macros.list")" = 3 ]
}
check "what building and installing take is in them" everything
nothing_else() { # cargo adds three files of its own to each
    { git ls-files && for name in Cargo.lock Cargo.toml.orig .cargo_vcs_info.json; do printf '%s\nmacros/%s\n' $name $name; done; } | sort -u > "$work/known"
    ! { cat "$work/libggml-rs.list" && sed 's|^|macros/|' "$work/libggml-macros.list"; } | sort | comm -23 - "$work/known" | grep .
}
check "nothing that git does not know is in them" nothing_else
no_ballast() { ! grep -hE '(^|/)target/|^fuzz/|\.(gguf|so|a|o|zip|whl|crate)$|^scripts/.*test|^c_tests/([^me]|meta/)' "$work"/libggml-*.list; }
check "no tests' data, models or builds are in them" no_ballast
same_licence() { cmp LICENSE "$library/LICENSE" && cmp LICENSE "$macros/LICENSE" && [ ! -L "$macros/LICENSE" ]; }
check "both have the licence's text" same_licence
no_paths() { ! grep -rlF -e "$root" -e "$HOME/" "$library" "$macros"; }
check "no folder of this machine shows" no_paths
metadata() {
    cargo metadata --offline --no-deps --format-version 1 | python3 -c 'if True:
        import json, re, sys
        packages = {p["name"]: p for p in json.load(sys.stdin)["packages"]}
        for p in (packages["libggml-rs"], packages["libggml-macros"]):
            assert all(p[f] for f in ("description", "license", "documentation", "readme", "rust_version", "keywords", "categories")), p
            assert p["version"] == sys.argv[1], p
            # The rules of the registry.
            assert len(p["keywords"]) <= 5 and len(p["categories"]) <= 5 and all(re.fullmatch("[A-Za-z0-9_-]{1,20}", k) for k in p["keywords"]), p
            assert all(d["req"] != "*" or d["kind"] == "dev" for d in p["dependencies"]), p' "$version"
}
check "the registry's fields are filled, and both have one version" metadata

# Built from the archives alone, as by a project that depends on the crate. The macros come from their archive.
from() { printf 'patch.crates-io.%s.path = "%s"' "$1" "$2"; }
examples() {
    (cd "$library" && cargo --config "$(from libggml-macros "$macros")" test --offline --doc) > "$work/doc.log" 2>&1
    cat "$work/doc.log"
    grep -q '^test result: ok. [1-9]' "$work/doc.log"
}
check "the library builds from its archive, and its example computes" examples
host=$work/host
cp -r c_tests/package/. "$host"
in_host() { (cd "$host" && cargo --config "$(from libggml-macros "$macros")" --config "$(from libggml-rs "$library")" "$@"); }
runs() { [ "$(GGML_DISABLE_VULKAN=1 in_host run --quiet --offline --bin host)" = "$version 1" ]; }
check "a Rust program that depends on it runs" runs
hidden() { ! in_host build --offline --bin private > "$work/private.log" 2>&1 && grep -q 'E0603' "$work/private.log"; }
check "what is behind the C interface is private" hidden

same_files() {
    export CARGO_TARGET_DIR=${GGML_RELEASE_TARGET:-$target}
    DESTDIR=$temporary/ours scripts/install.sh /usr && DESTDIR=$temporary/archive "$library/scripts/install.sh" /usr && diff -r "$temporary/ours" "$temporary/archive"
}
check "make install from the archive puts the same files" same_files
finish package
