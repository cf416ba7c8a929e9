# Sourced by build.sh, forward.sh, install.sh and oracle.sh: which build it is, by CARGO_TARGET, CARGO_TARGET_DIR and
# GGML_MAX_NAME, and how its files are named. shellcheck shell=sh
cross=${CARGO_TARGET:-}
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$root/$target ;; esac
[ "${GGML_MAX_NAME:-64}" = 64 ] || target=$target/max-name-$GGML_MAX_NAME
release=$target/${cross:+$cross/}release
# The beginning of the names of compiler and tools.
tools=${cross:+$(echo "$cross" | sed 's/-unknown-/-/; s/-pc-windows-gnu$/-w64-mingw32/')-}
front=lib end=so exe=
case ${cross:-$(uname)} in
    *-darwin | Darwin) end=dylib ;;
    *-windows-gnu) front= end=dll exe=.exe ;;
esac
built=$release/small/built library=$release/${front}ggml.$end
