//! Deadlines, blocking variants, timers, and triggers that are switched off or have a budget, with
//! real threads.

use rails_bind::thread::bind_current;
use rails_task::{
    AttachError, BudgetError, NewTaskError, ObjectId, Runner, Step, Task, TaskOptions, TaskPriority, TaskQueues,
    TaskThread,
};
use rails_topo::{CpuId, CpuSet, Topology};
use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread::{self, ThreadId},
    time::Duration,
};

const HOUR: Duration = Duration::from_secs(3600);
const NANOSECOND: Duration = Duration::from_nanos(1);

/// The queues of this machine, and its first CPU that this process may use.
struct Machine {
    queues: TaskQueues,
    cpu: CpuId,
}

impl Machine {
    fn here() -> Self {
        let topology = Topology::detect().expect("this machine can be read");
        let cpu = topology.allowed_cpus().first().expect("one is allowed");
        Self { queues: TaskQueues::builder().capacity(8).timed(true).build(&topology), cpu }
    }

    fn object(&self) -> ObjectId {
        self.queues.objects().of_cpu(self.cpu).expect("it is one of the machine")
    }

    fn task(&self, options: TaskOptions, work: impl Fn() -> Step + Send + Sync + 'static) -> Task {
        self.queues.task_with(&CpuSet::single(self.cpu), options, work).expect("it is a CPU of the machine")
    }

    /// A task that polls so often before it tells of its end, and by which thread.
    fn polling(&self, options: TaskOptions, polls: u64) -> (Task, mpsc::Receiver<ThreadId>) {
        let (told, news) = mpsc::channel();
        let left = AtomicU64::new(polls);
        let work = move || {
            if left.fetch_sub(1, SeqCst) > 1 {
                return Step::Again;
            }
            left.store(polls, SeqCst);
            told.send(thread::current().id()).expect("the test waits");
            Step::Done
        };
        (self.task(options, work), news)
    }

    /// Runs `body` on a thread that is bound to the CPU.
    fn on_cpu<R: Send>(&self, body: impl FnOnce(&Runner) -> R + Send) -> R {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _guard = bind_current(&CpuSet::single(self.cpu)).expect("it is allowed");
                body(&self.queues.attach().expect("it is a CPU of the machine"))
            });
            thread.join().expect("it does not panic")
        })
    }
}

/// An event for which threads block, and that tells of the first that does.
struct Event {
    has_come: Mutex<bool>,
    news: Condvar,
    blocking: mpsc::SyncSender<()>,
}

impl Event {
    fn new() -> (Arc<Self>, mpsc::Receiver<()>) {
        let (blocking, blocked) = mpsc::sync_channel(1);
        (Arc::new(Self { has_come: Mutex::default(), news: Condvar::new(), blocking }), blocked)
    }

    fn has_come(&self) -> bool {
        *self.has_come.lock().expect("no thread panics with it")
    }

    fn come(&self) {
        *self.has_come.lock().expect("no thread panics with it") = true;
        self.news.notify_all();
    }

    fn wait(&self, limit: Duration) -> bool {
        let _ = self.blocking.try_send(());
        let has_come = self.has_come.lock().expect("no thread panics with it");
        let waited = self.news.wait_timeout_while(has_come, limit, |has_come| !*has_come);
        *waited.expect("no thread panics with it").0
    }

    /// A task that polls for the event, and blocks for it after that time.
    fn task(self: &Arc<Self>, machine: &Machine, after: Duration) -> Task {
        let (polled, waited) = (Arc::clone(self), Arc::clone(self));
        let options = TaskOptions::new().blocking(after, move |limit| waited.wait(limit));
        machine.task(options, move || if polled.has_come() { Step::Done } else { Step::Again })
    }
}

#[test]
fn overdue_tasks_run_before_the_urgent_ones() {
    let machine = Machine::here();
    let order = Arc::new(Mutex::new(Vec::new()));
    let task = |name: &'static str, options| {
        let order = Arc::clone(&order);
        let work = move || {
            order.lock().expect("no task panics").push(name);
            Step::Done
        };
        machine.task(options, work)
    };
    let tasks = [
        task("normal", TaskOptions::new()),
        task("urgent", TaskOptions::new().priority(TaskPriority::High)),
        task("much later", TaskOptions::new().run_within(HOUR)),
        task("overdue", TaskOptions::new().run_within(NANOSECOND)),
        task("urgent and later", TaskOptions::new().priority(TaskPriority::High).run_within(HOUR)),
        task("longest overdue", TaskOptions::new().run_within(NANOSECOND)),
    ];
    machine.on_cpu(|runner| {
        for index in [0, 1, 2, 5, 3, 4] {
            runner.submit(&tasks[index]).expect("there is room");
            // The clock goes on.
            thread::sleep(Duration::from_micros(1));
        }
        assert_eq!(runner.run().ran, 6);
    });
    let expected = ["longest overdue", "overdue", "urgent", "urgent and later", "normal", "much later"];
    assert_eq!(*order.lock().expect("no task panics"), expected);
    let stats = machine.queues.stats(machine.object());
    assert_eq!((stats.submitted, stats.run_here, stats.missed, stats.waiting), (6, 6, 2, 0));
    let waits = stats.waits.expect("they are timed");
    assert!(!waits.longest.is_zero() && waits.longest <= waits.total, "{waits:?}");
    let untimed = TaskQueues::new(&Topology::detect().expect("this machine can be read"), 8);
    assert_eq!(untimed.stats(machine.object()).waits, None);
}

#[test]
fn bad_times_and_shares_are_refused() {
    let machine = Machine::here();
    let cpus = CpuSet::single(machine.cpu);
    let refused = machine.queues.task_with(&cpus, TaskOptions::new().run_within(Duration::ZERO), || Step::Done);
    assert_eq!(refused.expect_err("it has no time"), NewTaskError::ZeroDeadline);
    let longest = machine.task(TaskOptions::new().run_within(Duration::MAX), || Step::Done);
    machine.on_cpu(|runner| {
        runner.submit(&longest).expect("there is room");
        runner.wait(&longest);
    });
    let refused = TaskThread::periodic(&machine.queues, machine.object(), Duration::ZERO);
    assert!(matches!(refused, Err(AttachError::ZeroPeriod)), "{refused:?}");
    let timer = TaskThread::periodic(&machine.queues, machine.object(), Duration::MAX).expect("it can be placed");
    let worker = TaskThread::idle(&machine.queues, machine.object()).expect("it can be placed");
    for share in [0.0, -1.0, 1.5, f64::NAN, f64::INFINITY] {
        let errors = [timer.set_budget(share), worker.set_budget(share)];
        assert!(errors.iter().all(|error| matches!(error, Err(BudgetError { .. }))), "{errors:?}");
    }
    assert_eq!((timer.set_budget(0.001), worker.set_budget(1.0)), (Ok(()), Ok(())));
}

/// The timer's period is far off: the deadline alone makes it run the task.
#[test]
fn timer_runs_tasks_at_their_deadlines() {
    let machine = Machine::here();
    let timer = TaskThread::periodic(&machine.queues, machine.object(), HOUR).expect("it can be placed");
    assert_eq!(timer.object(), machine.object());
    let (task, news) = machine.polling(TaskOptions::new().run_within(Duration::from_millis(2)), 1);
    for _ in 0..10 {
        task.submit().expect("there is room");
        news.recv().expect("it runs");
    }
    assert_eq!(machine.queues.stats(machine.object()).missed, 10, "it runs them at the deadline, which is too late");
}

/// A thread runs a task once and leaves it: the timer goes on.
#[test]
fn timer_polls_what_others_leave() {
    let machine = Machine::here();
    let timer = TaskThread::periodic(&machine.queues, machine.object(), Duration::from_micros(50));
    let _timer = timer.expect("it can be placed");
    let (task, news) = machine.polling(TaskOptions::new(), 20);
    let caller = machine.on_cpu(|runner| {
        runner.submit(&task).expect("there is room");
        assert_eq!(runner.run().polling, 1);
        thread::current().id()
    });
    assert_ne!(news.recv().expect("it runs"), caller);
}

#[test]
fn worker_that_is_off_runs_nothing() {
    let machine = Machine::here();
    let worker = TaskThread::idle(&machine.queues, machine.object()).expect("it can be placed");
    let timer = TaskThread::periodic(&machine.queues, machine.object(), Duration::from_micros(50));
    let timer = timer.expect("it can be placed");
    timer.set_enabled(false);
    worker.set_enabled(false);
    assert!(!worker.is_enabled() && !timer.is_enabled());
    let (task, news) = machine.polling(TaskOptions::new().run_within(NANOSECOND), 5);
    let owner = machine.on_cpu(|runner| {
        for _ in 0..100 {
            runner.submit(&task).expect("there is room");
            runner.wait(&task);
        }
        thread::current().id()
    });
    let runs: Vec<_> = (0..100).map(|_| news.recv().expect("it has run")).collect();
    // Each of the two may have been in a pass when it was switched off.
    assert!(runs.iter().filter(|id| **id != owner).count() <= 2, "{runs:?}, and the owner is {owner:?}");
    worker.set_enabled(true);
    task.submit().expect("there is room");
    assert_ne!(news.recv().expect("the worker runs it"), owner);
}

/// A worker that has used its budget for half a minute stands still, until its budget is larger or
/// it is dropped.
#[test]
fn used_budget_is_slept_off() {
    let machine = Machine::here();
    let worker = TaskThread::idle(&machine.queues, machine.object()).expect("it can be placed");
    worker.set_budget(0.001).expect("it is a share");
    let (task, news) = machine.polling(TaskOptions::new(), 1);
    let (told, computed) = mpsc::channel();
    let computing = machine.task(TaskOptions::new(), move || {
        // The thread's own time, however long it takes to get it.
        let mut sum = 0_u64;
        while clock() < Duration::from_millis(30) {
            sum = std::hint::black_box(sum + 1);
        }
        told.send(()).expect("the test waits");
        Step::Done
    });
    // With the second of them the worker knows its budget.
    for _ in 0..2 {
        task.submit().expect("there is room");
        news.recv().expect("it runs");
    }
    computing.submit().expect("there is room");
    computed.recv().expect("it runs");
    while computing.is_pending() {
        thread::yield_now();
    }
    task.submit().expect("there is room");
    thread::sleep(Duration::from_millis(20));
    assert!(task.is_pending(), "the worker rests");
    worker.set_budget(1.0).expect("it is a share");
    news.recv().expect("it runs");
    worker.set_budget(0.001).expect("it is a share");
    computing.submit().expect("there is room");
    computed.recv().expect("it runs");
}

/// The time that this thread has used.
fn clock() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).expect("Linux has a clock for each thread").into()
}

#[test]
fn task_blocks_once_it_has_polled_in_vain() {
    let machine = Machine::here();
    let _worker = TaskThread::idle(&machine.queues, machine.object()).expect("it can be placed");
    for after in [Duration::ZERO, Duration::from_micros(200)] {
        let (event, blocked) = Event::new();
        let task = event.task(&machine, after);
        task.submit().expect("there is room");
        blocked.recv().expect("a thread blocks for it");
        assert!(task.is_pending());
        event.come();
        machine.on_cpu(|runner| runner.wait(&task));
        assert!(!task.is_pending() && !task.is_over());
    }
}

/// Several tasks block at a time, each with its own thread. Some are cancelled, and the others end
/// with the queues.
#[test]
fn blocked_tasks_end_when_cancelled_or_closed() {
    let machine = Machine::here();
    let events: Vec<_> = (0..5).map(|_| Event::new()).collect();
    let tasks: Vec<_> = events.iter().map(|(event, _)| event.task(&machine, Duration::ZERO)).collect();
    let (tasks, queues) = (&tasks, &machine.queues);
    machine.on_cpu(move |runner| {
        tasks.iter().for_each(|task| task.submit().expect("there is room"));
        assert_eq!(runner.run().ran, 5);
        events.iter().for_each(|(_, blocked)| blocked.recv().expect("a thread blocks for it"));
        tasks[..2].iter().for_each(|task| assert!(task.cancel() && !task.is_pending()));
        runner.wait(&tasks[0]);
        // A submission needs no event.
        runner.submit(&tasks[4]).expect("there is room");
        assert_eq!(runner.run().ran, 1);
        queues.close();
        tasks.iter().for_each(|task| runner.wait(task));
    });
    assert!(tasks.iter().all(|task| !task.is_pending() && task.is_over()));
}

#[test]
fn panic_of_a_blocking_variant_ends_its_task() {
    let machine = Machine::here();
    let options = TaskOptions::new().blocking(Duration::ZERO, |_| panic!("a task's own fault"));
    let task = machine.task(options, || Step::Again);
    machine.on_cpu(|runner| {
        runner.submit(&task).expect("there is room");
        runner.wait(&task);
    });
    assert!(task.has_panicked() && task.is_over());
}
