//! Messages that wait to be cut into chunks, by priority.

use super::{PREFIX, longest_packet, message_space, packet_space};
use crate::{
    chunk::{Chunk, ChunkKind, Content, Packet, Part, Priority},
    stream_number::StreamNumber,
};
use bytes::{BufMut, Bytes, BytesMut};
use smallvec::{SmallVec, smallvec};
use std::{collections::VecDeque, fmt};

/// The messages that wait to be cut: the most urgent first, and within a priority in the order in
/// which the application sent them.
///
/// The outbox appends small messages to each other as they come, and cuts packets from them that
/// are as long as a lane takes. It reserves a message's range of the stream with the first cut, and
/// only if the peer's window has room for the whole message: so each message that has begun can
/// end, even if others wait. While a message waits for room, no less urgent one begins, or the
/// message could wait for ever.
pub(crate) struct Outbox {
    queues: [Queue; Priority::LEVELS],
    /// Messages up to this length, with their prefix, go into packets.
    longest_small: usize,
    /// The bytes that wait, with the prefixes of small messages.
    bytes: usize,
    /// The waiting bytes whose range is reserved.
    reserved: usize,
    /// The offset at which the next message begins.
    next: u64,
    finished: bool,
    end_cut: bool,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// The number of the next message.
    next: u64,
}

enum Entry {
    /// Small messages in their wire form, and their count.
    Small { encoded: BytesMut, first: u64, count: u32 },
    /// The rest of a large message, and its beginning, if its range is reserved.
    Large { rest: Bytes, total: u32, number: u64, begins: Option<Beginning> },
}

/// The place at which a large message begins.
#[derive(Clone, Copy)]
struct Beginning {
    /// The offset in the stream.
    offset: u64,
    /// The position in the session.
    position: u64,
}

impl Outbox {
    /// Creates an empty outbox for a peer with that window; no chunk may be longer than
    /// `longest_chunk`.
    pub(crate) fn new(longest_chunk: usize, window: u64) -> Self {
        // A packet of gathered messages is never split, so the window must sooner or later have room for
        // it.
        let longest_packet = usize::try_from(longest_packet(window)).unwrap_or(usize::MAX);
        Self {
            queues: Default::default(),
            longest_small: longest_chunk.min(GATHERED).min(longest_packet),
            bytes: 0,
            reserved: 0,
            next: 0,
            finished: false,
            end_cut: false,
        }
    }

    /// Takes a message.
    ///
    /// # Panics
    /// After [`Outbox::finish`], and if the message is longer than a message can be. The caller
    /// checks the length first.
    pub(crate) fn send(&mut self, priority: Priority, message: Bytes) {
        assert!(!self.finished, "no message is sent on a stream that was finished");
        let queue = &mut self.queues[priority.index()];
        let number = queue.next;
        queue.next += 1;
        let encoded_length = PREFIX + message.len();
        if encoded_length > self.longest_small {
            let total = u32::try_from(message.len()).expect("no window is that large");
            self.bytes += message.len();
            queue.entries.push_back(Entry::Large { rest: message, total, number, begins: None });
            return;
        }
        self.bytes += encoded_length;
        let gathers = |entry: &&mut Entry| matches!(entry, Entry::Small { encoded, .. } if encoded.len() + encoded_length <= self.longest_small);
        if queue.entries.back_mut().filter(gathers).is_none() {
            queue.entries.push_back(Entry::Small { encoded: BytesMut::new(), first: number, count: 0 });
        }
        if let Some(Entry::Small { encoded, count, .. }) = queue.entries.back_mut() {
            encoded.put_u32(message.len() as u32);
            encoded.put_slice(&message);
            *count += 1;
        }
    }

    /// The application will send no more messages.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
    }

    /// Discards the waiting messages and the end. Returns how many bytes there were.
    pub(crate) fn give_up(&mut self) -> u64 {
        self.queues = Default::default();
        (self.finished, self.end_cut, self.reserved) = (true, true, 0);
        std::mem::take(&mut self.bytes) as u64
    }

    /// Whether [`Outbox::finish`] was called.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether a lane has taken the end.
    pub(crate) fn is_end_cut(&self) -> bool {
        self.end_cut
    }

    /// How many bytes wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The offset behind every message that has begun.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The position of the first byte that waits and whose range is reserved.
    pub(crate) fn reserved_from(&self) -> Option<u64> {
        if self.reserved == 0 {
            return None;
        }
        let begun = |queue: &Queue| match queue.entries.front() {
            Some(Entry::Large { rest, total, begins: Some(begins), .. }) => {
                Some(begins.position + u64::from(*total) - rest.len() as u64)
            }
            _ => None,
        };
        self.queues.iter().filter_map(begun).min()
    }

    /// About how many bytes below `limit` wait; `None` if there is nothing to cut, not even the
    /// end.
    pub(crate) fn ready(&self, limit: u64) -> Option<usize> {
        if self.bytes == 0 {
            return (self.finished && !self.end_cut).then_some(0);
        }
        self.first(limit)?;
        let room = usize::try_from(limit.saturating_sub(self.next)).unwrap_or(usize::MAX);
        Some(self.bytes.min(room.saturating_add(self.reserved)))
    }

    /// Cuts the next chunk, below `limit` and of at most `max` bytes. A small message is never cut
    /// in two, so it may exceed `max`. A message that begins with the chunk, begins at `position`
    /// in the session.
    pub(crate) fn cut(&mut self, limit: u64, max: usize, position: u64) -> Option<Chunk> {
        if self.bytes == 0 {
            return self.cut_end(position);
        }
        let priority = self.first(limit)?;
        match self.queues[priority.index()].entries.front()? {
            Entry::Small { .. } => Some(self.cut_packet(priority, limit, max, position)),
            Entry::Large { .. } => self.cut_part(priority, max, position),
        }
    }

    /// The priority of the next message to cut.
    fn first(&self, limit: u64) -> Option<Priority> {
        let mut blocked = false;
        Priority::descending().find(|priority| match self.queues[priority.index()].entries.front() {
            None => false,
            Some(Entry::Large { begins: Some(_), .. }) => true,
            Some(entry) => {
                blocked |= self.next.saturating_add(entry.space()) > limit;
                !blocked
            }
        })
    }

    fn cut_end(&mut self, position: u64) -> Option<Chunk> {
        if !self.finished || std::mem::replace(&mut self.end_cut, true) {
            return None;
        }
        let (stream, offset, payload) = (StreamNumber::FIRST, self.next, SmallVec::new());
        Some(Chunk {
            position,
            stream,
            offset,
            payload,
            length: 0,
            fin: true,
            content: Content::Bytes,
            kind: ChunkKind::Stream,
        })
    }

    fn cut_packet(&mut self, priority: Priority, limit: u64, max: usize, position: u64) -> Chunk {
        let queue = &mut self.queues[priority.index()];
        let (mut payload, mut length, mut content) = (SmallVec::new(), 0, None);
        let max = max.min(LONGEST_PACKET);
        while let Some(Entry::Small { encoded, first, count }) = queue.entries.front_mut() {
            let longer = length + encoded.len();
            let fits = longer <= max && self.next.saturating_add(packet_space(longer as u32)) <= limit;
            if !payload.is_empty() && !fits {
                break;
            }
            length = longer;
            let packet = content.get_or_insert(Packet { priority, first: *first, count: 0 });
            packet.count += *count;
            payload.push(encoded.split().freeze());
            queue.entries.pop_front();
        }
        let content = content.map_or(Content::Bytes, Content::Packet);
        let offset = self.next;
        self.next += packet_space(length as u32);
        self.bytes -= length;
        let (stream, length) = (StreamNumber::FIRST, length as u32);
        Chunk { position, stream, offset, payload, length, fin: false, content, kind: ChunkKind::Stream }
    }

    fn cut_part(&mut self, priority: Priority, max: usize, position: u64) -> Option<Chunk> {
        let queue = &mut self.queues[priority.index()];
        let Some(Entry::Large { rest, total, number, begins }) = queue.entries.front_mut() else { return None };
        let begins = *begins.get_or_insert_with(|| {
            let offset = self.next;
            self.next += message_space(*total);
            self.reserved += *total as usize;
            Beginning { offset, position }
        });
        let at = *total - rest.len() as u32;
        let payload = rest.split_to(max.clamp(1, rest.len()));
        let length = payload.len();
        let content = Content::Part(Part { priority, number: *number, total: *total, at });
        if rest.is_empty() {
            queue.entries.pop_front();
        }
        self.bytes -= length;
        self.reserved -= length;
        let Beginning { offset, position } = begins;
        let (position, offset) = (position + u64::from(at), offset + u64::from(at));
        let (stream, payload, length) = (StreamNumber::FIRST, smallvec![payload], length as u32);
        Some(Chunk { position, stream, offset, payload, length, fin: false, content, kind: ChunkKind::Stream })
    }
}

impl Entry {
    /// How much of the window the entry takes up, if nothing of it has been cut.
    fn space(&self) -> u64 {
        match self {
            Self::Small { encoded, .. } => packet_space(encoded.len() as u32),
            Self::Large { total, .. } => message_space(*total),
        }
    }
}

/// Shows the counts without the messages.
impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, reserved, next, finished, end_cut, .. } = self;
        write!(
            f,
            "Outbox {{ bytes: {bytes}, reserved: {reserved}, next: {next}, finished: {finished}, end_cut: {end_cut} }}"
        )
    }
}

/// The most bytes of small messages that are gathered as they come, and the longest small message.
/// A copy of this number of bytes takes a microsecond, and a slow lane takes no fewer at a time.
const GATHERED: usize = 16 << 10;
/// The longest packet: beyond this, aggregation gains nothing, and more urgent messages would wait
/// behind it.
const LONGEST_PACKET: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{MIN_WINDOW, longest_message};

    const WINDOW: u64 = 16 << 20;

    /// Cuts from the only stream of a session.
    fn cut(outbox: &mut Outbox, limit: u64, max: usize) -> Option<Chunk> {
        outbox.cut(limit, max, outbox.next())
    }

    fn message(length: usize) -> Bytes {
        Bytes::from(vec![length as u8; length])
    }

    #[test]
    fn small_messages_travel_together() {
        let mut outbox = Outbox::new(512 << 10, WINDOW);
        (0..64).for_each(|_| outbox.send(Priority::NORMAL, message(64)));
        let chunk = cut(&mut outbox, 1 << 20, 64 << 10).unwrap();
        assert_eq!(chunk.content, Content::Packet(Packet { priority: Priority::NORMAL, first: 0, count: 64 }));
        assert_eq!((chunk.length, outbox.bytes(), outbox.next()), (64 * 68, 0, 4608));
        assert_eq!(outbox.ready(1 << 20), None);
    }

    #[test]
    fn urgent_message_in_the_middle_of_another() {
        let mut outbox = Outbox::new(512 << 10, WINDOW);
        outbox.send(Priority::LOWEST, message(100_000));
        let part = |at| Content::Part(Part { priority: Priority::LOWEST, number: 0, total: 100_000, at });
        assert_eq!(cut(&mut outbox, 1 << 20, 60_000).unwrap().content, part(0));
        outbox.send(Priority::HIGHEST, message(3));
        let urgent = cut(&mut outbox, 1 << 20, 60_000).unwrap();
        assert_eq!(urgent.content, Content::Packet(Packet { priority: Priority::HIGHEST, first: 0, count: 1 }));
        assert_eq!(urgent.offset, message_space(100_000));
        let rest = cut(&mut outbox, 1 << 20, 60_000).unwrap();
        assert_eq!((rest.content, rest.offset, rest.length), (part(60_000), 60_000, 40_000));
        assert_eq!(outbox.bytes(), 0);
    }

    #[test]
    fn no_message_is_begun_before_an_urgent_one() {
        let mut outbox = Outbox::new(512 << 10, WINDOW);
        outbox.send(Priority::LOWEST, message(50_000));
        outbox.send(Priority::LOWEST, message(5));
        cut(&mut outbox, 60_000, 10_000).unwrap();
        outbox.send(Priority::HIGHEST, message(50_000));
        let rest = cut(&mut outbox, 60_000, 60_000).unwrap();
        assert_eq!((rest.offset, rest.length), (10_000, 40_000));
        assert_eq!((outbox.ready(60_000), cut(&mut outbox, 60_000, 60_000)), (None, None));
        let urgent = cut(&mut outbox, 120_000, 60_000).unwrap();
        assert_eq!((urgent.offset, urgent.length), (message_space(50_000), 50_000));
        assert!(cut(&mut outbox, 120_000, 60_000).is_some());
    }

    #[test]
    fn an_empty_message_is_one_and_the_end_comes_last() {
        let mut outbox = Outbox::new(512 << 10, WINDOW);
        outbox.send(Priority::NORMAL, Bytes::new());
        outbox.finish();
        let chunk = cut(&mut outbox, 512, 1).unwrap();
        assert_eq!((chunk.length, chunk.fin), (4, false));
        assert_eq!(outbox.ready(512), Some(0));
        let end = cut(&mut outbox, 512, 1).unwrap();
        assert_eq!((end.offset, end.length, end.fin), (512, 0, true));
        assert!(outbox.is_end_cut() && cut(&mut outbox, 512, 1).is_none());
    }

    #[test]
    fn gathered_messages_in_a_small_window() {
        for window in (MIN_WINDOW..12_000).step_by(100) {
            let mut outbox = Outbox::new(window as usize, window);
            let longest = longest_message(window) as usize;
            for length in [longest / 2, longest / 2, longest, 100, 0, longest - 1, 700, longest / 3] {
                outbox.send(Priority::NORMAL, message(length.min(longest)));
            }
            // The peer may have read a quarter of the window without having told this end.
            while outbox.bytes() > 0 {
                let limit = outbox.next() + (window - window / 4);
                let chunk = cut(&mut outbox, limit, usize::MAX);
                assert!(chunk.is_some(), "with a window of {window} bytes the message waits for ever");
            }
        }
    }
}
