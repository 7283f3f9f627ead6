//! The cores that may do work for a thread.

use super::{
    error::NewTaskError,
    inner::Step,
    load::Load,
    options::TaskPriority,
    sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Relaxed},
    task::Task,
    task_queues::TaskQueues,
};
use rails_topo::CpuSet;
use std::{
    cell::RefCell,
    sync::{Arc, PoisonError},
    time::Instant,
};

/// The cores that may do work for a thread: CPUs, and the queues by which their threads get it.
///
/// A thread has helpers of its own if [`set_current`](Self::set_current) was called on it;
/// libraries that run there ask for them by [`current`](Self::current).
#[derive(Debug, Clone)]
pub struct Helpers {
    queues: TaskQueues,
    place: Arc<Place>,
    /// The thread's load, if it tells.
    load: Option<Arc<Load>>,
}

/// The place of helpers, which all clones share.
#[derive(Debug)]
struct Place {
    /// The last CPUs.
    cpus: Mutex<CpuSet>,
    is_nowhere: AtomicBool,
    moves: AtomicU64,
}

thread_local! {
    static CURRENT: RefCell<Option<Helpers>> = const { RefCell::new(None) };
}

impl Helpers {
    /// Helpers on these CPUs, as far as they have threads that run tasks:
    /// [runners](TaskQueues::attach) or [idle threads](crate::TaskThread::idle).
    ///
    /// # Errors
    /// [`NewTaskError`].
    pub fn new(queues: &TaskQueues, cpus: &CpuSet) -> Result<Self, NewTaskError> {
        queues.home_of(cpus)?;
        let (is_nowhere, moves) = Default::default();
        let place = Place { cpus: Mutex::new(cpus.clone()), is_nowhere, moves };
        Ok(Self { queues: queues.clone(), place: Arc::new(place), load: None })
    }

    /// Moves the helpers to these CPUs, for all clones; on none, they are not wanted. Each job
    /// follows with its next offer.
    ///
    /// # Errors
    /// [`NewTaskError`] if the CPUs are not of this machine.
    pub fn move_to(&self, cpus: &CpuSet) -> Result<(), NewTaskError> {
        self.place.is_nowhere.store(cpus.is_empty(), Relaxed);
        if cpus.is_empty() {
            return Ok(());
        }
        self.queues.home_of(cpus)?;
        let mut current = self.place.lock();
        if *current != *cpus {
            current.clone_from(cpus);
            self.place.moves.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// The number of [moves](Self::move_to) to other CPUs.
    pub fn moves(&self) -> u64 {
        self.place.moves.load(Relaxed)
    }

    /// Helpers that are wanted only while their thread is busy, which tells when it
    /// [sleeps](Self::set_asleep). The thread begins awake.
    pub fn while_busy(self, now: Instant) -> Self {
        Self { load: Some(Arc::new(Load::new(now))), ..self }
    }

    /// The thread falls asleep for want of work, or wakes.
    pub fn set_asleep(&self, is_asleep: bool, now: Instant) {
        if let Some(load) = &self.load {
            load.change(is_asleep, now);
        }
    }

    /// Whether work is to be offered to the helpers, if there are any: always, or
    /// [while](Self::while_busy) the thread was awake for at least seven eighths of the last
    /// millisecond or has not slept for as long.
    pub fn are_wanted(&self, now: Instant) -> bool {
        self.load.as_ref().is_none_or(|load| load.is_busy(now)) && !self.place.is_nowhere.load(Relaxed)
    }

    /// The helpers of the calling thread.
    pub fn current() -> Option<Self> {
        Self::with_current(|helpers| helpers.cloned())
    }

    /// Lends the helpers of the calling thread, which `act` may not set.
    pub fn with_current<R>(act: impl FnOnce(Option<&Self>) -> R) -> R {
        CURRENT.with_borrow(|helpers| act(helpers.as_ref()))
    }

    /// Gives the calling thread helpers, or takes them from it.
    pub fn set_current(helpers: Option<Self>) {
        CURRENT.set(helpers);
    }

    /// The helpers' CPUs.
    pub fn cpus(&self) -> CpuSet {
        if self.place.is_nowhere.load(Relaxed) { CpuSet::new() } else { self.place.lock().clone() }
    }

    /// A task on the helpers' CPUs.
    pub(crate) fn task(&self, work: impl Fn() -> Step + Send + Sync + 'static) -> Task {
        self.queues.task(&self.place.lock(), TaskPriority::Normal, work).expect("the helpers' CPUs were checked")
    }
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, CpuSet> {
        self.cpus.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
