//! Rails that run the tasks of queues, and help each other.

use crate::streams::{TOTAL, bytes};
use rails::{
    bind::thread,
    celeritas::CeleritasOptions,
    multirail::{
        MultiRailListener, MultiRailStream, RailId, RailRequest, Rails, Secret, Security, StreamOptions, plan_rails,
    },
    task::{Helpers, Step, TaskPriority, TaskQueues},
    topo::{Bandwidth, CpuId, CpuSet, Topology},
};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt, time::timeout};

fn secret() -> Secret {
    Secret::pre_shared(b"sixteen bytes!!!").unwrap()
}

/// Rails that run tasks, of `cores` cores each.
fn loopback(rails: usize, cores: usize) -> (Topology, TaskQueues, Rails) {
    let topology = Topology::detect().unwrap();
    let queues = TaskQueues::new(&topology, 256);
    let mut request = RailRequest::loopback(rails);
    request.cores = cores;
    let plan = plan_rails(&topology, &request).unwrap();
    let rails = Rails::build_with(&plan, |_, runtime| runtime.tasks(&queues)).unwrap();
    (topology, queues, rails)
}

/// Runs a task on these CPUs, and returns the CPU that it ran on.
fn run(queues: &TaskQueues, cpus: &CpuSet) -> CpuId {
    let ran_on = Arc::new(Mutex::new(None));
    let found = Arc::clone(&ran_on);
    let work = move || {
        *found.lock().unwrap() = thread::current_cpu().ok();
        Step::Done
    };
    let task = queues.task(cpus, TaskPriority::Normal, work).unwrap();
    task.submit().unwrap();
    let begun = Instant::now();
    while task.is_pending() {
        assert!(begun.elapsed() < PATIENCE, "no rail runs it");
        std::thread::sleep(Duration::from_micros(50));
    }
    ran_on.lock().unwrap().expect("it has run")
}

#[test]
fn tasks_wake_the_rail_of_their_cpu() {
    let (topology, queues, rails) = loopback(2, 1);
    for _ in 0..100 {
        for rail in rails.iter() {
            let cpu = rail.planned().cpu;
            assert_eq!(run(&queues, &CpuSet::single(cpu)), cpu);
        }
        run(&queues, topology.online_cpus());
    }
    // The work of the rail's runtime goes on all the while.
    let rail = &rails[RailId(0)];
    let slept = rail.runtime().block_on(|| async { tokio::time::sleep(Duration::from_millis(5)).await });
    assert!(slept.is_ok());
}

/// A rail that polls does so once before each sleep, and sleeps all the same.
#[test]
fn polling_tasks_keep_no_rail_awake() {
    let (_, queues, rails) = loopback(1, 1);
    let rail = &rails[RailId(0)];
    let runs = Arc::new(Mutex::new(0));
    let count = Arc::clone(&runs);
    // More of them than the tasks that run before each look for events.
    let poll = || {
        let count = Arc::clone(&count);
        move || {
            *count.lock().unwrap() += 1;
            Step::Again
        }
    };
    let cpu = CpuSet::single(rail.planned().cpu);
    let tasks: Vec<_> = (0..40).map(|_| queues.task(&cpu, TaskPriority::Normal, poll()).unwrap()).collect();
    tasks.iter().for_each(|task| task.submit().unwrap());
    let begun = Instant::now();
    while *runs.lock().unwrap() == 0 {
        assert!(begun.elapsed() < PATIENCE, "the rail does not poll");
        std::thread::yield_now();
    }
    let wakes = || rail.stats().usage.unwrap().voluntary_switches;
    let rest = |time| {
        let before = wakes();
        std::thread::sleep(time);
        wakes() == before
    };
    while !rest(Duration::from_millis(100)) {
        assert!(begun.elapsed() < PATIENCE, "the rail does not sleep");
    }
    let before = *runs.lock().unwrap();
    rail.runtime().block_on(|| async { tokio::time::sleep(Duration::from_millis(1)).await }).unwrap();
    assert!(*runs.lock().unwrap() > before, "it polls when it is about to sleep");
    assert!(tasks.iter().all(|task| task.cancel()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rail_that_moves_runs_the_tasks_of_its_new_cpu() {
    let (topology, queues, rails) = loopback(1, 1);
    let cpus: Vec<CpuId> = topology.allowed_cpus().iter().collect();
    for cpu in cpus.iter().copied().cycle().take(10) {
        let mut to = (*rails[RailId(0)].planned()).clone();
        to.cpu = cpu;
        rails.move_rail(to).await.unwrap();
        let queues = queues.clone();
        let ran_on = tokio::task::spawn_blocking(move || run(&queues, &CpuSet::single(cpu))).await.unwrap();
        assert_eq!(ran_on, cpu);
    }
}

#[test]
fn rail_has_the_helpers_of_its_further_cores() {
    let topology = Topology::detect().unwrap();
    if topology.allowed_cpus().len() < 2 {
        panic!("this test needs two CPUs, and this machine has one");
    }
    let (_, _, rails) = loopback(1, 2);
    let rail = &rails[RailId(0)];
    let helpers = rail.runtime().block_on(|| async { Helpers::current() }).unwrap();
    assert_eq!(helpers.unwrap().cpus(), rail.planned().task_cpus);
    let none = rail.task_runtimes()[0].block_on(|| async { Helpers::current() }).unwrap();
    assert!(none.is_none(), "the cores for tasks have none");

    let fast = || CeleritasOptions::fixed(Bandwidth::mbps(100_000)).security(Security::encrypted(secret()));
    let transfer = move || async move {
        let listener = fast().listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr();
        let options = fast();
        let (near, far) = tokio::join!(options.connect(address), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        let block = bytes::Bytes::from(vec![7; 10 << 20]);
        let begun = Instant::now();
        while near.stats().helpers.done == 0 {
            let sending = near.send(vec![block.clone()]).await.unwrap();
            let message = timeout(PATIENCE, far.receive()).await.unwrap().unwrap().unwrap();
            assert!(message.blocks.concat() == block);
            sending.await.unwrap();
            assert!(begun.elapsed() < PATIENCE, "nobody helps");
        }
        near.stats().helpers
    };
    let stats = rail.runtime().block_on(transfer).unwrap();
    assert!(stats.offered >= stats.done, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helpers_follow_a_rail_that_moves() {
    let (_, _, rails) = loopback(1, 2);
    let rail = &rails[RailId(0)];
    let current = || async { rail.runtime().spawn(async { Helpers::current() }).await.unwrap().unwrap() };
    let before = current().await;
    let mut to = (*rail.planned()).clone();
    let first = to.task_cpus.first().unwrap();
    (to.cpu, to.task_cpus) = (first, CpuSet::single(to.cpu));
    rails.move_rail(to.clone()).await.unwrap();
    let after = current().await;
    assert_eq!((after.cpus(), after.moves()), (to.task_cpus.clone(), 1));
    assert_eq!(before.moves(), 1, "those that a connection has know it");
    // The rail rests, also as its connections see it.
    let begun = Instant::now();
    while before.are_wanted(Instant::now()) {
        assert!(begun.elapsed() < PATIENCE, "an idle rail counts as busy");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A rail whose tasks leave no time has its further core send chunks, and no byte is lost.
#[tokio::test]
async fn busy_rail_has_chunks_sent_by_its_further_core() {
    let (_, _, rails) = loopback(1, 2);
    let rail = &rails[RailId(0)];
    // Work that gives way and comes back at once.
    let work = rail.runtime().spawn(async {
        loop {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(100) {
                std::hint::spin_loop();
            }
            tokio::task::yield_now().await;
        }
    });
    for security in [Security::psk(secret()), Security::encrypted(secret())] {
        let options = StreamOptions::new(security).join_grace(PATIENCE).handshake_timeout(PATIENCE);
        let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0"], &options).await.unwrap();
        let mut near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await.unwrap();
        let mut far = listener.accept().await.unwrap();
        let sent = bytes(TOTAL);
        let (begun, mut rounds) = (Instant::now(), 0);
        while near.stats().lanes[0].chunks_helped == 0 {
            let received = async {
                let mut at = 0;
                while at < sent.len() {
                    let bytes = far.read_bytes().await.unwrap().expect("more was sent");
                    assert!(bytes == sent[at..at + bytes.len()], "wrong bytes from {at} on in round {rounds}");
                    at += bytes.len();
                }
            };
            let (written, ()) = tokio::join!(near.write_bytes(sent.clone()), received);
            written.unwrap();
            rounds += 1;
            assert!(begun.elapsed() < PATIENCE, "nobody helps");
        }
        near.shutdown().await.unwrap();
        assert!(far.read_bytes().await.unwrap().is_none());
        far.shutdown().await.unwrap();
        let (near, far) = tokio::join!(near.close(), far.close());
        assert!(near.unwrap().lanes.iter().chain(&far.unwrap().lanes).all(|lane| lane.losses == 0));
    }
    work.abort();
}

/// A bound against hanging.
const PATIENCE: Duration = Duration::from_secs(60);
