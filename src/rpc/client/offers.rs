//! Weights, which the server may have on disk. They are offered by their hash, and sent if the server does not have
//! them.
//!
//! Offers do not wait for their answers: the client copies what it offers, and continues with the next weights. If the
//! server refuses an offer, the client sends the copy. Every request that does not send weights first settles all
//! offers, so that no request reads a tensor without its bytes. Weights do the same if some of their bytes are already
//! offered.
//!
//! The hash takes longer than the loopback takes for the bytes, and is wasted on a server that does not have this
//! model. So after a refusal the next weights are sent without an offer: at first 1, and twice as many after each
//! refusal that follows. A server keeps what it gets either way. One that says that it has no cache gets no offers.
#![forbid(unsafe_code)]

use super::requests::{Asked, Requests};
use crate::error::Result;
use crate::rpc::protocol::{self, OFFERED_ABOVE, Request, WireTensor};
use crate::sys::sync::lock;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Most weights that are sent without an offer between two offers.
const MOST_SKIPPED: u32 = 64;
/// Most offers without an answer. Their requests together are less than a server takes while it waits to send replies.
const MOST_WAITING: usize = 128;
/// Bytes of the copies.
const COPIES: usize = 64 << 20;
/// An offer of so many bytes leaves at once: the server reads them from its disk while the client goes on.
const LARGE: usize = 1 << 20;

/// When to offer, by what was answered before.
#[derive(Debug)]
struct Pace {
    /// Weights to send before the next offer.
    skip: u32,
    /// As many after the next refusal.
    next: u32,
    /// How many offers may be without an answer: 1 until the server has accepted one.
    window: usize,
}

impl Pace {
    /// Whether the next weights are to be offered.
    fn is_due(&mut self) -> bool {
        let due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        due
    }

    /// What the server has said to an offer.
    fn answered(&mut self, has: bool) {
        self.next = if has { 0 } else { (2 * self.next).clamp(1, MOST_SKIPPED) };
        self.skip = self.next;
        self.window = if has { (2 * self.window).min(MOST_WAITING) } else { 1 };
    }
}

/// An offer without an answer.
struct Offer {
    asked: Asked,
    tensor: WireTensor,
    offset: u64,
    data: Vec<u8>,
}

impl Offer {
    /// The addresses that the data is for.
    fn addresses(&self) -> (u64, u64) {
        addresses(&self.tensor, self.offset, self.data.len())
    }
}

fn addresses(tensor: &WireTensor, offset: u64, size: usize) -> (u64, u64) {
    let start = tensor.data.saturating_add(offset);
    (start, start.saturating_add(size as u64))
}

/// The offers of a connection.
pub struct Offers {
    /// Whether the server may have a cache.
    useful: bool,
    pace: Pace,
    /// In the order of their requests.
    waiting: VecDeque<Offer>,
    /// Bytes of their copies.
    copied: usize,
}

impl Offers {
    /// `useful`: the server may have a cache.
    pub fn new(useful: bool) -> Self {
        let pace = Pace { skip: 0, next: 0, window: 1 };
        Self { useful, pace, waiting: VecDeque::new(), copied: 0 }
    }

    /// Whether one of these bytes is offered.
    fn has_some_of(&self, tensor: &WireTensor, offset: u64, size: usize) -> bool {
        let (start, end) = addresses(tensor, offset, size);
        self.waiting.iter().any(|offer| {
            let (its_start, its_end) = offer.addresses();
            offer.tensor.buffer == tensor.buffer && its_start < end && start < its_end
        })
    }

    /// Waits until all that was offered is in the server's tensors.
    pub fn settle(&mut self, requests: &Requests) -> Result<()> {
        while !self.waiting.is_empty() {
            self.settle_first(requests)?;
        }
        Ok(())
    }

    fn settle_first(&mut self, requests: &Requests) -> Result<()> {
        let Some(offer) = self.waiting.pop_front() else { return Ok(()) };
        self.copied -= offer.data.len();
        self.settle_offer(requests, &offer.asked, &offer.tensor, &offer.data, offer.offset)
    }

    fn settle_offer(
        &mut self,
        requests: &Requests,
        asked: &Asked,
        tensor: &WireTensor,
        data: &[u8],
        offset: u64,
    ) -> Result<()> {
        let mut has = [0];
        requests.answer(asked, &mut has)?;
        let has = has != [0];
        self.pace.answered(has);
        if has {
            return Ok(());
        }
        requests.post(&Request::SetTensor { tensor: tensor.clone(), keep: true, offset }, data, false)
    }
}

/// Sends weights, unless the server has them on disk.
pub fn send(all: &Mutex<Offers>, requests: &Requests, tensor: WireTensor, data: &[u8], offset: u64) -> Result<()> {
    let mut offers = lock(all);
    if offers.has_some_of(&tensor, offset, data.len()) {
        offers.settle(requests)?;
    }
    let keep = offers.useful && data.len() > OFFERED_ABOVE;
    if !keep || !offers.pace.is_due() {
        return requests.post(&Request::SetTensor { tensor, keep, offset }, data, false);
    }
    // Others may upload meanwhile.
    drop(offers);
    let hash = protocol::hash(data);
    let mut offers = lock(all);
    while !offers.waiting.is_empty()
        && (offers.waiting.len() >= offers.pace.window || offers.copied.saturating_add(data.len()) > COPIES)
    {
        offers.settle_first(requests)?;
    }
    let asked = requests.ask(&Request::SetTensorHash { tensor: tensor.clone(), offset, hash }, 1)?;
    if offers.pace.window == 1 || data.len() > COPIES {
        // Nothing waits, and nothing would before this is answered.
        return offers.settle_offer(requests, &asked, &tensor, data, offset);
    }
    offers.copied += data.len();
    offers.waiting.push_back(Offer { asked, tensor, offset, data: data.to_vec() });
    if data.len() >= LARGE { requests.leave() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_make_offers_rare_and_one_success_makes_them_common() {
        let mut pace = Offers::new(true).pace;
        let mut count = |n: usize, has: bool| {
            let mut offers = 0;
            for _ in 0..n {
                if pace.is_due() {
                    offers += 1;
                    pace.answered(has);
                }
            }
            (offers, pace.window)
        };
        assert_eq!(count(3, true), (3, 8));
        assert_eq!(count(100, true), (100, MOST_WAITING));
        // 1 + 2 + 4 + ... + 64 between them.
        assert_eq!(count(400, false), (12, 1));
        while count(1, true).0 == 0 {}
        assert_eq!(count(50, true), (50, MOST_WAITING));
    }
}
