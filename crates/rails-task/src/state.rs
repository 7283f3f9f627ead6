//! The state of a task: a queue holds it, a thread runs it, and its owner may submit, mask or
//! cancel it at any time.

use super::sync::{AcqRel, Acquire, AtomicU8, Relaxed};

/// The state of a task, which is in one queue at most, and runs on one thread at a time.
#[derive(Debug)]
pub(crate) struct TaskState(AtomicU8);

/// The outcome of taking a task out of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The task runs until [`TaskState::end`] or [`TaskState::block`].
    Run,
    /// The task waits outside of the queues until it is unmasked.
    Held,
    /// The task is over.
    Cancelled,
}

/// The outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The task goes into a queue again.
    Queue,
    /// The task waits for its event outside of the queues, until [`TaskState::resume`].
    Blocked,
    /// The task is pending no more; `is_awaited` if a thread waits for that.
    Ended { is_awaited: bool },
}

/// The outcome of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Submit {
    /// The task is to be put into a queue.
    Queue,
    /// The task waits already, or goes into a queue once it has run.
    Already,
    /// The task was cancelled.
    Cancelled,
}

const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
/// The task was submitted while it ran.
const AGAIN: u8 = 4;
const CANCELLED: u8 = 8;
const MASKED: u8 = 16;
/// The task was taken out of its queue while it was masked.
const HELD: u8 = 32;
/// A thread waits for the task's end.
const AWAITED: u8 = 64;
/// A thread blocks for the task's event.
const BLOCKED: u8 = 128;

impl TaskState {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Submits the task. One that waits for its event waits no more.
    #[inline]
    pub(crate) fn submit(&self) -> Submit {
        self.change(|state| match state {
            _ if state & CANCELLED != 0 => (state, Submit::Cancelled),
            _ if state & (QUEUED | HELD) != 0 => (state, Submit::Already),
            _ if state & RUNNING != 0 => (state | AGAIN, Submit::Already),
            _ => (state & !BLOCKED | QUEUED, Submit::Queue),
        })
    }

    /// Takes a submission back: no queue had room.
    pub(crate) fn refuse(&self) {
        self.change(|state| (state & !QUEUED, ()));
    }

    /// Takes the task out of its queue.
    #[inline]
    pub(crate) fn begin(&self) -> Begin {
        self.change(|state| match state {
            _ if state & CANCELLED != 0 => (state & !QUEUED, Begin::Cancelled),
            _ if state & MASKED != 0 => (state & !QUEUED | HELD, Begin::Held),
            _ => (state & !QUEUED | RUNNING, Begin::Run),
        })
    }

    /// Ends a run, after which the task wants to run `again` or not.
    #[inline]
    pub(crate) fn end(&self, again: bool) -> End {
        self.change(|state| {
            let ended = state & !(RUNNING | AGAIN);
            match state & CANCELLED == 0 && (again || state & AGAIN != 0) {
                true => (ended | QUEUED, End::Queue),
                false => (ended, End::Ended { is_awaited: state & AWAITED != 0 }),
            }
        })
    }

    /// Ends a run: the task waits for its event unless it was submitted meanwhile.
    pub(crate) fn block(&self) -> End {
        self.change(|state| {
            let ended = state & !(RUNNING | AGAIN);
            match state {
                _ if state & CANCELLED != 0 => (ended, End::Ended { is_awaited: state & AWAITED != 0 }),
                _ if state & AGAIN != 0 => (ended | QUEUED, End::Queue),
                _ => (ended | BLOCKED, End::Blocked),
            }
        })
    }

    /// Ends the wait for the task's event. Returns whether the task goes into a queue.
    pub(crate) fn resume(&self) -> bool {
        self.change(|state| match state {
            _ if state & BLOCKED != 0 && state & CANCELLED == 0 => (state & !BLOCKED | QUEUED, true),
            _ => (state & !BLOCKED, false),
        })
    }

    /// Whether the task waits for its event.
    pub(crate) fn is_blocked(&self) -> bool {
        self.0.load(Acquire) & (BLOCKED | CANCELLED) == BLOCKED
    }

    /// Keeps the task from running again. Returns whether it was pending.
    pub(crate) fn cancel(&self) -> bool {
        self.change(|state| (state | CANCELLED, is_pending(state)))
    }

    /// Keeps the task from running for now.
    pub(crate) fn mask(&self) {
        self.change(|state| (state | MASKED, ()));
    }

    /// Lets the task run again. Returns whether it goes into a queue.
    pub(crate) fn unmask(&self) -> bool {
        self.change(|state| match state {
            _ if state & HELD != 0 && state & CANCELLED == 0 => (state & !(MASKED | HELD) | QUEUED, true),
            _ => (state & !(MASKED | HELD), false),
        })
    }

    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        is_pending(self.0.load(Acquire))
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Acquire) & CANCELLED != 0
    }

    /// Whether a thread runs the task, or it is in a queue and not cancelled.
    pub(crate) fn is_active(&self) -> bool {
        let state = self.0.load(Acquire);
        state & (QUEUED | RUNNING) != 0 && state & CANCELLED == 0
    }

    /// Has a thread wait for the end of the task, if that is pending. Returns whether it is.
    pub(crate) fn await_end(&self) -> bool {
        self.change(|state| if is_pending(state) { (state | AWAITED, true) } else { (state, false) })
    }

    /// Whether the task has ended, and the waiting threads are to be woken.
    pub(crate) fn take_awaited(&self) -> bool {
        if self.0.load(Acquire) & AWAITED == 0 {
            return false;
        }
        self.change(|state| match is_pending(state) {
            true => (state, false),
            false => (state & !AWAITED, state & AWAITED != 0),
        })
    }

    #[inline]
    fn change<R>(&self, next: impl Fn(u8) -> (u8, R)) -> R {
        let mut state = self.0.load(Relaxed);
        loop {
            let (new, result) = next(state);
            match self.0.compare_exchange_weak(state, new, AcqRel, Relaxed) {
                Ok(_) => return result,
                Err(now) => state = now,
            }
        }
    }
}

/// Whether the task is pending. A cancelled task is not, even while a queue still holds it.
fn is_pending(state: u8) -> bool {
    state & RUNNING != 0 || state & (QUEUED | HELD | BLOCKED) != 0 && state & CANCELLED == 0
}
