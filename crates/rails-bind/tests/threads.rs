//! Threads are placed by their number, scheduled and named, and put back as they were. Each test
//! changes threads of its own only.

use rails_bind::{
    BindError, Outcome,
    thread::{self, Scheduling, SchedulingClass, ThreadPlacement, Tid},
    usage::{CpuHistory, ThreadUsage, UsageError, Whereabouts, threads_of},
};
use rails_topo::{CpuId, CpuSet};
use std::{
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

/// A CPU that no machine has: Linux ends at 8,192.
const ABSENT: u32 = 500_000;

/// A thread that waits until it is dropped.
struct Waiting {
    tid: Tid,
    end: Option<mpsc::Sender<()>>,
    handle: Option<JoinHandle<()>>,
}

impl Waiting {
    fn start() -> Self {
        let (announce, announced) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let handle = std::thread::spawn(move || {
            announce.send(thread::current_tid()).expect("the test listens");
            let _ = ended.recv();
        });
        Self { tid: announced.recv().expect("the thread speaks"), end: Some(end), handle: Some(handle) }
    }

    /// Ends the thread, until the kernel has forgotten its number too: joining only waits for its
    /// stack.
    fn end(mut self) -> Tid {
        self.stop();
        while thread::affinity_of(self.tid).is_ok() {
            std::thread::yield_now();
        }
        self.tid
    }

    fn stop(&mut self) {
        self.end = None;
        if let Some(handle) = self.handle.take() {
            handle.join().expect("it only waits");
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Another process, ended when this is dropped.
struct Sleeping(Child);

impl Sleeping {
    fn start() -> Self {
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().expect("`sleep` is everywhere");
        // The process has its parent's name until it has executed the program.
        let sleeping = Self(child);
        while thread::name_of(sleeping.tid()).expect("it lives") != "sleep" {
            std::thread::yield_now();
        }
        sleeping
    }

    fn tid(&self) -> Tid {
        Tid::from_raw(i32::try_from(self.0.id()).expect("a process number")).expect("above zero")
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `test` on a thread of its own, so that its settings end with it.
fn on_a_thread<R: Send>(test: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(test).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn last_allowed() -> CpuSet {
    let allowed = thread::current_affinity().expect("a thread may read its own affinity");
    CpuSet::single(allowed.last().expect("a thread may run somewhere"))
}

/// Everything about a thread that a placement changes.
fn state(tid: Tid) -> (CpuSet, Scheduling, String) {
    let known = "the thread lives";
    (
        thread::affinity_of(tid).expect(known),
        thread::scheduling_of(tid).expect(known),
        thread::name_of(tid).expect(known),
    )
}

#[test]
fn binding_by_number_with_a_movable_guard() {
    let waiting = Waiting::start();
    let before = state(waiting.tid);
    let wanted = last_allowed();
    let guard = thread::bind(waiting.tid, &wanted).expect("the CPU is allowed");
    assert_eq!(guard.outcome().cpus, Some(Outcome::Applied(wanted.clone())));
    assert_eq!(guard.tid(), waiting.tid);
    assert_eq!(thread::affinity_of(waiting.tid).expect("the thread lives"), wanted);
    assert!(guard.check().expect("the thread lives").expect("it was bound").holds());
    std::thread::spawn(move || drop(guard)).join().expect("the thread does not panic");
    assert_eq!(state(waiting.tid), before);
}

#[test]
fn thread_of_another_process_is_placed_and_read() {
    let other = Sleeping::start();
    let before = state(other.tid());
    let wanted = last_allowed();
    let placement = ThreadPlacement::new().cpus(wanted.clone()).class(SchedulingClass::Batch);
    let guard = placement.apply_to(other.tid()).expect("the process is ours");
    let now = state(other.tid());
    assert_eq!((now.0, now.1.class), (wanted, SchedulingClass::Batch));
    let usage = ThreadUsage::of_process_thread(other.tid(), other.tid()).expect("it lives");
    assert_eq!((usage.class, usage.nice), (SchedulingClass::Batch, before.1.nice));
    assert_eq!(threads_of(other.tid()).expect("it lives"), [other.tid()]);
    guard.restore().expect("nothing is in the way");
    assert_eq!(state(other.tid()), before);
    assert!(matches!(ThreadUsage::of(other.tid()), Err(UsageError::NoSuchThread { .. })));
}

#[test]
fn foreign_name_undoes_the_placement() {
    let other = Sleeping::start();
    let before = state(other.tid());
    let placement = ThreadPlacement::new().cpus(last_allowed()).name("rail0");
    let error = placement.apply_to(other.tid()).expect_err("it is another process's");
    assert!(matches!(error, BindError::ForeignName { tid } if tid == other.tid()), "{error}");
    assert_eq!(state(other.tid()), before);
}

#[test]
fn vanished_thread_is_an_error() {
    let waiting = Waiting::start();
    let guard = thread::bind(waiting.tid, &last_allowed()).expect("the CPU is allowed");
    let tid = waiting.end();
    assert!(matches!(guard.check(), Err(BindError::NoSuchThread { tid: gone }) if gone == tid));
    assert!(matches!(guard.restore(), Err(BindError::NoSuchThread { tid: gone }) if gone == tid));
    let error = thread::bind(tid, &last_allowed()).expect_err("it has ended");
    assert!(matches!(error, BindError::NoSuchThread { .. }), "{error}");
    let error = ThreadPlacement::new().nice(1).apply_to(tid).expect_err("it has ended");
    assert!(matches!(error, BindError::NoSuchThread { .. }), "{error}");
    assert!(matches!(thread::name_of(tid), Err(BindError::NoSuchThread { .. })));
    assert!(matches!(thread::scheduling_of(tid), Err(BindError::NoSuchThread { .. })));
    assert!(matches!(threads_of(tid), Err(UsageError::NoSuchProcess { .. })));
}

#[test]
fn everything_at_once_is_read_back_and_put_back() {
    on_a_thread(|| {
        let tid = thread::current_tid();
        let before = state(tid);
        let placement = ThreadPlacement::new().cpus(last_allowed()).class(SchedulingClass::Batch).name("rail0");
        let guard = placement.apply().expect("it takes no privilege");
        let placed = guard.outcome().clone();
        let scheduling = Scheduling { class: SchedulingClass::Batch, ..before.1 };
        assert_eq!(placed.cpus, Some(Outcome::Applied(last_allowed())));
        assert_eq!(placed.scheduling, Some(Outcome::Applied(scheduling)));
        assert_eq!(placed.name, Some(Outcome::Applied("rail0".to_owned())));
        assert_eq!(state(tid), (last_allowed(), scheduling, "rail0".to_owned()));
        assert!(guard.check().expect("readable").expect("it was bound").holds());
        guard.restore().expect("nothing is in the way");
        assert_eq!(state(tid), before);
    });
}

#[test]
fn panic_puts_everything_back_and_keeping_does_not() {
    on_a_thread(|| {
        let tid = thread::current_tid();
        let before = state(tid);
        let placement = ThreadPlacement::new().cpus(last_allowed()).class(SchedulingClass::Batch).name("rail0");
        let panic = std::panic::catch_unwind(|| {
            let _guard = placement.apply().expect("it takes no privilege");
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(panic.is_err());
        assert_eq!(state(tid), before);
        let placed = placement.apply().expect("it takes no privilege").keep();
        assert!(placed.name.is_some_and(|name| name.is_applied()));
        assert_eq!(state(tid).2, "rail0");
    });
}

#[test]
fn failing_step_undoes_those_before_it() {
    on_a_thread(|| {
        let tid = thread::current_tid();
        let before = state(tid);
        let absent = CpuSet::single(CpuId(ABSENT));
        // The name is set first, and then the CPUs fail.
        let error = ThreadPlacement::new().name("rail0").cpus(absent).apply().expect_err("no machine has the CPU");
        assert!(matches!(error, BindError::CpusUnusable { .. }), "{error}");
        assert_eq!(state(tid), before);
    });
}

#[test]
fn partial_binding_to_a_cpu_beyond_1000() {
    let waiting = Waiting::start();
    let wanted = last_allowed().union(&[CpuId(1024), CpuId(ABSENT)].into_iter().collect());
    let guard = thread::bind(waiting.tid, &wanted).expect("one CPU of the set is allowed");
    assert_eq!(guard.outcome().cpus, Some(Outcome::Partial { wanted, got: last_allowed() }));
    assert!(guard.check().expect("it lives").expect("it was bound").holds());
}

#[test]
fn usage_since_is_of_one_thread() {
    let [one, two] = [Waiting::start(), Waiting::start()];
    let usage = |waiting: &Waiting| ThreadUsage::of(waiting.tid).expect("it lives");
    let before = usage(&one);
    let delta = usage(&one).since(&before).expect("the same thread");
    assert_eq!(delta.tid, one.tid);
    assert!(matches!(usage(&two).since(&before), Err(UsageError::DifferentThreads { .. })));
    let own = threads_of(Tid::from_raw(std::process::id() as i32).expect("above zero")).expect("this process lives");
    assert!(own.contains(&one.tid) && own.contains(&two.tid) && own.is_sorted());
}

#[test]
fn thread_that_is_moved_has_a_history_of_both_cpus() {
    on_a_thread(|| {
        let tid = thread::current_tid();
        let allowed = thread::current_affinity().expect("readable");
        let read = || ThreadUsage::of(tid).expect("it lives");
        let mut cpus = allowed.iter();
        let first = CpuSet::single(cpus.next().expect("a thread may run somewhere"));
        let _outer = thread::bind_current(&first).expect("allowed");
        let mut history = CpuHistory::begin(Duration::ZERO, read());
        history.observe(Duration::from_millis(1), read()).expect("the same thread");
        assert_eq!(history.cpus(), first);
        if history.moves_unseen().is_some() {
            assert_eq!(history.within(&first), Whereabouts::Within, "{history:?}");
        }
        // With one CPU there is nowhere to move, and the history has to say just that.
        let second = cpus.next().map_or(first.clone(), CpuSet::single);
        let _inner = thread::bind_current(&second).expect("allowed");
        history.observe(Duration::from_millis(2), read()).expect("the same thread");
        assert_eq!(history.cpus(), first.union(&second));
        assert_eq!(history.moves_seen(), u64::from(first != second));
        assert_eq!(matches!(history.within(&first), Whereabouts::Outside(_)), first != second);
    });
}

#[test]
fn usage_tells_faults_and_scheduling() {
    on_a_thread(|| {
        let tid = thread::current_tid();
        let _guard = ThreadPlacement::new().class(SchedulingClass::Batch).apply().expect("it takes no privilege");
        let before = ThreadUsage::of(tid).expect("it lives");
        // Beyond the threshold of malloc, so that fresh pages are touched.
        let written = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = ThreadUsage::of(tid).expect("it lives");
        let delta = after.since(&before).expect("the same thread");
        assert!(delta.minor_faults > 0, "{delta:?} after {} bytes", written.len());
        assert!(delta.cpu_time.is_some_and(|time| time > Duration::ZERO), "{delta:?}");
        let scheduling = thread::scheduling_of(tid).expect("it lives");
        assert_eq!((after.class, after.nice), (SchedulingClass::Batch, scheduling.nice));
        assert_eq!(after.priority, 20 + scheduling.nice);
    });
}
