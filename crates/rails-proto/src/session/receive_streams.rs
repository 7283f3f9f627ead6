//! The receiving sides of all streams of a session, and the window that they share.

use super::{ByteCount, Reordered, WindowUse, receive_stream::ReceiveStream};
use crate::{
    parameters::TransportParameters, stream_map::StreamMap, stream_number::StreamNumber, violation::Violation,
    wire::DataHeader,
};

/// The receiving sides of all streams.
///
/// Credit is counted, not placed: the peer may send a window more than the application has read, in
/// all streams together. So an unread stream takes no more of the window than its own.
#[derive(Debug)]
pub(super) struct ReceiveStreams {
    streams: StreamMap<ReceiveStream>,
    /// The longest chunk that this end takes, in bytes.
    longest_chunk: u32,
    window: u64,
    sums: Sums,
    /// The most bytes of the window in use so far.
    max_window_used: u64,
    /// The counts of streams that are forgotten.
    forgotten: Counts,
}

/// Figures of all streams together.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Bytes that the application has read, or that are discarded.
    read: u64,
    /// Bytes up to the last one that has arrived in each stream.
    sent: u64,
    /// The memory of bytes that have arrived or begun to arrive.
    memory: u64,
    /// Streams with something to read.
    readable: usize,
    /// Streams that hold bytes of which none can be read.
    gapped: usize,
}

/// What is counted when it is asked for.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    in_order: u64,
    duplicated: ByteCount,
}

impl ReceiveStreams {
    /// No stream yet, of an end that tells its peer these parameters.
    pub(super) fn new(parameters: TransportParameters) -> Self {
        let TransportParameters { longest_chunk, window, .. } = parameters;
        Self {
            streams: StreamMap::new(),
            longest_chunk,
            window,
            sums: Sums::default(),
            max_window_used: 0,
            forgotten: Counts::default(),
        }
    }

    /// Opens a stream with that window, which the peer knows.
    pub(super) fn open(&mut self, number: StreamNumber, window: u64) {
        self.streams.insert(number, ReceiveStream::new(window));
    }

    /// A stream that is open.
    pub(super) fn get(&self, number: StreamNumber) -> Option<&ReceiveStream> {
        self.streams.get(number)
    }

    /// The streams that are open.
    pub(super) fn numbers(&self) -> impl Iterator<Item = StreamNumber> + '_ {
        self.streams.keys()
    }

    /// Calls `act` with a stream, and brings the figures up to date. `None` if the stream is not
    /// open.
    pub(super) fn act<T>(&mut self, number: StreamNumber, act: impl FnOnce(&mut ReceiveStream) -> T) -> Option<T> {
        let stream = self.streams.get_mut(number)?;
        let before = Sums::of(stream);
        let result = act(stream);
        self.sums = self.sums.plus(Sums::of(stream)).minus(before);
        Some(result)
    }

    /// As [`act`](Self::act), for bytes of the peer.
    ///
    /// # Errors
    /// Those of `act`, and [`Violation::BeyondWindow`] if the peer has sent more in all streams
    /// than it may.
    pub(super) fn take<T>(
        &mut self,
        number: StreamNumber,
        act: impl FnOnce(&mut ReceiveStream) -> Result<T, Violation>,
    ) -> Result<Option<T>, Violation> {
        // Bytes that nobody takes count as read at once, and make room for none that come with them.
        let limit = self.limit();
        let taken = self.act(number, act).transpose()?;
        let end = self.sums.sent;
        if end > limit {
            return Err(Violation::BeyondWindow { end, limit });
        }
        self.max_window_used = self.max_window_used.max(self.window_used());
        Ok(taken)
    }

    /// Forgets a stream that is done. Returns whether it is forgotten now.
    pub(super) fn forget(&mut self, number: StreamNumber) -> bool {
        let Some(stream) = self.streams.get(number).filter(|stream| stream.is_done()) else { return false };
        self.forgotten.add(stream);
        self.streams.remove(number);
        true
    }

    /// A lane has ended.
    pub(super) fn lane_down(&mut self, lane: usize) {
        self.streams.values_mut().for_each(|stream| stream.lane_down(lane));
    }

    /// Checks the length of a chunk, before the driver takes memory for it.
    ///
    /// # Errors
    /// [`Violation::TooLong`].
    pub(super) fn check_length(&self, header: &DataHeader) -> Result<(), Violation> {
        let (length, longest) = (header.length, self.longest_chunk);
        if length > longest { Err(Violation::TooLong { length, longest }) } else { Ok(()) }
    }

    /// How much the peer may send in all streams together.
    pub(super) fn limit(&self) -> u64 {
        self.sums.read.saturating_add(self.window)
    }

    /// How much the peer has sent in all streams together, up to the last byte of each that has
    /// arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.sums.sent
    }

    /// The size of the window.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// How much of the window is in use.
    pub(super) fn window_use(&self) -> WindowUse {
        WindowUse { size_bytes: self.window, used_bytes: self.window_used(), max_used_bytes: self.max_window_used }
    }

    fn window_used(&self) -> u64 {
        self.sums.sent - self.sums.read
    }

    /// How many bytes the application has read of all streams.
    pub(super) fn bytes_read(&self) -> u64 {
        self.sums.read
    }

    /// The memory of the bytes that have arrived, and of chunks that have begun to arrive.
    pub(super) fn memory_held(&self) -> u64 {
        self.sums.memory
    }

    /// Whether the application can read something of any stream.
    pub(super) fn is_any_readable(&self) -> bool {
        self.sums.readable > 0
    }

    /// Whether bytes wait for missing ones, and the application can read nothing.
    pub(super) fn await_missing(&self) -> bool {
        self.sums.gapped > 0 && self.sums.readable == 0
    }

    /// How many bytes have arrived in order, in all streams.
    pub(super) fn bytes_in_order(&self) -> u64 {
        self.counts().in_order
    }

    /// Bytes that arrived more than once, and the chunks that held such bytes.
    pub(super) fn duplicated(&self) -> ByteCount {
        self.counts().duplicated
    }

    fn counts(&self) -> Counts {
        let mut counts = self.forgotten;
        self.streams.values().for_each(|stream| counts.add(stream));
        counts
    }

    /// Bytes that wait for missing ones; `None` if every stream carries messages.
    pub(super) fn reordered(&self) -> Option<Reordered> {
        let add = |sum: Reordered, one: Reordered| Reordered {
            bytes: sum.bytes + one.bytes,
            max_bytes: sum.max_bytes.max(one.max_bytes),
        };
        self.streams.values().filter_map(ReceiveStream::reordered).reduce(add)
    }
}

impl Sums {
    fn of(stream: &ReceiveStream) -> Self {
        let (is_readable, holds_any) = (stream.is_readable(), stream.bytes_held() > 0);
        Self {
            read: stream.bytes_read(),
            sent: stream.highest(),
            memory: stream.memory_held(),
            readable: usize::from(is_readable),
            gapped: usize::from(holds_any && !is_readable && !stream.refuses()),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            read: self.read + other.read,
            sent: self.sent + other.sent,
            memory: self.memory + other.memory,
            readable: self.readable + other.readable,
            gapped: self.gapped + other.gapped,
        }
    }

    /// The sums without one of those that they are made of.
    fn minus(self, other: Self) -> Self {
        Self {
            read: self.read - other.read,
            sent: self.sent - other.sent,
            memory: self.memory - other.memory,
            readable: self.readable - other.readable,
            gapped: self.gapped - other.gapped,
        }
    }
}

impl Counts {
    fn add(&mut self, stream: &ReceiveStream) {
        self.in_order += stream.bytes_in_order();
        self.duplicated += stream.duplicated();
    }
}
