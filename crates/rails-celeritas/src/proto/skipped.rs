//! Packet numbers that the sender leaves out: a peer that acknowledges one lies about the packets
//! that it has received (RFC 9000, section 21.4).

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
};

/// Chooses the numbers, which no peer can tell without the seed.
#[derive(Debug)]
pub(crate) struct Skipped {
    seed: u64,
    /// The next number to skip, and the count of those chosen so far.
    next: u64,
    count: u64,
    /// Skipped numbers that a peer could name: the older ones lie below a packet that has arrived.
    numbers: VecDeque<u64>,
}

impl Skipped {
    pub(crate) fn new(seed: u64) -> Self {
        let mut skipped = Self { seed, next: 0, count: 0, numbers: VecDeque::new() };
        skipped.choose();
        skipped
    }

    /// The first number from `number` on that is not left out.
    pub(crate) fn pass(&mut self, number: u64) -> u64 {
        if number != self.next {
            return number;
        }
        self.numbers.push_back(number);
        self.choose();
        number + 1
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.numbers.binary_search(&number).is_ok()
    }

    /// The peer names this number, which was sent, and none below it any more.
    pub(crate) fn forget_below(&mut self, number: u64) {
        while self.numbers.front().is_some_and(|first| *first < number) {
            self.numbers.pop_front();
        }
    }

    fn choose(&mut self) {
        let mut hasher = DefaultHasher::new();
        (self.seed, self.count).hash(&mut hasher);
        self.count += 1;
        self.next += MIN_PAUSE + hasher.finish() % MIN_PAUSE;
    }
}

/// One of this number of packet numbers is left out, or one of up to twice as many: a peer that
/// guesses one in each list is found in a second or so, and the 56 bits of packet numbers still
/// last.
const MIN_PAUSE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_in_a_hundred_is_skipped() {
        let mut skipped = Skipped::new(7);
        let mut sent = Vec::new();
        let mut next = 0;
        for _ in 0..10_000 {
            next = skipped.pass(next);
            sent.push(next);
            next += 1;
        }
        assert!((78..157).contains(&(next - 10_000)), "{next}");
        assert!(sent.iter().all(|number| !skipped.contains(*number)));
        assert_eq!((0..next).filter(|number| skipped.contains(*number)).count() as u64, next - 10_000);
        skipped.forget_below(next);
        assert!(!(0..next).any(|number| skipped.contains(number)));
    }
}
