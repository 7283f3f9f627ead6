//! The errors of sessions and their streams.

use crate::{Failure, StreamError};
use bytes::Bytes;
use rails_proto::{messages::DelimitedError, session::LONGEST_DATAGRAM};
use std::io::{self, ErrorKind};

/// Why a session has ended.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The peer's application has closed the session, or has dropped its last handle (code 0).
    #[error("{}", Failure::ClosedByPeer { code: *code, reason: reason.clone() })]
    ClosedByPeer {
        /// The peer's code.
        code: u64,
        /// The peer's reason, for people.
        reason: Bytes,
    },
    /// The application of this end has closed the session.
    #[error("{}", Failure::Closed { code: *code, reason: reason.clone() })]
    Closed {
        /// The code of this end.
        code: u64,
        /// The reason of this end.
        reason: Bytes,
    },
    /// The session has failed: it lost its lanes, or an end broke the protocol.
    #[error(transparent)]
    Failed(StreamError),
}

/// Why a write to a stream of a session fails.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer reads no more of the stream.
    #[error("the peer stopped the stream with code {0}")]
    Stopped(u64),
    /// The session has ended.
    #[error("the session has ended")]
    SessionLost(#[from] SessionError),
    /// The application of this end has finished or reset the stream.
    #[error("this end has finished or reset the stream")]
    Closed,
}

/// Why a read from a stream of a session fails.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer has reset the stream.
    #[error("the peer reset the stream with code {0}")]
    Reset(u64),
    /// The session has ended.
    #[error("the session has ended")]
    SessionLost(#[from] SessionError),
    /// The application of this end has stopped the stream.
    #[error("this end has stopped the stream")]
    Closed,
}

/// Why [`RecvStream::read_to_end`](crate::RecvStream::read_to_end) fails.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// A read has failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The stream is longer than the caller allows.
    #[error("the stream is longer than the {limit} bytes that the caller allows")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// Why [`SendMessages::send`](crate::SendMessages::send) fails.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SendMessageError {
    /// The write has failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The message is longer than four bytes can say.
    #[error("a message of {length} bytes is longer than {} bytes", u32::MAX)]
    TooLong {
        /// The message's length, in bytes.
        length: usize,
    },
}

/// Why [`RecvMessages::recv`](crate::RecvMessages::recv) fails.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RecvMessageError {
    /// A read has failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The next message is longer than the caller allows.
    #[error("the next message has {length} bytes, and the caller allows {limit}")]
    TooLong {
        /// The message's length, in bytes.
        length: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The stream has ended within a message.
    #[error(
        "the stream ended within a message: {arrived} bytes of {} had arrived",
        length.map_or("an unknown number".to_owned(), |length| length.to_string())
    )]
    Truncated {
        /// The number of bytes of the message that have arrived.
        arrived: usize,
        /// The message's length, in bytes; `None` if it has not arrived.
        length: Option<usize>,
    },
}

/// Why a datagram is not sent.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The datagram is too long.
    #[error("a datagram of {length} bytes is longer than {LONGEST_DATAGRAM} bytes")]
    TooLong {
        /// The datagram's length, in bytes.
        length: usize,
    },
    /// The session has ended.
    #[error("the session has ended")]
    SessionLost(#[from] SessionError),
}

/// The error of a call to a direction of a stream that the application has ended before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this end has ended this direction of the stream before")]
pub struct ClosedStream;

impl SessionError {
    /// The session's error with its cause.
    pub(crate) fn of(error: StreamError) -> Self {
        match error.failure {
            Failure::ClosedByPeer { code, reason } => Self::ClosedByPeer { code, reason },
            Failure::Closed { code, reason } => Self::Closed { code, reason },
            _ => Self::Failed(error),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::ClosedByPeer { .. } => ErrorKind::ConnectionAborted,
            Self::Closed { .. } => ErrorKind::NotConnected,
            Self::Failed(error) => error.failure.kind(),
        }
    }
}

impl From<DelimitedError> for RecvMessageError {
    fn from(error: DelimitedError) -> Self {
        match error {
            DelimitedError::TooLong { length, limit } => Self::TooLong { length, limit },
            DelimitedError::Truncated { arrived, length } => Self::Truncated { arrived, length },
        }
    }
}

impl WriteError {
    /// The error of a stream with its cause.
    pub(super) fn of(error: StreamError) -> Self {
        match error.failure {
            Failure::StoppedWith { code } => Self::Stopped(code),
            _ => Self::SessionLost(SessionError::of(error)),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Stopped(_) | Self::Closed => ErrorKind::BrokenPipe,
            Self::SessionLost(error) => error.kind(),
        }
    }
}

impl ReadError {
    /// The error of a stream with its cause.
    pub(super) fn of(error: StreamError) -> Self {
        match error.failure {
            Failure::ResetWith { code } => Self::Reset(code),
            _ => Self::SessionLost(SessionError::of(error)),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Reset(_) => ErrorKind::ConnectionReset,
            Self::SessionLost(error) => error.kind(),
            Self::Closed => ErrorKind::NotConnected,
        }
    }
}

impl From<SessionError> for io::Error {
    fn from(error: SessionError) -> Self {
        Self::new(error.kind(), error)
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        Self::new(error.kind(), error)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        Self::new(error.kind(), error)
    }
}

impl From<ReadToEndError> for io::Error {
    fn from(error: ReadToEndError) -> Self {
        let kind = match &error {
            ReadToEndError::Read(error) => error.kind(),
            ReadToEndError::TooLong { .. } => ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

impl From<SendMessageError> for io::Error {
    fn from(error: SendMessageError) -> Self {
        let kind = match &error {
            SendMessageError::Write(error) => error.kind(),
            SendMessageError::TooLong { .. } => ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl From<RecvMessageError> for io::Error {
    fn from(error: RecvMessageError) -> Self {
        let kind = match &error {
            RecvMessageError::Read(error) => error.kind(),
            RecvMessageError::TooLong { .. } => ErrorKind::InvalidData,
            RecvMessageError::Truncated { .. } => ErrorKind::UnexpectedEof,
        };
        Self::new(kind, error)
    }
}

impl From<SendDatagramError> for io::Error {
    fn from(error: SendDatagramError) -> Self {
        let kind = match &error {
            SendDatagramError::TooLong { .. } => ErrorKind::InvalidInput,
            SendDatagramError::SessionLost(error) => error.kind(),
        };
        Self::new(kind, error)
    }
}

impl From<ClosedStream> for io::Error {
    fn from(error: ClosedStream) -> Self {
        Self::new(ErrorKind::NotConnected, error)
    }
}
