//! The receiving side of a stream: bytes or messages.

use super::{ByteCount, Reordered, WindowUse};
use crate::{
    chunk::Content,
    messages::{Delivery, Inbox, Lent, MessageBuffer, Place},
    parameters::TransportParameters,
    reassembler::{Admission, Reassembler},
    violation::{Form, Violation},
    wire::DataHeader,
};
use bytes::Bytes;

/// The receiving side of a stream.
#[derive(Debug)]
pub(super) struct Incoming {
    received: ReceiveBuffer,
    /// Bytes or messages, once the application has chosen.
    form: Option<Form>,
    /// The longest chunk that this end takes, in bytes.
    longest_chunk: u32,
    window: u64,
    /// The most bytes of the window in use so far.
    max_window_used: u64,
    /// Bytes and chunks that have arrived more than once.
    duplicates: ByteCount,
}

/// Bytes or messages. The form can change while nothing has arrived and the application has not
/// chosen.
#[derive(Debug)]
enum ReceiveBuffer {
    Bytes(Reassembler),
    Messages(Box<Inbox>),
}

impl Incoming {
    /// Creates the receiving side of an end that tells its peer these parameters.
    pub(super) fn new(parameters: TransportParameters) -> Self {
        let TransportParameters { longest_chunk, window } = parameters;
        let received = ReceiveBuffer::Bytes(Reassembler::new(window));
        Self { received, form: None, longest_chunk, window, max_window_used: 0, duplicates: ByteCount::default() }
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

    /// Checks the length of a chunk, before the driver takes memory for it.
    ///
    /// # Errors
    /// [`Violation::TooLong`].
    pub(super) fn check_length(&self, header: &DataHeader) -> Result<(), Violation> {
        let (length, longest) = (header.length, self.longest_chunk);
        if length > longest { Err(Violation::TooLong { length, longest }) } else { Ok(()) }
    }

    /// Counts a chunk that has arrived. Returns how many of its bytes had arrived before.
    pub(super) fn count_arrival(&mut self) -> u64 {
        let duplicated = self.bytes_duplicated();
        // When the stream changes to messages, this count begins at zero again.
        let again = duplicated.saturating_sub(self.duplicates.bytes);
        self.duplicates.bytes = duplicated;
        self.duplicates.chunks += u64::from(again > 0);
        self.max_window_used = self.max_window_used.max(self.window_used());
        again
    }

    /// Bytes that arrived more than once, and the chunks that held such bytes.
    pub(super) fn duplicated(&self) -> ByteCount {
        ByteCount { bytes: self.bytes_duplicated(), chunks: self.duplicates.chunks }
    }

    /// The size of the window.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// How much of the window is in use, up to the last byte that has arrived or is about to.
    pub(super) fn window_use(&self) -> WindowUse {
        WindowUse { size_bytes: self.window, used_bytes: self.window_used(), max_used_bytes: self.max_window_used }
    }

    /// Checks the header of a chunk of bytes, or of the end.
    pub(super) fn admit(&self, header: &DataHeader) -> Result<Admission, Violation> {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.admit(header),
            // Only the end of the stream comes without content.
            ReceiveBuffer::Messages(_) if header.length == 0 && header.fin => Ok(Admission::New),
            ReceiveBuffer::Messages(_) => Err(Violation::Form { arrived: Form::Bytes, expected: Form::Messages }),
        }
    }

    /// Takes a chunk of bytes, or the end.
    pub(super) fn insert(&mut self, header: &DataHeader, payload: Bytes) -> Result<(), Violation> {
        match &mut self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.insert(header, payload),
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
        self.messages()?.admit(lane, header, content, spare)
    }

    pub(super) fn insert_content(
        &mut self,
        header: &DataHeader,
        content: &Content,
        payload: Bytes,
    ) -> Result<(), Violation> {
        self.messages()?.insert(header, content, payload)
    }

    pub(super) fn lend(&mut self, lane: usize) -> Option<Lent> {
        self.messages().ok()?.lend(lane)
    }

    pub(super) fn give_back(&mut self, lane: usize, piece: MessageBuffer, filled: usize) -> Result<(), Violation> {
        let inbox = self.messages()?;
        inbox.give_back(lane, piece, filled);
        inbox.check_the_end()
    }

    pub(super) fn fill(&mut self, lane: usize, piece: MessageBuffer) -> Result<(), Violation> {
        let inbox = self.messages()?;
        inbox.fill(lane, piece);
        inbox.check_the_end()
    }

    pub(super) fn release(&mut self, lane: usize) {
        if let ReceiveBuffer::Messages(inbox) = &mut self.received {
            inbox.release(lane);
        }
    }

    pub(super) fn read(&mut self) -> Option<Bytes> {
        match &mut self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.read(),
            ReceiveBuffer::Messages(_) => None,
        }
    }

    pub(super) fn read_message(&mut self) -> Option<Delivery> {
        match &mut self.received {
            ReceiveBuffer::Messages(inbox) => inbox.read(),
            ReceiveBuffer::Bytes(_) => None,
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.is_readable(),
            ReceiveBuffer::Messages(inbox) => inbox.is_readable(),
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.is_complete(),
            ReceiveBuffer::Messages(inbox) => inbox.is_complete(),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.is_finished(),
            ReceiveBuffer::Messages(inbox) => inbox.is_finished(),
        }
    }

    pub(super) fn limit(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.limit(),
            ReceiveBuffer::Messages(inbox) => inbox.limit(),
        }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.bytes_read(),
            ReceiveBuffer::Messages(inbox) => inbox.bytes_read(),
        }
    }

    pub(super) fn bytes_in_order(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.bytes_in_order(),
            ReceiveBuffer::Messages(inbox) => inbox.bytes_in_order(),
        }
    }

    pub(super) fn bytes_duplicated(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.bytes_duplicated(),
            ReceiveBuffer::Messages(inbox) => inbox.bytes_duplicated(),
        }
    }

    pub(super) fn bytes_held(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.bytes_held(),
            ReceiveBuffer::Messages(inbox) => inbox.bytes_held(),
        }
    }

    /// The memory of the bytes that have arrived, and of chunks that have begun to arrive.
    pub(super) fn memory_held(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.memory_held(),
            ReceiveBuffer::Messages(inbox) => inbox.bytes_held(),
        }
    }

    fn window_used(&self) -> u64 {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => reassembler.window_used(),
            ReceiveBuffer::Messages(inbox) => inbox.window_used(),
        }
    }

    /// Bytes that wait for missing ones; `None` of messages.
    pub(super) fn reordered(&self) -> Option<Reordered> {
        match &self.received {
            ReceiveBuffer::Bytes(reassembler) => {
                let (bytes, max_bytes) = reassembler.bytes_out_of_order();
                Some(Reordered { bytes, max_bytes })
            }
            ReceiveBuffer::Messages(_) => None,
        }
    }

    fn messages(&mut self) -> Result<&mut Inbox, Violation> {
        match &mut self.received {
            ReceiveBuffer::Messages(inbox) => Ok(inbox),
            ReceiveBuffer::Bytes(_) => Err(Violation::Form { arrived: Form::Messages, expected: Form::Bytes }),
        }
    }
}
