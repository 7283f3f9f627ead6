//! The two directions of a stream as separate halves.

use super::{MultiRailStream, lock, shared::StreamShared};
use bytes::{Buf, Bytes, BytesMut};
use rails_proto::session::Session;
use std::{
    fmt,
    future::poll_fn,
    io::{Error as IoError, IoSlice, Result as IoResult},
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf},
    task::coop,
};

/// The receiving direction of a [`MultiRailStream`], borrowed ([`MultiRailStream::split`]).
#[derive(Debug)]
pub struct ReadHalf<'a> {
    pub(super) shared: &'a Arc<StreamShared>,
    /// Bytes taken from the stream and not yet copied out.
    pub(super) reading: &'a mut Bytes,
}

/// The sending direction of a [`MultiRailStream`], borrowed ([`MultiRailStream::split`]).
#[derive(Debug)]
pub struct WriteHalf<'a> {
    pub(super) shared: &'a Arc<StreamShared>,
}

/// The receiving direction of a [`MultiRailStream`] ([`MultiRailStream::into_split`]). Dropping it
/// ends nothing: the peer may still send up to this end's window. The stream ends when both halves
/// are dropped.
#[derive(Debug)]
pub struct OwnedReadHalf {
    stream: Arc<MultiRailStream>,
    reading: Bytes,
}

/// The sending direction of a [`MultiRailStream`] ([`MultiRailStream::into_split`]). Dropping it
/// shuts the direction down: the peer receives the written bytes, and then the end.
/// [`forget`](Self::forget) drops it without a shutdown.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<MultiRailStream>,
    shuts_down: bool,
}

/// The error of [`reunite`](OwnedReadHalf::reunite) for halves of different streams. It hands both
/// back.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl MultiRailStream {
    /// Splits the stream into its two directions, for one task that uses both at the same time. The
    /// split costs nothing.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf { shared: &self.shared, reading: &mut self.reading }, WriteHalf { shared: &self.shared })
    }

    /// Splits the stream into its two directions, for different tasks. Neither locks the other out.
    pub fn into_split(mut self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let reading = std::mem::take(&mut self.reading);
        let stream = Arc::new(self);
        (OwnedReadHalf { stream: stream.clone(), reading }, OwnedWriteHalf { stream, shuts_down: true })
    }

    pub(super) fn reader(&mut self) -> ReadHalf<'_> {
        self.split().0
    }

    pub(super) fn writer(&self) -> WriteHalf<'_> {
        WriteHalf { shared: &self.shared }
    }
}

impl<'a> ReadHalf<'a> {
    /// Waits for bytes at hand; there are none at the end of the stream.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        if !self.reading.is_empty() {
            ready!(coop::poll_proceed(context)).made_progress();
        } else if let Some(bytes) = ready!(self.poll_read_bytes(context))? {
            *self.reading = bytes;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for bytes, and lends them until they are [consumed](Self::consume_front); none at the
    /// end of the stream.
    pub(super) fn poll_lend(mut self, context: &mut Context<'_>) -> Poll<IoResult<&'a [u8]>> {
        ready!(self.poll_fill(context))?;
        self.shared.note_at_hand(!self.reading.is_empty());
        Poll::Ready(Ok(self.reading))
    }

    /// Drops the first `count` of the bytes at hand.
    pub(super) fn consume_front(&mut self, count: usize) {
        self.reading.advance(count);
        self.shared.note_at_hand(!self.reading.is_empty());
    }

    /// As [`MultiRailStream::read_bytes`].
    ///
    /// # Errors
    /// As there.
    pub async fn read_bytes(&mut self) -> IoResult<Option<Bytes>> {
        poll_fn(|context| self.poll_read_bytes(context)).await
    }

    /// As [`MultiRailStream::read_bytes_up_to`].
    ///
    /// # Errors
    /// As there.
    pub async fn read_bytes_up_to(&mut self, limit: usize) -> IoResult<Option<Bytes>> {
        if self.reading.is_empty() && limit > 0 {
            match self.read_bytes().await? {
                Some(bytes) => *self.reading = bytes,
                None => return Ok(None),
            }
        } else {
            coop::consume_budget().await;
        }
        let bytes = self.reading.split_to(limit.min(self.reading.len()));
        self.shared.note_at_hand(!self.reading.is_empty());
        Ok(Some(bytes))
    }

    /// As [`MultiRailStream::poll_read_bytes`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_read_bytes(&mut self, context: &mut Context<'_>) -> Poll<IoResult<Option<Bytes>>> {
        if !self.reading.is_empty() {
            ready!(coop::poll_proceed(context)).made_progress();
            self.shared.note_at_hand(false);
            return Poll::Ready(Ok(Some(std::mem::take(self.reading))));
        }
        self.shared.poll_next(context, &self.shared.only, Session::read).map_err(IoError::from)
    }
}

impl AsyncRead for ReadHalf<'_> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<IoResult<()>> {
        if buffer.remaining() == 0 {
            ready!(coop::poll_proceed(context)).made_progress();
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_fill(context))?;
        let count = buffer.remaining().min(self.reading.len());
        buffer.put_slice(&self.reading[..count]);
        self.consume_front(count);
        Poll::Ready(Ok(()))
    }
}

/// The bytes at hand are those that arrived together, lent without a copy. The whole stream is no
/// `AsyncBufRead`: the `split` of `AsyncBufReadExt` would hide [`MultiRailStream::split`] wherever
/// that trait is in scope.
impl AsyncBufRead for ReadHalf<'_> {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<&[u8]>> {
        let Self { shared, reading } = self.get_mut();
        ReadHalf { shared, reading }.poll_lend(context)
    }

    fn consume(mut self: Pin<&mut Self>, count: usize) {
        self.consume_front(count);
    }
}

impl WriteHalf<'_> {
    /// As [`MultiRailStream::write_bytes`].
    ///
    /// # Errors
    /// As there.
    pub async fn write_bytes(&mut self, mut bytes: Bytes) -> IoResult<()> {
        loop {
            poll_fn(|context| self.poll_write_bytes(context, &mut bytes)).await?;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// As [`MultiRailStream::poll_write_bytes`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_write_bytes(&mut self, context: &mut Context<'_>, bytes: &mut Bytes) -> Poll<IoResult<usize>> {
        self.shared.writing().poll_take(context, bytes, lock::keep)
    }
}

impl AsyncWrite for WriteHalf<'_> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<IoResult<usize>> {
        self.shared.writing().poll_copy(context, buffer)
    }

    /// Has the lanes send the small writes that wait for others. They send all others as soon as
    /// they have room.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<IoResult<()>> {
        self.shared.send_waiting();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        self.shared.finish();
        self.shared.poll_as_writer(context, || self.shared.with(|state| self.shared.poll_finished(state)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<IoResult<usize>> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return self.poll_write(context, &[]);
        }
        let writing = self.shared.writing();
        let room = ready!(writing.poll_room(context))?;
        let mut copy = BytesMut::new();
        for slice in slices {
            let rest = room - copy.len();
            copy.extend_from_slice(&slice[..slice.len().min(rest)]);
        }
        writing.poll_take(context, &mut copy.freeze(), |copy| copy)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl OwnedReadHalf {
    fn half(&mut self) -> ReadHalf<'_> {
        ReadHalf { shared: &self.stream.shared, reading: &mut self.reading }
    }

    /// As [`MultiRailStream::read_bytes`].
    ///
    /// # Errors
    /// As there.
    pub async fn read_bytes(&mut self) -> IoResult<Option<Bytes>> {
        self.half().read_bytes().await
    }

    /// As [`MultiRailStream::read_bytes_up_to`].
    ///
    /// # Errors
    /// As there.
    pub async fn read_bytes_up_to(&mut self, limit: usize) -> IoResult<Option<Bytes>> {
        self.half().read_bytes_up_to(limit).await
    }

    /// As [`MultiRailStream::poll_read_bytes`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_read_bytes(&mut self, context: &mut Context<'_>) -> Poll<IoResult<Option<Bytes>>> {
        self.half().poll_read_bytes(context)
    }

    /// Joins the two halves to the stream again.
    ///
    /// # Errors
    /// [`ReuniteError`] if the other half is of another stream.
    ///
    /// # Panics
    /// Never: a stream has two halves, and the caller hands in both.
    pub fn reunite(mut self, other: OwnedWriteHalf) -> Result<MultiRailStream, ReuniteError> {
        if !Arc::ptr_eq(&self.stream, &other.stream) {
            return Err(ReuniteError(self, other));
        }
        let (stream, reading) = (self.stream.clone(), std::mem::take(&mut self.reading));
        drop(self);
        other.forget();
        let mut stream = Arc::into_inner(stream).expect("both halves are gone");
        stream.reading = reading;
        Ok(stream)
    }

    /// The stream that this is half of: its name, its addresses, its statistics and events.
    pub fn stream(&self) -> &MultiRailStream {
        &self.stream
    }
}

/// Counts the bytes taken from the stream and not copied out as unread. The peer learns of the loss
/// when the stream ends.
impl Drop for OwnedReadHalf {
    fn drop(&mut self) {
        self.stream.shared.unread.fetch_add(self.reading.len() as u64, Relaxed);
        self.stream.shared.note_at_hand(false);
    }
}

impl AsyncRead for OwnedReadHalf {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.half()).poll_read(context, buffer)
    }
}

/// As of the [borrowed half](ReadHalf).
impl AsyncBufRead for OwnedReadHalf {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<&[u8]>> {
        self.get_mut().half().poll_lend(context)
    }

    fn consume(mut self: Pin<&mut Self>, count: usize) {
        self.half().consume_front(count);
    }
}

impl OwnedWriteHalf {
    fn half(&self) -> WriteHalf<'_> {
        self.stream.writer()
    }

    /// As [`MultiRailStream::write_bytes`].
    ///
    /// # Errors
    /// As there.
    pub async fn write_bytes(&mut self, bytes: Bytes) -> IoResult<()> {
        self.half().write_bytes(bytes).await
    }

    /// As [`MultiRailStream::poll_write_bytes`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_write_bytes(&mut self, context: &mut Context<'_>, bytes: &mut Bytes) -> Poll<IoResult<usize>> {
        self.half().poll_write_bytes(context, bytes)
    }

    /// Drops this half without shutting its direction down. The direction shuts down when the other
    /// half is dropped too.
    pub fn forget(mut self) {
        self.shuts_down = false;
    }

    /// As [`OwnedReadHalf::reunite`].
    ///
    /// # Errors
    /// As there.
    pub fn reunite(self, other: OwnedReadHalf) -> Result<MultiRailStream, ReuniteError> {
        other.reunite(self)
    }

    /// The stream that this is half of: its name, its addresses, its statistics and events.
    pub fn stream(&self) -> &MultiRailStream {
        &self.stream
    }
}

/// Shuts the direction down. The lanes deliver the written bytes in the background.
impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.shuts_down {
            self.stream.shared.finish();
        }
    }
}

impl AsyncWrite for OwnedWriteHalf {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<IoResult<usize>> {
        Pin::new(&mut self.half()).poll_write(context, buffer)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.half()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        Pin::new(&mut self.half()).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<IoResult<usize>> {
        Pin::new(&mut self.half()).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the two halves are of different streams")
    }
}

impl std::error::Error for ReuniteError {}
