//! The messages of a session between two gates.
//!
//! A session is a [stream of messages](rails_multirail::MultiRailMessages). Each message is one
//! [`Frame`] or more, in postcard's format, and behind each [`Frame::Data`] are its bytes. Messages
//! of one priority arrive in the order of sending, and every frame but [`Frame::Credit`] and
//! [`Frame::Blocked`] has the same one, so the frames of a channel stay in order.

#[cfg(test)]
mod tests;

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};
use std::{fmt, io, net::SocketAddr};

/// The version of these messages. A peer of another version is refused.
pub(crate) const VERSION: u16 = 1;

/// Room for the longest frame, bytes of [`Frame::Data`] not counted.
pub(crate) const MAX_FRAME: usize = 64;

/// The name of a running gate, by which it knows a session with itself, and two gates agree which
/// of two sessions they keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Instance(pub(crate) [u8; 16]);

/// The number of a channel: even if the end that dialled the session opened it, odd otherwise. Each
/// end counts up, and uses no number twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ChannelNumber(pub(crate) u64);

/// A message of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Frame {
    /// Bytes of a channel, behind the frame; there is at least one.
    Data { channel: ChannelNumber, length: u32 },
    /// The receiver takes the channel's bytes up to this offset.
    Credit { channel: ChannelNumber, limit: u64 },
    /// The sender has bytes, and no credit.
    Blocked { channel: ChannelNumber },
    /// The first frame of both ends.
    Hello { version: u16, instance: Instance },
    /// Asks for a connection to a service. The opener takes the channel's bytes up to this offset.
    Open { channel: ChannelNumber, destination: SocketAddr, source: Option<SocketAddr>, limit: u64 },
    /// The service has accepted.
    Opened { channel: ChannelNumber, limit: u64 },
    /// There is no connection, and the channel has ended.
    Refused { channel: ChannelNumber, refusal: Refusal },
    /// The sender's direction has ended, as by FIN.
    Finish { channel: ChannelNumber },
    /// Both directions have ended at once, as by RST.
    Reset { channel: ChannelNumber },
}

/// Why a gate did not connect to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum Refusal {
    /// The peer's policy does not let this gate reach the destination.
    NotAllowed,
    /// The peer has as many connections of this gate as it takes.
    TooMany,
    /// The peer has as many bytes of this gate as it keeps.
    NoMemory,
    /// This gate asked more often than the peer allows.
    TooOften,
    /// The destination is the peer's gate itself.
    Loop,
    /// The service did not accept; the number is Linux's errno.
    Service(u16),
}

/// A message that no gate sends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// The bytes are no frame.
    #[error("{length} bytes begin with no frame of a session")]
    NoFrame {
        /// The length of the message's rest.
        length: usize,
    },
    /// A frame of data without bytes, or with fewer than it says.
    #[error("a frame of data says that it has {length} bytes, and {there} are there")]
    Data {
        /// The length that it says.
        length: u32,
        /// The bytes that are there.
        there: usize,
    },
    /// A refusal of a service with a number that is no errno of Linux.
    #[error("a service's refusal has the number {number}, which is no errno")]
    NoErrno {
        /// The number.
        number: u16,
    },
}

impl Frame {
    /// The frame as a message.
    pub(crate) fn encode(&self) -> Bytes {
        let mut room = [0; MAX_FRAME];
        Bytes::copy_from_slice(self.encode_into(&mut room))
    }

    /// Writes the frame to the front of `room`.
    pub(crate) fn encode_into<'a>(&self, room: &'a mut [u8; MAX_FRAME]) -> &'a [u8] {
        postcard::to_slice(self, room).expect("MAX_FRAME has room for every frame")
    }

    /// Takes the next frame of a message, and its bytes if it has any.
    pub(crate) fn take(message: &mut Bytes) -> Result<(Self, Bytes), WireError> {
        let length = message.len();
        let (frame, rest) = postcard::take_from_bytes(message).map_err(|_| WireError::NoFrame { length })?;
        let there = rest.len();
        message.advance(length - there);
        match frame {
            // Refusals are counted by their number, so there have to be few.
            Self::Refused { refusal: Refusal::Service(number), .. } if !ERRNOS.contains(&number) => {
                Err(WireError::NoErrno { number })
            }
            Self::Data { length, .. } if length == 0 || length as usize > there => {
                Err(WireError::Data { length, there })
            }
            Self::Data { length, .. } => Ok((frame, message.split_to(length as usize))),
            frame => Ok((frame, Bytes::new())),
        }
    }

    /// Whether the frame goes before others: credit, before the bytes that wait for some.
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(self, Self::Credit { .. } | Self::Blocked { .. })
    }
}

impl Refusal {
    /// The refusal of a service that could not be connected to.
    pub(crate) fn of(error: &io::Error) -> Self {
        let number = error.raw_os_error().and_then(|number| u16::try_from(number).ok());
        Self::Service(number.unwrap_or(nix::errno::Errno::ETIMEDOUT as u16))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed => f.write_str("the peer's policy does not let this gate reach it"),
            Self::TooMany => f.write_str("the peer carries as many connections as it takes from this gate"),
            Self::NoMemory => f.write_str("the peer keeps as many bytes as it takes from this gate"),
            Self::TooOften => f.write_str("this gate opens more connections a second than the peer takes"),
            Self::Loop => f.write_str("it is the peer's gate itself"),
            Self::Service(number) => {
                write!(f, "the service: {}", nix::errno::Errno::from_raw(i32::from(*number)).desc())
            }
        }
    }
}

impl fmt::Display for ChannelNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The numbers of Linux's errors (`MAX_ERRNO` of include/linux/err.h).
const ERRNOS: std::ops::RangeInclusive<u16> = 1..=4095;
