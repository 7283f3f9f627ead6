//! `sched_setattr(2)`, `sched_getattr(2)` and `getpriority(2)` for one thread.
//!
//! # Safety
//! glibc has wrappers for the first two only since 2.41, so all are made directly. Each block
//! argues that the kernel touches only the structure it is given, and no more of it than its
//! `size`.
#![allow(unsafe_code)]

use std::io;

/// The structure of `sched_getattr`: its first version, which every kernel since 3.14 knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes(pub(crate) libc::sched_attr);

/// The bytes of the structure that are exchanged.
const SIZE: u32 = size_of::<libc::sched_attr>() as u32;

impl Attributes {
    /// All zero: the policy `SCHED_OTHER` with nice value 0.
    pub(crate) fn new() -> Self {
        Self(libc::sched_attr {
            size: SIZE,
            sched_policy: 0,
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        })
    }
}

/// Sets the scheduling of thread `tid` (0: the calling one).
pub(crate) fn set(tid: libc::pid_t, attributes: &Attributes) -> io::Result<()> {
    let mut attributes = attributes.0;
    attributes.size = SIZE;
    // SAFETY: the kernel reads `size` bytes, which is the size of the structure, and writes back to its
    // `size` field at most (`sched_copy_attr` in kernel/sched/syscalls.c); the structure is
    // exclusively ours and outlives the call.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setattr, libc::c_long::from(tid), &raw mut attributes, 0 as libc::c_uint)
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The scheduling of thread `tid` (0: the calling one).
pub(crate) fn get(tid: libc::pid_t) -> io::Result<Attributes> {
    let mut attributes = Attributes::new();
    // SAFETY: the kernel writes at most the number of bytes that the third argument says, the size of
    // the structure, which is exclusively borrowed and outlives the call; its fields are integers,
    // which may hold any bits.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, libc::c_long::from(tid), &raw mut attributes.0, SIZE, 0 as libc::c_uint)
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(attributes) }
}

/// The nice value of thread `tid` (0: the calling one), which a thread has in every class.
pub(crate) fn nice(tid: libc::pid_t) -> io::Result<i32> {
    // SAFETY: the call takes two numbers and touches no memory of ours.
    let result =
        unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS as libc::c_long, libc::c_long::from(tid)) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    // "The raw system call returns 40..1 for -20..19", so that -1 is an error and nothing else
    // (getpriority(2)).
    Ok(20 - i32::try_from(result).expect("the kernel returns 1 to 40"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_reads_its_own_attributes() {
        let attributes = get(0).expect("a thread may read how it is scheduled").0;
        assert_eq!(attributes.size, SIZE);
        assert!((-20..=19).contains(&nice(0).expect("every thread has one")));
        assert_eq!(get(libc::pid_t::MAX).expect_err("no such thread").raw_os_error(), Some(libc::ESRCH));
    }
}
