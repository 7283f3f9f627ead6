//! Waiting for an event of a session, as any number of tasks may do.

use super::sync::{Notify, StreamShared, StreamState, among_others};
use std::pin::pin;
use tokio::task::coop;

/// Waits until `next`, which is called under the session's lock, gives a value. It is called anew
/// after each `event`. Cancel safe: a cancelled task takes no value, and another task gets it.
pub(super) async fn wait_for<T>(
    shared: &StreamShared,
    event: &Notify,
    mut next: impl FnMut(&mut StreamState) -> Option<T>,
) -> T {
    // A session at which something always waits must not starve the other tasks of the caller's thread.
    coop::consume_budget().await;
    if let Some(value) = look(shared, &mut next) {
        return value;
    }
    loop {
        let mut arrived = pin!(event.notified());
        arrived.as_mut().enable();
        // The event may have come before this task was registered.
        if let Some(value) = look(shared, &mut next) {
            return value;
        }
        among_others(arrived).await;
    }
}

/// Calls `next`, and takes in what has arrived before it has no value.
fn look<T>(shared: &StreamShared, mut next: impl FnMut(&mut StreamState) -> Option<T>) -> Option<T> {
    loop {
        let (value, arrived) = shared.with(|state| match next(state) {
            None => (None, state.take_arrived()),
            value => (value, None),
        });
        match arrived {
            Some(lane) => shared.take_in(&lane),
            None => return value,
        }
    }
}
