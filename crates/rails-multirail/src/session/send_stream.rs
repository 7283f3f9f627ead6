//! The sending direction of a stream of a session.

use super::error::{ClosedStream, SessionError, WriteError};
use crate::stream::{MultiRailStream, StreamShared, StreamState, StreamTasks, Writing, keep};
use bytes::Bytes;
use rails_proto::stream_number::StreamNumber;
use std::{
    future::poll_fn,
    io::Result as IoResult,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};
use tokio::io::AsyncWrite;

/// The sending direction of a stream of a [`MultiRailSession`](crate::MultiRailSession).
///
/// Dropping it finishes the stream, as quinn's `SendStream` does: the lanes deliver the written
/// bytes and then the end, also after every other handle of the session is dropped.
/// [`reset`](Self::reset) throws the bytes away instead.
///
/// As an [`AsyncWrite`], its shutdown [finishes](Self::finish) the stream, and waits until the peer
/// has everything. A flush has small writes leave that wait for others.
#[derive(Debug)]
pub struct SendStream {
    session: Arc<MultiRailStream>,
    tasks: Arc<StreamTasks>,
    /// Whether the application has finished or reset the stream.
    ended: Option<Ended>,
}

/// How the application has ended the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Finished,
    Reset,
}

impl SendStream {
    pub(super) fn new(session: Arc<MultiRailStream>, tasks: Arc<StreamTasks>) -> Self {
        Self { session, tasks, ended: None }
    }

    /// The stream's number in its session. Both ends know the stream by it.
    pub fn id(&self) -> StreamNumber {
        self.tasks.number()
    }

    /// Writes some of the bytes, as many as there is room for, and gives their number: at least 1,
    /// unless `bytes` is empty. Copies them once. Cancel safe: no byte is taken if the future is
    /// dropped.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|context| self.poll_copy(context, bytes)).await
    }

    /// Writes all bytes, and waits for room as often as needed.
    ///
    /// Not cancel safe: after the future is dropped, the caller does not know how many bytes were
    /// taken.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        while !bytes.is_empty() {
            let count = self.write(bytes).await?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Writes all bytes without copying them, and waits for room as often as needed.
    ///
    /// Not cancel safe: after the future is dropped, the caller does not know how many bytes were
    /// taken.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write_chunk(&mut self, mut bytes: Bytes) -> Result<(), WriteError> {
        loop {
            poll_fn(|context| self.writing().poll_take(context, &mut bytes, keep)).await?;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Ends the stream behind the written bytes, which the lanes deliver.
    /// [`stopped`](Self::stopped) tells when the peer has them.
    ///
    /// # Errors
    /// [`ClosedStream`] if the stream was finished or reset before.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        if self.ended.is_some() {
            return Err(ClosedStream);
        }
        self.ended = Some(Ended::Finished);
        let number = self.id();
        self.shared().write(0, |StreamState { session, .. }| {
            if session.write_failure(number).is_none() && !session.is_finished(number) {
                session.finish(Instant::now(), number);
            }
        });
        Ok(())
    }

    /// Ends the stream at once: bytes that the peer does not have are lost, and its reads fail with
    /// the code ([`ReadError::Reset`](crate::ReadError::Reset)). A stream of which the peer has
    /// everything stays as it is.
    ///
    /// # Errors
    /// [`ClosedStream`] if the stream was reset before.
    pub fn reset(&mut self, code: u64) -> Result<(), ClosedStream> {
        if self.ended.replace(Ended::Reset) == Some(Ended::Reset) {
            return Err(ClosedStream);
        }
        let number = self.id();
        self.shared().write(0, |state| state.session.reset(Instant::now(), number, code));
        Ok(())
    }

    /// Waits until the peer has everything, or reads no more: `None` if it has every byte and the
    /// end of a stream that was [finished](Self::finish), and its code if it has stopped the
    /// stream. Of a stream that this end has reset, `None` says that the peer knows of it.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// [`SessionError`] if the session has ended before.
    pub async fn stopped(&mut self) -> Result<Option<u64>, SessionError> {
        poll_fn(|context| self.poll_settled(context)).await
    }

    /// Sets the priority of the stream, 0 at first: of two streams of the session with something to
    /// send, that with the greater value goes first. Streams of one priority take turns.
    pub fn set_priority(&self, priority: i32) {
        self.shared().with(|state| state.session.set_urgency(self.id(), priority));
    }

    /// The priority of the stream.
    pub fn priority(&self) -> i32 {
        self.shared().with(|state| state.session.urgency(self.id()))
    }

    /// As [`write`](Self::write).
    pub(crate) fn poll_copy(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, WriteError>> {
        self.writing().poll_copy(context, bytes)
    }

    /// Waits for room, and then takes and writes all of the slices, however long they are.
    pub(super) fn poll_whole(
        &mut self,
        context: &mut Context<'_>,
        slices: &mut [Bytes],
    ) -> Poll<Result<(), WriteError>> {
        self.writing().poll_whole(context, slices)
    }

    /// Whether the application has reset the stream.
    #[cfg(feature = "web-transport")]
    pub(crate) fn is_reset(&self) -> bool {
        self.ended == Some(Ended::Reset)
    }

    fn shared(&self) -> &Arc<StreamShared> {
        &self.session.shared
    }

    /// Fails if nothing can be written any more.
    fn check(&self, state: &StreamState) -> Result<(), WriteError> {
        if self.ended.is_some() {
            return Err(WriteError::Closed);
        }
        match state.session.write_failure(self.id()) {
            Some(failure) => Err(WriteError::of(self.shared().stream_error(state, failure))),
            None => Ok(()),
        }
    }

    fn writing(&self) -> Writing<'_, impl Fn(&StreamState) -> Result<(), WriteError>> {
        Writing { shared: self.shared(), tasks: &self.tasks, check: |state: &StreamState| self.check(state) }
    }

    /// As [`stopped`](Self::stopped).
    pub(crate) fn poll_settled(&self, context: &mut Context<'_>) -> Poll<Result<Option<u64>, SessionError>> {
        let number = self.id();
        let poll = |state: &mut StreamState| {
            if let Some(code) = state.session.stopped_with(number) {
                return Poll::Ready(Ok(Some(code)));
            }
            if state.session.is_send_settled(number) {
                return Poll::Ready(Ok(None));
            }
            if let Some(error) = self.shared().error(state).filter(|_| !state.session.may_still_settle()) {
                return Poll::Ready(Err(SessionError::of(error)));
            }
            self.tasks.note_writer();
            Poll::Pending
        };
        self.tasks.poll_as_writer(context, || self.shared().with(poll))
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<IoResult<usize>> {
        self.poll_copy(context, buffer).map_err(Into::into)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<IoResult<()>> {
        self.shared().send_waiting();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        // A stream that has ended before only waits.
        let _ = self.finish();
        match ready!(self.poll_settled(context))? {
            None => Poll::Ready(Ok(())),
            Some(code) => Poll::Ready(Err(WriteError::Stopped(code).into())),
        }
    }
}

/// Finishes the stream, unless it has ended before.
impl Drop for SendStream {
    fn drop(&mut self) {
        self.shared().write(0, |state| {
            state.tasks.release(&self.tasks, false);
            state.session.release_sending(Instant::now(), self.id());
        });
    }
}
