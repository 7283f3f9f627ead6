//! The messages that arrive: which caller gets each of them, their memory, and how far the peer may send.

use super::blocks::Memory;
use bytes::BytesMut;
use std::collections::{BTreeMap, BTreeSet};

/// The arriving messages of a connection.
#[derive(Debug)]
pub(crate) struct Incoming {
    window: u64,
    most_message: u64,
    /// The bytes that are not in this end's memory, or not any more.
    consumed: u64,
    messages: BTreeMap<u32, Arriving>,
    /// The callers' blocks for messages that have not begun.
    posted: BTreeMap<u32, Vec<BytesMut>>,
    /// The message that the next caller receives.
    next: u32,
    /// Those whose callers have gone.
    unwanted: BTreeSet<u32>,
    /// How many messages the peer sends, once it is known.
    count: Option<u32>,
}

#[derive(Debug)]
struct Arriving {
    length: u64,
    memory: Memory,
    /// Whether its bytes are counted as consumed.
    is_consumed: bool,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Arriving,
    Whole,
    GivenUp,
    TooLong,
}

/// A message that has arrived as a whole.
#[derive(Debug)]
pub struct Message {
    /// Its number, counted from 0.
    pub number: u32,
    /// Its bytes, block by block: the caller's blocks, cut to the message, or those of this end.
    pub blocks: Vec<BytesMut>,
}

/// The outcome of a message that a caller waits for.
#[derive(Debug)]
pub enum Outcome {
    /// It has arrived as a whole.
    Message(Message),
    /// The peer has given it up.
    GivenUp,
    /// There was no room for it, and it was refused.
    TooLong {
        /// Its length in bytes.
        length: u64,
    },
    /// The peer sends no such message.
    None,
}

impl Incoming {
    pub(crate) fn new(window: u64, most_message: u64) -> Self {
        let (messages, posted) = (BTreeMap::new(), BTreeMap::new());
        Self { window, most_message, consumed: 0, messages, posted, next: 0, unwanted: BTreeSet::new(), count: None }
    }

    /// The limits for the peer: the offset and the message that it must not reach.
    pub(crate) fn limits(&self) -> (u64, u32) {
        (self.consumed.saturating_add(self.window), self.next.saturating_add(MOST_AHEAD))
    }

    /// A message begins. Returns whether it is wanted.
    pub(crate) fn begin(&mut self, number: u32, length: u64) -> bool {
        let posted = self.posted.remove(&number);
        let mut message = Arriving { length, memory: Memory::own(length), is_consumed: false, state: State::Arriving };
        match posted {
            Some(blocks) => message.give(blocks, &mut self.consumed),
            // A caller waits for it, and takes it in this end's blocks.
            None if number < self.next => message.accept(self.most_message, &mut self.consumed),
            None => {}
        }
        if self.unwanted.contains(&number) {
            message.state = State::TooLong;
        }
        let is_wanted = message.state != State::TooLong;
        self.messages.insert(number, message);
        self.drop_unwanted(number);
        is_wanted
    }

    /// Reserves the next message for a caller. Returns its number, and whether it is refused.
    pub(crate) fn reserve(&mut self, blocks: Option<Vec<BytesMut>>) -> (u32, bool) {
        let number = self.next;
        // The peer sends no message with the last of all numbers.
        self.next = self.next.saturating_add(1);
        let was_too_long = |message: &Arriving| message.state == State::TooLong;
        match (self.messages.get_mut(&number), blocks) {
            (Some(message), Some(blocks)) => message.give(blocks, &mut self.consumed),
            (Some(message), None) => message.accept(self.most_message, &mut self.consumed),
            (None, Some(blocks)) => {
                self.posted.insert(number, blocks);
            }
            (None, None) => {}
        }
        (number, self.messages.get(&number).is_some_and(was_too_long))
    }

    /// The caller has gone before the message came.
    pub(crate) fn release(&mut self, number: u32) {
        self.posted.remove(&number);
        if number.checked_add(1) == Some(self.next) {
            // The next caller gets it.
            self.next = number;
        } else {
            self.unwanted.insert(number);
            self.drop_unwanted(number);
        }
    }

    /// The memory of a message that arrives, or has arrived and was not taken.
    pub(crate) fn memory(&mut self, number: u32) -> Option<&mut Memory> {
        let message = self.messages.get_mut(&number)?;
        matches!(message.state, State::Arriving | State::Whole).then_some(&mut message.memory)
    }

    pub(crate) fn whole(&mut self, number: u32) {
        self.settle(number, State::Whole);
    }

    /// A message was given up, of which perhaps nothing has arrived: its bytes count as those of the others.
    pub(crate) fn given_up(&mut self, number: u32, length: u64) {
        self.messages.entry(number).or_insert_with(|| Arriving {
            length,
            memory: Memory::own(0),
            is_consumed: false,
            state: State::Arriving,
        });
        self.posted.remove(&number);
        self.settle(number, State::GivenUp);
    }

    pub(crate) fn finished(&mut self, count: u32) {
        self.count = Some(count);
    }

    /// Whether the outcome of a reserved message is known.
    pub(crate) fn has_outcome(&self, number: u32) -> bool {
        match self.messages.get(&number) {
            Some(message) => message.state != State::Arriving,
            None => self.count.is_some_and(|count| number >= count),
        }
    }

    /// The outcome of a reserved message, once it is known.
    pub(crate) fn take(&mut self, number: u32) -> Option<Outcome> {
        if !self.has_outcome(number) {
            return None;
        }
        let Some(message) = self.messages.remove(&number) else { return Some(Outcome::None) };
        if !message.is_consumed {
            self.consumed = self.consumed.saturating_add(message.length);
        }
        Some(match message.state {
            State::Whole => Outcome::Message(Message { number, blocks: message.memory.into_blocks(message.length) }),
            State::TooLong => Outcome::TooLong { length: message.length },
            _ => Outcome::GivenUp,
        })
    }

    fn settle(&mut self, number: u32, state: State) {
        if let Some(message) = self.messages.get_mut(&number).filter(|message| message.state == State::Arriving) {
            message.state = state;
        }
        self.drop_unwanted(number);
    }

    fn drop_unwanted(&mut self, number: u32) {
        if self.unwanted.contains(&number) && self.take(number).is_some() {
            self.unwanted.remove(&number);
        }
    }
}

impl Arriving {
    /// The caller's blocks take it, if they hold it.
    fn give(&mut self, blocks: Vec<BytesMut>, consumed: &mut u64) {
        match self.state {
            State::GivenUp => {}
            _ if Memory::given_capacity(&blocks) < self.length => self.state = State::TooLong,
            _ => self.memory.give(blocks, self.length),
        }
        self.consume(consumed);
    }

    /// Blocks of this end take it, also beyond the window.
    fn accept(&mut self, most: u64, consumed: &mut u64) {
        if self.state == State::Arriving && self.length > most {
            self.state = State::TooLong;
        }
        self.consume(consumed);
    }

    fn consume(&mut self, consumed: &mut u64) {
        if !std::mem::replace(&mut self.is_consumed, true) {
            *consumed = consumed.saturating_add(self.length);
        }
    }
}

/// How many messages may arrive before a caller asks for them: each takes a record.
const MOST_AHEAD: u32 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_which_nothing_came_counts_against_no_window() {
        let mut incoming = Incoming::new(1_000, 1_000);
        incoming.given_up(0, 5_000);
        let (number, is_refused) = incoming.reserve(None);
        assert!(!is_refused && matches!(incoming.take(number), Some(Outcome::GivenUp)));
        assert_eq!(incoming.limits().0, 6_000);
    }

    #[test]
    fn whole_message_of_a_caller_that_has_gone_is_kept() {
        let mut incoming = Incoming::new(10_000, 1_000);
        let (number, _) = incoming.reserve(Some(vec![BytesMut::zeroed(5_000)]));
        assert!(incoming.begin(number, 5_000));
        incoming.whole(number);
        incoming.release(number);
        assert_eq!(incoming.reserve(None), (number, false));
        assert!(matches!(incoming.take(number), Some(Outcome::Message(_))));
    }
}
