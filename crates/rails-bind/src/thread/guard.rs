//! The guard of a placed thread.

use super::{BindingStatus, Scheduling, Tid, cpu_binding, identity::Subject, name, scheduling};
use crate::{BindError, Outcome};
use rails_topo::CpuSet;
use std::marker::PhantomData;

/// The outcome of a placement, as read back; `None` for a part that was not requested.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PlacementOutcome {
    /// The CPUs.
    pub cpus: Option<Outcome<CpuSet>>,
    /// Class, nice value and reset-on-fork.
    pub scheduling: Option<Outcome<Scheduling>>,
    /// The name.
    pub name: Option<Outcome<String>>,
}

/// A guard of a placed thread. Dropping it puts the thread's former properties back, in the reverse
/// order, also while a panic unwinds.
///
/// The guard of the calling thread (`PlacementGuard<Own>`) cannot leave it. The guard of a thread
/// by number (`PlacementGuard<Other>`) can be sent anywhere, and leaves a later thread of the same
/// number alone.
///
/// ```compile_fail,E0277
/// let guard = rails_bind::thread::ThreadPlacement::new().name("rail0").apply().expect("a name");
/// std::thread::spawn(move || drop(guard));
/// ```
#[derive(Debug)]
#[must_use = "dropping the guard puts the thread back as it was at once"]
pub struct PlacementGuard<Whose> {
    pub(super) outcome: PlacementOutcome,
    pub(super) undo: UndoLog,
    pub(super) whose: PhantomData<Whose>,
}

/// A guard that acts on the calling thread.
#[derive(Debug)]
pub struct Own(PhantomData<*const ()>);

/// A guard that acts on a thread by its number.
#[derive(Debug)]
pub struct Other(());

impl<Whose> PlacementGuard<Whose> {
    /// The outcome of the placement, as read back when it was made.
    pub fn outcome(&self) -> &PlacementOutcome {
        &self.outcome
    }

    /// The thread.
    pub fn tid(&self) -> Tid {
        self.undo.thread.tid()
    }

    /// Whether the thread's binding to CPUs still holds, read anew; `None` if none was asked for.
    ///
    /// # Errors
    /// [`BindError::NoSuchThread`] if the thread has ended.
    pub fn check(&self) -> Result<Option<BindingStatus>, BindError> {
        self.outcome.cpus.as_ref().map(|outcome| cpu_binding::check(self.undo.thread, outcome)).transpose()
    }

    /// Leaves the thread as it is.
    pub fn keep(mut self) -> PlacementOutcome {
        self.undo.steps.clear();
        std::mem::take(&mut self.outcome)
    }

    /// Puts the thread's former properties back, and reads them back. Dropping does the same and
    /// can only log a failure.
    ///
    /// # Errors
    /// [`BindError::NoSuchThread`] if the thread has ended; [`BindError::Denied`] if the way back
    /// takes a privilege; [`BindError::NotRestored`] and [`BindError::CpusUnusable`] if the former
    /// CPUs are unusable. Every other part is put back nevertheless; of several failures, the first
    /// is the error.
    pub fn restore(mut self) -> Result<(), BindError> {
        self.undo.run().map_err(|(_, error)| error)
    }
}

/// The properties to put back, the latest last.
#[derive(Debug)]
pub(super) struct UndoLog {
    pub(super) thread: Subject,
    pub(super) steps: Vec<UndoStep>,
}

/// A property with its former value.
#[derive(Debug)]
pub(super) enum UndoStep {
    Name(Vec<u8>),
    Cpus(CpuSet),
    Scheduling(scheduling::RawScheduling),
}

impl UndoLog {
    /// Puts everything back; returns the first failure.
    pub(super) fn run(&mut self) -> Result<(), (&'static str, BindError)> {
        let mut result = Ok(());
        for former in std::mem::take(&mut self.steps).into_iter().rev() {
            let put_back = self.thread.still_there().and_then(|()| former.put_back(self.thread));
            result = result.and(put_back.map_err(|error| (former.what(), error)));
        }
        result
    }
}

impl Drop for UndoLog {
    fn drop(&mut self) {
        if let Err((what, error)) = self.run() {
            tracing::warn!(%error, what, thread = %self.thread, "a thread was not put back");
        }
    }
}

impl UndoStep {
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
            Self::Cpus(former) => cpu_binding::put_back(thread, former),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn reused_number_of_an_ended_thread() {
        let tid = super::super::current_tid();
        let before = name::read(Subject::Calling).expect("readable");
        let gone = Subject::Numbered(tid, Duration::from_nanos(1));
        let mut undo = UndoLog { thread: gone, steps: vec![UndoStep::Name(b"not put back".to_vec())] };
        let (what, error) = undo.run().expect_err("it is another thread");
        assert!(what == "its name" && matches!(error, BindError::NoSuchThread { .. }), "{what}: {error}");
        assert_eq!(name::read(Subject::Calling).expect("readable"), before);
    }
}
