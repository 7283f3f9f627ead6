//! The recorded scheduling decisions of a stream.

use super::shared::StreamShared;
use rails_proto::record::Record;
use std::sync::Arc;

/// The recorded scheduling decisions of one end of a stream. This handle keeps the rails, and does
/// not keep the stream open, which ends when it is closed or dropped.
#[derive(Debug, Clone)]
pub struct Decisions {
    shared: Arc<StreamShared>,
}

impl Decisions {
    pub(super) fn of(shared: &Arc<StreamShared>) -> Self {
        Self { shared: shared.clone() }
    }

    /// The decisions since the last call, at most as many entries as
    /// [`StreamOptions::record_decisions`](crate::StreamOptions::record_decisions) keeps. `None` if
    /// the stream records none.
    pub fn take(&self) -> Option<Record> {
        self.shared.with(|state| state.session.take_record())
    }
}
