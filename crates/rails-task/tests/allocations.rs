//! A submission and its run allocate nothing, and so do the offer and the return of a value.

use rails_bind::thread::bind_current;
use rails_task::{Helpers, Step, Taken, TaskOptions, TaskPriority, TaskQueues};
use rails_topo::{CpuSet, Topology};
use std::time::Duration;

#[test]
fn submission_and_run_allocate_nothing() {
    let topology = Topology::detect().expect("this machine can be read");
    let cpu = CpuSet::single(topology.allowed_cpus().first().expect("one is allowed"));
    let queues = TaskQueues::builder().capacity(8).timed(true).build(&topology);
    let _guard = bind_current(&cpu).expect("it is allowed");
    let runner = queues.attach().expect("it is a CPU of the machine");
    let dated = TaskOptions::new().run_within(Duration::from_nanos(1));
    let sets: Vec<_> = queues.objects().path(runner.object()).map(|id| queues.objects().get(id).cpus.clone()).collect();
    let mut tasks: Vec<_> = sets
        .iter()
        .map(|cpus| queues.task(cpus, TaskPriority::Normal, || Step::Done).expect("they are CPUs of the machine"))
        .collect();
    tasks.push(queues.task_with(&cpu, dated, || Step::Done).expect("it is a CPU of the machine"));
    let counted = allocation_counter::measure(|| {
        for task in tasks.iter().cycle().take(1000) {
            runner.submit(task).expect("there is room");
            runner.wait(task);
            runner.submit(task).expect("there is room");
            assert_eq!(runner.run().ran, 1);
        }
    });
    assert_eq!(counted.count_total, 0);
}

#[test]
fn offer_and_take_back_allocate_nothing() {
    let topology = Topology::detect().expect("this machine can be read");
    let queues = TaskQueues::new(&topology, 8);
    let runner = queues.attach().expect("it is a CPU of the machine");
    let helpers = Helpers::new(&queues, topology.online_cpus()).expect("they are CPUs of the machine");
    let mut job = helpers.job(|value: &mut u64| *value += 1);
    let counted = allocation_counter::measure(|| {
        for value in 0..1000 {
            job.offer(value).expect("there is room");
            runner.run();
            assert_eq!(job.take(), Taken::Done(value + 1));
        }
    });
    assert_eq!(counted.count_total, 0);
}
