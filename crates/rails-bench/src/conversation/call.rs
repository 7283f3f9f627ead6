//! The end that calls.

use super::{Control, ConversationError, Door, PATIENCE, Reply, Request, control::MAX_REPLY};
use crate::{
    parting::{Parting, part},
    print,
    stop::Stopped,
};
use anyhow::{Context, Result};
use rails_multirail::MultiRailSession;
use rails_transfer::Reason;
use std::time::Duration;
use tokio::time::timeout;

/// A conversation that this end has begun.
pub(crate) struct Call {
    /// The session, for the streams of the work.
    pub(crate) session: MultiRailSession,
    /// The stream of the conversation.
    pub(crate) control: Control,
    door: Option<Door>,
}

impl Call {
    /// Says over a new session what this end wants, and waits until the peer does it, however busy
    /// the peer is.
    ///
    /// # Errors
    /// [`ConversationError`] with a remedy. The session is still open.
    pub(crate) async fn over(session: &MultiRailSession, request: &Request) -> Result<Self> {
        let begun = async {
            let (writing, reading) = session.open_bi().await.map_err(|error| ConversationError::Cut(error.into()))?;
            let mut control = Control::new(reading, writing);
            control.greet().await?;
            control.say(request).await?;
            let heard = timeout(PATIENCE, control.hear_greeting()).await;
            heard.unwrap_or(Err(ConversationError::Silent(PATIENCE.as_secs())))?;
            let door = match control.next_reply(request).await? {
                Reply::Open(door) => Some(door),
                _ => None,
            };
            Ok(Self { session: session.clone(), control, door })
        };
        begun.await.map_err(ConversationError::helped)
    }

    /// The place of the flows that this end has to open.
    ///
    /// # Errors
    /// If the peer has named none.
    pub(crate) fn door(&self) -> Result<Door> {
        self.door.context("the peer has begun without the flows that it was asked to take")
    }

    /// Waits until the peer has all flows that this end has opened.
    ///
    /// # Errors
    /// [`ConversationError`].
    pub(crate) async fn all_open(&mut self, request: &Request) -> Result<()> {
        match self.control.next_reply(request).await.map_err(ConversationError::helped)? {
            Reply::Begin => Ok(()),
            _ => Err(ConversationError::OutOfTurn("where flows are to be opened").into()),
        }
    }

    /// The result of work beside the session. A failure that the end of the session explains has
    /// that reason: flows and further streams of a peer that leaves are cut a moment before or
    /// after it.
    pub(crate) async fn explained<T>(&self, result: Result<T>) -> Result<T> {
        match result {
            Err(error) if !error.is::<Stopped>() => match timeout(MOMENT, self.session.closed()).await {
                Ok(left) => Err(left.into()),
                Err(_) => Err(error),
            },
            result => result,
        }
    }

    /// Ends the session: in order if its work is done, and at once otherwise.
    pub(crate) async fn end<T>(self, result: &Result<T>) {
        let parting = result.as_ref().err().map_or(Parting::Done, Parting::of);
        parting.close(&self.session);
        drop(self.control);
        part(self.session, parting).await;
    }
}

impl Control {
    /// The next answer of a peer that does what it was asked.
    async fn next_reply(&mut self, request: &Request) -> Result<Reply, ConversationError> {
        loop {
            match self.hear(MAX_REPLY).await? {
                Reply::Busy => print::note("waiting: the peer is busy with others"),
                Reply::Misfit(role) if role == request.role() => {
                    return Err(ConversationError::OutOfTurn("that it serves something else"));
                }
                Reply::Misfit(role) => return Err(ConversationError::Callee { request: request.to_string(), role }),
                Reply::Refused(why) => return Err(ConversationError::Refused(Reason::new(why))),
                reply @ (Reply::Open(_) | Reply::Begin) => return Ok(reply),
            }
        }
    }
}

/// How long a peer that has cut a flow takes to close the session.
const MOMENT: Duration = Duration::from_millis(500);
