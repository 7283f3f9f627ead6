//! The rate at which a connection sends.

mod adaptive;
mod fixed;
mod shared;

use super::{rtt::RttEstimator, sender::Feedback};
pub use adaptive::{Adaptive, AdaptiveOptions};
pub use fixed::Fixed;
use rails_topo::Bandwidth;
pub use shared::{NoRate, RateShare, SharedRate};
use std::{fmt, task::Waker, time::Instant};

/// Decides the rate of a connection, by its error lists. A controller has no clock: time is an
/// argument.
///
/// The rate counts the IP packets of segments, with their headers. A connection that hears nothing
/// from its peer sends more slowly by itself, at any answer of the controller.
pub trait RateController: fmt::Debug + Send {
    /// The controller's name, for statistics, beside those of the congestion controls of TCP.
    fn name(&self) -> &'static str;

    /// The rate from now on.
    fn rate(&self) -> Bandwidth;

    /// An error list has come.
    fn handle(&mut self, now: Instant, feedback: &Feedback, rtt: &RttEstimator);

    /// The most payload bytes that may be sent and not acknowledged, so that a sender which hears
    /// nothing stops before it has filled the queues on the path. The default sets no limit.
    fn window(&self) -> u64 {
        u64::MAX
    }

    /// Says whether the connection has something that it may send, or is waiting for news. The
    /// default does nothing.
    fn set_busy(&mut self, is_busy: bool) {
        let _ = is_busy;
    }

    /// Registers the waker of the connection's task, in place of an earlier one, before the task
    /// looks at the rate and waits. The controller calls it once the rate grows otherwise than by a
    /// call of this controller. The default does nothing.
    fn watch(&mut self, waker: &Waker) {
        let _ = waker;
    }

    /// The tasks of other connections whose rates have grown by calls of this controller: the
    /// caller wakes them once it holds no lock. The default has none.
    fn take_woken(&mut self) -> Vec<Waker> {
        Vec::new()
    }

    /// The connection sends again, after it had nothing to send for some time. The default does
    /// nothing.
    fn resume(&mut self, now: Instant) {
        let _ = now;
    }
}
