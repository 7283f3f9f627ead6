//! Resets of streams that end early, so that the peer notices at once and not by a timeout.

use rails_multirail::{MultiRailMessages, MultiRailStream, StreamEvent};
use std::{io, time::Duration};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::timeout,
};

/// Waits for the end of a stream: its lanes have sent their last frames, and are closed.
#[derive(Debug)]
pub struct LanesClosed(Receiver<StreamEvent>);

impl LanesClosed {
    /// The events of a stream that is still open.
    pub fn of(stream: &MultiRailStream) -> Self {
        Self(stream.subscribe())
    }

    /// Waits until the stream's lanes have closed, for [`MAX_WAIT`] at most: a lane whose peer
    /// accepts no bytes does not keep the process alive.
    pub async fn wait(mut self) {
        // The channel of a stream's events is closed with the last of its lanes.
        let gone = async { while !matches!(self.0.recv().await, Err(RecvError::Closed)) {} };
        if timeout(MAX_WAIT, gone).await.is_err() {
            tracing::debug!("a stream's lanes did not close in time");
        }
    }
}

/// A stream of messages.
pub struct MessageStream {
    /// The stream.
    pub messages: MultiRailMessages,
    closed: LanesClosed,
}

impl MessageStream {
    /// Uses a stream for messages.
    ///
    /// # Errors
    /// The reason why the stream cannot carry messages.
    pub fn new(stream: MultiRailStream) -> io::Result<Self> {
        let closed = LanesClosed::of(&stream);
        Ok(Self { messages: stream.into_messages()?, closed })
    }

    /// Resets the stream, and waits until its lanes have closed, [`MAX_WAIT`] at most.
    pub async fn reset(self) {
        self.messages.abort();
        self.closed.wait().await;
    }
}

/// Resets a stream, and waits until its lanes have closed, [`MAX_WAIT`] at most.
pub async fn reset_stream(stream: MultiRailStream) {
    let closed = LanesClosed::of(&stream);
    stream.abort();
    closed.wait().await;
}

/// The time to send a reset: milliseconds on an idle machine, more on a busy one.
pub const MAX_WAIT: Duration = Duration::from_secs(3);
