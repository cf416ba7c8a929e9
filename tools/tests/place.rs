//! How the suites `info` and `install` run and compile programs.
#![allow(dead_code, reason = "each suite uses some of it")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository.
pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A folder of the environment, if it is there.
pub fn folder(variable: &str) -> Option<String> {
    let path = PathBuf::from(env::var_os(variable)?);
    path.is_dir().then(|| path.canonicalize().unwrap().to_str().unwrap().to_owned())
}

/// The text of a command, and its status.
pub fn said(command: &mut Command) -> (String, Option<i32>) {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    (String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned(), out.status.code())
}

/// Fails unless a command ends with this status and its output has this text.
#[track_caller]
pub fn ends(status: i32, text: &str, command: &mut Command) {
    let (out, code) = said(command);
    assert!(code == Some(status) && out.contains(text), "{command:?}: status {code:?}, no \"{text}\" in\n{out}");
}

/// A program in a folder, which finds libraries in LD_LIBRARY_PATH. The user's settings do not reach it, and devices
/// are those of every machine.
pub fn program(path: impl AsRef<Path>, folder: &Path, libraries: &str) -> Command {
    let mut command = Command::new(folder.join(path));
    command.current_dir(folder).envs([("GGML_DISABLE_VULKAN", "1"), ("GGML_NO_BACKTRACE", "1")]);
    for variable in ["LD_PRELOAD", "LD_LIBRARY_PATH", "DESTDIR", "STRIP", "GGML_MAX_NAME"] {
        command.env_remove(variable);
    }
    if !libraries.is_empty() {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    command
}

/// Runs a line of shell in a folder.
pub fn shell(folder: &Path, line: &str) -> Command {
    let mut command = program("/bin/sh", folder, "");
    command.args(["-c", line]);
    command
}

/// Compiles something in a folder. The arguments are words of the shell.
#[track_caller]
pub fn cc(folder: &Path, arguments: &str) {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    ends(0, "", &mut shell(folder, &format!("{compiler} {arguments}")));
}
