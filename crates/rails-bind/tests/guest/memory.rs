//! Buffers lie on the nodes of their policy, on a machine with two nodes, before and after they
//! move, and while they are used.
//!
//! Every buffer is touched from a CPU of node 0, so that one without its policy would lie there:
//! pages on node 1 were put there.

use crate::machine::machine;
use rails_bind::{
    BindError, Outcome,
    memory::{
        self, BufferOptions, BufferPool, MemoryError, MemoryPolicy, NumaBuffer, Pages, PooledBuffer, Residency,
        process, residency_of,
    },
    thread::{self, ThreadGuard, Tid},
};
use rails_lab::guest::drop_caches;
use rails_topo::{CpuSet, NodeId, NodeSet};
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{
        MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::ScopedJoinHandle,
};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
const SIZE: usize = 8 * MIB;

/// The calling thread on a CPU of node 0, and no other test beside it.
struct Guest {
    _alone: MutexGuard<'static, ()>,
    _on_node_0: ThreadGuard,
}

fn guest() -> Guest {
    Guest { _alone: machine(), _on_node_0: on_node(0) }
}

/// Tells the other threads of a test to end, also when the test fails: it would wait for them for
/// ever otherwise.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until the other thread has counted to `goal`.
fn wait_for(counter: &AtomicU64, goal: u64, other: &ScopedJoinHandle<'_, ()>) {
    while counter.load(Ordering::Relaxed) < goal {
        assert!(!other.is_finished(), "the other thread gave up");
        std::thread::yield_now();
    }
}

/// Binds the calling thread to the CPUs of a node.
fn on_node(node: u32) -> ThreadGuard {
    let file = format!("/sys/devices/system/node/node{node}/cpulist");
    let cpus: CpuSet = fs::read_to_string(file).expect("the node is there").parse().expect("a list");
    thread::bind_current(&cpus).expect("its CPUs are online")
}

fn nodes(list: &str) -> NodeSet {
    list.parse().expect("a list")
}

fn bind(list: &str) -> MemoryPolicy {
    MemoryPolicy::Bind(nodes(list))
}

fn laid(bytes: usize, policy: MemoryPolicy) -> NumaBuffer {
    NumaBuffer::new(bytes, &BufferOptions::new().policy(policy).prefault(true)).expect("there is room")
}

fn residency(buffer: &NumaBuffer) -> Residency {
    buffer.residency().expect("it can be asked")
}

/// Whether every byte is `byte`, by slices: an unoptimized loop over bytes takes seconds in an
/// emulated machine.
fn is_filled(bytes: &[u8], byte: u8) -> bool {
    bytes.chunks(PAGE).all(|chunk| *chunk == [byte; PAGE][..chunk.len()])
}

/// A figure in one node's file, in bytes.
fn meminfo(node: u32, field: &str) -> usize {
    let text = fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo")).expect("the node is there");
    let line = text.lines().find(|line| line.contains(&format!(" {field}:"))).expect("the kernel says so");
    let kib: usize = line.split_whitespace().rev().nth(1).expect("a number").parse().expect("a number");
    kib * 1024
}

/// The available memory of a node: free, or in caches.
fn available(node: u32) -> usize {
    ["MemFree", "Active(file)", "Inactive(file)", "SReclaimable"].iter().map(|field| meminfo(node, field)).sum()
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_buffers_of_every_policy_lie_where_asked() {
    let _guest = guest();
    let half = (SIZE / PAGE / 2) as u64;
    for (policy, on_0, on_1) in [
        // The control: without a policy, a buffer lies where the thread is.
        (MemoryPolicy::Default, 2 * half, 0),
        (MemoryPolicy::Local, 2 * half, 0),
        (bind("0"), 2 * half, 0),
        (bind("1"), 0, 2 * half),
        (MemoryPolicy::Preferred(NodeId(1)), 0, 2 * half),
        (MemoryPolicy::PreferredMany(nodes("1")), 0, 2 * half),
        (MemoryPolicy::Interleave(nodes("0-1")), half, half),
        (MemoryPolicy::Interleave(nodes("1")), 0, 2 * half),
    ] {
        let buffer = laid(SIZE, policy.clone());
        let found = residency(&buffer);
        if policy == MemoryPolicy::Default {
            // The kernel may be balancing this memory, and then hides pages; no page is elsewhere, and none
            // absent.
            assert_eq!((found.pages_on(NodeId(1)), found.absent()), (0, 0), "{found}");
            continue;
        }
        assert_eq!(buffer.outcome(), &Outcome::Applied(policy.clone()));
        assert_eq!((found.pages_on(NodeId(0)), found.pages_on(NodeId(1))), (on_0, on_1), "{policy}: {found}");
        assert_eq!((found.absent(), found.unknown()), (0, 0), "{policy}: {found}");

        // Touched and not made beforehand, it is the same; strict ones are always made.
        let mut touched = NumaBuffer::new(SIZE, &BufferOptions::new().policy(policy.clone())).expect("there is room");
        touched.fill(1);
        let found = residency(&touched);
        assert_eq!((found.pages_on(NodeId(0)), found.pages_on(NodeId(1))), (on_0, on_1), "{policy}: {found}");
        // Another call of the kernel, about memory of any origin, says the same.
        assert_eq!(residency_of(&touched).expect("it can be asked"), found);
    }
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_local_memory_follows_the_thread() {
    let _guest = guest();
    for node in [1, 0] {
        let _there = on_node(node);
        let mut buffer = NumaBuffer::new(SIZE, &BufferOptions::new().policy(MemoryPolicy::Local)).expect("room");
        buffer.fill(1);
        assert!(residency(&buffer).is_all_on(&NodeSet::single(NodeId(node))));
        // The other node's pages come to the thread that asks.
        let far = laid(SIZE, bind(if node == 0 { "1" } else { "0" }));
        assert_eq!(far.rebind(&MemoryPolicy::Local).expect("room").moved, (SIZE / PAGE) as u64);
        assert!(residency(&far).is_all_on(&NodeSet::single(NodeId(node))));
    }
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_thread_policy_places_touched_pages() {
    let _guest = guest();
    let control = vec![1_u8; SIZE];
    assert_eq!(residency_of(&control).expect("it can be asked").pages_on(NodeId(1)), 0);
    let guard = memory::set_thread_policy(&bind("1")).expect("the node has memory");
    let bound = vec![1_u8; SIZE];
    assert!(residency_of(&bound[PAGE..SIZE - PAGE]).expect("it can be asked").is_all_on(&nodes("1")));
    guard.restore().expect("the former policy was the default");
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_weighted_interleaving_is_exact_or_refused() {
    let _guest = guest();
    let policy = MemoryPolicy::WeightedInterleave(nodes("0-1"));
    let options = BufferOptions::new().policy(policy.clone()).prefault(true);
    match (memory::interleave_weights(), memory::set_thread_policy(&policy), NumaBuffer::new(SIZE, &options)) {
        (Ok(weights), Ok(_guard), Ok(buffer)) => {
            let share = weights[&NodeId(1)] as u64 * (SIZE / PAGE) as u64 / weights.values().sum::<u32>() as u64;
            assert!(residency(&buffer).pages_on(NodeId(1)).abs_diff(share) <= 255, "{weights:?}");
        }
        // Before Linux 6.9, by each of the three ways.
        (
            Err(BindError::Unsupported { .. }),
            Err(BindError::Unsupported { .. }),
            Err(MemoryError::Policy(BindError::Unsupported { call: "mbind", .. })),
        ) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_move_to_interleave_as_the_kernel_does() {
    let _guest = guest();
    let buffer = laid(SIZE, MemoryPolicy::Interleave(nodes("0-1")));
    let by_kernel = residency(&buffer);
    let _ = buffer.rebind(&bind("0")).expect("there is room");
    let rebound = buffer.rebind(&MemoryPolicy::Interleave(nodes("0-1"))).expect("there is room");
    assert_eq!((rebound.moved, rebound.failed), ((SIZE / PAGE / 2) as u64, 0));
    assert_eq!(rebound.after, by_kernel);
    // Transparent huge pages go round as wholes.
    let huge = BufferOptions::new().pages(Pages::TransparentHuge).prefault(true);
    let buffer = NumaBuffer::new(SIZE, &huge.policy(MemoryPolicy::Interleave(nodes("0-1")))).expect("there is room");
    let by_kernel = residency(&buffer);
    let _ = buffer.rebind(&bind("1")).expect("there is room");
    let rebound = buffer.rebind(&MemoryPolicy::Interleave(nodes("0-1"))).expect("there is room");
    assert_eq!((rebound.after, rebound.failed), (by_kernel, 0));
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_buffer_moves_while_a_thread_writes_to_it() {
    let _guest = guest();
    let mut buffer = laid(SIZE, bind("0"));
    let binding = buffer.binding();
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let writer = scope.spawn(|| {
            let mut round = 0_u8;
            while !stop.load(Ordering::Relaxed) {
                round = round.wrapping_add(1);
                buffer.chunks_mut(PAGE).for_each(|page| page[..8].fill(round));
                let kept = buffer.chunks(PAGE).all(|page| page[..8] == [round; 8] && is_filled(&page[8..], 0));
                assert!(kept, "a page lost its content");
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let all = (SIZE / PAGE) as u64;
        for (policy, moved, on_1) in [
            (bind("1"), all, all),
            (bind("0"), all, 0),
            (MemoryPolicy::Interleave(nodes("0-1")), all / 2, all / 2),
            (MemoryPolicy::Preferred(NodeId(1)), all / 2, all),
            (MemoryPolicy::PreferredMany(nodes("0")), all, 0),
            (bind("1"), all, all),
            // Last, because with no policy of their own the kernel's NUMA balancing may move the pages to the writer.
            (MemoryPolicy::Default, 0, all),
        ] {
            let seen = rounds.load(Ordering::Relaxed);
            let rebound = binding.rebind(&policy).expect("there is room");
            let found = (rebound.moved, rebound.failed, rebound.after.pages_on(NodeId(1)));
            assert_eq!(found, (moved, 0, on_1), "{policy}: {} -> {}", rebound.before, rebound.after);
            assert_eq!(rebound.outcome, Outcome::Applied(policy.clone()));
            assert_eq!(binding.policy().expect("it can be read"), policy);
            // The writer goes on, on the moved pages; were they left behind, it would make new ones.
            wait_for(&rounds, seen + 2, &writer);
            let now = binding.residency().expect("it can be asked");
            assert!(policy == MemoryPolicy::Default || now == rebound.after, "{policy}: {} -> {now}", rebound.after);
        }
    });
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_buffer_moves_under_a_tcp_stream() {
    let _guest = guest();
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    let address = listener.local_addr().expect("it is bound");
    let mut buffer = laid(SIZE, bind("0"));
    let binding = buffer.binding();
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    // A prime period, so that a page in a wrong place does not look right.
    let pattern: Vec<u8> = (0..251 * 1024).map(|offset| (offset % 251) as u8).collect();
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            while !stop.load(Ordering::Relaxed) {
                stream.write_all(&pattern).expect("it is read");
            }
        });
        let reader = scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("it is connected");
            let mut offset = 0_usize;
            loop {
                // Round the buffer, so that every page is written by the kernel's copy from the socket.
                let start = offset % SIZE;
                let end = (start + 64 * 1024).min(SIZE);
                let read = stream.read(&mut buffer[start..end]).expect("the stream is open");
                if read == 0 {
                    break;
                }
                let right = buffer[start..start + read] == pattern[offset % 251..][..read];
                assert!(right, "bytes around {offset} are not those that were sent");
                offset += read;
                received.fetch_add(read as u64, Ordering::Relaxed);
            }
        });
        let all = (SIZE / PAGE) as u64;
        for (list, on_1) in [("1", all), ("0", 0), ("1", all)] {
            let seen = received.load(Ordering::Relaxed);
            wait_for(&received, seen + SIZE as u64, &reader);
            let rebound = binding.rebind(&bind(list)).expect("there is room");
            assert_eq!((rebound.moved, rebound.after.pages_on(NodeId(1))), (all, on_1), "{}", rebound.after);
        }
        let seen = received.load(Ordering::Relaxed);
        wait_for(&received, seen + SIZE as u64, &reader);
        assert!(binding.residency().expect("it can be asked").is_all_on(&nodes("1")));
    });
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_strict_memory_on_a_full_node() {
    let _guest = guest();
    let (wanted, rest) = (96 * MIB, 64 * MIB);
    drop_caches().expect("the guest's tests run as root");
    let filler = laid(meminfo(1, "MemFree") - rest, bind("1"));
    assert!(residency(&filler).is_all_on(&nodes("1")));
    let (free_0, free_1) = (meminfo(0, "MemFree"), meminfo(1, "MemFree"));

    // The control: memory that prefers the node spills over.
    let spilled = laid(wanted, MemoryPolicy::Preferred(NodeId(1)));
    let found = residency(&spilled);
    assert!(found.pages_on(NodeId(0)) > 0 && found.absent() == 0, "{found}");
    drop(spilled);

    // More than is free or could be freed is refused at once.
    let error = NumaBuffer::new(wanted.max(available(1) + MIB), &BufferOptions::new().policy(bind("1")));
    match error.expect_err("the node is full") {
        MemoryError::Exhausted { nodes: Some(of), .. } => assert_eq!(of, nodes("1")),
        other => panic!("{other}"),
    }
    // Less is tried, and refused once the node is down to the kernel's own reserve. This process is
    // alive then.
    let mut last = Vec::new();
    let error = loop {
        match NumaBuffer::new(MIB, &BufferOptions::new().policy(bind("1"))) {
            Ok(buffer) => {
                assert!(residency(&buffer).is_all_on(&nodes("1")));
                last.push(buffer);
            }
            Err(error) => break error,
        }
        // Cached files give way first, and their amount depends on earlier tests.
        assert!(last.len() < meminfo(1, "MemTotal") / MIB, "node 1 does not fill up");
    };
    println!("after {} MiB: {error}", last.len());
    assert!(matches!(error, MemoryError::Misplaced { .. } | MemoryError::Exhausted { .. }), "{error}");

    // A buffer in use that cannot move stays what it was, where it was.
    for bytes in [MIB, 16 * MIB] {
        let mut live = laid(bytes, MemoryPolicy::Interleave(nodes("0")));
        live[0] = 5;
        let before = residency(&live);
        let error = live.rebind(&bind("1")).expect_err("the node is full");
        assert!(matches!(error, MemoryError::Misplaced { .. } | MemoryError::Exhausted { .. }), "{error}");
        assert_eq!(live.policy().expect("it can be read"), MemoryPolicy::Interleave(nodes("0")));
        assert_eq!((residency(&live), live[0]), (before, 5));
        // A wish moves the buffers that find room, and names the others.
        let rebound = live.rebind(&MemoryPolicy::Preferred(NodeId(1))).expect("a wish is no demand");
        assert!(rebound.failed > 0, "{} -> {}", rebound.before, rebound.after);
        assert_eq!(rebound.after.pages_on(NodeId(0)), rebound.failed);
        assert_eq!(rebound.after.pages_on(NodeId(1)), rebound.moved);
    }
    // Nothing was left behind of what failed. Freed pages wait for a moment in lists of each CPU; and
    // files that made way on the full node were read anew into the other.
    drop(last);
    drop_caches().expect("the guest's tests run as root");
    for (node, before) in [(0, free_0), (1, free_1)] {
        let now = meminfo(node, "MemFree");
        assert!(now + 16 * MIB > before, "node {node} had {before} bytes free and has {now}");
    }

    // With room again, the same call succeeds.
    drop(filler);
    assert!(residency(&laid(wanted, bind("1"))).is_all_on(&nodes("1")));
}

fn reserve_huge_pages(node: u32, pages: u32) {
    let file = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages");
    fs::write(&file, pages.to_string()).expect("root reserves them");
    let got = fs::read_to_string(&file).expect("it can be read");
    assert_eq!(got.trim(), pages.to_string());
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_explicit_huge_pages_of_the_node() {
    let _guest = guest();
    let huge = BufferOptions::new().pages(Pages::Huge { page_bytes: 2 << 20 });
    for (policy, folder) in [(MemoryPolicy::Default, "/sys/kernel/mm/"), (bind("1"), "/sys/devices/system/node/node1/")]
    {
        match NumaBuffer::new(SIZE, &huge.clone().policy(policy)).expect_err("none are reserved") {
            MemoryError::NoHugePages { page_kib: 2048, pages: 4, file, .. } => assert!(file.starts_with(folder)),
            other => panic!("{other}"),
        }
    }
    reserve_huge_pages(1, 4);
    let buffer = NumaBuffer::new(SIZE - 1, &huge.clone().policy(bind("1"))).expect("four are reserved");
    let found = residency(&buffer);
    assert_eq!((buffer.capacity(), found.page_bytes(), found.pages()), (SIZE, 2 << 20, 4));
    assert_eq!((found.pages_on(NodeId(1)), found.bytes_on(NodeId(1)), found.absent()), (4, SIZE as u64, 0));
    drop(buffer);
    // The machine has four, but not on this node: they move there, with what they were made of, and no
    // touch ends in SIGBUS.
    let mut buffer = NumaBuffer::new(SIZE, &huge.clone().policy(bind("0"))).expect("four are reserved");
    buffer.fill(1);
    assert_eq!(residency(&buffer).pages_on(NodeId(0)), 4);
    drop(buffer);

    reserve_huge_pages(0, 4);
    reserve_huge_pages(1, 4);
    let mut buffer = NumaBuffer::new(SIZE, &huge.clone().policy(bind("1"))).expect("four are reserved");
    buffer.fill(7);
    let rebound = buffer.rebind(&bind("0")).expect("four are reserved there too");
    assert_eq!((rebound.moved, rebound.after.pages_on(NodeId(0))), (4, 4));
    let rebound = buffer.rebind(&MemoryPolicy::Interleave(nodes("0-1"))).expect("likewise");
    assert_eq!((rebound.failed, rebound.after.pages_on(NodeId(0))), (0, 2));
    assert!(is_filled(&buffer, 7));
    drop(buffer);
    reserve_huge_pages(0, 0);
    reserve_huge_pages(1, 0);
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_transparent_huge_pages_move_whole() {
    let _guest = guest();
    let huge = BufferOptions::new().pages(Pages::TransparentHuge).policy(bind("1"));
    let mut buffer = NumaBuffer::new(SIZE, &huge).expect("there is room");
    buffer.fill(3);
    assert_eq!(buffer.transparent_huge_bytes().expect("the kernel tells"), SIZE as u64);
    assert_eq!(residency(&buffer).pages_on(NodeId(1)), (SIZE / PAGE) as u64);
    let rebound = buffer.rebind(&bind("0")).expect("there is room");
    assert_eq!((rebound.moved, rebound.failed), ((SIZE / PAGE) as u64, 0));
    assert_eq!(buffer.transparent_huge_bytes().expect("the kernel tells"), SIZE as u64);
    assert!(is_filled(&buffer, 3));
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_locked_memory_is_locked_and_moves() {
    let _guest = guest();
    let locked = || {
        let status = fs::read_to_string("/proc/self/status").expect("it is there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("the kernel says so");
        line.trim().trim_end_matches("kB").trim().parse::<usize>().expect("a number") * 1024
    };
    let before = locked();
    let options = BufferOptions::new().policy(bind("1")).lock(true);
    let buffer = NumaBuffer::new(SIZE, &options).expect("root may lock");
    assert_eq!(locked() - before, SIZE);
    assert!(residency(&buffer).is_all_on(&nodes("1")));
    assert_eq!(buffer.rebind(&bind("0")).expect("there is room").moved, (SIZE / PAGE) as u64);
    assert_eq!(locked() - before, SIZE);
    drop(buffer);
    assert_eq!(locked(), before);
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_pool_moves_with_its_buffers_out() {
    let _guest = guest();
    let pool = BufferPool::new(64 << 10, 64, &BufferOptions::new().policy(bind("1"))).expect("there is room");
    assert!(pool.residency().expect("it can be asked").is_all_on(&nodes("1")));
    let mut out: Vec<PooledBuffer> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(out.len(), 64);
    for buffer in &mut out {
        buffer.fill(1);
        assert!(residency_of(buffer).expect("it can be asked").is_all_on(&nodes("1")));
    }
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let writer = scope.spawn(|| {
            let mut round = 1_u8;
            while !stop.load(Ordering::Relaxed) {
                assert!(out.iter().all(|buffer| is_filled(buffer, round)));
                round = round.wrapping_add(1);
                out.iter_mut().for_each(|buffer| buffer.fill(round));
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        for list in ["0", "1", "0"] {
            let seen = rounds.load(Ordering::Relaxed);
            let rebound = pool.rebind(&bind(list)).expect("there is room");
            assert_eq!((rebound.moved, rebound.failed), (rebound.after.pages(), 0));
            wait_for(&rounds, seen + 2, &writer);
            assert!(pool.residency().expect("it can be asked").is_all_on(&nodes(list)));
        }
    });
}

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_another_process_is_looked_at_and_moved() {
    let _guest = guest();
    let mut child = Command::new("sleep").arg("600").spawn().expect("sleep is there");
    let pid = Tid::from_raw(child.id() as i32).expect("it is above zero");
    // Before `exec`, and until the program has begun, its memory comes and goes.
    while !fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|at| at.contains("nanosleep")) {
        std::thread::yield_now();
    }
    let before = process::nodes_of(pid).expect("root may look");
    assert!(before.anonymous.get(&NodeId(0)).is_some_and(|bytes| *bytes > 0), "{before:?}");
    assert_eq!(process::migrate(pid, &nodes("0"), &nodes("1")).expect("root may move"), 0);
    let after = process::nodes_of(pid).expect("root may look");
    assert_eq!(after.anonymous.get(&NodeId(0)), None, "{after:?}");
    assert_eq!(after.anonymous[&NodeId(1)], before.anonymous.values().sum::<u64>());
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    assert!(matches!(process::nodes_of(pid), Err(MemoryError::NoSuchProcess { .. })));
    let gone = process::migrate(pid, &nodes("0"), &nodes("1"));
    assert!(matches!(gone, Err(MemoryError::NoSuchProcess { .. })), "{gone:?}");
}

/// Memory without a policy is what the kernel's NUMA balancing works on: it is marked, and pages
/// that are marked do not tell where they are, on some kernels. They move all the same.
#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_memory_that_the_kernel_balances_can_be_moved() {
    let _guest = guest();
    let mut buffer = laid(SIZE, MemoryPolicy::Default);
    let mut hidden = 0;
    // The kernel marks memory of threads that have used a second or so of CPU time.
    for round in 0..2000_u32 {
        buffer[..PAGE].fill(round as u8);
        hidden = hidden.max(residency(&buffer).unknown());
    }
    println!("{hidden} pages were hidden at most");
    let rebound = buffer.rebind(&bind("1")).expect("there is room");
    assert!(rebound.after.is_all_on(&nodes("1")), "{} -> {}", rebound.before, rebound.after);
}
