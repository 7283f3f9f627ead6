//! Why a connection cannot be opened, and why it ends.

use crate::proto::{
    connection::{Failure, MIN_MTU},
    control::Broken,
    wire::FrameError,
};
use rails_net::{AcceptError, ConnectError, ListenError, UdpError};
use rails_proto::handshake::{HandshakeError, Limit, Mode};
use std::{io, net::SocketAddr, time::Duration};

/// A connection could not be opened, or a listener.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenConnectionError {
    /// The control channel could not be opened.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// No connection can be accepted any more.
    #[error(transparent)]
    Accept(#[from] AcceptError),
    /// The listener has returned before the reason why no connection can be accepted.
    #[error("nothing listens on {address} any more")]
    Ended {
        /// The listener's address.
        address: SocketAddr,
    },
    /// The peer sent no greeting in time.
    #[error("{remote} sent no greeting within {} s", .limit.as_secs())]
    Silent {
        /// The peer's address.
        remote: SocketAddr,
        /// The time that the peer had.
        limit: Duration,
    },
    /// The peer's first bytes are not those of this protocol.
    #[error("{remote} does not speak this protocol")]
    Foreign {
        /// The peer's address.
        remote: SocketAddr,
    },
    /// The peer speaks another version.
    #[error("{remote} speaks version {theirs} of the protocol, and this end version {ours}")]
    Version {
        /// The peer's address.
        remote: SocketAddr,
        /// The peer's version.
        theirs: u16,
        /// This end's version.
        ours: u16,
    },
    /// The peer wants a secret or TLS, and this end has none.
    #[error("{remote} takes no connection without security, and this end has none")]
    Secured {
        /// The peer's address.
        remote: SocketAddr,
    },
    /// This end wants a secret or TLS, and the peer has none.
    #[error("{remote} opens a connection without security")]
    Unsecured {
        /// The peer's address.
        remote: SocketAddr,
    },
    /// The handshake failed: the peer has another secret, or TLS does not trust it.
    #[error("the handshake with {remote} failed")]
    Handshake {
        /// The peer's address.
        remote: SocketAddr,
        /// The reason.
        source: HandshakeError,
    },
    /// The peer began a TLS handshake when this end's listener took no more of them in that second.
    #[error("{remote} was told to try again: this end has {limit}")]
    Busy {
        /// The peer's address.
        remote: SocketAddr,
        /// The limit that was reached.
        limit: Limit,
    },
    /// The security of this end is for the other role: the client's side of TLS listens, or the
    /// server's side or the secrets of several peers connect.
    #[error("the credentials of mode {mode} are not for this role")]
    Role {
        /// The mode.
        mode: Mode,
    },
    /// This build cannot seal segments, which every mode but the insecure one does.
    #[error(
        "segments cannot be sealed, as mode {mode} asks: this build is without rails-celeritas' feature `encryption`"
    )]
    NoEncryption {
        /// The mode.
        mode: Mode,
    },
    /// The interface towards the peer takes no packets of 1,280 bytes.
    #[error("the interface towards {remote} has an MTU of {mtu}, and {MIN_MTU} are needed")]
    SmallMtu {
        /// The peer's address.
        remote: SocketAddr,
        /// The interface's MTU in bytes.
        mtu: u32,
    },
    /// The rate is zero.
    #[error("a rate of 0 sends nothing")]
    NoRate,
    /// The greeting could not be exchanged.
    #[error("the greeting with {remote} failed")]
    Greeting {
        /// The peer's address.
        remote: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The socket for segments could not be opened.
    #[error("no socket for segments")]
    Socket(#[from] UdpError),
    /// The system gave no timer, or no random numbers.
    #[error("{what} cannot be had")]
    System {
        /// The thing.
        what: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl OpenConnectionError {
    /// Whether the listener that gives this error accepts no connection any more.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Accept(error) => !error.is_transient(),
            Self::Ended { .. } => true,
            _ => false,
        }
    }
}

/// Why a connection has ended before everything had arrived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The protocol says so.
    #[error(transparent)]
    Protocol(#[from] Failure),
    /// No segment has ever arrived, though the control channel works.
    #[error("no datagram arrives at {remote}: a firewall may drop UDP")]
    Blocked {
        /// The peer's address for segments.
        remote: SocketAddr,
    },
    /// The control channel failed.
    #[error("the control channel failed: {0}")]
    Control(io::ErrorKind),
    /// The peer sent bytes that are no frame.
    #[error("the peer broke the protocol")]
    Frame(#[from] FrameError),
    /// The runtime that drove the connection has ended.
    #[error("the runtime of the connection has ended")]
    Stopped,
}

/// Why [`Connection::close`](super::Connection::close) has stopped waiting for the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The connection has ended before.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The peer does not take the messages. The connection goes on to deliver them for up to 5 s,
    /// as long as its runtime lives.
    #[error("for {limit:?} {remote} has taken none of the last {bytes} bytes")]
    NotDelivered {
        /// The peer's address.
        remote: SocketAddr,
        /// The bytes of messages that the peer does not have, as far as this end knows.
        bytes: u64,
        /// [`CeleritasOptions::close_timeout`](super::CeleritasOptions::close_timeout).
        limit: Duration,
    },
    /// The peer has every message of this end, and the connection does not come to its end: the
    /// peer does not end its own direction, sends no bytes of its messages that are missing here,
    /// or reads no frames.
    #[error("for {limit:?} nothing new has come from {remote}, and the connection has not come to its end")]
    NotEnded {
        /// The peer's address.
        remote: SocketAddr,
        /// [`CeleritasOptions::close_timeout`](super::CeleritasOptions::close_timeout).
        limit: Duration,
    },
}

/// Why a message could not be sent, or has not arrived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The message cannot be submitted.
    #[error(transparent)]
    Submit(#[from] crate::proto::sender::SubmitError),
    /// The connection has ended. The message may have arrived.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// This end has said that it sends no more.
    #[error("the connection is closed for sending")]
    Closed,
    /// As many bytes wait to be sent as [may](super::CeleritasOptions::max_unsent), or another
    /// caller waits for room.
    #[error("the messages before this one wait to be sent, and take all the room")]
    Full,
    /// The peer does not want the message, or has no memory for it.
    #[error("the peer has refused message {0}")]
    Refused(u32),
    /// The message had not arrived by its deadline, and was given up. It may have arrived all the
    /// same.
    #[error("message {0} had not arrived by its deadline")]
    Expired(u32),
}

/// Why a message could not be received. The next one may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The peer has given the message up.
    #[error("the peer has given message {0} up")]
    GivenUp(u32),
    /// The blocks do not hold the message, or it is longer than this end takes without blocks. This
    /// end tells the peer.
    #[error("message {number} has {length} bytes, more than there is memory for")]
    TooLong {
        /// The message's number.
        number: u32,
        /// The message's length.
        length: u64,
    },
    /// The connection has ended.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
}

impl From<Broken> for ConnectionError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Stream(kind) => Self::Control(kind),
            Broken::Frame(error) => Self::Frame(error),
        }
    }
}

impl From<CloseError> for io::Error {
    fn from(error: CloseError) -> Self {
        match error {
            CloseError::Connection(error) => error.into(),
            error => Self::new(io::ErrorKind::TimedOut, error),
        }
    }
}

impl From<ConnectionError> for io::Error {
    fn from(error: ConnectionError) -> Self {
        let kind = match &error {
            ConnectionError::Protocol(Failure::Cut) => io::ErrorKind::ConnectionReset,
            ConnectionError::Protocol(Failure::Silent(_) | Failure::Blocked) | ConnectionError::Blocked { .. } => {
                io::ErrorKind::TimedOut
            }
            ConnectionError::Control(kind) => *kind,
            ConnectionError::Protocol(_) | ConnectionError::Frame(_) => io::ErrorKind::InvalidData,
            ConnectionError::Stopped => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
