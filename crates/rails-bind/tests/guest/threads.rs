//! Bound threads stay where they are bound, and guards tell when they do not.

use crate::machine::machine;
use rails_bind::{
    BindError, Outcome,
    thread::{self, BindingStatus, SchedulingClass, ThreadPlacement, Tid},
    usage::{CpuHistory, ThreadUsage, Whereabouts},
};
use rails_topo::{CpuId, CpuSet};
use std::{
    env, fs,
    path::Path,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

/// The CPU of node 1 that the tests take away.
const LAST: CpuId = CpuId(3);

const CPUS: usize = 4;

fn set(list: &str) -> CpuSet {
    list.parse().expect("a list")
}

/// The CPUs of node 1 that are online.
fn node_1() -> CpuSet {
    let cpus = set(&fs::read_to_string("/sys/devices/system/node/node1/cpulist").expect("the guest has two nodes"));
    assert_eq!(cpus, set("2-3"), "the guest has two CPUs on node 1");
    cpus
}

/// Runs `test` on a thread of its own, so that its settings end with it.
fn on_a_thread<R: Send>(test: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(test).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// The evidence for the CPUs of a thread.
#[derive(Debug)]
struct Evidence {
    /// The CPUs that an observer saw through the kernel's files.
    history: CpuHistory,
    /// The CPUs that the thread saw itself, at every turn of its loop.
    turns: [u64; CPUS],
    standing: Option<BindingStatus>,
}

impl Evidence {
    /// The reason why the thread was not on `cpus` alone, if so: the check that the tests are
    /// about.
    fn against(&self, cpus: &CpuSet) -> Result<(), String> {
        if let Whereabouts::Outside(elsewhere) = self.history.within(cpus) {
            return Err(format!("it was seen on CPUs {elsewhere}"));
        }
        let counted = (0_u32..).map(CpuId).zip(self.turns);
        let elsewhere: CpuSet =
            counted.filter(|(cpu, turns)| *turns > 0 && !cpus.contains(*cpu)).map(|(cpu, _)| cpu).collect();
        if !elsewhere.is_empty() {
            return Err(format!("it found itself on CPUs {elsewhere}"));
        }
        match &self.standing {
            Some(standing) if standing.holds() => Ok(()),
            other => Err(format!("nothing keeps it there: {other:?}")),
        }
    }
}

/// Observes a busy thread, bound to `cpus` or not, while all CPUs are loaded, first those of one
/// node more than those of the other and then the other way round, so that the kernel has reason to
/// move it.
fn observe_under_load(cpus: Option<&CpuSet>) -> Evidence {
    let end = AtomicBool::new(false);
    let turns: [AtomicU64; CPUS] = Default::default();
    let standing = Mutex::new(None);
    let (announce, announced) = mpsc::channel();
    let history = std::thread::scope(|scope| {
        // The threads are to end also when an assertion fails.
        let _end = SetOnDrop(&end);
        for cpu in 0..CPUS as u32 {
            let end = &end;
            scope.spawn(move || spin(&CpuSet::single(CpuId(cpu)), end));
        }
        scope.spawn(|| {
            let guard = cpus.map(|cpus| thread::bind_current(cpus).expect("the node is there"));
            announce.send(thread::current_tid()).expect("the test listens");
            while !end.load(Relaxed) {
                turns[thread::current_cpu().expect("the kernel can tell").0 as usize].fetch_add(1, Relaxed);
            }
            *standing.lock().expect("no thread panics here") = guard.map(|guard| guard.check().expect("readable"));
        });
        let tid = announced.recv().expect("the thread speaks");
        let read = || ThreadUsage::of(tid).expect("it lives");
        let mut history = CpuHistory::begin(Duration::ZERO, read());
        for heavy in ["2-3", "0-1"] {
            add_load(&set(heavy), || {
                std::thread::sleep(Duration::from_millis(20));
                history.observe(history.interval() + Duration::from_millis(20), read()).expect("the same thread");
            });
        }
        history
    });
    let standing = standing.into_inner().expect("no thread panics here");
    Evidence { history, turns: turns.map(AtomicU64::into_inner), standing }
}

/// Repeats `meanwhile` while more threads are busy on `cpus` than there are CPUs.
fn add_load(cpus: &CpuSet, mut meanwhile: impl FnMut()) {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&end);
        for _ in 0..4 {
            scope.spawn(|| spin(cpus, &end));
        }
        (0..60).for_each(|_| meanwhile());
    });
}

fn spin(on: &CpuSet, until: &AtomicBool) {
    let _bound = thread::bind_current(on).expect("the CPU is there");
    while !until.load(Relaxed) {
        std::hint::spin_loop();
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_thread_bound_to_node_1_stays_there() {
    let _machine = machine();
    let evidence = observe_under_load(Some(&node_1()));
    evidence.against(&node_1()).unwrap_or_else(|reason| panic!("{reason}: {evidence:?}"));
    assert!(evidence.history.readings() > 100 && evidence.turns.iter().sum::<u64>() > 1000, "{evidence:?}");
    // Within the node the thread may move, and the kernel counts its moves.
    assert!(evidence.history.moves_unseen().is_some(), "{evidence:?}");
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_unbound_thread_is_found() {
    let _machine = machine();
    let evidence = observe_under_load(None);
    let reason = evidence.against(&node_1()).expect_err("an unbound thread goes where there is room");
    assert!(reason.contains("CPUs"), "{reason}: {evidence:?}");
    let elsewhere: u64 = evidence.turns[..2].iter().sum();
    assert!(elsewhere > 0, "{evidence:?}");
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_complete_history_of_a_bound_thread() {
    let _machine = machine();
    let last = CpuSet::single(LAST);
    let evidence = observe_under_load(Some(&last));
    assert_eq!(evidence.against(&last), Ok(()), "{evidence:?}");
    assert_eq!(evidence.history.within(&last), Whereabouts::Within, "{evidence:?}");
}

/// A CPU that is offline until this is dropped.
struct Offline(CpuId);

impl Offline {
    fn take(cpu: CpuId) -> Self {
        switch(cpu, "0");
        Self(cpu)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        switch(self.0, "1");
    }
}

fn switch(cpu: CpuId, online: &str) {
    fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), online).expect("the guest's CPUs can be switched");
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_binding_lost_with_its_cpu() {
    let _machine = machine();
    on_a_thread(|| {
        let all = thread::current_affinity().expect("readable");
        let last = CpuSet::single(LAST);
        let guard = thread::bind_current(&last).expect("the CPU is there");
        let offline = Offline::take(LAST);
        // The kernel moved the thread away rather than stopped it.
        let lost = BindingStatus::Lost { bound: last.clone(), now: all.difference(&last) };
        assert_eq!(guard.check().expect("readable"), lost);
        assert_ne!(thread::current_cpu().expect("the kernel can tell"), LAST);
        drop(offline);
        // The kernel has forgotten the binding, and does not restore it.
        assert_eq!(guard.check().expect("readable"), BindingStatus::Lost { bound: last, now: all.clone() });
        guard.restore().expect("nothing is in the way");
        assert_eq!(thread::current_affinity().expect("readable"), all);
    });
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_binding_narrowed_by_an_offline_cpu() {
    let _machine = machine();
    on_a_thread(|| {
        let node = node_1();
        let guard = thread::bind_current(&node).expect("the node is there");
        let offline = Offline::take(LAST);
        let narrowed =
            BindingStatus::Narrowed { bound: node.clone(), now: set("2"), offline: Some(CpuSet::single(LAST)) };
        assert_eq!(guard.check().expect("readable"), narrowed);
        drop(offline);
        assert_eq!(guard.check().expect("readable"), BindingStatus::Holds(node));
    });
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_sleeping_thread_without_a_cpu() {
    let _machine = machine();
    let (announce, announced) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let sleeper = std::thread::spawn(move || {
        announce.send(thread::current_tid()).expect("the test listens");
        let _ = ended.recv();
    });
    let tid = announced.recv().expect("the thread speaks");
    let last = CpuSet::single(LAST);
    while !sleeps(tid) {
        std::thread::yield_now();
    }
    let guard = thread::bind(tid, &last).expect("the CPU is there");
    let offline = Offline::take(LAST);
    let lost = BindingStatus::Lost { bound: last.clone(), now: CpuSet::new() };
    assert_eq!(guard.check().expect("it lives"), Some(lost));
    drop(offline);
    assert_eq!(guard.check().expect("it lives"), Some(BindingStatus::Holds(last)));
    guard.restore().expect("it lives");
    drop(end);
    sleeper.join().expect("it only sleeps");
}

fn sleeps(tid: Tid) -> bool {
    let status = fs::read_to_string(format!("/proc/self/task/{tid}/status")).expect("it lives");
    status.lines().any(|line| line.starts_with("State:\tS"))
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_offline_cpus_refused_and_given_back() {
    let _machine = machine();
    on_a_thread(|| {
        let node = node_1();
        let all = thread::current_affinity().expect("readable");
        let last = CpuSet::single(LAST);
        let offline = Offline::take(LAST);
        match thread::bind_current(&last).expect_err("it is offline") {
            BindError::CpusUnusable { requested, offline: Some(offline), not_allowed: Some(not_allowed) } => {
                assert_eq!((requested, offline, not_allowed), (last.clone(), last.clone(), CpuSet::new()));
            }
            other => panic!("{other}"),
        }
        let guard = thread::bind_current(&node).expect("one CPU of the node is online");
        assert_eq!(guard.outcome(), &Outcome::Partial { wanted: node.clone(), got: set("2") });
        drop(offline);
        // A kernel may let the CPU join when it is back (Linux 6.1 does not), and the binding holds either
        // way.
        assert!(guard.check().expect("readable").holds());
        guard.restore().expect("nothing is in the way");
        assert_eq!(thread::current_affinity().expect("readable"), all);
        // A kernel that forgets the CPU that was offline meanwhile (Linux 6.1) is found out, and one that
        // does not is not blamed.
        let offline = Offline::take(LAST);
        let restored = thread::bind_current(&set("0")).expect("it is there").restore();
        drop(offline);
        assert_eq!(thread::current_affinity().expect("readable") == all, restored.is_ok(), "{restored:?}");
        assert!(matches!(restored, Ok(()) | Err(BindError::NotRestored { .. })), "{restored:?}");
    });
}

/// This process confined to some CPUs by a cgroup, until this is dropped.
struct Confined(&'static str);

impl Confined {
    fn to(cpus: &str) -> Self {
        const ROOT: &str = "/run/rails-guest-cgroup";
        fs::create_dir_all(ROOT).expect("/run can be written");
        let mounted = Command::new("mount").args(["-t", "cgroup2", "none", ROOT]).status().expect("there is a mount");
        assert!(mounted.success());
        let confined = Self(ROOT);
        let write = |file: &str, text: &str| fs::write(Path::new(ROOT).join(file), text).expect("the guest is root's");
        write("cgroup.subtree_control", "+cpuset");
        fs::create_dir_all(Path::new(ROOT).join("some")).expect("a cgroup");
        write("some/cpuset.cpus", cpus);
        write("some/cgroup.procs", &std::process::id().to_string());
        confined
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        let root = Path::new(self.0);
        // A panic here would hide the one that may be under way.
        let freed = fs::write(root.join("cgroup.procs"), std::process::id().to_string());
        let removed = fs::remove_dir(root.join("some"));
        let unmounted = Command::new("umount").arg(root).status();
        if !(freed.is_ok() && removed.is_ok() && unmounted.is_ok_and(|status| status.success())) {
            eprintln!("the cgroup of the test was left behind");
        }
    }
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_process_confined_by_a_cpuset_stays_inside() {
    let _machine = machine();
    on_a_thread(|| {
        let _confined = Confined::to("2-3");
        assert_eq!(thread::current_affinity().expect("readable"), set("2-3"));
        let tid = thread::current_tid();
        for error in [
            thread::bind_current(&set("0-1")).map(drop).expect_err("outside"),
            thread::bind(tid, &set("0-1")).map(drop).expect_err("outside"),
        ] {
            assert_eq!(error.to_string(), "no CPU of 0-1 can be used (0-1 outside the thread's cpuset)");
        }
        assert_eq!(thread::current_affinity().expect("readable"), set("2-3"));
        let guard = thread::bind_current(&set("1,3")).expect("one CPU is inside");
        assert_eq!(guard.outcome(), &Outcome::Partial { wanted: set("1,3"), got: set("3") });
        assert_eq!(thread::current_cpu().expect("the kernel can tell"), LAST);
        // The cpuset gives the thread its remaining CPUs.
        let offline = Offline::take(LAST);
        assert_eq!(guard.check().expect("readable"), BindingStatus::Lost { bound: set("3"), now: set("2") });
        drop(offline);
        let whole = BindingStatus::Lost { bound: set("3"), now: set("2-3") };
        // The kernel gives the CPU back in the background.
        for _ in 0..500 {
            if guard.check().expect("readable") == whole {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(guard.check().expect("readable"), whole);
    });
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_numa_faults_are_told_when_the_kernel_looks() {
    let _machine = machine();
    let balancing = fs::read_to_string("/proc/sys/kernel/numa_balancing").expect("the guest's kernel has it");
    assert_ne!(balancing.trim(), "0");
    on_a_thread(|| {
        let tid = thread::current_tid();
        let _bound = thread::bind_current(&node_1()).expect("the node is there");
        let mut buffer = vec![1_u8; 16 << 20];
        // The kernel begins to look when the thread has run for a second, and may come by a shared
        // library's page on the other node first. The number of rounds only bounds a failure.
        let numa = (0..20_000_u32).find_map(|round| {
            buffer.iter_mut().step_by(4096).for_each(|byte| *byte = round as u8);
            ThreadUsage::of(tid).expect("it lives").numa.filter(|numa| numa.local() > 0)
        });
        let numa = numa.expect("faults on memory that was touched first on node 1, and lies there");
        assert!(numa.current.0 == 1 && numa.by_node.len() == 2, "{numa:?}");
    });
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_real_time_and_nice_set_and_put_back() {
    let _machine = machine();
    on_a_thread(|| {
        let tid = thread::current_tid();
        let before = thread::scheduling_of(tid).expect("readable");
        for class in [SchedulingClass::Fifo(10), SchedulingClass::RoundRobin(99), SchedulingClass::Idle] {
            let guard = ThreadPlacement::new().class(class).reset_on_fork(true).apply().expect("root may");
            let now = thread::scheduling_of(tid).expect("readable");
            assert_eq!((now.class, now.reset_on_fork, now.nice), (class, true, before.nice));
            assert_eq!(guard.outcome().scheduling, Some(Outcome::Applied(now)));
            assert_eq!(ThreadUsage::of(tid).expect("it lives").class, class);
            // The child begins in the usual class.
            let child = on_a_thread(|| thread::scheduling_of(thread::current_tid()).expect("readable").class);
            assert_eq!(child, if class.is_real_time() { SchedulingClass::Other } else { class });
            guard.restore().expect("nothing is in the way");
            assert_eq!(thread::scheduling_of(tid).expect("readable"), before);
        }
        let outer = ThreadPlacement::new().nice(-5).apply().expect("root may");
        let inner = ThreadPlacement::new().class(SchedulingClass::Fifo(1)).apply().expect("root may");
        // A real-time thread has a nice value that waits for it, and gets it back from under another.
        let usual = ThreadPlacement::new().class(SchedulingClass::Other).nice(7).apply().expect("root may");
        usual.restore().expect("nothing is in the way");
        let now = thread::scheduling_of(tid).expect("readable");
        assert_eq!((now.class, now.nice), (SchedulingClass::Fifo(1), -5));
        inner.restore().expect("nothing is in the way");
        outer.restore().expect("nothing is in the way");
        assert_eq!(thread::scheduling_of(tid).expect("readable"), before);
    });
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_limits_alone_allow_real_time_up_to_them() {
    const INSIDE: &str = "RAILS_BIND_TEST_LIMITED";
    if env::var_os(INSIDE).is_none() {
        let _machine = machine();
        let this_program = env::current_exe().expect("a test knows its program");
        let output = Command::new("prlimit")
            .args(["--rtprio=10:10", "--nice=25:25", "setpriv", "--bounding-set=-all", "--inh-caps=-all"])
            .arg(this_program)
            .args(["--exact", "threads::guest_limits_alone_allow_real_time_up_to_them", "--ignored", "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .expect("prlimit and setpriv are part of util-linux");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let class = |priority| ThreadPlacement::new().class(SchedulingClass::Fifo(priority)).apply();
    class(10).expect("within the limit").restore().expect("everyone may leave it");
    let error = class(11).expect_err("beyond the limit");
    assert!(matches!(error, BindError::Denied { .. }), "{error}");
    ThreadPlacement::new().nice(-5).apply().expect("within the limit").restore().expect("the limit allows it");
    assert!(matches!(ThreadPlacement::new().nice(-6).apply(), Err(BindError::Denied { .. })));
}
