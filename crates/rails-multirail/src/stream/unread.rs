//! The connections of one address that their rails have not come to read.

use crate::RailId;
use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// The number of unread connections of each rail. A busy rail has no room for more, and keeps none
/// from the others.
#[derive(Debug)]
pub(super) struct Unread {
    by_rail: Mutex<Vec<usize>>,
    /// Notified when a rail has come to read a connection.
    freed: Notify,
}

/// The place of an unread connection, held until dropped.
#[derive(Debug)]
pub(super) struct UnreadPlace {
    unread: Arc<Unread>,
    pub(super) rail: RailId,
}

impl Unread {
    /// Creates counts of zero for that number of `rails`.
    pub(super) fn new(rails: usize) -> Arc<Self> {
        Arc::new(Self { by_rail: Mutex::new(vec![0; rails]), freed: Notify::new() })
    }

    /// Waits until one of these rails has room. One task waits at a time.
    pub(super) async fn room(&self, rails: Range<usize>) {
        while self.lock()[rails.clone()].iter().all(|count| *count >= MAX_UNREAD) {
            self.freed.notified().await;
        }
    }

    /// A place for a connection of this rail, if the rail has room.
    pub(super) fn take(self: &Arc<Self>, rail: RailId) -> Option<UnreadPlace> {
        let mut by_rail = self.lock();
        let count = by_rail.get_mut(rail.0).filter(|count| **count < MAX_UNREAD)?;
        *count += 1;
        Some(UnreadPlace { unread: self.clone(), rail })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.by_rail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnreadPlace {
    fn drop(&mut self) {
        self.unread.lock()[self.rail.0] -= 1;
        self.unread.freed.notify_one();
    }
}

/// The most connections of one address that one rail has not come to read.
const MAX_UNREAD: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_busy_rail_takes_no_room_of_others() {
        let unread = Unread::new(2);
        let mut busy: Vec<_> = std::iter::from_fn(|| unread.take(RailId(0))).collect();
        assert_eq!(busy.len(), MAX_UNREAD);
        assert_eq!(unread.room(0..2).now_or_never(), Some(()));
        assert!(unread.take(RailId(1)).is_some());
        let mut room = Box::pin(unread.room(0..1));
        assert_eq!(room.as_mut().now_or_never(), None);
        busy.pop();
        assert_eq!(room.now_or_never(), Some(()));
        assert!(unread.take(RailId(0)).is_some());
    }
}
