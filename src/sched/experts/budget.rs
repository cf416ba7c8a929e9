//! How much memory of its device an expert cache may take, and whether rows may be computed on two sides.
#![forbid(unsafe_code)]

use crate::environment;
use crate::log_warn;

/// A limit.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Limit {
    /// There is no cache.
    #[default]
    Off,
    /// What the device has left when the first graph with experts is allocated, without a margin.
    Free,
    /// What a card does not need for anything else (`cache.rs`), and gives back when others need it.
    Spare,
    /// A part of the bytes that all experts of the graph have, from 0 to 1.
    Share(f64),
    /// Bytes.
    Bytes(usize),
}

/// The settings of a cache.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Budget {
    /// The limit.
    pub limit: Limit,
    /// The device computes all rows: experts that are not in the cache are copied there.
    pub strict: bool,
}

impl Budget {
    /// What a text is that says nothing.
    pub const WRONG: &str = "no number of MiB, no share such as 10%, and not `auto` or `spare`";

    /// That of the environment.
    pub fn from_environment() -> Self {
        let spare = Self { limit: Limit::Spare, strict: false };
        let Some(text) = environment::EXPERT_CACHE.text() else { return spare };
        Self::parse(&text).unwrap_or_else(|| {
            log_warn!("{}={text} is {}, and is ignored", environment::EXPERT_CACHE.name, Self::WRONG);
            spare
        })
    }

    /// A limit (`spare`, `auto`, a number of MiB, or a share such as `10%`), perhaps with `,strict`.
    pub fn parse(text: &str) -> Option<Self> {
        let (limit, strict) = match text.split_once(',') {
            Some((limit, word)) => (limit.trim(), (word.trim() == "strict").then_some(true)?),
            None => (text.trim(), false),
        };
        let limit = match (limit, limit.strip_suffix('%')) {
            ("spare", _) => Limit::Spare,
            ("auto", _) => Limit::Free,
            ("" | "0", _) => Limit::Off,
            (_, Some(share)) => {
                let share: f64 = share.trim().parse().ok()?;
                (share > 0.0 && share <= 100.0).then_some(Limit::Share(share / 100.0))?
            }
            _ => Limit::Bytes(limit.parse::<usize>().ok()?.checked_mul(1 << 20)?),
        };
        Some(Self { limit, strict })
    }

    /// Whether there is a cache.
    pub fn is_on(&self) -> bool {
        self.limit != Limit::Off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let parse = |text| Budget::parse(text);
        let on = |limit| Some(Budget { limit, strict: false });
        assert_eq!(parse(""), on(Limit::Off));
        assert_eq!(parse("0"), on(Limit::Off));
        assert_eq!(parse("auto"), on(Limit::Free));
        assert_eq!(parse("spare"), on(Limit::Spare));
        assert_eq!(parse(" 10% "), on(Limit::Share(0.1)));
        assert_eq!(parse("512"), on(Limit::Bytes(512 << 20)));
        assert_eq!(parse("512,strict"), Some(Budget { limit: Limit::Bytes(512 << 20), strict: true }));
        for wrong in ["ten", "-1", "101%", "0%", "nan%", "10%,loose", "99999999999999999999", "18446744073709551615"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
