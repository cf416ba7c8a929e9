//! A C compiler and linker for a system that is not here, with the arguments that cargo, the crate cc and our scripts
//! give to `cc`. Zig compiles; the LLD that comes with Rust links. Under the name `ar` it makes archives.
//!
//! | variable | |
//! |---|---|
//! | `PLATFORM` | `macos` or `android` |
//! | `ZIG` | folder of the Python package ziglang. It has the names of macOS's libSystem |
//! | `RUST_SYSROOT` | what `rustc --print sysroot` prints |
//! | `PLATFORM_WORK` | folder for objects, and for libraries with the names that Android's have (`bionic.txt`) |
//!
//! Android's own development kit links the unwinder of LLVM into each library. Here that is the one that Rust has for
//! musl, and the headers are musl's, too. `android.c` has what that kit puts into each file.

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, id};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const BIONIC: &str = include_str!("../bionic.txt");
const ANDROID: &str = include_str!("../android.c");

struct Kit {
    is_mac: bool,
    zig: PathBuf,
    sysroot: PathBuf,
    work: PathBuf,
}

impl Kit {
    fn run(&self, mut command: Command) -> Result<()> {
        let status = command.status().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
        if status.success() { Ok(()) } else { Err(format!("{} has failed", command.get_program().display()).into()) }
    }

    fn zig(&self) -> Command {
        let mut zig = Command::new(self.zig.join("zig"));
        zig.args(["cc", "-target", if self.is_mac { "aarch64-macos.11.0" } else { "aarch64-linux-musl" }]);
        zig.args(["-fno-sanitize=undefined", "-fno-builtin-bcmp"]); // bionic has no bcmp
        zig
    }

    fn lld(&self) -> Command {
        let host = format!("lib/rustlib/{}-unknown-linux-gnu/bin/rust-lld", env::consts::ARCH);
        let mut lld = Command::new(self.sysroot.join(host));
        lld.args(["-flavor", if self.is_mac { "darwin" } else { "gnu" }]);
        lld
    }

    fn compile(&self, source: &Path, flags: &[String]) -> Result<PathBuf> {
        let name = source.file_name().unwrap_or(OsStr::new("source")).to_string_lossy();
        let object = self.work.join(format!("{name}-{}.o", id()));
        let mut zig = self.zig();
        zig.arg("-c").args(flags).arg(source).arg("-o").arg(&object);
        self.run(zig)?;
        Ok(object)
    }

    /// Zig's list of the names of libSystem, which has processors that this LLD does not know.
    fn system(&self) -> Result<PathBuf> {
        let (path, made) = (self.work.join("libSystem.tbd"), self.work.join(format!("libSystem-{}.tbd", id())));
        let list = fs::read_to_string(self.zig.join("lib/libc/darwin/libSystem.tbd"))?;
        fs::write(&made, list.replace("arm64e.x1-", "arm64e-"))?;
        fs::rename(made, &path)?;
        Ok(path)
    }

    /// A library that defines the names which a line of `bionic.txt` has after the library's.
    fn stub(&self, library: &str) -> Result<PathBuf> {
        let path = self.work.join(library);
        let lines = BIONIC.lines().filter_map(|line| line.strip_prefix(library));
        let names: Vec<_> = lines.flat_map(str::split_whitespace).collect();
        let text: String =
            names.iter().map(|name| format!(".globl {name}; .type {name}, %function; {name}: ret\n")).collect();
        let source = self.work.join(format!("{library}-{}.S", id()));
        fs::write(&source, text)?;
        let object = self.compile(&source, &[])?;
        let made = source.with_extension("so");
        let mut lld = self.lld();
        lld.args(["-shared", "-soname", library]).arg(&object).arg("-o").arg(&made);
        self.run(lld)?;
        [source, object].iter().try_for_each(fs::remove_file)?;
        fs::rename(made, &path)?;
        Ok(path)
    }

    fn link(&self, arguments: &[String]) -> Result<()> {
        let (mut flags, mut sources, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        let (mut is_library, mut is_bare, mut all) = (false, false, arguments.iter());
        while let Some(argument) = all.next() {
            match argument.as_str() {
                "-dynamiclib" | "-shared" => is_library = true,
                "-nostdlib" => is_bare = true,
                "-nodefaultlibs" | "-nostartfiles" | "-pie" | "-rdynamic" => {}
                // Named below, or a name of macOS for a part of libSystem; nothing here uses iconv or log.
                "-lSystem" | "-lc" | "-lm" | "-ldl" | "-liconv" | "-llog" | "-lunwind" | "-lgcc" => {}
                "-arch" | "-isysroot" => _ = all.next(),
                "-I" | "-D" | "-x" => {
                    flags.extend([argument.clone(), all.next().ok_or("an option without a value")?.clone()])
                }
                "-o" | "-z" => rest.extend([argument.clone(), all.next().ok_or("an option without a value")?.clone()]),
                text if text.starts_with("-Wl,") => rest.extend(text.split(',').skip(1).map(str::to_owned)),
                text if text.starts_with("-l") || text.starts_with("-L") => rest.push(argument.clone()),
                text if text.starts_with('-') => flags.push(argument.clone()),
                text if [".c", ".S"].iter().any(|end| text.ends_with(end)) => sources.push(PathBuf::from(text)),
                _ => rest.push(argument.clone()),
            }
        }
        let mut lld = self.lld();
        let mut objects = sources.iter().map(|source| self.compile(source, &flags)).collect::<Result<Vec<_>>>()?;
        if self.is_mac {
            lld.args(["-arch", "arm64", "-platform_version", "macos", "11.0", "11.0", "-adhoc_codesign"]);
            lld.args(is_library.then_some("-dylib"));
            lld.args(&objects).args(rest).arg(self.system()?);
        } else {
            lld.args(["--eh-frame-hdr", "--hash-style=gnu"]);
            let mut flags = vec!["-O1".to_owned(), "-fPIC".to_owned()];
            if is_library {
                lld.arg("-shared");
            } else {
                flags.push("-DPROGRAM".to_owned());
                lld.args(["-pie", "-dynamic-linker", "/system/bin/linker64", "-z", "max-page-size=16384"]);
            }
            if !is_bare {
                let android = self.work.join(format!("android-{}.c", id()));
                fs::write(&android, ANDROID)?;
                objects.push(self.compile(&android, &flags)?);
                fs::remove_file(android)?;
            }
            let unwinder = "lib/rustlib/aarch64-unknown-linux-musl/lib/self-contained/libunwind.a";
            lld.args(&objects).args(rest).arg(self.sysroot.join(unwinder)).arg("--as-needed");
            for library in ["libc.so", "libm.so", "libdl.so"].iter().filter(|_| !is_bare) {
                lld.arg(self.stub(library)?);
            }
        }
        self.run(lld)?;
        Ok(objects.iter().try_for_each(fs::remove_file)?)
    }
}

fn run() -> Result<()> {
    let mut arguments = env::args();
    let program = arguments.next().unwrap_or_default();
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).ok_or(format!("{name} is not set"));
    let kit = Kit {
        is_mac: env::var("PLATFORM")? == "macos",
        zig: folder("ZIG")?,
        sysroot: folder("RUST_SYSROOT")?,
        work: folder("PLATFORM_WORK")?,
    };
    fs::create_dir_all(&kit.work)?;
    // Zig has names of its own for targets.
    let arguments: Vec<_> = arguments.filter(|argument| !argument.starts_with("--target=")).collect();
    if Path::new(&program).file_stem() == Some(OsStr::new("ar")) {
        let mut ar = Command::new(kit.zig.join("zig"));
        ar.arg("ar").args(arguments);
        return kit.run(ar);
    }
    let compiles = ["-c", "-E", "-S"].iter().any(|flag| arguments.iter().any(|argument| argument == flag));
    let speaks = arguments.iter().all(|argument| argument.starts_with("--") || argument.starts_with("-print"));
    if !compiles && !speaks {
        return kit.link(&arguments);
    }
    let mut zig = kit.zig();
    zig.args(arguments);
    if speaks {
        zig.current_dir(&kit.work); // it leaves a file
    }
    kit.run(zig)
}

fn main() -> ExitCode {
    run().map_or_else(
        |e| {
            eprintln!("cc: {e}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
