//! Timers that ring at common ticks, so that one wake of a thread serves the streams of a whole
//! process.

use rails_proto::parameters::TIMER_SLACK;
use std::{
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};
use tokio::time::Sleep;

/// The first tick that is not before `at`.
pub(super) fn tick(at: Instant) -> Instant {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    let past = at.saturating_duration_since(*FIRST).as_nanos() % TICK.as_nanos();
    if past == 0 { at } else { at + TICK - Duration::from_nanos(past as u64) }
}

/// Waits until `at`, or for ever for `None`: to the next tick if `at` has not come. Resets the
/// timer only for an earlier time: a reset costs two system calls when the runtime is about to
/// sleep, and other events mostly wake the task first.
pub(super) fn poll_alarm(context: &mut Context<'_>, mut alarm: Pin<&mut Sleep>, at: Option<Instant>) -> Poll<()> {
    let Some(at) = at else { return Poll::Pending };
    if at <= Instant::now() {
        return Poll::Ready(());
    }
    let at = tick(at).into();
    loop {
        if alarm.is_elapsed() || alarm.deadline() > at {
            alarm.as_mut().reset(at);
        }
        ready!(alarm.as_mut().poll(context));
        if alarm.deadline() >= at {
            return Poll::Ready(());
        }
    }
}

/// Puts an alarm off that nothing waits for any more, at the price of one write to memory: it would
/// wake its task in vain.
pub(super) fn put_off(alarm: Pin<&mut Sleep>) {
    if !alarm.is_elapsed() {
        alarm.reset(tokio::time::Instant::now() + NEVER);
    }
}

/// The time between two ticks. tokio adds up to a millisecond: its timers ring at whole ones.
const TICK: Duration = TIMER_SLACK.saturating_sub(Duration::from_millis(1));
/// The time to which alarms are put off.
const NEVER: Duration = Duration::from_secs(1 << 20);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn alarms_of_one_interval_ring_together(nanoseconds in 0_u64..1 << 40, later in 0_u64..8_000_000) {
            let start = tick(Instant::now());
            let (one, other) = (start + Duration::from_nanos(nanoseconds), Duration::from_nanos(later));
            let rings = tick(one);
            prop_assert!(rings >= one && rings < one + TICK);
            prop_assert_eq!(tick(rings), rings);
            let together = tick(one + other) == rings;
            prop_assert_eq!(together, one + other <= rings);
        }
    }
}
