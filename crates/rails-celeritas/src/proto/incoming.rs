//! The messages that arrive: their callers, their memory, and how far the peer may send.

use super::blocks::Memory;
use bytes::BytesMut;
use std::collections::{BTreeMap, BTreeSet};

/// The arriving messages of a connection.
#[derive(Debug)]
pub(crate) struct Incoming {
    window: u64,
    max_message: u64,
    /// The bytes that take no memory of this end, or no longer take any.
    consumed: u64,
    messages: BTreeMap<u32, Arriving>,
    /// The callers' blocks for messages that have not begun.
    posted: BTreeMap<u32, Vec<BytesMut>>,
    /// All messages below this number were reserved by callers.
    next: u32,
    /// Messages whose callers have gone while later ones waited: the next callers get them.
    free: BTreeSet<u32>,
    /// Messages that have begun and were refused, until the peer has given them up, or they are
    /// whole all the same.
    refused: BTreeSet<u32>,
    /// No caller receives any more.
    is_over: bool,
    /// The number of messages that the peer sends, once it is known.
    count: Option<u32>,
}

#[derive(Debug)]
struct Arriving {
    length: u64,
    memory: Memory,
    /// Whether the message's bytes are counted as consumed.
    is_consumed: bool,
    /// Whether the caller has no room for the message.
    is_too_long: bool,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    GivenUp,
}

/// A message that has arrived as a whole.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// The message's number, counted from 0.
    pub number: u32,
    /// The message's bytes, block by block: the caller's blocks, cut to the message, or those of
    /// this end.
    pub blocks: Vec<BytesMut>,
}

/// The outcome of a message that a caller waits for.
#[derive(Debug)]
pub enum Outcome {
    /// The message has arrived as a whole.
    Message(ReceivedMessage),
    /// The peer has given the message up.
    GivenUp,
    /// There was no room for the message, and it was refused.
    TooLong {
        /// The message's length in bytes.
        length: u64,
    },
    /// The peer sends no such message.
    None,
}

impl Incoming {
    pub(crate) fn new(window: u64, max_message: u64) -> Self {
        Self {
            // Without room for a byte no message could begin.
            window: window.max(1),
            max_message,
            consumed: 0,
            messages: BTreeMap::new(),
            posted: BTreeMap::new(),
            next: 0,
            free: BTreeSet::new(),
            refused: BTreeSet::new(),
            is_over: false,
            count: None,
        }
    }

    /// The limits for the peer: the offset and the message that it must not reach. All messages
    /// below `first_open` have ended.
    pub(crate) fn limits(&self, first_open: u32) -> (u64, u32) {
        match self.is_over {
            // This end keeps nothing but the numbers of messages that have ended out of order.
            true => (u64::MAX, first_open.saturating_add(MAX_AHEAD)),
            false => (self.consumed.saturating_add(self.window), self.next.saturating_add(MAX_AHEAD)),
        }
    }

    /// A message begins. Returns whether it is wanted: if not, the peer has to hear so before it
    /// hears of arrivals.
    pub(crate) fn begin(&mut self, number: u32, length: u64) -> bool {
        let posted = self.posted.remove(&number);
        let mut message = Arriving::new(length);
        match posted {
            _ if self.is_over => {
                self.refuse(number, message);
                return false;
            }
            Some(blocks) => message.give(blocks, &mut self.consumed),
            // A caller waits for the message, and takes it in this end's blocks.
            None if number < self.next && !self.free.contains(&number) => {
                message.accept(self.max_message, &mut self.consumed)
            }
            None => {}
        }
        let is_wanted = !message.is_too_long;
        self.messages.insert(number, message);
        is_wanted
    }

    /// Reserves the next message for a caller. Returns its number, and whether it is refused: it is
    /// too long, and has not arrived as a whole.
    pub(crate) fn reserve(&mut self, blocks: Option<Vec<BytesMut>>) -> (u32, bool) {
        let number = self.free.pop_first().unwrap_or_else(|| {
            let number = self.next;
            // The peer sends no message with the last of all numbers.
            self.next = self.next.saturating_add(1);
            number
        });
        let Some(message) = self.messages.get_mut(&number) else {
            blocks.map(|blocks| self.posted.insert(number, blocks));
            return (number, false);
        };
        let was_too_long = message.is_too_long;
        match blocks {
            Some(blocks) => message.give(blocks, &mut self.consumed),
            None => message.accept(self.max_message, &mut self.consumed),
        }
        (number, message.is_too_long && !was_too_long)
    }

    /// The caller of a message has gone: the next caller gets it.
    pub(crate) fn release(&mut self, number: u32) {
        self.posted.remove(&number);
        self.free.insert(number);
        while self.next.checked_sub(1).is_some_and(|before| self.free.remove(&before)) {
            self.next -= 1;
        }
    }

    /// No caller receives any more. Returns the messages that have begun: they are refused.
    pub(crate) fn refuse_all(&mut self) -> Vec<u32> {
        self.is_over = true;
        self.posted.clear();
        let messages = std::mem::take(&mut self.messages);
        let arriving = messages.into_iter().filter(|(_, message)| message.end.is_none() && !message.is_too_long);
        let refused: Vec<u32> = arriving.map(|(number, _)| number).collect();
        self.refused.extend(&refused);
        refused
    }

    /// The memory of a message that arrives, or has arrived and was not taken.
    pub(crate) fn memory(&mut self, number: u32) -> Option<&mut Memory> {
        let message = self.messages.get_mut(&number)?;
        (!message.is_too_long && message.end != Some(End::GivenUp)).then_some(&mut message.memory)
    }

    pub(crate) fn whole(&mut self, number: u32) {
        if !self.refused.remove(&number)
            && let Some(message) = self.messages.get_mut(&number)
        {
            message.end = Some(End::Whole);
        }
    }

    /// A message was given up, of which perhaps nothing has arrived: its bytes count as those of
    /// the others.
    pub(crate) fn given_up(&mut self, number: u32, length: u64) {
        self.posted.remove(&number);
        if self.refused.remove(&number) || self.is_over {
            return;
        }
        let mut message = self.messages.remove(&number).unwrap_or_else(|| Arriving::new(length));
        (message.end, message.memory) = (Some(End::GivenUp), Memory::own(0));
        self.messages.insert(number, message);
    }

    pub(crate) fn finished(&mut self, count: u32) {
        self.count = Some(count);
    }

    /// Whether the outcome of a reserved message is known.
    pub(crate) fn has_outcome(&self, number: u32) -> bool {
        match self.messages.get(&number) {
            Some(message) => message.is_too_long || message.end.is_some(),
            None => self.is_over || self.count.is_some_and(|count| number >= count),
        }
    }

    /// The outcome of a reserved message, once it is known.
    pub(crate) fn take(&mut self, number: u32) -> Option<Outcome> {
        if !self.has_outcome(number) {
            return None;
        }
        let Some(mut message) = self.messages.remove(&number) else {
            self.posted.remove(&number);
            return Some(Outcome::None);
        };
        let length = message.length;
        Some(match message.end {
            _ if message.is_too_long => {
                self.refuse(number, message);
                Outcome::TooLong { length }
            }
            Some(End::Whole) => {
                message.consume(&mut self.consumed);
                Outcome::Message(ReceivedMessage { number, blocks: message.memory.into_blocks(length) })
            }
            _ => {
                message.consume(&mut self.consumed);
                Outcome::GivenUp
            }
        })
    }

    /// No caller gets the message.
    fn refuse(&mut self, number: u32, mut message: Arriving) {
        message.consume(&mut self.consumed);
        if message.end.is_none() {
            self.refused.insert(number);
        }
    }
}

impl Arriving {
    fn new(length: u64) -> Self {
        Self { length, memory: Memory::own(length), is_consumed: false, is_too_long: false, end: None }
    }

    /// The caller's blocks take the message, if they hold it. One that has arrived as a whole is
    /// not refused any more: it stays in the memory where it is.
    fn give(&mut self, blocks: Vec<BytesMut>, consumed: &mut u64) {
        let has_room = Memory::given_capacity(&blocks) >= self.length;
        match self.end {
            Some(End::GivenUp) => {}
            _ if self.is_too_long => {}
            _ if has_room => self.memory.give(blocks, self.length),
            Some(End::Whole) => {}
            None => self.is_too_long = true,
        }
        self.consume(consumed);
    }

    /// Blocks of this end take the message, also beyond the window.
    fn accept(&mut self, longest: u64, consumed: &mut u64) {
        self.is_too_long |= self.end.is_none() && self.length > longest;
        self.consume(consumed);
    }

    fn consume(&mut self, consumed: &mut u64) {
        if !std::mem::replace(&mut self.is_consumed, true) {
            *consumed = consumed.saturating_add(self.length);
        }
    }
}

/// How many messages may arrive before a caller asks for them: each takes a record.
const MAX_AHEAD: u32 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_up_message_keeps_the_window() {
        let mut incoming = Incoming::new(1_000, 1_000);
        incoming.given_up(0, 5_000);
        let (number, is_refused) = incoming.reserve(None);
        assert!(!is_refused && matches!(incoming.take(number), Some(Outcome::GivenUp)));
        assert_eq!(incoming.limits(0).0, 6_000);
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

    /// A later caller may wait, and the message may begin after the first caller has gone.
    #[test]
    fn message_of_a_gone_caller_goes_to_the_next() {
        for begins_before in [true, false] {
            let mut incoming = Incoming::new(10_000, 1_000);
            let [first, second] = [(); 2].map(|()| incoming.reserve(None).0);
            if begins_before {
                assert!(incoming.begin(first, 500));
                incoming.whole(first);
            }
            incoming.release(first);
            if !begins_before {
                assert!(incoming.begin(first, 500));
                incoming.whole(first);
            }
            assert_eq!(incoming.reserve(None), (first, false));
            assert!(matches!(incoming.take(first), Some(Outcome::Message(_))), "{begins_before}");
            assert_eq!((incoming.reserve(None).0, second), (2, 1));
        }
    }

    /// The peer has heard that the message arrived.
    #[test]
    fn whole_message_is_taken_without_room_for_it() {
        let mut incoming = Incoming::new(10_000, 1_000);
        assert!(incoming.begin(0, 5_000));
        incoming.whole(0);
        assert_eq!(incoming.reserve(Some(vec![BytesMut::zeroed(10)])), (0, false));
        assert!(matches!(incoming.take(0), Some(Outcome::Message(_))));
    }

    #[test]
    fn order_of_gone_callers_does_not_matter() {
        let mut incoming = Incoming::new(10_000, 1_000);
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            (0..3).for_each(|number| assert_eq!(incoming.reserve(None), (number, false)));
            order.into_iter().for_each(|number| incoming.release(number));
            assert!(incoming.free.is_empty() && incoming.next == 0, "{order:?}");
        }
    }

    #[test]
    fn refused_messages_leave_no_record() {
        let mut incoming = Incoming::new(10_000, 1_000);
        // Too long, and given up or whole all the same.
        (0..2).for_each(|number| assert_eq!(incoming.reserve(None), (number, false)));
        for number in 0..2 {
            assert!(!incoming.begin(number, 5_000));
            assert!(incoming.memory(number).is_none());
            assert!(matches!(incoming.take(number), Some(Outcome::TooLong { length: 5_000 })));
        }
        incoming.given_up(0, 5_000);
        incoming.whole(1);
        assert!(incoming.messages.is_empty() && incoming.refused.is_empty());
        assert_eq!(incoming.limits(0).0, 10_000 + 10_000);
    }

    #[test]
    fn no_caller_receives_any_more() {
        let mut incoming = Incoming::new(10_000, 1_000);
        assert!(incoming.begin(0, 500) && incoming.begin(1, 500));
        incoming.whole(0);
        assert_eq!(incoming.refuse_all(), [1]);
        assert!(!incoming.begin(2, 1 << 40));
        incoming.given_up(1, 500);
        incoming.given_up(2, 1 << 40);
        incoming.given_up(3, 7);
        assert!(incoming.messages.is_empty() && incoming.refused.is_empty());
        assert_eq!(incoming.limits(4), (u64::MAX, 4 + MAX_AHEAD));
    }
}
