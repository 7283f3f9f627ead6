//! Rails that follow the machine: moved when their CPU goes offline, their link goes down, or their
//! interrupt moves.

mod driver;
mod follower;

use crate::{
    Rails,
    planner::RailRequest,
    rails::{RailEvent, ShownPlace},
};
use rails_topo::{
    Topology,
    monitor::{MonitorError, MonitorOptions},
};
use std::{
    fmt, io,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::broadcast;

/// How rails follow the machine.
#[derive(Debug, Clone)]
#[must_use = "options do nothing until `Rails::follow` has them"]
pub struct FollowOptions {
    settle: Duration,
    dwell: Duration,
    puts_interrupts_back: bool,
    monitor: MonitorOptions,
    describe: Option<Describe>,
}

/// A function that completes the model of the machine.
#[derive(Clone)]
struct Describe(Arc<dyn Fn(Topology) -> Topology + Send + Sync>);

/// Why rails cannot follow the machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The request is not the one that the rails were planned by.
    #[error("the request is for {wanted} rails, and there are {rails}")]
    OtherRails {
        /// The rails of the request.
        wanted: usize,
        /// The rails of the set.
        rails: usize,
    },
    /// The rails follow the machine already.
    #[error("the rails follow the machine already")]
    Already,
    /// The operating system gave no thread.
    #[error("no thread to follow the machine on")]
    Thread(#[source] io::Error),
    /// The machine cannot be watched.
    #[error("the machine cannot be watched")]
    Monitor(#[from] MonitorError),
}

impl FollowOptions {
    /// Rails that move half a second after a link has gone down, and ten seconds after a better
    /// place is there; interrupts stay where other programs move them.
    pub fn new() -> Self {
        Self {
            settle: Duration::from_millis(500),
            dwell: Duration::from_secs(10),
            puts_interrupts_back: false,
            monitor: MonitorOptions::new(),
            describe: None,
        }
    }

    /// How long a link has to be down before the rail leaves it, and how long an interrupt has to
    /// be elsewhere before it is put back. Default: 500 ms. A rail whose CPU went offline moves
    /// at once: the kernel has moved its thread already.
    pub fn settle(self, time: Duration) -> Self {
        Self { settle: time.min(LONGEST), ..self }
    }

    /// How long a better place has to be there before a rail moves to it, and the least time
    /// between such a move and the last one. Default: 10 s; at least 100 ms. A move that failed
    /// is tried again after the same time.
    pub fn dwell(self, time: Duration) -> Self {
        Self { dwell: time.clamp(MIN_DWELL, LONGEST), ..self }
    }

    /// Puts interrupts of the rails' NICs back that another program moves, such as irqbalance: to
    /// the CPUs that they were allowed on when the following began. Default: they stay, and a
    /// rail moves after its interrupt if another CPU is then better. At most once in each
    /// [dwell](Self::dwell) for each interrupt.
    ///
    /// # Privileges
    /// To write `/proc/irq/N/smp_affinity_list`: root, in the machine's own user namespace.
    pub fn put_interrupts_back(self) -> Self {
        Self { puts_interrupts_back: true, ..self }
    }

    /// How the machine is watched. Default: [`MonitorOptions::new`], which notices moved interrupts
    /// within 5 s.
    pub fn monitor(self, options: MonitorOptions) -> Self {
        Self { monitor: options, ..self }
    }

    /// Has `describe` complete each model of the machine before rails are planned on it, as with
    /// the user's files of facts. It is called on the thread that follows the machine, after
    /// each change.
    pub fn describe(self, describe: impl Fn(Topology) -> Topology + Send + Sync + 'static) -> Self {
        Self { describe: Some(Describe(Arc::new(describe))), ..self }
    }
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Rails {
    /// Follows the machine: plans the rails again after each change
    /// ([`replan_rails`](crate::planner::replan_rails)), by the request that they were planned
    /// by, and moves those that need it ([`move_rail`](Self::move_rail)). No byte is lost. The
    /// number of rails stays: a new NIC is there for a rail whose own goes down.
    ///
    /// | change | the rail |
    /// |---|---|
    /// | its CPU goes offline, or out of the cpuset; another owner claims it | moves at once to the next best CPU |
    /// | its link goes down, or its NIC is gone | moves to a NIC without a rail, and its streams connect from there |
    /// | there is a better CPU: one came online, or an interrupt moved | moves after [`FollowOptions::dwell`] |
    /// | there is nowhere to move to | runs on where it is, and says so |
    ///
    /// Rails that do not follow the machine stay where they are. The kernel lets the threads of a
    /// CPU that goes offline run anywhere, also when the CPU is back; the log warns of such a
    /// rail when a stream on it opens or is closed.
    ///
    /// A rail moves to another NIC only if the request leaves the choice of the NIC to the planner
    /// (`auto`, `4`, `peer:...`). Streams that these rails have *opened* connect from the new
    /// NIC; a peer that has opened a stream to this end goes on by the addresses that it knows.
    ///
    /// A thread `rails-follow` watches the machine. It runs where the calling thread may run,
    /// sleeps between changes but for the monitor's [poll](MonitorOptions::poll_interval), and
    /// ends with the last clone of the rails, or by [`unfollow`](Self::unfollow) or
    /// [`shutdown`](Self::shutdown). [`subscribe`](Self::subscribe) tells of moves.
    ///
    /// While the thread looks at the machine or moves a rail, it keeps the rails running. The drop
    /// of the last other clone then does not wait, and the rails stop after that step.
    /// [`shutdown`](Self::shutdown) waits at all times.
    ///
    /// The call blocks the calling thread while the machine is read.
    ///
    /// ```
    /// # use rails_multirail::{FollowOptions, RailRequest, Rails, plan_rails};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let request = RailRequest::loopback(2);
    /// let rails = Rails::build(&plan_rails(&rails_topo::Topology::detect()?, &request)?)?;
    /// rails.follow(&request, FollowOptions::new())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`FollowError`].
    ///
    /// # Privileges
    /// None. In containers without the host's user namespace changes of CPUs are noticed by the
    /// poll alone.
    pub fn follow(&self, request: &RailRequest, options: FollowOptions) -> Result<(), FollowError> {
        if let Some(wanted) = request.rails().filter(|wanted| *wanted != self.len()) {
            return Err(FollowError::OtherRails { wanted, rails: self.len() });
        }
        let has_begun = self.following().begin(|| driver::start(self, request, options))?;
        if has_begun { Ok(()) } else { Err(FollowError::Already) }
    }

    /// Stops following the machine. The rails stay where they are. A move under way is carried out.
    pub fn unfollow(&self) {
        self.following().stop();
    }

    /// The changes of the rails from now on, while they [follow](Self::follow) the machine. A
    /// subscriber that reads too slowly gets the number of those that it has missed; 64 are
    /// kept.
    pub fn subscribe(&self) -> broadcast::Receiver<RailEvent> {
        self.following().subscribe()
    }

    /// Reads back whether the threads are still bound, and warns of a rail with unbound ones, once
    /// a minute at most. Rails that follow the machine are bound again, and tell of that.
    pub(crate) fn warn_of_unbound(&self) {
        let following = self.following();
        if following.is_on() {
            return;
        }
        for rail in self.iter().filter(|rail| !rail.is_bound_as_planned()) {
            let id = rail.id();
            if let Some(left_out) = following.warnings.due(Instant::now(), &id.to_string()) {
                tracing::warn!(
                    rail = %id, planned = %ShownPlace(&rail.planned()), left_out,
                    "a rail's threads may run on other CPUs: its CPU was offline, or another program has moved them; \
                     it stays so without `Rails::follow` or a move by hand"
                );
            }
        }
    }
}

impl fmt::Debug for Describe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Describe")
    }
}

/// A move that fails at once is not tried again and again without a rest.
const MIN_DWELL: Duration = Duration::from_millis(100);
/// Longer than any machine runs, and short enough to add to an instant.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

#[cfg(test)]
mod tests;
