//! The window of the receiving side: how far the application has read, how much has arrived, and
//! where the stream ends.

use crate::violation::Violation;

/// Counts the bytes of a stream, or the slots of its messages, that arrive and are read. The caller
/// keeps the bytes.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    size: u64,
    /// The application has read everything below this offset.
    read: u64,
    /// How much of the stream has arrived, read or not.
    arrived: u64,
    /// The bytes that arrived more than once.
    duplicated: u64,
    /// The offset at which the stream ends, if it is known.
    end: Option<u64>,
}

impl ReceiveWindow {
    /// A window of `size` bytes, of which none has arrived, for a stream that ends at `end`, if
    /// that is known.
    pub(crate) fn new(size: u64, end: Option<u64>) -> Self {
        Self { size, read: 0, arrived: 0, duplicated: 0, end }
    }

    /// Sets another size, which is not less.
    pub(crate) fn grow(&mut self, size: u64) {
        self.size = self.size.max(size);
    }

    /// Checks that a chunk may end at `end`, and with `fin` that the stream may end there;
    /// `highest` is the end of the last byte that has arrived.
    pub(crate) fn check(&self, end: u64, fin: bool, highest: u64) -> Result<(), Violation> {
        if end > self.limit() {
            return Err(Violation::BeyondWindow { end, limit: self.limit() });
        }
        match self.end {
            Some(known) if end > known => Err(Violation::BeyondEnd { chunk_end: end, end: known }),
            Some(known) if fin && end != known => Err(Violation::EndMoved { end }),
            None if fin && end < highest => Err(Violation::EndMoved { end }),
            _ => Ok(()),
        }
    }

    /// The stream ends at `offset`.
    pub(crate) fn end_at(&mut self, offset: u64) {
        self.end = Some(offset);
    }

    /// The application has read everything below `offset`.
    pub(crate) fn read_to(&mut self, offset: u64) {
        self.read = offset;
    }

    /// Counts new bytes that have arrived.
    pub(crate) fn add_arrived(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    /// Counts bytes that have arrived again.
    pub(crate) fn add_duplicated(&mut self, bytes: u64) {
        self.duplicated += bytes;
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The offset that the peer must not pass.
    pub(crate) fn limit(&self) -> u64 {
        self.read.saturating_add(self.size)
    }

    /// The offset up to which the application has read the stream.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read
    }

    /// How much of the stream has arrived, read or not.
    pub(crate) fn bytes_arrived(&self) -> u64 {
        self.arrived
    }

    /// How many bytes arrived more than once.
    pub(crate) fn bytes_duplicated(&self) -> u64 {
        self.duplicated
    }

    /// The offset at which the stream ends, if it is known.
    pub(crate) fn end(&self) -> Option<u64> {
        self.end
    }

    /// Whether the whole stream has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.end == Some(self.arrived)
    }

    /// Whether the application has read the whole stream.
    pub(crate) fn is_finished(&self) -> bool {
        self.end == Some(self.read)
    }
}
