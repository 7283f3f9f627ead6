//! Rails that follow the machine: moved when their CPU goes offline, their link goes down, or their interrupt moves.

mod driver;
mod follower;

use crate::{
    RailId, Rails,
    planner::{PlannedRail, RailRequest},
    runtime::{MoveError, Placement},
};
use rails_net::Repeated;
use rails_topo::{
    CpuSet, Topology,
    monitor::{MonitorError, MonitorOptions},
};
use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::{broadcast, oneshot};

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

/// A change of a set of rails that follows the machine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RailEvent {
    /// When it happened, by the clock on the wall.
    pub at: SystemTime,
    /// The rail; `None` if it is about all of them.
    pub rail: Option<RailId>,
    /// The change.
    pub kind: RailEventKind,
}

/// The kind of a change of rails.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RailEventKind {
    /// The rail was moved.
    Moved {
        /// Its former place.
        from: Arc<PlannedRail>,
        /// Its place now.
        to: Arc<PlannedRail>,
        /// The reasons for which it left its former place.
        reasons: Vec<String>,
        /// The placement of its thread, as read back.
        placement: Arc<Placement>,
    },
    /// The rail could not be moved. It runs on where it is, and the move is tried again after the
    /// [dwell](FollowOptions::dwell).
    NotMoved {
        /// The place that it was to have.
        to: Arc<PlannedRail>,
        /// Why it was to move.
        reasons: Vec<String>,
        /// Why it did not.
        error: Arc<MoveError>,
    },
    /// The machine lacks something that the request asks for: there is no other place for the rail. It runs on.
    Unmet {
        /// The part of the request.
        reason: String,
    },
    /// An interrupt that another program had moved was put back.
    InterruptPutBack {
        /// Its number.
        interrupt: u32,
        /// Where it was to be served when it was found.
        found: Option<CpuSet>,
        /// Where it is to be served again.
        cpus: CpuSet,
    },
    /// An interrupt that another program has moved could not be put back.
    InterruptNotPutBack {
        /// Its number.
        interrupt: u32,
        /// Where it is to be served.
        found: Option<CpuSet>,
        /// The error, with its causes.
        error: String,
    },
    /// The machine cannot be watched any longer: the rails stay where they are.
    Ended {
        /// The error, with its causes.
        error: String,
    },
}

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
    /// They follow it already.
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
    /// Rails that move half a second after a link has gone down, and ten seconds after a better place is there;
    /// interrupts stay where other programs move them.
    pub fn new() -> Self {
        Self {
            settle: Duration::from_millis(500),
            dwell: Duration::from_secs(10),
            puts_interrupts_back: false,
            monitor: MonitorOptions::new(),
            describe: None,
        }
    }

    /// How long a link has to be down before the rail leaves it, and how long an interrupt has to be elsewhere before it
    /// is put back. Default: 500 ms. A rail whose CPU went offline moves at once: the kernel has moved its thread
    /// already.
    pub fn settle(self, time: Duration) -> Self {
        Self { settle: time.min(LONGEST), ..self }
    }

    /// How long a better place has to be there before a rail moves to it, and the least time between such a move and the
    /// last one. Default: 10 s; at least 100 ms. It is also the time after which a move that failed is tried again.
    pub fn dwell(self, time: Duration) -> Self {
        Self { dwell: time.clamp(MIN_DWELL, LONGEST), ..self }
    }

    /// Puts interrupts of the rails' NICs back that another program moves, such as irqbalance: to the CPUs that they
    /// were allowed on when the following began. Default: they stay, and a rail moves after its interrupt if another
    /// CPU is then better. At most once in each [dwell](Self::dwell) for each interrupt.
    ///
    /// # Privileges
    /// To write `/proc/irq/N/smp_affinity_list`: root, in the machine's own user namespace.
    pub fn put_interrupts_back(self) -> Self {
        Self { puts_interrupts_back: true, ..self }
    }

    /// How the machine is watched. Default: [`MonitorOptions::new`], which notices moved interrupts within 5 s.
    pub fn monitor(self, options: MonitorOptions) -> Self {
        Self { monitor: options, ..self }
    }

    /// Has `describe` complete each model of the machine before rails are planned on it, as with the user's files of
    /// facts. It is called on the thread that follows the machine, after each change.
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
    /// Follows the machine: plans the rails again after each change ([`replan_rails`](crate::planner::replan_rails)), by
    /// the request that they were planned by, and moves those that need it ([`move_rail`](Self::move_rail)). No byte is
    /// lost. The number of rails stays: a new NIC is there for a rail whose own goes down.
    ///
    /// | change | the rail |
    /// |---|---|
    /// | its CPU goes offline, or out of the cpuset; another owner claims it | moves at once to the next best CPU |
    /// | its link goes down, or its NIC is gone | moves to a NIC without a rail, and its streams connect from there |
    /// | a better CPU is there, as after a CPU came online or an interrupt moved | moves after [`FollowOptions::dwell`] |
    /// | there is nowhere to move to | runs on where it is, and says so |
    ///
    /// Rails that do not follow it stay where they are. The kernel lets the threads of a CPU that goes offline run
    /// anywhere, also when the CPU is back; the log warns of such a rail when a stream on it opens or is closed.
    ///
    /// A rail moves to another NIC only if the request leaves the choice of the NIC to the planner (`auto`, `4`,
    /// `peer:...`). Streams that these rails have *opened* connect from the new NIC; a peer that has opened a stream to
    /// this end goes on by the addresses that it knows.
    ///
    /// A thread `rails-follow` watches the machine. It runs where the calling thread may run, sleeps between changes but
    /// for the monitor's [slow look](MonitorOptions::slow_look), and ends with the last clone of the rails, or by
    /// [`unfollow`](Self::unfollow) or [`shutdown`](Self::shutdown). [`subscribe`](Self::subscribe) tells of moves.
    ///
    /// While it looks at the machine or moves a rail, it keeps the rails running. The drop of the last other clone then
    /// does not wait, and the rails stop after that step. [`shutdown`](Self::shutdown) waits at all times.
    ///
    /// It blocks the calling thread while the machine is read.
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
    /// None. In containers without the host's user namespace changes of CPUs are noticed by the slow look alone.
    pub fn follow(&self, request: &RailRequest, options: FollowOptions) -> Result<(), FollowError> {
        if let Some(wanted) = request.rails().filter(|wanted| *wanted != self.len()) {
            return Err(FollowError::OtherRails { wanted, rails: self.len() });
        }
        let mut stop = self.follow_state().stop.lock().unwrap_or_else(PoisonError::into_inner);
        if stop.as_ref().is_some_and(|stop| !stop.is_closed()) {
            return Err(FollowError::Already);
        }
        *stop = Some(driver::start(self, request, options)?);
        Ok(())
    }

    /// Stops following the machine. The rails stay where they are. A move under way is carried out.
    pub fn unfollow(&self) {
        drop(self.follow_state().stop.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The changes of the rails from now on, while they [follow](Self::follow) the machine. A subscriber that reads too
    /// slowly is told how many it has missed; 64 are kept.
    pub fn subscribe(&self) -> broadcast::Receiver<RailEvent> {
        self.follow_state().events.subscribe()
    }

    /// Reads back whether the threads are still bound, and warns of a rail whose are not, once a minute at most. Rails
    /// that follow the machine are bound again, and tell of that.
    pub(crate) fn warn_of_unbound(&self) {
        let follow = self.follow_state();
        if follow.is_followed() {
            return;
        }
        for rail in self.iter().filter(|rail| !rail.is_bound_as_planned()) {
            let id = rail.id();
            if let Some(left_out) = follow.warnings.due(Instant::now(), &id.to_string()) {
                tracing::warn!(
                    rail = %id, planned = %Place(&rail.planned()), left_out,
                    "a rail's threads may run on other CPUs: its CPU was offline, or another program has moved them; \
                     it stays so without `Rails::follow` or a move by hand"
                );
            }
        }
    }
}

/// The state of a set that follows the machine, or does not.
#[derive(Debug)]
pub(crate) struct Follow {
    events: broadcast::Sender<RailEvent>,
    /// Dropping it ends the following.
    stop: Mutex<Option<oneshot::Sender<()>>>,
    /// The warnings of rails that are not bound, and of claims that cannot be read.
    warnings: Repeated,
}

impl Default for Follow {
    fn default() -> Self {
        Self { events: broadcast::Sender::new(MAX_UNREAD), stop: Mutex::default(), warnings: Repeated::new() }
    }
}

impl Follow {
    fn is_followed(&self) -> bool {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        stop.as_ref().is_some_and(|stop| !stop.is_closed())
    }

    fn tell(&self, rail: Option<RailId>, kind: RailEventKind) {
        let event = RailEvent { at: SystemTime::now(), rail, kind };
        tracing::warn!("{event}");
        // Without a subscriber there is no need for it.
        let _ = self.events.send(event);
    }
}

impl fmt::Debug for Describe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Describe")
    }
}

impl fmt::Display for RailEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rail) = self.rail {
            write!(f, "rail {rail}: ")?;
        }
        match &self.kind {
            RailEventKind::Moved { from, to, reasons, placement } => {
                write!(f, "moved from {} to {} ({})", Place(from), Place(to), reasons.join("; "))?;
                placement.unheld().iter().try_for_each(|unheld| write!(f, "; {unheld}"))
            }
            RailEventKind::NotMoved { to, reasons, error } => {
                write!(f, "not moved to {} ({}): {}", Place(to), reasons.join("; "), crate::error::with_causes(error))
            }
            RailEventKind::Unmet { reason } => write!(f, "stays where it is: {reason}"),
            RailEventKind::InterruptPutBack { interrupt, found, cpus } => {
                write!(f, "interrupt {interrupt} put back to CPUs {cpus} from {}", Cpus(found))
            }
            RailEventKind::InterruptNotPutBack { interrupt, found, error } => {
                write!(f, "interrupt {interrupt} stays on CPUs {}: {error}", Cpus(found))
            }
            RailEventKind::Ended { error } => write!(f, "rails stay where they are from now on: {error}"),
        }
    }
}

/// `eth0, CPU 4, node 1`.
struct Place<'a>(&'a PlannedRail);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rail = self.0;
        if let Some(interface) = &rail.interface {
            write!(f, "{interface}, ")?;
        }
        match rail.bound_cpu() {
            Some(_) => write!(f, "CPU {}", rail.cpus())?,
            None => f.write_str("any CPU")?,
        }
        rail.node.iter().try_for_each(|node| write!(f, ", node {node}"))
    }
}

struct Cpus<'a>(&'a Option<CpuSet>);

impl fmt::Display for Cpus<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cpus) => cpus.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}

/// A move that fails at once is not tried again and again without a rest.
const MIN_DWELL: Duration = Duration::from_millis(100);
/// Longer than any machine runs, and short enough to add to an instant.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// The events that are kept for a subscriber that does not read.
const MAX_UNREAD: usize = 64;

#[cfg(test)]
mod tests;
