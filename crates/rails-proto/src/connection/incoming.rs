//! The receiving side of a stream: bytes or messages.

use super::Reordered;
use crate::{
    chunk::Content,
    messages::{Delivery, Inbox, Lent, MessageBuffer, Place},
    reassembler::{Admission, Reassembler},
    violation::{Form, Violation},
    wire::DataHeader,
};
use bytes::Bytes;

/// Bytes or messages. The form can change while nothing has arrived and the application has not chosen.
#[derive(Debug)]
pub(super) enum Incoming {
    Bytes(Reassembler),
    Messages(Box<Inbox>),
}

impl Incoming {
    pub(super) fn new(window: u64) -> Self {
        Self::Bytes(Reassembler::new(window))
    }

    /// Gives the receiving side of another form, if nothing has arrived but the end, which fits either form.
    pub(super) fn changed_to(&self, form: Form, window: u64) -> Option<Self> {
        let (untouched, end) = match self {
            Self::Bytes(reassembler) => (reassembler.is_untouched(), reassembler.end()),
            Self::Messages(inbox) => (inbox.is_untouched(), inbox.end()),
        };
        untouched.then(|| match form {
            Form::Bytes => Self::Bytes(Reassembler::with_end(window, end)),
            Form::Messages => Self::Messages(Box::new(Inbox::new(window, end))),
        })
    }

    pub(super) fn form(&self) -> Form {
        match self {
            Self::Bytes(_) => Form::Bytes,
            Self::Messages(_) => Form::Messages,
        }
    }

    /// Checks the header of a chunk of bytes, or of the end.
    pub(super) fn admit(&self, header: &DataHeader) -> Result<Admission, Violation> {
        match self {
            Self::Bytes(reassembler) => reassembler.admit(header),
            // Only the end of the stream comes without content.
            Self::Messages(_) if header.length == 0 && header.fin => Ok(Admission::New),
            Self::Messages(_) => Err(Violation::Form { arrived: Form::Bytes, expected: Form::Messages }),
        }
    }

    /// Takes a chunk of bytes, or the end.
    pub(super) fn insert(&mut self, header: &DataHeader, payload: Bytes) -> Result<(), Violation> {
        match self {
            Self::Bytes(reassembler) => reassembler.insert(header, payload),
            Self::Messages(inbox) if header.length == 0 && header.fin => inbox.insert(header, &Content::Bytes, payload),
            Self::Messages(_) => Err(Violation::Form { arrived: Form::Bytes, expected: Form::Messages }),
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
        if let Self::Messages(inbox) = self {
            inbox.release(lane);
        }
    }

    pub(super) fn read(&mut self) -> Option<Bytes> {
        match self {
            Self::Bytes(reassembler) => reassembler.read(),
            Self::Messages(_) => None,
        }
    }

    pub(super) fn read_message(&mut self) -> Option<Delivery> {
        match self {
            Self::Messages(inbox) => inbox.read(),
            Self::Bytes(_) => None,
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        match self {
            Self::Bytes(reassembler) => reassembler.is_readable(),
            Self::Messages(inbox) => inbox.is_readable(),
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Bytes(reassembler) => reassembler.is_complete(),
            Self::Messages(inbox) => inbox.is_complete(),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        match self {
            Self::Bytes(reassembler) => reassembler.is_finished(),
            Self::Messages(inbox) => inbox.is_finished(),
        }
    }

    pub(super) fn limit(&self) -> u64 {
        match self {
            Self::Bytes(reassembler) => reassembler.limit(),
            Self::Messages(inbox) => inbox.limit(),
        }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        match self {
            Self::Bytes(reassembler) => reassembler.bytes_read(),
            Self::Messages(inbox) => inbox.bytes_read(),
        }
    }

    pub(super) fn bytes_in_order(&self) -> u64 {
        match self {
            Self::Bytes(reassembler) => reassembler.bytes_in_order(),
            Self::Messages(inbox) => inbox.bytes_in_order(),
        }
    }

    pub(super) fn bytes_duplicated(&self) -> u64 {
        match self {
            Self::Bytes(reassembler) => reassembler.bytes_duplicated(),
            Self::Messages(inbox) => inbox.bytes_duplicated(),
        }
    }

    pub(super) fn bytes_held(&self) -> u64 {
        match self {
            Self::Bytes(reassembler) => reassembler.bytes_held(),
            Self::Messages(inbox) => inbox.bytes_held(),
        }
    }

    /// The memory of the bytes that have arrived, and of chunks that have begun to arrive.
    pub(super) fn memory_held(&self) -> u64 {
        match self {
            Self::Bytes(reassembler) => reassembler.memory_held(),
            Self::Messages(inbox) => inbox.bytes_held(),
        }
    }

    /// The part of the window in use, up to the last byte that has arrived or is about to.
    pub(super) fn window_used(&self) -> u64 {
        match self {
            Self::Bytes(reassembler) => reassembler.window_used(),
            Self::Messages(inbox) => inbox.window_used(),
        }
    }

    /// Bytes that wait for missing ones; `None` of messages.
    pub(super) fn reordered(&self) -> Option<Reordered> {
        match self {
            Self::Bytes(reassembler) => {
                let (bytes, max_bytes) = reassembler.bytes_out_of_order();
                Some(Reordered { bytes, max_bytes })
            }
            Self::Messages(_) => None,
        }
    }

    fn messages(&mut self) -> Result<&mut Inbox, Violation> {
        match self {
            Self::Messages(inbox) => Ok(inbox),
            Self::Bytes(_) => Err(Violation::Form { arrived: Form::Messages, expected: Form::Bytes }),
        }
    }
}
