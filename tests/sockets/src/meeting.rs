//! A point in a case that both ends reach before either goes on. The client reaches it by a
//! connection of its own, which also shows that a connection that stands still holds up no other.

use crate::row::End;
use std::{
    collections::HashMap,
    io,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// The meetings of the cases that a server has carried out.
#[derive(Default)]
pub(crate) struct Meetings {
    arrived: Mutex<HashMap<String, Arrived>>,
    changed: Condvar,
}

/// How often each end of a case has arrived.
#[derive(Default)]
struct Arrived {
    client: u64,
    server: u64,
}

impl Meetings {
    /// Arrives at a case's next meeting, and waits for the other end. An error after [`PATIENCE`].
    pub(crate) fn arrive(&self, case: &str, end: End) -> io::Result<()> {
        let mut cases = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let arrived = cases.entry(case.to_owned()).or_default();
        let number = match end {
            End::Client => &mut arrived.client,
            End::Server => &mut arrived.server,
        };
        *number += 1;
        let number = *number;
        self.changed.notify_all();
        let is_alone = |cases: &mut HashMap<String, Arrived>| {
            cases.get(case).is_none_or(|arrived| arrived.client.min(arrived.server) < number)
        };
        let waited = self.changed.wait_timeout_while(cases, PATIENCE, is_alone);
        let (_cases, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() { Err(io::Error::other("the other end did not come")) } else { Ok(()) }
    }
}

/// A bound against hanging, below that of a case.
const PATIENCE: Duration = Duration::from_secs(15);
