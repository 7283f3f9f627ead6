//! The policy of a stream: which bytes a lane takes next, and when it takes none.
//!
//! The [scheduler](crate::scheduler) asks the policy whenever a lane has room, and carries the answer out. The policy decides and does
//! nothing else; it sees time and bytes in its [view](SchedulerView). The rules lie in five files: `adaptive.rs` and `fixed.rs` decide,
//! `view.rs` estimates arrivals, `reinjection.rs` says when a chunk is late, and `probing.rs` how an unused lane is tried.
//!
//! Three rules hold under every policy, and the scheduler sees to them. It sends nothing beyond the peer's window. It takes an answer
//! that cannot be carried out for [`Decision::Wait`]. And it overrules a policy that leaves a stream standing: where the policy has
//! given nothing of what waits for [`LONGEST_REFUSAL`], and no acknowledgement is expected, the next lane that asks takes some of it.

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
pub(crate) use view::InFlight;
pub use view::{ChunkView, LaneView, Requeued, SchedulerView, Streak};

use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// How the bytes of a stream are shared out among its lanes.
///
/// A policy without a memory is a function of the view, and each of its recorded decisions can be
/// [replayed](crate::record::Record::replay) alone. The built-in policies have none. A policy with a memory keeps it by the callbacks.
pub trait StripePolicy: fmt::Debug + Send {
    /// Decides for `lane`, which has room. The same question may be asked more than once, and for a lane that has not asked yet.
    fn decide(&self, view: &SchedulerView<'_>, lane: usize) -> Decision;

    /// The longest chunk that a lane in this state is given, in bytes, of those that the peer takes, which are no longer than `longest`. The
    /// driver lets about as much wait in the kernel. Default: `longest`.
    fn longest_chunk(&self, lane: &LaneView, longest: usize) -> usize {
        let _ = lane;
        longest
    }

    /// Whether the policy ever answers [`Decision::Reinject`]. If so, idle lanes are asked again when a chunk of another lane is
    /// [overdue](SchedulerView::overdue_after), and a lane that is given nothing is probed with a copy now and then. Default: no.
    fn reinjects(&self) -> bool {
        false
    }

    /// The built-in policy that this is, for [records](crate::record::Record). Default: none.
    fn built_in(&self) -> Option<Policy> {
        None
    }

    /// A lane was given bytes. Default: nothing.
    fn on_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }

    /// The peer has acknowledged `bytes` that `lane` had in flight. Default: nothing.
    fn on_ack(&mut self, lane: usize, bytes: u64) {
        let _ = (lane, bytes);
    }

    /// `lane` was lost or has stalled: its bytes that are in flight on no other lane are requeued. Default: nothing.
    fn on_lost(&mut self, lane: usize) {
        let _ = lane;
    }
}

/// The answer of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The lane takes so many bytes that no lane has had, at most. The scheduler takes 0 for 1, and cuts what is longer than
    /// [`SchedulerView::longest_chunk`] or than what waits.
    New(usize),
    /// The lane takes the first of the [requeued](SchedulerView::requeued) bytes, so many at most.
    Requeue(usize),
    /// The lane sends the chunk at this offset again, which another lane has in flight and this one has not.
    Reinject(u64),
    /// The lane takes nothing.
    Wait(Wait),
}

/// Why a lane takes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Nothing waits, and no other lane is late.
    NothingToSend,
    /// Another lane would deliver all that waits sooner.
    SoonerElsewhere,
    /// It is another lane's turn.
    OutOfTurn,
    /// The application's own policy has a reason of its own.
    Other,
}

/// Bytes that a lane was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The lane.
    pub lane: usize,
    /// Where the first of them belongs in the stream.
    pub offset: u64,
    /// How many there are.
    pub length: u32,
    /// Why it was given them.
    pub cause: Cause,
}

/// Why a lane was given bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No lane had had them.
    New,
    /// The lane that had them was lost or has stalled.
    Requeued,
    /// Another lane is late with them.
    Reinjected,
    /// The lane is given nothing else, and a copy tells how good it is now.
    Probed,
}

/// The policies of this crate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Late binding: a lane with room takes the next chunk, so that each lane carries what it can; see [`Adaptive`].
    #[default]
    Adaptive,
    /// Equal shares in turn, whatever the lanes can carry: the static striping of the paper (section II.A). It is as slow as its slowest lane,
    /// and here to be compared with.
    Static,
    /// Shares in turn by each lane's weight, whatever the lanes can carry then: as good as the weights are.
    Weighted,
}

impl Policy {
    /// A policy of that kind for one direction of one stream.
    pub fn build(self) -> Box<dyn StripePolicy> {
        match self {
            Self::Adaptive => Box::new(Adaptive),
            Self::Static => Box::new(Static::equal()),
            Self::Weighted => Box::new(Static::weighted()),
        }
    }
}

/// The target of the `tracing` events of decisions, at the level `trace`.
pub const TRACE_TARGET: &str = "rails_proto::decisions";
/// After how long half of what is known of a lane's rate is of newer observations.
pub const HALF_LIFE: Duration = Duration::from_millis(50);
/// How long bytes wait that the policy gives to no lane, while no acknowledgement is expected. No policy of this crate comes near it: a lane that
/// one of them prefers takes the bytes as soon as it is woken.
pub const LONGEST_REFUSAL: Duration = Duration::from_millis(500);
