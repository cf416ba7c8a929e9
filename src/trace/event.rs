//! What a timeline shows.
#![forbid(unsafe_code)]

/// The line of the timeline that an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track<'a> {
    /// Work of the calling thread under a name, such as that of a backend. Each thread has its own line.
    Here(&'a str),
    /// Work of a device. All threads record it on the same line.
    Device(&'a str),
}

/// A value that is shown with an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg<'a> {
    /// Text.
    Text(&'a str),
    /// A count, or a size in bytes.
    Number(u64),
}

/// A period of time.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Its line.
    pub track: Track<'a>,
    /// Its name.
    pub name: &'a str,
    /// Its category: `split`, `copy`, `node`, `plan` ...
    pub category: &'a str,
    /// Start in nanoseconds of [`super::now`].
    pub from: u64,
    /// End, at or after the start.
    pub to: u64,
    /// Names and values that are shown with it.
    pub args: &'a [(&'a str, Arg<'a>)],
}
