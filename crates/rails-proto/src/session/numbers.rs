//! The numbers of a session's streams: who may open how many, and which are open.

use crate::{
    stream_number::{Direction, Side, StreamNumber},
    violation::Violation,
};

/// Counts the streams of a session that each end has opened, by direction.
///
/// A stream that may be opened costs nothing: an end knows the streams that were opened by the
/// highest of their numbers.
#[derive(Debug)]
pub(super) struct Numbers {
    side: Side,
    own: [Own; 2],
    theirs: [Theirs; 2],
}

/// Streams that this end opens in one direction.
#[derive(Debug, Clone, Copy)]
struct Own {
    /// How many it has opened.
    opened: u64,
    /// How many it may open in all.
    max: u64,
    /// The number that it might open in all when it last asked for more.
    asked: Option<u64>,
}

/// Streams that the peer opens in one direction.
#[derive(Debug, Clone, Copy)]
struct Theirs {
    /// How many it has opened. It has opened a stream if it has used it or a later one.
    opened: u64,
    /// How many it says that it has opened, used or not, and would open more.
    claimed: u64,
    /// How many of them the application has accepted.
    accepted: u64,
    /// How many of them are closed.
    closed: u64,
    /// How many may be open at a time.
    concurrent: u64,
    /// How many it may open in all, as this end has told it.
    told: u64,
}

/// A stream that a frame of the peer names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// The frame opens the streams of that kind with these indices, of which the last is the stream
    /// itself.
    Opened {
        /// The index of the first.
        from: u64,
        /// The index behind the last.
        to: u64,
    },
    /// The stream was opened before. It may be closed.
    Known,
}

impl Numbers {
    /// No stream is open. The peer lets this end open as many streams as `theirs` says, and this
    /// end lets the peer have as many open at a time as `ours` says, in both directions and in
    /// one.
    pub(super) fn new(side: Side, ours: [u32; 2], theirs: [u32; 2]) -> Self {
        let own = theirs.map(|max| Own { opened: 0, max: max.into(), asked: None });
        let theirs = ours.map(|max| {
            let max = max.into();
            Theirs { opened: 0, claimed: 0, accepted: 0, closed: 0, concurrent: max, told: max }
        });
        Self { side, own, theirs }
    }

    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// Opens a stream of this end. `None` if the peer allows no more.
    pub(super) fn open(&mut self, direction: Direction) -> Option<StreamNumber> {
        let own = &mut self.own[direction as usize];
        if own.opened >= own.max {
            return None;
        }
        own.opened += 1;
        Some(StreamNumber::new(self.side, direction, own.opened - 1))
    }

    /// This end would open one more stream of that direction than it may. Returns whether it is to
    /// ask the peer, which does not know of streams that were opened and not used: once for each
    /// limit.
    pub(super) fn asks(&mut self, direction: Direction) -> bool {
        let own = &mut self.own[direction as usize];
        own.opened >= own.max && own.asked.replace(own.max) != Some(own.max)
    }

    /// How many streams of that direction this end has opened.
    pub(super) fn opened(&self, direction: Direction) -> u64 {
        self.own[direction as usize].opened
    }

    /// The peer says that it has opened so many streams of that direction, and would open more.
    ///
    /// # Errors
    /// [`Violation::TooManyStreams`] if it may not have opened as many.
    pub(super) fn claim(&mut self, direction: Direction, opened: u64) -> Result<(), Violation> {
        let peer = self.side.peer();
        let theirs = &mut self.theirs[direction as usize];
        if opened > theirs.told {
            let stream = StreamNumber::new(peer, direction, opened - 1);
            return Err(Violation::TooManyStreams { stream, max: theirs.told });
        }
        theirs.claimed = theirs.claimed.max(opened);
        Ok(())
    }

    /// How many more streams the peer lets this end open.
    pub(super) fn available(&self, direction: Direction) -> u64 {
        let own = &self.own[direction as usize];
        own.max - own.opened
    }

    /// The peer lets this end open `max` streams in all. Returns whether that is more than before.
    pub(super) fn may_open(&mut self, direction: Direction, max: u64) -> bool {
        let own = &mut self.own[direction as usize];
        let is_more = max > own.max;
        own.max = own.max.max(max);
        is_more
    }

    /// A frame of the peer names a stream.
    ///
    /// # Errors
    /// [`Violation::Stream`] if this end has not opened the stream, and
    /// [`Violation::TooManyStreams`] if the peer may not open it.
    pub(super) fn name(&mut self, stream: StreamNumber) -> Result<Named, Violation> {
        let (direction, index) = (stream.direction() as usize, stream.index());
        if stream.side() == self.side {
            let is_open = index < self.own[direction].opened;
            return if is_open { Ok(Named::Known) } else { Err(Violation::Stream { stream }) };
        }
        let theirs = &mut self.theirs[direction];
        if index >= theirs.told {
            return Err(Violation::TooManyStreams { stream, max: theirs.told });
        }
        if index < theirs.opened {
            return Ok(Named::Known);
        }
        let from = std::mem::replace(&mut theirs.opened, index + 1);
        Ok(Named::Opened { from, to: index + 1 })
    }

    /// The next stream of the peer that the application has not accepted, in the order of their
    /// numbers.
    pub(super) fn accept(&mut self, direction: Direction) -> Option<StreamNumber> {
        let peer = self.side.peer();
        let theirs = &mut self.theirs[direction as usize];
        if theirs.accepted >= theirs.opened {
            return None;
        }
        theirs.accepted += 1;
        Some(StreamNumber::new(peer, direction, theirs.accepted - 1))
    }

    /// Lets the peer have `max` streams open at a time. Returns whether this end is to tell the
    /// peer a new number.
    pub(super) fn set_concurrent(&mut self, direction: Direction, max: u64) -> bool {
        let theirs = &mut self.theirs[direction as usize];
        theirs.concurrent = max;
        theirs.untold() > 0
    }

    /// Both directions of a stream have come to their end. Returns whether this end is to tell the
    /// peer a new number.
    pub(super) fn close(&mut self, stream: StreamNumber) -> bool {
        if stream.side() == self.side {
            return false;
        }
        self.theirs[stream.direction() as usize].closed += 1;
        self.is_news(stream.direction())
    }

    /// Whether the peer may open so many more streams than it knows that it should be told: an
    /// eighth of those that may be open at a time. One more is worth it if the peer has opened all
    /// that it may: the others may stay open for ever.
    pub(super) fn is_news(&self, direction: Direction) -> bool {
        let theirs = &self.theirs[direction as usize];
        let least = if theirs.opened.max(theirs.claimed) >= theirs.told { 0 } else { theirs.concurrent / 8 };
        theirs.untold() > least
    }

    /// How many streams the peer may open in all, which this end tells it now.
    pub(super) fn tell(&mut self, direction: Direction) -> u64 {
        let theirs = &mut self.theirs[direction as usize];
        theirs.told += theirs.untold();
        theirs.told
    }
}

impl Theirs {
    /// How many more streams than it knows the peer may open.
    fn untold(&self) -> u64 {
        self.closed.saturating_add(self.concurrent).saturating_sub(self.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Numbers {
        Numbers::new(Side::Responder, [10, 2], [2, 0])
    }

    fn theirs(index: u64) -> StreamNumber {
        StreamNumber::new(Side::Initiator, Direction::Bi, index)
    }

    #[test]
    fn own_streams_up_to_the_peer_s_limit() {
        let mut numbers = numbers();
        let opened = [(); 3].map(|()| numbers.open(Direction::Bi));
        assert_eq!(opened, [Some(StreamNumber(1)), Some(StreamNumber(5)), None]);
        assert_eq!(numbers.open(Direction::Uni), None);
        assert!(!numbers.may_open(Direction::Bi, 1), "a limit does not shrink");
        assert_eq!(numbers.available(Direction::Bi), 0);
        assert!(numbers.may_open(Direction::Bi, 3));
        assert_eq!(numbers.available(Direction::Bi), 1);
        assert_eq!(numbers.open(Direction::Bi), Some(StreamNumber(9)));
    }

    #[test]
    fn a_stream_opens_those_before_it() {
        let mut numbers = numbers();
        assert_eq!(numbers.accept(Direction::Bi), None);
        assert_eq!(numbers.name(theirs(2)), Ok(Named::Opened { from: 0, to: 3 }));
        assert_eq!([1, 2].map(|index| numbers.name(theirs(index))), [Ok(Named::Known), Ok(Named::Known)]);
        let accepted = [(); 4].map(|()| numbers.accept(Direction::Bi));
        assert_eq!(accepted, [Some(theirs(0)), Some(theirs(1)), Some(theirs(2)), None]);
    }

    #[test]
    fn streams_that_nobody_may_use() {
        let mut numbers = numbers();
        assert_eq!(numbers.name(theirs(10)), Err(Violation::TooManyStreams { stream: theirs(10), max: 10 }));
        let own = StreamNumber::new(Side::Responder, Direction::Bi, 0);
        assert_eq!(numbers.name(own), Err(Violation::Stream { stream: own }));
        numbers.open(Direction::Bi);
        assert_eq!(numbers.name(own), Ok(Named::Known));
    }

    #[test]
    fn closed_streams_make_room() {
        let mut numbers = numbers();
        numbers.name(theirs(8)).unwrap();
        assert!(!numbers.close(theirs(3)), "one of ten is not worth a frame");
        assert!(numbers.close(theirs(1)));
        assert!(numbers.name(theirs(10)).is_err(), "the peer was not told");
        assert_eq!(numbers.tell(Direction::Bi), 12);
        assert!(numbers.name(theirs(11)).is_ok());
        assert!(numbers.set_concurrent(Direction::Bi, 11), "the application may wait for one more");
        assert!(numbers.set_concurrent(Direction::Uni, 4));
        assert!(!numbers.set_concurrent(Direction::Uni, 1), "a limit does not shrink");
        assert_eq!(numbers.tell(Direction::Uni), 2);
    }

    /// Of 80 places the peer uses a few, and opens all the others for later.
    #[test]
    fn a_peer_that_has_opened_all_without_using_them_says_so() {
        let [mut ours, mut theirs] =
            [Side::Initiator, Side::Responder].map(|side| Numbers::new(side, [80, 0], [80, 0]));
        let opened: Vec<StreamNumber> = std::iter::from_fn(|| ours.open(Direction::Bi)).collect();
        assert_eq!(opened.len(), 80);
        for stream in &opened[..5] {
            theirs.name(*stream).unwrap();
            assert!(!theirs.close(*stream), "five of 80 are not worth a frame");
        }
        assert!(ours.asks(Direction::Bi) && !ours.asks(Direction::Bi), "it asks once");
        assert!(theirs.claim(Direction::Bi, 81).is_err(), "it may not have opened as many");
        theirs.claim(Direction::Bi, ours.opened(Direction::Bi)).unwrap();
        assert!(theirs.is_news(Direction::Bi));
        assert!(ours.may_open(Direction::Bi, theirs.tell(Direction::Bi)));
        assert!(!theirs.is_news(Direction::Bi) && ours.open(Direction::Bi).is_some());
    }

    /// Of ten streams eight stay open. The peer opens one after the other in the two places left.
    #[test]
    fn a_peer_that_has_opened_all_hears_of_each_place() {
        let mut numbers = Numbers::new(Side::Responder, [10, 0], [0, 0]);
        for index in 0..100 {
            let stream = theirs(index);
            let named = numbers.name(stream);
            assert!(named.is_ok(), "{named:?}");
            // The peer hears of a place that became free before it had opened all.
            let is_news = numbers.is_news(Direction::Bi) | (index >= 8 && numbers.close(stream));
            if is_news {
                numbers.tell(Direction::Bi);
            }
        }
    }
}
