//! Work that a thread offers to others, and does itself if they have no time.

use super::{
    helpers::Helpers,
    inner::Step,
    sync::{Mutex, MutexGuard},
    task::Task,
};
use std::{
    fmt, mem,
    sync::{Arc, PoisonError},
};

/// A piece of work on a value of its owner's: made once, and offered as often as wanted.
///
/// The owner offers a value, and takes it back: done by a helper, or untouched, and then the owner
/// does the work. The owner never waits for a helper. A helper that holds the value may lose its
/// CPU for long, so an owner that cannot wait keeps the inputs, and does the work again.
///
/// A job follows helpers that [move](Helpers::move_to): the next offer goes to their new CPUs. A
/// value that was offered before waits for the former ones until it is taken back.
///
/// ```
/// use rails_task::{Helpers, Taken, TaskQueues};
/// use rails_topo::Topology;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let topology = Topology::detect()?;
/// let helpers = Helpers::new(&TaskQueues::new(&topology, 16), topology.online_cpus())?;
/// let mut job = helpers.job(|numbers: &mut Vec<u32>| numbers.sort());
/// job.offer(vec![3, 1, 2]).expect("the queue has room");
/// // No thread runs the tasks of these queues.
/// assert!(matches!(job.take(), Taken::Untouched(numbers) if numbers == [3, 1, 2]));
/// # Ok(())
/// # }
/// ```
pub struct Job<T> {
    slot: Arc<Mutex<Slot<T>>>,
    task: Task,
    helpers: Helpers,
    /// The number of the helpers' moves before the task was made.
    moves: u64,
    /// Makes the task on the CPUs of the helpers.
    make_task: Box<dyn Fn(&Helpers) -> Task + Send + Sync>,
}

/// The state of a job's value, when its owner wants it back.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<T> {
    /// A helper has done the work.
    Done(T),
    /// No helper has begun with it, and none does.
    Untouched(T),
    /// A helper is at the work.
    Running,
    /// There is no value: none was offered, or the work has panicked with the value.
    Nothing,
}

enum Slot<T> {
    Empty,
    Offered(T),
    Running,
    Done(T),
}

impl Helpers {
    /// Work that the helpers may do.
    pub fn job<T: Send + 'static>(&self, work: impl Fn(&mut T) + Send + Sync + 'static) -> Job<T> {
        self.job_with_callback(work, || {})
    }

    /// Work that the helpers may do. A helper calls `tell` when it has come to the end, and the
    /// value can be taken.
    pub fn job_with_callback<T: Send + 'static>(
        &self,
        work: impl Fn(&mut T) + Send + Sync + 'static,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> Job<T> {
        Job::new(self, work, tell)
    }
}

impl<T: Send + 'static> Job<T> {
    /// Work that helpers may do, who call `tell` at the end.
    fn new(
        helpers: &Helpers,
        work: impl Fn(&mut T) + Send + Sync + 'static,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let slot = Arc::new(Mutex::new(Slot::Empty));
        let own = Arc::clone(&slot);
        let run = Arc::new(move || {
            if let Some(value) = begin(&own) {
                let _told = OnEnd(&tell);
                let mut running = Running { slot: &own, value: Some(value) };
                running.value.as_mut().into_iter().for_each(&work);
                *lock(&own) = running.value.take().map_or(Slot::Empty, Slot::Done);
            }
            Step::Done
        });
        let make_task = Box::new(move |helpers: &Helpers| {
            let run = Arc::clone(&run);
            helpers.task(move || run())
        });
        // Before the task, so that a move meanwhile is followed.
        let moves = helpers.moves();
        Self { slot, task: make_task(helpers), helpers: helpers.clone(), moves, make_task }
    }
}

impl<T> Job<T> {
    /// Offers a value to the helpers, and wakes one of them that sleeps.
    ///
    /// # Errors
    /// The value, if the last one was not taken back, the queues are full or closed, or the work
    /// has panicked on these helpers' CPUs before.
    pub fn offer(&mut self, value: T) -> Result<(), T> {
        let mut slot = lock(&self.slot);
        if !matches!(*slot, Slot::Empty) {
            return Err(value);
        }
        *slot = Slot::Offered(value);
        drop(slot);
        self.follow();
        if self.task.submit().is_ok() {
            return Ok(());
        }
        // A helper that came for the last value may have found this one.
        let mut slot = lock(&self.slot);
        match mem::replace(&mut *slot, Slot::Empty) {
            Slot::Offered(value) => Err(value),
            other => {
                *slot = other;
                Ok(())
            }
        }
    }

    /// Makes the task anew if the helpers have moved. A helper of the former CPUs that has begun
    /// may still find the value, and does the work.
    fn follow(&mut self) {
        let moves = self.helpers.moves();
        if self.moves != moves {
            self.task.cancel();
            (self.moves, self.task) = (moves, (self.make_task)(&self.helpers));
        }
    }

    /// Takes the value back.
    pub fn take(&self) -> Taken<T> {
        let mut slot = lock(&self.slot);
        match mem::replace(&mut *slot, Slot::Empty) {
            Slot::Empty => Taken::Nothing,
            Slot::Offered(value) => Taken::Untouched(value),
            Slot::Done(value) => Taken::Done(value),
            Slot::Running => {
                *slot = Slot::Running;
                Taken::Running
            }
        }
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        // The queue may hold the task for long.
        self.task.cancel();
        drop(self.take());
    }
}

impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("task", &self.task).finish_non_exhaustive()
    }
}

fn lock<T>(slot: &Mutex<Slot<T>>) -> MutexGuard<'_, Slot<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the value for a helper, unless its owner has taken it back.
fn begin<T>(slot: &Mutex<Slot<T>>) -> Option<T> {
    let mut slot = lock(slot);
    match mem::replace(&mut *slot, Slot::Running) {
        Slot::Offered(value) => Some(value),
        other => {
            *slot = other;
            None
        }
    }
}

/// Calls the function at the end of a run, also of one that panics.
struct OnEnd<'a, F: Fn()>(&'a F);

impl<F: Fn()> Drop for OnEnd<'_, F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The value of a job that a helper is at.
struct Running<'a, T> {
    slot: &'a Mutex<Slot<T>>,
    value: Option<T>,
}

impl<T> Drop for Running<'_, T> {
    fn drop(&mut self) {
        if self.value.is_some() {
            // The work has panicked with the value.
            *lock(self.slot) = Slot::Empty;
        }
    }
}
