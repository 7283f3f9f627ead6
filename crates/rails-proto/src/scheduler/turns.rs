//! Whose turn it is among the streams that have something to send.

use crate::stream_number::StreamNumber;
use std::{cmp::Reverse, collections::BTreeSet};

/// The streams that have something to send: the most urgent first, and those of one urgency in
/// turn, byte for byte (start-time fair queueing).
///
/// Each byte that a stream sends puts the stream's next turn off by one, so of several the one that
/// has sent the least is next, in short chunks or in long ones. A stream that had nothing to send
/// meanwhile has no claim to what it did not send: its turn comes at the present time, which passes
/// as fast as the streams' turns do on average. So a small message that comes now and then waits
/// for no other stream's share, and no stream waits for all that ever come.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The stream that sends next, and the others.
    first: Option<Place>,
    rest: BTreeSet<Place>,
    /// The urgency of the stream that sent last, and the present time among its like.
    present: Option<(i32, Turn)>,
}

/// The time of a stream's next turn, in bytes of its urgency. An idle stream keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(u64);

/// The place of a stream in the order. Of streams whose turns are at the same time, the newest is
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    urgency: Reverse<i32>,
    turn: Turn,
    number: Reverse<StreamNumber>,
}

impl Place {
    fn new(number: StreamNumber, urgency: i32, turn: Turn) -> Self {
        Self { urgency: Reverse(urgency), turn, number: Reverse(number) }
    }
}

impl Turns {
    /// The stream that sends next.
    pub(super) fn first(&self) -> Option<StreamNumber> {
        Some(self.first?.number.0)
    }

    /// The urgency of the stream that sends next, and of the one that sends last.
    pub(super) fn urgencies(&self) -> Option<(i32, i32)> {
        let first = self.first?;
        Some((first.urgency.0, self.rest.last().unwrap_or(&first).urgency.0))
    }

    /// How many streams have something to send.
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// A stream has something to send. `turn` is as it was left, and is now the stream's next one:
    /// not before the present, and at most `lead` bytes behind it.
    pub(super) fn enter(&mut self, number: StreamNumber, urgency: i32, turn: &mut Turn, lead: usize) {
        let now = self.now(urgency).unwrap_or(*turn);
        *turn = (*turn).clamp(now, Turn(now.0 + lead as u64));
        self.insert(Place::new(number, urgency, *turn));
    }

    /// The present time among the streams of an urgency.
    fn now(&self, urgency: i32) -> Option<Turn> {
        if let Some((_, now)) = self.present.filter(|(of, _)| *of == urgency) {
            return Some(now);
        }
        let of_urgency = |place: &&Place| place.urgency.0 == urgency;
        let from = Place::new(StreamNumber(u64::MAX), urgency, Turn(0));
        let waiting =
            self.first.as_ref().filter(of_urgency).or_else(|| self.rest.range(from..).next().filter(of_urgency));
        waiting.map(|place| place.turn)
    }

    fn insert(&mut self, place: Place) {
        match self.first {
            // Mostly a stream is alone.
            None => self.first = Some(place),
            Some(first) if place < first => {
                self.rest.insert(first);
                self.first = Some(place);
            }
            Some(_) => {
                self.rest.insert(place);
            }
        }
    }

    /// A stream has nothing to send any more.
    pub(super) fn leave(&mut self, number: StreamNumber, urgency: i32, turn: Turn) {
        self.remove(Place::new(number, urgency, turn));
    }

    fn remove(&mut self, place: Place) -> bool {
        if self.first != Some(place) {
            return self.rest.remove(&place);
        }
        self.first = self.rest.pop_first();
        true
    }

    /// A stream has sent `bytes` in its turn, and may have left. `turn` is its next one from here
    /// on.
    pub(super) fn sent(&mut self, number: StreamNumber, urgency: i32, turn: &mut Turn, bytes: usize) {
        let mut place = Place::new(number, urgency, *turn);
        let waits = self.remove(place);
        // It passes somewhat more slowly, so that a stream which comes is before those in turn.
        let passed = bytes as u64 / (self.len() as u64 + 2);
        let before = self.present.filter(|(of, _)| *of == urgency).map_or(*turn, |(_, now)| now.max(*turn));
        self.present = Some((urgency, Turn(before.0 + passed)));
        turn.0 += bytes as u64;
        if waits {
            place.turn = *turn;
            self.insert(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const A: StreamNumber = StreamNumber(0);
    const B: StreamNumber = StreamNumber(4);
    const C: StreamNumber = StreamNumber(8);
    const LEAD: usize = 100;

    /// Turns with the state that streams keep.
    #[derive(Default)]
    struct Streams {
        turns: Turns,
        kept: BTreeMap<StreamNumber, (i32, Turn)>,
    }

    impl Streams {
        fn enter(&mut self, number: StreamNumber, urgency: i32) {
            let (of, turn) = self.kept.entry(number).or_default();
            *of = urgency;
            self.turns.enter(number, urgency, turn, LEAD);
        }

        fn leave(&mut self, number: StreamNumber) {
            let (urgency, turn) = self.kept[&number];
            self.turns.leave(number, urgency, turn);
        }

        /// The stream that sends the next chunk.
        fn send(&mut self, bytes: usize) -> StreamNumber {
            let first = self.turns.first().expect("there is one");
            let (urgency, turn) = self.kept.get_mut(&first).expect("it is known");
            self.turns.sent(first, *urgency, turn, bytes);
            first
        }

        fn order(&mut self, bytes: usize, chunks: usize) -> Vec<StreamNumber> {
            (0..chunks).map(|_| self.send(bytes)).collect()
        }
    }

    #[test]
    fn streams_of_one_urgency_take_turns() {
        let mut streams = Streams::default();
        [A, B, C].into_iter().for_each(|stream| streams.enter(stream, 0));
        assert_eq!(streams.order(100, 4), [C, B, A, C]);
        assert_eq!(streams.order(50, 4), [B, A, B, A], "short chunks are as many bytes");
    }

    #[test]
    fn urgent_streams_come_first() {
        let mut streams = Streams::default();
        [(A, 0), (B, 5), (C, -1)].into_iter().for_each(|(stream, urgency)| streams.enter(stream, urgency));
        assert_eq!((streams.turns.first(), streams.turns.urgencies()), (Some(B), Some((5, -1))));
        streams.leave(B);
        assert_eq!((streams.turns.first(), streams.turns.urgencies()), (Some(A), Some((0, -1))));
        streams.leave(C);
        streams.enter(C, 7);
        assert_eq!((streams.turns.first(), streams.turns.len()), (Some(C), 2));
    }

    #[test]
    fn a_stream_that_comes_is_next() {
        let mut streams = Streams::default();
        streams.enter(A, 0);
        streams.enter(B, 0);
        assert_eq!(streams.order(100, 2), [B, A]);
        streams.enter(C, 0);
        assert_eq!(streams.order(100, 4), [C, B, A, C]);
    }

    /// Streams that come and go without end leave an older one its share.
    #[test]
    fn new_streams_starve_no_older_one() {
        let mut streams = Streams::default();
        streams.enter(A, 0);
        let mut of_old = 0;
        for number in 1..=1000 {
            let new = StreamNumber(4 * number);
            streams.enter(new, 0);
            while streams.send(10) != new {
                of_old += 1;
            }
            streams.leave(new);
        }
        assert!((300..1000).contains(&of_old), "{of_old}");
    }

    /// A request now and then waits for one chunk at most, however long the others have sent.
    #[test]
    fn small_messages_wait_for_no_share() {
        let mut streams = Streams::default();
        streams.enter(A, 0);
        for _ in 0..1000 {
            assert_eq!(streams.send(50), A);
            streams.enter(B, 0);
            assert_eq!(streams.send(1), B);
            streams.leave(B);
        }
    }

    /// A stream that empties after each long chunk gets no more than one that never does.
    #[test]
    fn streams_that_come_and_go_get_their_share_alone() {
        let mut streams = Streams::default();
        streams.enter(A, 0);
        streams.enter(B, 0);
        let mut sent = BTreeMap::from([(A, 0), (B, 0)]);
        for _ in 0..1000 {
            let bytes = if streams.turns.first() == Some(A) { 10 } else { 90 };
            let stream = streams.send(bytes);
            *sent.get_mut(&stream).unwrap() += bytes;
            if stream == B {
                streams.leave(B);
                streams.enter(B, 0);
            }
        }
        assert!(sent[&A].abs_diff(sent[&B]) <= LEAD, "{sent:?}");
    }

    /// However much a stream has sent before, it is not put off for long.
    #[test]
    fn a_stream_pays_for_its_last_chunk_alone() {
        let mut streams = Streams::default();
        streams.enter(A, 1);
        streams.order(1_000_000, 10);
        streams.leave(A);
        streams.enter(B, 0);
        streams.enter(A, 0);
        assert_eq!(streams.order(50, 4), [B, B, B, A]);
    }

    /// Streams that less urgent ones have waited for are no different.
    #[test]
    fn the_less_urgent_share_too() {
        let mut streams = Streams::default();
        streams.enter(A, 0);
        streams.enter(B, 1);
        streams.order(1_000_000, 10);
        streams.enter(C, 0);
        streams.leave(B);
        assert_eq!(streams.order(50, 4), [C, A, C, A]);
    }
}
