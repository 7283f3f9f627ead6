//! A policy of the application, which may panic.

use rails_proto::policy::{Adaptive, Decision, LaneView, Policy, SchedulerView, Sent, StripePolicy};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// A policy of the application until it panics, and [`Adaptive`] from then on. The scheduler calls
/// it where an unwinding thread would leave the stream in between two states, and from destructors,
/// where a second panic ends the process. The process's panic hook reports the panic.
#[derive(Debug)]
pub(super) struct CustomPolicy {
    policy: Box<dyn StripePolicy>,
    has_panicked: AtomicBool,
}

impl CustomPolicy {
    pub(super) fn new(policy: Box<dyn StripePolicy>) -> Self {
        Self { policy, has_panicked: AtomicBool::new(false) }
    }

    fn ask<R>(&self, ask: impl Fn(&(dyn StripePolicy + 'static)) -> R) -> R {
        let own = attempt(&self.has_panicked, || ask(&*self.policy));
        own.unwrap_or_else(|| ask(&Adaptive))
    }

    fn tell(&mut self, tell: impl FnOnce(&mut dyn StripePolicy)) {
        // Adaptive has no memory to keep up to date.
        attempt(&self.has_panicked, || tell(&mut *self.policy));
    }
}

/// Calls a policy unless it has panicked; `None` if it has, or does now.
fn attempt<R>(has_panicked: &AtomicBool, call: impl FnOnce() -> R) -> Option<R> {
    if has_panicked.load(Relaxed) {
        return None;
    }
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) => Some(answer),
        Err(panic) => {
            // The panic's own destructor may panic too.
            std::mem::forget(panic);
            has_panicked.store(true, Relaxed);
            None
        }
    }
}

impl StripePolicy for CustomPolicy {
    fn decide(&self, view: &SchedulerView<'_>, lane: usize) -> Decision {
        self.ask(|policy| policy.decide(view, lane))
    }

    fn longest_chunk(&self, lane: &LaneView, longest: usize) -> usize {
        self.ask(|policy| policy.longest_chunk(lane, longest))
    }

    fn reinjects(&self) -> bool {
        self.ask(StripePolicy::reinjects)
    }

    fn built_in(&self) -> Option<Policy> {
        self.ask(StripePolicy::built_in)
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.tell(|policy| policy.on_sent(sent));
    }

    fn on_ack(&mut self, lane: usize, bytes: u64) {
        self.tell(|policy| policy.on_ack(lane, bytes));
    }

    fn on_lost(&mut self, lane: usize) {
        self.tell(|policy| policy.on_lost(lane));
    }
}
