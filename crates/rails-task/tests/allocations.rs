//! A submission and its run allocate nothing.

use rails_bind::thread::bind_current;
use rails_task::{Step, TaskOptions, TaskPriority, TaskQueues};
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
