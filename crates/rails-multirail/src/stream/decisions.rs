//! The scheduling decisions of a stream, for a file.

use super::shared::Shared;
use rails_proto::record::Record;
use std::sync::Arc;

/// The recorded scheduling decisions of one end of a stream. It keeps what the stream and its rails need, and not the stream itself, which ends
/// when it is closed or dropped.
#[derive(Debug, Clone)]
pub struct Decisions {
    shared: Arc<Shared>,
}

impl Decisions {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        Self { shared: shared.clone() }
    }

    /// Hands out what was decided since this was last asked, at most as much as
    /// [`StreamOptions::record_decisions`](crate::StreamOptions::record_decisions) keeps. `None` if nothing is recorded.
    pub fn take(&self) -> Option<Record> {
        self.shared.with(|state| state.connection.take_record())
    }
}
