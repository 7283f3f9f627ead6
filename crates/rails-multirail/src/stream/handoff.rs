//! The choice of the thread that receives the next arrival of a lane: the reader's or the lane's
//! task.

use super::sync::{
    AtomicBool, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Decides whether a waiting reader or the lane's task receives the next arrival. While arrivals
/// are small, it is the reader; the task receives all others, and those for which the reader does
/// not come.
///
/// Every change is a swap, so that the changes of a flag have one order in which each sees the one
/// before.
#[derive(Debug)]
pub(super) struct Handoff {
    /// Whether the latest arrivals were small.
    is_inline: AtomicBool,
    /// Whether the task has something to receive, although arrivals are small.
    task_has_work: AtomicBool,
    /// The number of arrivals that have gone to the reader since the last period of the task's
    /// watch.
    passed_on: AtomicU32,
    /// Whether the task watches, or is woken to.
    is_watched: AtomicBool,
    /// Whether the reader has not come for the latest arrival yet.
    pickup_pending: AtomicBool,
    /// Whether the task is to have its own runtime report arrivals, small ones too.
    is_called_home: AtomicBool,
}

impl Handoff {
    pub(super) fn new() -> Self {
        let new = || AtomicBool::new(false);
        let passed_on = AtomicU32::new(0);
        let (is_inline, task_has_work, is_watched, pickup_pending, is_called_home) =
            (new(), new(), new(), new(), new());
        Self { is_inline, task_has_work, passed_on, is_watched, pickup_pending, is_called_home }
    }

    /// Passes an arrival on to the reader. Returns whether the task has to be woken, to
    /// [watch](Self::is_watched) the reader.
    pub(super) fn pass_on(&self) -> bool {
        self.pickup_pending.swap(true, AcqRel);
        self.passed_on.fetch_add(1, AcqRel);
        !self.is_watched.swap(true, AcqRel)
    }

    /// The reader comes for an arrival.
    pub(super) fn reader_comes(&self) {
        self.pickup_pending.swap(false, AcqRel);
    }

    /// The task receives next. The caller wakes it.
    pub(super) fn leave_to_task(&self) {
        self.task_has_work.swap(true, AcqRel);
    }

    /// Whether the task receives now.
    pub(super) fn task_receives(&self) -> bool {
        let task_has_work = self.task_has_work.swap(false, AcqRel);
        task_has_work || !self.is_inline()
    }

    /// Has the task receive next, at home. The caller wakes it. A thread that receives meanwhile
    /// may find arrivals small.
    pub(super) fn call_home(&self) {
        self.set_inline(false);
        self.is_called_home.swap(true, AcqRel);
        self.leave_to_task();
    }

    /// Takes the call home. Returns whether there was one. The task asks before it receives.
    pub(super) fn takes_call_home(&self) -> bool {
        self.is_called_home.swap(false, AcqRel)
    }

    /// Whether the task watches whether the reader comes.
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched.load(Acquire)
    }

    /// Ends a period of the task's watch over the reader. An arrival for which the reader has not
    /// come in it is the task's from now on. Returns whether another period begins: only in a
    /// conversation.
    pub(super) fn end_period(&self) -> bool {
        if self.pickup_pending.swap(false, AcqRel) {
            self.leave_to_task();
        }
        if self.passed_on.swap(0, AcqRel) >= CONVERSATION {
            return true;
        }
        // The next arrival wakes the task, unless it came just before this.
        self.is_watched.swap(false, AcqRel);
        let goes_on = self.pickup_pending.load(Acquire);
        if goes_on {
            self.is_watched.swap(true, AcqRel);
        }
        goes_on
    }

    /// Notes whether the latest arrivals were small.
    pub(super) fn set_inline(&self, is_inline: bool) {
        self.is_inline.store(is_inline, Relaxed);
    }

    pub(super) fn is_inline(&self) -> bool {
        self.is_inline.load(Relaxed)
    }
}

/// In a conversation, at least as many arrivals go to the reader in a period of the watch: a
/// message, an acknowledgement, and a message again. A watch that goes on saves the wake of the
/// task for the next arrival.
const CONVERSATION: u32 = 3;
