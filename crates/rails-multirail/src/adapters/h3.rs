//! HTTP/3 by hyperium's `h3`, over a session: [`Connection`] takes the place of `h3-quinn`'s.
//!
//! `h3::client::new(Connection::new(session))` and
//! `h3::server::Connection::new(Connection::new(session))` run unchanged. The client is the end
//! that opened the session. Streams have the numbers that QUIC's have, and h3 opens four in one
//! direction at each end
//! ([`StreamOptions::max_concurrent_uni_streams`](crate::StreamOptions::max_concurrent_uni_streams)).
//!
//!
//! - **Errors**: the code of a stream that the peer has reset or stopped is
//!   [`StreamTerminated`](StreamErrorIncoming::StreamTerminated), that of a session which the peer
//!   has closed [`ApplicationClose`](ConnectionErrorIncoming::ApplicationClose). A session that has
//!   lost its last lane is a [`Timeout`](ConnectionErrorIncoming::Timeout); its
//!   [`close_reason`](MultiRailSession::close_reason) says how every lane ended. All other ends are
//!   [`Undefined`](ConnectionErrorIncoming::Undefined), with the [`SessionError`] inside.
//! - **Back-pressure**: `poll_ready` waits until the stream has taken the data, as far as its [send
//!   buffer](crate::StreamOptions::send_buffer) has room.
//! - **Drop**: a request that is dropped before its end is finished, as with `h3-quinn`, and its
//!   peer may take it for whole. `stop_stream` resets it.

use crate::{Failure, MultiRailSession, PolledSession, ReadError, SessionError, WriteError};
use bytes::{Buf, Bytes};
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf},
};
use rails_proto::stream_number::StreamNumber;
use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// A session as a connection of h3's client or server.
#[derive(Debug)]
pub struct Connection {
    session: PolledSession,
}

/// The handle with which a client of h3 opens streams. Clones open streams of the same session.
#[derive(Debug, Clone)]
pub struct OpenStreams {
    session: PolledSession,
}

/// A stream in both directions.
pub struct BidiStream<B> {
    send: SendStream<B>,
    receive: RecvStream,
}

/// The sending direction of a stream.
pub struct SendStream<B> {
    stream: crate::SendStream,
    /// Data that the stream has not taken.
    writing: Option<WriteBuf<B>>,
}

/// The receiving direction of a stream.
#[derive(Debug)]
pub struct RecvStream {
    stream: crate::RecvStream,
}

impl Connection {
    /// The session as a connection.
    pub fn new(session: MultiRailSession) -> Self {
        Self { session: PolledSession::new(session) }
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        self.session.poll_accept_uni(context).map_ok(|stream| RecvStream { stream }).map_err(of_session)
    }

    fn poll_accept_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<BidiStream<B>, ConnectionErrorIncoming>> {
        self.session.poll_accept_bi(context).map_ok(BidiStream::of).map_err(of_session)
    }

    fn opener(&self) -> OpenStreams {
        OpenStreams { session: self.session.clone() }
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        open_bi(&mut self.session, context)
    }

    fn poll_open_send(&mut self, context: &mut Context<'_>) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        open_uni(&mut self.session, context)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.session.session().close(code.value(), reason);
    }
}

impl<B: Buf> quic::OpenStreams<B> for OpenStreams {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        open_bi(&mut self.session, context)
    }

    fn poll_open_send(&mut self, context: &mut Context<'_>) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        open_uni(&mut self.session, context)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.session.session().close(code.value(), reason);
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(data) = self.writing.as_mut().filter(|data| data.has_remaining()) {
            match ready!(self.stream.poll_copy(context, data.chunk())) {
                Ok(count) => data.advance(count),
                Err(error) => {
                    // The next call fails with the stream's error as well, and not for data that waits.
                    self.writing = None;
                    return Poll::Ready(Err(of_write(error)));
                }
            }
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.writing.is_some() {
            let reason = format!("data is sent on stream {} before it is ready", self.stream.id());
            return Err(of_connection(ConnectionErrorIncoming::InternalError(reason)));
        }
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(context))?;
        Poll::Ready(self.stream.finish().map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))))
    }

    fn reset(&mut self, reset_code: u64) {
        // A stream that was reset before stays as it is.
        let _ = self.stream.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for SendStream<B> {
    /// # Panics
    /// If data waits that [`send_data`](quic::SendStream::send_data) took: the bytes would overtake
    /// it.
    fn poll_send<D: Buf>(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        assert!(self.writing.is_none(), "stream {} is used before it is ready", self.stream.id());
        let count = ready!(self.stream.poll_copy(context, buffer.chunk())).map_err(of_write)?;
        buffer.advance(count);
        Poll::Ready(Ok(count))
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.stream.poll_chunk(context, usize::MAX).map_err(of_read)
    }

    fn stop_sending(&mut self, error_code: u64) {
        // A stream that was stopped before stays as it is.
        let _ = self.stream.stop(error_code);
    }

    fn recv_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(context)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for BidiStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        self.send.poll_send(context, buffer)
    }
}

impl<B: Buf> quic::RecvStream for BidiStream<B> {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receive.poll_data(context)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.receive.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.receive.recv_id()
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream<B>, RecvStream) {
        (self.send, self.receive)
    }
}

impl<B> BidiStream<B> {
    fn of((send, receive): (crate::SendStream, crate::RecvStream)) -> Self {
        Self { send: SendStream::of(send), receive: RecvStream { stream: receive } }
    }
}

impl<B> SendStream<B> {
    fn of(stream: crate::SendStream) -> Self {
        Self { stream, writing: None }
    }
}

impl<B> fmt::Debug for BidiStream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BidiStream").field("send", &self.send).field("receive", &self.receive).finish()
    }
}

/// Shows the stream without the data that it has not taken.
impl<B> fmt::Debug for SendStream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}

fn open_bi<B>(
    session: &mut PolledSession,
    context: &mut Context<'_>,
) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
    session.poll_open_bi(context).map_ok(BidiStream::of).map_err(|error| of_connection(of_session(error)))
}

fn open_uni<B>(
    session: &mut PolledSession,
    context: &mut Context<'_>,
) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
    session.poll_open_uni(context).map_ok(SendStream::of).map_err(|error| of_connection(of_session(error)))
}

fn id(number: StreamNumber) -> StreamId {
    StreamId::try_from(number.0).expect("no session lives to see 2^60 streams")
}

/// h3's error for the end of a session.
fn of_session(error: SessionError) -> ConnectionErrorIncoming {
    match error {
        SessionError::ClosedByPeer { code, .. } => ConnectionErrorIncoming::ApplicationClose { error_code: code },
        SessionError::Failed(failed) if matches!(failed.failure, Failure::LanesLost { .. }) => {
            ConnectionErrorIncoming::Timeout
        }
        _ => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

fn of_connection(connection_error: ConnectionErrorIncoming) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error }
}

fn of_write(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(error_code) => StreamErrorIncoming::StreamTerminated { error_code },
        WriteError::SessionLost(error) => of_connection(of_session(error)),
        WriteError::Closed => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

fn of_read(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(error_code) => StreamErrorIncoming::StreamTerminated { error_code },
        ReadError::SessionLost(error) => of_connection(of_session(error)),
        ReadError::Closed => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StreamError, StreamId as Name};

    fn failed(failure: Failure) -> SessionError {
        SessionError::of(StreamError { stream: Name([0; 16]), failure, lanes: Vec::new() })
    }

    #[test]
    fn codes_of_the_peer_reach_h3() {
        let reason = Bytes::from_static(b"for people");
        let closed = of_session(failed(Failure::ClosedByPeer { code: 0x10f, reason }));
        assert!(matches!(closed, ConnectionErrorIncoming::ApplicationClose { error_code: 0x10f }));
        let stopped = of_write(WriteError::Stopped(0x10c));
        assert!(matches!(stopped, StreamErrorIncoming::StreamTerminated { error_code: 0x10c }));
        let reset = of_read(ReadError::Reset(u64::MAX));
        assert!(matches!(reset, StreamErrorIncoming::StreamTerminated { error_code: u64::MAX }));
    }

    #[test]
    fn ends_of_the_session_reach_h3() {
        let lost = || failed(Failure::LanesLost { unacknowledged: 1, delivered: 2, joined_in_vain: 0 });
        assert!(matches!(of_session(lost()), ConnectionErrorIncoming::Timeout));
        for of_stream in [of_write(lost().into()), of_read(lost().into())] {
            assert!(matches!(
                of_stream,
                StreamErrorIncoming::ConnectionErrorIncoming { connection_error: ConnectionErrorIncoming::Timeout }
            ));
        }
        let ours = failed(Failure::Closed { code: 0x100, reason: Bytes::new() });
        for other in [ours, failed(Failure::RuntimeStopped), failed(Failure::Dropped)] {
            let expected = other.to_string();
            let ConnectionErrorIncoming::Undefined(error) = of_session(other) else { panic!("{expected}") };
            assert_eq!(error.to_string(), expected);
            assert!(error.is::<SessionError>());
        }
    }

    #[test]
    fn calls_after_the_end_of_a_stream_close_no_connection() {
        assert!(matches!(of_write(WriteError::Closed), StreamErrorIncoming::Unknown(_)));
        assert!(matches!(of_read(ReadError::Closed), StreamErrorIncoming::Unknown(_)));
    }
}
