//! How often something is remembered of graphs that come again: more rarely, the more often it was in vain.

/// Turns to let pass at most.
const MAX: u32 = 64;

/// Turns to let pass before the next attempt.
#[derive(Default)]
pub struct Pause {
    left: u32,
    /// Attempts in vain, one after the other.
    failures: u32,
}

impl Pause {
    /// A pause of some turns before the first attempt.
    pub fn of(turns: u32) -> Self {
        Self { left: turns, failures: 0 }
    }

    /// Whether this turn is one for an attempt; if not, it has passed.
    pub fn is_over(&mut self) -> bool {
        if self.left == 0 {
            return true;
        }
        self.left -= 1;
        false
    }

    /// The last attempt was of use.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The last attempt was in vain: the pause before the next is twice as long as the one before.
    pub fn failed(&mut self) {
        self.failures += 1;
        self.left = (1 << self.failures.min(10)).min(MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(pause: &mut Pause) -> usize {
        std::iter::from_fn(|| (!pause.is_over()).then_some(())).count()
    }

    #[test]
    fn pauses_double_until_something_is_of_use() {
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
