//! Whose turn it is among the streams that have something to send.

use crate::stream_number::StreamNumber;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
};

/// The streams that have something to send: the most urgent first, and those of one urgency in
/// turn. A stream keeps its turn until it has sent a quantum, in one chunk or in several: so short
/// chunks are no disadvantage.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queues: BTreeMap<Reverse<i32>, VecDeque<StreamNumber>>,
    count: usize,
    /// The stream that sends next.
    first: Option<StreamNumber>,
    /// The stream whose turn it is, and the bytes that it has sent in this turn.
    turn: Option<(StreamNumber, usize)>,
}

impl Turns {
    /// The stream that sends next.
    pub(super) fn first(&self) -> Option<StreamNumber> {
        self.first
    }

    fn note_first(&mut self) {
        self.first = self.queues.first_key_value().and_then(|(_, queue)| queue.front().copied());
    }

    /// The urgency of the stream that sends next, and of the one that sends last.
    pub(super) fn urgencies(&self) -> Option<(i32, i32)> {
        let (first, last) = (self.queues.first_key_value()?.0, self.queues.last_key_value()?.0);
        (self.count > 0).then_some((first.0, last.0))
    }

    /// How many streams have something to send.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// A stream has something to send. `is_new` says whether it has sent nothing before: then it is
    /// the next of its urgency, so that the first packet of a request need not wait for a round.
    pub(super) fn enter(&mut self, number: StreamNumber, urgency: i32, is_new: bool) {
        if self.count == 0 && !self.queues.contains_key(&Reverse(urgency)) {
            self.queues.clear();
        }
        let queue = self.queues.entry(Reverse(urgency)).or_default();
        if is_new {
            queue.push_front(number);
        } else {
            queue.push_back(number);
        }
        self.count += 1;
        self.note_first();
    }

    /// A stream has nothing to send any more.
    pub(super) fn leave(&mut self, number: StreamNumber, urgency: i32) {
        let Some(queue) = self.queues.get_mut(&Reverse(urgency)) else { return };
        // Nearly always it is the first.
        if let Some(index) = queue.iter().position(|other| *other == number) {
            queue.remove(index);
            self.count -= 1;
        }
        // The last queue stays, for the next stream of its urgency.
        if queue.is_empty() && self.count > 0 {
            self.queues.remove(&Reverse(urgency));
        }
        self.note_first();
    }

    /// A stream that has something to send has another urgency now.
    pub(super) fn change(&mut self, number: StreamNumber, from: i32, to: i32) {
        let before = self.count;
        self.leave(number, from);
        if self.count < before {
            self.enter(number, to, false);
        }
    }

    /// A stream of that urgency has sent `bytes`. Its turn ends after `quantum` bytes.
    pub(super) fn sent(&mut self, number: StreamNumber, urgency: i32, bytes: usize, quantum: usize) {
        let before = self.turn.filter(|(stream, _)| *stream == number).map_or(0, |(_, bytes)| bytes);
        let bytes = before + bytes;
        self.turn = Some((number, bytes));
        if bytes >= quantum {
            self.turn = None;
            let queue = self.queues.get_mut(&Reverse(urgency));
            if let Some(queue) = queue.filter(|queue| queue.front() == Some(&number)) {
                queue.rotate_left(1);
            }
            self.note_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: StreamNumber = StreamNumber(0);
    const B: StreamNumber = StreamNumber(4);
    const C: StreamNumber = StreamNumber(8);

    /// The streams in the order of their next chunks of `bytes`.
    fn order(turns: &mut Turns, urgency: i32, bytes: usize, chunks: usize) -> Vec<StreamNumber> {
        let next = |_| {
            let first = turns.first().expect("there is one");
            turns.sent(first, urgency, bytes, 100);
            first
        };
        (0..chunks).map(next).collect()
    }

    #[test]
    fn streams_of_one_urgency_take_turns() {
        let mut turns = Turns::default();
        [A, B, C].into_iter().for_each(|stream| turns.enter(stream, 0, false));
        assert_eq!(order(&mut turns, 0, 100, 4), [A, B, C, A]);
        assert_eq!(order(&mut turns, 0, 50, 5), [B, B, C, C, A], "short chunks are as many bytes");
    }

    #[test]
    fn urgent_streams_come_first() {
        let mut turns = Turns::default();
        [(A, 0), (B, 5), (C, -1)].into_iter().for_each(|(stream, urgency)| turns.enter(stream, urgency, false));
        assert_eq!((turns.first(), turns.urgencies()), (Some(B), Some((5, -1))));
        turns.leave(B, 5);
        assert_eq!(turns.first(), Some(A));
        turns.change(C, -1, 7);
        assert_eq!(turns.first(), Some(C));
        turns.change(B, 5, 9);
        assert_eq!((turns.first(), turns.len()), (Some(C), 2), "a stream without anything to send has no turn");
    }

    #[test]
    fn a_new_stream_is_next() {
        let mut turns = Turns::default();
        turns.enter(A, 0, false);
        turns.enter(B, 0, false);
        turns.enter(C, 0, true);
        assert_eq!(order(&mut turns, 0, 100, 4), [C, A, B, C]);
    }
}
