//! Differential test, to come.
