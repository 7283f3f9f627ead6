//! The users of a set of rails, as the rails know them.

use crate::{RailId, error::UndeliveredStream};
use futures_util::future::BoxFuture;
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// One end of a stream on the rails.
pub(crate) trait StreamOnRails: Send + Sync {
    /// Whether the application has dropped the stream or shut it down, and the peer does not have
    /// all.
    fn is_delivering(&self) -> bool;

    /// Waits until the stream has delivered its bytes, or has failed.
    fn delivered(&self) -> BoxFuture<'_, ()>;

    /// The bytes that the peer does not have, if there are any, or the peer has not heard of the
    /// stream's end.
    fn undelivered(&self) -> Option<UndeliveredStream>;
}

/// A user whose lanes follow a rail that moves.
pub(crate) trait MoveListener: Send + Sync {
    /// The lanes of the rail begin elsewhere.
    fn rail_moved(self: Arc<Self>, rail: RailId);
}

/// Users of one kind. The registry keeps none of them.
pub(crate) struct Registry<T: ?Sized>(Mutex<Vec<Weak<T>>>);

impl<T: ?Sized> Registry<T> {
    pub(crate) fn add(&self, user: Weak<T>) {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() == users.capacity() {
            users.retain(|user| user.strong_count() > 0);
        }
        users.push(user);
    }

    /// The users that live.
    pub(super) fn living(&self) -> Vec<Arc<T>> {
        let users = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        users.iter().filter_map(Weak::upgrade).collect()
    }
}

impl<T: ?Sized> Default for Registry<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: ?Sized> fmt::Debug for Registry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.0).finish()
    }
}
