//! A list of what was used lately.
#![forbid(unsafe_code)]

/// At most `N` values, in the order of their last use.
pub struct Recent<T, const N: usize>(Vec<T>);

impl<T, const N: usize> Default for Recent<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const N: usize> Recent<T, N> {
    /// Takes the first value that `is` accepts out of the list.
    pub fn take(&mut self, is: impl Fn(&T) -> bool) -> Option<T> {
        self.0.iter().position(is).map(|i| self.0.remove(i))
    }

    /// Appends a value, as the one that was used last, and drops the least recently used one if there are too many.
    pub fn keep(&mut self, value: T) -> &T {
        if self.0.len() == N {
            self.0.remove(0);
        }
        self.0.push(value);
        &self.0[self.0.len() - 1]
    }

    /// The values.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}
