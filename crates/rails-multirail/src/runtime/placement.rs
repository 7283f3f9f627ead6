//! The placement of a rail's thread, and of the threads that block for it.

use super::parking::Parking;
use rails_bind::{
    BindError, Cause, Outcome, Property, Unheld,
    memory::{self, MemoryGuard, MemoryPolicy},
    thread::{self, SchedulingClass, ThreadGuard, ThreadPlacement, Tid},
};
use rails_topo::{CpuId, CpuSet, NodeId};
use std::{
    cell::Cell,
    fmt::Display,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::ThreadId,
};

/// The placement of a rail's thread, as read back.
#[derive(Debug, Clone)]
pub struct Placement {
    /// The thread.
    pub tid: Tid,
    /// The outcome of the binding, as `sched_getaffinity` read it back, or why the thread is not
    /// bound.
    pub cpus: Result<Outcome<CpuSet>, Unheld>,
    /// The CPU that the thread ran on at that moment (`getcpu`).
    pub cpu: CpuId,
    /// The outcome of the memory policy, as `get_mempolicy` read it back, or why it is not set;
    /// `None` if no policy was requested.
    pub memory: Option<Result<Outcome<MemoryPolicy>, Unheld>>,
    /// The node of a page that this thread was the first to touch, or why it is unknown.
    pub memory_node: Result<NodeId, String>,
}

/// The placement that a thread is to have.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// The thread's CPUs; `None` leaves it where it is.
    pub(super) cpus: Option<CpuSet>,
    /// The thread's memory policy; `None` leaves the one that it has.
    pub(super) memory: Option<MemoryPolicy>,
    /// Whether a property that the system refuses is an error.
    pub(super) is_required: bool,
}

impl Placement {
    /// Places the calling thread until it ends, and reads the placement back.
    pub(super) fn of_this_thread(wanted: &Wanted) -> Result<Self, BindError> {
        let bound = match &wanted.cpus {
            Some(cpus) => thread::bind_current(cpus).map(|guard| guard.keep()),
            None => thread::current_affinity().map(Outcome::Applied),
        };
        let cpus = wanted.held(Property::Cpus, bound)?;
        let memory = wanted.memory.as_ref().map(|policy| {
            let set = memory::set_thread_policy(policy).map(|guard| guard.keep());
            wanted.held(Property::MemoryPolicy, set)
        });
        let memory = memory.transpose()?;
        let memory_node = memory::node_of_first_touch().map_err(|error| error.to_string());
        Ok(Self { tid: thread::current_tid(), cpus, cpu: thread::current_cpu()?, memory, memory_node })
    }

    /// The requested properties that do not hold, or hold in part.
    pub fn unheld(&self) -> Vec<Unheld> {
        let cpus = unheld(Property::Cpus, &self.cpus);
        let memory = self.memory.as_ref().and_then(|memory| unheld(Property::MemoryPolicy, memory));
        cpus.into_iter().chain(memory).collect()
    }
}

impl Wanted {
    /// A property that the system refused as a fact, unless it is required.
    fn held<T>(
        &self,
        property: Property,
        placed: Result<Outcome<T>, BindError>,
    ) -> Result<Result<Outcome<T>, Unheld>, BindError> {
        match placed {
            Ok(outcome) => Ok(Ok(outcome)),
            Err(error) if self.is_required => Err(error),
            Err(error) => Unheld::by_refusal(property, error).map(Err),
        }
    }
}

fn unheld<T: Display>(property: Property, held: &Result<Outcome<T>, Unheld>) -> Option<Unheld> {
    match held {
        Ok(outcome) => Unheld::by_outcome(property, outcome),
        Err(unheld) => Some(unheld.clone()),
    }
}

/// The binding of a blocking thread that has the placement of a rail, until this is dropped.
pub(super) struct ComputePlacement {
    // In this order: the reverse of that in which they were made.
    _memory: Option<MemoryGuard>,
    _cpus: Option<ThreadGuard>,
}

thread_local! {
    /// The thread of the rail that this one computes beside.
    static COMPUTES_FOR: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

impl ComputePlacement {
    /// Gives the calling thread the CPUs and the memory policy of that placement, which is the
    /// thread `rail`'s. A closure that computes cannot be given back, so this logs errors.
    pub(super) fn of(placement: &Placement, rail: ThreadId) -> Self {
        COMPUTES_FOR.set(Some(rail));
        let logged = |error: BindError| tracing::warn!(%error, "a computation is not placed as its rail");
        let cpus = placement.cpus.as_ref().ok();
        let cpus = cpus.and_then(|cpus| thread::bind_current(cpus.got()).map_err(logged).ok());
        let policy = placement.memory.as_ref().and_then(|memory| memory.as_ref().ok());
        let memory = policy.and_then(|policy| memory::set_thread_policy(policy.got()).map_err(logged).ok());
        Self { _memory: memory, _cpus: cpus }
    }

    /// Whether the calling thread computes beside that of a rail, which waits for it before it
    /// ends.
    pub(super) fn is_of(rail: ThreadId) -> bool {
        COMPUTES_FOR.get() == Some(rail)
    }
}

impl Drop for ComputePlacement {
    fn drop(&mut self) {
        COMPUTES_FOR.set(None);
    }
}

/// The placement of a thread that may be moved.
#[derive(Debug)]
pub(super) struct CurrentPlacement {
    state: Mutex<PlacementState>,
    /// A copy of [`Placement::memory_node`] that is read without the lock; [`UNKNOWN`] if there is
    /// none.
    node: AtomicU64,
}

#[derive(Debug)]
struct PlacementState {
    placement: Arc<Placement>,
    /// The number of moves so far.
    moves: u64,
}

impl CurrentPlacement {
    pub(super) fn new(placement: Placement) -> Self {
        let node = AtomicU64::new(node_number(&placement));
        Self { state: Mutex::new(PlacementState { placement: Arc::new(placement), moves: 0 }), node }
    }

    pub(super) fn get(&self) -> Arc<Placement> {
        self.lock().placement.clone()
    }

    /// The node from which the thread gets its pages, if it is known.
    pub(super) fn memory_node(&self) -> Option<NodeId> {
        u32::try_from(self.node.load(Relaxed)).ok().map(NodeId)
    }

    /// Binds the thread to other CPUs, from any thread. Returns the number of the move, for the
    /// thread to complete it.
    pub(super) fn bind(&self, cpus: &CpuSet, wanted: &Wanted, parking: &Parking) -> Result<u64, BindError> {
        // Under the lock, so that a former move that is completed just now does not undo it.
        let mut state = self.lock();
        parking.suspend();
        let bound = thread::bind(state.placement.tid, cpus);
        let bound = bound.map(|guard| guard.keep().cpus.expect("CPUs were asked for"));
        let cpus = wanted.held(Property::Cpus, bound).inspect_err(|_| parking.resume())?;
        self.node.store(UNKNOWN, Relaxed);
        let (tid, cpu) = (state.placement.tid, state.placement.cpu);
        let memory = Unheld::new(Property::MemoryPolicy, Cause::Pending);
        let memory_node = Err("the thread has not been free since it was moved".to_owned());
        state.placement = Arc::new(Placement { tid, cpus, cpu, memory: Some(Err(memory)), memory_node });
        state.moves += 1;
        Ok(state.moves)
    }

    /// Completes that move on the thread itself, and calls `placed`, unless a later one has begun.
    pub(super) fn place_this_thread(&self, turn: u64, wanted: &Wanted, placed: impl FnOnce()) -> Result<(), BindError> {
        let mut state = self.lock();
        if state.moves == turn {
            let placement = Placement::of_this_thread(wanted);
            // Also after an error the thread is bound somewhere.
            placed();
            state.placement = Arc::new(placement?);
            self.node.store(node_number(&state.placement), Relaxed);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, PlacementState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn node_number(placement: &Placement) -> u64 {
    placement.memory_node.as_ref().map_or(UNKNOWN, |node| node.0.into())
}

const UNKNOWN: u64 = u64::MAX;

/// The affinity, policy and scheduling class for threads of the blocking pool: those of the rail's
/// thread before it was placed.
#[derive(Debug, Clone)]
pub(super) struct Unbound {
    cpus: Option<CpuSet>,
    memory: Option<MemoryPolicy>,
    class: Option<SchedulingClass>,
}

impl Unbound {
    pub(super) fn of_this_thread() -> Self {
        Self { cpus: thread::current_affinity().ok(), memory: memory::thread_policy().ok(), class: class().ok() }
    }

    /// Frees the calling thread from its rail's binding. A hook cannot fail, so this logs errors.
    pub(super) fn apply(&self) {
        // A rail that was made a real-time thread has threads of that class, which it could not preempt.
        let freed = self
            .class
            .filter(|wanted| class().is_ok_and(|now| now != *wanted))
            .map(|wanted| ThreadPlacement::new().class(wanted).apply().map(|guard| guard.keep()));
        if let Some(Err(error)) = freed {
            tracing::warn!(%error, "a blocking thread keeps its rail's scheduling class");
        }
        // A thread that was not bound has nothing to be freed from, and its calls would be refused too.
        let cpus = self.cpus.as_ref().filter(|cpus| thread::current_affinity().ok().as_ref() != Some(cpus));
        if let Some(Err(error)) = cpus.map(|cpus| thread::bind_current(cpus).map(|guard| guard.keep())) {
            tracing::warn!(%error, "a blocking thread stays on its rail's CPUs");
        }
        let memory = self.memory.as_ref().filter(|policy| memory::thread_policy().ok().as_ref() != Some(policy));
        if let Some(Err(error)) = memory.map(|policy| memory::set_thread_policy(policy).map(|guard| guard.keep())) {
            tracing::warn!(%error, "a blocking thread keeps its rail's memory policy");
        }
    }
}

/// The scheduling class of the calling thread.
fn class() -> Result<SchedulingClass, BindError> {
    Ok(thread::scheduling_of(thread::current_tid())?.class)
}
