//! Work that is offered to helpers, on real threads.

use rails_task::{Helpers, Taken, TaskQueues};
use rails_topo::{CpuSet, Topology};
use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

fn queues() -> (TaskQueues, CpuSet) {
    let topology = Topology::detect().unwrap();
    (TaskQueues::new(&topology, 16), topology.online_cpus().clone())
}

/// A thread that runs tasks until the queues are closed.
fn runner(queues: &TaskQueues) -> thread::JoinHandle<()> {
    let (queues, started) = (queues.clone(), Arc::new(Barrier::new(2)));
    let begins = Arc::clone(&started);
    let thread = thread::spawn(move || {
        let runner = queues.attach().unwrap();
        begins.wait();
        while !runner.is_closed() {
            if runner.run().ran == 0 {
                runner.sleep(None);
            }
        }
    });
    started.wait();
    thread
}

#[test]
fn values_come_back_done_or_untouched() {
    let (queues, cpus) = queues();
    let helpers = Helpers::new(&queues, &cpus).unwrap();
    let mut job = helpers.job(|value: &mut Box<u64>| **value += 1);
    assert_eq!(job.take(), Taken::Nothing);
    job.offer(Box::new(1)).unwrap();
    assert_eq!(job.offer(Box::new(7)), Err(Box::new(7)), "one value at a time");
    assert_eq!(job.take(), Taken::Untouched(Box::new(1)), "no thread runs tasks");

    let thread = runner(&queues);
    let mut done = 0;
    for round in 0..20_000 {
        job.offer(Box::new(round)).unwrap();
        let value = loop {
            match job.take() {
                // The helper gets time in some rounds.
                Taken::Untouched(value) if round % 4 == 0 => {
                    job.offer(value).unwrap();
                    thread::yield_now();
                }
                Taken::Untouched(value) => break *value + 1,
                Taken::Done(value) => {
                    done += 1;
                    break *value;
                }
                Taken::Running => thread::yield_now(),
                Taken::Nothing => panic!("the value of round {round} is lost"),
            }
        };
        assert_eq!(value, round + 1, "done once");
    }
    assert!(done >= 5_000, "{done}");
    queues.close();
    thread.join().unwrap();
    assert_eq!(job.offer(Box::new(1)), Err(Box::new(1)), "the queues are closed");
}

#[test]
fn work_that_panics_loses_its_value_alone() {
    let (queues, cpus) = queues();
    let helpers = Helpers::new(&queues, &cpus).unwrap();
    let live = Arc::new(());
    let mut job = helpers.job(|_: &mut Arc<()>| panic!("this work panics on purpose"));
    job.offer(Arc::clone(&live)).unwrap();
    let runner = queues.attach().unwrap();
    assert_eq!(runner.run().ran, 1);
    assert_eq!((job.take(), Arc::strong_count(&live)), (Taken::Nothing, 1));
    assert_eq!(job.offer(Arc::clone(&live)), Err(Arc::clone(&live)), "it is over");
}

#[test]
fn dropped_job_lets_go_of_its_value() {
    let (queues, cpus) = queues();
    let helpers = Helpers::new(&queues, &cpus).unwrap();
    let (live, runs) = (Arc::new(()), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&runs);
    let mut job = helpers.job(move |_: &mut Arc<()>| {
        count.fetch_add(1, Relaxed);
    });
    job.offer(Arc::clone(&live)).unwrap();
    drop(job);
    assert_eq!(Arc::strong_count(&live), 1);
    queues.attach().unwrap().run();
    assert_eq!(runs.load(Relaxed), 0);
}

#[test]
fn helpers_are_those_of_a_thread() {
    let (queues, cpus) = queues();
    assert!(Helpers::new(&queues, &CpuSet::new()).is_err());
    Helpers::set_current(Helpers::new(&queues, &cpus).ok());
    assert_eq!(Helpers::current().unwrap().cpus(), cpus);
    thread::spawn(|| assert!(Helpers::current().is_none())).join().unwrap();
    let helpers = Helpers::current().unwrap();
    let first: CpuSet = cpus.iter().take(1).collect();
    helpers.move_to(&first).unwrap();
    helpers.move_to(&first).unwrap();
    let beyond = CpuSet::single(rails_topo::CpuId(cpus.last().unwrap().0 + 1));
    assert!(helpers.move_to(&beyond).is_err());
    assert_eq!(Helpers::current().unwrap().cpus(), first);
    helpers.move_to(&CpuSet::new()).unwrap();
    assert!(helpers.cpus().is_empty() && !helpers.are_wanted(Instant::now()));
    drop(helpers.job(|_: &mut ()| {}));
    helpers.move_to(&first).unwrap();
    assert!(helpers.cpus() == first && helpers.are_wanted(Instant::now()));
    assert_eq!(Helpers::current().unwrap().moves(), u64::from(first != cpus));
    Helpers::set_current(None);
    assert!(Helpers::current().is_none());
}
