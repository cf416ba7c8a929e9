//! Where a scheduler put things, and why.
