//! The frames of a lane that has joined. `docs/wire.md` shows them byte by byte.
//!
//! Every frame starts with a header of 32 bytes, with numbers in network byte order. The last 4
//! bytes are a CRC-32C of the first 28, so that the receiver finds a damaged length before it uses
//! the length. Data, control, datagram and close frames have more: a payload, which has a CRC-32C
//! of its own. A packet or part frame describes the content of the data frame behind it.

use crate::{
    chunk::{ChunkKind, Content, Packet, Part, Priority},
    stream_number::StreamNumber,
};
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest, checksum};
use std::ops::Range;

/// The bytes of every frame's header.
pub const FRAME_LEN: usize = 32;

/// The longest reason of a close frame, in bytes.
pub const LONGEST_REASON: usize = 1 << 10;

/// A frame, without the payload that may follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// A chunk of a stream follows.
    Data(DataHeader),
    /// A chunk of [control records](crate::control) follows. It counts as a chunk in
    /// acknowledgements.
    Control(DataHeader),
    /// A datagram follows. It does not count as a chunk.
    Datagram(DataHeader),
    /// The sender closes the session. A reason of at most [`LONGEST_REASON`] bytes follows.
    Close {
        /// The application's code.
        code: u64,
        /// The length of the reason in bytes.
        length: u32,
        /// CRC-32C of the reason.
        checksum: u32,
    },
    /// An acknowledgement: which bytes have arrived, and how far the peer may send.
    Ack(Ack),
    /// The sender resets the stream.
    Reset(ResetReason),
    /// The sender of this frame reads no more, though it may still send.
    Stop {
        /// The offset up to which the sender of this frame has read.
        read: u64,
    },
    /// The sender takes the lane out of the stream, which goes on over the others: the peer should
    /// send no more on it.
    Leave {
        /// Whether the peer has acknowledged everything that the sender has sent on the lane.
        drained: bool,
    },
    /// The next frame is the data frame of a packet of small messages.
    Packet(Packet),
    /// The next frame is the data frame of a part of a large message.
    Part(Part),
}

/// The header of a chunk, which precedes its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHeader {
    /// The chunk's stream; 0 of a chunk of control records and of a datagram.
    pub stream: StreamNumber,
    /// The stream offset of the chunk's first byte.
    pub offset: u64,
    /// The number of bytes that follow.
    pub length: u32,
    /// Whether the stream ends behind this chunk.
    pub fin: bool,
    /// CRC-32C of the bytes that follow.
    pub checksum: u32,
}

/// An acknowledgement. It covers the lane on which it travels, and the whole session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The number of chunks that have arrived whole on this lane since it joined.
    pub chunks: u64,
    /// How many bytes the peer may send in all streams together: a window more than the application
    /// has read.
    pub limit: u64,
    /// Whether every byte up to the end of the stream has arrived.
    pub complete: bool,
}

/// The reason why an end reset the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResetReason {
    /// The application gave the stream up, or had dropped it and its bytes could not be delivered
    /// in time.
    #[error("the peer gave the stream up")]
    Dropped,
    /// The peer broke the protocol.
    #[error("the peer found a violation of the protocol")]
    Violation,
    /// One end uses the stream for bytes, and the other for messages.
    #[error("the two ends do not agree whether the stream carries bytes or messages")]
    Mismatch,
}

/// Bytes that are no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The header's checksum does not match.
    #[error("the checksum of a frame's header is wrong (said {stated:#010x}, is {actual:#010x})")]
    Checksum {
        /// The checksum that the header carries.
        stated: u32,
        /// The checksum of the bytes that arrived.
        actual: u32,
    },
    /// No such type of frame.
    #[error("unknown frame type {0:#04x}")]
    Type(u8),
    /// A packet or part frame without a data frame behind it.
    #[error("a packet or part frame without its data frame")]
    WithoutData,
    /// A field has a value that this version does not know.
    #[error("unknown {field} {value:#06x} in a frame of type {kind:#04x}")]
    Field {
        /// The frame's type.
        kind: u8,
        /// The field.
        field: &'static str,
        /// The field's value.
        value: u16,
    },
}

impl Frame {
    /// The frame that precedes the data frame of a chunk with that content; a chunk of bytes has
    /// none.
    pub fn of_content(content: Content) -> Option<Self> {
        match content {
            Content::Bytes => None,
            Content::Packet(packet) => Some(Self::Packet(packet)),
            Content::Part(part) => Some(Self::Part(part)),
        }
    }

    /// The frame of a chunk of that kind, which precedes its bytes.
    pub fn of_chunk(kind: ChunkKind, header: DataHeader) -> Self {
        match kind {
            ChunkKind::Stream => Self::Data(header),
            ChunkKind::Control => Self::Control(header),
            ChunkKind::Datagram => Self::Datagram(header),
            ChunkKind::Close { code } => Self::Close { code, length: header.length, checksum: header.checksum },
        }
    }

    /// Encodes the frame.
    pub fn encode(&self) -> [u8; FRAME_LEN] {
        let mut frame = [0; FRAME_LEN];
        match *self {
            Self::Data(header) => header.encode(DATA, &mut frame),
            Self::Control(header) => header.encode(CONTROL, &mut frame),
            Self::Datagram(header) => header.encode(DATAGRAM, &mut frame),
            Self::Close { code, length, checksum } => {
                let stream = StreamNumber(code);
                DataHeader { stream, offset: 0, length, fin: false, checksum }.encode(CLOSE, &mut frame);
            }
            Self::Ack(Ack { chunks, limit, complete }) => {
                frame[0] = ACK;
                frame[1] = u8::from(complete);
                frame[8..16].copy_from_slice(&chunks.to_be_bytes());
                frame[16..24].copy_from_slice(&limit.to_be_bytes());
            }
            Self::Reset(reason) => {
                frame[0] = RESET;
                let code = match reason {
                    ResetReason::Dropped => DROPPED,
                    ResetReason::Violation => VIOLATION,
                    ResetReason::Mismatch => MISMATCH,
                };
                frame[2..4].copy_from_slice(&code.to_be_bytes());
            }
            Self::Stop { read } => {
                frame[0] = STOP;
                frame[16..24].copy_from_slice(&read.to_be_bytes());
            }
            Self::Leave { drained } => {
                frame[0] = LEAVE;
                frame[1] = u8::from(drained);
            }
            Self::Packet(Packet { priority, first, count }) => {
                frame[0] = PACKET;
                frame[1] = priority.level();
                frame[4..8].copy_from_slice(&count.to_be_bytes());
                frame[16..24].copy_from_slice(&first.to_be_bytes());
            }
            Self::Part(Part { priority, number, total, at }) => {
                frame[0] = PART;
                frame[1] = priority.level();
                frame[4..8].copy_from_slice(&total.to_be_bytes());
                frame[8..12].copy_from_slice(&at.to_be_bytes());
                frame[16..24].copy_from_slice(&number.to_be_bytes());
            }
        }
        let check = crc32c(&frame[..CHECKED]);
        frame[CHECKED..].copy_from_slice(&check.to_be_bytes());
        frame
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// [`FrameError`] if the bytes are no frame. Nothing more can then be read from the lane, for
    /// the place of the next frame is unknown.
    pub fn decode(frame: &[u8; FRAME_LEN]) -> Result<Self, FrameError> {
        let (stated, actual) = (u32_at(frame, CHECKED), crc32c(&frame[..CHECKED]));
        if stated != actual {
            return Err(FrameError::Checksum { stated, actual });
        }
        let kind = frame[0];
        let field = |field, value| FrameError::Field { kind, field, value };
        let reserved = |range: Range<usize>| match frame[range].iter().find(|byte| **byte != 0) {
            Some(odd) => Err(field("reserved bytes", (*odd).into())),
            None => Ok(()),
        };
        let flag = |meant: bool| match frame[1] {
            0 => Ok(false),
            1 if meant => Ok(true),
            flags => Err(field("flags", flags.into())),
        };
        let priority = || Priority::new(frame[1]).ok_or_else(|| field("priority", frame[1].into()));
        if kind != RESET {
            reserved(2..4)?;
        }
        match kind {
            DATA => Ok(Self::Data(DataHeader::decode(frame, flag(true)?))),
            CONTROL | DATAGRAM => {
                reserved(8..24)?;
                let header = DataHeader::decode(frame, flag(false)?);
                Ok(if kind == CONTROL { Self::Control(header) } else { Self::Datagram(header) })
            }
            CLOSE => {
                reserved(16..24)?;
                let DataHeader { stream, length, checksum, .. } = DataHeader::decode(frame, flag(false)?);
                if length as usize > LONGEST_REASON {
                    return Err(field("length of a reason", u16::try_from(length).unwrap_or(u16::MAX)));
                }
                Ok(Self::Close { code: stream.0, length, checksum })
            }
            ACK => {
                reserved(4..8)?;
                reserved(24..CHECKED)?;
                Ok(Self::Ack(Ack { chunks: u64_at(frame, 8), limit: u64_at(frame, 16), complete: flag(true)? }))
            }
            STOP => {
                reserved(4..16)?;
                reserved(24..CHECKED)?;
                flag(false)?;
                Ok(Self::Stop { read: u64_at(frame, 16) })
            }
            LEAVE => {
                reserved(4..CHECKED)?;
                Ok(Self::Leave { drained: flag(true)? })
            }
            RESET => {
                reserved(4..CHECKED)?;
                flag(false)?;
                match u16::from_be_bytes([frame[2], frame[3]]) {
                    DROPPED => Ok(Self::Reset(ResetReason::Dropped)),
                    VIOLATION => Ok(Self::Reset(ResetReason::Violation)),
                    MISMATCH => Ok(Self::Reset(ResetReason::Mismatch)),
                    code => Err(field("reason", code)),
                }
            }
            PACKET => {
                reserved(8..16)?;
                reserved(24..CHECKED)?;
                let (priority, first, count) = (priority()?, u64_at(frame, 16), u32_at(frame, 4));
                Ok(Self::Packet(Packet { priority, first, count }))
            }
            PART => {
                reserved(12..16)?;
                reserved(24..CHECKED)?;
                let (total, at) = (u32_at(frame, 4), u32_at(frame, 8));
                Ok(Self::Part(Part { priority: priority()?, number: u64_at(frame, 16), total, at }))
            }
            kind => Err(FrameError::Type(kind)),
        }
    }
}

impl DataHeader {
    /// The header of a chunk, with the checksum of its bytes.
    pub fn of(stream: StreamNumber, offset: u64, payload: &[Bytes], fin: bool) -> Self {
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        payload.iter().for_each(|slice| digest.update(slice));
        let length = payload.iter().map(Bytes::len).sum::<usize>();
        Self { stream, offset, length: length as u32, fin, checksum: digest.finalize() as u32 }
    }

    fn encode(&self, kind: u8, frame: &mut [u8; FRAME_LEN]) {
        let Self { stream, offset, length, fin, checksum } = self;
        (frame[0], frame[1]) = (kind, u8::from(*fin));
        frame[4..8].copy_from_slice(&length.to_be_bytes());
        frame[8..16].copy_from_slice(&stream.0.to_be_bytes());
        frame[16..24].copy_from_slice(&offset.to_be_bytes());
        frame[24..CHECKED].copy_from_slice(&checksum.to_be_bytes());
    }

    fn decode(frame: &[u8; FRAME_LEN], fin: bool) -> Self {
        let (stream, offset) = (StreamNumber(u64_at(frame, 8)), u64_at(frame, 16));
        Self { stream, offset, length: u32_at(frame, 4), fin, checksum: u32_at(frame, 24) }
    }

    /// Whether `payload` has the length and the checksum of the header.
    pub fn matches(&self, payload: &[u8]) -> bool {
        payload.len() == self.length as usize && crc32c(payload) == self.checksum
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn u32_at(frame: &[u8; FRAME_LEN], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|index| frame[at + index]))
}

fn u64_at(frame: &[u8; FRAME_LEN], at: usize) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|index| frame[at + index]))
}

const DATA: u8 = 0x10;
const ACK: u8 = 0x11;
const RESET: u8 = 0x12;
const LEAVE: u8 = 0x13;
const PACKET: u8 = 0x14;
const PART: u8 = 0x15;
const STOP: u8 = 0x16;
const CONTROL: u8 = 0x17;
const DATAGRAM: u8 = 0x18;
const CLOSE: u8 = 0x19;
/// The bytes of a header that its checksum covers.
const CHECKED: usize = FRAME_LEN - 4;
const DROPPED: u16 = 1;
const VIOLATION: u16 = 2;
const MISMATCH: u16 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn priorities() -> impl Strategy<Value = Priority> {
        (0u8..8).prop_filter_map("there are eight", Priority::new)
    }

    fn frames() -> impl Strategy<Value = Frame> {
        prop_oneof![
            (any::<u64>(), any::<u64>(), any::<u32>(), any::<bool>(), any::<u32>()).prop_map(
                |(stream, offset, length, fin, checksum)| {
                    let stream = StreamNumber(stream);
                    Frame::Data(DataHeader { stream, offset, length, fin, checksum })
                }
            ),
            (any::<u32>(), any::<u32>(), any::<bool>()).prop_map(|(length, checksum, is_datagram)| {
                let stream = StreamNumber::FIRST;
                let header = DataHeader { stream, offset: 0, length, fin: false, checksum };
                if is_datagram { Frame::Datagram(header) } else { Frame::Control(header) }
            }),
            (any::<u64>(), 0..=LONGEST_REASON as u32, any::<u32>()).prop_map(|(code, length, checksum)| Frame::Close {
                code,
                length,
                checksum
            }),
            (any::<u64>(), any::<u64>(), any::<bool>()).prop_map(|(chunks, limit, complete)| Frame::Ack(Ack {
                chunks,
                limit,
                complete
            })),
            prop_oneof![Just(ResetReason::Dropped), Just(ResetReason::Violation), Just(ResetReason::Mismatch)]
                .prop_map(Frame::Reset),
            any::<bool>().prop_map(|drained| Frame::Leave { drained }),
            any::<u64>().prop_map(|read| Frame::Stop { read }),
            (priorities(), any::<u64>(), any::<u32>()).prop_map(|(priority, first, count)| Frame::Packet(Packet {
                priority,
                first,
                count
            })),
            (priorities(), any::<u64>(), any::<u32>(), any::<u32>())
                .prop_map(|(priority, number, total, at)| Frame::Part(Part { priority, number, total, at })),
        ]
    }

    proptest! {
        #[test]
        fn a_frame_survives_the_wire(frame in frames()) {
            prop_assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
        }

        #[test]
        fn a_flipped_bit_in_a_header_is_found(frame in frames(), bit in 0..FRAME_LEN * 8) {
            let mut bytes = frame.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Frame::decode(&bytes).is_err());
        }

        #[test]
        fn no_bytes_make_the_codec_panic(bytes in any::<[u8; FRAME_LEN]>(), seal in any::<bool>()) {
            let mut bytes = bytes;
            if seal {
                let check = crc32c(&bytes[..CHECKED]);
                bytes[CHECKED..].copy_from_slice(&check.to_be_bytes());
            }
            if let Ok(frame) = Frame::decode(&bytes) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }

        #[test]
        fn the_checksum_is_that_of_the_joined_slices(slices in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..5)) {
            let payload: Vec<Bytes> = slices.iter().cloned().map(Bytes::from).collect();
            prop_assert!(DataHeader::of(StreamNumber(4), 7, &payload, false).matches(&slices.concat()));
        }
    }

    #[test]
    fn reserved_bytes_of_a_reset() {
        for at in 4..CHECKED {
            let mut bytes = Frame::Reset(ResetReason::Dropped).encode();
            bytes[at] = 7;
            let check = crc32c(&bytes[..CHECKED]);
            bytes[CHECKED..].copy_from_slice(&check.to_be_bytes());
            let refused = FrameError::Field { kind: RESET, field: "reserved bytes", value: 7 };
            assert_eq!(Frame::decode(&bytes), Err(refused));
        }
    }

    #[test]
    fn the_checksum_is_the_one_of_rfc_3720() {
        // RFC 3720, appendix B.4: 32 bytes of zeroes give 8a9136aa (there in the byte order of iSCSI).
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }
}
