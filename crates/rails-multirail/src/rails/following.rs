//! Whether a set of rails follows the machine, and the subscribers to the changes.

use super::{RailEvent, RailEventKind};
use crate::RailId;
use rails_net::Repeated;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};
use tokio::sync::{broadcast, oneshot};

/// Stops the thread by which a set of rails follows the machine, and passes on the events of the
/// rails meanwhile.
#[derive(Debug)]
pub(crate) struct Following {
    events: broadcast::Sender<RailEvent>,
    /// Dropping the sender ends the following.
    stop: Mutex<Stop>,
    /// The warnings of rails that are not bound, and of claims that cannot be read.
    pub(crate) warnings: Repeated,
}

type Stop = Option<oneshot::Sender<()>>;

impl Default for Following {
    fn default() -> Self {
        Self { events: broadcast::Sender::new(MAX_UNREAD), stop: Mutex::default(), warnings: Repeated::new() }
    }
}

impl Following {
    /// Has `start` begin the following, unless it goes on already: then returns `false`. Dropping
    /// the sender that `start` returns has to end the following.
    pub(crate) fn begin<E>(&self, start: impl FnOnce() -> Result<oneshot::Sender<()>, E>) -> Result<bool, E> {
        let mut stop = self.lock();
        if goes_on(&stop) {
            return Ok(false);
        }
        *stop = Some(start()?);
        Ok(true)
    }

    pub(crate) fn stop(&self) {
        let stop = self.lock().take();
        drop(stop);
    }

    pub(crate) fn is_on(&self) -> bool {
        goes_on(&self.lock())
    }

    pub(crate) fn publish(&self, rail: Option<RailId>, kind: RailEventKind) {
        let event = RailEvent { at: SystemTime::now(), rail, kind };
        tracing::warn!("{event}");
        // Without a subscriber there is no need for it.
        let _ = self.events.send(event);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<RailEvent> {
        self.events.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Stop> {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn goes_on(stop: &Stop) -> bool {
    stop.as_ref().is_some_and(|stop| !stop.is_closed())
}

/// The events that are kept for a subscriber that does not read.
const MAX_UNREAD: usize = 64;
