//! The chunks that one lane has in flight.

use crate::chunk::Chunk;
use std::{collections::VecDeque, ops::Range, time::Instant};

/// The chunks that a lane has taken and the peer has not acknowledged on it, in order and with
/// their times. [`Outstanding`](super::outstanding::Outstanding) alone says which bytes the lane
/// still has to deliver.
#[derive(Debug, Default)]
pub(super) struct Transmissions {
    /// Oldest first; the oldest is number `first` on this connection of the lane.
    in_flight: VecDeque<Transmission>,
    first: u64,
    /// The bytes in those chunks.
    bytes: u64,
    /// The bytes of all chunks that the lane has taken.
    taken: u64,
    /// How many of the oldest the peer has read although it has not acknowledged them on this lane:
    /// other lanes may have brought them.
    read: usize,
}

/// A chunk that a lane has taken, without its bytes: an acknowledgement counts chunks.
#[derive(Debug)]
pub(super) struct Transmission {
    position: u64,
    length: u32,
    must_be_acknowledged: bool,
    taken: Instant,
    /// The bytes of all chunks that the lane has taken up to the end of this one.
    through: u64,
}

/// The chunks that an acknowledgement is the first to count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledged {
    /// When the lane took the first of them.
    pub(super) oldest: Instant,
    /// When the lane took the last of them.
    pub(super) newest: Instant,
    pub(super) bytes: u64,
}

impl Transmissions {
    /// How many chunks are in flight.
    pub(super) fn len(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// The bytes in flight.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the chunk that the lane takes next.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.in_flight.len() as u64
    }

    pub(super) fn oldest(&self) -> Option<&Transmission> {
        self.in_flight.front()
    }

    pub(super) fn newest(&self) -> Option<&Transmission> {
        self.in_flight.back()
    }

    /// The chunk with that number, if it is in flight.
    pub(super) fn get(&self, number: u64) -> Option<&Transmission> {
        self.in_flight.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The ranges of the chunks in flight, by their numbers.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, Range<u64>)> {
        (self.first..).zip(self.in_flight.iter().map(Transmission::range))
    }

    /// How many bytes the lane has to deliver up to the end of `sent`, which is in flight.
    pub(super) fn bytes_through(&self, sent: &Transmission) -> u64 {
        sent.through - (self.taken - self.bytes)
    }

    /// The chunks that an acknowledgement of the first `chunks` of this connection is the first to
    /// count. `None` if there are none.
    pub(super) fn acknowledged_by(&self, chunks: u64) -> Option<Acknowledged> {
        let count = chunks.saturating_sub(self.first) as usize;
        let newest = self.in_flight.get(count.checked_sub(1)?)?.taken;
        let bytes = self.in_flight.iter().take(count).map(|sent| u64::from(sent.length)).sum();
        Some(Acknowledged { oldest: self.in_flight[0].taken, newest, bytes })
    }

    /// The lane has taken `chunk`.
    pub(super) fn put(&mut self, chunk: &Chunk, taken: Instant) {
        let (&Chunk { position, length, .. }, must_be_acknowledged) = (chunk, chunk.must_be_acknowledged());
        self.bytes += u64::from(length);
        self.taken += u64::from(length);
        self.in_flight.push_back(Transmission { position, length, must_be_acknowledged, taken, through: self.taken });
    }

    /// Removes the oldest chunk in flight, if it is among the first `end` of this connection: it
    /// has arrived.
    pub(super) fn pop_before(&mut self, end: u64) -> Option<Transmission> {
        if self.first >= end {
            return None;
        }
        let front = self.in_flight.pop_front()?;
        self.bytes -= u64::from(front.length);
        self.read = self.read.saturating_sub(1);
        self.first += 1;
        Some(front)
    }

    /// The peer has everything, or reads no more: the lane awaits no acknowledgement.
    pub(super) fn clear(&mut self) {
        self.first += self.in_flight.len() as u64;
        self.in_flight.clear();
        (self.bytes, self.read) = (0, 0);
    }

    /// The peer has read everything below `consumed`. If the lane was `alone` in having a chunk of
    /// that in flight, it has delivered the chunk and every chunk before it. A chunk that other
    /// lanes had in flight too may still be on its way on this lane. Calls `late` with those of
    /// them that the peer has read since the last call.
    pub(super) fn settle(
        &mut self,
        consumed: u64,
        alone: impl Fn(&Transmission) -> bool,
        late: impl FnMut(&Transmission),
    ) {
        let is_read = |sent: &&Transmission| sent.is_known_below(consumed);
        let known = self.read + self.in_flight.range(self.read..).take_while(is_read).count();
        if known == self.read {
            return;
        }
        let own = (self.read..known).rfind(|index| alone(&self.in_flight[*index]));
        let popped = own.map_or(0, |index| index + 1);
        let end = self.first + popped as u64;
        while self.pop_before(end).is_some() {}
        let left = known - popped;
        self.in_flight.range(self.read..left).for_each(late);
        self.read = left;
    }
}

impl Transmission {
    pub(super) fn range(&self) -> Range<u64> {
        self.position..self.position + u64::from(self.length)
    }

    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// When the lane took the chunk.
    pub(super) fn taken(&self) -> Instant {
        self.taken
    }

    /// As [`Chunk::is_known_below`].
    fn is_known_below(&self, consumed: u64) -> bool {
        self.range().end <= consumed && !self.must_be_acknowledged
    }
}
