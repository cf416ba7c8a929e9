#!/bin/sh
# Builds what make install installs, into target/release: build.sh [if-needed]
#
# cargo builds the library (libggml.so and libggml.a, which are installed as libggml-base) and ggml-info, forward.sh the
# small files beside it and the tool ggml-rpc-server (small/). The files do not contain the folder of the build, so that
# two builds of one commit have the same bytes.
#
#   if-needed         builds only if a source is newer than the last build: installing then needs neither cargo nor a
#                     compiler
#   GGML_MAX_NAME=N   bytes of a tensor's name, a multiple of 16 from 32 to 1024 (default 64). A host must be compiled
#                     with the same number: docs/INSTALL.md. Such a build is in target/max-name-N/release
#   CARGO_TARGET=aarch64-unknown-linux-gnu   builds for this target of Rust, in target/CARGO_TARGET/release, with the C
#                     compiler aarch64-linux-gnu-gcc unless CC names another one
#   CARGO_FLAGS=...   more for cargo; --no-default-features leaves the Vulkan backend out
set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$root"
CARGO=${CARGO:-cargo}
number=${GGML_MAX_NAME:-64}
case $number in *[!0-9]* | 0* | ?????*) number=0 ;; esac
if [ "$number" -lt 32 ] || [ "$number" -gt 1024 ] || [ $((number % 16)) != 0 ]; then
    echo "GGML_MAX_NAME is \"$GGML_MAX_NAME\": it must be a multiple of 16 from 32 to 1024" >&2
    exit 1
fi
. scripts/target.sh
export CARGO_TARGET_DIR="$target"
CC=${CC:-${tools:+${tools}gcc}}
CC=${CC:-cc}

# If two run at once, the second waits, and then finds what the first has built.
if command -v flock > /dev/null && mkdir -p "$target" 2> /dev/null && { : >> "$target/build.lock"; } 2> /dev/null; then
    exec 9>> "$target/build.lock"
    flock 9
fi

if [ "${1:-}" = if-needed ] && [ -f "$built" ] && [ -f "$library" ] && [ -f "$release/libggml.a" ]; then
    # An unpacked crate has the macros elsewhere.
    newer=$(find src macros/src macros/Cargo.toml vulkan_shaders build.rs Cargo.toml Cargo.lock scripts/forward.sh scripts/target.sh tools/forward.S \
        tools/ggml-rpc-server.c tools/info "$library" -type f -newer "$built" 2> /dev/null | head -n 1)
    [ -n "$newer" ] || exit 0
    echo "$newer has changed since the last build"
fi

command -v "$CARGO" > /dev/null || { echo "cargo is missing: install Rust 1.89 or later (https://rustup.rs)" >&2; exit 1; }
# Replacements for folders of this machine in rustc's output. The last that matches counts.
quoted() { printf '%s' "$1" | sed 's/[\\"]/\\&/g'; }
remap() { printf '"--remap-path-prefix=%s=%s"' "$(quoted "$1")" "$2"; }
home=${CARGO_HOME:-$HOME/.cargo}
flags="$(remap "$target" /libggml-rs/target), $(remap "$root" /libggml-rs), $(remap "$home" /cargo)"
for part in registry git; do # where a link leads, too
    if [ -d "$home/$part" ]; then flags="$flags, $(remap "$(cd "$home/$part" && pwd -P)" "/cargo/$part")"; fi
done
# The standard library's, where its sources are installed: as where they are not.
flags="$flags, $(remap "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/src/rust" "/rustc/$("${RUSTC:-rustc}" -vV | sed -n 's/^commit-hash: //p')")"
# Local symbols that another codegen unit uses get a suffix: by default a hash of the unit's bitcode, which once in some
# builds, on a loaded machine, is another one for the same code. This one is made of the unit's name.
flags="$flags, \"-Cllvm-args=-use-source-filename-for-promoted-locals\""
# RUSTFLAGS replaces all flags of the configuration.
[ -z "${CARGO_ENCODED_RUSTFLAGS:-}${RUSTFLAGS:-}" ] || echo "note: RUSTFLAGS is set: the build will show its folders"
if [ -n "$cross" ]; then
    [ -d "$("${RUSTC:-rustc}" --print sysroot)/lib/rustlib/$cross/lib" ] || { echo "Rust has no library for $cross: rustup target add $cross" >&2; exit 1; }
    command -v "${CC%% *}" > /dev/null || { echo "${CC%% *} is missing: install that C compiler, or name another one in CC" >&2; exit 1; }
    # The crate cc and cargo: compiler and linker of the target.
    set -- env "CC_$cross=$CC" "$CARGO" build --target "$cross" --config "target.$cross.linker = \"$(quoted "${CC%% *}")\""
else
    set -- "$CARGO" build
fi
"$@" --release --config "build.rustflags = [$flags]" ${CARGO_FLAGS:-}
CC=$CC scripts/forward.sh "$library" "$release/small"
# The server for other machines finds the library in the usual places beside its folder.
near='-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib:$ORIGIN/../lib64'
multiarch=$($CC -print-multiarch 2> /dev/null || true)
[ -z "$multiarch" ] || near="$near:\$ORIGIN/../lib/$multiarch"
case $end in dylib) near=-Wl,-rpath,@loader_path/../lib ;; dll) near=-static-libgcc CC="$CC -Wl,--no-insert-timestamp" ;; esac
$CC -std=c11 -O2 -fPIE -pie -Wall -Wextra -I include tools/ggml-rpc-server.c -o "$release/small/new$exe" "$library" "$near"
mv "$release/small/new$exe" "$release/small/ggml-rpc-server$exe"
# The library's description of its build, for install.sh.
LC_ALL=C tr '\0' '\n' < "$library" | LC_ALL=C sed -n 's/^.*libggml-rs build: \(version=[^ ]* max_name=[0-9]*;\)$/\1/p' > "$built.new"
[ "$(wc -l < "$built.new")" = 1 ] || { echo "build: $library does not say what it is" >&2; exit 1; }
mv "$built.new" "$built"
