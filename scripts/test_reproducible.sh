#!/bin/sh
# Two builds of one commit give the same bytes, wherever they are made: test_reproducible.sh
#
# Builds HEAD twice, in folders of other names and depths, with other home folders, users' settings and numbers of jobs,
# and compares all files that make install installs. On demand: two release builds, some minutes and 2 GB below TMPDIR.
# With KEEP=1 the folders stay.
set -u
. "$(dirname "$0")/checks.sh"
trap '[ -n "${KEEP:-}" ] && echo "kept $work" || rm -rf "$work"' EXIT
registry=${CARGO_HOME:-$HOME/.cargo}
one=$work/a
two="$work/other place/of/ours"
# build FOLDER HOME [VARIABLE=VALUE ...]
build() {
    folder=$1 home=$2
    shift 2
    mkdir -p "$folder" "$home/.cargo" && git -C "$root" archive HEAD | tar -x -C "$folder" || return 1
    # Both use the crates that cargo has fetched, under different paths.
    for name in registry git; do
        [ ! -d "$registry/$name" ] || ln -sfn "$registry/$name" "$home/.cargo/$name"
    done
    (unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR GGML_MAX_NAME DESTDIR STRIP
        cd "$folder" && env CARGO_HOME="$home/.cargo" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" HOME="$home" "$@" make all &&
            DESTDIR="$folder/stage" make install PREFIX=/usr)
}
echo "building HEAD ($(git -C "$root" rev-parse --short HEAD)) twice ..."
check "the first build" build "$one" "$work/home" TZ=UTC LC_ALL=C CARGO_BUILD_JOBS=2
check "the second build" build "$two" "$work/home of/another" TZ=Asia/Tokyo CARGO_BUILD_JOBS=1
check "all that is installed has the same bytes" diff -r "$one/stage" "$two/stage"
# No installed file contains a folder of this machine.
unseen() { [ -d "$one/stage" ] && ! grep -rlF -e "$work" -e "$registry" -e "$HOME/" "$one/stage"; }
check "no folder of this machine shows" unseen
finish reproducible
