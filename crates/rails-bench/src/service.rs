//! The service manager that has started this program (sd_notify(3)). Without one, nothing is told.

use sd_notify::NotifyState;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// A service under way. The manager hears that it is ready, that it lives, and, when this is
/// dropped, that it stops.
#[derive(Debug)]
pub(crate) struct Service {
    /// The time between signs of life, if the manager waits for them (`WatchdogSec=`).
    every: Option<Duration>,
    next: Instant,
}

impl Service {
    /// The service is ready.
    pub(crate) fn ready() -> Self {
        tell(NotifyState::Ready);
        // Half the manager's patience, as sd_watchdog_enabled(3) recommends.
        let every = sd_notify::watchdog_enabled().map(|patience| patience / 2);
        Self { every, next: Instant::now() }
    }

    /// Completes when a sign of life was due, and has been given. The loop of the service waits for
    /// this, so that a loop that hangs gives none.
    pub(crate) async fn lives(&mut self) {
        let Some(every) = self.every else { return std::future::pending().await };
        sleep_until(self.next).await;
        tell(NotifyState::Watchdog);
        self.next = Instant::now() + every;
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        tell(NotifyState::Stopping);
    }
}

fn tell(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}
