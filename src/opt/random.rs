//! Random numbers for shuffles: the Mersenne Twister MT19937 with its standard seed, and `std::shuffle` of GNU's C++
//! library. The order of batches is the same as with the original.
#![forbid(unsafe_code)]

/// Words of state.
const N: usize = 624;
/// Distance between words that are mixed.
const M: usize = 397;
/// Number of values of the generator.
const RANGE: u64 = 1 << 32;

/// The generator.
pub struct Twister {
    state: [u32; N],
    next: usize,
}

impl Default for Twister {
    fn default() -> Self {
        Self::new(5489)
    }
}

impl Twister {
    /// The generator with a seed.
    pub fn new(seed: u32) -> Self {
        let mut state = [seed; N];
        for i in 1..N {
            let before = state[i - 1];
            state[i] = (before ^ (before >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self { state, next: N }
    }

    fn twist(&mut self) {
        for i in 0..N {
            let mixed = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
            let odd = if mixed & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (mixed >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// The next number.
    pub fn next_u32(&mut self) -> u32 {
        if self.next == N {
            self.twist();
        }
        let mut x = self.state[self.next];
        self.next += 1;
        x ^= x >> 11;
        x ^= (x << 7) & 0x9d2c_5680;
        x ^= (x << 15) & 0xefc6_0000;
        x ^ (x >> 18)
    }

    /// A uniformly distributed number below `n`, which must not be 0.
    fn below(&mut self, n: u64) -> u64 {
        match n {
            RANGE => u64::from(self.next_u32()),
            // The high half of a product. Draws again if the low half would make some results more likely than others.
            1..RANGE => {
                let unfair = (RANGE - n) % n;
                loop {
                    let product = u64::from(self.next_u32()) * n;
                    if product % RANGE >= unfair {
                        return product / RANGE;
                    }
                }
            }
            // More than 32 bits: digits of base 2^32, highest first.
            _ => loop {
                let high = self.below((n - 1) / RANGE + 1).wrapping_mul(RANGE);
                let drawn = high.wrapping_add(u64::from(self.next_u32()));
                if drawn >= high && drawn < n {
                    return drawn;
                }
            },
        }
    }

    /// Shuffles `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        let n = items.len() as u64;
        if n == 0 {
            return;
        }
        if (RANGE - 1) / n < n {
            for i in 1..items.len() {
                let other = self.below(i as u64 + 1) as usize;
                items.swap(i, other);
            }
            return;
        }
        // One number is large enough for the positions of two items.
        let mut i = 1;
        if n.is_multiple_of(2) {
            let other = self.below(2) as usize;
            items.swap(1, other);
            i = 2;
        }
        while i < items.len() {
            let (first, second) = (i as u64 + 1, i as u64 + 2);
            let both = self.below(first * second);
            items.swap(i, (both / second) as usize);
            items.swap(i + 1, (both % second) as usize);
            i += 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_standard_one() {
        let mut g = Twister::default();
        assert_eq!([g.next_u32(), g.next_u32()], [3_499_211_612, 581_869_302]);
        let mut g = Twister::default();
        // The C++ standard specifies the 10000th number.
        assert_eq!((0..10_000).map(|_| g.next_u32()).last(), Some(4_123_659_995));
    }

    #[test]
    fn shuffles_give_what_gnu_gives() {
        let mut g = Twister::default();
        let mut shuffled = |n: i32| {
            let mut v: Vec<i32> = (0..n).collect();
            g.shuffle(&mut v);
            v
        };
        // Results of std::shuffle(v.begin(), v.end(), g) of libstdc++ 12, in this order and with one generator.
        assert_eq!(shuffled(6), GNU_6);
        assert_eq!(shuffled(7), GNU_7);
        assert_eq!(shuffled(1), [0]);
        let long = shuffled(70_000);
        assert_eq!(long[..4], GNU_LONG);
        let mut sorted = long;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..70_000));
    }

    const GNU_6: [i32; 6] = [2, 3, 0, 5, 4, 1];
    const GNU_7: [i32; 7] = [3, 1, 4, 0, 2, 6, 5];
    const GNU_LONG: [i32; 4] = [49854, 32999, 32931, 42744];

    #[test]
    fn numbers_beyond_32_bits_stay_in_their_range() {
        let mut g = Twister::default();
        for n in [1, 2, 3, RANGE - 1, RANGE, RANGE + 1, 3 * RANGE + 7] {
            assert!((0..50).all(|_| g.below(n) < n));
        }
    }
}
