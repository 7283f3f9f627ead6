//! Waiting with a limit.

use rails_proto::countdown::Countdown;
use std::{pin::pin, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Waits for the future, for `limit` at most; `None` if it takes longer. The time that the process
/// was stopped does not count: the answers of peers are still to be taken in.
pub(super) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut left = Countdown::new(Instant::now().into_std(), limit);
    let mut future = pin!(future);
    loop {
        if let Ok(done) = timeout_at(left.check_at().into(), future.as_mut()).await {
            return Some(done);
        }
        if left.count(Instant::now().into_std()) {
            return None;
        }
    }
}
