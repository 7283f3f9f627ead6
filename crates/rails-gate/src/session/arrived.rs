//! Bytes that arrived, and wait for a socket.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Bytes in the order of their arrival. Small messages are joined, so that the memory stays in
/// proportion to the bytes: a peer may send each byte as a message of its own.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    front: VecDeque<Bytes>,
    /// Small messages, behind those in `front`.
    joined: BytesMut,
}

impl Arrived {
    pub(super) fn is_empty(&self) -> bool {
        self.front.is_empty() && self.joined.is_empty()
    }

    pub(super) fn push_back(&mut self, bytes: Bytes) {
        let is_small = bytes.len() < SMALL;
        if !self.joined.is_empty() && (!is_small || self.joined.len() + bytes.len() > MAX_JOINED) {
            self.front.push_back(self.joined.split().freeze());
        }
        if is_small {
            self.joined.extend_from_slice(&bytes);
        } else {
            self.front.push_back(bytes);
        }
    }

    /// Puts bytes back that came before all that wait.
    pub(super) fn push_front(&mut self, bytes: Bytes) {
        self.front.push_front(bytes);
    }

    pub(super) fn pop_front(&mut self) -> Option<Bytes> {
        match self.front.pop_front() {
            Some(bytes) => Some(bytes),
            None if self.joined.is_empty() => None,
            // A channel on which nothing waits keeps no memory for it.
            None => {
                self.front = VecDeque::new();
                Some(std::mem::take(&mut self.joined).freeze())
            }
        }
    }

    /// The memory that is taken, in bytes.
    #[cfg(test)]
    fn memory(&self) -> usize {
        let front: usize = self.front.iter().map(Bytes::len).sum();
        self.front.capacity() * size_of::<Bytes>() + 2 * front + self.joined.capacity()
    }
}

/// A shorter message is joined with its neighbours. Messages of at least this length have a buffer
/// of their own on their way already.
const SMALL: usize = 16 << 10;
/// The bytes that are joined at most.
const MAX_JOINED: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    #[derive(Debug, Clone)]
    enum Step {
        Push(usize),
        /// Takes bytes, and puts all but so many back.
        Take(usize),
    }

    proptest! {
        #[test]
        fn bytes_stay_in_order_and_take_memory_in_proportion(steps in vec(prop_oneof![
            3 => prop_oneof![1..5_usize, 10_000..20_000_usize].prop_map(Step::Push),
            1 => (0..100_000_usize).prop_map(Step::Take),
        ], 0..40)) {
            let (mut arrived, mut oracle, mut next) = (Arrived::default(), VecDeque::new(), 0_u8);
            for step in steps {
                match step {
                    Step::Push(length) => {
                        let bytes: Bytes = (0..length).map(|at| next.wrapping_add(at as u8)).collect();
                        next = next.wrapping_add(length as u8).wrapping_add(7);
                        oracle.extend(bytes.iter().copied());
                        arrived.push_back(bytes);
                    }
                    Step::Take(taken) => {
                        let Some(mut bytes) = arrived.pop_front() else {
                            prop_assert!(oracle.is_empty() && arrived.is_empty());
                            continue;
                        };
                        let rest = bytes.split_off(taken.min(bytes.len()));
                        prop_assert!(oracle.drain(..bytes.len()).eq(bytes));
                        if !rest.is_empty() {
                            arrived.push_front(rest);
                        }
                    }
                }
                prop_assert_eq!(arrived.is_empty(), oracle.is_empty());
            }
            while let Some(bytes) = arrived.pop_front() {
                prop_assert!(oracle.drain(..bytes.len()).eq(bytes));
            }
            prop_assert!(oracle.is_empty());
        }
    }

    #[test]
    fn single_bytes_take_no_more_memory_than_a_few_times_their_number() {
        let mut arrived = Arrived::default();
        (0..1_000_000).for_each(|_| arrived.push_back(Bytes::from_static(b"x")));
        assert!(arrived.memory() <= 4_000_000, "{} bytes", arrived.memory());
        while arrived.pop_front().is_some() {}
        assert!(arrived.memory() < 1_000, "nothing is kept for an idle channel: {} bytes", arrived.memory());
    }
}
