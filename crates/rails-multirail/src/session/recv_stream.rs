//! The receiving direction of a stream of a session.

use super::error::{ClosedStream, ReadError, ReadToEndError, SessionError};
use crate::{
    Failure,
    stream::{MultiRailStream, StreamTasks},
};
use bytes::{Buf, Bytes};
use rails_proto::{session::Session, stream_number::StreamNumber};
use std::{
    future::poll_fn,
    io::Result as IoResult,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    task::coop,
};

/// The receiving direction of a stream of a [`MultiRailSession`](crate::MultiRailSession).
///
/// Bytes that have arrived before a [failure](ReadError::SessionLost) of the session can still be
/// read. Dropping it [stops](Self::stop) the stream with code 0 as soon as bytes are there that
/// nobody reads. A peer that sends nothing more ends its direction as usual; a stream of this end
/// with neither handle is stopped too, once its place is needed for another.
#[derive(Debug)]
pub struct RecvStream {
    session: Arc<MultiRailStream>,
    tasks: Arc<StreamTasks>,
    /// Bytes taken from the session and not handed out.
    reading: Bytes,
    is_stopped: bool,
}

impl RecvStream {
    pub(super) fn new(session: Arc<MultiRailStream>, tasks: Arc<StreamTasks>) -> Self {
        Self { session, tasks, reading: Bytes::new(), is_stopped: false }
    }

    /// The stream's number in its session. Both ends know the stream by it.
    pub fn id(&self) -> StreamNumber {
        self.tasks.number()
    }

    /// Waits for bytes, and copies as many of them as the buffer has room for. `None` at the end of
    /// the stream. Cancel safe.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReadError> {
        let Some(bytes) = self.read_chunk(buffer.len()).await? else { return Ok(None) };
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(Some(bytes.len()))
    }

    /// Waits for the next bytes in order, and gives them without a copy, at most `max`. `None` at
    /// the end of the stream. A `max` of 0 gives no bytes, at once. Cancel safe.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|context| self.poll_chunk(context, max)).await
    }

    /// Reads the rest of the stream, of at most `limit` bytes.
    ///
    /// Not cancel safe: the bytes that were read are lost with the future, and with an error.
    ///
    /// # Errors
    /// [`ReadToEndError`].
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = Vec::new();
        while let Some(bytes) = self.read_chunk(usize::MAX).await? {
            if bytes.len() > limit - all.len() {
                return Err(ReadToEndError::TooLong { limit });
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }

    /// Reads no more of the stream: the peer's writes fail with the code
    /// ([`WriteError::Stopped`](crate::WriteError::Stopped)), and bytes that were not read are
    /// lost. The peer does not learn of it if everything has arrived.
    ///
    /// # Errors
    /// [`ClosedStream`] if the stream was stopped before.
    pub fn stop(&mut self, code: u64) -> Result<(), ClosedStream> {
        if std::mem::replace(&mut self.is_stopped, true) {
            return Err(ClosedStream);
        }
        self.reading = Bytes::new();
        self.session.shared.with(|state| state.session.stop(Instant::now(), self.tasks.number(), code));
        Ok(())
    }

    /// Waits until the peer resets the stream, and gives its code. `None` if it cannot any more:
    /// everything has arrived, or this end has [stopped](Self::stop) the stream. A stream that is
    /// not read meanwhile may have no room for its end.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// [`SessionError`] if the session has ended before.
    pub async fn received_reset(&mut self) -> Result<Option<u64>, SessionError> {
        poll_fn(|context| self.poll_reset(context)).await
    }

    /// As [`read_chunk`](Self::read_chunk).
    pub(crate) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        if max > 0 && !ready!(self.poll_fill(context))? {
            return Poll::Ready(Ok(None));
        }
        Poll::Ready(Ok(Some(self.reading.split_to(max.min(self.reading.len())))))
    }

    /// As [`received_reset`](Self::received_reset).
    pub(crate) fn poll_reset(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<u64>, SessionError>> {
        if self.is_stopped {
            return Poll::Ready(Ok(None));
        }
        let is_received = |session: &mut Session, _, number| session.is_received(number).then_some(());
        Poll::Ready(match ready!(self.session.shared.poll_next(context, &self.tasks, is_received)) {
            Ok(_) => Ok(None),
            Err(error) => match error.failure {
                Failure::ResetWith { code } => Ok(Some(code)),
                _ => Err(SessionError::of(error)),
            },
        })
    }

    /// The bytes at hand.
    pub(super) fn at_hand(&mut self) -> &mut Bytes {
        &mut self.reading
    }

    /// Waits for bytes at hand. `false` at the end of the stream.
    pub(super) fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, ReadError>> {
        if self.is_stopped {
            return Poll::Ready(Err(ReadError::Closed));
        }
        if !self.reading.is_empty() {
            ready!(coop::poll_proceed(context)).made_progress();
            return Poll::Ready(Ok(true));
        }
        let next = ready!(self.session.shared.poll_next(context, &self.tasks, Session::read)).map_err(ReadError::of)?;
        let Some(bytes) = next else { return Poll::Ready(Ok(false)) };
        self.reading = bytes;
        Poll::Ready(Ok(true))
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<IoResult<()>> {
        if buffer.remaining() == 0 {
            ready!(coop::poll_proceed(context)).made_progress();
            return Poll::Ready(Ok(()));
        }
        if ready!(self.poll_fill(context))? {
            let count = buffer.remaining().min(self.reading.len());
            buffer.put_slice(&self.reading[..count]);
            self.reading.advance(count);
        }
        Poll::Ready(Ok(()))
    }
}

/// Stops a stream that was not read to its end.
impl Drop for RecvStream {
    fn drop(&mut self) {
        self.session.shared.with(|state| {
            state.tasks.release(&self.tasks, true);
            let (now, number) = (Instant::now(), self.tasks.number());
            if !self.reading.is_empty() {
                state.session.stop(now, number, 0);
            }
            state.session.release_receiving(now, number);
        });
    }
}
