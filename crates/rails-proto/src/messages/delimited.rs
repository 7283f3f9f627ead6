//! Messages among bytes: each behind its length.

use super::{PREFIX, without_waste};
use bytes::{Buf, Bytes};

/// Takes messages out of bytes that arrive in order, each behind its length in four bytes, in
/// network byte order. What has arrived of a message is kept, so the bytes may come in any parts.
///
/// A length alone takes no memory: it grows with the bytes that arrive, and is at most twice as
/// much.
#[derive(Debug)]
pub struct Delimited {
    max_length: usize,
    /// The length of the bytes at hand when they arrived.
    whole: usize,
    state: State,
}

/// Why there is no next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DelimitedError {
    /// The next message is longer than the receiver allows.
    #[error("the next message has {length} bytes, and {limit} are allowed")]
    TooLong {
        /// The message's length, in bytes.
        length: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The bytes end within a message.
    #[error(
        "the bytes end within a message, of which {arrived} bytes of {} have arrived",
        length.map_or("an unknown number".to_owned(), |length| length.to_string())
    )]
    Truncated {
        /// The number of bytes of the message that have arrived.
        arrived: usize,
        /// The message's length, in bytes; `None` if it has not arrived.
        length: Option<usize>,
    },
}

#[derive(Debug)]
enum State {
    /// The first bytes of a message's length have arrived, or none.
    Prefix { bytes: [u8; PREFIX], arrived: usize },
    /// The first bytes of a message have arrived, or none.
    Message { bytes: Vec<u8>, length: usize },
    /// A message was too long.
    TooLong { length: usize },
}

impl Delimited {
    /// The bytes that go before a message of `length` bytes. `None` if it is too long for any
    /// receiver: four bytes cannot say its length.
    pub fn prefix(length: usize) -> Option<[u8; PREFIX]> {
        u32::try_from(length).ok().map(u32::to_be_bytes)
    }

    /// No message has begun. Each may have at most `max_length` bytes. There are `whole` bytes at
    /// hand.
    pub fn new(max_length: usize, whole: usize) -> Self {
        Self { max_length, whole, state: State::START }
    }

    /// There are new bytes at hand, of that length.
    pub fn begin(&mut self, whole: usize) {
        self.whole = whole;
    }

    /// Takes the next message out of the bytes at hand, or what there is of it: `None` if these are
    /// used up. A message that lies in them as a whole is a slice of them.
    ///
    /// # Errors
    /// [`DelimitedError::TooLong`], as of every later call.
    pub fn take(&mut self, at_hand: &mut Bytes) -> Result<Option<Bytes>, DelimitedError> {
        self.check()?;
        if let State::Prefix { bytes, arrived } = &mut self.state {
            let count = at_hand.len().min(PREFIX - *arrived);
            at_hand.copy_to_slice(&mut bytes[*arrived..*arrived + count]);
            *arrived += count;
            if *arrived < PREFIX {
                return Ok(None);
            }
            let length = usize::try_from(u32::from_be_bytes(*bytes)).unwrap_or(usize::MAX);
            let is_too_long = length > self.max_length;
            self.state =
                if is_too_long { State::TooLong { length } } else { State::Message { bytes: Vec::new(), length } };
            self.check()?;
        }
        let State::Message { bytes, length } = &mut self.state else { return Ok(None) };
        let missing = *length - bytes.len();
        let part = at_hand.split_to(missing.min(at_hand.len()));
        let is_whole = part.len() == missing;
        if bytes.is_empty() && is_whole {
            self.state = State::START;
            return Ok(Some(without_waste(part, self.whole)));
        }
        make_room(bytes, part.len(), *length);
        bytes.extend_from_slice(&part);
        let message = is_whole.then(|| Bytes::from(std::mem::take(bytes)));
        if is_whole {
            self.state = State::START;
        }
        Ok(message)
    }

    /// Fails behind a message that was too long.
    ///
    /// # Errors
    /// [`DelimitedError::TooLong`].
    pub fn check(&self) -> Result<(), DelimitedError> {
        match self.state {
            State::TooLong { length } => Err(DelimitedError::TooLong { length, limit: self.max_length }),
            _ => Ok(()),
        }
    }

    /// No more bytes come.
    ///
    /// # Errors
    /// [`DelimitedError::Truncated`] if that is within a message.
    pub fn end(&self) -> Result<(), DelimitedError> {
        match &self.state {
            State::Message { bytes, length } => {
                Err(DelimitedError::Truncated { arrived: bytes.len(), length: Some(*length) })
            }
            State::Prefix { arrived: 1.., .. } => Err(DelimitedError::Truncated { arrived: 0, length: None }),
            State::Prefix { .. } => Ok(()),
            State::TooLong { .. } => self.check(),
        }
    }
}

impl State {
    const START: Self = Self::Prefix { bytes: [0; PREFIX], arrived: 0 };
}

/// Makes room for that many more bytes of a message of `length` bytes, and for at most as many
/// again as there are then.
fn make_room(bytes: &mut Vec<u8>, more: usize, length: usize) {
    let needed = bytes.len() + more;
    if needed > bytes.capacity() {
        let capacity = length.min(2 * needed);
        bytes.reserve_exact(capacity - bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut;
    use proptest::prelude::*;

    /// The bytes of a stream with these messages.
    fn sent(messages: &[Vec<u8>]) -> Bytes {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.put_u32(message.len() as u32);
            bytes.put_slice(message);
        }
        bytes.into()
    }

    /// The messages in bytes that arrive in parts of these lengths, in turn.
    fn received(messages: &mut Delimited, mut bytes: Bytes, parts: &[usize]) -> Result<Vec<Bytes>, DelimitedError> {
        let mut all = Vec::new();
        for part in parts.iter().cycle() {
            let mut at_hand = bytes.split_to((*part).min(bytes.len()));
            messages.begin(at_hand.len());
            while !at_hand.is_empty() {
                all.extend(messages.take(&mut at_hand)?);
                if let State::Message { bytes, length } = &messages.state {
                    assert!(
                        bytes.capacity() <= (2 * bytes.len()).min(*length).max(8),
                        "memory for what has not arrived"
                    );
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        messages.end().map(|()| all)
    }

    proptest! {
        #[test]
        fn messages_arrive_in_any_parts(
            sent_ones in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            parts in prop::collection::vec(1..500_usize, 1..10),
        ) {
            let longest = sent_ones.iter().map(Vec::len).max().unwrap_or(0);
            let all = received(&mut Delimited::new(longest, 0), sent(&sent_ones), &parts).unwrap();
            prop_assert_eq!(&all, &sent_ones);
        }

        #[test]
        fn a_message_beyond_the_limit_is_the_last(
            sent_ones in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..20),
            limit in 0..100_usize,
            parts in prop::collection::vec(1..200_usize, 1..10),
        ) {
            let mut messages = Delimited::new(limit, 0);
            let outcome = received(&mut messages, sent(&sent_ones), &parts);
            match sent_ones.iter().map(Vec::len).find(|length| *length > limit) {
                None => prop_assert_eq!(outcome.unwrap().len(), sent_ones.len()),
                Some(long) => {
                    let error = DelimitedError::TooLong { length: long, limit };
                    prop_assert_eq!(outcome, Err(error));
                    prop_assert_eq!(messages.take(&mut Bytes::from_static(b"more")), Err(error));
                }
            }
        }

        #[test]
        fn an_end_within_a_message_is_an_error(
            message in prop::collection::vec(any::<u8>(), 1..100),
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = sent(std::slice::from_ref(&message));
            let cut = 1 + cut.index(bytes.len() - 1);
            let outcome = received(&mut Delimited::new(100, 0), bytes.slice(..cut), &[7]);
            let (arrived, length) = if cut < PREFIX { (0, None) } else { (cut - PREFIX, Some(message.len())) };
            prop_assert_eq!(outcome, Err(DelimitedError::Truncated { arrived, length }));
        }
    }

    #[test]
    fn a_message_that_arrives_whole_is_not_copied() {
        let bytes = sent(&[vec![7; 1_000], vec![9; 10]]);
        let range = bytes.as_ptr_range();
        let mut messages = Delimited::new(1_000, bytes.len());
        let mut at_hand = bytes.clone();
        let [long, short] = [(); 2].map(|()| messages.take(&mut at_hand).unwrap().unwrap());
        assert!(range.contains(&long.as_ptr()));
        assert!(!range.contains(&short.as_ptr()), "ten bytes keep a thousand");
    }

    #[test]
    fn a_length_takes_no_memory() {
        let mut messages = Delimited::new(usize::MAX, 0);
        assert_eq!(messages.take(&mut Bytes::from_static(&[0xff; PREFIX])).unwrap(), None);
        assert_eq!(messages.take(&mut Bytes::from_static(b"1")).unwrap(), None);
        let State::Message { bytes, length } = messages.state else { panic!("{messages:?}") };
        assert_eq!((bytes.capacity(), length), (2, 0xffff_ffff));
    }
}
