//! How work is done on a device: `architecture` (a table of what depends on the architecture), `method` (the methods of
//! matrix products), `attention` (the ways of attention), `tiles` (tiles of products), `workgroups` (sizes of
//! workgroups, and variants of shaders), `loops` (how often loops of shaders run).

pub mod architecture;
pub mod attention;
pub mod loops;
pub mod method;
pub mod tiles;
pub mod workgroups;
