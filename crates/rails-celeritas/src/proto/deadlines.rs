//! The deadlines of messages.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

/// The deadlines of messages that are under way.
#[derive(Debug, Default)]
pub struct Deadlines {
    by_time: BTreeSet<(Instant, u32)>,
    by_message: BTreeMap<u32, Instant>,
}

impl Deadlines {
    /// Sets the deadline of a message, once.
    pub fn set(&mut self, message: u32, at: Instant) {
        self.by_message.insert(message, at);
        self.by_time.insert((at, message));
    }

    /// The message has ended.
    pub fn remove(&mut self, message: u32) {
        if let Some(at) = self.by_message.remove(&message) {
            self.by_time.remove(&(at, message));
        }
    }

    /// The deadline of a message.
    pub fn of(&self, message: u32) -> Option<Instant> {
        self.by_message.get(&message).copied()
    }

    /// The earliest deadline.
    pub fn first(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes out a message whose deadline has come.
    pub fn pop(&mut self, now: Instant) -> Option<u32> {
        let (_, message) = self.by_time.first().copied().filter(|(at, _)| *at <= now)?;
        self.remove(message);
        Some(message)
    }
}
