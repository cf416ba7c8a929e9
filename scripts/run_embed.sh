#!/bin/sh
# make run: gets a model, builds the library and the C host, and runs it. Reports missing tools before it builds
# anything.
#
# In the environment: MODEL=file.gguf is read instead of MiniLM; SENTENCES="one|two|three" replaces the sentences;
# REPORT=file.html (or .json) says where everything was placed and why; TRACE=file.json says what ran when (open it at
# ui.perfetto.dev).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${GGML_CACHE:-$root/target/cache}
prefix=$root/target/install
CC=${CC:-cc}
export PYTHONDONTWRITEBYTECODE=1
die() {
    echo "run: $*" >&2
    exit 1
}
need() { # TOOL WHAT
    command -v "$1" > /dev/null || die "$1 is missing: install $2"
}
need "${CARGO:-cargo}" "Rust 1.89 or later (https://rustup.rs)"
need "$CC" "the package gcc"

case ${DEVICE:-} in
    "") ;;
    CPU | cpu) export GGML_DISABLE_VULKAN=1 ;;
    [Vv]ulkan[0-9]*) export GGML_VK_VISIBLE_DEVICES="${GGML_VK_VISIBLE_DEVICES:-${DEVICE#?ulkan}}" ;;
    *) die "DEVICE is CPU or Vulkan0, Vulkan1 ..." ;;
esac
model=${MODEL:-$cache/models/minilm-f32.gguf}
if [ ! -f "$model" ]; then
    [ -z "${MODEL:-}" ] || die "there is no file $model"
    need python3 "the package python3"
    # In the background, so that a signal to this shell alone ends the fetch, too.
    python3 "$root/scripts/fetch_minilm.py" "$cache/src/minilm" "$model" &
    fetch=$!
    trap 'kill "$fetch" 2> /dev/null; wait "$fetch"; exit 1' INT TERM
    wait "$fetch"
    trap - INT TERM
fi
"$root/scripts/build.sh"
[ -z "${REPORT:-}" ] || export GGML_SCHED_REPORT="$REPORT"
[ -z "${TRACE:-}" ] || export GGML_TRACE="$TRACE"

host=$root/target/embed
mkdir -p "$root/target"
( # one at a time; the host is there whole or not at all
    if command -v flock > /dev/null; then flock 9; fi
    "$root/scripts/install.sh" "$prefix" > /dev/null
    "$CC" -std=c11 -O2 -Wall -Wextra -I"$prefix/include" "$root/c_tests/examples/embed.c" -o "$host.new" \
        -L"$prefix/lib" -lggml -lggml-base -Xlinker -rpath -Xlinker "$prefix/lib" -lm
    mv "$host.new" "$host"
) 9> "$host.lock"
IFS='|'
set -f
exec "$host" -- "$model" ${SENTENCES:-}
