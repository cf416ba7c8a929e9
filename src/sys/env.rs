//! The rights of the program, which decide whose environment variables count.

/// Whether the program has more rights than the user who started it.
pub fn is_privileged() -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // SAFETY: the function takes any number; it is 0 for an entry that the kernel did not give.
        unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
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
    }
}
