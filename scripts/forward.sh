#!/bin/sh
# Makes the small files that are beside libggml-base as the original's do: forward.sh LIBRARY FOLDER
#
# libggml.so, libggml-cpu.so, libggml-rpc.so and, if LIBRARY has the backend, libggml-vulkan.so (.dylib if LIBRARY is
# one): each defines the functions that src/capi/forward.rs lists for it, and every one of them is a jump through a
# table of LIBRARY. On processors without such a jump here, the files have no functions: the dynamic linker finds them
# all in libggml-base, which each file needs. On Windows the files (ggml.dll, ggml-cpu.dll) have no code: the system
# itself passes each of their names on to ggml-base.dll. The static libraries of these names are empty, because
# libggml-base.a has everything.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/target.sh"
library=${1:?usage: forward.sh LIBRARY FOLDER}
out=${2:?usage: forward.sh LIBRARY FOLDER}
CC=${CC:-cc}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
major=${version%%.*}
# In the names of libraries for tensors' names of another size: -128
variant=$(LC_ALL=C tr '\0' '\n' < "$library" | LC_ALL=C sed -n 's/^.*libggml-rs build: .* max_name=\([0-9]*\);$/-\1/p')
[ "$variant" != -64 ] || variant=
command -v "${CC%% *}" > /dev/null || { echo "${CC%% *} is missing: install the package gcc" >&2; exit 1; }

functions() { # ggml | cpu | rpc | vulkan: its table in LIBRARY, and each place in it with its function
    awk -v table="^ggml_rs_forward_$1_[0-9a-f]+\$" '
        $1 ~ table && $3 == "{" { name = $1; next }
        name && $1 == "}" { exit }
        name { print name, 8 * n++, $1 }
        END { exit !n }' "$root/src/capi/forward.rs"
}

# A library that finds libggml-base beside itself, so that a host may load it by its path. If LIBRARY lacks a table,
# linking fails.
case $end in
    dylib)
        shared() { # NAME
            $CC -dynamiclib -o "$1.dylib" forward.S "$library" -Wl,-install_name,"@rpath/$1$variant.$major.dylib" \
                -Wl,-compatibility_version,"$major.0.0" -Wl,-current_version,"$version" -Wl,-rpath,@loader_path
        } ;;
    dll)
        rustc=${RUSTC:-rustc}
        lld=$($rustc --print sysroot)/lib/rustlib/$($rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
        listed() { # NAME [SCRIPT]: a list of exports; the script makes a line of each
            printf 'LIBRARY "%s%s.dll"\nEXPORTS\n' "$1" "$variant"
            sed -n "${2:-s/^/    /p}"
        }
        # The import library for Visual C++'s linker.
        import() { listed "$1" > import.def && "$lld" -flavor link /lib /machine:x64 /def:import.def "/out:$out/$1.lib"; }
        shared() { # NAME
            sed -n 's/.* \([a-z].*\)/\1/p' functions > names
            listed "$1" "s/.*/    & = \"ggml-base$variant\".&/p" < names > forward.def
            import "$1" < names
            $CC -shared -nostdlib -Wl,--entry=0,--no-insert-timestamp -o "$1.dll" forward.def "-Wl,--out-implib,lib$1.dll.a"
            mv "lib$1.dll.a" "$out/"
        } ;;
    *)
        number=.$major pages=
        case $cross in *-android*) number= pages=-Wl,-z,max-page-size=16384 ;; esac
        shared() {
            $CC -shared -fPIC -nostdlib -o "$1.so" forward.S -Wl,--no-as-needed "$library" -Wl,-soname,"$1$variant.so$number" \
                -Wl,-z,defs -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now $pages -Wl,--enable-new-dtags "-Wl,-rpath,\$ORIGIN"
        } ;;
esac

mkdir -p "$out"
# Made in a folder beside the files and renamed, so that programs that read them meanwhile always find whole files.
work=$(mktemp -d "$out/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
if [ "$end" = dll ]; then
    (cd "$work" && ${tools}objdump -p "$library" | sed -n 's/^\t\[ *[0-9]*\] \([a-z].*\)$/\1/p' | grep -v ^ggml_rs_forward_ | import ggml-base)
fi
for part in ggml cpu rpc vulkan; do
    name=${front}ggml-$part
    [ $part = ggml ] && name=${front}ggml
    if [ $part = vulkan ] && ! grep -q ggml_rs_forward_vulkan_ "$library"; then
        rm -f "$out/$name.$end" "$out/$name.a" # built without the backend
        continue
    fi
    functions $part > "$work/functions" || { echo "forward: src/capi/forward.rs has no table for $name" >&2; exit 1; }
    { cat "$root/tools/forward.S" && sed 's/\(.*\) \(.*\) \(.*\)/    FORWARD(\1, \2, \3)/' "$work/functions"; } > "$work/forward.S"
    (cd "$work" && shared "$name")
    mv "$work/$name.$end" "$out/$name.$end"
    name=lib${name#lib}
    printf '!<arch>\n' > "$work/$name.a"
    mv "$work/$name.a" "$out/$name.a"
done
