//! Chunks of messages in any order in, whole messages in order out, inside a bounded window.

mod check;
mod filling;
mod index;
#[cfg(test)]
mod tests;

use super::{MessageBuffer, assembly::Assembly, packet_space};
use crate::{
    chunk::{Content, Packet, Priority},
    receive_window::ReceiveWindow,
    violation::{MessageViolation, Violation},
    wire::DataHeader,
};
use bytes::Bytes;
use check::{Found, holds};
use filling::Claim;
pub use filling::Lent;
use index::Index;
use std::collections::BTreeMap;

/// The receiving side of a stream of messages.
///
/// Packets and large messages lie in the stream's offsets, each in [slots](super::SLOT) of its own,
/// and never outside the window. So the window bounds the memory, for any peer. When the first part
/// of a large message arrives, the inbox takes the message's one buffer. Each lane then fills its
/// piece of the buffer ([`Inbox::lend`]), without a copy. A lane reads a part that arrives for the
/// second time into a buffer of its own; the inbox copies it if the first lane is not done with the
/// part.
#[derive(Debug)]
pub struct Inbox {
    window: ReceiveWindow,
    /// Packets and messages behind the bytes that were read, by their offset; no two overlap.
    items: BTreeMap<u64, Item>,
    indexes: [Index; Priority::LEVELS],
    /// The part that each lane fills.
    claims: Vec<Claim>,
    /// The number of pieces of all messages. The scheduler of an honest peer has fewer chunks in
    /// flight than `max_pieces`.
    pieces: usize,
    /// The part of the window that unread packets and messages take, including those that have only
    /// begun to arrive.
    held: u64,
}

/// The content of a range of the stream.
#[derive(Debug)]
struct Item {
    end: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The application has read the range. Read neighbours are one range.
    Read,
    Packet {
        packet: Packet,
        bytes: Bytes,
    },
    Message {
        priority: Priority,
        number: u64,
        total: u32,
        content: Large,
    },
}

#[derive(Debug)]
enum Large {
    Assembling(Assembly),
    Whole(Bytes),
}

/// The memory for the bytes of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A buffer of the lane's own, which the lane then [hands
    /// in](crate::session::Session::handle_content).
    Own,
    /// The message's buffer: the lane [borrows](crate::session::Session::lend) its piece for
    /// as long as it reads without waiting.
    Message,
    /// The buffer of a message that begins: the inbox first needs a buffer of this number of bytes.
    NeedsBuffer(usize),
}

/// A received message, or several small ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Small messages. [`next_of_packet`](super::next_of_packet) takes them out one by one.
    Packet {
        /// The priority of all these messages.
        priority: Priority,
        /// The messages' bytes in wire form.
        bytes: Bytes,
    },
    /// One large message.
    Message {
        /// The message's priority.
        priority: Priority,
        /// The message's bytes.
        bytes: Bytes,
    },
}

impl Inbox {
    /// Creates an empty inbox that holds at most `window` bytes, for a stream that ends at `end`,
    /// if that is known.
    pub fn new(window: u64, end: Option<u64>) -> Self {
        Self {
            window: ReceiveWindow::new(window, end),
            items: BTreeMap::new(),
            indexes: Default::default(),
            claims: Vec::new(),
            pieces: 0,
            held: 0,
        }
    }

    /// Checks the header of a chunk that arrives on `lane`, and chooses the memory for its bytes.
    /// The buffer of a message that begins comes from `spare`.
    ///
    /// # Errors
    /// [`Violation`] if there cannot be such a chunk.
    pub fn admit(
        &mut self,
        lane: usize,
        header: &DataHeader,
        content: &Content,
        spare: &mut Option<MessageBuffer>,
    ) -> Result<Place, Violation> {
        let found = self.find(header, content)?;
        let Content::Part(part) = content else { return Ok(Place::Own) };
        let base = header.offset - u64::from(part.at);
        match found {
            Found::Read => return Ok(Place::Own),
            Found::Known => {}
            Found::New => {
                let Some(buffer) = spare.take_if(|buffer| buffer.len() == part.total as usize) else {
                    return Ok(Place::NeedsBuffer(part.total as usize));
                };
                self.begin(base, part, buffer);
            }
        }
        let max = self.max_pieces();
        let Some(assembly) = self.assembly(base) else { return Ok(Place::Own) };
        let before = assembly.pieces();
        let claimed = assembly.claim(lane as u8, part.at, header.length);
        let after = assembly.pieces();
        self.pieces = self.pieces + after - before;
        if self.pieces > max {
            return Err(Violation::Fragmented { max });
        }
        if !claimed {
            return Ok(Place::Own);
        }
        self.release(lane);
        if self.claims.len() <= lane {
            self.claims.resize_with(lane + 1, Claim::default);
        }
        self.claims[lane] = Claim::Piece { base, at: part.at };
        Ok(Place::Message)
    }

    /// Takes a chunk that arrived in a buffer of its own.
    ///
    /// # Errors
    /// [`Violation`], as [`Inbox::admit`] finds it, or because a packet does not hold the messages
    /// that its header states.
    pub fn insert(&mut self, header: &DataHeader, content: &Content, payload: Bytes) -> Result<(), Violation> {
        let length = u64::from(header.length);
        let was_complete = self.is_complete();
        match (self.find(header, content)?, content) {
            (Found::Read, _) | (Found::Known, Content::Packet(_)) => self.window.add_duplicated(length),
            (_, Content::Bytes) => self.window.end_at(header.offset),
            (Found::New, Content::Packet(packet)) => {
                if !holds(&payload, packet.count) {
                    return Err(MessageViolation::Packet { length: header.length, count: packet.count }.into());
                }
                let end = header.offset + packet_space(header.length);
                self.indexes[packet.priority.index()].insert(packet.first, header.offset);
                let kind = Kind::Packet { packet: *packet, bytes: payload };
                self.items.insert(header.offset, Item { end, kind });
                self.window.add_arrived(end - header.offset);
                self.held += end - header.offset;
            }
            (found, Content::Part(part)) => {
                let base = header.offset - u64::from(part.at);
                if matches!(found, Found::New) {
                    self.begin(base, part, MessageBuffer::zeroed(part.total as usize));
                }
                let new = self.change(base, |assembly| assembly.copy(part.at, &payload)).unwrap_or_default();
                self.window.add_duplicated(length - u64::from(new));
            }
        }
        // The check passes every unread message, and all chunks that come after everything has arrived are
        // copies.
        if was_complete { Ok(()) } else { self.check_the_end() }
    }

    /// Takes the most urgent message that is next in its priority, or the packet with it; `None` if
    /// there is none yet.
    pub fn read(&mut self) -> Option<Delivery> {
        let (priority, base) = self.first_readable()?;
        let item = self.items.get_mut(&base)?;
        let (count, delivery) = match std::mem::replace(&mut item.kind, Kind::Read) {
            Kind::Packet { packet, bytes } => (packet.count, Delivery::Packet { priority, bytes }),
            Kind::Message { content: Large::Whole(bytes), .. } => (1, Delivery::Message { priority, bytes }),
            // Every readable entry is a packet or a whole message.
            Kind::Read | Kind::Message { .. } => return None,
        };
        let end = item.end;
        self.held -= end - base;
        self.indexes[priority.index()].deliver(count, end);
        self.forget(base);
        Some(delivery)
    }

    /// Whether [`Inbox::read`] has a message to return.
    pub fn is_readable(&self) -> bool {
        self.first_readable().is_some()
    }

    /// Whether every message of the stream has arrived.
    pub fn is_complete(&self) -> bool {
        self.window.is_complete()
    }

    /// Whether the application has read every message of the stream.
    pub fn is_finished(&self) -> bool {
        self.window.is_finished()
    }

    /// Sets another window, which is not less.
    pub(crate) fn grow(&mut self, window: u64) {
        self.window.grow(window);
    }

    /// The offset that the peer must not pass.
    pub fn limit(&self) -> u64 {
        self.window.limit()
    }

    /// The offset up to which the application has read the stream.
    pub fn bytes_read(&self) -> u64 {
        self.window.bytes_read()
    }

    /// The offset up to which the stream has arrived without a gap.
    pub fn bytes_in_order(&self) -> u64 {
        let mut end = self.window.bytes_read();
        for (base, item) in &self.items {
            if *base != end || item.is_assembling() {
                break;
            }
            end = item.end;
        }
        end
    }

    /// How many bytes arrived more than once.
    pub fn bytes_duplicated(&self) -> u64 {
        self.window.bytes_duplicated()
    }

    /// How many bytes of the window unread packets and messages take, including those that have
    /// only begun to arrive.
    pub fn bytes_held(&self) -> u64 {
        self.held
    }

    /// How many bytes of the window lie below the end of the last packet or message that has begun.
    pub(crate) fn window_used(&self) -> u64 {
        self.highest() - self.window.bytes_read()
    }

    /// Whether no message has arrived or begun to arrive.
    pub(crate) fn is_untouched(&self) -> bool {
        self.window.bytes_read() == 0 && self.items.is_empty()
    }

    /// The offset at which the stream ends, if it is known.
    pub(crate) fn end(&self) -> Option<u64> {
        self.window.end()
    }

    fn first_readable(&self) -> Option<(Priority, u64)> {
        Priority::descending().find_map(|priority| {
            let base = self.indexes[priority.index()].next_is_at()?;
            self.items.get(&base).filter(|item| !item.is_assembling()).map(|_| (priority, base))
        })
    }

    /// The application has read the entry at `base`. Joins it with read neighbours, and forgets it
    /// if everything before it has been read.
    fn forget(&mut self, base: u64) {
        let Some(mut item) = self.items.remove(&base) else { return };
        while let Some(next) = self.items.first_entry().filter(|_| base == self.window.bytes_read())
            && *next.key() == item.end
            && matches!(next.get().kind, Kind::Read)
        {
            item.end = next.remove().end;
        }
        if base == self.window.bytes_read() {
            self.window.read_to(item.end);
            return;
        }
        if self.items.get(&item.end).is_some_and(|next| matches!(next.kind, Kind::Read))
            && let Some(next) = self.items.remove(&item.end)
        {
            item.end = next.end;
        }
        match self.items.range_mut(..base).next_back() {
            Some((_, before)) if before.end == base && matches!(before.kind, Kind::Read) => before.end = item.end,
            _ => drop(self.items.insert(base, item)),
        }
    }

    /// The end of the last packet or message that has begun.
    fn highest(&self) -> u64 {
        self.items.last_key_value().map_or(self.window.bytes_read(), |(_, item)| item.end)
    }

    /// The most pieces of all messages: more than an honest sender has chunks in flight.
    fn max_pieces(&self) -> usize {
        2 * (crate::parameters::max_chunks(self.window.size()) + crate::parameters::MAX_LANES)
    }
}

impl Item {
    fn is_assembling(&self) -> bool {
        matches!(self.kind, Kind::Message { content: Large::Assembling(_), .. })
    }

    /// How many messages the entry holds.
    fn count(&self) -> u32 {
        if let Kind::Packet { packet, .. } = &self.kind { packet.count } else { 1 }
    }
}
