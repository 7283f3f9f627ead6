//! The changes of links, received once for all streams of the same rails.

use crate::runtime::RailRuntime;
use rails_net::{LinkChange, LinkWatch};
use std::sync::{Arc, OnceLock};
use tokio::sync::broadcast::{Receiver, Sender, error::RecvError};

/// Passes the changes of links to every stream of the same rails. A task of the first rail receives
/// them, in the network namespace of its thread, from the first stream on.
#[derive(Debug, Default)]
pub(super) struct LinkChanges(OnceLock<Sender<LinkReport>>);

/// Changes of links; `None` if changes were missed.
type LinkReport = Option<Arc<[LinkChange]>>;

/// One stream's subscription.
pub(crate) struct LinkReports(Receiver<LinkReport>);

impl LinkChanges {
    /// The changes from now on. `runtime` receives them if none does so yet.
    pub(super) fn subscribe(&self, runtime: &RailRuntime) -> LinkReports {
        let reports = self.0.get_or_init(|| {
            let reports = Sender::new(MAX_UNREAD);
            runtime.handle().spawn(pass_on(reports.clone()));
            reports
        });
        LinkReports(reports.subscribe())
    }
}

impl LinkReports {
    /// The next changes; `None` if changes were missed. Waits for ever if links cannot be watched.
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> LinkReport {
        match self.0.recv().await {
            Ok(report) => report,
            Err(RecvError::Lagged(_)) => None,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Passes the kernel's reports on, as long as the rail runs.
async fn pass_on(reports: Sender<LinkReport>) {
    match LinkWatch::new() {
        Ok(mut links) => loop {
            let report = match links.changed().await {
                Ok(changes) => Some(changes.into()),
                Err(error) => {
                    tracing::debug!(%error, "changes of links were missed");
                    None
                }
            };
            // This fails if there is no stream, which is fine.
            let _ = reports.send(report);
        },
        Err(error) => {
            tracing::debug!(%error, "links cannot be watched; a link that is down shows as a stalled lane");
        }
    }
}

/// Reports that may wait for a stream; one that is behind by more has missed changes.
const MAX_UNREAD: usize = 16;
