//! The end of a stream that ends before its time: the peer hears of it at once, and does not find
//! out by waiting.

use rails_multirail::{MultiRailMessages, MultiRailStream, StreamEvent};
use std::{io, time::Duration};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::timeout,
};

/// Tells when the last of a stream is gone: its lanes have sent their last frames, and are closed.
#[derive(Debug)]
pub(crate) struct Farewell(Receiver<StreamEvent>);

impl Farewell {
    /// Of a stream that is still held.
    pub(crate) fn of(stream: &MultiRailStream) -> Self {
        Self(stream.subscribe())
    }

    /// Waits until the stream is gone, for three seconds at most: a lane whose peer takes nothing
    /// more keeps no process alive.
    pub(crate) async fn said(mut self) {
        // The channel of a stream's events is closed with the last of its lanes.
        let gone = async { while !matches!(self.0.recv().await, Err(RecvError::Closed)) {} };
        if timeout(LONGEST, gone).await.is_err() {
            tracing::debug!("a stream's lanes did not close in time");
        }
    }
}

/// A stream of messages.
pub(crate) struct Conversation {
    pub(crate) messages: MultiRailMessages,
    farewell: Farewell,
}

impl Conversation {
    /// Uses a stream for messages.
    ///
    /// # Errors
    /// Why it cannot be used for them.
    pub(crate) fn over(stream: MultiRailStream) -> io::Result<Self> {
        let farewell = Farewell::of(&stream);
        Ok(Self { messages: stream.into_messages()?, farewell })
    }

    /// Resets the stream, and waits until its peer was told.
    pub(crate) async fn reset(self) {
        self.messages.abort();
        self.farewell.said().await;
    }
}

/// Resets a stream, and waits until its peer was told.
pub(crate) async fn reset(stream: MultiRailStream) {
    let farewell = Farewell::of(&stream);
    stream.abort();
    farewell.said().await;
}

/// The time to tell a peer: milliseconds are enough, but not on a machine that has much else to do.
pub(crate) const LONGEST: Duration = Duration::from_secs(3);
