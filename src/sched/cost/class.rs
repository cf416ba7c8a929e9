//! Numbers of columns of matrix products.
#![forbid(unsafe_code)]

/// Numbers of columns for which backends use similar kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// 1: text, one token at a time. Reading the weights takes the time.
    One,
    /// 2 to 8: several sequences, or drafts. Mostly kernels of matrix times vector, once for several columns.
    Few,
    /// 9 to 64: tiles that are not full.
    Dozens,
    /// 65 and more: prompts. Arithmetic takes the time.
    Many,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 4] = [Self::One, Self::Few, Self::Dozens, Self::Many];

    /// The class of a number of columns.
    pub fn of(columns: usize) -> Self {
        match columns {
            0 | 1 => Self::One,
            2..=8 => Self::Few,
            9..=64 => Self::Dozens,
            _ => Self::Many,
        }
    }

    /// Its numbers of columns, as text.
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Few => "2-8",
            Self::Dozens => "9-64",
            Self::Many => "65+",
        }
    }

    /// A number of columns in the middle.
    pub fn middle(self) -> usize {
        match self {
            Self::One => 1,
            Self::Few => 4,
            Self::Dozens => 24,
            Self::Many => 256,
        }
    }

    /// How the time grows with the columns inside of the class. With few columns it grows with their number on a CPU,
    /// and hardly at all on a card: the square root is between both, and wrong by a factor of 1.7 at most. With many it
    /// grows with their number everywhere.
    pub fn growth(self, columns: usize) -> f64 {
        match self {
            Self::One => 1.0,
            Self::Few | Self::Dozens => (columns as f64).sqrt(),
            Self::Many => columns as f64,
        }
    }
}
