//! Control records: credit, limits and the early ends of streams.
//!
//! Records travel in chunks of their own, which lanes send, acknowledge and send again as those of
//! a stream. A chunk that is sent again has the newest values. So a receiver takes each record as
//! often as it comes: a value that has come before changes nothing.

use crate::{
    stream_number::{Direction, StreamNumber},
    violation::Violation,
};
use bytes::{BufMut, Bytes, BytesMut};

/// The subject of a control record. An end sends one record of each subject at a time, with its
/// newest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// How far the peer may send in a stream.
    Limit(StreamNumber),
    /// How many streams of that direction the peer may open in all.
    Streams(Direction),
    /// This end sends no more in a stream, and what the peer lacks of it is lost.
    Reset(StreamNumber),
    /// This end reads no more of a stream: the peer is to reset it.
    Stop(StreamNumber),
    /// This end has opened all the streams of that direction that it may, and would open more.
    Blocked(Direction),
}

/// A control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The record's subject.
    pub subject: Subject,
    /// The limit as an offset, the number of streams, the offset at which a stream was reset, or
    /// how many streams this end has opened; 0 of [`Subject::Stop`].
    pub value: u64,
    /// The application's code of [`Subject::Reset`] and [`Subject::Stop`]; 0 of the others.
    pub code: u64,
}

impl Record {
    fn encode(&self, bytes: &mut BytesMut) {
        let (kind, name) = match self.subject {
            Subject::Limit(stream) => (LIMIT, stream.0),
            Subject::Streams(direction) => (STREAMS, direction as u64),
            Subject::Reset(stream) => (RESET, stream.0),
            Subject::Stop(stream) => (STOP, stream.0),
            Subject::Blocked(direction) => (BLOCKED, direction as u64),
        };
        [kind, name, self.value, self.code].into_iter().for_each(|number| bytes.put_u64(number));
    }

    fn decode(record: &[u8; RECORD_LEN]) -> Option<Self> {
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|index| record[8 * at + index]));
        let (name, value, code) = (number(1), number(2), number(3));
        let direction = || Direction::ALL.get(usize::try_from(name).ok()?).copied();
        let subject = match number(0) {
            LIMIT if code == 0 => Subject::Limit(StreamNumber(name)),
            STREAMS if code == 0 => Subject::Streams(direction()?),
            BLOCKED if code == 0 => Subject::Blocked(direction()?),
            RESET => Subject::Reset(StreamNumber(name)),
            STOP if value == 0 => Subject::Stop(StreamNumber(name)),
            _ => return None,
        };
        Some(Self { subject, value, code })
    }
}

/// Encodes records.
pub fn encode(records: impl Iterator<Item = Record>) -> Bytes {
    let mut bytes = BytesMut::new();
    records.for_each(|record| record.encode(&mut bytes));
    bytes.freeze()
}

/// Decodes a chunk of records.
///
/// # Errors
/// [`Violation::Control`] if the bytes are no records.
pub fn decode(chunk: &[u8]) -> Result<Vec<Record>, Violation> {
    let (records, rest) = chunk.as_chunks::<RECORD_LEN>();
    if records.is_empty() || !rest.is_empty() {
        return Err(Violation::Control);
    }
    records.iter().map(|record| Record::decode(record).ok_or(Violation::Control)).collect()
}

/// The bytes of a record.
pub const RECORD_LEN: usize = 32;
/// The most records of a chunk.
pub const MAX_RECORDS: usize = 64;
const LIMIT: u64 = 1;
const STREAMS: u64 = 2;
const RESET: u64 = 3;
const STOP: u64 = 4;
const BLOCKED: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Record> {
        let number = || any::<u64>().prop_map(StreamNumber);
        prop_oneof![
            (number(), any::<u64>()).prop_map(|(stream, value)| Record {
                subject: Subject::Limit(stream),
                value,
                code: 0
            }),
            (any::<bool>(), any::<bool>(), any::<u64>()).prop_map(|(is_bi, is_limit, value)| {
                let direction = if is_bi { Direction::Bi } else { Direction::Uni };
                let subject = if is_limit { Subject::Streams(direction) } else { Subject::Blocked(direction) };
                Record { subject, value, code: 0 }
            }),
            (number(), any::<u64>(), any::<u64>()).prop_map(|(stream, value, code)| Record {
                subject: Subject::Reset(stream),
                value,
                code
            }),
            (number(), any::<u64>()).prop_map(|(stream, code)| Record {
                subject: Subject::Stop(stream),
                value: 0,
                code
            }),
        ]
    }

    proptest! {
        #[test]
        fn records_survive_the_wire(records in prop::collection::vec(records(), 1..MAX_RECORDS)) {
            prop_assert_eq!(decode(&encode(records.iter().copied())), Ok(records));
        }

        #[test]
        fn no_bytes_make_the_codec_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(records) = decode(&bytes) {
                prop_assert_eq!(encode(records.into_iter()), bytes);
            }
        }
    }
}
