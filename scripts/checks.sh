# For tests that are shell scripts; sourced, by sh too. Counts checks, and shows the output of those that fail. Needs a
# folder in $work.
passed=0 failed=0
check() { # WHAT COMMAND ...
    checked=$1
    shift
    mkdir -p "$work"
    if "$@" > "$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $checked"
        { grep -E -A 6 '(^|: )error|^FAIL' "$work/log" | head -n 30; tail -n 15 "$work/log"; } | cut -c 1-300
    fi
}
finish() { # SUITE: the last line, and the script's end
    echo "$1: $passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
}
