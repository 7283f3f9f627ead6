//! The server's side of SOCKS 5, CONNECT without authentication (RFC 1928).
//!
//! [`accept`] reads the request of a client and not one byte more, so the socket itself can be
//! handed on afterwards. The caller connects in its own way, and says how that ended by
//! [`Request::granted`] or [`Request::refused`].
//!
//! BIND and UDP ASSOCIATE are refused, and so is a client that takes no connection without
//! authentication: whoever reaches the listening socket may use it, so it belongs on loopback.

mod handshake;
mod reply;
#[cfg(test)]
mod tests;

use handshake::{Handshake, Step};
pub use reply::Reply;
use std::{
    fmt,
    io::{self, ErrorKind},
    net::SocketAddr,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::lookup_host,
    time::timeout,
};

/// A client that has asked for a connection, and waits for the answer.
#[derive(Debug)]
pub struct Request<S> {
    destination: Destination,
    stream: S,
}

/// The place that a client wants to be connected to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Destination {
    /// An address.
    Address(SocketAddr),
    /// A host's name, and a port. It is no address, and has neither spaces nor control characters.
    Name(String, u16),
}

/// A client that got no request through.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocksError {
    /// The connection broke, or ended before the request did.
    #[error("cannot read the request of the SOCKS client")]
    Io(#[from] io::Error),
    /// The request took too long.
    #[error("the SOCKS client has sent no whole request within {within:?}")]
    TimedOut {
        /// The time that it had.
        within: Duration,
    },
    /// The client speaks another version, or another protocol.
    #[error("the client does not speak SOCKS 5, but {}; tell it to use socks5:// or socks5h://", spoken(*version))]
    Version {
        /// The first byte.
        version: u8,
        /// Whether it is that of a request, after a greeting of SOCKS 5.
        is_request: bool,
    },
    /// The client takes no connection without authentication.
    #[error("the SOCKS client takes no connection without authentication; leave out its user and password")]
    Authentication,
    /// The client wants to be connected to, or to send datagrams.
    #[error("the SOCKS client asks for another command than CONNECT alone, which is served")]
    Command,
    /// The destination is neither an address nor a name.
    #[error("the SOCKS client asks for an address of the unknown type {kind}")]
    AddressType {
        /// The type.
        kind: u8,
    },
    /// The name of the destination is none.
    #[error("the SOCKS client asks for a host by a text that is no name")]
    Name,
}

/// Reads the request of a client, and no byte behind it. A client that is refused is told why, and
/// its connection is closed. A client that has not said all within [`ACCEPT_WITHIN`] is left.
///
/// # Errors
/// [`SocksError`].
pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> Result<Request<S>, SocksError> {
    let read = timeout(ACCEPT_WITHIN, destination(&mut stream));
    match read.await.unwrap_or(Err(SocksError::TimedOut { within: ACCEPT_WITHIN })) {
        Ok(destination) => Ok(Request { destination, stream }),
        Err(error) => {
            if let Some(answer) = error.answer() {
                // The client is refused all the same if it does not hear why.
                let _ = close_with(stream, &answer).await;
            }
            Err(error)
        }
    }
}

/// The time that a client has for its request. RFC 1928 names none; 10 s is folklore.
pub const ACCEPT_WITHIN: Duration = Duration::from_secs(10);

impl<S: AsyncRead + AsyncWrite + Unpin> Request<S> {
    /// The place that the client wants to be connected to.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Tells the client that it is connected, from the address `bound`, and returns its stream;
    /// the bytes that follow are for the destination. The unspecified address stands for an
    /// unknown one.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn granted(mut self, bound: SocketAddr) -> io::Result<S> {
        self.stream.write_all(&reply::granted(bound)).await?;
        self.stream.flush().await?;
        Ok(self.stream)
    }

    /// Tells the client why it is not connected, and closes its connection, after at most a
    /// second.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn refused(self, reply: Reply) -> io::Result<()> {
        close_with(self.stream, &reply.message()).await
    }
}

impl Destination {
    /// The addresses: of a name all those that the system's resolver gives, in its order, each
    /// once and at least one. It needs a tokio runtime, whose blocking threads ask the resolver.
    ///
    /// # Errors
    /// The resolver's error, as a [`HostUnreachable`](ErrorKind::HostUnreachable).
    pub async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let (name, port) = match self {
            Self::Address(address) => return Ok(vec![*address]),
            Self::Name(name, port) => (name.as_str(), *port),
        };
        let unknown = |error: io::Error| io::Error::new(ErrorKind::HostUnreachable, error);
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in lookup_host((name, port)).await.map_err(unknown)? {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() { Err(unknown(io::Error::other("the name has no address"))) } else { Ok(addresses) }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

impl SocksError {
    /// The answer to the client, if it understands one.
    fn answer(&self) -> Option<Vec<u8>> {
        match self {
            Self::Io(_) | Self::TimedOut { .. } | Self::Version { is_request: false, .. } => None,
            Self::Authentication => Some(NO_ACCEPTABLE_METHOD.into()),
            Self::Version { is_request: true, .. } | Self::Name => Some(Reply::GeneralFailure.message()),
            Self::Command => Some(Reply::CommandNotSupported.message()),
            Self::AddressType { .. } => Some(Reply::AddressTypeNotSupported.message()),
        }
    }
}

async fn destination<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<Destination, SocksError> {
    let mut handshake = Handshake::new();
    let mut buffer = [0; 257];
    loop {
        let bytes = &mut buffer[..handshake.wanted()];
        stream.read_exact(bytes).await?;
        match handshake.take(bytes)? {
            Step::More => {}
            Step::Answer(answer) => {
                stream.write_all(&answer).await?;
                stream.flush().await?;
            }
            Step::Request(destination) => return Ok(destination),
        }
    }
}

/// Sends a last message, and closes. A socket that is closed while it has unread bytes resets its
/// connection, and the client might never see the message; so what it sent is read first, up to a
/// bound.
async fn close_with<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, message: &[u8]) -> io::Result<()> {
    let closing = async {
        stream.write_all(message).await?;
        stream.shutdown().await?;
        let (mut unread, mut buffer) = (MAX_UNREAD, [0; 1024]);
        while unread > 0 {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(count) => unread = unread.saturating_sub(count),
            }
        }
        Ok(())
    };
    // A client that keeps its end open has had the time to read.
    timeout(CLOSE_WITHIN, closing).await.unwrap_or(Ok(()))
}

/// The protocol that a first byte belongs to.
fn spoken(version: u8) -> String {
    match version {
        b'A'..=b'Z' => "HTTP".to_owned(),
        0x16 => "TLS".to_owned(),
        _ => format!("version {version}"),
    }
}

const NO_ACCEPTABLE_METHOD: [u8; 2] = [5, 0xff];

/// The time that a refused client has to close its end.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// The number of bytes of a refused client that are read and thrown away.
const MAX_UNREAD: usize = 64 << 10;
