//! Tracks which backends in flight may still use which memory.
//!
//! The allocator plans memory as if the splits ran one after the other. A split that writes memory must therefore run
//! after all work in flight that uses the same memory. Copies and the queues themselves enforce most of this order.
//! This file finds the remaining waits.
//!
//! Backends are numbers here, and sets of backends are bit masks. A *domain* is the memory that backends with the same
//! buffer type share.

#![forbid(unsafe_code)]

/// A set of backends.
pub type Mask = u16;

/// The work in flight, as far as other work or the host may have to wait for it.
#[derive(Default)]
pub struct InFlight {
    /// By backend: its domain, named after the first backend that computes in it.
    domain: Vec<usize>,
    /// Backends with a queue. The others are done when a call returns.
    queued: Mask,
    /// By domain: backends in flight that write it.
    writers: Vec<Mask>,
    /// By domain: backends in flight that compute elsewhere and read it in place.
    readers: Vec<Mask>,
    /// By domain: backends in flight that copy out of it, in their own queue only.
    copiers: Vec<Mask>,
    /// By backend: the copy of the pipeline whose event was recorded after all of its work.
    event: Vec<Option<usize>>,
}

/// The members of a set.
#[inline]
pub fn members(mask: Mask) -> impl Iterator<Item = usize> {
    let rest = std::iter::successors(Some(mask), |rest| Some(rest & rest.wrapping_sub(1)));
    rest.take_while(|&rest| rest != 0).map(|rest| rest.trailing_zeros() as usize)
}

impl InFlight {
    /// Nothing in flight. `domain`: by backend, the first backend with the same buffer type. `queued`: the backends
    /// that have a queue.
    pub fn new(domain: Vec<usize>, queued: Mask) -> Self {
        let n = domain.len();
        Self { domain, queued, writers: vec![0; n], readers: vec![0; n], copiers: vec![0; n], event: vec![None; n] }
    }

    /// Whether a backend has a queue.
    pub fn is_queued(&self, b: usize) -> bool {
        self.queued >> b & 1 != 0
    }

    /// The backends that a split of `b` must wait for if it also reads memory of `in_place` in place: those that
    /// compute in the same memory, and those that only copy out of it. A backend that reads memory in place may also
    /// write it, because a result can take the place of its source.
    pub fn to_wait_for(&self, b: usize, in_place: Mask) -> (Mask, Mask) {
        let (mut at_work, mut copying) = (0, 0);
        for owner in members(in_place | 1 << b) {
            let d = self.domain[owner];
            at_work |= self.writers[d] | self.readers[d];
            copying |= self.copiers[d];
        }
        (at_work & !(1 << b), copying & !(1 << b))
    }

    /// The backends that may still write the memory of `b`.
    pub fn writers(&self, b: usize) -> Mask {
        self.writers[self.domain[b]]
    }

    /// `b` has been given a split, or a copy, that reads memory of `in_place` in place.
    pub fn note_work(&mut self, b: usize, in_place: Mask) {
        if !self.is_queued(b) {
            return;
        }
        self.event[b] = None;
        self.writers[self.domain[b]] |= 1 << b;
        for f in members(in_place) {
            self.readers[self.domain[f]] |= 1 << b;
        }
    }

    /// `to` has been given a copy out of the memory of `from`, which reads memory of `in_place` in place. Returns true
    /// if the copy is only in the queue of `to`.
    pub fn note_copy(&mut self, from: usize, in_place: Mask, to: usize) -> bool {
        self.note_work(to, in_place);
        self.note_work(from, in_place);
        let only_in_queue_of_to = self.is_queued(to) && !self.is_queued(from);
        if only_in_queue_of_to {
            self.copiers[self.domain[from]] |= 1 << to;
        }
        only_in_queue_of_to
    }

    /// `b` has recorded the event of a copy of the pipeline after all the work that it was given.
    pub fn note_event(&mut self, b: usize, copy: usize) {
        self.event[b] = Some(copy);
    }

    /// The copy of the pipeline whose event was recorded after all work of `b`.
    pub fn event(&self, b: usize) -> Option<usize> {
        self.event[b]
    }

    /// The event of a copy of the pipeline has been reached on `b`.
    pub fn event_reached(&mut self, b: usize, copy: usize) {
        if self.event[b] == Some(copy) {
            self.all_done(b);
        }
    }

    /// `b` has done all its copies.
    pub fn copies_done(&mut self, b: usize) {
        self.copiers.iter_mut().for_each(|m| *m &= !(1 << b));
    }

    /// `b` has done all its work.
    pub fn all_done(&mut self, b: usize) {
        self.copies_done(b);
        for masks in [&mut self.writers, &mut self.readers] {
            masks.iter_mut().for_each(|m| *m &= !(1 << b));
        }
    }

    /// The backends that compute in the memory of backends without a queue, and those that copy out of it. The host
    /// writes its inputs there.
    pub fn in_host_memory(&self) -> (Mask, Mask) {
        let hosts = (0..self.domain.len()).filter(|&b| !self.is_queued(b)).map(|b| self.domain[b]);
        hosts.fold((0, 0), |(users, copiers), d| (users | self.readers[d] | self.writers[d], copiers | self.copiers[d]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two accelerators and a CPU that is done when a call returns.
    fn order() -> InFlight {
        InFlight::new(vec![0, 1, 2], 0b011)
    }

    #[test]
    fn members_of_a_set() {
        assert_eq!(members(0b1010_0000_0000_0001).collect::<Vec<_>>(), [0, 13, 15]);
    }

    #[test]
    fn a_split_waits_for_all_who_use_its_memory() {
        let mut o = order();
        o.note_work(0, 0b100);
        assert_eq!(o.to_wait_for(2, 0), (0b001, 0));
        assert_eq!(o.to_wait_for(1, 0), (0, 0), "memory of its own");
        assert_eq!(o.to_wait_for(1, 0b001), (0b001, 0), "results of the first where they lie");
        o.note_event(0, 3);
        o.event_reached(0, 1);
        assert_eq!(o.to_wait_for(2, 0), (0b001, 0), "an event from before does not count");
        o.event_reached(0, 3);
        assert_eq!(o.to_wait_for(2, 0), (0, 0));
        o.note_work(2, 0b001);
        assert_eq!(o.to_wait_for(0, 0), (0, 0), "done on return");
    }

    #[test]
    fn copies_out_of_host_memory_stand_in_one_queue_only() {
        let mut o = order();
        assert!(!o.note_copy(0, 0, 1), "both have queues");
        assert!(!o.note_copy(0, 0, 2), "the CPU has copied on return");
        assert!(o.note_copy(2, 0, 0));
        assert_eq!((o.to_wait_for(2, 0), o.in_host_memory()), ((0, 1), (0, 1)));
        o.copies_done(0);
        assert_eq!((o.to_wait_for(2, 0), o.writers(0)), ((0, 0), 1));
        o.all_done(0);
        assert_eq!(o.writers(0), 0);
    }

    #[test]
    fn backends_with_one_buffer_type_share_their_memory() {
        let mut o = InFlight::new(vec![0, 0, 2], 0b011);
        o.note_work(1, 0);
        assert_eq!(o.to_wait_for(0, 0), (0b010, 0));
        assert_eq!(o.to_wait_for(1, 0), (0, 0), "its own queue");
    }
}
