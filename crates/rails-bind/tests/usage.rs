//! The usage of a thread, read by another thread while it lives.

use rails_bind::{
    thread::{self, Tid},
    usage::{ProcessUsage, ThreadUsage, UsageError},
};
use rails_topo::CpuSet;
use std::{sync::mpsc, time::Duration};

#[test]
fn thread_is_read_from_outside_while_it_lives() {
    const ROUNDS: u64 = 5;
    let (announce, announced) = mpsc::channel();
    let (go_on, told) = mpsc::channel::<()>();
    let worker = std::thread::Builder::new().name("a) b (c".to_owned()).spawn(move || {
        let cpu = thread::current_affinity().expect("readable").last().expect("somewhere");
        let _guard = thread::bind_current(&CpuSet::single(cpu)).expect("the CPU is allowed");
        announce.send((thread::current_tid(), cpu)).expect("the test listens");
        while told.recv().is_ok() {
            // To sleep is to give the CPU up, which waiting for a message need not be.
            std::thread::sleep(Duration::from_millis(1));
            announce.send((thread::current_tid(), cpu)).expect("the test listens");
        }
    });
    let worker = worker.expect("a thread");
    let (tid, cpu) = announced.recv().expect("the thread speaks");
    let before = ThreadUsage::of(tid).expect("the thread lives");
    for _ in 0..ROUNDS {
        go_on.send(()).expect("the thread listens");
        announced.recv().expect("the thread speaks");
    }
    let after = ThreadUsage::of(tid).expect("the thread lives");
    assert_eq!(after.tid, tid);
    assert_eq!(after.last_cpu, cpu);
    assert!(after.voluntary_switches >= before.voluntary_switches + ROUNDS, "{before:?} {after:?}");
    assert!(after.involuntary_switches >= before.involuntary_switches);
    assert!(after.cpu_time > before.cpu_time && after.cpu_time > Some(Duration::ZERO), "{before:?} {after:?}");
    assert!(after.run_queue_wait >= before.run_queue_wait);

    drop(go_on);
    worker.join().expect("the thread does not panic");
}

#[test]
fn thread_that_is_not_there_is_named() {
    let absent = Tid::from_raw(i32::MAX).expect("above zero");
    let error = ThreadUsage::of(absent).expect_err("no thread has that number");
    assert!(matches!(error, UsageError::NoSuchThread { tid, .. } if tid == absent), "{error}");
    let of_another_process = Tid::from_raw(1).expect("above zero");
    assert!(matches!(ThreadUsage::of(of_another_process), Err(UsageError::NoSuchThread { .. })));
}

#[test]
fn process_uses_more_the_longer_it_works() {
    let before = ProcessUsage::current().expect("readable");
    let mut now = before;
    let mut sum = 0_u64;
    // Ends by itself: the loop is the work that is measured.
    while now.total() < before.total() + Duration::from_millis(5) {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        now = ProcessUsage::current().expect("readable");
    }
    assert!(now.user >= before.user && now.system >= before.system);
}
