//! The names of figures, for files and reports.
#![forbid(unsafe_code)]

use super::class::Class;
use crate::abi::ggml::ggml_type;
use crate::quant;
use std::fmt;

/// The direction of a copy between host and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the device.
    In,
    /// To the host.
    Out,
}

/// A way of copies between host and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The direction.
    pub way: Way,
    /// Whether the host memory is pinned: of the device's host buffer type.
    pub pinned: bool,
}

impl Route {
    /// All ways.
    pub const ALL: [Self; 4] = [
        Self { way: Way::In, pinned: true },
        Self { way: Way::In, pinned: false },
        Self { way: Way::Out, pinned: true },
        Self { way: Way::Out, pinned: false },
    ];

    /// Its place in [`Self::ALL`].
    pub fn index(self) -> usize {
        2 * usize::from(self.way == Way::Out) + usize::from(!self.pinned)
    }
}

/// A figure of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The time of a copy of nothing.
    Latency,
    /// The time of each byte.
    PerByte,
}

impl Part {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Latency, Self::PerByte];

    fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::PerByte => "bytes",
        }
    }
}

/// Which figure of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Of copies between host and device.
    Copy(Route, Part),
    /// Starting a split.
    Launch,
    /// Of matrix products.
    Product(ggml_type, Class),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Copy(route, part) => {
                let way = if route.way == Way::In { "in" } else { "out" };
                let memory = if route.pinned { "pinned" } else { "pageable" };
                write!(f, "copy {way} {memory} {}", part.name())
            }
            Self::Launch => f.write_str("launch"),
            Self::Product(dtype, class) => write!(f, "product {} {}", quant::traits(dtype).name(), class.name()),
        }
    }
}

impl Key {
    /// The key with this text.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("product ") {
            let (dtype, class) = rest.split_once(' ')?;
            let has_name = |t: &ggml_type| quant::traits(*t).blck_size > 0 && quant::traits(*t).name() == dtype;
            let class = Class::ALL.into_iter().find(|c| c.name() == class)?;
            return Some(Self::Product(ggml_type::ALL.into_iter().find(has_name)?, class));
        }
        let copies = Route::ALL.into_iter().flat_map(|r| Part::ALL.map(|part| Self::Copy(r, part)));
        copies.chain([Self::Launch]).find(|key| key.to_string() == text)
    }
}

/// A figure of copies between two devices, as text: `from` identifies the source.
pub fn between(from: &str, part: Part) -> String {
    format!("copy from {from} {}", part.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_keys() {
        for (i, route) in Route::ALL.into_iter().enumerate() {
            assert_eq!(route.index(), i);
            for part in Part::ALL {
                let key = Key::Copy(route, part);
                assert_eq!(Key::parse(&key.to_string()), Some(key));
            }
        }
        assert_eq!(Key::parse("launch"), Some(Key::Launch));
        let key = Key::Product(ggml_type::GGML_TYPE_Q4_K, Class::Few);
        assert_eq!((key.to_string(), Key::parse("product q4_K 2-8")), ("product q4_K 2-8".into(), Some(key)));
        for text in
            ["", "launch ", "copy in", "copy in pinned", "product", "product q4_K", "product q4_K 3", "product x 1"]
        {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }
}
