//! Prints on stderr how many modules are compiled, and how long the rest may take.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub struct Progress {
    of: usize,
    begun: Instant,
    terminal: bool,
    /// Modules that are compiled, and when the last line was shown.
    state: Mutex<(usize, Instant)>,
}

impl Progress {
    /// For `of` modules.
    pub fn new(of: usize) -> Self {
        let begun = Instant::now();
        Self { of, begun, terminal: std::io::stderr().is_terminal(), state: Mutex::new((0, begun)) }
    }

    /// Counts a module. On a terminal the line changes four times a second; elsewhere a new one comes every ten.
    pub fn compiled(&self, name: &str) {
        let Ok(mut state) = self.state.lock() else { return };
        state.0 += 1;
        if state.1.elapsed() < Duration::from_millis(if self.terminal { 250 } else { 10_000 }) {
            return;
        }
        state.1 = Instant::now();
        let text = self.line(state.0, self.begun.elapsed(), name);
        if self.terminal { eprint!("\r\x1b[K{text}") } else { eprintln!("{text}") }
    }

    fn line(&self, done: usize, taken: Duration, name: &str) -> String {
        let left = taken.as_secs_f64() / done as f64 * self.of.saturating_sub(done) as f64;
        format!("shaders: {done} of {} modules ({name}), about {left:.0} s left", self.of)
    }

    /// Removes the line of a terminal.
    pub fn end(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_that_of_what_is_not_done() {
        let line = Progress::new(40).line(10, Duration::from_secs(20), "add_f32");
        assert_eq!(line, "shaders: 10 of 40 modules (add_f32), about 60 s left");
    }
}
