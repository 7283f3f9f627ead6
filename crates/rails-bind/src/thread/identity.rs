//! The identity of a thread: its number and its start.

use super::{Tid, current_tid};
use crate::{BindError, usage};
use std::{fmt, io, time::Duration};

/// The thread that a call acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The calling thread, which cannot end while it calls.
    Calling,
    /// A thread by its number and its start: the kernel gives the numbers of ended threads to new
    /// ones.
    Numbered(Tid, Duration),
}

impl Subject {
    /// The living thread of that number.
    pub(super) fn of(tid: Tid) -> Result<Self, BindError> {
        Ok(Self::Numbered(tid, started(tid)?))
    }

    /// The number to call the kernel with.
    pub(super) fn raw(self) -> libc::pid_t {
        match self {
            Self::Calling => 0,
            Self::Numbered(tid, _) => tid.as_raw(),
        }
    }

    /// The number that other threads know the thread by.
    pub(super) fn tid(self) -> Tid {
        match self {
            Self::Calling => current_tid(),
            Self::Numbered(tid, _) => tid,
        }
    }

    /// The thread's folder below `/proc`.
    pub(super) fn folder(self) -> String {
        match self {
            Self::Calling => "thread-self".to_owned(),
            Self::Numbered(tid, _) => format!("{tid}/task/{tid}"),
        }
    }

    /// Fails if the thread has ended, also if another thread has its number.
    pub(super) fn still_there(self) -> Result<(), BindError> {
        match self {
            Self::Calling => Ok(()),
            Self::Numbered(tid, then) if started(tid)? == then => Ok(()),
            Self::Numbered(tid, _) => Err(BindError::NoSuchThread { tid }),
        }
    }

    /// The error of a call about this thread: `ESRCH` says that it has ended, `EPERM` that `needs`
    /// is missing.
    pub(super) fn error(
        self,
        call: &'static str,
        what: impl fmt::Display,
        needs: &str,
        source: io::Error,
    ) -> BindError {
        let subject = format!("{self} ({what})");
        match source.raw_os_error() {
            Some(libc::ESRCH) => BindError::NoSuchThread { tid: self.tid() },
            Some(libc::EPERM) => BindError::Denied { call, subject, needs: needs.to_owned(), source },
            _ => BindError::of_call(call, subject, source),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calling => f.write_str("the calling thread"),
            Self::Numbered(tid, _) => write!(f, "thread {tid}"),
        }
    }
}

fn started(tid: Tid) -> Result<Duration, BindError> {
    usage::started(tid).map_err(|error| match error {
        usage::UsageError::NoSuchThread { .. } => BindError::NoSuchThread { tid },
        other => {
            let subject = format!("the file that says when thread {tid} began");
            BindError::Call { call: "read", subject, source: io::Error::other(other) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_identity_by_number_and_start() {
        let tid = current_tid();
        let now = Subject::of(tid).expect("the calling thread lives");
        now.still_there().expect("it still lives");
        let before = Subject::Numbered(tid, Duration::from_nanos(1));
        assert!(matches!(before.still_there(), Err(BindError::NoSuchThread { tid: gone }) if gone == tid));
    }
}
