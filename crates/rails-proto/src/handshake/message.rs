//! The messages of the handshake. `docs/wire.md` shows them byte by byte.

use super::{HandshakeError, Mode, Refusal};
use crate::parameters::{MAX_LANES, StreamParameters, TransportParameters};
use std::fmt;

/// The version of the protocol that this crate speaks.
pub const VERSION: u8 = 5;

/// The bytes of the prefix of every handshake message.
pub const PREFIX_LEN: usize = 8;

/// The longest piece of a TLS flight that one message carries, in bytes.
pub const LONGEST_TLS: usize = 16 << 10;

/// The longest body of any message but [`HandshakeMessage::Tls`], in bytes: that of a hello.
pub const LONGEST_PLAIN: usize = 80;

/// The longest message of the handshake, in bytes.
pub const LONGEST_MESSAGE: usize = PREFIX_LEN + LONGEST_TLS;

/// The name of a stream: 128 random bits that the initiator chooses.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId(pub [u8; 16]);

/// A random number for one handshake.
pub type Nonce = [u8; 32];

/// A message of the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeMessage {
    /// The initiator asks for a lane.
    Hello(Hello),
    /// The responder asks for a proof.
    Challenge(Challenge),
    /// The initiator's proof.
    Proof(Tag),
    /// The responder's proof: the lane has joined.
    Accepted(Tag),
    /// The lane may not join.
    Refused(Refusal),
    /// A piece of a TLS flight, from 1 to [`LONGEST_TLS`] bytes.
    Tls(Vec<u8>),
    /// The initiator's proof that it has the stream that it asked to open.
    Confirmed(Tag),
}

/// The initiator's request for a lane of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The stream's mode.
    pub mode: Mode,
    /// Whether this lane opens the stream, or joins one that is open.
    pub purpose: Purpose,
    /// The stream.
    pub stream: StreamId,
    /// The lane's number, from 0.
    pub lane: u16,
    /// The number of lanes that the initiator means to open.
    pub lanes: u16,
    /// The initiator's parameters.
    pub parameters: TransportParameters,
    /// The initiator's nonce.
    pub nonce: Nonce,
}

/// The purpose of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To open a stream.
    Open,
    /// To join a stream that is open.
    Join,
    /// To ask for the responder's lanes; this opens no stream.
    Discover,
    /// To open a session of many streams. The parameters of both ends speak of streams then, and in
    /// no other case.
    OpenSession,
}

/// The responder's parameters, and its nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge {
    /// The responder's parameters.
    pub parameters: TransportParameters,
    /// The responder's nonce.
    pub nonce: Nonce,
}

/// An HMAC-SHA-256.
pub type Tag = [u8; 32];

impl HandshakeMessage {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, [mode, detail]) = match self {
            Self::Hello(hello) => (HELLO, [hello.mode.code(), hello.purpose.code()]),
            Self::Challenge(_) => (CHALLENGE, [0, 0]),
            Self::Proof(_) => (PROOF, [0, 0]),
            Self::Accepted(_) => (ACCEPTED, [0, 0]),
            Self::Refused(refusal) => {
                let (mode, code) = refusal.code();
                (REFUSED, [mode.code(), code])
            }
            Self::Tls(flight) => {
                debug_assert!((1..=LONGEST_TLS).contains(&flight.len()));
                (TLS, (flight.len() as u16).to_be_bytes())
            }
            Self::Confirmed(_) => (CONFIRMED, [0, 0]),
        };
        let mut bytes = Vec::with_capacity(PREFIX_LEN + LONGEST_PLAIN);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, kind, mode, detail]);
        match self {
            Self::Hello(hello) => {
                bytes.extend_from_slice(&hello.stream.0);
                bytes.extend_from_slice(&hello.lane.to_be_bytes());
                bytes.extend_from_slice(&hello.lanes.to_be_bytes());
                hello.parameters.encode(&mut bytes);
                bytes.extend_from_slice(&hello.nonce);
            }
            Self::Challenge(challenge) => {
                challenge.parameters.encode(&mut bytes);
                bytes.extend_from_slice(&challenge.nonce);
            }
            Self::Proof(tag) | Self::Accepted(tag) | Self::Confirmed(tag) => bytes.extend_from_slice(tag),
            Self::Refused(_) => {}
            Self::Tls(flight) => bytes.extend_from_slice(flight),
        }
        bytes
    }

    /// The number of bytes that follow the first [`PREFIX_LEN`] of a message.
    ///
    /// # Errors
    /// [`HandshakeError::NotRails`], [`HandshakeError::Version`], or [`HandshakeError::Field`] for
    /// a type that this version does not know.
    pub fn body_len(prefix: &[u8; PREFIX_LEN]) -> Result<usize, HandshakeError> {
        let [a, b, c, d, version, kind, mode, detail] = *prefix;
        if [a, b, c, d] != MAGIC {
            return Err(HandshakeError::NotRails { said: prefix.to_vec() });
        }
        // This end understands a refusal of any version: its first eight bytes are the same in all of them.
        if version != VERSION && kind != REFUSED {
            return Err(HandshakeError::Version { theirs: version });
        }
        match kind {
            HELLO => Ok(LONGEST_PLAIN),
            CHALLENGE => Ok(60),
            PROOF | ACCEPTED | CONFIRMED => Ok(32),
            REFUSED if version != VERSION => Err(HandshakeError::Version { theirs: version }),
            REFUSED => Ok(0),
            TLS => match usize::from(u16::from_be_bytes([mode, detail])) {
                length @ 1..=LONGEST_TLS => Ok(length),
                length => Err(HandshakeError::Field { field: "length of a TLS flight", value: length as u64 }),
            },
            kind => Err(HandshakeError::Field { field: "message type", value: kind.into() }),
        }
    }

    /// Decodes a message from its prefix and the body behind it.
    ///
    /// # Errors
    /// As [`HandshakeMessage::body_len`], and [`HandshakeError::Field`] if a field has a value that
    /// this version does not know.
    ///
    /// # Panics
    /// If `body` is not as long as [`HandshakeMessage::body_len`] says.
    pub fn decode(prefix: &[u8; PREFIX_LEN], body: &[u8]) -> Result<Self, HandshakeError> {
        assert_eq!(body.len(), Self::body_len(prefix)?, "the body is as long as the prefix says");
        let [.., kind, mode, detail] = *prefix;
        if kind == TLS {
            return Ok(Self::Tls(body.to_vec()));
        }
        let unknown = |field, value: u8| HandshakeError::Field { field, value: value.into() };
        let mode = Mode::from_code(mode)
            .filter(|mode| matches!(kind, HELLO | REFUSED) || *mode == Mode::Insecure)
            .ok_or(unknown("mode", mode))?;
        if detail != 0 && !matches!(kind, HELLO | REFUSED) {
            return Err(unknown("detail", detail));
        }
        Ok(match kind {
            HELLO => {
                let purpose = Purpose::from_code(detail).ok_or(unknown("detail", detail))?;
                let parameters = TransportParameters::decode(body, 20)?;
                purpose.check(&parameters)?;
                Self::Hello(Hello {
                    mode,
                    purpose,
                    stream: StreamId(array_at(body, 0)),
                    lane: number_at(body, 16, "lane number", MAX_LANES - 1)?,
                    lanes: number_at(body, 18, "number of lanes", MAX_LANES)?,
                    parameters,
                    nonce: array_at(body, 48),
                })
            }
            CHALLENGE => Self::Challenge(Challenge {
                parameters: TransportParameters::decode(body, 0)?,
                nonce: array_at(body, 28),
            }),
            PROOF => Self::Proof(array_at(body, 0)),
            ACCEPTED => Self::Accepted(array_at(body, 0)),
            CONFIRMED => Self::Confirmed(array_at(body, 0)),
            _ => Self::Refused(Refusal::from_code(mode, detail).ok_or(unknown("reason", detail))?),
        })
    }
}

impl Purpose {
    const ALL: [Self; 4] = [Self::Open, Self::Join, Self::Discover, Self::OpenSession];

    /// Whether the lane opens a stream or a session.
    pub fn opens(self) -> bool {
        matches!(self, Self::Open | Self::OpenSession)
    }

    /// Checks the parameters of either end: they speak of streams if the lane opens a session, and
    /// in no other case.
    pub(super) fn check(self, parameters: &TransportParameters) -> Result<(), HandshakeError> {
        let is_right = parameters.streams.is_some() == (self == Self::OpenSession);
        let value = parameters.streams.map_or(0, |streams| streams.window);
        if is_right { Ok(()) } else { Err(HandshakeError::Field { field: "window of a stream", value }) }
    }

    /// The purpose's number on the wire, from 0.
    fn code(self) -> u8 {
        self as u8
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl TransportParameters {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.longest_chunk.to_be_bytes());
        bytes.extend_from_slice(&self.window.to_be_bytes());
        let none = StreamParameters { window: 0, max_bi: 0, max_uni: 0 };
        let StreamParameters { window, max_bi, max_uni } = self.streams.unwrap_or(none);
        bytes.extend_from_slice(&window.to_be_bytes());
        bytes.extend_from_slice(&max_bi.to_be_bytes());
        bytes.extend_from_slice(&max_uni.to_be_bytes());
    }

    fn decode(body: &[u8], at: usize) -> Result<Self, HandshakeError> {
        let [max_bi, max_uni] = [20, 24].map(|place| u32::from_be_bytes(array_at(body, at + place)));
        let streams = match u64::from_be_bytes(array_at(body, at + 12)) {
            0 if (max_bi, max_uni) == (0, 0) => None,
            0 => return Err(HandshakeError::Field { field: "window of a stream", value: 0 }),
            window => Some(StreamParameters { window, max_bi, max_uni }),
        };
        let parameters = Self {
            longest_chunk: u32::from_be_bytes(array_at(body, at)),
            window: u64::from_be_bytes(array_at(body, at + 4)),
            streams,
        };
        if parameters.longest_chunk == 0 {
            return Err(HandshakeError::Field { field: "longest chunk", value: 0 });
        }
        if parameters.window == 0 {
            return Err(HandshakeError::Field { field: "window", value: 0 });
        }
        Ok(parameters)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamId({self})")
    }
}

/// The `N` bytes at `at`. The caller has checked that they exist.
pub(super) fn array_at<const N: usize>(body: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| body[at + index])
}

/// The number at `at`, at most `max`.
fn number_at(body: &[u8], at: usize, field: &'static str, max: usize) -> Result<u16, HandshakeError> {
    let number = u16::from_be_bytes(array_at(body, at));
    if usize::from(number) > max {
        return Err(HandshakeError::Field { field, value: number.into() });
    }
    Ok(number)
}

pub(super) const MAGIC: [u8; 4] = *b"RAIL";
const HELLO: u8 = 1;
const CHALLENGE: u8 = 2;
const PROOF: u8 = 3;
const ACCEPTED: u8 = 4;
const REFUSED: u8 = 5;
const TLS: u8 = 6;
/// The message of [`super::lanes`], which has its own decoder: it comes after the handshake.
pub(super) const LANES: u8 = 7;
const CONFIRMED: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn encoding_of_tls_flights() {
        for length in [1, 300, LONGEST_TLS] {
            let bytes = HandshakeMessage::Tls(vec![7; length]).encode();
            let (prefix, body) = bytes.split_first_chunk().unwrap();
            assert_eq!(HandshakeMessage::body_len(prefix), Ok(length));
            assert_eq!(HandshakeMessage::decode(prefix, body), Ok(HandshakeMessage::Tls(vec![7; length])));
        }
        for length in [0, LONGEST_TLS as u16 + 1, u16::MAX] {
            let [high, low] = length.to_be_bytes();
            let refused = HandshakeMessage::body_len(&[b'R', b'A', b'I', b'L', VERSION, TLS, high, low]);
            assert_eq!(refused, Err(HandshakeError::Field { field: "length of a TLS flight", value: length.into() }));
        }
    }

    #[test]
    fn a_hello_with_a_lane_number_beyond_63_is_refused() {
        let parameters = TransportParameters::one_stream(1, 1);
        let hello = |lane, lanes| {
            let (mode, purpose, stream) = (Mode::Insecure, Purpose::Join, StreamId([7; 16]));
            let bytes =
                HandshakeMessage::Hello(Hello { mode, purpose, stream, lane, lanes, parameters, nonce: [3; 32] })
                    .encode();
            let (prefix, body) = bytes.split_first_chunk().unwrap();
            HandshakeMessage::decode(prefix, body).map(drop)
        };
        assert_eq!(hello(63, 64), Ok(()));
        assert_eq!(hello(64, 64), Err(HandshakeError::Field { field: "lane number", value: 64 }));
        assert_eq!(hello(0, 65), Err(HandshakeError::Field { field: "number of lanes", value: 65 }));
    }

    #[test]
    fn only_the_hello_of_a_session_speaks_of_streams() {
        let of_session = StreamParameters { window: 5, max_bi: 1, max_uni: 0 };
        for purpose in Purpose::ALL {
            for streams in [None, Some(of_session)] {
                let parameters = TransportParameters { streams, ..TransportParameters::one_stream(1, 1) };
                let (mode, stream) = (Mode::Insecure, StreamId([7; 16]));
                let hello = Hello { mode, purpose, stream, lane: 0, lanes: 1, parameters, nonce: [3; 32] };
                let bytes = HandshakeMessage::Hello(hello).encode();
                let (prefix, body) = bytes.split_first_chunk().unwrap();
                let decoded = HandshakeMessage::decode(prefix, body);
                if streams.is_some() == (purpose == Purpose::OpenSession) {
                    assert_eq!(decoded, Ok(HandshakeMessage::Hello(hello)));
                } else {
                    let value = streams.map_or(0, |streams| streams.window);
                    assert_eq!(decoded, Err(HandshakeError::Field { field: "window of a stream", value }));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_handshake_panic(prefix in any::<[u8; PREFIX_LEN]>(), magic in any::<bool>(), kind in 0u8..9, body in prop::collection::vec(any::<u8>(), LONGEST_TLS)) {
            let mut prefix = prefix;
            if magic {
                prefix[..4].copy_from_slice(&MAGIC);
                prefix[4] = VERSION;
                prefix[5] = kind;
            }
            if let Ok(length) = HandshakeMessage::body_len(&prefix)
                && let Ok(message) = HandshakeMessage::decode(&prefix, &body[..length])
            {
                let bytes = message.encode();
                prop_assert_eq!(&bytes[..PREFIX_LEN], &prefix);
                prop_assert_eq!(&bytes[PREFIX_LEN..], &body[..length]);
            }
        }
    }
}
