//! Environment variables that name files or modules.

use std::ffi::OsString;

/// The value of a variable that names a file or a module, or says what may be loaded. `None` if it is not set, and in a program that has more
/// rights than its user (such as a set-uid program): the user must not choose what it reads, writes or runs.
pub fn trusted(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|_| !is_privileged())
}

/// Whether the program has more rights than the user who started it.
pub fn is_privileged() -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // SAFETY: the function takes any number; it is 0 for an entry that the kernel did not give.
        unsafe { libc::getauxval(libc::AT_SECURE) != 0 && !crate::mutant::on("R15 rights") }
    }
    #[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
    {
        // SAFETY: the functions take no arguments and cannot fail.
        unsafe { libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() }
    }
    #[cfg(not(unix))]
    {
        false
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn tests_have_the_rights_of_their_user() {
        assert!(!super::is_privileged());
        assert_eq!(super::trusted("PATH"), std::env::var_os("PATH"));
        assert_eq!(super::trusted("GGML_RS_NO_SUCH_VARIABLE"), None);
    }
}
