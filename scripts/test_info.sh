#!/bin/sh
# ggml-info: test_info.sh PREFIX. Checks its output about a library, about programs in every way in which the dynamic
# loader finds a library (compared with the loader's own output), about damaged files, and about reports; and swaps it
# into a program. With GGML_ORACLE_PREFIX also the original's library, and with GGML_CACHE llama.cpp's programs.
set -u
. "$(dirname "$0")/checks.sh"
prefix=${1:?usage: test_info.sh PREFIX}
case $prefix in /*) ;; *) prefix=$root/$prefix ;; esac
info=$prefix/bin/ggml-info
oracle=${GGML_ORACLE_PREFIX:-}
cache=${GGML_CACHE:-$root/target/cache}
json() { # FILE EXPRESSION: of the variable d
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(0 if eval(sys.argv[2]) else "false: " + sys.argv[2])' "$@"
}

# Its output about its library.
check "the library beside it" ends 0 "libggml-rs $version" "$info"
check "the processor" ends 0 "products of matrices" "$info"
check "its formats, in columns" ends 0 "  Q4_0          32     18  Q8_0" "$info"
check "a level that is asked for" ends 0 "level            scalar" env GGML_RS_CPU_LEVEL=scalar "$info"
check "variables that are set" ends 0 "GGML_RS_DEBUG=planner=online" env GGML_RS_DEBUG=planner=online "$info"
check "names that are nearly right" ends 0 "GGML_SCHED_REPROT: unknown; GGML_SCHED_REPORT is similar" env GGML_SCHED_REPROT=x "$info"
check "and the library warns" ends 0 "GGML_SCHED_REPROT: there is no variable of this name" env GGML_SCHED_REPROT=x "$info"
check "variables of the original alone" ends 0 "GGML_VK_FORCE_MMVQ has no effect in this library" env GGML_VK_FORCE_MMVQ=1 "$info"
"$info" --json > "$work/info.json" 2> "$work/err"
check "JSON" json "$work/info.json" 'd["library"]["is_libggml_rs"] and d["devices"][-1]["kind"] == "CPU" and d["devices"][-1]["total_bytes"] > 1 << 20'
check "formats" json "$work/info.json" '{f["name"]: f["block_bytes"] for f in d["description"]["cpu"]["formats"]}["Q4_0"] == 18'
check "the library's file" json "$work/info.json" "d['library']['file'] == '$prefix/lib/libggml-base.so.$version'"
[ -z "$oracle" ] || check "an original library" ends 0 "not libggml-rs" env LD_LIBRARY_PATH="$oracle/lib" "$info" --library "$oracle/lib/libggml.so.0"
check "a library that is none" ends 2 "no ggml library can be loaded" "$info" --library "$info"
check "no such library" ends 2 "no such file" "$info" --library "$work/none"

# Programs, compared with what the loader itself would load.
host() { # NAME PREFIX FLAGS ...
    name=$1 of=$2
    shift 2
    $CC -I"$root/include" "$root/c_tests/install/host.c" -o "$work/$name" -L"$of/lib" -lggml -lggml-base "$@"
}
same_as_loader() { # PROGRAM: every libggml that the loader names is the one in JSON
    LD_TRACE_LOADED_OBJECTS=1 "$1" | sed -n 's/^[[:space:]]*\(libggml[^ ]*\) => \(.*\) (0x.*$/\1 \2/p; s/^[[:space:]]*\(libggml[^ ]*\) => not found.*$/\1 -/p' | LC_ALL=C sort > "$work/loader"
    "$info" --check "$1" --json > "$work/check.json"
    json "$work/check.json" 'print(*sorted("%s %s" % (l["name"], l["file"] or "-") for l in d["libraries"]), sep="\n") or True' > "$work/ours"
    cat "$work/loader"
    test -s "$work/loader" && diff "$work/loader" "$work/ours"
}
mkdir "$work/lib" "$work/some"
with_path() { (export LD_LIBRARY_PATH="$1" && same_as_loader "$2"); }
check "a host with a runpath" host runpath "$prefix" -Wl,--enable-new-dtags -Wl,-rpath,"$prefix/lib"
check "a host with an rpath" host rpath "$prefix" -Wl,--disable-new-dtags -Wl,-rpath,"$prefix/lib"
for way in runpath rpath; do
    check "by $way" ends 0 "($way)" "$info" --check "$work/$way"
    check "by $way, as the loader" same_as_loader "$work/$way"
done
check "is ok" ends 0 "ok: all" "$info" --check "$work/runpath"
check "a host without either" host plain "$prefix"
check "by LD_LIBRARY_PATH" ends 0 "(LD_LIBRARY_PATH)" env LD_LIBRARY_PATH="$prefix/lib" "$info" --check "$work/plain"
check "as the loader with LD_LIBRARY_PATH" with_path "$prefix/lib" "$work/plain"
cp -P "$prefix"/lib/libggml*.so* "$work/lib"
check "LD_LIBRARY_PATH comes before a runpath" with_path "$work/lib" "$work/runpath"
check "and after an rpath" with_path "$work/lib" "$work/rpath"
check "\$ORIGIN" host origin "$prefix" '-Wl,-rpath,$ORIGIN/lib'
check "as the loader with \$ORIGIN" same_as_loader "$work/origin"

# Faults of programs.
echo 'int ggml_none(void) { return 1; }' > "$work/more.c"
printf 'int ggml_none(void);\nint main(void) { return ggml_none(); }\n' > "$work/none.c"
check "a library of another name" $CC -shared -fPIC -Wl,-soname,libggml-nowhere.so.7 "$work/more.c" -o "$work/some/libggml-nowhere.so"
check "a host that needs it" $CC "$work/none.c" -o "$work/alone" -L"$work/some" -lggml-nowhere
check "which is not found" ends 1 "needs libggml" "$info" --check "$work/alone"
check "nor by the loader" same_as_loader "$work/alone"
mkdir "$work/newer"
check "a library with one more function" $CC -shared -fPIC -Wl,-soname,libggml.so.0 "$work/more.c" -o "$work/newer/libggml.so"
check "a host of that function" $CC "$work/none.c" -o "$work/lacks" -L"$work/newer" -lggml -Wl,-rpath,"$prefix/lib"
check "is told which" ends 1 "missing: ggml_none (needed by $work/lacks)" "$info" --check "$work/lacks"
if [ -n "$oracle" ]; then
    cp -P "$prefix"/lib/libggml-base.so* "$prefix"/lib/libggml.so* "$work/some"
    cp -P "$oracle"/lib/libggml-cpu.so* "$work/some"
    check "a host of three parts" host three "$prefix" -Wl,--no-as-needed -lggml-cpu
    check "parts of two libraries" ends 1 "is a part of another ggml" env LD_LIBRARY_PATH="$work/some" "$info" --check "$work/three"
    check "the original's parts fit together" ends 0 "not libggml-rs" env LD_LIBRARY_PATH="$oracle/lib" "$info" --check "$work/three"
fi
echo "no program" > "$work/text"
head -c 3000 "$work/plain" > "$work/cut"
check "a file that is no ELF" ends 2 "not an ELF file" "$info" --check "$work/text"
check "a script" ends 2 "a script" "$info" --check scripts/test_info.sh
check "a cut ELF file" ends 2 "damaged ELF file" "$info" --check "$work/cut"
head -c 10 "$work/plain" > "$work/stump"
check "ten bytes" ends 2 "not an ELF file" "$info" --check "$work/stump"
check "a folder" ends 2 "not a file" "$info" --check "$work"
check "nothing" ends 2 "No such file" "$info" --check "$work/nothing"
check "a program without ggml" ends 0 "neither this file" "$info" --check /bin/sh
built() { printf '%s\n' "$2" | $CC -x c -shared -fPIC - -o "$work/some/$1"; } # NAME CODE: a library
check "a reader of GGUF files that is not ggml" built own.so 'int gguf_decode(void) { return 1; } int dequantize_row_x(void) { return 1; }'
check "has no ggml inside" ends 0 "it needs no library at all" "$info" --check "$work/some/own.so"
check "a library whose name begins as those of ggml" built libggml_more.so 'int ggml_init(void) { return 1; }'
check "with ggml inside" ends 0 "ggml is inside this file" "$info" --check "$work/some/libggml_more.so"
check "the same without names of functions" built bare.so 'static const char text[] = "GGML_ASSERT: %s"; const char *f(void) { return text; }'
check "probably" ends 0 "probably inside" "$info" --check "$work/some/bare.so"
check "a file of ggml" ends 0 "a file of ggml itself" "$info" --check "$prefix/lib/libggml-base.so"
{ head -c 18 "$work/runpath"; printf '\267'; tail -c +20 "$work/runpath"; } > "$work/arm"
check "another processor" ends 1 "is for another processor: 64-bit ARM" "$info" --check "$work/arm"
mkdir "$work/some/old"
check "a ggml without a version" built old/libggml-base.so 'int ggml_init(void) { return 1; }'
check "a host of it" $CC -Dggml_none=ggml_init "$work/none.c" -o "$work/old" -L"$work/some/old" -lggml-base -Wl,-rpath,"$work/some/old"
check "is for one before the promise" ends 0 "a ggml before 0.9.5" "$info" --check "$work/old"
check "a library" built libuser.so 'int user(void) { return 1; }'
check "that is not found" $CC -Dggml_none=user "$work/none.c" -o "$work/lost" -L"$work/some" -luser
check "may use a ggml" ends 1 "that were not found may" "$info" --check "$work/lost"
for program in "$cache"/hosts/bin/llama-completion "$cache"/hosts/bin/libllama.so; do
    [ -e "$program" ] || continue
    check "$(basename "$program") with this library" ends 0 "$prefix/lib/libggml-base.so" env LD_LIBRARY_PATH="$prefix/lib:${program%/*}" "$info" --check "$program"
    [ -z "$oracle" ] || check "$(basename "$program") with the original" ends 0 "$oracle/lib/libggml-base.so" env LD_LIBRARY_PATH="$oracle/lib:${program%/*}" "$info" --check "$program"
    [ "${program%.so}" != "$program" ] || check "$(basename "$program") as the loader" with_path "$prefix/lib:${program%/*}" "$program"
done

# Swaps: a host of a ggml 0.20.0 with names of its own, a module, and a folder that must be as before in the end.
app=$work/app
mkdir "$app"
cat > "$work/other.c" << 'END'
#include <stddef.h>
const char *ggml_version(void) { return "0.20.0"; }
size_t ggml_tensor_overhead(void) { return OVERHEAD; }
size_t ggml_backend_dev_count(void) { return 0; }
OWN
END
cat > "$work/host.c" << 'END'
#include "ggml.h"
#include "ggml-backend.h"
#include <stdio.h>
int main(void) { printf("%s %zu\n", ggml_version(), ggml_backend_dev_count()); return 0; }
END
other() { # NAME FLAGS ...
    name=$1
    shift
    $CC -O1 -shared -fPIC "-Wl,-soname,$name" "$work/other.c" -o "$app/$name" "$@"
}
swapped_host() { # OVERHEAD OWN: the host calls what OWN defines
    rm -rf "$app" && mkdir "$app" && cp "$work/host.c" "$app/main.c"
    own=${2#int } && own=${own%%(*}
    [ -z "$own" ] || sed -i "s/int main(void) {/int $own(void); int main(void) { $own();/" "$app/main.c"
    for name in libggml-base.so libggml.v1.so libggml-cpu-haswell.so; do other $name "-DOVERHEAD=$1" "-DOWN=$2" || return 1; done
    $CC -I"$root/include" "$app/main.c" -o "$app/main" -Wl,--no-as-needed "$app/libggml.v1.so" "$app/libggml-base.so" '-Wl,-rpath,$ORIGIN' && rm "$app/main.c"
}
as_before() { listing "$app" | diff "$work/before" -; }
check "a host of another ggml" swapped_host 368 ""
listing "$app" > "$work/before"
check "runs on its own" ends 0 "0.20.0 0" "$app/main"
check "a swap is only planned" ends 0 "would be swapped" "$info" --swap "$app" --dry-run
check "and has changed nothing" as_before
check "its version" ends 0 "0.20.0; it calls functions" "$info" --check "$app/main"
check "a swap" ends 0 "set aside   libggml-cpu-haswell.so" "$info" --swap "$app"
check "it runs on this library" ends 0 "0.28.0 " "$app/main"
check "which version it was built for" ends 0 "0.20.0; it calls functions" "$info" --check "$app/main"
check "and by a library of its ggml" ends 0 "0.20.0; it calls functions" "$info" --check "$app/libggml.v1.so"
check "a swap again" ends 0 "swapped already" "$info" --swap "$app/main"
check "back" ends 0 "taken back" "$info" --unswap "$app/main"
check "as it was" as_before
check "back again" ends 2 "nothing here was swapped" "$info" --unswap "$app"
check "tensors of another size" swapped_host 432 ""
check "are told" ends 0 "names of tensors have 128 bytes" "$info" --check "$app/main"
[ -d "$prefix/lib/ggml-128" ] || check "are refused" ends 1 "GGML_MAX_NAME=128" "$info" --swap "$app" --force
check "a fork" swapped_host 368 "int ggml_own(void) { return 1; }"
check "is told" ends 0 "functions of its own: ggml_own" "$info" --check "$app/main"
check "a function that is not of ggml" swapped_host 368 "int helper(void) { return 1; }"
check "is told, too" ends 0 "takes from its ggml what libggml-rs does not have: helper" "$info" --check "$app/main"
check "a fork again" swapped_host 368 "int ggml_own(void) { return 1; }"
check "is refused" ends 1 "functions of its own: ggml_own" "$info" --swap "$app"
check "a device" swapped_host 368 ""
check "that would be lost" cp "$app/libggml.v1.so" "$app/libggml-cuda.so"
check "is left alone" ends 1 "left alone" "$info" --swap "$app"
check "a program with ggml inside" $CC -I"$root/include" -DOVERHEAD=368 "-DOWN=int ggml_init(void) { return 1; }" "$work/host.c" "$work/other.c" -o "$work/static"
check "is refused, too" ends 2 "no other library can take its place" "$info" --swap "$work/static"
check "no installation" ends 2 "no libggml-rs" "$info" --swap "$app" --from "$app"

# Reports.
cat > "$work/a.json" << END
{"library": "test", "backends": [{"name": "GPU", "nodes": 1, "compute_bytes": 64}, {"name": "CPU", "nodes": 1, "compute_bytes": 32}],
 "splits": [{"backend": 0, "first": 0, "nodes": 1, "copies": []}], "fallbacks": [], "memory": [],
 "nodes": [{"name": "x", "op": "MUL", "shape": "f32[4]", "backend": 0, "cause": "1.wgt", "view": false}]}
END
sed 's/"backend": 0/"backend": 1/' "$work/a.json" > "$work/b.json"
check "the same report" ends 0 "no difference" "$info" --diff "$work/a.json" "$work/a.json"
check "a node on another backend" ends 1 "MUL x: GPU | CPU" "$info" --diff "$work/a.json" "$work/b.json"
page() { "$info" --diff "$work/a.json" "$work/b.json" --html "$work/diff.html"; [ $? = 1 ] && grep -q '"moved":\[\[' "$work/diff.html"; }
check "the difference as a page" page
check "no report" ends 2 "not a placement report" "$info" --diff "$work/info.json" "$work/b.json"
check "no JSON" ends 2 "not JSON" "$info" --diff "$work/text" "$work/b.json"

check "peaks" ends 0 "read, all threads" "$info" --peaks 8
check "an unknown option" ends 2 "--help lists the options" "$info" --no-such
check "an option without its value" ends 2 "needs a value" "$info" --check
check "the text of --help" ends 0 "usage: ggml-info" "$info" --help
finish info
