//! Threads and their memory are really moved, read back and put back. Each test changes a thread of
//! its own only.

use rails_bind::{
    BindError, Outcome,
    memory::{self, MemoryPolicy},
    thread::{self, Tid},
};
use rails_topo::{CpuId, CpuSet, NodeId, NodeSet};

/// A CPU that no machine has: Linux ends at 8,192.
const ABSENT: u32 = 500_000;

/// Runs `test` on a thread of its own, so that its bindings end with it.
fn on_a_thread<R: Send>(test: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(test).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn allowed() -> CpuSet {
    thread::current_affinity().expect("a thread may read its own affinity")
}

fn last_allowed() -> CpuId {
    allowed().last().expect("a thread may run somewhere")
}

fn policy() -> MemoryPolicy {
    memory::thread_policy().expect("a thread may read its own policy")
}

fn a_node_with_memory() -> NodeId {
    let written = vec![1_u8; 64];
    memory::node_of_page(&written).expect("the page was written")
}

#[test]
fn bound_until_the_guard_is_dropped() {
    on_a_thread(|| {
        let before = allowed();
        let wanted = CpuSet::single(last_allowed());
        let guard = thread::bind_current(&wanted).expect("the CPU is allowed");
        assert_eq!(guard.outcome(), &Outcome::Applied(wanted.clone()));
        assert_eq!(allowed(), wanted);
        assert_eq!(thread::current_cpu().ok(), wanted.first());
        drop(guard);
        assert_eq!(allowed(), before);
    });
}

#[test]
fn another_library_sees_the_same_binding() {
    on_a_thread(|| {
        let cpu = last_allowed();
        let _guard = thread::bind_current(&CpuSet::single(cpu)).expect("the CPU is allowed");
        let seen: Vec<usize> = core_affinity::get_core_ids().expect("it can tell").iter().map(|core| core.id).collect();
        assert_eq!(seen, [cpu.0 as usize]);
    });
}

#[test]
fn panic_gives_the_former_cpus_back() {
    on_a_thread(|| {
        let before = allowed();
        let panic = std::panic::catch_unwind(|| {
            let _guard = thread::bind_current(&CpuSet::single(last_allowed())).expect("the CPU is allowed");
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(panic.is_err());
        assert_eq!(allowed(), before);
    });
}

#[test]
fn kept_and_restored_bindings() {
    on_a_thread(|| {
        let before = allowed();
        let wanted = CpuSet::single(last_allowed());
        thread::bind_current(&wanted).expect("the CPU is allowed").restore().expect("nothing is in the way");
        assert_eq!(allowed(), before);
        let outcome = thread::bind_current(&wanted).expect("the CPU is allowed").keep();
        assert_eq!(outcome, Outcome::Applied(wanted.clone()));
        assert_eq!(allowed(), wanted);
    });
}

#[test]
fn partial_binding_is_reported() {
    on_a_thread(|| {
        let existing = CpuSet::single(last_allowed());
        let wanted = existing.union(&CpuSet::single(CpuId(ABSENT)));
        let guard = thread::bind_current(&wanted).expect("one CPU of the set is allowed");
        assert_eq!(guard.outcome(), &Outcome::Partial { wanted, got: existing });
    });
}

#[test]
fn unusable_set_is_an_error_and_changes_nothing() {
    on_a_thread(|| {
        let before = allowed();
        let absent = CpuSet::single(CpuId(ABSENT));
        match thread::bind_current(&absent).expect_err("no machine has the CPU") {
            BindError::CpusUnusable { requested, offline: Some(offline), not_allowed: Some(not_allowed) } => {
                assert_eq!((requested, offline), (absent.clone(), absent));
                assert!(not_allowed.is_empty());
            }
            other => panic!("{other}"),
        }
        let error = thread::bind_current(&CpuSet::new()).expect_err("the set is empty");
        assert!(matches!(error, BindError::EmptySet { .. }), "{error}");
        assert_eq!(allowed(), before);
    });
}

#[test]
fn affinity_of_another_thread_until_its_end() {
    let (announce, announced) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let bound = std::thread::spawn(move || {
        let guard = thread::bind_current(&CpuSet::single(last_allowed())).expect("the CPU is allowed");
        announce.send((thread::current_tid(), guard.outcome().got().clone())).expect("the test listens");
        let _ = ended.recv();
    });
    let (tid, cpus) = announced.recv().expect("the thread speaks");
    assert_eq!(thread::affinity_of(tid).expect("the thread lives"), cpus);
    assert_ne!(thread::current_tid(), tid);
    drop(end);
    bound.join().expect("the thread does not panic");
    let never_given = Tid::from_raw(i32::MAX).expect("above zero");
    let error = thread::affinity_of(never_given).expect_err("no thread has that number");
    assert!(matches!(error, BindError::NoSuchThread { tid } if tid == never_given), "{error}");
}

#[test]
fn policy_is_set_read_back_and_put_back() {
    on_a_thread(|| {
        let before = policy();
        let node = a_node_with_memory();
        let nodes = NodeSet::single(node);
        for wanted in [
            MemoryPolicy::Local,
            MemoryPolicy::Preferred(node),
            MemoryPolicy::Bind(nodes.clone()),
            MemoryPolicy::Interleave(nodes.clone()),
            MemoryPolicy::PreferredMany(nodes.clone()),
            MemoryPolicy::Default,
        ] {
            let guard = memory::set_thread_policy(&wanted).unwrap_or_else(|error| panic!("{wanted}: {error}"));
            assert_eq!(guard.outcome(), &Outcome::Applied(wanted.clone()));
            assert_eq!(policy(), wanted);
            drop(guard);
            assert_eq!(policy(), before);
        }
    });
}

#[test]
fn policies_nest_and_can_be_kept() {
    on_a_thread(|| {
        let node = a_node_with_memory();
        let outer = memory::set_thread_policy(&MemoryPolicy::Local).expect("every kernel with NUMA has it");
        let inner = memory::set_thread_policy(&MemoryPolicy::Preferred(node)).expect("the node has memory");
        inner.restore().expect("nothing is in the way");
        assert_eq!(policy(), MemoryPolicy::Local);
        assert_eq!(outer.keep(), Outcome::Applied(MemoryPolicy::Local));
        assert_eq!(policy(), MemoryPolicy::Local);
    });
}

#[test]
fn nodes_that_do_not_exist_are_named() {
    on_a_thread(|| {
        let before = policy();
        // 1,000 is within the kernel's masks (1,024 nodes), 5,000 is not.
        for absent in [1000, 5000] {
            let wanted = MemoryPolicy::Bind(NodeSet::single(NodeId(absent)));
            match memory::set_thread_policy(&wanted).expect_err("no machine has the node") {
                BindError::NodesUnusable { policy, without_memory: Some(without_memory), .. } => {
                    assert_eq!((policy, without_memory), (wanted, NodeSet::single(NodeId(absent))));
                }
                other => panic!("{other}"),
            }
        }
        let error = memory::set_thread_policy(&MemoryPolicy::Interleave(NodeSet::new())).expect_err("no nodes");
        assert!(matches!(error, BindError::EmptySet { .. }), "{error}");
        assert_eq!(policy(), before);
    });
}

#[test]
fn nodes_that_the_kernel_drops_are_reported() {
    on_a_thread(|| {
        let node = a_node_with_memory();
        let wanted = MemoryPolicy::Bind([node, NodeId(1000)].into_iter().collect());
        let guard = memory::set_thread_policy(&wanted).expect("one node of the set has memory");
        let got = MemoryPolicy::Bind(NodeSet::single(node));
        assert_eq!(guard.outcome(), &Outcome::Partial { wanted, got });
    });
}

#[test]
fn page_lies_where_the_policy_puts_it() {
    on_a_thread(|| {
        let node = a_node_with_memory();
        let _guard = memory::set_thread_policy(&MemoryPolicy::Bind(NodeSet::single(node))).expect("it has memory");
        let buffer = vec![1_u8; 1 << 20];
        assert_eq!(memory::node_of_page(&buffer).expect("the page was written"), node);
        assert!(matches!(memory::node_of_page(&[]), Err(BindError::EmptyBuffer)));
    });
}
