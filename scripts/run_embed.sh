#!/bin/sh
# make run: builds the C host, gets a model, runs the host: run_embed.sh [MODEL.gguf]
#
# In the environment: SENTENCES="one|two|three" replaces the sentences; REPORT=file.html (or .json) says where everything was
# placed and why; TRACE=file.json says what ran when (open it at ui.perfetto.dev).
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
model=${1:-}
if [ -z "$model" ]; then
    model=$cache/models/minilm-f32.gguf
    if [ ! -f "$model" ]; then
        command -v python3 > /dev/null || { echo "python3 is missing: install the package python3" >&2; exit 1; }
        mkdir -p "$cache/models"
        python3 "$root/scripts/fetch_minilm.py" "$cache/src/minilm"
        python3 "$root/scripts/minilm_to_gguf.py" "$cache/src/minilm/model" "$model.part" f32
        mv "$model.part" "$model"
    fi
elif [ ! -f "$model" ]; then
    echo "run: there is no file $model" >&2
    exit 1
fi

"$root/scripts/install.sh" "$prefix" > /dev/null
"$CC" -std=c11 -O2 -Wall -Wextra -I"$prefix/include" "$root/c_tests/examples/embed.c" -o "$root/target/embed" \
    -L"$prefix/lib" -lggml -lggml-base -Wl,-rpath,"$prefix/lib" -lm
if [ -n "${SENTENCES:-}" ]; then
    IFS='|'
    set -f
    # shellcheck disable=SC2086
    exec "$root/target/embed" "$model" $SENTENCES
fi
exec "$root/target/embed" "$model"
