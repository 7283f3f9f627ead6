//! The CPUs of a thread: read, set, and put back by a guard.

use super::{BindingStatus, Tid, identity::Subject};
use crate::{BindError, Outcome, kernel_files, sys};
use rails_topo::CpuSet;
use std::{io, marker::PhantomData};

/// A guard of a bound thread.
///
/// The guard cannot leave the bound thread. Dropping it gives the thread its former CPUs back, also
/// while a panic unwinds; drop the guards of one thread in the reverse order of their making, as
/// scopes do.
#[derive(Debug)]
#[must_use = "dropping the guard gives the thread its former CPUs back at once"]
pub struct ThreadGuard {
    outcome: Outcome<CpuSet>,
    /// The CPUs to give back; `None` once they were given back or the binding is kept.
    previous: Option<CpuSet>,
    /// Dropping acts on the calling thread, so it must be the thread that was bound.
    not_send: PhantomData<*const ()>,
}

/// Lets the calling thread run on `cpus` only, and reads the binding back.
///
/// The kernel keeps the online CPUs that the thread's cpuset allows and drops the rest without an
/// error; the guard's [`outcome`](ThreadGuard::outcome) then is [`Outcome::Partial`]. When this
/// returns, the thread runs on one of the CPUs. [`ThreadGuard::check`] reads the binding later.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`BindError::EmptySet`] before any call; [`BindError::CpusUnusable`] if no CPU of the set is
/// online and in the thread's cpuset; [`BindError::Denied`] under a seccomp filter. After an error
/// the thread has its former CPUs.
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
    not_empty(cpus)?;
    let previous = kept(Subject::Calling)?;
    set(Subject::Calling, cpus)?;
    // From here on a failure drops the guard, which gives the former CPUs back.
    let mut guard =
        ThreadGuard { outcome: Outcome::Applied(cpus.clone()), previous: Some(previous), not_send: PhantomData };
    guard.outcome = Outcome::compare(cpus.clone(), get(Subject::Calling)?);
    Ok(guard)
}

/// The CPUs that a thread of any process may run on.
///
/// Offline CPUs are left out; the set is empty for a sleeping thread whose CPUs are all offline.
///
/// # Privileges
/// None.
///
/// # Errors
/// [`BindError::NoSuchThread`] if the thread has ended; [`BindError::Denied`] under a seccomp
/// filter.
///
/// # References
/// [sched_getaffinity(2)](https://man7.org/linux/man-pages/man2/sched_getaffinity.2.html)
#[doc(alias = "sched_getaffinity")]
pub fn affinity_of(tid: Tid) -> Result<CpuSet, BindError> {
    sys::sched_affinity::get(tid.as_raw(), sys::FIRST_WORDS).map_err(|source| match source.raw_os_error() {
        Some(libc::ESRCH) => BindError::NoSuchThread { tid },
        _ => BindError::of_call("sched_getaffinity", format_args!("thread {tid}"), source),
    })
}

/// The CPUs that a thread may run on, offline ones too: for giving them back later.
pub(crate) fn affinity_kept_for(tid: Tid) -> Result<CpuSet, BindError> {
    let online = affinity_of(tid)?;
    let some_offline = kernel_files::offline_cpus().is_none_or(|offline| !offline.is_empty());
    let kept = some_offline.then(|| kernel_files::cpus_kept_for(&tid.to_string())).flatten();
    Ok(kept.unwrap_or(online))
}

/// The CPUs that the calling thread may run on.
///
/// # Errors
/// As [`affinity_of`].
pub fn current_affinity() -> Result<CpuSet, BindError> {
    get(Subject::Calling)
}

impl ThreadGuard {
    /// The outcome of the binding, as read back.
    pub fn outcome(&self) -> &Outcome<CpuSet> {
        &self.outcome
    }

    /// Whether the binding still holds, read anew.
    ///
    /// # Errors
    /// [`BindError::Denied`] under a seccomp filter.
    pub fn check(&self) -> Result<BindingStatus, BindError> {
        check(Subject::Calling, &self.outcome)
    }

    /// Leaves the thread bound. Threads that it spawns inherit the binding, with or without the
    /// guard.
    pub fn keep(mut self) -> Outcome<CpuSet> {
        self.previous = None;
        self.outcome.clone()
    }

    /// Gives the thread its former CPUs back, and reads them back. Dropping does the same and can
    /// only log a failure.
    ///
    /// # Errors
    /// [`BindError::NotRestored`] if some of the former CPUs, [`BindError::CpusUnusable`] if all of
    /// them are unusable; also for CPUs that are offline at the moment, which Linux 6.1 then
    /// forgets.
    pub fn restore(mut self) -> Result<(), BindError> {
        let previous = self.previous.take().expect("only `keep` and `restore` take it, and both consume the guard");
        put_back(Subject::Calling, &previous)
    }
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        if let Some(previous) = self.previous.take()
            && let Err(error) = put_back(Subject::Calling, &previous)
        {
            tracing::warn!(%error, cpus = %previous, "a thread did not get its former CPUs back");
        }
    }
}

pub(super) fn not_empty(cpus: &CpuSet) -> Result<(), BindError> {
    if cpus.is_empty() { Err(BindError::EmptySet { what: "a thread" }) } else { Ok(()) }
}

pub(super) fn get(thread: Subject) -> Result<CpuSet, BindError> {
    sys::sched_affinity::get(thread.raw(), sys::FIRST_WORDS)
        .map_err(|source| thread.error("sched_getaffinity", "its CPUs", UNFILTERED, source))
}

pub(super) fn set(thread: Subject, cpus: &CpuSet) -> Result<(), BindError> {
    sys::sched_affinity::set(thread.raw(), cpus)
        .map_err(|source| refused(thread, cpus, source, get(thread).ok(), kernel_files::online_cpus()))
}

/// The CPUs to give back later: also offline ones, which `sched_getaffinity` leaves out and the
/// thread has again when they are back. The slower way is taken only if CPUs are offline.
pub(super) fn kept(thread: Subject) -> Result<CpuSet, BindError> {
    let online = get(thread)?;
    let some_offline = kernel_files::offline_cpus().is_none_or(|offline| !offline.is_empty());
    let kept = some_offline.then(|| kernel_files::cpus_kept_for(&thread.folder())).flatten();
    Ok(kept.unwrap_or(online))
}

pub(super) fn check(thread: Subject, outcome: &Outcome<CpuSet>) -> Result<BindingStatus, BindError> {
    thread.still_there()?;
    Ok(BindingStatus::compare(outcome, get(thread)?, kernel_files::online_cpus))
}

pub(super) fn put_back(thread: Subject, previous: &CpuSet) -> Result<(), BindError> {
    set(thread, previous)?;
    let now = get(thread)?;
    if now == *previous {
        return Ok(());
    }
    let missing = previous.difference(&now);
    let online = kernel_files::online_cpus().is_none_or(|online| !missing.intersection(&online).is_empty());
    if !online && now.is_subset(previous) && is_kept(thread, &missing) {
        return Ok(());
    }
    Err(BindError::NotRestored { what: "CPU affinity", former: previous.to_string(), now: now.to_string() })
}

/// Whether the thread will have the CPUs `missing`, which are offline, when they come back. Linux
/// 6.1 drops offline CPUs from a request (seen), later kernels keep them for threads in the root
/// cpuset (`cpuset_cpus_allowed` in kernel/cgroup/cpuset.c). Numbers without a CPU are no loss.
fn is_kept(thread: Subject, missing: &CpuSet) -> bool {
    let there = kernel_files::present_cpus().map_or_else(|| missing.clone(), |present| missing.intersection(&present));
    there.is_empty() || kernel_files::cpus_kept_for(&thread.folder()).is_some_and(|kept| there.is_subset(&kept))
}

/// `EINVAL`: no CPU of the mask is both active and in the thread's cpuset (`__sched_setaffinity` in
/// kernel/sched/syscalls.c), so the online ones are not allowed. For CPUs that the thread may use
/// `now`, a filter gave the answer, not the kernel.
fn refused(
    thread: Subject,
    cpus: &CpuSet,
    source: io::Error,
    now: Option<CpuSet>,
    online: Option<CpuSet>,
) -> BindError {
    if source.raw_os_error() != Some(libc::EINVAL) || now.is_some_and(|now| now.intersects(cpus)) {
        let needs = if thread == Subject::Calling { UNFILTERED } else { FOR_OTHERS };
        return thread.error("sched_setaffinity", format_args!("CPUs {cpus}"), needs, source);
    }
    BindError::CpusUnusable {
        requested: cpus.clone(),
        offline: online.as_ref().map(|online| cpus.difference(online)),
        not_allowed: online.as_ref().map(|online| cpus.intersection(online)),
    }
}

const UNFILTERED: &str = "no privilege, but a seccomp filter that lets it pass";

/// `check_same_owner` and `cap_safe_nice` in the kernel; measured on Linux 6.1 and 6.18: user 0
/// without capabilities is refused for a process of user 0 that has some.
pub(super) const FOR_OTHERS: &str = "CAP_SYS_NICE, or to be the thread's user and have every capability that it has";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offline_and_forbidden_cpus_of_a_refusal() {
        let set = |text: &str| text.parse::<CpuSet>().expect("a list");
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        match refused(Subject::Calling, &set("2-3,9"), invalid(), Some(set("0-1")), Some(set("0-3"))) {
            BindError::CpusUnusable { requested, offline, not_allowed } => {
                assert_eq!((requested, offline, not_allowed), (set("2-3,9"), Some(set("9")), Some(set("2-3"))));
            }
            other => panic!("{other}"),
        }
        match refused(Subject::Calling, &set("2"), invalid(), None, None) {
            BindError::CpusUnusable { offline: None, not_allowed: None, .. } => {}
            other => panic!("{other}"),
        }
        let of_a_filter = refused(Subject::Calling, &set("0"), invalid(), Some(set("0-1")), Some(set("0-3")));
        assert!(matches!(of_a_filter, BindError::Call { call: "sched_setaffinity", .. }), "{of_a_filter}");
    }

    #[test]
    fn kept_cpus_include_the_present_ones() {
        let now = get(Subject::Calling).expect("readable");
        let kept = kernel_files::cpus_kept_for("thread-self").expect("the kernel says so");
        assert!(now.is_subset(&kept), "{now} {kept}");
    }
}
