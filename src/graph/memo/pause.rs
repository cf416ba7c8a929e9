//! Exponential backoff: the more attempts fail in a row, the more turns are skipped before the next one.

/// Maximum number of turns to skip.
const MAX: u32 = 64;

/// Turns to skip before the next attempt.
#[derive(Default)]
pub struct Pause {
    left: u32,
    /// Attempts that failed in a row.
    failures: u32,
}

impl Pause {
    /// A pause of some turns before the first attempt.
    pub fn of(turns: u32) -> Self {
        Self { left: turns, failures: 0 }
    }

    /// Returns true if the pause is over. Otherwise uses up one of its turns and returns false.
    pub fn take_turn(&mut self) -> bool {
        if self.left == 0 {
            return true;
        }
        self.left -= 1;
        false
    }

    /// The last attempt succeeded.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The last attempt failed: the pause before the next one is twice as long as the last, up to [`MAX`].
    pub fn failed(&mut self) {
        self.failures += 1;
        self.left = (1 << self.failures.min(10)).min(MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(pause: &mut Pause) -> usize {
        std::iter::from_fn(|| (!pause.take_turn()).then_some(())).count()
    }

    #[test]
    fn pauses_double_until_an_attempt_succeeds() {
        assert_eq!((turns(&mut Pause::default()), turns(&mut Pause::of(1))), (0, 1));
        let mut pause = Pause::default();
        let mut failed = || {
            pause.failed();
            turns(&mut pause)
        };
        assert_eq!([failed(), failed(), failed(), failed(), failed(), failed(), failed()], [2, 4, 8, 16, 32, 64, 64]);
        pause.succeeded();
        pause.failed();
        assert_eq!(turns(&mut pause), 2);
    }
}
