//! The streams on a set of rails.

use super::shared::Shared;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The streams on a set of rails, those that were dropped and still deliver included.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<Vec<Weak<Shared>>>);

impl Streams {
    pub(super) fn add(&self, stream: &Arc<Shared>) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if streams.len() == streams.capacity() {
            streams.retain(|stream| stream.strong_count() > 0);
        }
        streams.push(Arc::downgrade(stream));
    }

    /// The streams that were dropped or shut down, and whose peer does not have all.
    pub(crate) fn delivering(&self) -> Vec<Arc<Shared>> {
        let streams = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        streams.iter().filter_map(Weak::upgrade).filter(|stream| stream.is_delivering()).collect()
    }
}
