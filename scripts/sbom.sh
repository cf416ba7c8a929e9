#!/bin/sh
# make sbom: a bill of materials of the library, CycloneDX in JSON, in target/sbom. cargo-cyclonedx is the one on PATH,
# or is installed into the cache (some minutes, once).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
version=0.5.9
cache=${GGML_CACHE:-$root/target/cache}
PATH=$PATH:$cache/tools/bin
if ! command -v cargo-cyclonedx > /dev/null; then
    command -v "${CARGO:-cargo}" > /dev/null || { echo "sbom: cargo is missing: install Rust (https://rustup.rs)" >&2; exit 1; }
    echo "installing cargo-cyclonedx $version into the cache (some minutes, once) ..."
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 "${CARGO:-cargo}" install --quiet --locked cargo-cyclonedx --version "$version" --root "$cache/tools" --target-dir "$cache/tools/build" ||
        { echo "sbom: cargo could not install cargo-cyclonedx $version" >&2; exit 1; }
    rm -rf "$cache/tools/build"
fi
name=$(sed -n 's/^version = "\(.*\)"/libggml-rs-\1/p' Cargo.toml | head -n 1)
mkdir -p target/sbom
# It writes beside Cargo.toml, for each crate of the workspace.
cargo-cyclonedx cyclonedx --format json --all-features --target x86_64-unknown-linux-gnu --override-filename "$name.cdx" --quiet
mv "$name.cdx.json" target/sbom/
rm -f "macros/$name.cdx.json"
python3 - "target/sbom/$name.cdx.json" Cargo.lock << 'PYTHON'
import json, re, sys
bill = json.load(open(sys.argv[1]))
names = {c["name"] for c in bill["components"]}
locked = set(re.findall(r'^name = "([^"]+)"', open(sys.argv[2]).read(), re.M))
missing = [n for n in ("ash", "half", "libc", "object", "serde_json") if n not in names]
sys.exit(f"sbom: without {missing}") if missing or not names <= locked else print(f"{sys.argv[1]}: {len(names)} crates")
PYTHON
