//! Suite `install`: programs that are linked to the installed library, that load it, and that find it through the
//! system's cache, beside other copies of ggml, too. A program that is linked to the original and one that is linked to
//! this library need the same files. `scripts/test_install.sh` has the other parts of the suite.
//!
//! With GGML_ORACLE_PREFIX, an installation of the original, hosts are linked to that. Without it, they are linked to
//! replacements with the same names and functions (`c_tests/abi/files.txt`). It needs the release build.

mod place;

use place::{ROOT, VERSION, cc, ends, folder, program, said, shell};
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Every order in which a program may name the libraries that it is linked to.
#[rustfmt::skip]
const ORDERS: [&str; 15] = [
    "ggml", "base", "cpu", "ggml,base", "base,ggml", "ggml,cpu", "cpu,ggml", "base,cpu", "cpu,base", "ggml,cpu,base",
    "cpu,ggml,base", "base,ggml,cpu", "base,cpu,ggml", "ggml,base,cpu", "cpu,base,ggml",
];

/// Where everything is.
static WORK: LazyLock<PathBuf> = LazyLock::new(|| {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("install");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).unwrap();
    work
});

fn work(name: &str) -> PathBuf {
    WORK.join(name)
}

/// Where cargo has built the library.
static BUILT: LazyLock<String> = LazyLock::new(|| {
    let target = env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| format!("{ROOT}/target"));
    format!("{target}/release/libggml.so")
});

fn install(prefix: &Path, more: &[(&str, &str)]) -> Command {
    let mut command = program(format!("{ROOT}/scripts/install.sh"), &WORK, "");
    command.arg(prefix).envs(more.iter().copied());
    command
}

/// Installs below `work(name)`: the folder.
fn installed(name: &str, more: &[(&str, &str)]) -> String {
    ends(0, "installed", &mut install(&work(name), more));
    work(name).to_str().unwrap().to_owned()
}

static PREFIX: LazyLock<String> = LazyLock::new(|| installed("some where", &[]));
static LIB: LazyLock<String> = LazyLock::new(|| format!("{}/lib", *PREFIX));
/// Without debug information, static libraries link sooner. No space is in its name.
static STRIPPED: LazyLock<String> = LazyLock::new(|| installed("stripped", &[("STRIP", "1")]));

/// The names of the libraries.
fn libraries() -> Vec<&'static str> {
    let all = ["libggml-base", "libggml", "libggml-cpu", "libggml-rpc", "libggml-vulkan"];
    all.into_iter().filter(|name| Path::new(&format!("{}/{name}.so", *LIB)).exists()).collect()
}

fn has_vulkan() -> bool {
    libraries().contains(&"libggml-vulkan")
}

/// Makes libraries with the original's names. Every function returns 7, and the version identifies them.
fn stand_ins(name: &str, version: &str) -> String {
    let folder = work(name);
    fs::create_dir_all(&folder).unwrap();
    let files = fs::read_to_string(format!("{ROOT}/c_tests/abi/files.txt")).unwrap();
    for part in ["libggml-base", "libggml-cpu", "libggml", "libggml-rpc", "libggml-vulkan"] {
        let (code, needs) = if part == "libggml-base" {
            (format!("const char *ggml_version(void) {{ return \"stand-in {version}\"; }}\n"), "")
        } else {
            let section = files.split_once(&format!("[{part}]")).unwrap().1;
            let names = section.lines().skip(1).take_while(|l| !l.starts_with('[')).filter(|l| !l.is_empty());
            (names.map(|name| format!("int {name}(void) {{ return 7; }}\n")).collect(), "libggml-base.so")
        };
        fs::write(folder.join("code.c"), code).unwrap();
        let flags = format!("code.c -Wl,--no-as-needed {needs} -Wl,-soname,{part}.so.0");
        cc(&folder, &format!("-w -shared -fPIC -o {part}.so.{version} {flags}"));
        let _ = symlink(format!("{part}.so.{version}"), folder.join(format!("{part}.so.0")));
        let _ = symlink(format!("{part}.so.0"), folder.join(format!("{part}.so")));
    }
    folder.to_str().unwrap().to_owned()
}

static OLDER: LazyLock<String> = LazyLock::new(|| stand_ins("other", "0.0.1"));
/// The libraries of the original, or their replacements.
static OTHER: LazyLock<String> =
    LazyLock::new(|| folder("GGML_ORACLE_PREFIX").map_or_else(|| OLDER.clone(), |prefix| format!("{prefix}/lib")));

/// Flags for a program that calls functions of the libraries of an order, and names them in this order.
fn flags_of(order: &str) -> String {
    order
        .split(',')
        .map(|part| match part {
            "ggml" => "-DUSE_GGML -lggml ".to_owned(),
            _ => format!("-DUSE_{} -lggml-{part} ", part.to_uppercase()),
        })
        .collect()
}

/// Compiles a host of c_tests/install with the libraries of a folder.
#[track_caller]
fn linked(from: &str, source: &str, output: &str, flags: &str) {
    fs::create_dir_all(work("bin")).unwrap();
    cc(
        &WORK,
        &format!(
            "-std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror {ROOT}/c_tests/install/{source}.c -o bin/{output} -I'{}/include' \
             -L'{from}' -Wl,-rpath-link,'{from}' -Wl,--unresolved-symbols=ignore-in-shared-libs {flags} -ldl",
            *PREFIX
        ),
    );
}

/// A host that is linked to some libraries of the original: its path below `WORK`.
fn host(order: &str) -> String {
    let output = format!("other-{order}");
    linked(&OTHER, "linked", &output, &format!("-Wl,--no-as-needed {}", flags_of(order)));
    format!("bin/{output}")
}

static LOADER: LazyLock<()> = LazyLock::new(|| linked(&OTHER, "loaded", "loaded", ""));

/// The files of ggml that a program or library needs.
fn needed(file: &str) -> Vec<String> {
    let (text, _) = said(program("/usr/bin/env", &WORK, "").args(["readelf", "-d", file]));
    let names = text.lines().filter(|l| l.contains("NEEDED")).filter_map(|l| l.split_once('[')?.1.strip_suffix(']'));
    names.filter(|name| name.starts_with("libggml")).map(str::to_owned).collect()
}

/// A host that is linked to the original and one that is linked to this library need the same files, and run with
/// either.
#[track_caller]
fn swap(name: &str, flags: &str) {
    let [theirs, ours] = ["other", "ours"].map(|side| format!("{side}-{name}"));
    linked(&OTHER, "linked", &theirs, flags);
    linked(&LIB, "linked", &ours, flags);
    let [theirs, ours] = [theirs, ours].map(|name| format!("bin/{name}"));
    let files = needed(&theirs);
    assert!(!files.is_empty() && files == needed(&ours), "{flags}: {files:?}, and by ours {:?}", needed(&ours));
    ends(0, "", &mut program(&theirs, &WORK, &LIB));
    ends(0, "", &mut program(&ours, &WORK, &LIB));
    ends(0, "", &mut program(&ours, &WORK, &OTHER));
}

#[test]
fn hosts_that_name_the_libraries_in_any_order() {
    for order in ORDERS {
        swap(&format!("swapped-{order}"), &format!("-Wl,--no-as-needed {}", flags_of(order)));
    }
}

/// A program needs the files in which the linker found something. libggml-base comes last, as in every build that
/// orders libraries by their dependencies. If it comes first, it has everything here, and the others are not needed.
#[test]
fn hosts_that_name_more_than_they_need() {
    let uses = ["GGML", "BASE", "CPU", "GGML BASE", "BASE CPU", "GGML CPU", "GGML BASE CPU"];
    for of in uses {
        let used: String = of.split(' ').map(|part| format!("-DUSE_{part} ")).collect();
        swap("as-needed", &format!("{used} -Wl,--as-needed -lggml -lggml-cpu -lggml-base"));
        swap("as-needed", &format!("{used} -Wl,--as-needed -lggml-cpu -lggml -lggml-base"));
    }
    if has_vulkan() && folder("GGML_ORACLE_PREFIX").is_none() {
        let all = "-lggml -lggml-vulkan -lggml-cpu -lggml-base";
        swap("as-needed", &format!("-DUSE_GGML -DUSE_BASE -DUSE_VULKAN -Wl,--as-needed {all}"));
    }
}

/// What libraries in C++ take from libggml where the C++ library lacks it.
#[test]
fn an_exception_in_a_function_that_is_noexcept() {
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".into());
    let source = format!("{ROOT}/c_tests/install/terminate.cpp");
    let flags = format!("-o terminate -Wl,--no-as-needed -L'{}' -lggml -lggml-base", *LIB);
    ends(0, "", &mut shell(&WORK, &format!("{compiler} -Wall -Wextra -Werror {source} {flags}")));
    ends(7, "", &mut program("terminate", &WORK, &LIB));
}

/// There are files without functions, which libggml-base makes up for.
#[test]
fn a_processor_for_which_there_are_no_jumps() {
    let folder = work("elsewhere");
    let mut forward = program(format!("{ROOT}/scripts/forward.sh"), &WORK, "");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    forward.env("CC", format!("{compiler} -U__x86_64__ -U__aarch64__"));
    ends(0, "", forward.arg(format!("{}/libggml-base.so", *LIB)).arg(&folder));
    symlink(format!("{}/libggml-base.so", *LIB), folder.join("libggml-base.so")).unwrap();
    for name in ["libggml", "libggml-cpu", "libggml-base"] {
        symlink(format!("{name}.so"), folder.join(format!("{name}.so.0"))).unwrap();
    }
    let (from, order) = (folder.to_str().unwrap(), "ggml,cpu,base");
    linked(from, "linked", "elsewhere", &format!("-Wl,--no-as-needed {}", flags_of(order)));
    ends(0, "", &mut program("bin/elsewhere", &WORK, from));
    linked(&OTHER, "linked", "elsewhere-other", &format!("-Wl,--no-as-needed {}", flags_of(order)));
    ends(0, "", &mut program("bin/elsewhere-other", &WORK, from));
}

/// In every way of loading, there is one copy of everything.
#[test]
fn hosts_that_load_the_libraries() {
    LazyLock::force(&LOADER);
    let loads = |arguments: &str, libraries: &str, more: &[&str]| {
        let mut command = program("bin/loaded", &WORK, libraries);
        command.args(arguments.split(' ').filter(|a| !a.is_empty())).args(more);
        ends(0, &format!("version={VERSION} devices=1"), &mut command);
    };
    let by_path = |name: &str| format!("{}/{name}", *LIB);
    let all = "libggml-cpu.so libggml.so.0 libggml-base.so libggml.so libggml-base.so.0";
    for name in libraries() {
        for how in ["local", "global", "deep", "local close"] {
            loads(&format!("{how} {name}.so"), &LIB, &[]);
            loads(&format!("{how} {name}.so.0 {all}"), &LIB, &[&by_path("libggml-cpu.so")]);
        }
        loads("", "", &[&by_path(&format!("{name}.so.0"))]);
    }
    loads("", "", &[&BUILT]);
    loads("local", &LIB, &[&BUILT, "libggml.so", "libggml-cpu.so", "libggml-base.so.0"]);
    // A program that is linked to some of them and loads the others.
    for library in ["ggml", "ggml-base", "ggml-cpu"] {
        linked(&OTHER, "loaded", &format!("both-{library}"), &format!("-Wl,--no-as-needed -l{library}"));
        let mut both = program(format!("bin/both-{library}"), &WORK, &LIB);
        both.args(["local", "libggml-cpu.so", "libggml.so", "libggml-base.so.0"]);
        ends(0, &format!("version={VERSION} devices=1"), &mut both);
    }
}

/// The ways of static linking that this system has. A program that is linked in the last two cannot load libraries.
fn ways() -> Vec<&'static str> {
    fs::write(work("nothing.c"), "int main(void) { return 0; }\n").unwrap();
    let works = |way: &&str| {
        let line = format!("${{CC:-cc}} {way} nothing.c -o nothing{way} 2> /dev/null && ./nothing{way}");
        *way == "-no-pie" || said(&mut shell(&WORK, &line)).1 == Some(0)
    };
    ["-no-pie", "-static", "-static-pie"].into_iter().filter(works).collect()
}

#[test]
fn static_libraries_in_the_orders_in_which_hosts_name_them() {
    let (archives, source) = (format!("{}/lib", *STRIPPED), format!("{ROOT}/c_tests/install/host.c"));
    let include = format!("{source} -I{}/include", *STRIPPED);
    let has = |tool: &str| said(&mut shell(&WORK, &format!("command -v {tool}"))).1 == Some(0);
    for way in ways() {
        for order in ["ggml ggml-cpu ggml-base", "ggml-base ggml-cpu ggml", "ggml-cpu ggml ggml-base", "ggml-base ggml"]
        {
            let libraries: String = order.split(' ').map(|name| format!("-l:lib{name}.a ")).collect();
            let libraries = format!("-L{archives} {libraries} -lm -lpthread -ldl");
            cc(&WORK, &format!("{way} -Wl,--gc-sections {include} -o static {libraries}"));
            ends(0, "", &mut program("static", &WORK, ""));
        }
        // It cannot open libvulkan, and does not try, even if the user requests a device.
        let mut requests = program("static", &WORK, "");
        ends(0, "", requests.env_remove("GGML_DISABLE_VULKAN").env("GGML_VK_VISIBLE_DEVICES", "0"));
        // With -no-pie, -lggml is the shared library.
        if way != "-no-pie" && has("pkg-config") {
            let flags = by_pkg_config("--static --cflags --libs");
            cc(&WORK, &format!("{way} {source} -o static {flags}"));
            ends(0, "", &mut program("static", &WORK, ""));
        }
    }
    // All of it in a library of a host's.
    LazyLock::force(&LOADER);
    let all: String = ["ggml", "ggml-cpu", "ggml-base"].map(|name| format!("{archives}/lib{name}.a ")).concat();
    cc(&WORK, &format!("-shared -o libwhole.so -Wl,--whole-archive {all} -Wl,--no-whole-archive -lm"));
    ends(0, "devices=1", program("bin/loaded", &WORK, "").arg(work("libwhole.so")));
    // The libraries that rustc lists for a static library. A C compiler adds its own and the C library.
    if has("pkg-config") && has("rustc") {
        fs::write(work("empty.rs"), "").unwrap();
        let line = "rustc --crate-type staticlib --print native-static-libs empty.rs -o empty.a 2>&1";
        let (text, _) = said(&mut shell(&WORK, line));
        let listed = text.split_once("native-static-libs: ").unwrap().1.lines().next().unwrap();
        let flags = by_pkg_config("--static --libs");
        for library in listed.split(' ').filter(|l| !["-lgcc_s", "-lc"].contains(l)) {
            assert!(flags.split_whitespace().any(|flag| flag == library), "no {library} in {flags}");
        }
    }
}

fn by_pkg_config(options: &str) -> String {
    let line = format!("PKG_CONFIG_PATH={}/lib/pkgconfig pkg-config {options} ggml", *STRIPPED);
    let (text, status) = said(&mut shell(&WORK, &line));
    assert_eq!(status, Some(0), "{text}");
    text.trim().to_owned()
}

#[test]
fn pkg_config() {
    if said(&mut shell(&WORK, "command -v pkg-config")).1 != Some(0) {
        println!("note: pkg-config is not here; its checks are left out");
        return;
    }
    cc(&WORK, &format!("{ROOT}/c_tests/install/host.c -o by-pkg-config {}", by_pkg_config("--cflags --libs")));
    ends(0, "", &mut program("by-pkg-config", &WORK, &format!("{}/lib", *STRIPPED)));
    assert_eq!(by_pkg_config("--modversion"), VERSION);
}

/// A root folder, in which programs find the libraries through its cache, as after make install and ldconfig. The
/// dynamic linker knows only /etc/ld.so.cache, so that root must become theirs: by chroot, alone or in a user
/// namespace.
struct System {
    root: PathBuf,
    /// The command that makes it their root.
    chroot: &'static str,
}

impl System {
    fn shell(&self, line: &str) -> Command {
        let mut command = shell(&self.root, line);
        command.env("PATH", format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap()));
        command
    }

    /// Brings a program, and the libraries that it needs, but ours, at the same paths.
    fn bring(&self, program: &Path) {
        fs::copy(program, self.root.join("bin").join(program.file_name().unwrap())).unwrap();
        let text = said(&mut shell(&self.root, &format!("ldd '{}'", program.display()))).0;
        let paths = text.lines().filter_map(|l| l[l.find('/')?..].split_once(" (0x")).map(|(path, _)| path);
        for path in paths.filter(|path| !path.contains("/libggml")) {
            let place = self.root.join(&path[1..]);
            if !place.exists() {
                fs::create_dir_all(place.parent().unwrap()).unwrap();
                fs::copy(path, place).unwrap();
            }
        }
    }

    /// ldconfig with these folders and those of the system.
    fn cache(&self, folders: &str) {
        let others = "find . -name '*.so*' -type f ! -name 'libggml*' -exec dirname {} \\; | sed 's/^\\.//' | sort -u";
        let line =
            format!("{{ printf '%s\\n' {folders}; {others}; }} > etc/ld.so.conf && ldconfig -r . && ldconfig -r . -p");
        ends(0, "libc.so", &mut self.shell(&line));
    }

    /// What a program in the root folder says.
    fn run(&self, line: &str) -> Command {
        self.shell(&format!("exec env -i PATH=\"$PATH\" GGML_DISABLE_VULKAN=1 {} . {line}", self.chroot))
    }

    #[track_caller]
    fn says(&self, text: &str, line: &str) {
        let (out, _) = said(&mut self.run(line));
        assert!(out.contains(text), "{line}: no \"{text}\" in\n{out}");
    }

    /// Copies libraries of a folder.
    fn put(&self, from: &str, to: &str) {
        ends(0, "", &mut self.shell(&format!("mkdir -p .{to} && cp -P {from}/*.so* .{to}/")));
    }

    fn install(&self, more: &str) -> Command {
        self.shell(&format!("DESTDIR=\"$PWD\" {ROOT}/scripts/install.sh {more} /usr/local"))
    }
}

#[test]
fn through_the_cache_of_the_system() {
    let mut system = System { root: work("root"), chroot: "" };
    for folder in ["bin", "etc", "tmp"] {
        fs::create_dir_all(system.root.join(folder)).unwrap();
    }
    if said(&mut system.shell("command -v ldconfig")).1 != Some(0) {
        println!("note: ldconfig is not here; the system's cache is not tested");
        return;
    }
    LazyLock::force(&LOADER);
    fs::write(work("nothing-at-all.c"), "int main(void) { return 0; }\n").unwrap();
    cc(&WORK, "nothing-at-all.c -o bin/nothing");
    for program in ORDERS.map(host).into_iter().chain(["bin/loaded".into(), "bin/nothing".into()]) {
        system.bring(&work(&program));
    }
    system.bring(Path::new(&format!("{}/libggml-base.so", *LIB)));
    fs::remove_file(system.root.join("bin/libggml-base.so")).unwrap();
    system.cache("");
    let ways = ["chroot", "unshare -r chroot", "unshare -Ur chroot"];
    let Some(chroot) = ways.into_iter().find(|way| {
        system.chroot = way;
        said(&mut system.run("/bin/nothing")).1 == Some(0)
    }) else {
        println!("note: neither chroot nor a user namespace is allowed here; the system's cache is not tested");
        return;
    };
    system.chroot = chroot;

    let (all, usual, missing) = ("/bin/other-ggml,cpu,base", "/usr/local/lib", "cannot open shared object file");
    let (ours, one) = (format!("version={VERSION} devices=1 vlen=0 copies=1"), format!("version={VERSION} devices=1"));
    let remove_archives = || ends(0, "", &mut system.shell("rm -f usr/local/lib/*.a"));
    system.says(missing, all);
    ends(0, "installed", &mut system.install(""));
    remove_archives();
    system.says(missing, all);
    system.cache(usual);
    system.says(&ours, all);
    for order in ORDERS {
        system.says("copies=1", &format!("/bin/other-{order}"));
    }
    for name in libraries() {
        system.says(&one, &format!("/bin/loaded local {name}.so.0"));
        system.says(&one, &format!("/bin/loaded local {name}.so.0 libggml-cpu.so.0 libggml.so.0 libggml-base.so.0"));
        // The other names are in the cache, too.
        system.says(&one, &format!("/bin/loaded global {name}.so libggml-cpu.so libggml.so.0 libggml-base.so"));
    }
    // They find it by the cache.
    ends(0, "", &mut system.shell("mv etc/ld.so.cache tmp/"));
    system.says(missing, all);
    ends(0, "", &mut system.shell("mv tmp/ld.so.cache etc/"));

    // Beside an older original: ours. ldconfig gives a name to the file with the highest version.
    system.put(&OLDER, usual);
    system.cache(usual);
    system.says(&ours, all);
    for order in ORDERS {
        let (out, _) = said(&mut system.run(&format!("/bin/other-{order}")));
        assert!(!out.contains("stand-in"), "{order}: {out}");
    }
    system.says(&one, "/bin/loaded local libggml.so.0 libggml-cpu.so.0 libggml-base.so.0");

    // Beside a newer one: the original's libraries completely. A file of ours that the original does not have reports
    // the mismatch.
    let newer = format!("{}.99999.0", VERSION.split('.').next().unwrap());
    let folder = stand_ins("newer", &newer);
    let theirs = format!("version=stand-in {newer} devices=7 vlen=7 copies=1");
    ends(0, "", &mut shell(&WORK, "rm newer/libggml-vulkan.so*"));
    system.put(&folder, usual);
    system.cache(usual);
    system.says(&theirs, all);
    for order in ["ggml", "base", "cpu"] {
        let (out, _) = said(&mut system.run(&format!("/bin/other-{order}")));
        assert!(!out.contains("devices=1"), "{order}: {out}");
    }
    ends(0, &format!("libggml-base.so.{newer} is newer"), &mut system.install(""));
    system.cache(usual);
    if has_vulkan() {
        system.says("undefined symbol: ggml_rs_forward_vulkan", "/bin/loaded local libggml-vulkan.so.0");
    }
    fs::remove_file(system.root.join(format!("usr/local/lib/libggml-cpu.so.{newer}"))).unwrap();
    system.cache(usual);
    system.says("undefined symbol: ggml_rs_forward_cpu", all);

    // The newer one is removed, and then ours.
    ends(0, "", &mut system.shell(&format!("rm -f usr/local/lib/*.{newer}")));
    system.cache(usual);
    system.says(&ours, all);
    ends(0, "uninstalled", &mut system.install("-r"));
    system.cache(usual);
    system.says("version=stand-in 0.0.1 devices=7 vlen=7 copies=1", all);

    // In a folder of its own, which is the first one in ld.so.conf: all files come from there.
    ends(0, "", &mut system.shell("rm -f usr/local/lib/libggml*"));
    system.put(&folder, "/opt/other");
    ends(0, "installed", &mut system.install(""));
    remove_archives();
    system.cache("/usr/local/lib /opt/other");
    system.says(&ours, all);
    system.cache("/opt/other /usr/local/lib");
    system.says(&theirs, all);
}
