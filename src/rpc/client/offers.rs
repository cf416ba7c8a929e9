//! Which weights are offered to the server by their hash. The hash takes longer than the loopback takes for the bytes, and is wasted on a server without a
//! cache, or with one that does not have this model. So after a refusal the next weights are sent without an offer: at first 1, and twice as many after
//! each refusal that follows. A server keeps what it gets either way.
#![forbid(unsafe_code)]

/// Most weights that are sent without an offer between two offers.
const MOST: u32 = 64;

/// The refusals of a connection.
#[derive(Default)]
pub struct Offers {
    /// Weights to send before the next offer.
    skip: u32,
    /// As many after the next refusal.
    next: u32,
}

impl Offers {
    /// Whether the next weights are to be offered.
    pub fn is_due(&mut self) -> bool {
        let due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        due
    }

    /// What the server has said to an offer.
    pub fn answered(&mut self, has: bool) {
        self.next = if has { 0 } else { (2 * self.next).clamp(1, MOST) };
        self.skip = self.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_make_offers_rare_and_one_success_makes_them_common() {
        let mut o = Offers::default();
        let mut count = |n: usize, has: bool| {
            let mut offers = 0;
            for _ in 0..n {
                if o.is_due() {
                    offers += 1;
                    o.answered(has);
                }
            }
            offers
        };
        assert_eq!(count(100, true), 100);
        // 1 + 2 + 4 + ... + 64 between them.
        assert_eq!(count(400, false), 12);
        while count(1, true) == 0 {}
        assert_eq!(count(50, true), 50);
    }
}
