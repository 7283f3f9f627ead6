//! Record locks of fcntl(2) on the bytes of one file.

use super::{
    resource::Span,
    user::{self, ROOT},
};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
};
use std::{fs::File, io};

/// Bytes that are locked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Locked {
    pub(super) span: Span,
    pub(super) owner: Owner,
}

/// The owner of a lock, by the number that the kernel gives (`posix_lock_to_flock` in fs/locks.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Process(u32),
    /// A process that is not visible from here (0), as that of another PID namespace.
    Unseen,
    /// An open file (-1), in any number of processes.
    OpenFile,
}

impl Owner {
    fn of(l_pid: libc::pid_t) -> Self {
        match u32::try_from(l_pid) {
            Ok(0) => Self::Unseen,
            Ok(pid) => Self::Process(pid),
            Err(_) => Self::OpenFile,
        }
    }

    pub(super) fn pid(self) -> Option<u32> {
        match self {
            Self::Process(pid) => Some(pid),
            Self::Unseen | Self::OpenFile => None,
        }
    }

    /// The user of the owner's process, if that is known.
    pub(super) fn user(self) -> Option<u32> {
        self.pid().and_then(user::of)
    }

    /// Whether root overrides the owner: a process of another user, or an open file, whose locks
    /// are no claims.
    pub(super) fn is_below_root(self) -> bool {
        self == Self::OpenFile || self.user().is_some_and(|user| user != ROOT)
    }
}

/// Locks all of these bytes for this process, or none if another process has locked one. Returns
/// whether they are locked.
pub(super) fn lock(file: &File, span: Span) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_SETLK(&record(libc::F_WRLCK, span))) {
        Ok(_) => Ok(true),
        // fcntl_locking(2) allows either error.
        Err(Errno::EACCES | Errno::EAGAIN) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Unlocks those of these bytes that this process has locked.
pub(super) fn unlock(file: &File, span: Span) -> io::Result<()> {
    fcntl(file, FcntlArg::F_SETLK(&record(libc::F_UNLCK, span)))?;
    Ok(())
}

/// A lock on some of these bytes, not necessarily the first. The lock may be this process's own:
/// the query is made for the open file (`F_OFD_GETLK`), for which the locks of every process are
/// foreign.
pub(super) fn locked(file: &File, span: Span) -> io::Result<Option<Locked>> {
    let mut found = record(libc::F_WRLCK, span);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    if i32::from(found.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    Ok(clipped(&found, span).map(|span| Locked { span, owner: Owner::of(found.l_pid) }))
}

/// All locks on these bytes, in rising order; the last one found as an error if there are more than
/// `max`. Of several processes that share a read lock, which is no claim, the list has one.
pub(super) fn all_locked(file: &File, span: Span, max: usize) -> io::Result<Result<Vec<Locked>, Locked>> {
    let mut all = Vec::new();
    // Each lock divides its span into the one before and the one behind it, so there are at most
    // two queries for each lock, and one more.
    let mut unknown = vec![span];
    while let Some(span) = unknown.pop() {
        let Some(found) = locked(file, span)? else { continue };
        if all.len() == max {
            return Ok(Err(found));
        }
        if found.span.last < span.last {
            unknown.push(Span { first: found.span.last + 1, last: span.last });
        }
        if span.first < found.span.first {
            unknown.push(Span { first: span.first, last: found.span.first - 1 });
        }
        all.push(found);
    }
    all.sort_by_key(|locked| locked.span.first);
    Ok(Ok(all))
}

// The numbers end far below the end of a 32-bit `off_t`.
fn record(kind: i32, span: Span) -> libc::flock {
    libc::flock {
        l_type: kind as _,
        l_whence: libc::SEEK_SET as _,
        l_start: span.first as libc::off_t,
        l_len: (span.last - span.first + 1) as libc::off_t,
        // `F_OFD_GETLK` refuses any other.
        l_pid: 0,
    }
}

/// The part of a lock within the span: a lock may begin before the span, and reach to the end of
/// all files (length 0).
#[allow(clippy::useless_conversion, reason = "`off_t` has 32 bits on 32-bit machines")]
fn clipped(found: &libc::flock, span: Span) -> Option<Span> {
    let (start, length) = (i64::from(found.l_start), i64::from(found.l_len));
    let last = if length == 0 { i64::MAX } else { start.saturating_add(length - 1) };
    let within = |number: i64| number.clamp(i64::from(span.first), i64::from(span.last));
    let overlaps = start <= i64::from(span.last) && last >= i64::from(span.first);
    let number = |number| u32::try_from(within(number)).expect("it lies between two numbers of 32 bits");
    overlaps.then(|| Span { first: number(start), last: number(last) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_that_reach_beyond_the_span() {
        let span = Span { first: 10, last: 20 };
        let part = |start, length| {
            let mut found = record(libc::F_WRLCK, span);
            (found.l_start, found.l_len) = (start, length);
            clipped(&found, span).map(|part| (part.first, part.last))
        };
        assert_eq!(part(0, 0), Some((10, 20)));
        assert_eq!(part(15, 0), Some((15, 20)));
        assert_eq!(part(0, 1 << 62), Some((10, 20)));
        assert_eq!(part(i64::MAX, 0), None);
        assert_eq!(part(1, i64::MAX), Some((10, 20)));
        assert_eq!((part(12, 3), part(20, 1), part(10, 1)), (Some((12, 14)), Some((20, 20)), Some((10, 10))));
        // The kernel never answers so; the caller goes on nevertheless.
        assert_eq!((part(0, 10), part(21, 5)), (None, None));
    }
}
