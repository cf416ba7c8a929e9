#!/usr/bin/env bash
# The oldest compiler: one number everywhere, and it compiles everything. The last line counts the checks.
#
# Cargo.toml's `rust-version` is the number. With that toolchain (rustup toolchain install 1.89.0 --profile minimal;
# nothing is fetched here) all targets are checked with it, dependencies as in Cargo.lock included. Without it, the
# suite clippy checks the use of the standard library; nothing checks the language and the dependencies.
set -u
. "$(dirname "$0")/checks.sh"
work=$root/target/msrv
mkdir -p "$work"
number=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
[[ $number =~ ^1\.[0-9]+$ ]] || { echo "Cargo.toml has no rust-version"; echo "msrv: 0 passed, 1 failed"; exit 1; }

# Files that must contain the number.
for place in Cargo.toml macros/Cargo.toml README.md scripts/build.sh scripts/test.sh packaging/debian/control; do
    check "$place says $number" grep -qE "(Rust|rust-version|rustc)[^0-9]*${number/./\\.}([^0-9.]|$)" "$place"
done
others() { # no other number, anywhere
    ! git grep -nIE "([Rr]ust(-version|c|)|msrv|MSRV)[ =(>\"]+1\.[0-9]+" -- ':!*Cargo.lock' ':!scripts/test_msrv.sh' ':!docs/measurements' | grep -vE "[ =(>\"]${number/./\\.}(\.[0-9]+)?([^0-9.]|$)" | grep .
}
check "no other number is named" others

# It would override Cargo.toml's number for the suite clippy, whose lints have incompatible_msrv.
check "there is no clippy.toml" test ! -e clippy.toml -a ! -e .clippy.toml
oldest=$number.0
if command -v rustup > /dev/null && rustup run "$oldest" rustc --version > "$work/version" 2> /dev/null; then
    old() { rustup run "$oldest" cargo check --locked --all-targets --target-dir "$work/build" "$@"; }
    check "all targets compile with $oldest" old
    check "and so they do with the feature internals" old --features internals
    check "and without Vulkan" old --no-default-features
    check "and the macros alone" old --package libggml-macros
else
    echo "note: Rust $oldest is not here; the language and the dependencies are not checked with it"
fi
finish msrv
