//! The turns of the threads that drive a lane: its task's, or a caller's.

use super::sync::{
    AtomicU8,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Records whether a thread drives a lane, and the word that others have left for that thread
/// meanwhile.
///
/// No thread waits for a turn. One that finds it taken leaves word, and the thread that has the
/// turn sees the word at the latest when it ends its turn: one atomic operation ends a turn only
/// without a word.
#[derive(Debug)]
pub(super) struct Turn(AtomicU8);

/// The word that threads leave with the one that has the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u8);

impl Word {
    /// The lane's task has to be woken when the turn is over.
    pub(super) const WAKE_TASK: Self = Self(1 << 1);
    /// The lane has something to send.
    pub(super) const SEND: Self = Self(1 << 2);
}

impl Turn {
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(FREE))
    }

    /// Begins a turn, or leaves `word` with the thread that has it. Returns whether the turn has
    /// begun.
    pub(super) fn begin_or_leave(&self, word: Word) -> bool {
        let mut state = self.0.load(Relaxed);
        loop {
            let next = if state == FREE { TAKEN } else { state | word.0 };
            match self.0.compare_exchange_weak(state, next, AcqRel, Acquire) {
                Ok(_) => return state == FREE,
                Err(seen) => state = seen,
            }
        }
    }

    /// Leaves `word` with the thread that has the turn. Returns whether one has it.
    pub(super) fn leave(&self, word: Word) -> bool {
        let mut state = self.0.load(Relaxed);
        while state != FREE {
            match self.0.compare_exchange_weak(state, state | word.0, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(seen) => state = seen,
            }
        }
        false
    }

    /// Whether a thread has the turn.
    pub(super) fn is_taken(&self) -> bool {
        self.0.load(Relaxed) != FREE
    }

    /// Takes `word`, if others have left it with the calling thread, which has the turn and goes
    /// on. Returns whether they have.
    pub(super) fn take(&self, word: Word) -> bool {
        // Most turns get no word, and a load costs less than a change.
        self.0.load(Relaxed) & word.0 != 0 && self.0.fetch_and(!word.0, AcqRel) & word.0 != 0
    }

    /// Ends the turn. Returns whether a word was left and not taken: the caller wakes the task for
    /// it.
    pub(super) fn end(&self) -> bool {
        self.0.swap(FREE, AcqRel) != TAKEN
    }
}

const FREE: u8 = 0;
const TAKEN: u8 = 1;
