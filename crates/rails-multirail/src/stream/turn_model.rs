//! Turns under every interleaving of the threads that take part, by loom.

/// loom's atomics, in place of the standard library's.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU8, Ordering};
}

#[path = "turn.rs"]
#[expect(clippy::duplicate_mod, reason = "the same source over other atomics")]
mod turn;

use loom::{
    model::Builder,
    sync::{Arc, atomic::AtomicBool},
    thread,
};
use std::sync::atomic::{AtomicBool as Fact, AtomicU32, Ordering::SeqCst};
use turn::{Turn, Word};

/// A lane that callers and its task drive. Its work lies behind other locks, so the model only
/// counts it, without loom.
struct Lane {
    turn: Turn,
    /// Whether a thread drives the lane at the moment.
    is_driven: Fact,
    /// The writes that were not sent.
    unsent: AtomicU32,
    /// The arrivals that are left to the task.
    arrived: AtomicU32,
    /// Whether the task is woken.
    task: AtomicBool,
}

impl Lane {
    fn new() -> Arc<Self> {
        let (is_driven, task) = (Fact::new(false), AtomicBool::new(false));
        let (unsent, arrived) = (AtomicU32::new(0), AtomicU32::new(0));
        Arc::new(Self { turn: Turn::new(), is_driven, unsent, arrived, task })
    }

    /// A caller writes, and sends.
    fn write(&self) {
        self.unsent.fetch_add(1, SeqCst);
        if !self.turn.begin_or_leave(Word::SEND) {
            return;
        }
        self.drive(&self.unsent);
        if self.turn.take(Word::SEND) {
            self.drive(&self.unsent);
        }
        self.end();
    }

    /// An arrival is left to the task.
    fn arrive(&self) {
        self.arrived.fetch_add(1, SeqCst);
        self.wake_task();
    }

    /// The task drives the lane if it was woken. Returns whether it was.
    fn poll_task(&self) -> bool {
        let is_woken = self.task.swap(false, SeqCst);
        if is_woken && self.turn.begin_or_leave(Word::WAKE_TASK) {
            self.drive(&self.arrived);
            self.turn.take(Word::SEND);
            self.drive(&self.unsent);
            self.end();
        }
        is_woken
    }

    fn wake_task(&self) {
        if !self.turn.leave(Word::WAKE_TASK) {
            // A swap, so that the changes of the flag have one order in which each sees the one before.
            self.task.swap(true, SeqCst);
        }
    }

    fn drive(&self, work: &AtomicU32) {
        assert!(!self.is_driven.swap(true, SeqCst), "two threads have the turn");
        work.store(0, SeqCst);
        self.is_driven.store(false, SeqCst);
    }

    fn end(&self) {
        if self.turn.end() {
            self.wake_task();
        }
    }

    /// Has the task drive the lane alone, as often as it is woken.
    fn settle(&self) {
        while self.poll_task() {}
        assert_eq!((self.unsent.load(SeqCst), self.arrived.load(SeqCst)), (0, 0), "something was forgotten");
        assert!(!self.turn.is_taken());
    }
}

/// Runs `model` in every order of its threads with at most two preemptions, which is where such
/// faults show.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Every write is sent, by the thread that finds the turn free or by the one that has it.
#[test]
fn no_write_is_forgotten_in_a_turn() {
    check(|| {
        let lane = Lane::new();
        let writers = [(); 2].map(|()| {
            let lane = lane.clone();
            thread::spawn(move || lane.write())
        });
        lane.wake_task();
        lane.poll_task();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        lane.settle();
    });
}

/// An arrival reaches the task, though another thread has the turn, or the task itself is in the
/// middle of one.
#[test]
fn no_arrival_is_forgotten_in_a_turn() {
    check(|| {
        let lane = Lane::new();
        let others = [Lane::write, Lane::arrive].map(|act| {
            let lane = lane.clone();
            thread::spawn(move || act(&lane))
        });
        lane.wake_task();
        lane.poll_task();
        others.into_iter().for_each(|other| other.join().unwrap());
        lane.settle();
    });
}
