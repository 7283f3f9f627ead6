//! `sched_setaffinity(2)` and `sched_getaffinity(2)` with masks of any size.
//!
//! # Safety
//! Both calls are made directly, because the wrappers of libc, nix and rustix stop at 1,024 CPUs.
//! Each block argues that the kernel touches only the mask it is given, and no more of it than its
//! length.
#![allow(unsafe_code)]

use super::with_growing_mask;
use rails_topo::CpuSet;
use std::io;

/// Lets thread `tid` (0: the calling one) run on `cpus` only.
pub(crate) fn set(tid: libc::pid_t, cpus: &CpuSet) -> io::Result<()> {
    let words = cpus.as_words();
    // SAFETY: "cpusetsize is the length (in bytes) of the data pointed to by mask": it is taken from
    // the slice, which outlives the call; the kernel only reads it (`get_user_cpu_mask` in
    // kernel/sched/syscalls.c cuts a longer mask to its own size and fills up a shorter one with
    // zeros).
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, libc::c_long::from(tid), size_of_val(words), words.as_ptr())
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The CPUs that thread `tid` (0: the calling one) may run on, read into a mask of `first_words`
/// words that grows as needed.
pub(crate) fn get(tid: libc::pid_t, first_words: usize) -> io::Result<CpuSet> {
    let (written, mut words) = with_growing_mask(first_words, |words| {
        // SAFETY: the kernel writes at most `cpusetsize` bytes to the mask; that length is taken from the
        // slice, which is exclusively borrowed, outlives the call, and whose words may hold any
        // bits.
        let written = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                libc::c_long::from(tid),
                size_of_val(&*words),
                words.as_mut_ptr(),
            )
        };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    })?;
    // "On success, the raw sched_getaffinity() system call returns the number of bytes placed copied
    // into the mask buffer": always whole longs, and the words after them are still zero.
    words.truncate(written.div_ceil(size_of::<u64>()));
    Ok(CpuSet::from_words(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::FIRST_WORDS;

    #[test]
    fn any_size_of_the_first_mask() {
        let expected = get(0, FIRST_WORDS).expect("a thread may read its own affinity");
        assert!(!expected.is_empty());
        for first_words in [0, 1, 2, 128, 512] {
            assert_eq!(get(0, first_words).expect("any size will do"), expected);
        }
    }
}
