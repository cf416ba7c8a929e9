//! The rights of the program, which decide whose environment variables count.

/// Whether the program has more rights than the user who started it.
pub fn is_privileged() -> bool {
    #[cfg(linux_kernel)]
    {
        // SAFETY: the function takes any number; it is 0 for an entry that the kernel did not give.
        unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
    }
    #[cfg(all(unix, not(linux_kernel)))]
    {
        // SAFETY: the function takes no arguments and cannot fail. It also knows of rights that were given up since.
        unsafe { libc::issetugid() != 0 }
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
