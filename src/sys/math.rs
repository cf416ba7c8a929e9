//! Functions of the C library that Rust's does not have.

/// Sine and cosine, which glibc and musl compute together.
#[inline]
pub fn sin_cos(x: f32) -> (f32, f32) {
    #[cfg(all(target_os = "linux", any(target_env = "gnu", target_env = "musl")))]
    {
        unsafe extern "C" {
            fn sincosf(x: f32, sin: *mut f32, cos: *mut f32);
        }
        let (mut sin, mut cos) = (0.0, 0.0);
        // SAFETY: both results can be written.
        unsafe { sincosf(x, &mut sin, &mut cos) };
        (sin, cos)
    }
    #[cfg(not(all(target_os = "linux", any(target_env = "gnu", target_env = "musl"))))]
    x.sin_cos()
}

#[cfg(test)]
mod tests {
    #[test]
    fn sine_and_cosine_are_those_of_the_angle() {
        for x in [0.0f32, 1.0, -2.5, 100.25, 1e6] {
            let (sin, cos) = super::sin_cos(x);
            assert!(
                (f64::from(sin) - f64::from(x).sin()).abs() < 1e-7
                    && (f64::from(cos) - f64::from(x).cos()).abs() < 1e-7
            );
        }
    }
}
