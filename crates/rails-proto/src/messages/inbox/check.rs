//! Checks of chunks of messages, and their place in the stream.

use super::{Inbox, Item, Kind};
use crate::{
    chunk::{Content, Packet, Part, Priority},
    messages::{PREFIX, message_space, packet_space},
    violation::{MessageViolation, Violation},
    wire::DataHeader,
};

/// The place of a chunk.
pub(super) enum Found {
    /// The application has read the chunk.
    Read,
    /// The chunk's packet or message has begun to arrive.
    Known,
    New,
}

impl Inbox {
    /// Checks that no message is missing when everything has arrived.
    ///
    /// # Errors
    /// [`MessageViolation::Missing`].
    pub fn check_the_end(&self) -> Result<(), Violation> {
        if !self.is_complete() {
            return Ok(());
        }
        for (priority, index) in (0u8..).map_while(Priority::new).zip(&self.indexes) {
            if let Some(number) = index.first_missing(|base| self.items.get(base).map_or(1, Item::count)) {
                return Err(MessageViolation::Missing { priority, number }.into());
            }
        }
        Ok(())
    }

    /// Finds the place of a chunk, if there may be such a chunk.
    pub(super) fn find(&self, header: &DataHeader, content: &Content) -> Result<Found, Violation> {
        let (base, length) = extent(header, content)?;
        let end = base.saturating_add(length);
        self.window.check(end, header.fin, self.highest())?;
        if header.fin {
            return Ok(Found::New);
        }
        if end <= self.window.bytes_read() {
            return Ok(Found::Read);
        }
        let conflict = Err(MessageViolation::Conflict { offset: base }.into());
        if base < self.window.bytes_read() {
            return conflict;
        }
        if let Some((at, item)) = self.items.range(..end).next_back()
            && item.end > base
        {
            return match &item.kind {
                Kind::Read if *at <= base && end <= item.end => Ok(Found::Read),
                kind if *at == base && end == item.end && kind.is_of(content) => Ok(Found::Known),
                _ => conflict,
            };
        }
        let (priority, number, count) = match content {
            Content::Bytes => return conflict,
            Content::Packet(packet) => (packet.priority, packet.first, packet.count),
            Content::Part(part) => (part.priority, part.number, 1),
        };
        let known = |base: &u64| self.items.get(base).map_or((1, 0), |item| (item.count(), item.end));
        if self.indexes[priority.index()].fits(number, count, base..end, known) {
            Ok(Found::New)
        } else {
            Err(MessageViolation::Number { priority, number, offset: base }.into())
        }
    }
}

impl Kind {
    /// Whether a chunk with this content belongs to this packet or message, and states the same
    /// about it.
    fn is_of(&self, content: &Content) -> bool {
        match (self, content) {
            (Self::Packet { packet, .. }, Content::Packet(said)) => packet == said,
            (Self::Message { priority, number, total, .. }, Content::Part(said)) => {
                (*priority, *number, *total) == (said.priority, said.number, said.total)
            }
            _ => false,
        }
    }
}

/// The offset at which a chunk's packet or message begins, and the length of its range.
fn extent(header: &DataHeader, content: &Content) -> Result<(u64, u64), MessageViolation> {
    let length = header.length;
    match content {
        Content::Bytes => Ok((header.offset, 0)),
        Content::Packet(Packet { count, .. }) => {
            let least = u64::from(*count) * PREFIX as u64;
            if *count == 0 || u64::from(length) < least || header.fin {
                return Err(MessageViolation::Packet { length, count: *count });
            }
            Ok((header.offset, packet_space(length)))
        }
        Content::Part(Part { total, at, .. }) => {
            let base = header.offset.checked_sub((*at).into());
            let inside = at.checked_add(length).is_some_and(|end| end <= *total);
            match base.filter(|_| length > 0 && inside && !header.fin) {
                Some(base) => Ok((base, message_space(*total))),
                None => Err(MessageViolation::Part { length, at: *at, total: *total }),
            }
        }
    }
}

/// Whether the packet consists of exactly `count` messages.
pub(super) fn holds(mut packet: &[u8], count: u32) -> bool {
    let mut found = 0;
    while let Some((length, rest)) = packet.split_first_chunk::<PREFIX>() {
        let Some(rest) = rest.get(u32::from_be_bytes(*length) as usize..) else { return false };
        packet = rest;
        found += 1;
    }
    packet.is_empty() && found == count
}
