//! The order of reads.

use crate::wire::Urgency;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    mem,
};

/// Reads that wait, in two lines, and the numbers of those that run.
///
/// Those that are read ahead leave some of the room to demand, which therefore begins at once
/// unless other demand has taken all.
#[derive(Debug)]
pub(super) struct ReadQueue<T> {
    max_running: usize,
    max_ahead: usize,
    next: u64,
    waiting: BTreeMap<(Urgency, u64), T>,
    running: HashMap<u64, Urgency>,
    running_ahead: usize,
    /// Reads that were cancelled before they began.
    dropped: VecDeque<T>,
    /// Reads that were cancelled while they run.
    cancelled: VecDeque<u64>,
}

/// The next deed for a queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deed<T> {
    /// Begin a read.
    Begin(u64, T),
    /// Tell that a read was cancelled, and will not begin.
    Drop(T),
    /// Cancel the rest of a read that runs.
    Cancel(u64),
}

impl<T> ReadQueue<T> {
    /// A queue in front of so many threads.
    pub(super) fn new(threads: usize) -> Self {
        Self {
            max_running: threads * 2,
            max_ahead: threads + threads / 2,
            next: 0,
            waiting: BTreeMap::new(),
            running: HashMap::new(),
            running_ahead: 0,
            dropped: VecDeque::new(),
            cancelled: VecDeque::new(),
        }
    }

    /// Adds a read. The result is its number.
    pub(super) fn push(&mut self, urgency: Urgency, read: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.insert((urgency, number), read);
        number
    }

    /// Makes a read one of demand, if it has not begun. It takes its place by its age.
    pub(super) fn raise(&mut self, number: u64) {
        if let Some(read) = self.waiting.remove(&(Urgency::Ahead, number)) {
            self.waiting.insert((Urgency::Demand, number), read);
        }
    }

    /// Cancels a read, if it has not ended.
    pub(super) fn cancel(&mut self, number: u64) {
        let of = |urgency| (urgency, number);
        let waiting = self.waiting.remove(&of(Urgency::Demand)).or_else(|| self.waiting.remove(&of(Urgency::Ahead)));
        match waiting {
            Some(read) => self.dropped.push_back(read),
            None if self.running.contains_key(&number) => self.cancelled.push_back(number),
            None => (),
        }
    }

    /// Cancels all reads.
    pub(super) fn cancel_all(&mut self) {
        self.dropped.extend(mem::take(&mut self.waiting).into_values());
        self.cancelled.extend(self.running.keys());
    }

    /// The next deed, if there is one and room for it.
    pub(super) fn next(&mut self) -> Option<Deed<T>> {
        if let Some(read) = self.dropped.pop_front() {
            return Some(Deed::Drop(read));
        }
        if let Some(number) = self.cancelled.pop_front() {
            return Some(Deed::Cancel(number));
        }
        let (&(urgency, number), _) = self.waiting.first_key_value()?;
        let has_room = match urgency {
            Urgency::Demand => true,
            Urgency::Ahead => self.running_ahead < self.max_ahead,
        };
        if !has_room || self.running.len() >= self.max_running {
            return None;
        }
        let read = self.waiting.remove(&(urgency, number)).expect("the first read waits");
        self.running.insert(number, urgency);
        self.running_ahead += usize::from(urgency == Urgency::Ahead);
        Some(Deed::Begin(number, read))
    }

    /// Makes the room of a read that ran free.
    pub(super) fn ended(&mut self, number: u64) {
        let urgency = self.running.remove(&number).expect("a read that ends has run");
        self.running_ahead -= usize::from(urgency == Urgency::Ahead);
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Urgency::{Ahead, Demand};
    use proptest::{collection::vec, prelude::*};

    #[test]
    fn demand_overtakes_and_has_room_of_its_own() {
        let mut queue = ReadQueue::new(2);
        for name in ["a", "b", "c", "d"] {
            queue.push(Ahead, name);
        }
        let begun: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(begun, [Deed::Begin(0, "a"), Deed::Begin(1, "b"), Deed::Begin(2, "c")]);
        queue.push(Demand, "e");
        queue.push(Demand, "f");
        assert_eq!((queue.next(), queue.next()), (Some(Deed::Begin(4, "e")), None));
        queue.ended(0);
        // Both would have room.
        assert_eq!((queue.next(), queue.next()), (Some(Deed::Begin(5, "f")), None));
        queue.ended(1);
        assert_eq!(queue.next(), Some(Deed::Begin(3, "d")));
    }

    #[test]
    fn a_raised_read_goes_by_its_age() {
        let mut queue = ReadQueue::new(1);
        let [first, second] = [Ahead, Ahead].map(|urgency| queue.push(urgency, ()));
        queue.push(Demand, ());
        queue.raise(second);
        queue.raise(second);
        let begun: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(begun, [Deed::Begin(second, ()), Deed::Begin(2, ())]);
        // A read that runs stays what it was.
        queue.raise(second);
        queue.ended(second);
        assert_eq!(queue.next(), Some(Deed::Begin(first, ())));
    }

    #[test]
    fn a_cancelled_read_does_not_begin() {
        let mut queue = ReadQueue::new(1);
        let [one, other] = [Demand, Ahead].map(|urgency| queue.push(urgency, urgency));
        assert_eq!(queue.next(), Some(Deed::Begin(one, Demand)));
        queue.cancel(other);
        queue.cancel(other);
        queue.cancel(one);
        assert_eq!((queue.next(), queue.next()), (Some(Deed::Drop(Ahead)), Some(Deed::Cancel(one))));
        queue.ended(one);
        queue.cancel(one);
        assert_eq!((queue.next(), queue.waiting(), queue.running()), (None, 0, 0));
    }

    proptest! {
        #[test]
        fn every_read_begins_or_is_dropped(calls in vec((0_u8..6, any::<prop::sample::Index>()), 0..200)) {
            let mut queue = ReadQueue::new(3);
            let (mut pushed, mut running, mut seen) = (0_u64, Vec::new(), Vec::new());
            let mut step = |queue: &mut ReadQueue<u64>, running: &mut Vec<u64>| match queue.next() {
                Some(Deed::Begin(number, read)) => {
                    assert_eq!(number, read);
                    running.push(number);
                    seen.push(number);
                    true
                }
                Some(Deed::Drop(read)) => {
                    seen.push(read);
                    true
                }
                Some(Deed::Cancel(number)) => {
                    assert!(running.contains(&number) || seen.contains(&number));
                    true
                }
                None => false,
            };
            for (call, index) in calls {
                match call {
                    0 | 1 => {
                        let urgency = if call == 0 { Demand } else { Ahead };
                        prop_assert_eq!(queue.push(urgency, pushed), pushed);
                        pushed += 1;
                    }
                    2 if pushed > 0 => queue.raise(index.index(pushed as usize) as u64),
                    3 if pushed > 0 => queue.cancel(index.index(pushed as usize) as u64),
                    4 if !running.is_empty() => queue.ended(running.swap_remove(index.index(running.len()))),
                    _ => {
                        step(&mut queue, &mut running);
                    }
                }
                prop_assert!(queue.running() <= 6 && queue.running_ahead <= 4);
            }
            loop {
                while step(&mut queue, &mut running) {}
                let Some(number) = running.pop() else { break };
                queue.ended(number);
            }
            seen.sort();
            prop_assert_eq!(seen, (0..pushed).collect::<Vec<_>>());
        }
    }
}
