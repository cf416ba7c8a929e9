//! Describes numbers that are infinite or NaN.
#![forbid(unsafe_code)]

/// Describes an invalid half, or returns `None` for a finite one.
pub fn half(bits: u16) -> Option<&'static str> {
    match (bits & 0x7c00, bits & 0x03ff) {
        (0x7c00, 0) => Some("inf"),
        (0x7c00, _) => Some("nan"),
        _ => None,
    }
}

/// Describes an invalid float, or returns `None` for a finite one.
pub fn float(x: f64) -> Option<&'static str> {
    if x.is_infinite() {
        Some("inf")
    } else if x.is_nan() {
        Some("nan")
    } else {
        None
    }
}
