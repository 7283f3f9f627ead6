//! Queues and triggers in random schedules of their threads, by shuttle: it finds a thread that
//! waits for ever.

use crate::{budget, error, load, objects};

/// shuttle's primitives, in place of the standard library's.
mod sync {
    pub(super) use shuttle::{
        sync::{
            Condvar, Mutex, MutexGuard, RwLock,
            atomic::{
                AtomicBool, AtomicU8, AtomicU64, AtomicUsize,
                Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
                fence,
            },
        },
        thread::Thread,
    };

    pub(super) mod thread {
        pub(in super::super) use shuttle::thread::*;

        /// shuttle has no clock: the timeout is over at once.
        pub(in super::super) fn park_timeout(_: std::time::Duration) {
            yield_now();
        }
    }

    /// shuttle runs one thread at a time, and has one order of all accesses.
    pub(super) fn order_accesses() {}

    /// A described machine has no CPU to run on: every thread is in its place.
    pub(super) fn is_on(_: &rails_topo::CpuSet) -> bool {
        true
    }
}

macro_rules! same_source {
    ($($name:ident $path:literal)*) => {$(
        #[path = $path]
        #[allow(
            clippy::duplicate_mod,
            dead_code,
            unreachable_pub,
            unused_imports,
            reason = "the same source over other primitives"
        )]
        mod $name;
    )*};
}

same_source! {
    blocking "blocking.rs"
    control "control.rs"
    counters "counters.rs"
    helpers "helpers.rs"
    inner "inner.rs"
    job "job.rs"
    options "options.rs"
    queue "queue.rs"
    queues "queues.rs"
    runner "runner.rs"
    sleeper "sleeper.rs"
    state "state.rs"
    task "task.rs"
    task_queues "task_queues.rs"
    wakeup "wakeup.rs"
}

use control::{Control, TaskLoop};
use helpers::Helpers;
use inner::Step;
use job::{Job, Taken};
use options::TaskOptions;
use rails_topo::{CpuSet, Topology};
use runner::Runner;
use shuttle::{
    Config, PortfolioRunner,
    scheduler::{PctScheduler, RandomScheduler},
    thread::{self, JoinHandle, ThreadId},
};
use sleeper::Trigger;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use task::Task;
use task_queues::TaskQueues;

/// The queues of a machine of two CPUs, and the threads that run tasks there.
struct Machine {
    queues: TaskQueues,
    threads: Vec<JoinHandle<()>>,
}

/// A task that notices if two threads run it at once, and that counts the runs that have begun.
struct Watched {
    task: Task,
    runs: Arc<AtomicUsize>,
    threads: Arc<Mutex<Vec<ThreadId>>>,
}

impl Machine {
    fn new() -> Self {
        let topology = Topology::synthetic("core:2 pu:1", Vec::new()).unwrap();
        Self { queues: TaskQueues::builder().capacity(1).timed(true).build(&topology), threads: Vec::new() }
    }

    fn attach(queues: &TaskQueues, trigger: Trigger, cpus: &str) -> Runner {
        queues.attach_trigger(trigger, set(cpus)).unwrap()
    }

    /// Starts a thread that is a worker or a timer on some of the CPUs.
    fn start(&mut self, trigger: Trigger, cpus: &'static str) -> (Arc<Control>, thread::Thread) {
        let (queues, control) = (self.queues.clone(), Arc::new(Control::new()));
        let controlled = Arc::clone(&control);
        let thread = thread::spawn(move || {
            let thread = TaskLoop::new(Self::attach(&queues, trigger, cpus), controlled);
            match trigger {
                Trigger::Timer => thread.tick(Duration::from_nanos(1)),
                _ => thread.work(),
            }
        });
        let handle = thread.thread().clone();
        self.threads.push(thread);
        (control, handle)
    }

    /// A task whose runs return the result of `step`.
    fn task(&self, cpus: &str, options: TaskOptions, step: impl Fn() -> Step + Send + Sync + 'static) -> Watched {
        let (runs, threads) = (Arc::new(AtomicUsize::new(0)), Arc::<Mutex<Vec<_>>>::default());
        let (counted, noted, is_running) = (Arc::clone(&runs), Arc::clone(&threads), AtomicBool::new(false));
        let work = move || {
            assert!(!is_running.swap(true, SeqCst), "two threads run it at once");
            counted.fetch_add(1, SeqCst);
            noted.lock().unwrap().push(thread::current().id());
            thread::yield_now();
            let step = step();
            is_running.store(false, SeqCst);
            step
        };
        Watched { task: self.queues.task_with(&set(cpus), options, work).unwrap(), runs, threads }
    }

    fn done(&self, cpus: &str) -> Watched {
        self.task(cpus, TaskOptions::new(), || Step::Done)
    }

    /// Closes the queues, and waits for the threads.
    fn close(self) {
        self.queues.close();
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

impl Watched {
    fn runs(&self) -> usize {
        self.runs.load(SeqCst)
    }

    fn wait(&self) {
        while self.task.inner.await_end() {
            thread::park();
        }
        assert!(!self.task.has_panicked());
    }
}

fn set(cpus: &str) -> CpuSet {
    cpus.parse().unwrap()
}

/// Half of the schedules are random, and half give threads random priorities, which change seldom.
fn check(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut runner = PortfolioRunner::new(true, quiet());
    runner.add(RandomScheduler::new(schedules / 2));
    runner.add(PctScheduler::new(3, schedules - schedules / 2));
    runner.run(model);
}

/// Random schedules alone: a timer whose time has come may look for its task again and again.
fn check_fair(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    shuttle::Runner::new(RandomScheduler::new(schedules), quiet()).run(model);
}

/// shuttle knows one order of all accesses, and says so for each weaker one.
fn quiet() -> Config {
    let mut config = Config::new();
    config.silence_warnings = true;
    config
}

/// Each submitter waits for the end of one submission before the next: there is a run for each.
#[test]
fn each_submission_is_followed_by_a_run() {
    check(12_000, || {
        let mut machine = Machine::new();
        let (_, first) = machine.start(Trigger::Idle, "0");
        machine.start(Trigger::Idle, "1");
        let submitters = ["0", "0-1"].map(|cpus| {
            let watched = machine.done(cpus);
            thread::spawn(move || {
                for runs in 1..=2 {
                    watched.task.submit().unwrap();
                    watched.wait();
                    assert_eq!(watched.runs(), runs);
                }
                watched
            })
        });
        let [of_cpu_0, _] = submitters.map(|submitter| submitter.join().unwrap());
        assert!(of_cpu_0.threads.lock().unwrap().iter().all(|id| *id == first.id()), "it strayed");
        machine.close();
    });
}

/// Submissions while the task is queued and while it runs: after each of them a run begins.
#[test]
fn no_submission_is_lost() {
    check(18_000, || {
        let mut machine = Machine::new();
        machine.start(Trigger::Idle, "0");
        let watched = Arc::new(machine.done("0"));
        let other = Arc::clone(&watched);
        let submitter = thread::spawn(move || {
            while other.runs() == 0 {
                thread::yield_now();
            }
            let before = other.runs();
            other.task.submit().unwrap();
            other.wait();
            assert!(other.runs() > before);
        });
        watched.task.submit().unwrap();
        watched.task.submit().unwrap();
        watched.wait();
        submitter.join().unwrap();
        assert!((2..=3).contains(&watched.runs()));
        machine.close();
    });
}

#[test]
fn cancelled_task_runs_no_more() {
    check(15_000, || {
        let mut machine = Machine::new();
        machine.start(Trigger::Idle, "0");
        let watched = Arc::new(machine.task("0", TaskOptions::new(), || Step::Again));
        let other = Arc::clone(&watched);
        let submitter = thread::spawn(move || {
            let _ = other.task.submit();
            let _ = other.task.submit();
        });
        watched.task.cancel();
        watched.wait();
        let runs = watched.runs();
        submitter.join().unwrap();
        assert!(watched.task.submit().is_err());
        machine.close();
        assert_eq!(watched.runs(), runs);
    });
}

#[test]
fn masked_task_runs_once_it_is_unmasked() {
    check(15_000, || {
        let mut machine = Machine::new();
        machine.start(Trigger::Idle, "0");
        let watched = Arc::new(machine.done("0"));
        watched.task.mask();
        watched.task.submit().unwrap();
        let other = Arc::clone(&watched);
        let unmasker = thread::spawn(move || {
            let runs = other.runs();
            other.task.unmask();
            runs
        });
        watched.wait();
        assert_eq!((unmasker.join().unwrap(), watched.runs()), (0, 1));
        machine.close();
    });
}

/// The queues are closed while tasks come: each task ends, and each thread.
#[test]
fn closed_queues_leave_nothing_pending() {
    check(10_000, || {
        let mut machine = Machine::new();
        machine.start(Trigger::Idle, "0");
        machine.start(Trigger::Timer, "0-1");
        let dated = TaskOptions::new().run_within(Duration::from_nanos(1));
        let tasks = [machine.done("0"), machine.task("1", dated, || Step::Done)];
        let submitters = tasks.map(|watched| {
            thread::spawn(move || {
                if watched.task.submit().is_ok() {
                    watched.wait();
                }
                watched
            })
        });
        machine.close();
        for submitter in submitters {
            let watched = submitter.join().unwrap();
            assert!(!watched.task.is_pending() && watched.task.submit().is_err());
        }
    });
}

/// A thread that was woken for a task, and goes without running it, leaves it to another.
#[test]
fn wake_of_a_dropped_runner_is_passed_on() {
    check(5_000, || {
        let mut machine = Machine::new();
        machine.start(Trigger::Idle, "0");
        let queues = machine.queues.clone();
        let leaving = thread::spawn(move || {
            let runner = Machine::attach(&queues, Trigger::Caller, "0");
            if runner.begin_sleep() {
                thread::yield_now();
            }
        });
        let watched = machine.done("0");
        watched.task.submit().unwrap();
        watched.wait();
        leaving.join().unwrap();
        machine.close();
    });
}

#[test]
fn switched_off_trigger_loses_no_task() {
    check(5_000, || {
        let mut machine = Machine::new();
        let (control, thread) = machine.start(Trigger::Idle, "0");
        machine.start(Trigger::Idle, "0");
        let (switch, switched) = (Arc::clone(&control), thread.clone());
        let switching = thread::spawn(move || {
            switch.enable(false);
            switched.unpark();
        });
        let watched = machine.done("0");
        watched.task.submit().unwrap();
        watched.wait();
        switching.join().unwrap();
        control.end();
        thread.unpark();
        machine.close();
    });
}

/// A thread runs a task that polls, and leaves it: a worker or a timer goes on with it.
fn leave_polling_task_to(trigger: Trigger) {
    let mut machine = Machine::new();
    machine.start(trigger, "0");
    let left = AtomicUsize::new(3);
    let step = move || if left.fetch_sub(1, SeqCst) > 1 { Step::Again } else { Step::Done };
    let watched = machine.task("0", TaskOptions::new(), step);
    let runner = Machine::attach(&machine.queues, Trigger::Caller, "0");
    watched.task.submit().unwrap();
    runner.run();
    watched.wait();
    assert_eq!(watched.runs(), 3);
    drop(runner);
    machine.close();
}

#[test]
fn worker_goes_on_with_a_task_that_polls() {
    check(5_000, || leave_polling_task_to(Trigger::Idle));
}

#[test]
fn timer_goes_on_with_a_task_that_polls() {
    check_fair(5_000, || leave_polling_task_to(Trigger::Timer));
}

/// Without any other thread, the timer runs a task at its deadline.
#[test]
fn timer_runs_tasks_at_their_deadline() {
    check(3_000, || {
        let mut machine = Machine::new();
        machine.start(Trigger::Timer, "0");
        let watched = machine.task("0-1", TaskOptions::new().run_within(Duration::from_nanos(1)), || Step::Done);
        watched.task.submit().unwrap();
        watched.wait();
        assert_eq!(machine.queues.stats(watched.task.home()).missed, 1);
        machine.close();
    });
}

/// A task polls, and blocks for its event. Meanwhile the event comes, it is cancelled, or the
/// queues are closed.
#[test]
fn blocked_task_resumes_or_ends() {
    let event_comes = |_: &Machine, _: &Task, event: &AtomicBool| event.store(true, SeqCst);
    let cancelled = |_: &Machine, task: &Task, _: &AtomicBool| _ = task.cancel();
    let closed = |machine: &Machine, _: &Task, _: &AtomicBool| machine.queues.close();
    let ends: [fn(&Machine, &Task, &AtomicBool); 3] = [event_comes, cancelled, closed];
    for end in ends {
        check(2_500, move || {
            let mut machine = Machine::new();
            machine.start(Trigger::Idle, "0");
            let event = Arc::new(AtomicBool::new(false));
            let (polled, blocked_for) = (Arc::clone(&event), Arc::clone(&event));
            let wait = move |_| {
                thread::yield_now();
                blocked_for.load(SeqCst)
            };
            let options = TaskOptions::new().blocking(Duration::ZERO, wait);
            let step = move || if polled.load(SeqCst) { Step::Done } else { Step::Again };
            let watched = Arc::new(machine.task("0", options, step));
            watched.task.submit().unwrap();
            let other = Arc::clone(&watched);
            let waiting = thread::spawn(move || other.wait());
            end(&machine, &watched.task, &event);
            waiting.join().unwrap();
            let runs = watched.runs();
            machine.close();
            assert_eq!(watched.runs(), runs);
        });
    }
}

/// Takes a value back that was offered, once no helper is at it.
fn take_back(job: &Job<u32>) -> Taken<u32> {
    loop {
        match job.take() {
            Taken::Running => thread::park(),
            taken => return taken,
        }
    }
}

/// A job that adds one to its value, and whose helpers wake the calling thread.
fn increment(helpers: &Helpers) -> Job<u32> {
    let owner = thread::current();
    helpers.job_with_callback(|value: &mut u32| *value += 1, move || owner.unpark())
}

#[test]
fn offered_value_comes_back_and_is_done_once_at_most() {
    check(2_000, || {
        let mut machine = Machine::new();
        machine.start(Trigger::Idle, "0");
        let mut job = increment(&Helpers::new(&machine.queues, &set("0")).unwrap());
        for value in [0, 10] {
            job.offer(value).unwrap();
            thread::yield_now();
            let taken = take_back(&job);
            assert!([Taken::Done(value + 1), Taken::Untouched(value)].contains(&taken), "{taken:?}");
        }
        machine.close();
    });
}

/// The helpers move from CPU 0 to CPU 1 while their thread makes a job and offers a value. A value
/// that is offered after that is done by the thread on CPU 1, also where CPU 0 has none.
#[test]
fn job_follows_helpers_that_move() {
    for runners in [&["1"][..], &["0", "1"]] {
        check(2_000, || {
            let mut machine = Machine::new();
            runners.iter().for_each(|cpus| _ = machine.start(Trigger::Idle, cpus));
            let helpers = Helpers::new(&machine.queues, &set("0")).unwrap();
            let moving = helpers.clone();
            let mover = thread::spawn(move || moving.move_to(&set("1")).unwrap());
            let mut job = increment(&helpers);
            job.offer(0).unwrap();
            let taken = take_back(&job);
            assert!([Taken::Done(1), Taken::Untouched(0)].contains(&taken), "{taken:?}");
            mover.join().unwrap();
            job.offer(10).unwrap();
            let done = loop {
                match take_back(&job) {
                    Taken::Untouched(value) => job.offer(value).unwrap(),
                    taken => break taken,
                }
                thread::park();
            };
            assert_eq!(done, Taken::Done(11));
            machine.close();
        });
    }
}
