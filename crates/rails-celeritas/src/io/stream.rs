//! A connection as tokio's streams of bytes.

use super::{Connection, ConnectionStats, byte_stream::ByteStream};
use bytes::Bytes;
use std::{
    future::poll_fn,
    io::{self, IoSliceMut},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::coop,
};

/// A connection that carries bytes both ways, made by [`Connection::into_stream`]. Both ends are
/// made into one.
///
/// Each write becomes a message of its own, of at most 256 KiB: a
/// [`BufWriter`](tokio::io::BufWriter) in front of small writes saves datagrams. Bytes are copied
/// once at each end; [`write_bytes`](Self::write_bytes) saves the first copy.
///
/// Written bytes leave by themselves, so a flush does nothing, as with a `TcpStream`.
/// [`delivered`](Self::delivered) waits until they are in the peer's memory, and so does a
/// shutdown, which also tells the peer that no more follow. Dropping it delivers the written bytes
/// for up to 5 s, if the runtime lives on, and drops those that were not read.
#[derive(Debug)]
pub struct CeleritasStream(ByteStream);

impl Connection {
    /// The connection as a stream of bytes, before its first message.
    pub fn into_stream(self) -> CeleritasStream {
        CeleritasStream(ByteStream::new(self))
    }
}

impl CeleritasStream {
    /// Writes these bytes without copying them. They are kept until they have arrived.
    ///
    /// # Cancel safety
    /// Not cancel safe: if the call is dropped, some of the bytes may have been written, from the
    /// first one on.
    ///
    /// # Errors
    /// The connection's.
    pub async fn write_bytes(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|context| self.poll_try(context, &[], std::slice::from_ref(&bytes))).await?;
            bytes = bytes.split_off(written);
        }
        Ok(())
    }

    /// Waits until all bytes that were written are in the peer's memory. One caller at a time
    /// waits.
    ///
    /// # Cancel safety
    /// Cancel safe: the call changes nothing.
    ///
    /// # Errors
    /// The connection's, and [`ConnectionReset`](io::ErrorKind::ConnectionReset) if the peer takes
    /// no more bytes.
    pub async fn delivered(&mut self) -> io::Result<()> {
        poll_fn(|context| within_budget(context, |context| self.0.poll_delivered(context))).await
    }

    /// The local address of the control channel.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.connection.local_addr()
    }

    /// The peer's address of the control channel.
    pub fn peer_addr(&self) -> SocketAddr {
        self.0.connection.peer_addr()
    }

    /// The figures so far.
    pub fn stats(&self) -> ConnectionStats {
        self.0.connection.stats()
    }

    /// Writes as many bytes as there is room for.
    fn poll_try(&self, context: &mut Context<'_>, copied: &[u8], shared: &[Bytes]) -> Poll<io::Result<usize>> {
        within_budget(context, |context| {
            loop {
                match self.0.try_write(copied, shared) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        ready!(self.0.poll_writable(context, 1))?;
                    }
                    outcome => return Poll::Ready(outcome),
                }
            }
        })
    }
}

/// Polls within the task's budget: a caller that is always served must not starve others.
pub(super) fn within_budget<R>(context: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> Poll<R>) -> Poll<R> {
    let budget = ready!(coop::poll_proceed(context));
    poll(context).map(|outcome| {
        budget.made_progress();
        outcome
    })
}

impl AsyncRead for CeleritasStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        within_budget(context, |context| {
            loop {
                match self.0.try_read(&mut [IoSliceMut::new(buffer.initialize_unfilled())]) {
                    Ok(count) => {
                        buffer.advance(count);
                        return Poll::Ready(Ok(()));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.0.poll_readable(context))?,
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        })
    }
}

impl AsyncWrite for CeleritasStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_try(context, bytes, &[])
    }

    /// Does nothing: written bytes leave as soon as the rate lets them.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.finish();
        within_budget(context, |context| self.0.poll_delivered(context))
    }
}
