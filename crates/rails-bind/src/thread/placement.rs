//! Several things about a thread at once, all or nothing.

use super::{
    Scheduling, SchedulingClass, Standing, Tid, affinity,
    identity::Subject,
    name,
    scheduling::{self, check_nice},
};
use crate::{BindError, Outcome};
use rails_topo::CpuSet;
use std::marker::PhantomData;

/// Where a thread is to run, how it is to be scheduled, and what it is to be called; what is not asked for stays as it is.
///
/// It is applied all or nothing: when a step fails, those before it are undone, and the error is the step's.
///
/// # Privileges
/// As measured on Linux 6.18 and 6.1:
/// * CPUs and name of a thread of this process: none.
/// * CPUs of another process's thread: `CAP_SYS_NICE`, or to be its user *and* have every capability that it has. Its name can be
///   set by its own process only.
/// * Classes `Fifo` and `RoundRobin`: `CAP_SYS_NICE`, or `RLIMIT_RTPRIO` of at least the priority. User 0 without the capability is
///   refused, another user with it is not. A kernel with `CONFIG_RT_GROUP_SCHED` also refuses it in a cgroup without real-time
///   budget.
/// * A nice value below the present one: `CAP_SYS_NICE`, or `RLIMIT_NICE` of at least 20 less the nice value.
/// * To raise the nice value, to go to `Batch` or `Idle`, to set reset-on-fork: none. **But without privilege there is no way
///   back** from a higher nice value, from `Idle`, and from reset-on-fork; the guard then fails to put them back, and says so.
///
/// # Examples
/// ```
/// use rails_bind::thread::{SchedulingClass, ThreadPlacement};
///
/// let guard = ThreadPlacement::new().name("rail0").class(SchedulingClass::Batch).apply()?;
/// println!("{:?}", guard.placed().scheduling);
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

/// What became of a placement, as read back; `None` for what was not asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Placed {
    /// The CPUs.
    pub cpus: Option<Outcome<CpuSet>>,
    /// Class, nice value and reset-on-fork.
    pub scheduling: Option<Outcome<Scheduling>>,
    /// The name.
    pub name: Option<Outcome<String>>,
}

/// A placed thread, until this is dropped: then it is put back as it was, in the reverse order, also while a panic unwinds.
///
/// That of the calling thread (`PlacementGuard<Own>`) cannot leave it. That of a thread by number (`PlacementGuard<Other>`) can be
/// sent anywhere, and leaves a thread alone that has got the number meanwhile.
///
/// ```compile_fail,E0277
/// let guard = rails_bind::thread::ThreadPlacement::new().name("rail0").apply().expect("a name");
/// std::thread::spawn(move || drop(guard));
/// ```
#[derive(Debug)]
#[must_use = "dropping the guard puts the thread back as it was at once"]
pub struct PlacementGuard<Whose> {
    placed: Placed,
    undo: Undo,
    whose: PhantomData<Whose>,
}

/// A guard that acts on the calling thread.
#[derive(Debug)]
pub struct Own(PhantomData<*const ()>);

/// A guard that acts on a thread by its number.
#[derive(Debug)]
pub struct Other(());

/// Lets thread `tid` run on `cpus` only, be it of this process or of another, and reads back what came of it.
///
/// The same as [`ThreadPlacement::cpus`] and [`ThreadPlacement::apply_to`]; privileges and errors are described there.
pub fn bind(tid: Tid, cpus: &CpuSet) -> Result<PlacementGuard<Other>, BindError> {
    ThreadPlacement::new().cpus(cpus.clone()).apply_to(tid)
}

impl ThreadPlacement {
    /// A placement that asks for nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The CPUs that it may run on. Default: as they are.
    pub fn cpus(mut self, cpus: CpuSet) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Its scheduling class. Default: as it is. A real-time thread that never waits takes its CPU from everything else on it, for
    /// 95 % of the time by default (`/proc/sys/kernel/sched_rt_runtime_us`).
    pub fn class(mut self, class: SchedulingClass) -> Self {
        self.class = Some(class);
        self
    }

    /// Its nice value, -20 (first) to 19 (last). Default: as it is. Real-time classes have none.
    pub fn nice(mut self, nice: i32) -> Self {
        self.nice = Some(nice);
        self
    }

    /// Whether what it starts begins in the usual class. Default: as it is, that is usually not, so that the threads that a
    /// real-time thread starts are real-time threads too.
    pub fn reset_on_fork(mut self, reset: bool) -> Self {
        self.reset_on_fork = Some(reset);
        self
    }

    /// Its name, of at most 15 bytes and without a zero byte; longer ones are an error and not cut. Default: as it is.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Places the calling thread.
    ///
    /// # Errors
    /// Before any call: [`BindError::EmptySet`], [`BindError::OutOfRange`], [`BindError::NameUnusable`], and
    /// [`BindError::Contradiction`] for a nice value in a real-time class and for classes that can only be read.
    /// Then [`BindError::CpusUnusable`], and [`BindError::Denied`], which names the privilege. After these the thread is as it was;
    /// if it is not, the error is [`BindError::HalfUndone`].
    pub fn apply(&self) -> Result<PlacementGuard<Own>, BindError> {
        self.apply_to_subject(Subject::Calling)
    }

    /// Places thread `tid`, of this process or of another.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); besides [`BindError::NoSuchThread`], and [`BindError::ForeignName`] for the name of another
    /// process's thread.
    pub fn apply_to(&self, tid: Tid) -> Result<PlacementGuard<Other>, BindError> {
        self.check()?;
        self.apply_to_subject(Subject::of(tid)?)
    }

    fn apply_to_subject<Whose>(&self, thread: Subject) -> Result<PlacementGuard<Whose>, BindError> {
        self.check()?;
        let mut undo = Undo { thread, steps: Vec::new() };
        match self.carry_out(&mut undo) {
            Ok(placed) => Ok(PlacementGuard { placed, undo, whose: PhantomData }),
            Err(failed) => match undo.run() {
                Ok(()) => Err(failed),
                Err((undone, source)) => {
                    Err(BindError::HalfUndone { failed: Box::new(failed), undone, source: Box::new(source) })
                }
            },
        }
    }

    /// The scheduling comes last: it is the step that is most often refused, and may not be undone without privilege.
    fn carry_out(&self, undo: &mut Undo) -> Result<Placed, BindError> {
        let thread = undo.thread;
        let mut placed = Placed::default();
        if let Some(wanted) = &self.name {
            let former = name::read(thread)?;
            name::write(thread, wanted.as_bytes())?;
            undo.steps.push(Former::Name(former));
            let got = String::from_utf8_lossy(&name::read(thread)?).into_owned();
            placed.name = Some(Outcome::compare(wanted.clone(), got));
        }
        if let Some(wanted) = &self.cpus {
            let former = affinity::kept(thread)?;
            affinity::set(thread, wanted)?;
            undo.steps.push(Former::Cpus(former));
            placed.cpus = Some(Outcome::compare(wanted.clone(), affinity::get(thread)?));
        }
        if self.class.is_some() || self.nice.is_some() || self.reset_on_fork.is_some() {
            let former = scheduling::read(thread)?;
            let wanted = self.scheduling(former.scheduling())?;
            scheduling::write(thread, wanted, &former)?;
            undo.steps.push(Former::Scheduling(former));
            placed.scheduling = Some(Outcome::compare(wanted, scheduling::read(thread)?.scheduling()));
        }
        Ok(placed)
    }

    /// What is asked for, and what is, where nothing is asked for.
    fn scheduling(&self, now: Scheduling) -> Result<Scheduling, BindError> {
        let class = self.class.unwrap_or(now.class);
        if self.nice.is_some() && class.is_real_time() {
            return Err(BindError::Contradiction { reason: NICE_IN_REAL_TIME });
        }
        // A class that can only be read cannot be set again with something about it changed.
        class.check()?;
        let nice = self.nice.unwrap_or(now.nice);
        Ok(Scheduling { class, nice, reset_on_fork: self.reset_on_fork.unwrap_or(now.reset_on_fork) })
    }

    /// All that can be said without asking the kernel.
    fn check(&self) -> Result<(), BindError> {
        self.cpus.as_ref().map_or(Ok(()), affinity::not_empty)?;
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

impl<Whose> PlacementGuard<Whose> {
    /// What became of the placement, as read back when it was made.
    pub fn placed(&self) -> &Placed {
        &self.placed
    }

    /// The thread.
    pub fn tid(&self) -> Tid {
        self.undo.thread.tid()
    }

    /// Whether its binding to CPUs still holds, read anew; `None` if none was asked for.
    ///
    /// # Errors
    /// [`BindError::NoSuchThread`] if the thread has ended.
    pub fn check(&self) -> Result<Option<Standing>, BindError> {
        self.placed.cpus.as_ref().map(|outcome| affinity::check(self.undo.thread, outcome)).transpose()
    }

    /// Leaves the thread as it is now.
    pub fn keep(mut self) -> Placed {
        self.undo.steps.clear();
        std::mem::take(&mut self.placed)
    }

    /// Puts the thread back as it was, and reads it back. Dropping does the same and can only log a failure.
    ///
    /// # Errors
    /// [`BindError::NoSuchThread`] if the thread has ended; [`BindError::Denied`] if there is no way back without privilege;
    /// [`BindError::NotRestored`] and [`BindError::CpusUnusable`] if the former CPUs cannot be used any more. What can be put back
    /// is put back nevertheless; of several failures it is the first.
    pub fn restore(mut self) -> Result<(), BindError> {
        self.undo.run().map_err(|(_, error)| error)
    }
}

/// What is to be put back, the latest last.
#[derive(Debug)]
struct Undo {
    thread: Subject,
    steps: Vec<Former>,
}

/// A thing as it was.
#[derive(Debug)]
enum Former {
    Name(Vec<u8>),
    Cpus(CpuSet),
    Scheduling(scheduling::Former),
}

impl Undo {
    /// Puts everything back; says what failed first.
    fn run(&mut self) -> Result<(), (&'static str, BindError)> {
        let mut result = Ok(());
        for former in std::mem::take(&mut self.steps).into_iter().rev() {
            let put_back = self.thread.still_there().and_then(|()| former.put_back(self.thread));
            result = result.and(put_back.map_err(|error| (former.what(), error)));
        }
        result
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Err((what, error)) = self.run() {
            tracing::warn!(%error, what, thread = %self.thread, "a thread was not put back as it was");
        }
    }
}

impl Former {
    fn put_back(&self, thread: Subject) -> Result<(), BindError> {
        match self {
            Self::Name(former) => {
                name::write(thread, former)?;
                let now = name::read(thread)?;
                let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
                if now == *former {
                    return Ok(());
                }
                Err(BindError::NotRestored { what: "name", former: text(former), now: text(&now) })
            }
            Self::Cpus(former) => affinity::put_back(thread, former),
            Self::Scheduling(former) => scheduling::put_back(thread, former),
        }
    }

    fn what(&self) -> &'static str {
        match self {
            Self::Name(_) => "its name",
            Self::Cpus(_) => "its CPU affinity",
            Self::Scheduling(_) => "its scheduling",
        }
    }
}

const NICE_IN_REAL_TIME: &str = "a nice value has no effect in a real-time class";

#[cfg(test)]
mod tests {
    use super::*;

    fn is_send<T: Send>() {}

    #[test]
    fn the_guard_of_a_thread_by_number_may_leave_its_thread() {
        is_send::<PlacementGuard<Other>>();
    }

    #[test]
    fn what_cannot_be_is_refused_before_any_call() {
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
