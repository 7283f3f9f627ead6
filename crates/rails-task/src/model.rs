//! The states of tasks and of sleep under every interleaving of threads, by loom.

/// loom's atomics, in place of the standard library's.
mod sync {
    pub(super) use loom::sync::atomic::{
        AtomicBool, AtomicU8, AtomicU64, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
    };

    /// Gives loom the language's one order of [`SeqCst`] accesses.
    pub(super) fn order_accesses() {
        loom::sync::atomic::fence(SeqCst);
    }
}

#[path = "state.rs"]
#[expect(clippy::duplicate_mod, dead_code, reason = "the same source over other atomics")]
mod state;
#[path = "wakeup.rs"]
#[expect(clippy::duplicate_mod, reason = "the same source over other atomics")]
mod wakeup;

use loom::{
    sync::{Arc, Mutex, Notify},
    thread,
};
use state::{Begin, End, Submit, TaskState};
use std::iter::once;
use wakeup::{Asleep, News, Sleepers};

/// One queue, one task, and a thread that sleeps while it finds none.
struct Machine {
    queue: Mutex<u32>,
    news: News,
    sleepers: Sleepers,
    asleep: Asleep,
    bed: Notify,
    state: TaskState,
    runs: Mutex<u32>,
}

impl Machine {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::new(0),
            news: News::default(),
            sleepers: Sleepers::default(),
            asleep: Asleep::default(),
            bed: Notify::new(),
            state: TaskState::new(),
            runs: Mutex::new(0),
        })
    }

    fn submit(&self) -> Submit {
        let submit = self.state.submit();
        if submit == Submit::Queue {
            self.push();
        }
        submit
    }

    fn push(&self) {
        *self.queue.lock().unwrap() += 1;
        self.news.add();
        if self.sleepers.may_be_asleep() && self.asleep.is_set() && self.asleep.mark_awake(once(&self.sleepers)) {
            self.bed.notify();
        }
    }

    /// One pass. Returns the news that it has seen.
    fn pass(&self) -> u64 {
        let seen = self.news.count();
        let count = *self.queue.lock().unwrap();
        for _ in 0..count {
            let mut queue = self.queue.lock().unwrap();
            if *queue == 0 {
                break;
            }
            *queue -= 1;
            drop(queue);
            if self.state.begin() == Begin::Run {
                *self.runs.lock().unwrap() += 1;
                if self.state.end(false) == End::Queue {
                    self.push();
                }
            }
        }
        seen
    }

    /// One pass by another thread.
    fn pass_elsewhere(machine: &Arc<Self>) -> thread::JoinHandle<u64> {
        let machine = Arc::clone(machine);
        thread::spawn(move || machine.pass())
    }

    /// Runs tasks until `runs` runs are done, and sleeps in between.
    fn run_until(&self, runs: u32) {
        while *self.runs.lock().unwrap() < runs {
            let seen = self.pass();
            if *self.runs.lock().unwrap() < runs
                && self.asleep.mark_asleep(once(&self.sleepers), || self.news.count() != seen)
            {
                self.bed.wait();
                self.asleep.mark_awake(once(&self.sleepers));
            }
        }
    }
}

/// loom fails where the sleeper is never woken.
#[test]
fn submission_wakes_the_sleeper() {
    loom::model(|| {
        let machine = Machine::new();
        let runner = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.run_until(1))
        };
        assert_eq!(machine.submit(), Submit::Queue);
        runner.join().unwrap();
        assert!(!machine.state.is_pending());
    });
}

/// Two submissions run the task once or twice, and never after the last of them was forgotten.
#[test]
fn no_submission_is_lost() {
    loom::model(|| {
        let machine = Machine::new();
        let runner = Machine::pass_elsewhere(&machine);
        machine.submit();
        machine.submit();
        runner.join().unwrap();
        while machine.state.is_pending() {
            machine.pass();
        }
        let runs = *machine.runs.lock().unwrap();
        assert!((1..=2).contains(&runs), "{runs}");
    });
}

#[test]
fn cancelled_task_runs_once_at_most_and_ends() {
    loom::model(|| {
        let machine = Machine::new();
        machine.submit();
        let runner = Machine::pass_elsewhere(&machine);
        machine.state.cancel();
        runner.join().unwrap();
        assert!(!machine.state.is_pending() && machine.submit() == Submit::Cancelled);
        assert!(*machine.runs.lock().unwrap() <= 1);
    });
}

/// A task that is masked and unmasked while another thread takes it out of its queue.
#[test]
fn unmasked_task_runs() {
    loom::model(|| {
        let machine = Machine::new();
        machine.submit();
        machine.state.mask();
        let runner = Machine::pass_elsewhere(&machine);
        if machine.state.unmask() {
            machine.push();
        }
        runner.join().unwrap();
        while machine.state.is_pending() {
            machine.pass();
        }
        assert_eq!(*machine.runs.lock().unwrap(), 1);
    });
}

/// The event of a blocked task comes while the task is submitted: it goes into one queue, once.
#[test]
fn blocked_task_is_queued_once() {
    loom::model(|| {
        let state = Arc::new(TaskState::new());
        state.submit();
        state.begin();
        let submitted = Arc::clone(&state);
        let submitter = thread::spawn(move || submitted.submit());
        let is_blocked = state.block() == End::Blocked;
        let resumes = is_blocked && state.resume();
        // The task was submitted before it could block, or while it was blocked, or once it was queued
        // again.
        let submit = submitter.join().unwrap();
        let pushes = [!is_blocked, resumes, submit == Submit::Queue].into_iter().filter(|pushed| *pushed).count();
        assert_eq!(pushes, 1, "{submit:?}, blocked: {is_blocked}, resumed: {resumes}");
        assert_eq!(state.begin(), Begin::Run);
    });
}
