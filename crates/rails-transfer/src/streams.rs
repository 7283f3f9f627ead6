//! The further streams of a transfer, which its caller opens and accepts.

use std::io;
use tokio::io::{AsyncRead, AsyncWrite, Empty, Sink};

/// Opens the streams of a sender that carry files beside the control stream, as
/// [`SendOptions::send_over`](crate::SendOptions::send_over) takes them: the streams of a session
/// in one direction, or connections.
///
/// Each stream is written by a thread of its own, in the context of the runtime from which the
/// transfer was called. Dropping it ends it, after the bytes that were written; the peer takes the
/// end of a stream within a file for a cut.
///
/// `()` opens none.
pub trait OpenStreams: Send {
    /// A stream in which this end writes.
    type Stream: AsyncWrite + Unpin + Send + 'static;

    /// Opens a stream. Files wait as long as the first stream is being opened; the others hold up
    /// nothing.
    ///
    /// # Errors
    /// No further stream can be had. The files go over the streams that are open, and over the
    /// control stream if there are none.
    fn open(&mut self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Accepts the streams that the sender [opens](OpenStreams), as
/// [`ReceiveOptions::receive_over`](crate::ReceiveOptions::receive_over) takes them.
///
/// Each stream is read by a thread of its own, in the context of the runtime from which the
/// transfer was called. The order in which streams are accepted does not matter.
///
/// `()` accepts none.
pub trait AcceptStreams: Send {
    /// A stream in which the peer writes.
    type Stream: AsyncRead + Unpin + Send + 'static;

    /// Waits for the next stream.
    ///
    /// # Errors
    /// No further stream will come. This alone does not end the transfer.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl OpenStreams for () {
    type Stream = Sink;

    async fn open(&mut self) -> io::Result<Sink> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl AcceptStreams for () {
    type Stream = Empty;

    async fn accept(&mut self) -> io::Result<Empty> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
