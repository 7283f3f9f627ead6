//! The receiving side of a stream: bytes or messages.

use super::{ByteCount, Reordered};
use crate::{
    chunk::Content,
    messages::{Delivery, Inbox, Lent, MessageBuffer, Place},
    mutation::{self, Mutation},
    reassembler::{Admission, Reassembler},
    violation::{Form, Violation},
    wire::DataHeader,
};
use bytes::Bytes;
use std::time::{Duration, Instant};

/// The receiving side of a stream.
#[derive(Debug)]
pub(super) struct ReceiveStream {
    received: ReceiveBuffer,
    /// Bytes or messages, once the application has chosen.
    form: Option<Form>,
    window: u64,
    /// Bytes and chunks that have arrived more than once.
    duplicates: ByteCount,
    /// The application reads no more.
    reading_stopped: bool,
    /// The offset up to which this end has read; set when the peer of a session that is one stream
    /// sends bytes that the application does not read.
    read_to: Option<u64>,
    /// The limit that this end has told the peer, and when.
    told: u64,
    told_at: Option<Instant>,
    /// The code with which the peer reset the stream.
    reset_code: Option<u64>,
    /// The application has dropped its handle.
    is_released: bool,
}

/// Bytes or messages. The form can change while nothing has arrived and the application has not
/// chosen.
#[derive(Debug)]
enum ReceiveBuffer {
    Bytes(Reassembler),
    Messages(Box<Inbox>),
    /// Nothing is kept: the application reads no more, or the peer has reset the stream.
    Discarded(Discarded),
}

/// A stream of which nothing is kept any more: how far it has been sent, as far as this end knows.
/// The window counts these bytes as read, and the peer gets no more credit for them.
#[derive(Debug)]
struct Discarded {
    highest: u64,
    end: Option<u64>,
    limit: u64,
    duplicated: u64,
}

impl ReceiveStream {
    /// Creates the receiving side of a stream with that window, which the peer knows.
    pub(super) fn new(window: u64) -> Self {
        let received = ReceiveBuffer::Bytes(Reassembler::new(window));
        Self {
            received,
            form: None,
            window,
            duplicates: ByteCount::default(),
            reading_stopped: false,
            read_to: None,
            told: window,
            told_at: None,
            reset_code: None,
            is_released: false,
        }
    }

    /// The form that the application has chosen.
    pub(super) fn form(&self) -> Option<Form> {
        self.form
    }

    /// The application uses the stream for `form`. The stream takes chunks of that form from here
    /// on.
    ///
    /// # Errors
    /// [`Violation::Form`], if chunks of the other form have arrived.
    pub(super) fn choose(&mut self, form: Form) -> Result<(), Violation> {
        self.form = Some(form);
        self.agree(form)
    }

    /// Takes chunks of that form from here on.
    ///
    /// # Errors
    /// [`Violation::Form`], if chunks of the other form have arrived.
    pub(super) fn agree(&mut self, form: Form) -> Result<(), Violation> {
        // The end fits either form.
        let (arrived, is_untouched, end) = match &self.received {
            ReceiveBuffer::Bytes(reassembler) => (Form::Bytes, reassembler.is_untouched(), reassembler.end()),
            ReceiveBuffer::Messages(inbox) => (Form::Messages, inbox.is_untouched(), inbox.end()),
            ReceiveBuffer::Discarded(_) => return Ok(()),
        };
        if arrived == form {
            return Ok(());
        }
        if !is_untouched {
            return Err(Violation::Form { arrived, expected: form });
        }
        self.received = match form {
            Form::Bytes => ReceiveBuffer::Bytes(Reassembler::with_end(self.window, end)),
            Form::Messages => ReceiveBuffer::Messages(Box::new(Inbox::new(self.window, end))),
        };
        Ok(())
    }

    /// The application reads no more.
    pub(super) fn stop_reading(&mut self) {
        self.reading_stopped = true;
    }

    pub(super) fn reading_stopped(&self) -> bool {
        self.reading_stopped
    }

    /// This end tells its peer that it has read the bytes before the offset `read`, and reads no
    /// more.
    pub(super) fn refuse(&mut self, read: u64) {
        self.read_to = Some(read);
    }

    /// The offset from which on this end refuses the bytes that still arrive, if it refuses them.
    pub(super) fn refused_from(&self) -> Option<u64> {
        self.read_to
    }

    /// Whether this end refuses the bytes that still arrive.
    pub(super) fn refuses(&self) -> bool {
        self.read_to.is_some()
    }

    // Many streams.

    /// The application reads no more. Returns whether lanes are to tell the peer, unless everything
    /// has arrived or the stream was stopped before.
    pub(super) fn stop(&mut self) -> bool {
        let tells = !self.is_complete() && !self.is_discarded();
        self.discard(None);
        tells
    }

    /// The peer has reset the stream at the offset `end`. A stream that has arrived whole, or was
    /// reset before, stays as it is.
    ///
    /// # Errors
    /// [`Violation`] if that contradicts the bytes that have arrived or the end that was told, or
    /// lies beyond the window.
    pub(super) fn reset(&mut self, code: u64, end: u64) -> Result<(), Violation> {
        let limit = self.limit();
        if end > limit {
            return Err(Violation::BeyondWindow { end, limit });
        }
        if end < self.highest() || self.end().is_some_and(|known| known != end) {
            return Err(Violation::EndMoved { end });
        }
        if self.is_complete() && !self.is_discarded() {
            return Ok(());
        }
        if self.reset_code.is_none() {
            self.reset_code = Some(code);
        }
        self.discard(Some(end));
        Ok(())
    }

    /// The code with which the peer reset the stream.
    pub(super) fn reset_code(&self) -> Option<u64> {
        self.reset_code
    }

    fn discard(&mut self, end: Option<u64>) {
        let end = end.or(self.end());
        let is_kept = mutation::has(Mutation::DiscardedNotRead);
        let highest = if is_kept { self.bytes_read() } else { self.highest().max(end.unwrap_or(0)) };
        let (limit, duplicated) = (self.limit(), self.bytes_duplicated());
        self.received = ReceiveBuffer::Discarded(Discarded { highest, end, limit, duplicated });
    }

    fn is_discarded(&self) -> bool {
        matches!(self.received, ReceiveBuffer::Discarded(_))
    }

    /// The application has dropped its handle.
    pub(super) fn release(&mut self) {
        self.is_released = true;
    }

    /// Whether bytes have arrived that nobody reads: the application has dropped its handle.
    pub(super) fn is_unread(&self) -> bool {
        self.is_released && self.bytes_held() > 0
    }

    /// Whether the application has dropped its handle, and nothing says yet how the stream ends.
    pub(super) fn is_left(&self) -> bool {
        self.is_released && !self.is_complete() && !self.is_discarded()
    }

    /// Whether nothing more comes of the stream, and the application has read all of it or reads no
    /// more.
    pub(super) fn is_over(&self) -> bool {
        self.is_complete() && (self.is_finished() || self.is_discarded())
    }

    /// Whether the stream can be forgotten.
    pub(super) fn is_done(&self) -> bool {
        self.is_over() && self.is_released
    }

    /// Whether the limit has moved so far since this end told it the peer that the peer needs the
    /// new one.
    pub(super) fn needs_limit_update(&self) -> bool {
        self.end().is_none() && !self.is_discarded() && self.limit() - self.told >= (self.window / 4).max(1)
    }

    /// The limit, which this end tells the peer now. The window doubles up to `max` if its last
    /// quarter was read within `soon`.
    pub(super) fn tell_limit(&mut self, now: Instant, soon: Duration, max: u64) -> u64 {
        if self.needs_limit_update() {
            let before = self.told_at.replace(now);
            if before.is_none_or(|at| now.saturating_duration_since(at) <= soon) {
                self.grow(self.window.saturating_mul(2).min(max));
            }
            self.told = self.limit();
        } else if mutation::has(Mutation::RecordsNotRenewed) {
            return self.window;
        }
        self.told
    }

    fn grow(&mut self, window: u64) {
        self.window = self.window.max(window);
        match &mut self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.grow(window),
            ReceiveBuffer::Messages(inbox) => inbox.grow(window),
            ReceiveBuffer::Discarded(_) => {}
        }
    }

    /// The offset at which the stream ends, if it is known.
    pub(super) fn end(&self) -> Option<u64> {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.end(),
            ReceiveBuffer::Messages(inbox) => inbox.end(),
            ReceiveBuffer::Discarded(discarded) => discarded.end,
        }
    }

    /// The offset behind the last byte that has arrived.
    pub(super) fn highest(&self) -> u64 {
        self.bytes_read() + self.window_used()
    }

    // Arrivals.

    /// Counts a chunk that has arrived. Returns how many of its bytes had arrived before.
    pub(super) fn count_arrival(&mut self) -> u64 {
        let duplicated = self.bytes_duplicated();
        // When the stream changes to messages, this count begins at zero again.
        let again = duplicated.saturating_sub(self.duplicates.bytes);
        self.duplicates.bytes = duplicated;
        self.duplicates.chunks += u64::from(again > 0);
        again
    }

    /// Bytes that arrived more than once, and the chunks that held such bytes.
    pub(super) fn duplicated(&self) -> ByteCount {
        ByteCount { bytes: self.bytes_duplicated(), chunks: self.duplicates.chunks }
    }

    /// Checks the header of a chunk of bytes, or of the end.
    pub(super) fn admit(&self, header: &DataHeader) -> Result<Admission, Violation> {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.admit(header),
            ReceiveBuffer::Discarded(discarded) => discarded.check(header).map(|()| Admission::Duplicate),
            // Only the end of the stream comes without content.
            ReceiveBuffer::Messages(_) if header.length == 0 && header.fin => Ok(Admission::New),
            ReceiveBuffer::Messages(_) => Err(Violation::Form { arrived: Form::Bytes, expected: Form::Messages }),
        }
    }

    /// Takes a chunk of bytes, or the end.
    pub(super) fn insert(&mut self, header: &DataHeader, payload: Bytes) -> Result<(), Violation> {
        match &mut self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.insert(header, payload),
            ReceiveBuffer::Discarded(discarded) => discarded.insert(header),
            ReceiveBuffer::Messages(inbox) if header.length == 0 && header.fin => {
                inbox.insert(header, &Content::Bytes, payload)
            }
            ReceiveBuffer::Messages(_) => Err(Violation::Form { arrived: Form::Bytes, expected: Form::Messages }),
        }
    }

    pub(super) fn admit_content(
        &mut self,
        lane: usize,
        header: &DataHeader,
        content: &Content,
        spare: &mut Option<MessageBuffer>,
    ) -> Result<Place, Violation> {
        if let ReceiveBuffer::Discarded(discarded) = &self.received {
            return discarded.check(header).map(|()| Place::Own);
        }
        self.messages()?.admit(lane, header, content, spare)
    }

    pub(super) fn insert_content(
        &mut self,
        header: &DataHeader,
        content: &Content,
        payload: Bytes,
    ) -> Result<(), Violation> {
        if let ReceiveBuffer::Discarded(discarded) = &mut self.received {
            return discarded.insert(header);
        }
        self.messages()?.insert(header, content, payload)
    }

    /// The memory for the rest of a part that `lane` receives; `None` if nothing is kept.
    pub(super) fn lend(&mut self, lane: usize) -> Option<Lent> {
        self.messages().ok()?.lend(lane)
    }

    pub(super) fn give_back(&mut self, lane: usize, piece: MessageBuffer, filled: usize) -> Result<(), Violation> {
        if self.is_discarded() {
            return Ok(());
        }
        let inbox = self.messages()?;
        inbox.give_back(lane, piece, filled);
        inbox.check_the_end()
    }

    pub(super) fn fill(&mut self, lane: usize, piece: MessageBuffer) -> Result<(), Violation> {
        if self.is_discarded() {
            return Ok(());
        }
        let inbox = self.messages()?;
        inbox.fill(lane, piece);
        inbox.check_the_end()
    }

    /// A lane has ended.
    pub(super) fn lane_down(&mut self, lane: usize) {
        if let ReceiveBuffer::Messages(inbox) = &mut self.received {
            inbox.release(lane);
        }
    }

    pub(super) fn read(&mut self) -> Option<Bytes> {
        match &mut self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.read(),
            ReceiveBuffer::Messages(_) | ReceiveBuffer::Discarded(_) => None,
        }
    }

    pub(super) fn read_message(&mut self) -> Option<Delivery> {
        match &mut self.received {
            ReceiveBuffer::Messages(inbox) => inbox.read(),
            ReceiveBuffer::Bytes(_) | ReceiveBuffer::Discarded(_) => None,
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.is_readable(),
            ReceiveBuffer::Messages(inbox) => inbox.is_readable(),
            ReceiveBuffer::Discarded(_) => false,
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.is_complete(),
            ReceiveBuffer::Messages(inbox) => inbox.is_complete(),
            ReceiveBuffer::Discarded(discarded) => discarded.end == Some(discarded.highest),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.is_finished(),
            ReceiveBuffer::Messages(inbox) => inbox.is_finished(),
            ReceiveBuffer::Discarded(_) => false,
        }
    }

    pub(super) fn limit(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.limit(),
            ReceiveBuffer::Messages(inbox) => inbox.limit(),
            ReceiveBuffer::Discarded(discarded) => discarded.limit,
        }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.bytes_read(),
            ReceiveBuffer::Messages(inbox) => inbox.bytes_read(),
            ReceiveBuffer::Discarded(discarded) => discarded.highest,
        }
    }

    pub(super) fn bytes_in_order(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.bytes_in_order(),
            ReceiveBuffer::Messages(inbox) => inbox.bytes_in_order(),
            ReceiveBuffer::Discarded(discarded) => discarded.highest,
        }
    }

    pub(super) fn bytes_duplicated(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.bytes_duplicated(),
            ReceiveBuffer::Messages(inbox) => inbox.bytes_duplicated(),
            ReceiveBuffer::Discarded(discarded) => discarded.duplicated,
        }
    }

    pub(super) fn bytes_held(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.bytes_held(),
            ReceiveBuffer::Messages(inbox) => inbox.bytes_held(),
            ReceiveBuffer::Discarded(_) => 0,
        }
    }

    /// The memory of the bytes that have arrived, and of chunks that have begun to arrive.
    pub(super) fn memory_held(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.memory_held(),
            ReceiveBuffer::Messages(inbox) => inbox.bytes_held(),
            ReceiveBuffer::Discarded(_) => 0,
        }
    }

    fn window_used(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.window_used(),
            ReceiveBuffer::Messages(inbox) => inbox.window_used(),
            ReceiveBuffer::Discarded(_) => 0,
        }
    }

    /// Bytes that wait for missing ones; `None` of messages.
    pub(super) fn reordered(&self) -> Option<Reordered> {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => {
                let (bytes, max_bytes) = reassembler.bytes_out_of_order();
                Some(Reordered { bytes, max_bytes })
            }
            ReceiveBuffer::Messages(_) | ReceiveBuffer::Discarded(_) => None,
        }
    }

    fn messages(&mut self) -> Result<&mut Inbox, Violation> {
        match &mut self.received {
            ReceiveBuffer::Messages(inbox) => Ok(inbox),
            _ => Err(Violation::Form { arrived: Form::Messages, expected: Form::Bytes }),
        }
    }
}

impl Discarded {
    fn check(&self, header: &DataHeader) -> Result<(), Violation> {
        let (end, limit) = (header.offset.saturating_add(header.length.into()), self.limit);
        match self.end {
            _ if end > limit => Err(Violation::BeyondWindow { end, limit }),
            Some(known) if end > known => Err(Violation::BeyondEnd { chunk_end: end, end: known }),
            Some(known) if header.fin && end != known => Err(Violation::EndMoved { end }),
            None if header.fin && end < self.highest => Err(Violation::EndMoved { end }),
            _ => Ok(()),
        }
    }

    fn insert(&mut self, header: &DataHeader) -> Result<(), Violation> {
        self.check(header)?;
        let end = header.offset.saturating_add(header.length.into());
        self.highest = self.highest.max(end);
        if header.fin && !mutation::has(Mutation::StoppedForever) {
            self.end = Some(end);
        }
        Ok(())
    }
}
