#!/usr/bin/env bash
# Many schedulers, graphs and files on several threads, for a long time: soak.sh MINUTES [SEED]
#
# Results must be right, and memory, descriptors and threads of the process must not grow. Uses Vulkan0 if the library
# finds it: GGML_VK_VISIBLE_DEVICES. Builds only its programs and a module. GGML_PREFIX is the library (default:
# target/install, which is installed first). The last line counts the checks.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
minutes=${1:-10} seed=${2:-1}
prefix=${GGML_PREFIX:-}
if [ -z "$prefix" ]; then
    prefix=$root/target/install
    "$root/scripts/install.sh" "$prefix" > /dev/null
fi
out=$root/target/soak
mkdir -p "$out"
flags="-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I$prefix/include -L$prefix/lib -Wl,-rpath,$prefix/lib"
# shellcheck disable=SC2086
${CC:-cc} $flags "$root/c_tests/robust/soak.c" -o "$out/soak" -lggml -lggml-cpu -lggml-base -lm -lpthread -ldl
# shellcheck disable=SC2086
${CC:-cc} $flags -shared -fPIC -DACCEL_SCORE=10 "$root/c_tests/plugin/accel.c" -o "$out/accel.so" -lggml-base
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I"$prefix/include" "$root/c_tests/robust/test_unload.c" -o "$out/test_unload" -ldl
exec "$out/soak" "$(awk -v m="$minutes" 'BEGIN { print m * 60 }')" "$seed" "$out/accel.so" "$out/test_unload" "$prefix/lib"
