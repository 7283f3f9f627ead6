//! The bytes of a connection: segments over UDP, and frames of the control channel.
//! `docs/celeritas.md` shows them byte by byte.
//!
//! A segment's header has one of two lengths, and those of a burst are mostly alike, so that a
//! receiver can lay headers and payloads of a whole burst apart before it has seen them. Numbers
//! are in network byte order.

use crc_fast::{CrcAlgorithm, Digest};
use rails_proto::seal::{PacketOpener, PacketSealer, TAG_LEN};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The bytes of the header of a probe, and of a segment: of one that tells all of its message.
pub const HEADER_LEN: usize = 40;
/// The bytes of the header of a segment whose message the peer knows.
pub const SHORT_HEADER_LEN: usize = 20;
/// The bytes between the header and the payload of a datagram without a seal, which tell whether it
/// was damaged.
pub const CHECK_LEN: usize = 4;
/// The most bytes of a header and its check.
pub const HEAD_LEN: usize = HEADER_LEN + CHECK_LEN;
/// The most bytes of a frame of the control channel, without its length.
pub const MAX_FRAME: usize = 64_000;
/// The most missing ranges of one error list, of which an encoded one takes at most 20 bytes. A
/// list ends before the range that would be one more, so a sender repeats at most this number of
/// ranges in a round trip.
pub const MAX_RANGES: usize = 3_000;
/// The most bytes of a message: the header has 48 bits for its length.
pub const MAX_MESSAGE: u64 = (1 << 48) - 1;

/// Distinguishes the segments of one connection from all others. The receiving end draws it, and
/// tells it to its peer over the control channel alone, so an attacker away from the path does not
/// know it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token(pub u64);

/// The header of a segment: which bytes of which message follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The connection.
    pub token: Token,
    /// The packet number. Every transmission has its own, above the last (below 2^56). Some are
    /// left out.
    pub packet: u64,
    /// The place of the first byte among all bytes of the connection in this direction.
    pub offset: u64,
    /// The message, counted from 0.
    pub message: u32,
    /// The bytes of the whole message, 1 at least.
    pub message_len: u64,
    /// The place of the first byte in the message.
    pub in_message: u64,
}

/// The header of a segment of a message of which the peer has received bytes: its offset tells the
/// message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortHeader {
    /// The connection.
    pub token: Token,
    /// The packet number.
    pub packet: u64,
    /// The low 32 bits of the offset.
    pub offset: u32,
}

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// Bytes of a message follow.
    Segment(SegmentHeader),
    /// Bytes of a message follow that has begun before.
    Short(ShortHeader),
    /// Padding follows: it probes the path's MTU.
    Probe(ProbeHeader),
}

/// The header of a probe of the path's MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeHeader {
    /// The connection.
    pub token: Token,
    /// The packet number, of the same count as those of segments.
    pub packet: u64,
}

/// A datagram that is no segment of this protocol and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The datagram is shorter than a header and one byte.
    #[error("a datagram of {0} bytes is no segment")]
    Short(usize),
    /// The datagram's first byte is not that of a segment of this version.
    #[error("a datagram begins with {0:#04x}, which is no segment of this version")]
    Kind(u8),
    /// The segment's bytes lie outside of its message, or before the connection's first.
    #[error("a segment lies outside of its message")]
    Place,
    /// The datagram was damaged on the way.
    #[error("a datagram was damaged on the way")]
    Check,
}

/// A frame of the control channel, which delivers in order and without loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Control {
    /// The receiver tells which bytes have arrived.
    ErrorList(ErrorList),
    /// The sender tells its least round-trip time in microseconds: the receiver sends an error list
    /// in each eighth of it.
    MinRtt(u32),
    /// The sender gives a message up.
    GiveUp {
        /// The message's number.
        message: u32,
        /// The place of the message's first byte among the bytes of the connection.
        start: u64,
        /// The message's bytes; 0 if none was sent.
        length: u64,
    },
    /// The receiver does not want a message.
    Refuse {
        /// The message's number.
        message: u32,
    },
    /// The sender has sent all its messages.
    Finish {
        /// The number of messages.
        messages: u32,
    },
    /// The receiver has received a probe of the path's MTU.
    ProbeArrived {
        /// The probe's packet number.
        packet: u64,
    },
}

/// Which bytes have arrived and which are missing, as of one moment. A later list replaces an
/// earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorList {
    /// The highest packet number that has arrived.
    pub largest: u64,
    /// How long ago that packet arrived, in microseconds.
    pub delay_us: u32,
    /// The number of segments that have arrived, duplicates included.
    pub received: u64,
    /// Segments whose bytes had all arrived before.
    pub duplicates: u64,
    /// Datagrams that the receiver's socket had no room for.
    pub overflowed: u64,
    /// The offset that the sender must not reach.
    pub limit: u64,
    /// The message that the sender must not begin.
    pub message_limit: u32,
    /// All bytes below this offset have arrived.
    pub complete: u64,
    /// The list is whole up to this offset: bytes between `complete` and this that are not missing
    /// have arrived.
    pub known: u64,
    /// The missing ranges: for each, the bytes that have arrived before it, since the last one or
    /// `complete`, and its length. The first begins at `complete`; if there is none, then
    /// `known` is `complete`.
    pub missing: Vec<(u64, u64)>,
}

/// Bytes that are no frame of the control channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame has no bytes, or more than [`MAX_FRAME`].
    #[error("a control frame of {0} bytes (1 to {MAX_FRAME} are allowed)")]
    Length(usize),
    /// The frame was changed on the way, or does not belong there.
    #[error("a control frame that does not open: it was changed on the way")]
    Seal,
    /// The content cannot be decoded as a frame.
    #[error("a control frame that cannot be decoded: {0}")]
    Content(postcard::Error),
    /// Bytes follow the frame's content.
    #[error("{0} bytes follow the content of a control frame")]
    Trailing(usize),
    /// The ranges of an error list are empty, too many, or outside of it, or the first does not
    /// begin at `complete`.
    #[error("an error list whose ranges contradict each other")]
    Ranges,
}

/// Takes the bytes of the control channel as they come, and gives frames.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    opener: Option<PacketOpener>,
    /// The number of sealed records so far.
    records: u64,
}

/// Makes the bytes of the control channel.
#[derive(Debug, Default)]
pub struct FrameWriter {
    sealer: Option<PacketSealer>,
    /// The number of sealed records so far.
    records: u64,
}

impl SegmentHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[0] = SEGMENT;
        header[1..8].copy_from_slice(&self.packet.to_be_bytes()[1..]);
        header[8..16].copy_from_slice(&self.token.0.to_be_bytes());
        header[16..24].copy_from_slice(&self.offset.to_be_bytes());
        header[24..30].copy_from_slice(&self.message_len.to_be_bytes()[2..]);
        header[30..36].copy_from_slice(&self.in_message.to_be_bytes()[2..]);
        header[36..].copy_from_slice(&self.message.to_be_bytes());
        header
    }

    /// Decodes the header of a segment with `payload_len` bytes.
    ///
    /// # Errors
    /// [`HeaderError`] for bytes of another protocol, and for a place outside of the message.
    pub fn decode(header: &[u8; HEADER_LEN], payload_len: usize) -> Result<Self, HeaderError> {
        match Header::decode(header, payload_len)? {
            Header::Segment(segment) => Ok(segment),
            Header::Short(_) | Header::Probe(_) => Err(HeaderError::Kind(header[0])),
        }
    }

    fn read(header: &[u8], payload_len: usize) -> Result<Self, HeaderError> {
        let number = |range| number(header, range);
        let segment = Self {
            packet: number(1..8),
            token: Token(number(8..16)),
            offset: number(16..24),
            message_len: number(24..30),
            in_message: number(30..36),
            message: number(36..40) as u32,
        };
        // 48 bits and a datagram's length do not overflow.
        let is_inside = segment.in_message + payload_len as u64 <= segment.message_len;
        let is_placed =
            segment.in_message <= segment.offset && segment.start().checked_add(segment.message_len).is_some();
        if is_inside && is_placed { Ok(segment) } else { Err(HeaderError::Place) }
    }

    /// The place of the message's first byte among all bytes of the connection.
    pub fn start(&self) -> u64 {
        self.offset.saturating_sub(self.in_message)
    }
}

impl ShortHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; SHORT_HEADER_LEN] {
        let mut header = [0; SHORT_HEADER_LEN];
        header[0] = SHORT;
        header[1..8].copy_from_slice(&self.packet.to_be_bytes()[1..]);
        header[8..16].copy_from_slice(&self.token.0.to_be_bytes());
        header[16..].copy_from_slice(&self.offset.to_be_bytes());
        header
    }
}

impl ProbeHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[0] = PROBE;
        header[1..8].copy_from_slice(&self.packet.to_be_bytes()[1..]);
        header[8..16].copy_from_slice(&self.token.0.to_be_bytes());
        header
    }
}

impl Header {
    /// The length of the header of a datagram.
    ///
    /// # Errors
    /// [`HeaderError`] for a datagram of another protocol, or without a byte behind its header.
    pub fn len_of(datagram: &[u8]) -> Result<usize, HeaderError> {
        let length = match datagram.first() {
            Some(&(SEGMENT | PROBE)) => HEADER_LEN,
            Some(&SHORT) => SHORT_HEADER_LEN,
            Some(kind) => return Err(HeaderError::Kind(*kind)),
            None => return Err(HeaderError::Short(0)),
        };
        if datagram.len() > length { Ok(length) } else { Err(HeaderError::Short(datagram.len())) }
    }

    /// Decodes the header of a datagram with `payload_len` bytes behind it.
    ///
    /// # Errors
    /// [`HeaderError`] for bytes of another protocol, for a header of another length than its kind
    /// has, and for a segment that lies outside of its message.
    pub fn decode(header: &[u8], payload_len: usize) -> Result<Self, HeaderError> {
        if payload_len == 0 {
            return Err(HeaderError::Short(header.len()));
        }
        let (token, packet) = match header.len() {
            SHORT_HEADER_LEN | HEADER_LEN => (Token(number(header, 8..16)), number(header, 1..8)),
            length => return Err(HeaderError::Short(length)),
        };
        match (header[0], header.len()) {
            (SEGMENT, HEADER_LEN) => SegmentHeader::read(header, payload_len).map(Self::Segment),
            (SHORT, SHORT_HEADER_LEN) => {
                Ok(Self::Short(ShortHeader { token, packet, offset: number(header, 16..20) as u32 }))
            }
            (PROBE, HEADER_LEN) => Ok(Self::Probe(ProbeHeader { token, packet })),
            (kind, _) => Err(HeaderError::Kind(kind)),
        }
    }

    /// The connection.
    pub fn token(&self) -> Token {
        match self {
            Self::Segment(segment) => segment.token,
            Self::Short(short) => short.token,
            Self::Probe(probe) => probe.token,
        }
    }

    /// The packet number.
    pub fn packet(&self) -> u64 {
        match self {
            Self::Segment(segment) => segment.packet,
            Self::Short(short) => short.packet,
            Self::Probe(probe) => probe.packet,
        }
    }
}

/// The check of a datagram without a seal: CRC-32C of its header and its payload, which may lie in
/// several slices.
pub fn check<'a>(header: &[u8], payload: impl IntoIterator<Item = &'a [u8]>) -> [u8; CHECK_LEN] {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(header);
    payload.into_iter().for_each(|slice| digest.update(slice));
    // The checksum is 32 bits wide.
    (digest.finalize() as u32).to_be_bytes()
}

/// A header with its check behind it, and the number of bytes of both.
pub fn head<'a>(header: &[u8], payload: impl IntoIterator<Item = &'a [u8]>) -> ([u8; HEAD_LEN], usize) {
    let (mut head, length) = ([0; HEAD_LEN], header.len() + CHECK_LEN);
    head[..header.len()].copy_from_slice(header);
    head[header.len()..length].copy_from_slice(&check(header, payload));
    (head, length)
}

/// The header of a datagram without a seal, and the bytes of its payload, which are the last ones.
///
/// # Errors
/// [`HeaderError`].
pub fn open(datagram: &[u8]) -> Result<(Header, usize), HeaderError> {
    let (header, rest) = datagram.split_at(Header::len_of(datagram)?);
    let (told, payload) = rest.split_at_checked(CHECK_LEN).ok_or(HeaderError::Short(datagram.len()))?;
    let decoded = Header::decode(header, payload.len())?;
    if check(header, [payload]) == told { Ok((decoded, payload.len())) } else { Err(HeaderError::Check) }
}

fn number(header: &[u8], range: Range<usize>) -> u64 {
    header[range].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl ErrorList {
    /// Adds the missing ranges between `complete` and `known`, in rising order. If they are more
    /// than a list holds, the list ends before the first that it does not hold.
    pub(crate) fn with_missing(mut self, missing: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut end = self.complete;
        for range in missing {
            if self.missing.len() == MAX_RANGES {
                self.known = range.start;
                break;
            }
            self.missing.push((range.start - end, range.end - range.start));
            end = range.end;
        }
        self
    }

    /// The missing ranges as offsets, in rising order.
    pub fn missing_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.missing.iter().scan(self.complete, |end, (gap, length)| {
            let start = end.saturating_add(*gap);
            *end = start.saturating_add(*length);
            Some(start..*end)
        })
    }

    /// The ranges that have arrived, as offsets in rising order.
    pub(crate) fn arrived_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let ends = self.missing_ranges().map(|missing| (missing.start, missing.end));
        let mut end = 0;
        let arrived = ends.chain([(self.known.max(self.complete), 0)]).map(move |(start, next)| {
            let arrived = end..start;
            end = next;
            arrived
        });
        arrived.filter(|arrived| !arrived.is_empty())
    }

    fn check(&self) -> Result<(), FrameError> {
        let mut end = Some(self.complete);
        for (gap, length) in &self.missing {
            end = end.filter(|_| *length > 0).and_then(|end| end.checked_add(*gap)?.checked_add(*length));
        }
        // The byte at `complete` is missing: a sender keeps the bytes above it until the peer has this one.
        let begins = self.missing.first().map_or(self.known == self.complete, |(gap, _)| *gap == 0);
        let is_sound = begins && self.missing.len() <= MAX_RANGES && end.is_some_and(|end| end <= self.known);
        if is_sound { Ok(()) } else { Err(FrameError::Ranges) }
    }
}

impl Control {
    /// Encodes the frame, with its length before it, as it is without a seal.
    pub fn encode(&self) -> Vec<u8> {
        FrameWriter::default().frame(self)
    }

    fn decode(content: &[u8]) -> Result<Self, FrameError> {
        let (control, rest) = postcard::take_from_bytes(content).map_err(FrameError::Content)?;
        if !rest.is_empty() {
            return Err(FrameError::Trailing(rest.len()));
        }
        if let Self::ErrorList(list) = &control {
            list.check()?;
        }
        Ok(control)
    }
}

impl FrameReader {
    /// A reader of sealed frames.
    pub fn sealed(opener: PacketOpener) -> Self {
        Self { opener: Some(opener), ..Self::default() }
    }

    /// Takes bytes. The reader holds at most these and a frame.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame, or `None` until more bytes come.
    ///
    /// # Errors
    /// [`FrameError`]. The channel cannot be read on from there.
    pub fn next_frame(&mut self) -> Result<Option<Control>, FrameError> {
        let Some(prefix) = self.bytes.first_chunk::<2>().copied() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(prefix));
        let seal = self.seal_len();
        if !(1 + seal..=MAX_FRAME + seal).contains(&length) {
            return Err(FrameError::Length(length));
        }
        let Some(content) = self.bytes.get(2..2 + length) else { return Ok(None) };
        let content = self.open(&prefix, content.to_vec())?;
        self.bytes.drain(..2 + length);
        Control::decode(&content).map(Some)
    }

    /// Opens the next record, which has `prefix` before it in the clear. Without a seal its content
    /// is itself.
    ///
    /// # Errors
    /// [`FrameError::Seal`].
    pub(crate) fn open(&mut self, prefix: &[u8], mut record: Vec<u8>) -> Result<Vec<u8>, FrameError> {
        let Some(opener) = &mut self.opener else { return Ok(record) };
        let length = record.len().checked_sub(TAG_LEN).ok_or(FrameError::Seal)?;
        let (content, tag) = record.split_at_mut(length);
        opener.open(self.records, prefix, content, tag).map_err(|_| FrameError::Seal)?;
        self.records += 1;
        record.truncate(length);
        Ok(record)
    }

    /// The bytes by which a record is longer than its content.
    pub(crate) fn seal_len(&self) -> usize {
        seal_len(self.opener.is_some())
    }
}

/// The bytes of a datagram beside its header and its payload: those of its seal or its check.
pub(crate) fn guard_len(is_sealed: bool) -> usize {
    if is_sealed { TAG_LEN } else { CHECK_LEN }
}

/// The bytes of a seal, where there is one.
pub(crate) fn seal_len(is_sealed: bool) -> usize {
    if is_sealed { TAG_LEN } else { 0 }
}

impl FrameWriter {
    /// A writer of sealed frames.
    pub fn sealed(sealer: PacketSealer) -> Self {
        Self { sealer: Some(sealer), records: 0 }
    }

    /// The bytes of a frame, with its length before it.
    pub fn frame(&mut self, frame: &Control) -> Vec<u8> {
        let content = postcard::to_stdvec(frame).expect("memory takes every frame");
        let length = u16::try_from(content.len() + seal_len(self.sealer.is_some()))
            .expect("no frame is longer than `MAX_FRAME`");
        let mut bytes = length.to_be_bytes().to_vec();
        let content = self.seal(&bytes, content);
        bytes.extend(content);
        bytes
    }

    /// Seals the next record, which has `prefix` before it in the clear. Without a seal it is its
    /// content.
    pub(crate) fn seal(&mut self, prefix: &[u8], mut content: Vec<u8>) -> Vec<u8> {
        if let Some(sealer) = &mut self.sealer {
            let tag = sealer.seal(self.records, prefix, &mut content);
            self.records += 1;
            content.extend(tag);
        }
        content
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Logs are read by more people than may send segments.
        f.write_str("Token")
    }
}

/// The first byte of a segment: version 2 in the upper half, kind 1 in the lower one.
const SEGMENT: u8 = 0x21;
/// The first byte of a probe: version 2, kind 2.
const PROBE: u8 = 0x22;
/// The first byte of a segment with a short header: version 2, kind 3.
const SHORT: u8 = 0x23;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn header()(
            packet in 0..1u64 << 56, token: u64, start in 0..1u64 << 62, message: u32,
            message_len in 1..=MAX_MESSAGE, part in 0.0..1.0f64,
        ) -> SegmentHeader {
            let in_message = ((message_len as f64 * part) as u64).min(message_len - 1);
            let offset = start + in_message;
            SegmentHeader { token: Token(token), packet, offset, message, message_len, in_message }
        }
    }

    proptest! {
        #[test]
        fn headers_come_back(header in header()) {
            prop_assert_eq!(SegmentHeader::decode(&header.encode(), 1), Ok(header));
        }

        #[test]
        fn short_headers_come_back(token: u64, packet in 0..1u64 << 56, offset: u32) {
            let header = ShortHeader { token: Token(token), packet, offset };
            let datagram = [&header.encode()[..], &[0]].concat();
            prop_assert_eq!(Header::len_of(&datagram), Ok(SHORT_HEADER_LEN));
            prop_assert_eq!(Header::decode(&header.encode(), 1), Ok(Header::Short(header)));
        }

        #[test]
        fn any_bytes_are_a_header_or_an_error(bytes: Vec<u8>, length in 0..2000usize) {
            let _ = Header::decode(&bytes, length);
            if let Ok(length) = Header::len_of(&bytes) {
                prop_assert!(length < bytes.len());
                let _ = Header::decode(&bytes[..length], bytes.len() - length);
            }
        }

        #[test]
        fn headers_of_any_bytes_lie_in_their_message(bytes: [u8; HEADER_LEN], length in 0..2000usize) {
            let mut bytes = bytes;
            bytes[0] = SEGMENT;
            if let Ok(header) = SegmentHeader::decode(&bytes, length) {
                prop_assert!(header.in_message + length as u64 <= header.message_len);
                prop_assert!(header.start().checked_add(header.message_len).is_some());
                prop_assert_eq!(header.encode(), bytes);
            }
        }

        #[test]
        fn lists_come_back_in_any_pieces(
            spans in proptest::collection::vec((0..1u64 << 40, 1..1u64 << 40), 0..MAX_RANGES),
            cut in 1..64usize,
        ) {
            let missing = std::iter::once((0, 1)).chain(spans).collect();
            let list = ErrorList { complete: 7, known: u64::MAX, missing, ..ErrorList::default() };
            let frames = [Control::MinRtt(19_000), Control::ErrorList(list)];
            let bytes: Vec<u8> = frames.iter().flat_map(Control::encode).collect();
            let (mut reader, mut read) = (FrameReader::default(), Vec::new());
            for piece in bytes.chunks(cut) {
                reader.push(piece);
                while let Some(frame) = reader.next_frame().unwrap() {
                    read.push(frame);
                }
            }
            prop_assert_eq!(read, frames);
        }

        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes: Vec<u8>) {
            let mut reader = FrameReader::default();
            reader.push(&bytes);
            while let Ok(Some(frame)) = reader.next_frame() {
                if let Control::ErrorList(list) = frame {
                    let mut end = list.complete;
                    for range in list.missing_ranges() {
                        prop_assert!(range.start >= end && range.end > range.start && range.end <= list.known);
                        end = range.end;
                    }
                }
            }
        }
    }

    #[test]
    fn list_of_too_many_ranges_ends_before_the_rest() {
        let ranges = (0..MAX_RANGES as u64 + 3).map(|index| 10 * index..10 * index + 5);
        let list = ErrorList { known: 1 << 30, ..ErrorList::default() }.with_missing(ranges);
        assert_eq!(list.known, 10 * MAX_RANGES as u64);
        assert_eq!(list.missing_ranges().count(), MAX_RANGES);
        let last = 10 * (MAX_RANGES as u64 - 1);
        assert_eq!(list.missing_ranges().last(), Some(last..last + 5));
        assert_eq!(list.arrived_ranges().nth(1), Some(15..20));
        assert_eq!(list.arrived_ranges().last(), Some(last + 5..last + 10));
        list.check().unwrap();
        assert!(Control::ErrorList(list).encode().len() <= MAX_FRAME + 2);
    }

    #[test]
    fn wrong_frames() {
        let read = |bytes: &[u8]| {
            let mut reader = FrameReader::default();
            reader.push(bytes);
            reader.next_frame()
        };
        assert_eq!(read(&[0, 0]), Err(FrameError::Length(0)));
        assert_eq!(read(&[0xff, 0xff]), Err(FrameError::Length(0xffff)));
        assert_eq!(read(&[0, 3, 3, 7, 9]), Err(FrameError::Trailing(1)));
        assert_eq!(read(&[0, 2, 3, 7]), Ok(Some(Control::Refuse { message: 7 })));
        assert_eq!(read(&[0, 1]), Ok(None));
        let beyond = ErrorList { missing: vec![(0, u64::MAX), (1, 1)], ..ErrorList::default() };
        assert_eq!(read(&Control::ErrorList(beyond).encode()), Err(FrameError::Ranges));
        // All bytes have arrived, or the first that is missing lies elsewhere.
        for missing in [vec![], vec![(1, 1)]] {
            let contradicts = ErrorList { complete: 7, known: 9, missing, ..ErrorList::default() };
            assert_eq!(read(&Control::ErrorList(contradicts).encode()), Err(FrameError::Ranges));
        }
    }
}
