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

/// Sizes of copies of which there are figures, each 16 times the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// 256 bytes: the choice of experts.
    B256,
    /// 4 KiB: columns.
    Kib4,
    /// 64 KiB: what crosses between layers.
    Kib64,
    /// 1 MiB: weights of an expert.
    Mib1,
    /// 16 MiB: weights of a layer.
    Mib16,
}

impl Size {
    /// All sizes.
    pub const ALL: [Self; 5] = [Self::B256, Self::Kib4, Self::Kib64, Self::Mib1, Self::Mib16];

    /// Its bytes.
    pub fn bytes(self) -> f64 {
        f64::from(256 << (4 * self as u32))
    }

    /// Where a number of bytes is among the sizes: 0 for the first one and fewer, 4 for the last one and more.
    pub fn place(bytes: f64) -> f64 {
        ((bytes / 256.0).log2() / 4.0).clamp(0.0, (Self::ALL.len() - 1) as f64)
    }

    fn name(self) -> &'static str {
        match self {
            Self::B256 => "256 B",
            Self::Kib4 => "4 KiB",
            Self::Kib64 => "64 KiB",
            Self::Mib1 => "1 MiB",
            Self::Mib16 => "16 MiB",
        }
    }
}

/// Which figure of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Of copies between host and device.
    Copy(Route, Size),
    /// Starting a split.
    Launch,
    /// Of matrix products.
    Product(ggml_type, Class),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Copy(route, size) => {
                let way = if route.way == Way::In { "in" } else { "out" };
                let memory = if route.pinned { "pinned" } else { "pageable" };
                write!(f, "copy {way} {memory} {}", size.name())
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
        let copies = Route::ALL.into_iter().flat_map(|r| Size::ALL.map(|size| Self::Copy(r, size)));
        copies.chain([Self::Launch]).find(|key| key.to_string() == text)
    }
}

/// A figure of copies between two devices, as text: `from` identifies the source.
pub fn between(from: &str, size: Size) -> String {
    format!("copy from {from} {}", size.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_places() {
        for (i, size) in Size::ALL.into_iter().enumerate() {
            assert_eq!((Size::place(size.bytes()), size as usize), (i as f64, i));
        }
        assert_eq!([0.0, 1.0, 1e30].map(Size::place), [0.0, 0.0, 4.0]);
        assert!((Size::place(1024.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn texts_name_keys() {
        for (i, route) in Route::ALL.into_iter().enumerate() {
            assert_eq!(route.index(), i);
            for size in Size::ALL {
                let key = Key::Copy(route, size);
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
