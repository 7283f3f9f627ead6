//! Streams of several kinds under one type, so that a test runs over TCP, which is the reference,
//! and over rails.

use crate::{Pair, Sessions, in_time, pair, sessions};
use rails::multirail::{MultiRailSession, MultiRailStream, Rails, RecvStream, SendStream};
use tokio::{
    io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Join},
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

/// A stream of a session.
impl Duplex for Join<RecvStream, SendStream> {
    fn abort(self: Box<Self>) {
        let (_, mut sender) = self.into_inner();
        sender.reset(0).expect("it was not finished");
    }
}

/// The transports of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Rails,
    /// One of the streams of a session.
    Session,
}

impl Kind {
    /// The oracle first.
    pub(crate) const BOTH: [Self; 2] = [Self::Tcp, Self::Rails];
    const ALL: [Self; 3] = [Self::Tcp, Self::Rails, Self::Session];
}

/// Both ends of a stream of either kind.
pub(crate) struct Ends {
    pub(crate) near: Stream,
    pub(crate) far: Stream,
    /// The rails of the stream, and its session, which live as long as it does.
    _rails: Option<Rails>,
    _session: Option<[MultiRailSession; 2]>,
}

pub(crate) async fn ends(kind: Kind) -> Ends {
    match kind {
        Kind::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("it is bound");
            let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
            let (near, far) = (near.expect("it can be reached"), far.expect("one comes").0);
            Ends { near: Box::new(near), far: Box::new(far), _rails: None, _session: None }
        }
        Kind::Rails => {
            let Pair { near, far, rails } = pair().await;
            Ends { near: Box::new(near), far: Box::new(far), _rails: Some(rails), _session: None }
        }
        Kind::Session => {
            let Sessions { near, far, rails } = sessions().await;
            let (mut sender, receiver) = near.open_bi().await.expect("the peer allows it");
            // The peer learns of a stream by its first byte.
            AsyncWriteExt::write_all(&mut sender, b"!").await.expect("the session is open");
            let (there, mut here) = far.accept_bi().await.expect("one was opened");
            here.read_exact(&mut [0]).await.expect("a byte was written");
            let (_rails, _session) = (Some(rails), Some([near, far]));
            let (near, far) = (Box::new(io::join(receiver, sender)), Box::new(io::join(here, there)));
            Ends { near, far, _rails, _session }
        }
    }
}

/// Runs a conversation over streams of every kind, `times` times each. The conversation asserts its
/// own outcome.
pub(crate) async fn over_all(times: usize, talk: impl AsyncFn(Stream, Stream)) {
    for kind in Kind::ALL {
        for time in 0..times {
            println!("{kind:?}, time {time}");
            let Ends { near, far, _rails, _session } = ends(kind).await;
            in_time(talk(near, far)).await;
        }
    }
}
