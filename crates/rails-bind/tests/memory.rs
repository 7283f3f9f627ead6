//! Buffers and pools on the nodes of this machine: made, read and moved.

use proptest::prelude::*;
use rails_bind::{
    BindError, Outcome,
    memory::{
        self, BufferOptions, BufferPool, MemoryError, MemoryPolicy, NumaBuffer, PageState, Pages, PooledBuffer,
        process, residency_of,
    },
    thread::Tid,
};
use rails_topo::{NodeId, NodeSet};
use std::{collections::HashMap, fs::File, os::unix::process::CommandExt, process::Command, sync::mpsc, thread};

const MIB: usize = 1 << 20;

/// A node that this process may take memory from.
fn node() -> NodeId {
    let written = vec![1_u8; 64];
    memory::node_of_page(&written).expect("the page was written")
}

fn tid(number: u32) -> Tid {
    Tid::from_raw(number as i32).expect("it is above zero")
}

fn bound() -> MemoryPolicy {
    MemoryPolicy::Bind(NodeSet::single(node()))
}

fn options(policy: MemoryPolicy) -> BufferOptions {
    BufferOptions::new().policy(policy)
}

fn buffer(options: &BufferOptions) -> NumaBuffer {
    NumaBuffer::new(4 * MIB, options).expect("four megabytes can be had")
}

#[test]
fn buffers_of_every_policy_on_their_nodes() {
    let nodes = NodeSet::single(node());
    for policy in [
        MemoryPolicy::Default,
        MemoryPolicy::Local,
        MemoryPolicy::Preferred(node()),
        MemoryPolicy::PreferredMany(nodes.clone()),
        MemoryPolicy::Interleave(nodes.clone()),
        bound(),
    ] {
        let mut buffer = buffer(&options(policy.clone()).prefault(true));
        assert_eq!(buffer.outcome(), &Outcome::Applied(policy.clone()));
        assert_eq!(buffer.policy().expect("it can be read"), policy);
        let residency = buffer.residency().expect("it can be asked");
        assert_eq!((residency.absent(), residency.unknown()), (0, 0), "{policy}: {residency}");
        assert!(matches!(policy, MemoryPolicy::Default | MemoryPolicy::Local) || residency.is_all_on(&nodes));
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer.fill(1);
        assert_eq!(buffer.residency().expect("it can be asked"), residency);
    }
}

#[test]
fn weighted_interleaving_is_there_or_said_not_to_be() {
    let nodes = NodeSet::single(node());
    let wanted = options(MemoryPolicy::WeightedInterleave(nodes.clone())).prefault(true);
    match (memory::interleave_weights(), NumaBuffer::new(MIB, &wanted)) {
        (Ok(weights), Ok(buffer)) => {
            assert!(weights.get(&node()).is_some_and(|weight| *weight > 0), "{weights:?}");
            assert!(buffer.residency().expect("it can be asked").is_all_on(&nodes));
            assert_eq!(buffer.rebind(&bound()).expect("there is room").failed, 0);
        }
        (Err(BindError::Unsupported { .. }), Err(MemoryError::Policy(BindError::Unsupported { .. }))) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn asking_makes_no_page() {
    let mut buffer = buffer(&BufferOptions::new());
    let pages = buffer.residency().expect("it can be asked").pages();
    for _ in 0..2 {
        let residency = buffer.residency().expect("it can be asked");
        assert_eq!((residency.absent(), residency.nodes()), (pages, NodeSet::new()));
    }
    // The shared page of zeros is no page of the buffer.
    assert_eq!(buffer[3 * 4096], 0);
    buffer[5 * 4096] = 1;
    let residency = buffer.residency().expect("it can be asked");
    assert_eq!((residency.absent(), residency.page(3)), (pages - 1, Some(PageState::Absent)));
    assert!(matches!(residency.page(5), Some(PageState::OnNode(_))));
}

#[test]
fn residency_of_much_memory_page_by_page() {
    // So much that several threads share the asking, where there are CPUs for them.
    let mut buffer = NumaBuffer::new(300 * MIB + 4096, &options(MemoryPolicy::Local)).expect("there is room for it");
    let page_bytes = buffer.residency().expect("it can be asked").page_bytes();
    let pages = buffer.len() / page_bytes;
    let touched = [0, 1, pages / 4 - 1, pages / 4, pages / 3, pages / 2 - 1, pages / 2, 3 * pages / 4, pages - 1];
    for page in touched {
        buffer[page * page_bytes] = 1;
    }
    let residency = buffer.residency().expect("it can be asked");
    assert_eq!((residency.pages(), residency.absent()), (pages as u64, (pages - touched.len()) as u64));
    let there: Vec<usize> = (0..pages).filter(|page| residency.page(*page) != Some(PageState::Absent)).collect();
    assert_eq!(there, touched.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>());
}

#[test]
fn memory_of_any_origin_can_be_asked_about() {
    let heap = vec![1_u8; 3 * 4096];
    let residency = residency_of(&heap[1..8192]).expect("it can be asked");
    assert!((2..=3).contains(&residency.pages()) && residency.absent() == 0, "{residency}");
    assert_eq!(residency_of(&heap[..1]).expect("it can be asked").pages(), 1);
}

#[test]
fn strict_policy_makes_every_page_first() {
    let residency = buffer(&options(bound())).residency().expect("it can be asked");
    assert!(residency.is_all_on(&NodeSet::single(node())), "{residency}");
    let later = buffer(&BufferOptions::new());
    let rebound = later.rebind(&bound()).expect("there is room");
    assert_eq!((rebound.before.absent(), rebound.after.absent(), rebound.failed), (rebound.after.pages(), 0, 0));
    assert_eq!(rebound.outcome, Outcome::Applied(bound()));
}

#[test]
fn buffer_rounds_up_to_pages_and_says_so() {
    let buffer = NumaBuffer::new(5000, &BufferOptions::new()).expect("little can be had");
    assert_eq!((buffer.len(), buffer.capacity()), (5000, 8192));
}

#[test]
fn sizes_and_policies_that_cannot_be_had_are_named() {
    let plain = BufferOptions::new();
    assert!(matches!(NumaBuffer::new(0, &plain), Err(MemoryError::Zero { .. })));
    for bytes in [1 << 50, isize::MAX as usize, usize::MAX] {
        for options in [&plain, &options(bound()), &plain.clone().pages(Pages::TransparentHuge)] {
            let error = NumaBuffer::new(bytes, options).expect_err("no machine has as much");
            assert!(matches!(error, MemoryError::BeyondMemory { .. }), "{error}");
        }
    }
    let error = NumaBuffer::new(MIB, &options(MemoryPolicy::Bind(NodeSet::new()))).expect_err("no nodes");
    assert!(matches!(error, MemoryError::Policy(BindError::EmptySet { .. })), "{error}");
    for absent in [1000, 5000] {
        let error = NumaBuffer::new(MIB, &options(MemoryPolicy::Preferred(NodeId(absent)))).expect_err("no such node");
        assert!(matches!(error, MemoryError::Policy(BindError::NodesUnusable { .. })), "{error}");
    }
    let huge = plain.pages(Pages::Huge { page_bytes: 12345 });
    let error = NumaBuffer::new(MIB, &huge).expect_err("no such size");
    assert!(matches!(error, MemoryError::HugePageSize { bytes: 12345, .. }), "{error}");
}

#[test]
fn nodes_that_the_kernel_drops_are_reported() {
    let wanted = MemoryPolicy::Bind([node(), NodeId(1000)].into_iter().collect());
    let buffer = buffer(&options(wanted.clone()));
    assert_eq!(buffer.outcome(), &Outcome::Partial { wanted, got: bound() });
}

#[test]
fn refused_rebinding_changes_nothing() {
    let mut buffer = buffer(&options(MemoryPolicy::Preferred(node())).prefault(true));
    buffer.fill(9);
    let residency = buffer.residency().expect("it can be asked");
    for wrong in [MemoryPolicy::Bind(NodeSet::new()), MemoryPolicy::Interleave(NodeSet::single(NodeId(1000)))] {
        let error = buffer.rebind(&wrong).expect_err("it cannot be had");
        assert!(matches!(error, MemoryError::Policy(_)), "{error}");
    }
    assert_eq!(buffer.policy().expect("it can be read"), MemoryPolicy::Preferred(node()));
    assert_eq!(buffer.residency().expect("it can be asked"), residency);
    assert!(buffer.iter().all(|byte| *byte == 9));
}

#[test]
fn memory_binding_outlives_its_buffer() {
    let buffer = buffer(&BufferOptions::new().prefault(true));
    let binding = buffer.binding();
    drop(buffer);
    assert_eq!(binding.residency().expect("it is still mapped").absent(), 0);
}

#[test]
fn transparent_huge_pages_are_aligned_and_counted() {
    let huge = BufferOptions::new().pages(Pages::TransparentHuge).prefault(true);
    match NumaBuffer::new(3 * MIB, &huge) {
        Ok(buffer) => {
            assert_eq!(buffer.as_ptr().addr() % (2 * MIB), 0);
            let found = buffer.transparent_huge_bytes().expect("the kernel tells");
            assert!(found as usize <= buffer.capacity() && found.is_multiple_of(2 << 20), "{found}");
            let residency = buffer.residency().expect("it can be asked");
            assert_eq!((residency.pages() as usize * 4096, residency.absent()), (buffer.capacity(), 0));
        }
        Err(error) => assert!(matches!(error, MemoryError::NoTransparentHugePages { .. }), "{error}"),
    }
    let small = buffer(&BufferOptions::new().prefault(true));
    assert_eq!(small.transparent_huge_bytes().expect("the kernel tells"), 0);
}

/// Runs one test again, in a process that has no privilege and may lock one megabyte.
fn again_without_privilege(name: &str) {
    // `sh` lowers the limit, so that it is not lowered for the other tests of this process. The program
    // is handed to it open: it may lie where another user cannot go.
    let program = std::env::current_exe().and_then(File::open).expect("it runs");
    let mut child = Command::new("sh");
    child.args(["-c", "ulimit -l 1024 && exec /proc/self/fd/0 --exact \"$0\" --nocapture", name]);
    child.stdin(program).env(AGAIN, "1");
    if nix::unistd::Uid::effective().is_root() {
        child.uid(65534).gid(65534);
    }
    let output = child.output().expect("a shell is there");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

fn is_again() -> bool {
    std::env::var_os(AGAIN).is_some()
}

const AGAIN: &str = "RAILS_TEST_WITHOUT_PRIVILEGE";

#[test]
fn lock_beyond_the_limit_names_the_limit() {
    if !is_again() {
        return again_without_privilege("lock_beyond_the_limit_names_the_limit");
    }
    let locked = BufferOptions::new().lock(true);
    let within = NumaBuffer::new(64 << 10, &locked).expect("it is within the limit");
    assert_eq!(within.residency().expect("it can be asked").absent(), 0);
    match NumaBuffer::new(64 * MIB, &locked) {
        Err(MemoryError::LockRefused { limit: Some(limit), .. }) => assert_eq!(limit, 1 << 20),
        other => panic!("{other:?}"),
    }
}

#[test]
fn process_of_another_user_is_refused_by_name() {
    if !is_again() {
        return again_without_privilege("process_of_another_user_is_refused_by_name");
    }
    let nodes = NodeSet::single(node());
    for (error, needed) in [
        (process::nodes_of(tid(1)).expect_err("it is root's"), "CAP_SYS_PTRACE"),
        (process::migrate(tid(1), &nodes, &nodes).expect_err("it is root's"), "CAP_SYS_NICE"),
    ] {
        match error {
            MemoryError::NotPermitted { pid, capability, .. } => assert_eq!((pid, capability), (tid(1), needed)),
            other => panic!("{other}"),
        }
    }
    // All of a buffer's own operations need none.
    let buffer = buffer(&options(bound()));
    assert_eq!(buffer.rebind(&MemoryPolicy::Local).expect("there is room").failed, 0);
    assert_eq!(process::migrate(tid(std::process::id()), &nodes, &nodes).expect("it is ours"), 0);
}

#[test]
fn bounded_pool_across_threads() {
    let pool = BufferPool::new(1000, 3, &options(bound())).expect("a page can be had");
    assert_eq!((pool.capacity(), pool.available(), pool.buffer_bytes()), (3, 3, 1000));
    let out: Vec<PooledBuffer> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!((out.len(), pool.available()), (3, 0));
    assert!(out.iter().all(|buffer| buffer.len() == 1000 && buffer.as_ptr().addr().is_multiple_of(64)));
    thread::spawn(move || drop(out)).join().expect("giving back does not panic");
    assert_eq!(pool.available(), 3);
    assert!(pool.residency().expect("it can be asked").is_all_on(&NodeSet::single(node())));
}

#[test]
fn a_zeroed_buffer_has_nothing_of_its_last_owner() {
    let pool = BufferPool::new(1000, 1, &BufferOptions::new()).expect("a page can be had");
    pool.take().expect("it is free").fill(7);
    assert_eq!(pool.take().expect("it is free")[..], [7; 1000], "as documented");
    assert_eq!(pool.take_zeroed().expect("it is free")[..], [0; 1000]);
    let out = pool.take();
    assert!(pool.take_zeroed().is_none());
    drop(out);
}

#[test]
fn buffer_outlives_its_pool() {
    let pool = BufferPool::new(100, 1, &BufferOptions::new()).expect("a page can be had");
    let mut buffer = pool.take().expect("none is out");
    drop(pool);
    buffer.fill(3);
    let bytes = bytes::Bytes::from_owner(buffer);
    assert!(bytes.iter().all(|byte| *byte == 3));
}

#[test]
fn pools_that_cannot_be_had_are_refused_by_name() {
    let plain = BufferOptions::new();
    for (bytes, count) in [(0, 1), (1, 0)] {
        assert!(matches!(BufferPool::new(bytes, count, &plain), Err(MemoryError::Zero { .. })));
    }
    for (bytes, count) in [(usize::MAX, usize::MAX), (usize::MAX, 1), (1, usize::MAX), (1 << 40, 1 << 24)] {
        let error = BufferPool::new(bytes, count, &plain).expect_err("no machine has as much");
        assert!(matches!(error, MemoryError::BeyondMemory { .. }), "{error}");
    }
}

/// Every thread writes its mark over a whole buffer and looks whether it is still there when it
/// comes back.
#[test]
fn no_two_threads_ever_have_the_same_buffer() {
    let pool = BufferPool::new(512, 5, &BufferOptions::new()).expect("a page can be had");
    thread::scope(|scope| {
        let (give, got) = mpsc::channel::<(u8, PooledBuffer)>();
        for mark in 1..=4_u8 {
            let (pool, give) = (pool.clone(), give.clone());
            scope.spawn(move || {
                let mut taken = 0;
                while taken < 20_000 {
                    let Some(mut buffer) = pool.take() else {
                        thread::yield_now();
                        continue;
                    };
                    taken += 1;
                    buffer.fill(mark);
                    if taken % 64 == 0 {
                        thread::yield_now();
                    }
                    assert!(buffer.iter().all(|byte| *byte == mark), "someone else wrote to it");
                    if taken % 3 == 0 {
                        give.send((mark, buffer)).expect("the other end is there");
                    }
                }
            });
        }
        drop(give);
        // Some buffers are given back by another thread than the one that took them; their bytes are as
        // they were sent.
        for (mark, buffer) in got {
            assert!(buffer.iter().all(|byte| *byte == mark), "someone else wrote to it");
        }
    });
    assert_eq!(pool.available(), 5);
}

#[test]
fn pool_moves_while_its_buffers_are_written_to() {
    let pool = BufferPool::new(4096, 64, &options(MemoryPolicy::Local)).expect("a little can be had");
    let mut out: Vec<PooledBuffer> = std::iter::from_fn(|| pool.take()).collect();
    let (stop, stopped) = mpsc::channel::<()>();
    let writer = thread::spawn(move || {
        let mut round = 0_u8;
        while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
            round = round.wrapping_add(1);
            out.iter_mut().for_each(|buffer| buffer.fill(round));
            assert!(out.iter().all(|buffer| buffer.iter().all(|byte| *byte == round)));
        }
    });
    for policy in [bound(), MemoryPolicy::Interleave(NodeSet::single(node())), MemoryPolicy::Default] {
        let rebound = pool.rebind(&policy).expect("there is room");
        assert_eq!((rebound.failed, rebound.outcome), (0, Outcome::Applied(policy)));
    }
    drop(stop);
    writer.join().expect("the written bytes were read");
}

proptest! {
    /// Against the simplest model: a set of addresses that are out.
    #[test]
    fn pool_never_hands_out_a_buffer_twice(count in 1..9_usize, steps in proptest::collection::vec(any::<u8>(), 0..200)) {
        let pool = BufferPool::new(96, count, &BufferOptions::new()).expect("a page can be had");
        let mut out: HashMap<usize, PooledBuffer> = HashMap::new();
        for step in steps {
            if step % 2 == 0 {
                match pool.take() {
                    Some(buffer) => {
                        let first = buffer.as_ptr().addr();
                        prop_assert!(out.keys().all(|other| other.abs_diff(first) >= 96));
                        out.insert(first, buffer);
                    }
                    None => prop_assert_eq!(out.len(), count),
                }
            } else if let Some(first) = out.keys().nth(usize::from(step) % out.len().max(1)).copied() {
                out.remove(&first);
            }
            prop_assert_eq!(pool.available(), count - out.len());
        }
    }
}
