//! The policy of a stream: the bytes that a lane takes next, if it takes any.
//!
//! The scheduler of a [session](crate::session) asks the policy whenever a lane has room, and
//! carries the answer out. The policy only decides; it sees time and bytes in its
//! [view](SchedulerView). The rules lie in five files: `adaptive.rs` and `fixed.rs` decide,
//! `view.rs` estimates arrivals, `reinjection.rs` finds late chunks, and `probing.rs` sets how
//! often and with how much to probe an unused lane.
//!
//! The scheduler enforces three rules under every policy. It sends nothing beyond the peer's
//! window. It treats an answer that it cannot carry out as [`Decision::Wait`]. And it overrules a
//! policy that leaves a stream standing: if the policy has given no lane any of the waiting bytes
//! for [`LONGEST_REFUSAL`], and no lane expects an acknowledgement, the next lane that asks takes
//! some of them.
//!
//! # To change a rule
//! A rule is a function of the view, so it changes in one of these files, and `tests.rs` decides
//! over plain views. `tests/simulation/scenarios.rs` then runs whole streams over slow, far and
//! breaking links under the changed rule; for lost packets there is `rails-bench lab emulated
//! --loss`. The scheduler sends probes (`Scheduler::probe`) by itself.
//!
//! A new fact about a lane is a field of [`LaneView`]. On its way from the kernel it passes
//! `TransportStats` and a transport that fills it (rails-net), `ActiveLane::sample`
//! (rails-multirail), [`LinkSample`](crate::session::LinkSample) (`link.rs`), and
//! `Lane::observe` and `Lane::view` (`scheduler/lane.rs`). The record writes it: raise `VERSION` in
//! `record/file.rs`; older records are refused then.

mod adaptive;
mod fixed;
mod probing;
mod reinjection;
mod view;

pub use adaptive::Adaptive;
#[cfg(test)]
pub(crate) use adaptive::FIRST_CHUNK;
pub use fixed::Static;
pub(crate) use probing::{probe_allowance, probe_interval};
#[cfg(test)]
pub(crate) use reinjection::UNKNOWN_SERVICE;
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};
pub(crate) use view::InFlight;
pub use view::{ChunkView, LaneView, Requeued, SchedulerView, Streak};

/// The rule that shares the bytes of a stream out among its lanes.
///
/// Each `lane` is a lane's [slot](crate::session::LaneId), not its number: a later lane may get
/// the slot.
///
/// A policy without a memory is a function of the view, and each of its recorded decisions can be
/// [replayed](crate::record::Record::replay) alone. The built-in policies have no memory. A policy
/// with a memory keeps it up to date through the callbacks.
pub trait StripePolicy: fmt::Debug + Send {
    /// Decides for `lane`, which has room. The scheduler may ask the same question more than once,
    /// and for a lane that has not asked yet.
    fn decide(&self, view: &SchedulerView<'_>, lane: usize) -> Decision;

    /// The longest chunk that a lane in this state takes, in bytes. The peer takes chunks of at
    /// most `longest` bytes. The driver lets about as much wait in the kernel. Default:
    /// `longest`.
    fn longest_chunk(&self, lane: &LaneView, longest: usize) -> usize {
        let _ = lane;
        longest
    }

    /// Whether the policy ever answers [`Decision::Reinject`]. If so, idle lanes ask again when a
    /// chunk of another lane is [overdue](SchedulerView::overdue_after), and the scheduler
    /// sometimes probes a lane that gets nothing with a copy. Default: no.
    fn reinjects(&self) -> bool {
        false
    }

    /// The name of a built-in policy, for [records](crate::record::Record). Default: none.
    fn built_in(&self) -> Option<Policy> {
        None
    }

    /// A lane took bytes. Default: does nothing.
    fn on_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }

    /// The peer has acknowledged `bytes` that `lane` had in flight. Default: does nothing.
    fn on_ack(&mut self, lane: usize, bytes: u64) {
        let _ = (lane, bytes);
    }

    /// `lane` was lost or has stalled: its bytes that no other lane has in flight are requeued.
    /// Default: does nothing.
    fn on_lost(&mut self, lane: usize) {
        let _ = lane;
    }
}

/// The answer of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The lane takes at most this number of new bytes. The scheduler treats 0 as 1, and gives no
    /// more than [`SchedulerView::longest_chunk`] and the waiting bytes.
    New(usize),
    /// The lane takes the first of the [requeued](SchedulerView::requeued) bytes, at most this
    /// number.
    Requeue(usize),
    /// The lane sends the chunk at this offset again. Another lane has it in flight, and this one
    /// has not.
    Reinject(u64),
    /// The lane takes nothing.
    Wait(Wait),
}

/// The reason why a lane takes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// No bytes wait, and no other lane is late.
    NothingToSend,
    /// Another lane would deliver all waiting bytes sooner.
    SoonerElsewhere,
    /// Another lane has its turn.
    OutOfTurn,
    /// The application's own policy has a reason of its own.
    Other,
}

/// Bytes that a lane has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The lane.
    pub lane: usize,
    /// The stream offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u32,
    /// The reason why the lane took the bytes.
    pub cause: Cause,
}

/// The reason why a lane took bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No lane had taken the bytes before.
    New,
    /// The lane that had the bytes was lost or has stalled.
    Requeued,
    /// Another lane is late with the bytes.
    Reinjected,
    /// The lane gets nothing else, and the copy measures its speed.
    Probed,
}

/// The policies of this crate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Late binding: a lane with room takes the next chunk, so that each lane carries as much as it
    /// can; see [`Adaptive`].
    #[default]
    Adaptive,
    /// Equal shares in turn, regardless of the lanes' rates: the static striping of the paper
    /// (section II.A). It is as slow as its slowest lane, and serves for comparison.
    Static,
    /// Shares in turn by each lane's weight, regardless of the lanes' present rates: as good as the
    /// weights are.
    Weighted,
}

impl Policy {
    /// Creates a policy of that kind for one direction of one stream.
    pub fn build(self) -> Box<dyn StripePolicy> {
        match self {
            Self::Adaptive => Box::new(Adaptive),
            Self::Static => Box::new(Static::equal()),
            Self::Weighted => Box::new(Static::weighted()),
        }
    }
}

/// A decision for the log. The driver [logs](Self::log) it when it holds no lock: the application's
/// subscriber may use the stream.
#[derive(Debug)]
pub struct Traced {
    pub(crate) slot: usize,
    pub(crate) number: u16,
    pub(crate) decision: Decision,
    pub(crate) overruled: Option<Decision>,
    /// The offset and the length of the chunk that the lane took.
    pub(crate) chunk: Option<(u64, u32)>,
}

impl Traced {
    /// Logs the decision at [`TRACE_TARGET`].
    pub fn log(&self) {
        let Self { slot, number, decision, overruled, chunk } = self;
        tracing::trace!(target: TRACE_TARGET, slot, number, ?decision, ?overruled, ?chunk, "decided");
    }
}

/// The target of the `tracing` events of decisions, at the level `trace`.
pub const TRACE_TARGET: &str = "rails_proto::decisions";
/// The time after which newer observations make up half of the estimate of a lane's rate.
pub const HALF_LIFE: Duration = Duration::from_millis(50);
/// How long bytes wait that the policy gives to no lane, while no lane expects an acknowledgement.
/// No policy of this crate comes near it: the lane that the policy prefers takes the bytes as soon
/// as it is woken.
pub const LONGEST_REFUSAL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
