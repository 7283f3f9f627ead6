//! The traits of `web-transport-trait`, for code that runs over any WebTransport session:
//! [`MultiRailSession`] is its [`Session`](web_transport_trait::Session), and the streams are its
//! streams. Of the traits whose calls are polled, [`PolledSession`] is the session.
//!
//! - **Codes** have 32 bits in WebTransport, and 64 in a session. A code of the peer that has more
//!   than 32 is none to these traits; the errors have it.
//! - **Drop**: a stream that is dropped is finished, as with quinn, and not reset, as the trait
//!   recommends: the peer may take what was written for the whole. `reset` before the drop says
//!   that it is not. A receiving stream that is dropped is stopped with code 0 as soon as bytes are
//!   there that nobody reads.
//! - **Datagrams** never wait: with more than 256 KiB on their way the oldest are dropped.
//! - **Protocol**: a session negotiates none.

use crate::{
    Direction, MultiRailSession, PolledSession, ReadError, RecvStream, SendDatagramError, SendStream, SessionError,
    StreamStats, WriteError,
};
use bytes::{BufMut, Bytes};
use rails_proto::wire::LONGEST_REASON;
use std::{
    task::{Context, Poll, ready},
    time::Duration,
};
use web_transport_trait::{Stats, StreamState, Streams, poll};

/// Why a call of a session fails.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session has ended.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A datagram was not sent.
    #[error(transparent)]
    Datagram(SendDatagramError),
}

impl From<SendDatagramError> for Error {
    fn from(error: SendDatagramError) -> Self {
        match error {
            SendDatagramError::SessionLost(error) => Self::Session(error),
            SendDatagramError::TooLong { .. } => Self::Datagram(error),
        }
    }
}

impl web_transport_trait::Error for Error {
    fn session_error(&self) -> Option<(u32, String)> {
        match self {
            Self::Session(error) => of_session(error),
            Self::Datagram(_) => None,
        }
    }
}

impl web_transport_trait::Error for WriteError {
    fn session_error(&self) -> Option<(u32, String)> {
        match self {
            Self::SessionLost(error) => of_session(error),
            Self::Stopped(_) | Self::Closed => None,
        }
    }

    fn stream_error(&self) -> Option<u32> {
        match self {
            Self::Stopped(code) => u32::try_from(*code).ok(),
            Self::SessionLost(_) | Self::Closed => None,
        }
    }
}

impl web_transport_trait::Error for ReadError {
    fn session_error(&self) -> Option<(u32, String)> {
        match self {
            Self::SessionLost(error) => of_session(error),
            Self::Reset(_) | Self::Closed => None,
        }
    }

    fn stream_error(&self) -> Option<u32> {
        match self {
            Self::Reset(code) => u32::try_from(*code).ok(),
            Self::SessionLost(_) | Self::Closed => None,
        }
    }
}

/// The code and the reason with which an application has closed the session, at either end.
fn of_session(error: &SessionError) -> Option<(u32, String)> {
    let (SessionError::ClosedByPeer { code, reason } | SessionError::Closed { code, reason }) = error else {
        return None;
    };
    Some((u32::try_from(*code).ok()?, String::from_utf8_lossy(reason).into_owned()))
}

impl web_transport_trait::Session for MultiRailSession {
    type SendStream = SendStream;
    type RecvStream = RecvStream;
    type Error = Error;

    async fn accept_uni(&self) -> Result<RecvStream, Error> {
        Ok(Self::accept_uni(self).await?)
    }

    async fn accept_bi(&self) -> Result<(SendStream, RecvStream), Error> {
        Ok(Self::accept_bi(self).await?)
    }

    async fn open_bi(&self) -> Result<(SendStream, RecvStream), Error> {
        Ok(Self::open_bi(self).await?)
    }

    async fn open_uni(&self) -> Result<SendStream, Error> {
        Ok(Self::open_uni(self).await?)
    }

    fn send_datagram(&self, payload: Bytes) -> Result<(), Error> {
        Ok(Self::send_datagram(self, payload)?)
    }

    async fn recv_datagram(&self) -> Result<Bytes, Error> {
        Ok(self.read_datagram().await?)
    }

    fn max_datagram_size(&self) -> usize {
        Self::max_datagram_size(self)
    }

    fn close(&self, code: u32, reason: &str) {
        close(self, code, reason);
    }

    async fn closed(&self) -> Error {
        Self::closed(self).await.into()
    }

    fn stats(&self) -> impl Stats {
        Figures::of(self)
    }
}

impl poll::Session for PolledSession {
    type SendStream = SendStream;
    type RecvStream = RecvStream;
    type Error = Error;

    fn poll_accept_uni(&mut self, context: &mut Context<'_>) -> Poll<Result<RecvStream, Error>> {
        Self::poll_accept_uni(self, context).map_err(Into::into)
    }

    fn poll_accept_bi(&mut self, context: &mut Context<'_>) -> Poll<Result<(SendStream, RecvStream), Error>> {
        Self::poll_accept_bi(self, context).map_err(Into::into)
    }

    fn poll_open_uni(&mut self, context: &mut Context<'_>) -> Poll<Result<SendStream, Error>> {
        Self::poll_open_uni(self, context).map_err(Into::into)
    }

    fn poll_open_bi(&mut self, context: &mut Context<'_>) -> Poll<Result<(SendStream, RecvStream), Error>> {
        Self::poll_open_bi(self, context).map_err(Into::into)
    }

    fn poll_send_datagram(&mut self, _: &mut Context<'_>, payload: &[u8]) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(self.session().send_datagram(Bytes::copy_from_slice(payload))?))
    }

    fn poll_recv_datagram(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Error>> {
        self.poll_read_datagram(context).map_err(Into::into)
    }

    fn max_datagram_size(&self) -> usize {
        self.session().max_datagram_size()
    }

    fn protocol(&self) -> Option<&str> {
        None
    }

    fn close(&mut self, code: u32, reason: &str) {
        close(self.session(), code, reason);
    }

    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        Self::poll_closed(self, context).map(Into::into)
    }

    fn stats(&self) -> impl Stats {
        Figures::of(self.session())
    }
}

/// Closes the session with as much of the reason as is sent: whole characters of it.
fn close(session: &MultiRailSession, code: u32, reason: &str) {
    session.close(code.into(), &reason.as_bytes()[..reason.floor_char_boundary(LONGEST_REASON)]);
}

impl web_transport_trait::SendStream for SendStream {
    type Error = WriteError;

    async fn write(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        Self::write(self, bytes).await
    }

    async fn write_chunk(&mut self, chunk: Bytes) -> Result<(), WriteError> {
        Self::write_chunk(self, chunk).await
    }

    fn set_priority(&mut self, order: i32) {
        Self::set_priority(self, order);
    }

    fn finish(&mut self) -> Result<(), WriteError> {
        finish(self)
    }

    fn reset(&mut self, code: u32) {
        reset(self, code);
    }

    async fn closed(&mut self) -> Result<(), WriteError> {
        std::future::poll_fn(|context| poll_sent(self, context)).await
    }
}

impl poll::SendStream for SendStream {
    type Error = WriteError;

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, WriteError>> {
        self.poll_copy(context, bytes)
    }

    fn set_priority(&mut self, order: i32) {
        Self::set_priority(self, order);
    }

    fn finish(&mut self) -> Result<(), WriteError> {
        finish(self)
    }

    fn reset(&mut self, code: u32) {
        reset(self, code);
    }

    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        poll_sent(self, context)
    }
}

fn finish(stream: &mut SendStream) -> Result<(), WriteError> {
    stream.finish().map_err(|_| WriteError::Closed)
}

fn reset(stream: &mut SendStream, code: u32) {
    // A stream that was reset before stays as it is.
    let _ = stream.reset(code.into());
}

/// Waits until this end has reset the stream, or the peer has everything, or has stopped the
/// stream, which is an error.
fn poll_sent(stream: &mut SendStream, context: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
    if stream.is_reset() {
        return Poll::Ready(Ok(()));
    }
    Poll::Ready(match ready!(stream.poll_settled(context))? {
        Some(code) => Err(WriteError::Stopped(code)),
        None => Ok(()),
    })
}

impl web_transport_trait::RecvStream for RecvStream {
    type Error = ReadError;

    async fn read(&mut self, bytes: &mut [u8]) -> Result<Option<usize>, ReadError> {
        Self::read(self, bytes).await
    }

    async fn read_buf<B: BufMut + Send>(&mut self, buffer: &mut B) -> Result<Option<usize>, ReadError> {
        let bytes = Self::read_chunk(self, buffer.remaining_mut()).await?;
        Ok(put(buffer, bytes))
    }

    async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        Self::read_chunk(self, max).await
    }

    fn stop(&mut self, code: u32) {
        stop(self, code);
    }

    async fn closed(&mut self) -> Result<(), ReadError> {
        std::future::poll_fn(|context| poll_received(self, context)).await
    }
}

impl poll::RecvStream for RecvStream {
    type Error = ReadError;

    fn poll_read(&mut self, context: &mut Context<'_>, bytes: &mut [u8]) -> Poll<Result<Option<usize>, ReadError>> {
        let mut rest = &mut *bytes;
        poll::RecvStream::poll_read_buf(self, context, &mut rest)
    }

    fn poll_read_buf<B: BufMut>(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut B,
    ) -> Poll<Result<Option<usize>, ReadError>> {
        let bytes = ready!(self.poll_chunk(context, buffer.remaining_mut()))?;
        Poll::Ready(Ok(put(buffer, bytes)))
    }

    fn poll_read_chunk(&mut self, context: &mut Context<'_>, max: usize) -> Poll<Result<Option<Bytes>, ReadError>> {
        self.poll_chunk(context, max)
    }

    fn stop(&mut self, code: u32) {
        stop(self, code);
    }

    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        poll_received(self, context)
    }
}

/// Appends the bytes of a read, and gives their number.
fn put(buffer: &mut impl BufMut, bytes: Option<Bytes>) -> Option<usize> {
    let bytes = bytes?;
    let count = bytes.len();
    buffer.put(bytes);
    Some(count)
}

fn stop(stream: &mut RecvStream, code: u32) {
    // A stream that was stopped before stays as it is.
    let _ = stream.stop(code.into());
}

/// Waits until everything has arrived, or this end has stopped the stream, or the peer has reset
/// it, which is an error.
fn poll_received(stream: &mut RecvStream, context: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
    Poll::Ready(match ready!(stream.poll_reset(context))? {
        Some(code) => Err(ReadError::Reset(code)),
        None => Ok(()),
    })
}

/// The statistics of a session. Its lanes are connections of TCP or another transport, so nothing
/// is said of packets.
struct Figures {
    stats: StreamStats,
    streams: Option<Streams>,
}

impl Figures {
    fn of(session: &MultiRailSession) -> Self {
        let of = |direction| {
            let opened = session.opened(direction)?;
            Some(StreamState { open: opened.open, available: opened.available })
        };
        let streams = of(Direction::Bi).zip(of(Direction::Uni)).map(|(bidi, uni)| Streams { bidi, uni });
        Self { stats: session.stats(), streams }
    }
}

impl Stats for Figures {
    fn streams(&self) -> Option<Streams> {
        self.streams
    }

    /// The bytes of streams, those that were sent again included, without headers.
    fn bytes_sent(&self) -> Option<u64> {
        Some(self.stats.lanes.iter().map(|lane| lane.bytes_sent).sum())
    }

    /// As [`bytes_sent`](Stats::bytes_sent).
    fn bytes_received(&self) -> Option<u64> {
        Some(self.stats.lanes.iter().map(|lane| lane.bytes_received).sum())
    }

    /// The bytes that the lanes' transports have retransmitted.
    fn bytes_lost(&self) -> Option<u64> {
        self.stats.lanes.iter().map(|lane| lane.bytes_retransmitted).sum()
    }

    fn rtt(&self) -> Option<Duration> {
        self.stats.lanes.iter().filter(|lane| lane.up).filter_map(|lane| lane.rtt).min()
    }

    fn estimated_send_rate(&self) -> Option<u64> {
        let rates = self.stats.lanes.iter().filter_map(|lane| lane.rate);
        rates.map(|rate| rate.as_bits_per_second()).reduce(u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, StreamError, StreamId};
    use web_transport_trait::Error as _;

    fn closed(code: u64, reason: &'static [u8]) -> SessionError {
        SessionError::ClosedByPeer { code, reason: Bytes::from_static(reason) }
    }

    #[test]
    fn codes_and_reasons_of_the_end_of_a_session() {
        let told = Some((7, "no more".to_owned()));
        assert_eq!(Error::from(closed(7, b"no more")).session_error(), told);
        assert_eq!(Error::from(SendDatagramError::from(closed(7, b"no more"))).session_error(), told);
        assert_eq!(WriteError::from(closed(7, b"no more")).session_error(), told);
        assert_eq!(ReadError::from(closed(7, b"no more")).session_error(), told);
        let ours = SessionError::Closed { code: 7, reason: Bytes::from_static(b"no more") };
        assert_eq!(Error::from(ours).session_error(), told);
        assert_eq!(
            Error::from(closed(u32::MAX.into(), b"\xff")).session_error(),
            Some((u32::MAX, "\u{fffd}".to_owned()))
        );
    }

    #[test]
    fn errors_without_a_code_of_32_bits() {
        let lost = StreamError { stream: StreamId([0; 16]), failure: Failure::Dropped, lanes: Vec::new() };
        for error in [closed(1 << 32, b""), SessionError::of(lost)] {
            assert_eq!(Error::from(error.clone()).session_error(), None);
            assert_eq!(WriteError::from(error.clone()).stream_error(), None);
            assert_eq!(ReadError::from(error).stream_error(), None);
        }
        assert_eq!(Error::from(SendDatagramError::TooLong { length: 1 << 20 }).session_error(), None);
        assert_eq!((WriteError::Closed.session_error(), WriteError::Closed.stream_error()), (None, None));
        assert_eq!((ReadError::Closed.session_error(), ReadError::Closed.stream_error()), (None, None));
        assert_eq!(
            (WriteError::Stopped(1 << 32).stream_error(), ReadError::Reset(1 << 32).stream_error()),
            (None, None)
        );
    }

    #[test]
    fn codes_of_streams() {
        assert_eq!(WriteError::Stopped(9).stream_error(), Some(9));
        assert_eq!(WriteError::Stopped(9).session_error(), None);
        assert_eq!(ReadError::Reset(u32::MAX.into()).stream_error(), Some(u32::MAX));
        assert_eq!(ReadError::Reset(9).session_error(), None);
    }
}
