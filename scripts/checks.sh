# For tests that are shell scripts; they source it first, with sh too. Changes to the top folder, `$root`. `$work` is a
# folder that is removed at the end, `$target` the folder where cargo builds, `$version` the library's version. The
# user's settings change neither what is installed nor what is found, and tests about devices hold on every machine.
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
CC=${CC:-cc}
target=${CARGO_TARGET_DIR:-$root/target}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
export GGML_DISABLE_VULKAN=1 GGML_NO_BACKTRACE=1 PYTHONDONTWRITEBYTECODE=1
unset DESTDIR STRIP LD_LIBRARY_PATH LD_PRELOAD GGML_MAX_NAME
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
trap 'exit 1' HUP INT TERM
work=$temporary

# Counts checks; what a failed one printed is shown.
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
says() { # TEXT COMMAND ...: the command works or not, its output has the text
    text=$1
    shift
    "$@" > "$work/said" 2>&1
    status=$?
    cat "$work/said"
    grep -qF -- "$text" "$work/said"
}
ends() { # STATUS TEXT COMMAND ...: likewise, and with this status
    wanted=$1
    shift
    says "$@" && [ "$status" = "$wanted" ] || { echo "error: status $status of ${*:2}"; return 1; }
}
listing() { # FOLDER: the sums of its files, and where its links lead
    (cd "$1" && find . -type f -exec sha256sum {} + -o -type l -printf '%p -> %l\n' | sort)
}
finish() { # SUITE: the last line, and the script's end
    echo "$1: $passed passed, $failed failed"
    [ "$failed" = 0 ]
    exit
}
