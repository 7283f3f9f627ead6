//! The places in the stream of the messages of one priority.

use crate::messages::PREFIX;
use std::{collections::BTreeMap, ops::Range};

/// The messages of one priority that have arrived or begun to arrive, by number.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The number of the next message that the application receives.
    next: u64,
    /// The offset at which the last received message ended.
    delivered_to: u64,
    /// The offset at which each packet or message begins, by the number of its first message.
    bases: BTreeMap<u64, u64>,
}

impl Index {
    pub(super) fn insert(&mut self, number: u64, base: u64) {
        self.bases.insert(number, base);
    }

    /// Whether messages may have these numbers and this place. Within a priority, numbers and
    /// places have the same order, and between two messages there is room for those with the
    /// numbers between theirs. `known` returns the number of messages in the entry at an offset,
    /// and the entry's end.
    pub(super) fn fits(&self, number: u64, count: u32, place: Range<u64>, known: impl Fn(&u64) -> (u32, u64)) -> bool {
        let Some(last) = number.checked_add(count.into()) else { return false };
        let before = self.bases.range(..=number).next_back().map(|(number, base)| {
            let (count, end) = known(base);
            (number + u64::from(count), end)
        });
        let (from, begins) = before.unwrap_or((self.next, self.delivered_to));
        let behind = self.bases.range(number..).next();
        has_room(from..number, begins..place.start)
            && behind.is_none_or(|(number, base)| has_room(last..*number, place.end..*base))
    }

    /// The offset of the next message, if it has begun.
    pub(super) fn next_is_at(&self) -> Option<u64> {
        self.bases.first_key_value().filter(|(number, _)| **number == self.next).map(|(_, base)| *base)
    }

    /// The application has received the next `count` messages; they end at `end`.
    pub(super) fn deliver(&mut self, count: u32, end: u64) {
        self.bases.remove(&self.next);
        self.next += u64::from(count);
        self.delivered_to = end;
    }

    /// The number of the first message that is missing before a message that has arrived.
    pub(super) fn first_missing(&self, count: impl Fn(&u64) -> u32) -> Option<u64> {
        let mut next = self.next;
        for (number, base) in &self.bases {
            if *number != next {
                return Some(next);
            }
            next += u64::from(count(base));
        }
        None
    }
}

/// Whether the messages with the numbers between two messages fit between the places of the two.
fn has_room(numbers: Range<u64>, place: Range<u64>) -> bool {
    let messages = numbers.end.checked_sub(numbers.start);
    let room = place.end.checked_sub(place.start);
    messages.zip(room).is_some_and(|(messages, room)| messages <= room / PREFIX as u64)
}
