# Sourced by test_aarch64.sh and test_windows.sh, whose programs are for another system or processor: they start here
# like any others, and compute what those of this system compute. shellcheck shell=bash
skip() { echo "$suite: skipped: $*"; exit; }
missing() { # PACKAGES TOOL ...
    for tool in "${@:2}"; do command -v "$tool" > /dev/null || skip "$tool is missing: install the packages $1"; done
    [ -d "$(rustc --print sysroot)/lib/rustlib/$CARGO_TARGET" ] || skip "Rust has no library for it: rustup target add $CARGO_TARGET"
}
# Starts the script again where the kernel passes programs with this head to an emulator: binfmt_misc in a user
# namespace, since Linux 6.7, or as root for the whole system (`namespace`). Returns if that cannot be.
emulated() { # EMULATOR HEAD BITS-OF-IT FLAGS SCRIPT ARGUMENT ...
    local formats=/proc/sys/fs/binfmt_misc name=ggml-$suite
    local register="mount -t binfmt_misc none $formats && printf '%s' ':$name:M::$2:$3:$1:$4' > $formats/register"
    export EMULATED=1
    [ -n "${namespace:-}" ] || ! unshare -Urm sh -c "$register" 2> /dev/null || exec unshare -Urm bash -c "$register"' && exec "$@"' - "${@:5}"
    [ -z "${namespace:-}" ] || exec unshare -m bash -c "$register && trap 'echo -1 > $formats/$name' EXIT"' && "$@"' - "${@:5}"
}

# From here on, $ours and $x86 are the installations for both, $here and $CC the compilers, $system the other one by
# CMake's name, $rpc its module, and $out a folder.
by_cmake() {
    cmake -S c_tests/install -B "$out/cmake" -DCMAKE_SYSTEM_NAME=$system -DCMAKE_SYSTEM_PROCESSOR="${CARGO_TARGET%%-*}" -DCMAKE_PREFIX_PATH="$ours" \
        -DCMAKE_FIND_ROOT_PATH="$ours" -DWANTED="$version" && cmake --build "$out/cmake" && (cd "$out/cmake" && ctest --output-on-failure)
}
in_both() { # SOURCE: a program of c_tests for either
    local name=${1##*/} && name=${name%.*}
    $here -std=c11 -D_GNU_SOURCE -O1 -Iinclude "c_tests/$1" -o "$x86.$name" "-L$x86/lib" "-Wl,-rpath,$x86/lib" -lggml -lggml-base -lm &&
        $CC -std=c11 -D_GNU_SOURCE -O1 -Iinclude "c_tests/$1" -o "$ours.$name" "-L$ours/lib" $linked -lggml -lggml-base -lm && { [ -e "$ours.$name" ] || mv "$ours.$name$exe" "$ours.$name"; }
}
cosines() { # PROCESSOR: the least one of MiniLM's vectors
    local model=$GGML_CACHE/models/minilm-f32.gguf
    [ -e "$model" ] || { mkdir -p "${model%/*}" && python3 scripts/fetch_minilm.py "$GGML_CACHE/src/minilm" "$model"; } || return 1
    "$x86.embed" --raw -t 2 "$model" > "$x86.vectors" && QEMU_CPU=$1 "$ours.embed" --raw -t 2 "$model" > "$ours.vectors" || return 1
    paste -d' ' "$x86.vectors" <(tr -d '\r' < "$ours.vectors") | awk '
        { n = NF / 2; d = a = b = 0; for (i = 1; i <= n; i++) { d += $i * $(i + n); a += $i * $i; b += $(i + n) * $(i + n) }
          c = d / sqrt(a * b); if (NR == 1 || c < least) least = c }
        END { printf "least cosine of %d: %.9f\n", NR, least; exit !(NR > 5 && least >= 0.9999999) }'
}
served() { # PREFIX COMMAND ...: with a server of that installation; the endpoint is the last argument
    local port=$((20000 + $$ % 20000)) server status
    "$1"/bin/ggml-rpc-server* -H 127.0.0.1 -p $port -d CPU -t 2 > "$out/server.log" 2>&1 &
    server=$!
    timeout 30 bash -c "until exec 3<> /dev/tcp/127.0.0.1/$port; do sleep 0.2; done" 2> /dev/null
    "${@:2}" "127.0.0.1:$port"
    status=$?
    kill $server
    wait $server
    return $status
}
section_x86() {
    check "hosts for both" eval "in_both examples/embed.c && in_both foreign/test_foreign.c"
    for processor in $processors; do check "MiniLM, as $processor" cosines "$processor"; grep cosine "$work/log"; done
    check "RPC: a client for it" served "$x86" timeout 300 "$ours.test_foreign" "$rpc" 1e-4
    check "RPC: a server for it" served "$ours" timeout 300 "$x86.test_foreign" "$x86/lib/libggml-rpc.so" 1e-4
}
prompt="People die when they are killed. The cat sits outside, and the dog plays in the garden."
results() { # PROCESSOR FORMAT ARGUMENT ...: llama-results of a random llama; as x86: not emulated
    local bin=$GGML_CACHE/$CARGO_TARGET/hosts/bin lib=$ours/lib end=$exe
    [ "$1" != x86 ] || bin=$GGML_CACHE/hosts/bin lib=$x86/lib end=
    QEMU_CPU=$1 LD_LIBRARY_PATH=$lib:$bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 1200 "$bin/llama-results$end" -m "$GGML_CACHE/models/llama-$2.gguf" -o "$out/logits-$2.gguf" \
        -p "$prompt" -t 2 "${@:3}"
}
# Logits that x86-64 wrote, compared by each of these processors, alone and over RPC.
section_llama() {
    check "llama.cpp's tools" scripts/oracle.sh hosts
    for format in f32 f16 Q8_0-original Q4_0-original Q4_K-original; do
        check "llama-results, $format on x86-64" results x86 "$format"
        for processor in $processors; do check "llama-results --check, $format as $processor" says OK results "$processor" "$format" --check; grep NMSE "$work/said"; done
        check "llama-results --check, $format: a client for it" says OK served "$x86" results max "$format" --check -ngl 99 --rpc
        check "llama-results --check, $format: a server for it" says OK served "$ours" results x86 "$format" --check -ngl 99 --rpc
    done
}
