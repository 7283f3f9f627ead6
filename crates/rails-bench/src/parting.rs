//! The end of a session, in order or early: the peer learns why, at once and not by a timeout.

use crate::{stop::Stopped, thread::MAX_WAIT, turn::GaveWay};
use rails_multirail::{MultiRailSession, StreamEvent};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::timeout,
};

/// Why an end of a session closes it. Each has a code, and words for the peer's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// Everything is done.
    Done,
    /// A signal ended this end.
    Interrupted,
    /// This end does not do what the peer wants.
    Refused,
    /// This end has failed.
    Failed,
    /// The peer was silent for too long.
    Silent,
    /// The peer stood still while another waited.
    GaveWay,
    /// This end takes no further caller.
    Over,
}

impl Parting {
    /// The parting after this error.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        match error {
            error if error.is::<Stopped>() => Self::Interrupted,
            error if GaveWay::is_why(error) => Self::GaveWay,
            _ => Self::Failed,
        }
    }

    /// The parting with this code.
    pub(crate) fn from_code(code: u64) -> Option<Self> {
        let all = [Self::Done, Self::Interrupted, Self::Refused, Self::Failed, Self::Silent, Self::GaveWay, Self::Over];
        all.into_iter().find(|parting| *parting as u64 == code)
    }

    /// Closes a session for this reason. Streams that are dropped later cannot seem to have ended
    /// in order.
    pub(crate) fn close(self, session: &MultiRailSession) {
        session.close(self as u64, self.words().as_bytes());
    }

    fn words(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Interrupted => "a signal ended the command",
            Self::Refused => "refused",
            Self::Failed => "the command failed, and says why there",
            Self::Silent => "nothing was said for too long",
            Self::GaveWay => "nothing came for too long, and another waited",
            Self::Over => "no further caller is taken",
        }
    }
}

/// Closes a session, and waits until its lanes have closed, three seconds at most: a lane whose
/// peer accepts no bytes does not keep the process alive.
pub(crate) async fn part(session: MultiRailSession, parting: Parting) {
    let gone = LanesClosed(session.subscribe());
    parting.close(&session);
    drop(session);
    gone.wait().await;
}

/// Waits until the peer has closed a session in which it has the last word, three seconds at most,
/// and then closes it.
pub(crate) async fn see_off(session: MultiRailSession, parting: Parting) {
    let _ = timeout(MAX_WAIT, session.closed()).await;
    part(session, parting).await;
}

/// The end of a session's lanes: they have sent their last frames.
struct LanesClosed(Receiver<StreamEvent>);

impl LanesClosed {
    async fn wait(mut self) {
        // The channel of a session's events is closed with the last of its lanes and handles.
        let gone = async { while !matches!(self.0.recv().await, Err(RecvError::Closed)) {} };
        if timeout(MAX_WAIT, gone).await.is_err() {
            tracing::debug!("a session's lanes did not close in time");
        }
    }
}
