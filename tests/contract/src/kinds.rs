//! Streams of two kinds under one type, so that a test runs over TCP, which is the reference, and
//! over rails.

use crate::{Pair, in_time, pair};
use rails::multirail::{MultiRailStream, Rails};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};

/// A stream of either kind.
pub(crate) type Stream = Box<dyn Duplex>;

pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {
    /// Gives the stream up.
    fn abort(self: Box<Self>);
}

impl Duplex for TcpStream {
    fn abort(self: Box<Self>) {
        self.set_zero_linger().expect("a socket takes it");
    }
}

impl Duplex for MultiRailStream {
    fn abort(self: Box<Self>) {
        MultiRailStream::abort(*self);
    }
}

/// The transports of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Rails,
}

impl Kind {
    /// The oracle first.
    pub(crate) const BOTH: [Self; 2] = [Self::Tcp, Self::Rails];
}

/// Both ends of a stream of either kind.
pub(crate) struct Ends {
    pub(crate) near: Stream,
    pub(crate) far: Stream,
    /// The rails of the stream, which live as long as it does.
    _rails: Option<Rails>,
}

pub(crate) async fn ends(kind: Kind) -> Ends {
    match kind {
        Kind::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("it is bound");
            let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
            let (near, far) = (near.expect("it can be reached"), far.expect("one comes").0);
            Ends { near: Box::new(near), far: Box::new(far), _rails: None }
        }
        Kind::Rails => {
            let Pair { near, far, rails } = pair().await;
            Ends { near: Box::new(near), far: Box::new(far), _rails: Some(rails) }
        }
    }
}

/// Runs a conversation over streams of both kinds, `times` times each. The conversation asserts its
/// own outcome.
pub(crate) async fn over_both(times: usize, talk: impl AsyncFn(Stream, Stream)) {
    for kind in Kind::BOTH {
        for time in 0..times {
            println!("{kind:?}, time {time}");
            let Ends { near, far, _rails } = ends(kind).await;
            in_time(talk(near, far)).await;
        }
    }
}
