//! Only in the copy of the sources that `scripts/mutants.py` builds: bugs that other implementations had, put back one
//! at a time to see that a test fails with each. The environment variable `GGML_RS_MUTANT` names the row.

#![forbid(unsafe_code)]

/// Whether the bug of this row is put back.
pub fn on(row: &str) -> bool {
    static ROW: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("GGML_RS_MUTANT").unwrap_or_default());
    *ROW == row
}

/// For a bug: code that needs a thread-local with a destructor panics in destructors of the thread and of statics.
pub fn use_thread_local() {
    thread_local!(static GONE: String = String::from("a value with a destructor"));
    GONE.with(|text| assert!(!text.is_empty()));
}
