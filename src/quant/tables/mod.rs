//! Grids of the lattice formats: `iq1`, `iq2`, `iq3`. Numbers only; the formats say what they mean.
pub mod iq1;
pub mod iq2;
pub mod iq3;
