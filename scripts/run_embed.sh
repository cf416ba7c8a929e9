#!/bin/sh
# make run: builds the C host, gets a model, runs the host.
#
# In the environment: MODEL=file.gguf is read instead of MiniLM; SENTENCES="one|two|three" replaces the sentences; REPORT=file.html (or
# .json) says where everything was placed and why; TRACE=file.json says what ran when (open it at ui.perfetto.dev).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${GGML_CACHE:-$root/target/cache}
prefix=$root/target/install
CC=${CC:-cc}
export PYTHONDONTWRITEBYTECODE=1
command -v "$CC" > /dev/null || { echo "$CC is missing: install the package gcc" >&2; exit 1; }

[ -z "${REPORT:-}" ] || export GGML_SCHED_REPORT="$REPORT"
[ -z "${TRACE:-}" ] || export GGML_TRACE="$TRACE"
case ${DEVICE:-} in
    "") ;;
    CPU | cpu) export GGML_DISABLE_VULKAN=1 ;;
    [Vv]ulkan[0-9]*) export GGML_VK_VISIBLE_DEVICES="${GGML_VK_VISIBLE_DEVICES:-${DEVICE#?ulkan}}" ;;
    *) echo "run: DEVICE is CPU or Vulkan0, Vulkan1 ..." >&2; exit 1 ;;
esac
model=${MODEL:-}
if [ -z "$model" ]; then
    model=$cache/models/minilm-f32.gguf
    if [ ! -f "$model" ]; then
        command -v python3 > /dev/null || { echo "python3 is missing: install the package python3" >&2; exit 1; }
        # In the background, so that a signal to this shell alone ends the fetch, too.
        python3 "$root/scripts/fetch_minilm.py" "$cache/src/minilm" "$model" &
        fetch=$!
        trap 'kill "$fetch" 2> /dev/null; wait "$fetch"; exit 1' INT TERM
        wait "$fetch"
        trap - INT TERM
    fi
elif [ ! -f "$model" ]; then
    echo "run: there is no file $model" >&2
    exit 1
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
    # shellcheck disable=SC2086
    exec "$host" -- "$model" $SENTENCES
fi
exec "$host" -- "$model"
