#!/usr/bin/env bash
# The Vulkan backend on a driver: test_vulkan.sh [quick|all]
#
# The driver: that of the first device of the system, or of GGML_VK_VISIBLE_DEVICES. Without one, one failure: install
# mesa-vulkan-drivers. The validation layers (vulkan-validationlayers) are on if they are installed, and every message
# of theirs ends the program that caused it. `all` also runs every case of llama.cpp's own test of ops and every
# architecture it knows, `quick` (the default) a representative part.
#
# Needs target/install and, for the ops, GGML_CACHE/hosts and GGML_CACHE/tests (scripts/oracle.sh hosts, tests). The
# last line counts the checks.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
extent=${1:-quick}
cache=${GGML_CACHE:-$root/target/cache}
prefix=${GGML_PREFIX:-$root/target/install}
out=$root/target/vulkan
mkdir -p "$out"
export GGML_VK_VISIBLE_DEVICES=${GGML_VK_VISIBLE_DEVICES:-0} GGML_NO_BACKTRACE=1
# A cache of this tree alone, so that a first and a second start can be distinguished.
export GGML_VK_PIPELINE_CACHE_DIR=$out/pipelines
passed=0 failed=0

ok() { passed=$((passed + 1)); echo "PASS $1"; }
bad() { failed=$((failed + 1)); echo "FAIL $1: $2"; }
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I"$prefix/include" -Ic_tests/common c_tests/vulkan/test_vulkan.c \
    -o "$out/test_vulkan" -L"$prefix/lib" -lggml -lggml-vulkan -lggml-base -Wl,-rpath,"$prefix/lib" -lm -lpthread ||
    { bad "build c_tests/vulkan/test_vulkan.c" "see above"; finish; }

# Whether there are validation layers: the library logs it when they are on.
"$out/test_vulkan" none > "$out/probe.txt" 2> "$out/probe.err" || { bad "a Vulkan driver" "$(tail -n 3 "$out/probe.err" | tr '\n' ' ')"; finish; }
sed -n 's/^ggml_vulkan: 0 = /note: /p' "$out/probe.err"
GGML_VK_VALIDATE=1 "$out/test_vulkan" none > /dev/null 2> "$out/probe.err"
validate=0
if grep -q 'validation layers are enabled' "$out/probe.err"; then
    validate=abort
else
    echo "note: no validation layers (the package vulkan-validationlayers): their messages are not checked"
    [ -z "${GGML_TEST_VULKAN:-}" ] || bad "validation layers" "GGML_TEST_VULKAN is set, but they are not there"
fi

# Programs that print PASS and FAIL.
counted() { # NAME COMMAND ...
    local name=$1 log n status
    shift
    log=$out/$name.log
    "$@" > "$log" 2> "$log.err"
    status=$?
    awk -v name="$name" '/^(PASS|FAIL) / { print substr($0, 1, 5) name ": " substr($0, 6) }' "$log"
    n=$(grep -c '^PASS' "$log"); passed=$((passed + n))
    n=$(grep -c '^FAIL' "$log"); failed=$((failed + n))
    if ! grep -qE '^[0-9]+ passed, [0-9]+ failed$' "$log"; then
        bad "$name" "ended with status $status: $(grep -m 1 validation "$log.err" | cut -c1-600) $(tail -n 1 "$log.err" | cut -c1-200)"
    fi
}

rm -rf "$GGML_VK_PIPELINE_CACHE_DIR"
counted test_vulkan env GGML_VK_VALIDATE=$validate "$out/test_vulkan"
counted "test_vulkan staged" env GGML_VK_VALIDATE=$validate GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM=1 "$out/test_vulkan"

# Whole networks on the device.
"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I"$prefix/include" -Ic_tests/common c_tests/vulkan/test_nets.c -o "$out/test_nets" \
    -L"$prefix/lib" -lggml -lggml-vulkan -lggml-cpu -lggml-base -Wl,-rpath,"$prefix/lib" -lm || bad "build c_tests/vulkan/test_nets.c" "see above"
counted test_nets env GGML_VK_VALIDATE=$validate "$out/test_nets"
counted "test_nets card" env GGML_VK_VALIDATE=$validate GGML_VK_TUNE=card "$out/test_nets"

# Two devices, which copy to each other: a software driver that is loaded twice, under two names.
two=$out/two driver=${VK_DRIVER_FILES:-/usr/share/vulkan/icd.d/lvp_icd.json}
[ -f "$driver" ] || driver=${driver%.json}.$(uname -m).json
library=$(sed -n 's/.*"library_path": *"\([^"]*lvp[^"]*\)".*/\1/p' "$driver" 2> /dev/null)
case $library in
    /*) ;;
    */*) library=$(dirname "$driver")/$library ;;
    *) library=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2> /dev/null | sed -n "s,.*libvulkan_lvp\.so.* => ,,p" | head -n 1) ;;
esac
if [ -f "${library:-}" ]; then
    mkdir -p "$two"
    for i in 0 1; do
        cp "$library" "$two/driver$i.so"
        printf '{ "file_format_version": "1.0.0", "ICD": { "library_path": "%s", "api_version": "1.3.0" } }\n' "$two/driver$i.so" > "$two/driver$i.json"
    done
    drivers=$two/driver0.json:$two/driver1.json
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I"$prefix/include" c_tests/vulkan/test_two.c -o "$out/test_two" \
        -L"$prefix/lib" -lggml -lggml-base -Wl,-rpath,"$prefix/lib" -lm -lpthread || bad "build c_tests/vulkan/test_two.c" "see above"
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -DGGML_RS -O1 -g -Wall -Wextra -Werror -I"$prefix/include" c_tests/meta/test_meta.c -o "$out/test_meta" \
        -L"$prefix/lib" -lggml -lggml-cpu -lggml-base -Wl,-rpath,"$prefix/lib" -lm -lpthread || bad "build c_tests/meta/test_meta.c" "see above"
    on_two() { counted "$1" env VK_DRIVER_FILES="$drivers" VK_ICD_FILENAMES="$drivers" GGML_VK_VISIBLE_DEVICES=0,1 GGML_VK_VALIDATE=$validate "${@:2}"; }
    on_two test_two "$out/test_two"
    on_two "test_two staged" GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM=1 "$out/test_two"
    on_two "test_meta two" "$out/test_meta" Vulkan0 Vulkan1
    on_two "test_meta one" "$out/test_meta" Vulkan0
    on_two "test_meta mixed" "$out/test_meta" Vulkan0 Vulkan1 CPU
else
    echo "note: no software driver to load twice ($driver): two devices are not tested"
    # A machine with a card need not have one.
    if [ -n "${GGML_TEST_VULKAN:-}" ] && grep -q '^ggml_vulkan: 0 = llvmpipe' "$out/probe.err"; then
        bad "two devices" "GGML_TEST_VULKAN is set, but $driver and its library are not there"
    fi
fi

# A second start compiles nothing: with the cache of the driver, if it has one, and with that of a layer that gives any
# driver one, reports to the library which pipelines it had, and counts compiled pipelines itself.
compiled_in() { sed -n 's/.*pipelines made in .* ms, \([0-9]*\) of them compiled.*/\1/p' "$1" | awk '{ s += $1 } END { print s + 0 }'; }
"$out/test_vulkan" > /dev/null 2> "$out/second.err"
n=$(grep -c 'pipelines made in' "$out/second.err")
compiled=$(compiled_in "$out/second.err")
kept=$(cat "$GGML_VK_PIPELINE_CACHE_DIR"/*.bin 2> /dev/null | wc -c)
if [ "$kept" -gt 0 ] && [ "$kept" -lt 100 ]; then # only the header
    echo "note: this driver keeps no pipelines ($kept bytes of cache): a layer keeps them for it"
elif [ "$n" -gt 0 ] && [ "$compiled" = 0 ]; then ok "a second start compiles no pipeline"; else bad "a second start compiles no pipeline" "$compiled compiled in $n batches"; fi

layer=$out/layer
mkdir -p "$layer"
"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden c_tests/vulkan/cache_layer.c -o "$layer/libcache_layer.so" -lpthread ||
    bad "build c_tests/vulkan/cache_layer.c" "see above"
cat > "$layer/cache_layer.json" <<JSON
{ "file_format_version": "1.1.2",
  "layer": { "name": "VK_LAYER_ggml_rs_cache", "type": "GLOBAL", "library_path": "./libcache_layer.so", "api_version": "1.3.0",
    "implementation_version": "1", "description": "a pipeline cache for drivers without one" } }
JSON
layered=$out/layered
# A start with the layer that must compile so many pipelines, by the library's count and by the layer's.
start() { # NAME PIPELINES WHAT [VARIABLE=VALUE ...]
    rm -f "$out/layer-$1.report"
    env VK_LAYER_PATH="$layer" VK_INSTANCE_LAYERS=VK_LAYER_ggml_rs_cache GGML_VK_PIPELINE_CACHE_DIR="$layered" CACHE_LAYER_REPORT="$out/layer-$1.report" \
        "${@:4}" "$out/test_vulkan" > "$out/layer-$1.txt" 2> "$out/layer-$1.err" || bad "with the layer, $1" "$(grep -m 1 FAIL "$out/layer-$1.txt") $(tail -n 1 "$out/layer-$1.err" | cut -c1-200)"
    compiled=$(compiled_in "$out/layer-$1.err")
    local seen
    seen=$(cat "$out/layer-$1.report" 2> /dev/null)
    # The layer refuses data that is not this driver's: the library must not pass it.
    if [ "$compiled" = "${2:-$compiled}" ] && [ "${seen%%,*}" = "compiled $compiled" ] && [ "${seen##*, }" = "refused 0" ]; then
        ok "$3: $compiled compiled"
    else
        bad "$3" "$compiled compiled, ${2:-some} expected; the layer: $seen"
    fi
}
rm -rf "$layered"
start first "" "a first start with a cache that keeps pipelines"
first=$compiled
[ "$first" -gt 0 ] || bad "a first start compiles" "$first pipelines"
start second 0 "a second start"
mine=$(find "$layered" -name '*.bin')
cp "$mine" "$out/whole.bin"
head -c "$(($(wc -c < "$out/whole.bin") / 2))" "$out/whole.bin" > "$mine"
start cut "$first" "a start with half a file"
grep -q 'is damaged and not used' "$out/layer-cut.err" || bad "half a file" "nothing is said"
start mended 0 "the start after it"
chmod o+w "$mine"
start open "$first" "a start with a file that others may write"
grep -q 'others may write' "$out/layer-open.err" || bad "a file that others may write" "nothing is said"
start private 0 "the start after it"
start other "$first" "a start with another version of the driver" CACHE_LAYER_DRIVER=7
theirs=$(find "$layered" -name '*.bin' ! -path "$mine")
if [ -f "$theirs" ]; then ok "each version of the driver has a file"; else bad "each version of the driver has a file" "$(ls "$layered")"; fi
cp "$out/whole.bin" "$theirs"
start foreign "$first" "a start with another driver's file under this one's name" CACHE_LAYER_DRIVER=7
start foreign-mended 0 "the start after it" CACHE_LAYER_DRIVER=7
start back 0 "the first driver again"

# Each call of Vulkan fails once: with copies through staging memory, with mapped memory, and while steps are timed.
# Mesa's layer that sorts devices (NODEVICE_SELECT) crashes if a query fails below it, before this library gets the
# error.
"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden c_tests/vulkan/fault_layer.c -o "$layer/libfault_layer.so" &&
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -I"$prefix/include" c_tests/vulkan/test_faults.c -o "$out/test_faults" \
        -L"$prefix/lib" -lggml -lggml-cpu -lggml-base -Wl,-rpath,"$prefix/lib" -lm -lpthread -ldl || bad "build c_tests/vulkan/test_faults.c" "see above"
cat > "$layer/fault_layer.json" <<JSON
{ "file_format_version": "1.1.2",
  "layer": { "name": "VK_LAYER_ggml_rs_faults", "type": "GLOBAL", "library_path": "./libfault_layer.so", "api_version": "1.3.0",
    "implementation_version": "1", "description": "calls that fail" } }
JSON
faults() { # NAME DEVICES STRIDE [VARIABLE=VALUE ...]
    counted "test_faults $1" env VK_LAYER_PATH="$layer" VK_INSTANCE_LAYERS=VK_LAYER_ggml_rs_faults NODEVICE_SELECT=1 GGML_VK_PIPELINE_CACHE_DIR="$out/faults" "${@:4}" \
        "$out/test_faults" "$layer/libfault_layer.so" "$2" "$3"
    grep '^note |' "$out/test_faults $1.log"
}
faults staged 1 1 GGML_VK_DISABLE_HOST_VISIBLE_VIDMEM=1
faults direct 1 1
faults timed 1 1 GGML_VK_PERF_LOGGER=1
if [ -f "${library:-}" ]; then # between two devices, every third call
    stride=3
    [ "$extent" = all ] && stride=1
    faults two 2 "$stride" VK_DRIVER_FILES="$drivers" VK_ICD_FILENAMES="$drivers" GGML_VK_VISIBLE_DEVICES=0,1
fi

# A damaged cache is reported, ignored, and written again; processes that start at once leave one complete file.
file=$(ls "$GGML_VK_PIPELINE_CACHE_DIR"/*.bin 2> /dev/null | head -n 1)
if [ -n "$file" ]; then
    whole=$(cksum < "$file")
    printf 'not a cache' | dd of="$file" bs=1 seek=20 conv=notrunc 2> /dev/null
    if "$out/test_vulkan" a_graph_is_computed > "$out/damaged.txt" 2> "$out/damaged.err" && grep -q 'is damaged and not used' "$out/damaged.err"; then
        ok "a damaged pipeline cache is reported and ignored"
    else
        bad "a damaged pipeline cache is reported and ignored" "$(grep -m 1 FAIL "$out/damaged.txt") $(tail -n 1 "$out/damaged.err" | cut -c1-200)"
    fi
    "$out/test_vulkan" none > /dev/null 2> "$out/damaged.err"
    "$out/test_vulkan" a_graph_is_computed > /dev/null 2> "$out/damaged.err"
    if grep -q 'is damaged' "$out/damaged.err"; then bad "a damaged pipeline cache is written again" "it is still damaged"; else ok "a damaged pipeline cache is written again"; fi
    [ "$kept" -ge 100 ] || [ "$whole" = "$(cksum < "$file")" ] || bad "the cache of a driver that keeps nothing" "it changed"
else
    bad "a pipeline cache on disk" "there is no file in $GGML_VK_PIPELINE_CACHE_DIR"
fi
rm -rf "$GGML_VK_PIPELINE_CACHE_DIR"
pids=()
for i in 1 2 3; do
    "$out/test_vulkan" a_graph_is_computed > "$out/at-once-$i.txt" 2> "$out/at-once-$i.err" &
    pids+=($!)
done
all=0
for pid in "${pids[@]}"; do wait "$pid" || all=1; done
"$out/test_vulkan" a_graph_is_computed > /dev/null 2> "$out/at-once.err" || all=1
n=$(find "$GGML_VK_PIPELINE_CACHE_DIR" -type f | wc -l)
if [ "$all" = 0 ] && [ "$n" = 1 ] && ! grep -q 'is damaged' "$out"/at-once*.err; then
    ok "three processes at once share a pipeline cache"
else
    bad "three processes at once share a pipeline cache" "$n files, status $all: $(grep -h -m 1 -E 'damaged|FAIL' "$out"/at-once* | head -n 1)"
fi

# The table of times.
GGML_VK_PERF_LOGGER=1 "$out/test_vulkan" a_graph_is_computed > /dev/null 2> "$out/perf.err"
if grep -qE '^(SCALE|ADD|.*\+ ADD) f32 .*us.*GB/s' "$out/perf.err"; then ok "GGML_VK_PERF_LOGGER prints times per op"; else bad "GGML_VK_PERF_LOGGER prints times per op" "$(tail -n 2 "$out/perf.err")"; fi

# The same times in the trace.
rm -f "$out/trace.json"
GGML_TRACE=$out/trace.json "$out/test_vulkan" a_graph_is_computed > /dev/null 2>&1
python3 - "$out/trace.json" > "$out/trace.txt" 2>&1 <<'PY'
import json, sys
events = json.load(open(sys.argv[1]))
events = events["traceEvents"] if isinstance(events, dict) else events
nodes = [e for e in events if e.get("cat") == "node" and e.get("dur", 0) > 0 and ("SCALE" in e["name"] or "ADD" in e["name"])]
assert nodes, "no node of the device"
print(len(nodes), "nodes")
PY
if [ $? -eq 0 ]; then ok "the trace has the device's nodes: $(cat "$out/trace.txt")"; else bad "the trace has the device's nodes" "$(tail -n 1 "$out/trace.txt")"; fi

# No Vulkan, no failure: one line.
GGML_DISABLE_VULKAN=1 "$out/test_vulkan" none > /dev/null 2> "$out/none.err" && bad "GGML_DISABLE_VULKAN" "there is a device"
[ $? -ne 0 ] && ok "GGML_DISABLE_VULKAN takes the devices away"

# A driver with cooperative matrices, and validation layers that check running shaders, if this system has none.
mesa= newer=$cache/mesa-sid
if [ "$(uname -m)" = x86_64 ] && { [ -x "$newer/run" ] || [ -n "${GGML_TEST_VULKAN:-}" ]; }; then
    if ! python3 scripts/fetch_mesa.py "$newer" > "$out/mesa.log" 2>&1; then
        # No network is no fault of the library.
        echo "note: $(tail -n 1 "$out/mesa.log")"
        [ "$extent" != all ] || bad "a driver with cooperative matrices" "it could not be fetched"
    elif "$newer/run" "$out/test_vulkan" none > /dev/null 2> "$out/mesa.err" && grep -q '^ggml_vulkan: 0 = .*coopmat' "$out/mesa.err"; then
        mesa=y
        sed -n 's/^ggml_vulkan: 0 = /note: /p' "$out/mesa.err"
    else
        bad "a driver with cooperative matrices" "$(tail -n 1 "$out/mesa.err" | cut -c1-200)"
    fi
fi
[ -n "$mesa" ] || echo "note: cooperative matrices are not tested, nor shaders while they run (scripts/fetch_mesa.py $newer)"

# llama.cpp's own programs: its test of every op, models with layers on the device, every architecture.
if [ -x "$cache/tests/bin/test-backend-ops" ]; then
    sections="ops ${mesa:+matrices sanitize} models starts archs"
    [ "$extent" != all ] || sections="ops-all cards widths limits ${mesa:+matrices-all sanitize-all} models-all starts archs-all"
    log=$out/hosts.log
    # shellcheck disable=SC2086
    GGML_VK_VALIDATE=$validate CACHE_LAYER="$layer" MESA="$newer" python3 scripts/test_vulkan.py "$cache" "$prefix/lib" $sections 2>&1 | tee "$log"
    n=$(sed -n 's/^vulkan hosts: \([0-9]*\) passed.*/\1/p' "$log"); passed=$((passed + ${n:-0}))
    n=$(sed -n 's/^vulkan hosts: .* \([0-9]*\) failed.*/\1/p' "$log"); failed=$((failed + ${n:-1}))
else
    echo "note: no $cache/tests/bin/test-backend-ops (scripts/oracle.sh tests): ops and models were not tested"
    [ "$extent" != all ] || bad "llama.cpp's programs" "they are not built"
fi
finish
