//! The properties of the messages of one end that every network leaves intact.

use rails_celeritas::proto::sender::Segment;
use rangemap::RangeSet;
use std::{collections::BTreeMap, ops::Range};

/// The messages of one end, as the network has seen them.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    messages: BTreeMap<u32, Message>,
    /// A damaged header has placed bytes elsewhere: the receiver cannot know.
    pub(crate) deceived: bool,
}

#[derive(Debug, Default)]
struct Message {
    length: u64,
    sent: RangeSet<u64>,
    arrived: RangeSet<u64>,
    is_begun: bool,
    is_whole: bool,
    is_delivered: bool,
    /// The sender gave the message up.
    is_abandoned: bool,
    /// The receiver knows that the message was given up.
    is_given_up: bool,
    /// A caller has the message.
    is_taken: bool,
    /// A caller has heard that there was no room for the message.
    is_too_long: bool,
}

impl Oracle {
    pub(crate) fn submitted(&mut self, number: u32, length: u64) {
        let message = Message { length, ..Message::default() };
        assert!(self.messages.insert(number, message).is_none(), "message {number} twice");
    }

    pub(crate) fn length(&self, number: u32) -> u64 {
        self.messages[&number].length
    }

    pub(crate) fn sent(&mut self, segment: &Segment) {
        let header = &segment.header;
        let message = self.messages.get_mut(&header.message).expect("it was submitted");
        assert_eq!(message.length, header.message_len);
        let bytes = header.in_message..header.in_message + u64::from(segment.payload_len);
        assert_eq!(segment.is_again, message.sent.overlaps(&bytes), "{segment:?}");
        assert!(!message.is_delivered, "bytes of a message that has arrived are sent: {segment:?}");
        message.sent.insert(bytes);
    }

    pub(crate) fn arrived(&mut self, number: u32, new: &[Range<u64>]) {
        let message = self.messages.get_mut(&number).expect("it was submitted");
        for range in new {
            assert!(self.deceived || !message.arrived.overlaps(range), "bytes {range:?} of message {number} twice");
            assert!(range.end <= message.length);
            message.arrived.insert(range.clone());
        }
    }

    pub(crate) fn duplicate(&mut self, number: u32, bytes: Range<u64>) {
        let message = &self.messages[&number];
        let known = message.is_given_up || message.arrived.gaps(&bytes).next().is_none();
        assert!(self.deceived || known, "bytes {bytes:?} of message {number} were taken for a duplicate");
    }

    pub(crate) fn begun(&mut self, number: u32, length: u64) {
        if self.deceived {
            return;
        }
        let message = self.messages.get_mut(&number).expect("it was submitted");
        assert!(!message.is_begun && message.length == length);
        message.is_begun = true;
    }

    pub(crate) fn whole(&mut self, number: u32) {
        if self.deceived {
            return;
        }
        let message = self.messages.get_mut(&number).expect("it was submitted");
        assert!(message.is_begun && !message.is_whole, "message {number} is whole twice");
        message.is_whole = true;
    }

    pub(crate) fn delivered(&mut self, number: u32) {
        let message = self.messages.get_mut(&number).expect("it was submitted");
        assert!(!message.is_delivered, "message {number} is delivered twice");
        let is_whole = message.arrived.gaps(&(0..message.length)).next().is_none();
        assert!(self.deceived || is_whole && message.is_whole, "message {number} is delivered with bytes missing");
        assert!(!message.is_too_long, "message {number} is delivered, and the receiver has dropped it");
        message.is_delivered = true;
    }

    pub(crate) fn abandoned(&mut self, number: u32) {
        self.messages.get_mut(&number).expect("it was submitted").is_abandoned = true;
    }

    pub(crate) fn given_up(&mut self, number: u32) {
        let message = self.messages.get_mut(&number).expect("it was submitted");
        assert!(message.is_abandoned && !message.is_given_up && !message.is_whole);
        message.is_given_up = true;
    }

    pub(crate) fn taken(&mut self, number: u32) {
        let message = self.messages.get_mut(&number).expect("it was submitted");
        assert!(!std::mem::replace(&mut message.is_taken, true), "message {number} is taken twice");
    }

    pub(crate) fn too_long(&mut self, number: u32) {
        let message = self.messages.get_mut(&number).expect("it was submitted");
        assert!(!message.is_delivered, "message {number} was delivered, and there is no room for it");
        message.is_too_long = true;
    }

    /// Whether callers have all messages of which the sender knows that they have arrived.
    pub(crate) fn is_taken(&self) -> bool {
        self.messages.values().all(|message| message.is_taken || !message.is_delivered)
    }

    /// How many messages have arrived as a whole, and how many the receiver knows to be given up.
    pub(crate) fn ends(&self) -> (usize, usize) {
        let count = |is: fn(&Message) -> bool| self.messages.values().filter(|message| is(message)).count();
        (count(|message| message.is_whole), count(|message| message.is_given_up))
    }

    /// Whether all messages have arrived, and their sender knows it.
    pub(crate) fn is_satisfied(&self) -> bool {
        self.messages
            .values()
            .all(|message| message.is_whole && (message.is_delivered || message.is_abandoned) || message.is_given_up)
    }

    /// Whether the sender knows of every message that it has arrived, or has given it up.
    pub(crate) fn is_settled(&self) -> bool {
        self.messages.values().all(|message| message.is_delivered || message.is_abandoned)
    }
}
