//! Threads on CPUs: bound, read back, and put back by a guard.

use crate::{BindError, Outcome, kernel_files, sys};
use rails_topo::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};
use std::{fmt, io, marker::PhantomData};

/// The kernel's number of a thread (`gettid(2)`); unlike a `std::thread::ThreadId`, other programs know it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
pub struct Tid(i32);

/// A bound thread, until this is dropped.
///
/// It belongs to the thread that was bound and cannot leave it. Dropping it gives the thread back the CPUs it had
/// before, also while a panic unwinds; guards of one thread are to be dropped in the reverse order of their making, as
/// scopes do.
#[derive(Debug)]
#[must_use = "dropping the guard gives the thread its former CPUs back at once"]
pub struct ThreadGuard {
    outcome: Outcome<CpuSet>,
    /// The CPUs to give back; `None` once that is no longer to be done.
    previous: Option<CpuSet>,
    /// Dropping acts on the calling thread, so it must be the thread that was bound.
    not_send: PhantomData<*const ()>,
}

/// Lets the calling thread run on `cpus` only, and reads back what came of it.
///
/// The kernel keeps what the thread's cpuset and the online CPUs allow and drops the rest without a word; the guard's
/// [`outcome`](ThreadGuard::outcome) then is [`Outcome::Partial`]. When this returns, the thread runs on one of the
/// CPUs.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`BindError::EmptySet`] before any call; [`BindError::CpusUnusable`] if no CPU of the set is online and in the
/// thread's cpuset; [`BindError::Denied`] under a seccomp filter. After an error the thread has the CPUs it had.
///
/// # Examples
/// ```
/// use rails_bind::thread;
/// use rails_topo::CpuSet;
///
/// let here = CpuSet::single(thread::current_affinity()?.first().expect("a thread may run somewhere"));
/// let guard = thread::bind_current(&here)?;
/// assert_eq!(guard.outcome().got(), &here);
/// assert_eq!(Some(thread::current_cpu()?), here.first());
/// # Ok::<(), rails_bind::BindError>(())
/// ```
///
/// # References
/// [sched_setaffinity(2)](https://man7.org/linux/man-pages/man2/sched_setaffinity.2.html)
#[doc(alias = "sched_setaffinity")]
pub fn bind_current(cpus: &CpuSet) -> Result<ThreadGuard, BindError> {
    if cpus.is_empty() {
        return Err(BindError::EmptySet { what: "a thread" });
    }
    let previous = current_affinity()?;
    set_current(cpus)?;
    // From here on a failure drops the guard, which gives the former CPUs back.
    let mut guard =
        ThreadGuard { outcome: Outcome::Applied(cpus.clone()), previous: Some(previous), not_send: PhantomData };
    guard.outcome = Outcome::compare(cpus.clone(), current_affinity()?);
    Ok(guard)
}

/// The CPUs that a thread may run on; it need not be one of this process.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`BindError::NoSuchThread`] if it has ended; [`BindError::Denied`] under a seccomp filter.
///
/// # References
/// [sched_getaffinity(2)](https://man7.org/linux/man-pages/man2/sched_getaffinity.2.html)
#[doc(alias = "sched_getaffinity")]
pub fn affinity_of(tid: Tid) -> Result<CpuSet, BindError> {
    sys::affinity::get(tid.0, sys::FIRST_WORDS).map_err(|source| match source.raw_os_error() {
        Some(libc::ESRCH) => BindError::NoSuchThread { tid },
        _ => BindError::of_call("sched_getaffinity", format_args!("thread {tid}"), source),
    })
}

/// The CPUs that the calling thread may run on.
///
/// # Errors
/// As [`affinity_of`].
pub fn current_affinity() -> Result<CpuSet, BindError> {
    affinity_of(current_tid())
}

/// The CPU that the calling thread is running on; unless it is bound to one, it may be elsewhere already.
///
/// # Errors
/// [`BindError::Unsupported`] if the kernel cannot tell.
///
/// # References
/// [getcpu(2)](https://man7.org/linux/man-pages/man2/getcpu.2.html)
#[doc(alias = "sched_getcpu")]
pub fn current_cpu() -> Result<CpuId, BindError> {
    let cpu =
        nix::sched::sched_getcpu().map_err(|errno| BindError::of_call("getcpu", "the calling thread", errno.into()))?;
    Ok(CpuId(u32::try_from(cpu).expect("the kernel numbers CPUs with an unsigned int")))
}

/// The number of the calling thread.
#[doc(alias = "gettid")]
pub fn current_tid() -> Tid {
    Tid(nix::unistd::gettid().as_raw())
}

impl ThreadGuard {
    /// What the thread was bound to, as read back.
    pub fn outcome(&self) -> &Outcome<CpuSet> {
        &self.outcome
    }

    /// Leaves the thread bound; threads that it spawns from here on inherit the binding, as they do anyway.
    pub fn keep(mut self) -> Outcome<CpuSet> {
        self.previous = None;
        self.outcome.clone()
    }

    /// Gives the thread its former CPUs back, and reads them back. Dropping does the same and can only log a failure.
    ///
    /// # Errors
    /// [`BindError::NotRestored`] if some of the former CPUs, [`BindError::CpusUnusable`] if all of them cannot be used
    /// any more.
    pub fn restore(mut self) -> Result<(), BindError> {
        let previous = self.previous.take().expect("only `keep` and `restore` take it, and both consume the guard");
        put_back(&previous)
    }
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        if let Some(previous) = self.previous.take()
            && let Err(error) = put_back(&previous)
        {
            tracing::warn!(%error, cpus = %previous, "a thread did not get its former CPUs back");
        }
    }
}

impl Tid {
    /// The thread of that number; `None` for zero and below, which the kernel gives to no thread.
    pub fn from_raw(number: i32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Its number.
    pub fn as_raw(self) -> i32 {
        self.0
    }
}

impl TryFrom<i32> for Tid {
    type Error = &'static str;

    fn try_from(number: i32) -> Result<Self, &'static str> {
        Self::from_raw(number).ok_or("a thread's number is above zero")
    }
}

impl From<Tid> for i32 {
    fn from(tid: Tid) -> Self {
        tid.0
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn set_current(cpus: &CpuSet) -> Result<(), BindError> {
    sys::affinity::set(0, cpus).map_err(|source| refused(cpus, source, kernel_files::online_cpus()))
}

fn put_back(previous: &CpuSet) -> Result<(), BindError> {
    set_current(previous)?;
    match current_affinity()? {
        now if now == *previous => Ok(()),
        now => Err(BindError::NotRestored { what: "CPU affinity", former: previous.to_string(), now: now.to_string() }),
    }
}

/// `EINVAL` says that no CPU of the mask is both active and in the thread's cpuset (`__sched_setaffinity` in
/// kernel/sched/syscalls.c), so whatever is online was not allowed.
fn refused(cpus: &CpuSet, source: io::Error, online: Option<CpuSet>) -> BindError {
    if source.raw_os_error() != Some(libc::EINVAL) {
        return BindError::of_call("sched_setaffinity", format_args!("the calling thread (CPUs {cpus})"), source);
    }
    BindError::CpusUnusable {
        requested: cpus.clone(),
        offline: online.as_ref().map(|online| cpus.difference(online)),
        not_allowed: online.as_ref().map(|online| cpus.intersection(online)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_which_cpus_are_absent_and_which_forbidden() {
        let set = |text: &str| text.parse::<CpuSet>().expect("a list");
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        match refused(&set("2-3,9"), invalid(), Some(set("0-3"))) {
            BindError::CpusUnusable { requested, offline, not_allowed } => {
                assert_eq!((requested, offline, not_allowed), (set("2-3,9"), Some(set("9")), Some(set("2-3"))));
            }
            other => panic!("{other}"),
        }
        match refused(&set("2"), invalid(), None) {
            BindError::CpusUnusable { offline: None, not_allowed: None, .. } => {}
            other => panic!("{other}"),
        }
    }

    #[test]
    fn no_thread_has_the_number_zero() {
        assert_eq!(Tid::from_raw(0), None);
        assert_eq!(Tid::from_raw(-1), None);
        assert_eq!(Tid::from_raw(1).map(Tid::as_raw), Some(1));
        assert!(serde_json::from_str::<Tid>("0").is_err());
    }
}
