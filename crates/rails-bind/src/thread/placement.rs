//! Several properties of a thread at once, all or nothing.

use super::{
    Scheduling, SchedulingClass, Tid, cpu_binding,
    guard::{Other, Own, PlacementGuard, PlacementOutcome, UndoLog, UndoStep},
    identity::Subject,
    name,
    scheduling::{self, check_nice},
};
use crate::{BindError, Outcome};
use rails_topo::CpuSet;
use std::marker::PhantomData;

/// The CPUs, the scheduling and the name of a thread; properties that are not requested stay.
///
/// A placement is all or nothing: when a step fails, the steps before it are undone, and the error
/// is the step's.
///
/// # Privileges
/// As measured on Linux 6.18 and 6.1:
/// * CPUs and name of a thread of this process: none.
/// * CPUs of another process's thread: `CAP_SYS_NICE`, or the user of that process *and* every
///   capability that it has. A process alone sets the names of its threads.
/// * Classes `Fifo` and `RoundRobin`: `CAP_SYS_NICE`, or `RLIMIT_RTPRIO` of at least the priority.
///   User 0 without the capability is refused, another user with it is not. A kernel with
///   `CONFIG_RT_GROUP_SCHED` also refuses it in a cgroup without real-time budget.
/// * A nice value below the present one: `CAP_SYS_NICE`, or `RLIMIT_NICE` of at least 20 less the
///   nice value.
/// * To raise the nice value, to go to `Batch` or `Idle`, to set reset-on-fork: none. **But without
///   privilege there is no way back** from a higher nice value, from `Idle`, and from
///   reset-on-fork; the guard then fails to put them back, and returns the error.
///
/// # Examples
/// ```
/// use rails_bind::thread::{SchedulingClass, ThreadPlacement};
///
/// let guard = ThreadPlacement::new().name("rail0").class(SchedulingClass::Batch).apply()?;
/// println!("{:?}", guard.outcome().scheduling);
/// guard.restore()?;
/// # Ok::<(), rails_bind::BindError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a placement does nothing until it is applied"]
pub struct ThreadPlacement {
    cpus: Option<CpuSet>,
    class: Option<SchedulingClass>,
    nice: Option<i32>,
    reset_on_fork: Option<bool>,
    name: Option<String>,
}

/// Lets thread `tid` of any process run on `cpus` only, and reads the binding back.
///
/// As [`ThreadPlacement::cpus`] and [`ThreadPlacement::apply_to`], with the privileges of
/// [`ThreadPlacement`].
pub fn bind(tid: Tid, cpus: &CpuSet) -> Result<PlacementGuard<Other>, BindError> {
    ThreadPlacement::new().cpus(cpus.clone()).apply_to(tid)
}

impl ThreadPlacement {
    /// A placement that requests no property.
    pub fn new() -> Self {
        Self::default()
    }

    /// The CPUs that the thread may run on. Default: unchanged.
    pub fn cpus(mut self, cpus: CpuSet) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// The thread's scheduling class. Default: unchanged. A real-time thread that never waits takes
    /// its CPU from everything else on it, for 95 % of the time by default
    /// (`/proc/sys/kernel/sched_rt_runtime_us`).
    pub fn class(mut self, class: SchedulingClass) -> Self {
        self.class = Some(class);
        self
    }

    /// The thread's nice value, -20 (first) to 19 (last). Default: unchanged. Real-time classes
    /// have none.
    pub fn nice(mut self, nice: i32) -> Self {
        self.nice = Some(nice);
        self
    }

    /// Whether the thread's new threads begin in the usual class. Default: unchanged; usually they
    /// do not, so that the threads of a real-time thread are real-time threads too.
    pub fn reset_on_fork(mut self, reset: bool) -> Self {
        self.reset_on_fork = Some(reset);
        self
    }

    /// The thread's name, of at most 15 bytes and without a zero byte; a longer one is an error and
    /// not cut. Default: unchanged.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Places the calling thread.
    ///
    /// # Errors
    /// Before any call: [`BindError::EmptySet`], [`BindError::OutOfRange`],
    /// [`BindError::NameUnusable`], and [`BindError::Contradiction`] for a nice value in a
    /// real-time class and for classes that can only be read. Then [`BindError::CpusUnusable`], and
    /// [`BindError::Denied`], which names the privilege. After these errors the thread is
    /// unchanged; if it is not, the error is [`BindError::HalfUndone`].
    pub fn apply(&self) -> Result<PlacementGuard<Own>, BindError> {
        self.apply_to_subject(Subject::Calling)
    }

    /// Places thread `tid`, of this process or of another.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); also [`BindError::NoSuchThread`], and [`BindError::ForeignName`]
    /// for the name of another process's thread.
    pub fn apply_to(&self, tid: Tid) -> Result<PlacementGuard<Other>, BindError> {
        self.check()?;
        self.apply_to_subject(Subject::of(tid)?)
    }

    fn apply_to_subject<Whose>(&self, thread: Subject) -> Result<PlacementGuard<Whose>, BindError> {
        self.check()?;
        let mut undo = UndoLog { thread, steps: Vec::new() };
        match self.carry_out(&mut undo) {
            Ok(outcome) => Ok(PlacementGuard { outcome, undo, whose: PhantomData }),
            Err(failed) => match undo.run() {
                // A thread that has ended has nothing to put back.
                Ok(()) | Err((_, BindError::NoSuchThread { .. })) => Err(failed),
                Err((undone, source)) => {
                    Err(BindError::HalfUndone { failed: Box::new(failed), undone, source: Box::new(source) })
                }
            },
        }
    }

    /// The scheduling comes last: the kernel refuses it most often, and undoing it may take a
    /// privilege.
    fn carry_out(&self, undo: &mut UndoLog) -> Result<PlacementOutcome, BindError> {
        let thread = undo.thread;
        let mut outcome = PlacementOutcome::default();
        if let Some(wanted) = &self.name {
            let former = name::read(thread)?;
            name::write(thread, wanted.as_bytes())?;
            undo.steps.push(UndoStep::Name(former));
            let got = String::from_utf8_lossy(&name::read(thread)?).into_owned();
            outcome.name = Some(Outcome::compare(wanted.clone(), got));
        }
        if let Some(wanted) = &self.cpus {
            let former = cpu_binding::kept(thread)?;
            cpu_binding::set(thread, wanted)?;
            undo.steps.push(UndoStep::Cpus(former));
            outcome.cpus = Some(Outcome::compare(wanted.clone(), cpu_binding::get(thread)?));
        }
        if self.class.is_some() || self.nice.is_some() || self.reset_on_fork.is_some() {
            let former = scheduling::read(thread)?;
            let wanted = self.scheduling(former.scheduling())?;
            scheduling::write(thread, wanted, &former)?;
            undo.steps.push(UndoStep::Scheduling(former));
            outcome.scheduling = Some(Outcome::compare(wanted, scheduling::read(thread)?.scheduling()));
        }
        Ok(outcome)
    }

    /// The requested properties, and the present ones for the rest.
    fn scheduling(&self, now: Scheduling) -> Result<Scheduling, BindError> {
        let class = self.class.unwrap_or(now.class);
        if self.nice.is_some() && class.is_real_time() {
            return Err(BindError::Contradiction { reason: NICE_IN_REAL_TIME });
        }
        // A class that can only be read cannot be set with another nice value or flag.
        class.check()?;
        let nice = self.nice.unwrap_or(now.nice);
        Ok(Scheduling { class, nice, reset_on_fork: self.reset_on_fork.unwrap_or(now.reset_on_fork) })
    }

    /// The checks that need no call.
    fn check(&self) -> Result<(), BindError> {
        self.cpus.as_ref().map_or(Ok(()), cpu_binding::not_empty)?;
        self.name.as_deref().map_or(Ok(()), name::check)?;
        self.nice.map_or(Ok(()), check_nice)?;
        self.class.map_or(Ok(()), SchedulingClass::check)?;
        match (self.class, self.nice) {
            (Some(class), Some(_)) if class.is_real_time() => {
                Err(BindError::Contradiction { reason: NICE_IN_REAL_TIME })
            }
            _ => Ok(()),
        }
    }
}

const NICE_IN_REAL_TIME: &str = "a nice value has no effect in a real-time class";

#[cfg(test)]
mod tests {
    use super::*;

    fn is_send<T: Send>() {}

    #[test]
    fn guard_by_number_is_send() {
        is_send::<PlacementGuard<Other>>();
    }

    #[test]
    fn impossible_placements_before_any_call() {
        let thread = super::super::current_tid();
        let cases = [
            ThreadPlacement::new().cpus(CpuSet::new()),
            ThreadPlacement::new().nice(20),
            ThreadPlacement::new().class(SchedulingClass::Fifo(0)),
            ThreadPlacement::new().class(SchedulingClass::Deadline),
            ThreadPlacement::new().class(SchedulingClass::Fifo(1)).nice(3),
            ThreadPlacement::new().name("a name that is too long"),
        ];
        for case in cases {
            assert!(case.check().is_err(), "{case:?}");
            let case = case.name("not set");
            if case.check().is_err() {
                case.apply().expect_err("it is refused");
                assert_ne!(name::read(Subject::of(thread).expect("it lives")).expect("readable"), b"not set");
            }
        }
    }
}
