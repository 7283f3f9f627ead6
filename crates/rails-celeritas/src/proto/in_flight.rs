//! The packets with numbers above the highest that has arrived.

use std::{
    collections::VecDeque,
    ops::{Range, RangeInclusive},
    time::Instant,
};

/// A transmission.
#[derive(Debug, Clone)]
pub(super) struct Packet {
    pub(super) number: u64,
    pub(super) sent_at: Instant,
    pub(super) bytes: Range<u64>,
    pub(super) is_short: bool,
}

/// Packets in the order in which they left, which is that of their numbers.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// A packet of a message that was given up has no bytes, and goes with its neighbours, or
    /// before half of all have none. The last one has bytes.
    packets: VecDeque<Packet>,
    /// How many packets have no bytes.
    empty: usize,
    /// The packets among which those of messages that were given up have been looked for.
    #[cfg(test)]
    pub(super) looked_at: usize,
}

impl InFlight {
    pub(super) fn push(&mut self, packet: Packet) {
        self.packets.push_back(packet);
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len() - self.empty
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(|packet| !packet.bytes.is_empty())
    }

    pub(super) fn get(&self, number: u64) -> Option<&Packet> {
        let index = self.packets.binary_search_by_key(&number, |packet| packet.number).ok()?;
        self.packets.get(index).filter(|packet| !packet.bytes.is_empty())
    }

    /// The packet that left last.
    pub(super) fn last(&self) -> Option<&Packet> {
        self.packets.back()
    }

    pub(super) fn pop_last(&mut self) -> Option<Packet> {
        let last = self.packets.pop_back();
        self.trim();
        last
    }

    /// Moves the packets up to this number to those in `taken`.
    pub(super) fn take_until(&mut self, largest: u64, taken: &mut Vec<Packet>) {
        let count = self.packets.partition_point(|packet| packet.number <= largest);
        let before = taken.len();
        taken.extend(self.packets.drain(..count).filter(|packet| !packet.bytes.is_empty()));
        self.empty -= count - (taken.len() - before);
    }

    /// Takes the bytes out that a message has in the packets of these numbers. Returns how many
    /// they are.
    pub(super) fn give_up(&mut self, numbers: RangeInclusive<u64>, message: &Range<u64>) -> u64 {
        let first = self.packets.partition_point(|packet| packet.number < *numbers.start());
        let mut dropped = 0;
        for packet in self.packets.range_mut(first..).take_while(|packet| packet.number <= *numbers.end()) {
            #[cfg(test)]
            (self.looked_at += 1);
            if message.contains(&packet.bytes.start) && !packet.bytes.is_empty() {
                dropped += packet.bytes.end - packet.bytes.start;
                packet.bytes.end = packet.bytes.start;
                self.empty += 1;
            }
        }
        self.trim();
        // A peer that tells of no later packet keeps the neighbours.
        if self.empty > MAX_EMPTY && self.empty > self.packets.len() / 2 {
            self.packets.retain(|packet| !packet.bytes.is_empty());
            self.empty = 0;
        }
        dropped
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn trim(&mut self) {
        while self.packets.pop_back_if(|packet| packet.bytes.is_empty()).is_some() {
            self.empty -= 1;
        }
    }
}

/// As few packets without bytes are not worth a walk over the others.
const MAX_EMPTY: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of one byte each, which is that of their number.
    fn in_flight(numbers: Range<u64>) -> InFlight {
        let sent_at = Instant::now();
        let mut in_flight = InFlight::default();
        numbers.for_each(|number| {
            in_flight.push(Packet { number, sent_at, bytes: number..number + 1, is_short: false });
        });
        in_flight
    }

    fn numbers<'a>(packets: impl Iterator<Item = &'a Packet>) -> Vec<u64> {
        packets.map(|packet| packet.number).collect()
    }

    #[test]
    fn packets_that_are_given_up_are_not_there() {
        let mut in_flight = in_flight(10..20);
        assert_eq!(in_flight.give_up(12..=15, &(13..15)), 2);
        assert_eq!((in_flight.give_up(12..=15, &(13..15)), in_flight.looked_at), (0, 8));
        assert!(in_flight.get(13).is_none() && in_flight.get(12).is_some());
        assert_eq!((in_flight.len(), numbers(in_flight.iter())), (8, vec![10, 11, 12, 15, 16, 17, 18, 19]));
        let mut taken = Vec::new();
        in_flight.take_until(15, &mut taken);
        assert_eq!((numbers(taken.iter()), in_flight.len()), (vec![10, 11, 12, 15], 4));
    }

    #[test]
    fn packets_that_are_given_up_take_no_memory() {
        let mut in_flight = in_flight(0..10_001);
        for first in (0..10_000).step_by(10) {
            in_flight.give_up(first..=first + 9, &(first..first + 10));
            assert!(in_flight.packets.len() <= 2 * in_flight.len() + MAX_EMPTY + 10);
        }
        assert_eq!(numbers(in_flight.iter()), [10_000]);
    }

    #[test]
    fn last_packet_is_one_that_is_there() {
        let mut in_flight = in_flight(0..10);
        in_flight.give_up(0..=9, &(4..8));
        in_flight.give_up(0..=9, &(9..10));
        assert_eq!(in_flight.pop_last().map(|packet| packet.number), Some(8));
        assert_eq!(in_flight.last().map(|packet| packet.number), Some(3));
        assert_eq!((in_flight.len(), in_flight.packets.len()), (4, 4));
    }
}
