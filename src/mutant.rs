//! Bugs that other implementations had, put back one at a time to see that a test fails with each: `scripts/mutants.py`, docs/TESTS.md.
//!
//! `mutant::on("G16")` stands in the condition that keeps the bug of that row out. In every build but the script's it is the constant
//! `false`, so the markers cost nothing and weaken nothing. The script builds with `--cfg ggml_mutants`; then the environment
//! variable `GGML_RS_MUTANT` names the row.

#![forbid(unsafe_code)]

/// Whether the bug of this row is put back.
#[cfg(not(ggml_mutants))]
#[inline(always)]
pub const fn on(_row: &str) -> bool {
    false
}

/// For a bug: code that needs a thread-local with a destructor panics in destructors of the thread and of statics.
pub fn use_thread_local() {
    #[cfg(ggml_mutants)]
    {
        thread_local!(static GONE: String = String::from("a value with a destructor"));
        GONE.with(|text| assert!(!text.is_empty()));
    }
}

/// Whether the bug of this row is put back.
#[cfg(ggml_mutants)]
pub fn on(row: &str) -> bool {
    static ROW: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| crate::environment::MUTANT.text().unwrap_or_default());
    *ROW == row
}
