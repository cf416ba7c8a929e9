//! Grids of the lattice formats: `iq1`, `iq2`, `iq3`. The files of the formats explain them.
pub mod iq1;
pub mod iq2;
pub mod iq3;
