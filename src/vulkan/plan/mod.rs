//! What an operation dispatches, as data: `view` (tensors for shaders), `grid` (size and number of workgroups), `list`
//! (dispatches in order), `converted` (columns that several products read as integers or halves).

pub mod converted;
pub mod list;
