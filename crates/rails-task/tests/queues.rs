//! Queues of described machines and of this one, with real threads.

use rails_bind::thread::{SchedulingClass, bind_current, current_cpu, current_tid, scheduling_of};
use rails_task::{
    AttachError, NewTaskError, ObjectId, Pass, Runner, Step, SubmitError, Task, TaskPriority, TaskQueues, TaskThread,
};
use rails_topo::{CpuId, CpuSet, Topology};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread,
};

/// The queues of this machine, and its first CPU that this process may use.
fn here(room: usize) -> (TaskQueues, CpuId) {
    let topology = Topology::detect().expect("this machine can be read");
    (TaskQueues::new(&topology, room), topology.allowed_cpus().first().expect("one is allowed"))
}

/// Runs `body` on a thread of its own that is bound to a CPU, as one that runs tasks.
fn on<R: Send>(queues: &TaskQueues, cpu: CpuId, body: impl FnOnce(&Runner) -> R + Send) -> R {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _guard = bind_current(&CpuSet::single(cpu)).expect("it is allowed");
            body(&queues.attach().expect("it is a CPU of the machine"))
        });
        thread.join().expect("it does not panic")
    })
}

fn counting(queues: &TaskQueues, cpus: &CpuSet) -> (Task, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let runs = Arc::clone(&count);
    let work = move || {
        runs.fetch_add(1, SeqCst);
        Step::Done
    };
    (queues.task(cpus, TaskPriority::Normal, work).expect("they are CPUs of the machine"), count)
}

#[test]
fn tasks_run_in_order_the_urgent_ones_first() {
    let (queues, cpu) = here(8);
    let order = Arc::new(Mutex::new(Vec::new()));
    let task = |name: &'static str, priority| {
        let order = Arc::clone(&order);
        let work = move || {
            order.lock().expect("no task panics").push(name);
            Step::Done
        };
        queues.task(&CpuSet::single(cpu), priority, work).expect("it is a CPU of the machine")
    };
    let tasks = [
        ("a", TaskPriority::Normal),
        ("b", TaskPriority::Normal),
        ("c", TaskPriority::High),
        ("d", TaskPriority::High),
    ];
    let tasks = tasks.map(|(name, priority)| task(name, priority));
    on(&queues, cpu, |runner| {
        tasks.iter().for_each(|task| task.submit().expect("there is room"));
        assert!(tasks[0].submit().is_ok(), "it is queued already");
        assert_eq!(runner.run().ran, 4);
        assert_eq!(runner.run(), Pass::default());
    });
    assert_eq!(*order.lock().expect("no task panics"), ["c", "d", "a", "b"]);
    let stats = queues.stats(tasks[0].home());
    assert_eq!((stats.submitted, stats.run_here, stats.run_below, stats.waiting), (4, 4, 0, 0));
}

#[test]
fn cpus_outside_the_machine_are_refused() {
    let queues = TaskQueues::new(&Topology::synthetic("package:2 core:2 pu:1", Vec::new()).expect("it is one"), 8);
    let none = queues.task(&CpuSet::default(), TaskPriority::Normal, || Step::Done);
    assert_eq!(none.expect_err("it has no CPU"), NewTaskError::NoCpu);
    let outside: CpuSet = "3-4".parse().expect("a set");
    let refused = queues.task(&outside, TaskPriority::Normal, || Step::Done);
    assert!(matches!(refused, Err(NewTaskError::Outside { .. })), "{refused:?}");
    let small = TaskQueues::new(&Topology::synthetic("pu:1", Vec::new()).expect("it is one"), 8);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (_, cpu) = here(1);
            let _guard = bind_current(&CpuSet::single(cpu)).expect("it is allowed");
            match small.attach() {
                Ok(_) => assert_eq!(cpu, CpuId(0)),
                Err(error) => assert!(matches!(error, AttachError::Outside { .. }), "{error:?}"),
            }
        });
    });
}

/// A machine with two CPUs behind this thread's. This thread runs no task that only those may run,
/// also if the task waits in the queue of the whole machine.
#[test]
fn partial_set_waits_at_the_object_around_it() {
    let (_, cpu) = here(1);
    let all = Topology::synthetic(&format!("core:{} pu:1", cpu.0 + 3), Vec::new()).expect("it is one");
    let queues = TaskQueues::new(&all, 2);
    let (task, count) = counting(&queues, &[CpuId(cpu.0 + 1), CpuId(cpu.0 + 2)].into_iter().collect());
    assert_eq!(queues.objects().get(task.home()).cpus, *all.online_cpus());
    on(&queues, cpu, |runner| {
        task.submit().expect("there is room");
        assert_eq!(runner.run().ran, 0, "this CPU is not in the set");
        assert!(task.is_pending() && queues.stats(task.home()).waiting == 1);
        runner.sleep(Some(std::time::Duration::ZERO));
        assert_eq!(runner.run().ran, 0);
    });
    assert_eq!(count.load(SeqCst), 0);
}

#[test]
fn full_queues_refuse_and_lose_nothing() {
    let (queues, cpu) = here(2);
    let set = CpuSet::single(cpu);
    let objects = queues.objects();
    let around = objects.path(objects.of_cpu(cpu).expect("it is one")).count();
    // Each object around has room for two more.
    let tasks: Vec<_> = (0..2 + 2 * around).map(|_| counting(&queues, &set)).collect();
    tasks.iter().for_each(|(task, _)| task.submit().expect("there is room"));
    let (late, late_count) = counting(&queues, &set);
    assert_eq!(late.submit(), Err(SubmitError::Full));
    assert!(!late.is_pending());
    on(&queues, cpu, |runner| {
        while runner.run().ran > 0 {}
        late.submit().expect("there is room now");
        runner.wait(&late);
    });
    assert!(tasks.iter().all(|(_, count)| count.load(SeqCst) == 1));
    assert_eq!(late_count.load(SeqCst), 1);
}

#[test]
fn cancelled_and_masked_tasks_do_not_run() {
    let (queues, cpu) = here(8);
    let set = CpuSet::single(cpu);
    let ((cancelled, cancelled_count), (masked, masked_count)) = (counting(&queues, &set), counting(&queues, &set));
    on(&queues, cpu, |runner| {
        cancelled.submit().expect("there is room");
        masked.submit().expect("there is room");
        masked.mask();
        assert!(cancelled.cancel() && !cancelled.is_pending() && !cancelled.cancel());
        runner.wait(&cancelled);
        assert_eq!(runner.run().ran, 0);
        assert_eq!(cancelled.submit(), Err(SubmitError::Over));
        assert!(masked.is_pending() && masked.submit().is_ok());
        masked.unmask();
        assert_eq!(runner.run().ran, 1);
    });
    assert_eq!((cancelled_count.load(SeqCst), masked_count.load(SeqCst)), (0, 1));
}

#[test]
fn panic_ends_its_task_alone() {
    let (queues, cpu) = here(8);
    let set = CpuSet::single(cpu);
    let bad = queues.task(&set, TaskPriority::Normal, || panic!("a task's own fault")).expect("it is a CPU");
    let (good, count) = counting(&queues, &set);
    on(&queues, cpu, |runner| {
        bad.submit().expect("there is room");
        good.submit().expect("there is room");
        runner.wait(&bad);
        runner.wait(&good);
    });
    assert!(bad.has_panicked() && bad.is_over() && bad.submit() == Err(SubmitError::Over));
    assert_eq!(count.load(SeqCst), 1);
}

#[test]
fn closed_queues_end_what_waits() {
    let (queues, cpu) = here(8);
    let (task, count) = counting(&queues, &CpuSet::single(cpu));
    task.submit().expect("there is room");
    thread::scope(|scope| {
        // No thread runs it: the wait ends because the queues do.
        let waiting = scope.spawn(|| {
            let unbound = queues.attach().expect("it is of this machine");
            if queues.objects().get(unbound.object()).cpus.len() > 1 {
                unbound.wait(&task);
            }
        });
        queues.close();
        waiting.join().expect("it does not panic");
    });
    assert!(!task.is_pending());
    assert_eq!((task.submit(), count.load(SeqCst)), (Err(SubmitError::Closed), 0));
}

/// A worker sleeps until a task comes, and goes on with one that polls until it is done.
#[test]
fn worker_wakes_and_polls() {
    let (queues, cpu) = here(8);
    let object = queues.objects().of_cpu(cpu).expect("it is one");
    let worker = TaskThread::idle(&queues, object).expect("it can be placed");
    assert_eq!(worker.object(), object);
    let (told, news) = mpsc::channel();
    let left = AtomicU64::new(1000);
    let work = move || {
        if left.fetch_sub(1, SeqCst) > 1 {
            return Step::Again;
        }
        let class = scheduling_of(current_tid()).expect("it lives").class;
        told.send((current_cpu().expect("it runs"), class)).expect("the test waits");
        left.store(1000, SeqCst);
        Step::Done
    };
    let task = queues.task(&CpuSet::single(cpu), TaskPriority::Normal, work).expect("it is a CPU");
    for _ in 0..20 {
        task.submit().expect("there is room");
        assert_eq!(news.recv().expect("it runs"), (cpu, SchedulingClass::Idle));
    }
    drop(worker);
    task.submit().expect("there is room");
    assert!(task.is_pending(), "nobody runs it");
}

/// Threads on each CPU and one that may run anywhere, and tasks of every set of two CPUs: none runs
/// outside its set, and each submission is followed by a run.
#[test]
fn no_task_runs_outside_its_cpus() {
    let topology = Topology::detect().expect("this machine can be read");
    let queues = TaskQueues::new(&topology, 4);
    let cpus: Vec<CpuId> = topology.allowed_cpus().iter().take(4).collect();
    let workers: Vec<_> = cpus.iter().filter_map(|cpu| queues.objects().of_cpu(*cpu)).collect();
    let machine = queues.objects().iter().next().map(|(id, _)| id);
    let workers: Vec<_> = workers.into_iter().chain(machine).collect();
    let is_whole = topology.allowed_cpus() == topology.online_cpus();
    let start = |object: &ObjectId| TaskThread::idle(&queues, *object).expect("it can be placed");
    let workers: Vec<_> = workers.iter().take(cpus.len() + usize::from(is_whole)).map(start).collect();
    let has_strayed = Arc::new(AtomicBool::new(false));
    let sets: Vec<CpuSet> =
        cpus.iter().flat_map(|one| cpus.iter().map(move |other| [*one, *other].into_iter().collect())).collect();
    thread::scope(|scope| {
        for set in &sets {
            let (queues, has_strayed) = (&queues, Arc::clone(&has_strayed));
            scope.spawn(move || {
                let runs = Arc::new(AtomicU64::new(0));
                let (counted, allowed) = (Arc::clone(&runs), set.clone());
                let work = move || {
                    let cpu = current_cpu().expect("it runs");
                    has_strayed.fetch_or(!allowed.contains(cpu), SeqCst);
                    counted.fetch_add(1, SeqCst);
                    Step::Done
                };
                let task = queues.task(set, TaskPriority::Normal, work).expect("they are CPUs of the machine");
                for _ in 0..2_000 {
                    let before = runs.load(SeqCst);
                    while task.submit() == Err(SubmitError::Full) {
                        thread::yield_now();
                    }
                    while runs.load(SeqCst) == before {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    drop(workers);
    assert!(!has_strayed.load(SeqCst));
}
