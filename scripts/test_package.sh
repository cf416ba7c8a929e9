#!/usr/bin/env bash
# The archives of cargo publish: both crates, packed from the committed and uncommitted files that git knows, unpacked
# elsewhere and built from there. The last line counts the checks.
#
# Without the network, if cargo has fetched the dependencies before. The library is built without optimization: one
# minute the first time, in target/package-test. `cargo package` of two crates that need each other needs cargo 1.90 or
# later.
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
rm -rf "$library" "$macros"
unpack() {
    for name in libggml-rs libggml-macros; do
        tar -xzf "$work/build/package/$name-$version.crate" -C "$work" || return 1
        (cd "$work/$name-$version" && find . -type f | sed 's|^\./||' | sort) > "$work/$name.list"
    done
}
check "both archives unpack" unpack
[ "$failed" = 0 ] || finish package

# What is in them.
small() { # ARCHIVE BYTES
    local bytes
    bytes=$(wc -c < "$1")
    echo "$1: $bytes bytes"
    [ "$bytes" -lt "$2" ]
}
check "libggml-rs is below 6 MB (registries take 10)" small "$work/build/package/libggml-rs-$version.crate" 6000000
check "libggml-macros is below 50 kB" small "$work/build/package/libggml-macros-$version.crate" 50000
everything() { # all that git has of these is in the archive
    git ls-files -- src build.rs vulkan_shaders include cmake Makefile docs ':!docs/measurements' c_tests/examples c_tests/modules/toy_module.c README.md SECURITY.md LICENSE scripts/build.sh \
        tools/forward.S scripts/forward.sh scripts/install.sh | while read -r path; do [ ! -e "$path" ] || echo "$path"; done | sort > "$work/must"
    comm -23 "$work/must" "$work/libggml-rs.list" | grep . && return 1
    grep -qx src/lib.rs "$work/libggml-macros.list" && grep -qx LICENSE "$work/libggml-macros.list" && grep -qx README.md "$work/libggml-macros.list"
}
check "what building and installing take is in them" everything
nothing_else() { # cargo adds four files of its own
    git ls-files | sort > "$work/known"
    ! grep -vxF -e Cargo.lock -e Cargo.toml.orig -e .cargo_vcs_info.json "$work/libggml-rs.list" | comm -23 - "$work/known" | grep . &&
        ! sed 's|^|macros/|' "$work/libggml-macros.list" | grep -vE '/(Cargo.lock|Cargo.toml.orig|.cargo_vcs_info.json)$' | comm -23 - "$work/known" | grep .
}
check "nothing that git does not know is in them" nothing_else
no_ballast() { ! grep -hE '(^|/)target/|^fuzz/|\.(gguf|so|a|o|zip|whl|crate)$|^scripts/.*test|^c_tests/([^me]|meta/)' "$work"/libggml-*.list; }
check "no tests' data, models or builds are in them" no_ballast
same_licence() { cmp LICENSE "$library/LICENSE" && cmp LICENSE "$macros/LICENSE" && [ ! -L "$macros/LICENSE" ]; }
check "both have the licence's text" same_licence
no_paths() { ! grep -rlF -e "$root" -e "$HOME/" "$library" "$macros"; }
check "no folder of this machine shows" no_paths
metadata() {
    cargo metadata --offline --no-deps --format-version 1 > "$work/metadata.json" && python3 - "$work/metadata.json" "$version" << 'PY'
import json, sys
packages = {p["name"]: p for p in json.load(open(sys.argv[1]))["packages"]}
for p in (packages["libggml-rs"], packages["libggml-macros"]):
    for field in ("description", "license", "documentation", "readme", "rust_version", "keywords", "categories"):
        assert p[field], f"{p['name']} has no {field}"
    assert p["version"] == sys.argv[2], f"{p['name']} is {p['version']}"
    # The registry's rules.
    assert len(p["keywords"]) <= 5 and len(p["categories"]) <= 5
    assert all(len(k) <= 20 and k.replace("-", "").replace("_", "").isalnum() for k in p["keywords"]), p["keywords"]
    assert all(d["req"] != "*" or d["kind"] == "dev" for d in p["dependencies"]), f"{p['name']}: a dependency has no version"
PY
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
mkdir -p "$host/src/bin"
cat > "$host/Cargo.toml" << T
[package]
name = "host"
version = "0.0.0"
edition = "2024"
[dependencies]
libggml-rs = "$version"
[workspace]
T
cat > "$host/src/bin/host.rs" << 'R'
use ggml::capi::{backend::ggml_backend_dev_count, ggml::ggml_version};

fn main() {
    // SAFETY: the version is a C string that lives as long as the program; the other function takes nothing.
    let (version, devices) = unsafe { (std::ffi::CStr::from_ptr(ggml_version()), ggml_backend_dev_count()) };
    println!("{} {devices}", version.to_str().unwrap());
}
R
echo 'fn main() { let _ = ggml::tensor::Shape::default(); }' > "$host/src/bin/private.rs"
in_host() { (cd "$host" && cargo --config "$(from libggml-macros "$macros")" --config "$(from libggml-rs "$library")" "$@"); }
runs() { [ "$(GGML_DISABLE_VULKAN=1 in_host run --quiet --offline --bin host)" = "$version 1" ]; }
check "a Rust program that depends on it runs" runs
hidden() { ! in_host build --offline --bin private > "$work/private.log" 2>&1 && grep -q 'E0603' "$work/private.log"; }
check "what is behind the C interface is private" hidden

# make install from the unpacked archive puts the same files as from here (only where there is a build: it takes
# minutes).
release=${GGML_RELEASE_TARGET:-$root/target}
if [ -f "$release/release/small/built" ]; then
    same_files() {
        rm -rf "$work/ours" "$work/archive"
        CARGO_TARGET_DIR=$release DESTDIR=$work/ours scripts/install.sh /usr &&
            CARGO_TARGET_DIR=$release DESTDIR=$work/archive "$library/scripts/install.sh" /usr && diff -r "$work/ours" "$work/archive"
    }
    check "make install from the archive puts the same files" same_files
    rm -rf "$work/ours" "$work/archive"
else
    echo "note: there is no release build; installing from the archive is not tested"
fi
finish package
