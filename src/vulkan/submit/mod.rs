//! Recording of work, barriers and submission: `recorder` (with `pieces`, between the pieces of a graph, `replay`, of
//! graphs that are submitted again, and `waits`), `open` (command buffers, what their commands use, and barriers),
//! `staging` (copies through host memory), `piece` (how much is submitted at once; kept commands), `hazard`
//! (dependencies between recorded steps), `profile` (times of steps).

pub mod hazard;
mod open;
mod piece;
pub mod profile;
pub mod recorder;
mod staging;

pub use hazard::Range;
pub use piece::KeptCommands;
pub use recorder::Recorder;
pub use staging::CopyEnd;
