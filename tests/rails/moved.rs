//! Rails that are moved while they run.

use crate::loopback;
use bytes::Bytes;
use rails::{
    bind::thread,
    multirail::{
        EventKind, FollowError, FollowOptions, MultiRailListener, MultiRailStream, RailEventKind, RailId, RailRequest,
        Rails, Security, StreamOptions, plan_rails,
        planner::{LocalEnd, PlannedRail},
        runtime::{MoveError, RailRuntimeBuilder},
    },
    topo::{CpuId, CpuSet, InterfaceAddress, Topology, monitor::MonitorOptions},
};
use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};
use tokio::io::AsyncWriteExt;

const LENGTH: u64 = 64 << 20;
const PIECE: usize = 1 << 20;

/// The byte at that place of the stream.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn options() -> StreamOptions {
    StreamOptions::new(Security::insecure()).join_grace(PATIENCE).handshake_timeout(PATIENCE)
}

async fn listen(rails: &Rails) -> MultiRailListener {
    let addresses: Vec<SocketAddr> =
        rails.iter().map(|rail| SocketAddr::new(rail.planned().address.unwrap(), 0)).collect();
    MultiRailListener::bind(rails, &addresses, &options()).await.unwrap()
}

/// Moves rail 0 from CPU to CPU, and its lane from address to address.
async fn move_about(rails: &Rails, stop: &AtomicBool) -> u64 {
    let cpus: Vec<CpuId> = thread::current_affinity().unwrap().iter().collect();
    let mut moves = 0;
    while !stop.load(Relaxed) || moves < 4 {
        for (cpu, last) in cpus.iter().copied().cycle().zip([9, 1]) {
            let mut to = (*rails[RailId(0)].planned()).clone();
            let address = [127, 0, 0, last].into();
            (to.cpu, to.address, to.end) = (cpu, Some(address), Some(LocalEnd::Address(address)));
            to.addresses = vec![InterfaceAddress { ip: address, prefix_len: 8 }];
            let placement = rails.move_rail(to).await.unwrap();
            moves += 1;
            assert_eq!(placement.cpus.as_ref().unwrap().got(), &CpuSet::single(cpu));
            assert_eq!(rails[RailId(0)].runtime().cpus_now().unwrap(), CpuSet::single(cpu));
            assert_eq!(rails[RailId(0)].moves(), moves);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    moves
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_survive_moves_of_cpu_and_lane() {
    let (_, theirs) = loopback(2);
    let (_, ours) = loopback(2);
    let listener = listen(&theirs).await;
    let mut near = MultiRailStream::connect(&ours, listener.local_addrs(), &options()).await.unwrap();
    let mut far = listener.accept().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (watched, rails) = (stop.clone(), ours.clone());
    let moving = tokio::spawn(async move { move_about(&rails, &watched).await });
    let reading = tokio::spawn(async move {
        let mut at = 0;
        while let Some(bytes) = far.read_bytes().await.unwrap() {
            assert!(bytes.iter().zip(at..).all(|(found, at)| *found == byte(at)), "wrong bytes from {at} on");
            at += bytes.len() as u64;
        }
        assert_eq!(at, LENGTH);
        far
    });
    for piece in 0..LENGTH / PIECE as u64 {
        let begin = piece * PIECE as u64;
        near.write_bytes(Bytes::from_iter((begin..begin + PIECE as u64).map(byte))).await.unwrap();
    }
    stop.store(true, Relaxed);
    assert!(moving.await.unwrap() >= 4);

    // After the last move the lane comes to its address.
    let address: IpAddr = [127, 0, 0, 1].into();
    wait_until(|| near.stats().lanes.iter().all(|lane| lane.up) && near.stats().lanes[0].local.ip() == address).await;
    let ended = |lane| {
        let events = near.events();
        events.iter().filter(|event| event.lane == Some(lane) && matches!(event.kind, EventKind::Ended { .. })).count()
    };
    assert!(ended(0) > 0, "{:?}", near.events());
    assert_eq!(ended(1), 0, "the lane of the other rail stays: {:?}", near.events());
    near.shutdown().await.unwrap();
    let far = reading.await.unwrap();
    let (near, far) = tokio::join!(near.close(), far.close());
    let (near, far) = (near.unwrap(), far.unwrap());
    assert_eq!((near.bytes_written, far.bytes_read), (LENGTH, LENGTH));
}

/// The lane goes to the address of the peer that pairs with the new place.
#[tokio::test]
async fn moved_lane_asks_the_peer_for_its_addresses() {
    let (_, theirs) = loopback(3);
    let (_, ours) = loopback(2);
    let listener = listen(&theirs).await;
    let remotes = &listener.local_addrs()[..2];
    let near = MultiRailStream::connect(&ours, remotes, &options()).await.unwrap();
    let far = listener.accept().await.unwrap();
    let mut to = (*ours[RailId(1)].planned()).clone();
    to.address = Some([127, 0, 0, 3].into());
    to.end = Some(LocalEnd::Address([127, 0, 0, 3].into()));
    to.addresses = vec![InterfaceAddress { ip: [127, 0, 0, 3].into(), prefix_len: 8 }];
    ours.move_rail(to).await.unwrap();
    let lane = || near.stats().lanes[1].clone();
    wait_until(|| lane().up && lane().local.ip() == IpAddr::from([127, 0, 0, 3])).await;
    assert!(near.lanes_up() == 2 && listener.local_addrs().iter().any(|address| address.socket == lane().remote));
    near.abort();
    drop(far);
}

/// As after the rail's CPU was offline for a moment.
#[tokio::test]
async fn binding_that_was_lost_is_made_again() {
    let (_, rails) = loopback(1);
    let rail = &rails[RailId(0)];
    let (anywhere, own) = (thread::current_affinity().unwrap(), CpuSet::single(rail.planned().cpu));
    thread::bind(rail.runtime().placement().tid, &anywhere).unwrap().keep();
    let mut events = rails.subscribe();
    rails.follow(&RailRequest::loopback(1), FollowOptions::new()).unwrap();
    if anywhere != own {
        let event = tokio::time::timeout(PATIENCE, events.recv()).await.expect("it is noticed").unwrap();
        assert!(event.to_string().contains("not bound to its CPUs any more"), "{event}");
    }
    assert_eq!(rail.runtime().cpus_now().unwrap(), own);
}

#[tokio::test]
async fn panic_of_the_callers_function_ends_the_following() {
    let (_, rails) = loopback(1);
    let mut events = rails.subscribe();
    let panics = |_: Topology| -> Topology { panic!("a fault of the caller's") };
    rails.follow(&RailRequest::loopback(1), FollowOptions::new().describe(panics)).unwrap();
    let event = tokio::time::timeout(PATIENCE, events.recv()).await.expect("it is told").unwrap();
    assert!(matches!(event.kind, RailEventKind::Ended { .. }), "{event}");
    wait_until(|| rails.follow(&RailRequest::loopback(1), FollowOptions::new()).is_ok()).await;
}

#[tokio::test]
async fn move_that_fails_leaves_the_rail_where_it_was() {
    let (_, rails) = loopback(2);
    let before = rails[RailId(1)].planned();
    let mut to = (*before).clone();
    to.cpu = CpuId(4000);
    let error = rails.move_rail(to).await.unwrap_err();
    assert!(matches!(error, MoveError::Bind { .. }), "{error}");
    assert_eq!(rails[RailId(1)].planned(), before);
    assert_eq!(rails[RailId(1)].runtime().cpus_now().unwrap(), CpuSet::single(before.cpu));
    assert_eq!(rails[RailId(1)].moves(), 0);

    rails.blocking_shutdown(PATIENCE).unwrap();
    let error = rails.move_rail((*before).clone()).await.err();
    assert!(error.is_none(), "there is nothing to do: {error:?}");
}

/// A thread that is busy is bound to its new CPU at once, and the rest is set when it is free.
#[tokio::test]
async fn occupied_rail_moves_all_the_same() {
    let (_, rails) = loopback(1);
    let rail = &rails[RailId(0)];
    let cpus = thread::current_affinity().unwrap();
    let (free, wait) = std::sync::mpsc::channel::<()>();
    let busy = rail.runtime().spawn(async move { wait.recv() });
    let mut to = (*rail.planned()).clone();
    to.cpu = cpus.iter().find(|cpu| *cpu != to.cpu).unwrap_or(to.cpu);
    let (is_another, target) = (to.cpu != rail.planned().cpu, CpuSet::single(to.cpu));
    let placement = rails.move_rail(to).await.unwrap();
    assert_eq!(rail.runtime().cpus_now().unwrap(), target);
    if is_another {
        assert!(placement.memory_node.is_err(), "it cannot have been read: {placement:?}");
    }
    free.send(()).unwrap();
    busy.await.unwrap().unwrap();
    wait_until(|| rail.runtime().placement().memory_node.is_ok()).await;
    assert_eq!(rail.runtime().placement().cpus.as_ref().unwrap().got(), &target);
}

#[test]
fn rails_follow_one_request_once() {
    let (_, rails) = loopback(2);
    let other = rails.follow(&RailRequest::loopback(3), FollowOptions::new()).unwrap_err();
    assert!(matches!(other, FollowError::OtherRails { wanted: 3, rails: 2 }), "{other}");
    rails.follow(&RailRequest::loopback(2), FollowOptions::new()).unwrap();
    let again = rails.follow(&RailRequest::loopback(2), FollowOptions::new()).unwrap_err();
    assert!(matches!(again, FollowError::Already), "{again}");
    rails.unfollow();
    rails.follow(&RailRequest::loopback(2), FollowOptions::new()).unwrap();
}

/// The test runs itself in a process in which no thread gets its stack.
#[test]
fn following_without_a_thread_is_refused_in_tasks() {
    const STACK: &str = "RUST_MIN_STACK";
    let too_large = (1_u64 << 60).to_string();
    if std::env::var(STACK).as_ref() != Ok(&too_large) {
        let name = "moved::following_without_a_thread_is_refused_in_tasks";
        let again =
            Command::new(std::env::current_exe().unwrap()).args([name, "--exact"]).env(STACK, too_large).output();
        let again = again.unwrap();
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
        return;
    }
    let mut plan = plan_rails(&Topology::detect().unwrap(), &RailRequest::loopback(1)).unwrap();
    plan.rails.clear();
    let rails = Rails::build(&plan).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(async { rails.follow(&RailRequest::auto(), FollowOptions::new()) }).unwrap_err();
    assert!(matches!(error, FollowError::Thread(_)), "{error}");
}

/// The thread that follows the machine wakes no rail.
#[test]
fn rails_sleep_while_they_follow() {
    let (_, rails) = loopback(2);
    let monitor = MonitorOptions::new().poll_interval(Duration::from_millis(100));
    rails.follow(&RailRequest::loopback(2), FollowOptions::new().monitor(monitor)).unwrap();
    let wakes =
        || -> Vec<u64> { rails.iter().map(|rail| rail.runtime().usage().unwrap().voluntary_switches).collect() };
    // Threads that have just been built may not sleep yet.
    std::thread::sleep(Duration::from_millis(200));
    let before = wakes();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(wakes(), before);
}

/// A set of one rail whose thread is occupied until the sender is used or dropped, and another CPU
/// for it if there is one.
fn occupied() -> (Rails, std::sync::mpsc::Sender<()>, Option<CpuId>) {
    let (_, rails) = loopback(1);
    let rail = &rails[RailId(0)];
    let (free, wait) = std::sync::mpsc::channel::<()>();
    let (begun, began) = std::sync::mpsc::channel::<()>();
    drop(rail.runtime().spawn(async move {
        begun.send(()).unwrap();
        let _ = wait.recv();
    }));
    began.recv().unwrap();
    let own = rail.planned().cpu;
    let other = thread::current_affinity().unwrap().iter().find(|cpu| *cpu != own);
    (rails, free, other)
}

fn on_cpu(rail: &PlannedRail, cpu: CpuId) -> PlannedRail {
    let mut rail = rail.clone();
    rail.cpu = cpu;
    rail
}

#[tokio::test]
async fn dropped_move_leaves_the_rail_where_it_was() {
    let (rails, free, other) = occupied();
    let Some(cpu) = other else { return };
    let rail = &rails[RailId(0)];
    let before = rail.planned();
    let to = on_cpu(&before, cpu);
    tokio::time::timeout(Duration::from_millis(50), rails.move_rail(to)).await.expect_err("the thread is occupied");
    assert_eq!(rail.runtime().cpus_now().unwrap(), CpuSet::single(before.cpu));
    assert_eq!((rail.planned(), rail.moves()), (before.clone(), 0));
    drop(free);
    wait_until(|| rail.runtime().placement().memory_node.is_ok()).await;
    assert_eq!(rail.runtime().placement().cpus.as_ref().unwrap().got(), &CpuSet::single(before.cpu));
    assert_eq!(rail.runtime().cpus_now().unwrap(), CpuSet::single(before.cpu));
}

#[tokio::test]
async fn move_under_way_is_carried_out_when_following_ends() {
    let (rails, free, other) = occupied();
    let Some(cpu) = other else { return };
    let rail = &rails[RailId(0)];
    let lost = CpuSet::single(rail.planned().cpu);
    let without = move |machine: Topology| {
        let left = machine.allowed_cpus().difference(&lost);
        machine.with_allowed(left)
    };
    rails.follow(&RailRequest::loopback(1), FollowOptions::new().describe(without)).unwrap();
    wait_until(|| rail.runtime().cpus_now().unwrap() != CpuSet::single(rail.planned().cpu)).await;
    rails.unfollow();
    drop(free);
    wait_until(|| rail.moves() == 1).await;
    assert_eq!(rail.runtime().cpus_now().unwrap(), CpuSet::single(rail.planned().cpu));
    assert!(rail.planned().cpu == cpu || thread::current_affinity().unwrap().len() > 2);
}

/// The rail's threads were not bound as the plan says, so the plan does not tell where they were.
#[tokio::test]
async fn failed_move_leaves_adjusted_threads_as_they_were() {
    let plan = plan_rails(&Topology::detect().unwrap(), &RailRequest::loopback(1)).unwrap();
    let cpus = thread::current_affinity().unwrap();
    let rails = Rails::build_with(&plan, |_, _| RailRuntimeBuilder::new("adjusted", cpus.clone())).unwrap();
    let to = on_cpu(&plan.rails[0], CpuId(4000));
    rails.move_rail(to).await.unwrap_err();
    assert_eq!(rails[RailId(0)].runtime().cpus_now().unwrap(), cpus);
}

/// The second move begins where the first one ends, not where the rail was when it was asked for.
#[tokio::test]
async fn lane_comes_back_by_a_move_that_waited_for_another() {
    let (_, theirs) = loopback(1);
    let (ours, free, other) = occupied();
    let Some(cpu) = other else { return };
    let home = ours[RailId(0)].planned();
    let address: IpAddr = [127, 0, 0, 9].into();
    let mut there = on_cpu(&home, cpu);
    (there.address, there.end) = (Some(address), Some(LocalEnd::Address(address)));
    there.addresses = vec![InterfaceAddress { ip: address, prefix_len: 8 }];
    let mut away = std::pin::pin!(ours.move_rail(there));
    let mut back = std::pin::pin!(ours.move_rail(on_cpu(&home, cpu)));
    for pending in [&mut away, &mut back] {
        assert!(std::future::poll_fn(|context| Poll::Ready(pending.as_mut().poll(context).is_pending())).await);
    }
    drop(free);
    let listener = listen(&theirs).await;
    away.await.unwrap();
    let near = MultiRailStream::connect(&ours, listener.local_addrs(), &options()).await.unwrap();
    let far = listener.accept().await.unwrap();
    let local = || near.stats().lanes[0].local.ip();
    assert_eq!(local(), address);
    back.await.unwrap();
    wait_until(|| near.lanes_up() == 1 && Some(local()) == home.address).await;
    near.abort();
    drop(far);
}

#[test]
fn rails_that_were_shut_down_follow_nothing() {
    let (_, rails) = loopback(1);
    rails.follow(&RailRequest::loopback(1), FollowOptions::new()).unwrap();
    rails.blocking_shutdown(PATIENCE).unwrap();
    rails.follow(&RailRequest::loopback(1), FollowOptions::new()).expect("it has ended");
}

async fn wait_until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it comes to be");
}

/// No sound program takes as long.
const PATIENCE: Duration = Duration::from_secs(30);
