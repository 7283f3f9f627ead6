//! A session whose calls are polled.

use super::{MultiRailSession, RecvStream, SendStream, SessionError};
use bytes::Bytes;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// A [`MultiRailSession`] whose calls are polled: for libraries that step a session from a loop of
/// their own.
///
/// A call that was polled without an outcome waits on until it is polled again, and wakes the task
/// that polled it last. A clone is another handle of the session, of which no call has begun.
pub struct PolledSession {
    session: MultiRailSession,
    open_bi: Call<Result<(SendStream, RecvStream), SessionError>>,
    open_uni: Call<Result<SendStream, SessionError>>,
    accept_bi: Call<Result<(SendStream, RecvStream), SessionError>>,
    accept_uni: Call<Result<RecvStream, SessionError>>,
    read_datagram: Call<Result<Bytes, SessionError>>,
    closed: Call<SessionError>,
}

/// A call that has begun and not come to its end, if there is one.
struct Call<T>(Option<Pin<Box<dyn Future<Output = T> + Send + Sync>>>);

impl PolledSession {
    /// The session, of which no call has begun.
    pub fn new(session: MultiRailSession) -> Self {
        Self {
            session,
            open_bi: Call(None),
            open_uni: Call(None),
            accept_bi: Call(None),
            accept_uni: Call(None),
            read_datagram: Call(None),
            closed: Call(None),
        }
    }

    /// The session.
    pub fn session(&self) -> &MultiRailSession {
        &self.session
    }

    /// As [`MultiRailSession::open_bi`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_open_bi(&mut self, context: &mut Context<'_>) -> Poll<Result<(SendStream, RecvStream), SessionError>> {
        self.open_bi.poll(context, &self.session, |session| async move { session.open_bi().await })
    }

    /// As [`MultiRailSession::open_uni`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_open_uni(&mut self, context: &mut Context<'_>) -> Poll<Result<SendStream, SessionError>> {
        self.open_uni.poll(context, &self.session, |session| async move { session.open_uni().await })
    }

    /// As [`MultiRailSession::accept_bi`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_accept_bi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), SessionError>> {
        self.accept_bi.poll(context, &self.session, |session| async move { session.accept_bi().await })
    }

    /// As [`MultiRailSession::accept_uni`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_accept_uni(&mut self, context: &mut Context<'_>) -> Poll<Result<RecvStream, SessionError>> {
        self.accept_uni.poll(context, &self.session, |session| async move { session.accept_uni().await })
    }

    /// As [`MultiRailSession::read_datagram`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_read_datagram(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, SessionError>> {
        self.read_datagram.poll(context, &self.session, |session| async move { session.read_datagram().await })
    }

    /// As [`MultiRailSession::closed`].
    pub fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<SessionError> {
        self.closed.poll(context, &self.session, |session| async move { session.closed().await })
    }
}

impl Clone for PolledSession {
    fn clone(&self) -> Self {
        Self::new(self.session.clone())
    }
}

/// Shows the session without the calls.
impl fmt::Debug for PolledSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolledSession").field("session", &self.session).finish_non_exhaustive()
    }
}

impl<T> Call<T> {
    /// Polls the call, which `begin` begins if none has begun.
    fn poll<F>(
        &mut self,
        context: &mut Context<'_>,
        session: &MultiRailSession,
        begin: impl FnOnce(MultiRailSession) -> F,
    ) -> Poll<T>
    where
        F: Future<Output = T> + Send + Sync + 'static,
    {
        let call = self.0.get_or_insert_with(|| Box::pin(begin(session.clone())));
        let outcome = ready!(call.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(outcome)
    }
}
