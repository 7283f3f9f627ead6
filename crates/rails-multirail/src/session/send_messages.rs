//! Messages that an end sends in a stream of a session.

use super::{
    error::{ClosedStream, SendMessageError},
    send_stream::SendStream,
};
use crate::stream::keep;
use bytes::{Bytes, BytesMut};
use rails_proto::messages::Delimited;
use std::future::poll_fn;

/// Messages that this end sends in a stream of a [`MultiRailSession`](crate::MultiRailSession),
/// which its peer receives as [`RecvMessages`](crate::RecvMessages). Each one travels behind its
/// length, a number of four bytes in network byte order.
///
/// Messages of one stream arrive in the order of sending, so a long one holds up those behind it;
/// those of different streams pass each other. Dropping it finishes the stream behind the last
/// message.
///
/// ```
/// use bytes::Bytes;
/// # use rails_multirail::{MultiRailListener, MultiRailSession, RailRequest, Rails, Secret, StreamOptions, plan_rails};
/// # use rails_topo::Topology;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let rails = Rails::build(&plan_rails(&Topology::detect()?, &RailRequest::loopback(2))?)?;
/// # let options = StreamOptions::new(Secret::pre_shared(b"at least sixteen bytes")?);
/// # let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0", "127.0.0.2:0"], &options).await?;
/// # let near = MultiRailSession::connect(&rails, listener.local_addrs(), &options).await?;
/// # let far = listener.accept_session().await?;
/// let mut sender = near.open_uni().await?.into_messages();
/// sender.send(Bytes::from_static(b"first")).await?;
/// sender.send(Bytes::from_static(b"second")).await?;
/// sender.finish()?;
///
/// let mut receiver = far.accept_uni().await?.into_messages(1 << 20);
/// assert_eq!(receiver.recv().await?.as_deref(), Some(&b"first"[..]));
/// assert_eq!(receiver.recv().await?.as_deref(), Some(&b"second"[..]));
/// assert_eq!(receiver.recv().await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SendMessages {
    stream: SendStream,
}

impl SendStream {
    /// Sends messages in the stream from here on. The peer
    /// [receives](crate::RecvStream::into_messages) them as such.
    pub fn into_messages(self) -> SendMessages {
        SendMessages { stream: self }
    }
}

impl SendMessages {
    /// Sends a message: waits until the stream has room, and then takes the message whole, without
    /// a copy if it has 4 KiB or more. A message may be longer than
    /// [`StreamOptions::send_buffer`](crate::StreamOptions::send_buffer) and than the peer's
    /// windows.
    ///
    /// Cancel safe: nothing of the message is sent if the future is dropped.
    ///
    /// # Errors
    /// [`SendMessageError`].
    pub async fn send(&mut self, message: Bytes) -> Result<(), SendMessageError> {
        let mut slices = delimited(message)?;
        poll_fn(|context| self.stream.poll_whole(context, &mut slices)).await?;
        Ok(())
    }

    /// Ends the stream behind the last message, as [`SendStream::finish`] does.
    ///
    /// # Errors
    /// As there.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        self.stream.finish()
    }

    /// The stream, to set its priority, to reset it, or to wait until the peer has everything. The
    /// peer takes bytes that are written to it for messages.
    pub fn stream(&mut self) -> &mut SendStream {
        &mut self.stream
    }

    /// The stream behind the last message, for bytes.
    pub fn into_stream(self) -> SendStream {
        self.stream
    }
}

/// A message behind its length, in the form in which a stream keeps it.
fn delimited(message: Bytes) -> Result<[Bytes; 2], SendMessageError> {
    let length = message.len();
    let prefix = Delimited::prefix(length).ok_or(SendMessageError::TooLong { length })?;
    if length >= SHORT {
        return Ok([Bytes::copy_from_slice(&prefix), keep(message)]);
    }
    let mut whole = BytesMut::with_capacity(prefix.len() + length);
    whole.extend_from_slice(&prefix);
    whole.extend_from_slice(&message);
    Ok([whole.freeze(), Bytes::new()])
}

/// A stream copies shorter writes together, so a message below this length is copied behind its
/// prefix.
const SHORT: usize = 4 << 10;
