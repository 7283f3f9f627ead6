//! The cost of a doctor's run beside its waiting: 64 queues, 64 threads, 192 CPUs.
//!
//! Run: `cargo bench --bench doctor`
//!
//! The machine is written into a folder of `/dev/shm` ([`machine`]): one NIC with 129 interrupts,
//! spread over all CPUs, so that half of them are astray and every thread is far from most of them,
//! which is the longest report there is. The threads are real ones of this process, asleep. Files
//! in memory are read faster than the kernel's own, which are made anew at each reading.
//!
//! Target: `begin, 10 looks, end, report` with `the machine read` within 200 ms.
//!
//! Measured on 2 CPUs of an AMD EPYC in a virtual machine, Linux 6.18, with nothing else to do,
//! medians: the two together 0.41 of the target, 82 ms. The machine read 43 ms, begin 3.2, a look
//! 1.9, end 8.1, report 3.1, all but the first together 40; 64 interrupts moved and put back 3.7
//! ms. There is no rival.

mod machine;

use criterion::{Criterion, criterion_group, criterion_main};
use machine::{FIRST, QUEUES, VECTORS};
use rails::{
    bind::{
        affinity::Observer,
        settings::{Change, Host, Journal, Refusals},
        thread::{self, Tid},
    },
    topo::{CpuSet, Topology},
};
use std::{
    hint::black_box,
    sync::mpsc::{self, Sender},
    thread::JoinHandle,
    time::Duration,
};

fn doctor(criterion: &mut Criterion) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("there is memory for files");
    machine::write(folder.path());
    let host = Host::under(folder.path());
    let topology = Topology::from_sysfs_root(folder.path()).expect("it is a machine");
    let nic = topology.nic("eth0").expect("it has the NIC");
    assert_eq!((nic.interrupts.len(), nic.rx_queues.len()), (VECTORS as usize, QUEUES as usize));
    let sleepers = Sleepers::start(QUEUES as usize);

    let mut group = criterion.benchmark_group("doctor, 64 queues, 64 threads, 192 CPUs");
    group.sample_size(20);
    group.bench_function("the machine read", |bencher| {
        bencher.iter(|| Topology::from_sysfs_root(folder.path()).expect("it is a machine"));
    });
    group.bench_function("Topology::detect of this machine", |bencher| {
        bencher.iter(|| Topology::detect().expect("it can be read"));
    });
    let begin = || Observer::begin(&host, Some(nic), &sleepers.tids, Duration::ZERO).expect("it can be watched");
    group.bench_function("begin", |bencher| bencher.iter(begin));
    group.bench_function("look", |bencher| {
        let mut observer = begin();
        let mut at = Duration::ZERO;
        bencher.iter(|| {
            at += Duration::from_millis(20);
            observer.look(at);
        });
    });
    group.bench_function("end", |bencher| {
        bencher.iter_with_setup(begin, |observer| observer.end(Vec::new(), SECOND).expect("it can be read"));
    });
    let seen = begin().end(Vec::new(), SECOND).expect("it can be read");
    assert_eq!((seen.interrupts.len(), seen.threads.len()), (VECTORS as usize, QUEUES as usize));
    let report = seen.report(&topology);
    assert!(!report.interrupt.holds() && !report.thread.holds(), "{report}");
    group.bench_function("report", |bencher| bencher.iter(|| seen.report(&topology)));
    group.bench_function("report in words", |bencher| bencher.iter(|| report.to_string()));
    group.bench_function("begin, 10 looks, end, report", |bencher| {
        bencher.iter(|| {
            let mut observer = begin();
            (1..=10).for_each(|look| observer.look(SECOND * look / 10));
            observer.end(Vec::new(), SECOND).expect("it can be read").report(&topology)
        });
    });
    group.finish();
}

/// An interrupt of each queue is moved, read back and put back; the record goes to a journal in
/// memory, so that syncing it costs nothing but the calls.
fn settings(criterion: &mut Criterion) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("there is memory for files");
    machine::write(folder.path());
    let host = Host::under(folder.path());
    let journal = Journal::at(folder.path().join("run/rails")).expect("there is room");
    let to: CpuSet = "48-95".parse().expect("a list");
    let changes: Vec<Change> = (1..=QUEUES).map(|vector| Change::interrupt(FIRST + vector, to.clone())).collect();
    criterion.bench_function("64 interrupts moved, read back and put back", |bencher| {
        bencher.iter(|| {
            let guard = host.apply(&journal, black_box(&changes), Refusals::Fail).expect("it is allowed");
            guard.restore().expect("there is a way back")
        });
    });
}

/// Threads that do nothing until they are dropped.
struct Sleepers {
    tids: Vec<Tid>,
    _until: Vec<Sender<()>>,
    _threads: Vec<JoinHandle<()>>,
}

impl Sleepers {
    fn start(count: usize) -> Self {
        let (tell, told) = mpsc::channel();
        let start = |_| {
            let (until, end) = mpsc::channel::<()>();
            let tell = tell.clone();
            let thread = std::thread::spawn(move || {
                tell.send(thread::current_tid()).expect("somebody listens");
                // Ends when the other half is dropped.
                let _ = end.recv();
            });
            (until, thread)
        };
        let (until, threads) = (0..count).map(start).unzip();
        Self { tids: told.iter().take(count).collect(), _until: until, _threads: threads }
    }
}

const SECOND: Duration = Duration::from_secs(1);

criterion_group!(benches, doctor, settings);
criterion_main!(benches);
