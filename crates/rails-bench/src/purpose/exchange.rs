//! Greetings and turns over their carriers: the bytes of a stream or of a flow, or messages.

use super::{GreetingError, PATIENCE, PeerLeft, Purpose, TURN};
use crate::print;
use bytes::Bytes;
use rails_multirail::{MultiRailMessages, Priority};
use std::{
    io::{self, ErrorKind},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

/// A carrier of greetings.
pub(crate) trait GreetingChannel: Send {
    /// Sends these few bytes.
    fn send_bytes(&mut self, words: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Receives exactly `N` bytes.
    fn receive<const N: usize>(&mut self) -> impl Future<Output = io::Result<[u8; N]>> + Send;

    /// Ends the sending side, and waits until the sent bytes are delivered.
    fn end(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> GreetingChannel for S {
    async fn send_bytes(&mut self, words: &[u8]) -> io::Result<()> {
        self.write_all(words).await?;
        self.flush().await
    }

    async fn receive<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut heard = [0; N];
        self.read_exact(&mut heard).await?;
        Ok(heard)
    }

    async fn end(&mut self) -> io::Result<()> {
        self.shutdown().await
    }
}

/// Messages as a carrier: each greeting or turn is one message.
pub(crate) struct InMessages<'a>(pub(crate) &'a mut MultiRailMessages);

/// Sends this end's purpose, and receives the peer's. If the two do not fit, both ends detect that.
///
/// # Errors
/// [`GreetingError`], within ten seconds.
pub(crate) async fn greet(stream: &mut impl GreetingChannel, ours: Purpose) -> Result<(), GreetingError> {
    let heard = timeout(PATIENCE, async {
        // A greeting fits the buffer of any stream, so sending it does not wait for the peer to
        // read.
        stream.send_bytes(&ours.greeting()).await?;
        stream.receive().await
    });
    let fits = match heard.await {
        Ok(Ok(heard)) => ours.check(&heard),
        Ok(Err(error)) => return Err(GreetingError::Cut(error)),
        Err(_) => Err(GreetingError::Silent),
    };
    if fits.is_err() {
        // The peer should still receive this end's purpose; the result is the same if it does not.
        let _ = timeout(FAREWELL, stream.end()).await;
    }
    fits
}

/// Waits for the turn of a greeted stream, while the peer serves others.
///
/// # Errors
/// The stream's failure.
pub(crate) async fn await_turn(stream: &mut impl GreetingChannel) -> io::Result<()> {
    let mut turn = std::pin::pin!(stream.receive());
    let heard = match timeout(SHORT, &mut turn).await {
        Ok(heard) => heard,
        Err(_) => {
            print::note("waiting: the peer is busy with another");
            turn.await
        }
    };
    match heard? {
        [TURN] => Ok(()),
        _ => Err(io::Error::new(ErrorKind::InvalidData, "the peer said something else than that it is ready")),
    }
}

/// Gives a greeted stream its turn.
///
/// # Errors
/// [`PeerLeft`] if the stream has failed.
pub(crate) async fn give_turn(stream: &mut impl GreetingChannel) -> Result<(), PeerLeft> {
    stream.send_bytes(&[TURN]).await.map_err(PeerLeft)
}

impl GreetingChannel for InMessages<'_> {
    async fn send_bytes(&mut self, words: &[u8]) -> io::Result<()> {
        self.0.send(Bytes::copy_from_slice(words), Priority::NORMAL).await
    }

    async fn receive<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let message = self.0.recv().await?.ok_or(ErrorKind::UnexpectedEof)?;
        (*message.payload).try_into().map_err(|_| io::Error::new(ErrorKind::InvalidData, "a message of another length"))
    }

    async fn end(&mut self) -> io::Result<()> {
        self.0.finish().await
    }
}

/// The time that an end that does not fit has to deliver its greeting.
const FAREWELL: Duration = Duration::from_secs(1);
/// The wait after which a note says that the peer is busy.
const SHORT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    #[tokio::test]
    async fn both_ends_get_to_know_that_they_do_not_fit() {
        let (mut near, mut far) = duplex(64);
        let (near, far) = tokio::join!(greet(&mut near, Purpose::Send), greet(&mut far, Purpose::Serve));
        assert!(matches!(near, Err(GreetingError::Purpose { ours: Purpose::Send, theirs: Purpose::Serve })));
        assert!(matches!(far, Err(GreetingError::Purpose { ours: Purpose::Serve, theirs: Purpose::Send })));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_given_up() {
        let (mut near, _far) = duplex(64);
        assert!(matches!(greet(&mut near, Purpose::Send).await, Err(GreetingError::Silent)));
        let (mut near, mut far) = duplex(64);
        far.write_all(b"BENCH-TO").await.unwrap();
        assert!(
            matches!(greet(&mut near, Purpose::Send).await, Err(GreetingError::Silent)),
            "nor one that says half of it"
        );
        drop(far);
        let (mut near, far) = duplex(64);
        drop(far);
        assert!(matches!(greet(&mut near, Purpose::Send).await, Err(GreetingError::Cut(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_waited_for_as_long_as_it_takes() {
        let (mut near, mut far) = duplex(64);
        let later = async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            give_turn(&mut far).await
        };
        let (waited, given) = tokio::join!(await_turn(&mut near), later);
        assert!(waited.is_ok() && given.is_ok());
        far.write_all(b"?").await.unwrap();
        assert_eq!(await_turn(&mut near).await.unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
