//! `ggml-info`: describes a ggml library and what it finds on this machine, checks whether a program would work with
//! it, puts it into programs, measures the machine, and compares two placement reports. `ggml-info --help` lists the
//! options.

mod bench;
mod binary;
mod check;
mod constant;
mod diff;
mod elf;
mod facts;
mod image;
mod library;
mod loader;
mod pe;
mod peak;
mod swap;
mod versions;

use library::Ggml;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use swap::How;

const USAGE: &str = "\
usage: ggml-info [--json] [--library FILE]
       ggml-info --check FILE [--from DIR] [--json]
       ggml-info --swap PATH [--dry-run] [--force] [--from DIR] [--json]
       ggml-info --unswap PATH [--dry-run] [--json]
       ggml-info --bench [--json] [--library FILE] [--threads N]
       ggml-info --diff A.json B.json [--json | --html OUT.html]

Without an option, describes the ggml library of this installation, what it finds on this machine, and the environment variables that are set.

  -c, --check FILE     whether a program or library finds every symbol of ggml that it needs, and which libraries it would load, as the dynamic loader
                       looks for them (rpath, LD_LIBRARY_PATH, runpath, ld.so.cache; for Windows: its folder, those of the system, PATH);
                       nothing of it is run
  -s, --swap PATH      puts this library in the place of the ggml of a program, a folder, or a package of Python or node
                       (site-packages/NAME, node_modules/NAME). Programs find either all old files or all new ones, also if it is killed
  -u, --unswap PATH    takes that back
      --dry-run        only says what would be done
      --force          also where that is refused for a reason that may be wrong, such as files of the system's packages
      --from DIR       the library that goes in: the PREFIX of make install, or its folder of libraries (default: that of this program);
                       on Linux, for programs of Windows: one for Windows
  -b, --bench          the peaks of this processor, the speed of memory, and what products reach of them
  -d, --diff A B       two placement reports in JSON (GGML_SCHED_REPORT=file.json) side by side
      --html FILE      writes that as a page
  -l, --library FILE   this library, also one of the original
  -t, --threads N      threads of products (default: one for each processor)
  -j, --json           for programs
  -p, --peaks [MIB]    only the peaks, one per line; reads an array of so many MiB (default 1024)
  -V, --version        the version of this program
  -h, --help           this text

The exit status is 0, 1 if a check fails or reports differ, or 2 if something cannot be done.
";

enum Command {
    Describe,
    Check(PathBuf),
    Swap(PathBuf),
    Unswap(PathBuf),
    Bench,
    Diff(PathBuf, PathBuf),
    Peaks(usize),
}

struct Options {
    command: Command,
    json: bool,
    html: Option<PathBuf>,
    library: Option<PathBuf>,
    threads: usize,
    how: How,
}

fn parse(mut args: impl Iterator<Item = std::ffi::OsString>) -> Result<Option<Options>, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let how = How::default();
    let mut all = Options { command: Command::Describe, json: false, html: None, library: None, threads, how };
    let number = |text: std::ffi::OsString, most: usize| {
        let n = text.to_str().and_then(|t| t.parse().ok()).filter(|n| (1..=most).contains(n));
        n.ok_or_else(|| format!("{}: not a number from 1 to {most}", text.display()))
    };
    while let Some(arg) = args.next() {
        let option = arg.to_string_lossy().into_owned();
        let mut value = || args.next().ok_or_else(|| format!("{option} needs a value"));
        match option.as_str() {
            "-h" | "--help" => {
                print(USAGE);
                return Ok(None);
            }
            "-V" | "--version" => {
                print(concat!("ggml-info ", env!("CARGO_PKG_VERSION"), "\n"));
                return Ok(None);
            }
            "-j" | "--json" => all.json = true,
            "-c" | "--check" => all.command = Command::Check(value()?.into()),
            "-s" | "--swap" => all.command = Command::Swap(value()?.into()),
            "-u" | "--unswap" => all.command = Command::Unswap(value()?.into()),
            "--dry-run" => all.how.dry_run = true,
            "--force" => all.how.force = true,
            "--from" => all.how.from = Some(value()?.into()),
            "-b" | "--bench" => all.command = Command::Bench,
            "-d" | "--diff" => all.command = Command::Diff(value()?.into(), value()?.into()),
            "-l" | "--library" => all.library = Some(value()?.into()),
            "-t" | "--threads" => all.threads = number(value()?, 512)?,
            "-p" | "--peaks" => {
                let size = args.next().map_or(Ok(1024), |t| number(t, 1 << 20))?;
                all.command = Command::Peaks(size);
            }
            "--html" => all.html = Some(value()?.into()),
            _ => return Err(format!("{option}: no such option")),
        }
    }
    if all.html.is_some() && !matches!(all.command, Command::Diff(..)) {
        return Err("--html belongs to --diff".into());
    }
    let swaps = matches!(all.command, Command::Swap(_));
    if !swaps && all.how.force {
        return Err("--force belongs to --swap".into());
    }
    if !swaps && all.how.from.is_some() && !matches!(all.command, Command::Check(_)) {
        return Err("--from belongs to --swap and --check".into());
    }
    if !swaps && all.how.dry_run && !matches!(all.command, Command::Unswap(_)) {
        return Err("--dry-run belongs to --swap and --unswap".into());
    }
    Ok(Some(all))
}

/// Writes to standard output. A closed pipe is no failure.
fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

fn show(json: bool, all: &Value, text: impl Fn(&Value) -> String) {
    match json {
        true => print(&format!("{all:#}\n")),
        false => print(&text(all)),
    }
}

fn read_json(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: not JSON: {e}", path.display()))
}

/// Runs the command of the options. Returns whether the result is good.
fn run(options: &Options) -> Result<bool, String> {
    if cfg!(target_os = "macos") && matches!(options.command, Command::Check(_) | Command::Swap(_) | Command::Unswap(_))
    {
        return Err(
            "--check, --swap and --unswap are for programs of Linux and Windows; `otool -L PROGRAM` lists what it loads".into()
        );
    }
    match &options.command {
        Command::Describe => {
            let all = facts::gather(&Ggml::open(options.library.as_deref())?)?;
            show(options.json, &all, facts::text);
            Ok(true)
        }
        Command::Check(path) => {
            let answer = check::check(path, options.how.from.as_deref(), &loader::System::here())?;
            show(options.json, &answer, check::text);
            Ok(answer["ok"] == true)
        }
        Command::Swap(path) | Command::Unswap(path) => {
            let is_swap = matches!(options.command, Command::Swap(_));
            let answer = if is_swap { swap::swap(path, &options.how)? } else { swap::unswap(path, &options.how)? };
            show(options.json, &answer, swap::text);
            Ok(answer["ok"] == true)
        }
        Command::Bench => {
            let all = bench::run(&Ggml::open(options.library.as_deref())?, options.threads, !options.json)?;
            show(options.json, &all, bench::text);
            Ok(true)
        }
        Command::Peaks(mib) => {
            for (name, speed) in peak::all(*mib) {
                print(&format!("{name}\t{speed:.1}\n"));
            }
            Ok(true)
        }
        Command::Diff(a, b) => {
            let reports = [read_json(a)?, read_json(b)?];
            let names = [a, b].map(|p| p.display().to_string());
            let all = diff::diff(&reports, &names)?;
            match &options.html {
                Some(path) => {
                    std::fs::write(path, diff::page(&all, &reports)).map_err(|e| format!("{}: {e}", path.display()))?
                }
                None => show(options.json, &all, diff::text),
            }
            Ok(all["same"] == true)
        }
    }
}

fn main() -> ExitCode {
    let options = match parse(std::env::args_os().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("ggml-info: {e}; --help lists the options");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("ggml-info: {e}");
            ExitCode::from(2)
        }
    }
}
