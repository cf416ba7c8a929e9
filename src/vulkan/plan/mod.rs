//! What an operation dispatches, as data: `view` (tensors for shaders), `grid` (size and number of workgroups), `list`
//! (dispatches in order), `converted` (columns that several products read as integers or halves), `checks` (what the
//! checks of several families need).

pub mod checks;
mod converted;
mod grid;
mod list;
mod view;

pub use converted::{Converted, Target};
pub use grid::Grid;
pub use list::{Dispatch, DispatchList, Scratch};
pub use view::View;
