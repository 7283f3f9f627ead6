//! The objects and queues of described machines with CPUs offline, and of captured ones.

use crate::{NewTaskError, ObjectKind, Step, TaskPriority, TaskQueues, sleeper::Trigger};
use proptest::{collection::vec, prelude::*, sample::Index};
use rails_lab::captures::{self, Unpacked};
use rails_topo::{CpuId, CpuSet, Topology};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

/// The described machine without the `offline` CPUs, of which one at least stays.
fn machine(description: &str, offline: &[Index]) -> Topology {
    let all = Topology::synthetic(description, Vec::new()).unwrap();
    let cpus: Vec<CpuId> = all.online_cpus().iter().collect();
    let offline: CpuSet = offline.iter().map(|index| *index.get(&cpus)).filter(|cpu| *cpu != cpus[0]).collect();
    let online = all.online_cpus().difference(&offline);
    let mut json = serde_json::to_value(&all).unwrap();
    for name in ["online_cpus", "allowed_cpus"] {
        json[name] = serde_json::to_value(&online).unwrap();
    }
    let machine: Topology = serde_json::from_value(json).unwrap();
    assert_eq!(*machine.online_cpus(), online);
    machine
}

/// Some of the machine's CPUs.
fn some(machine: &Topology, picks: &[Index]) -> CpuSet {
    let cpus: Vec<CpuId> = machine.online_cpus().iter().collect();
    picks.iter().map(|index| *index.get(&cpus)).collect()
}

/// The object of these CPUs is the smallest that covers them, by a search through all.
fn assert_smallest(queues: &TaskQueues, cpus: &CpuSet) {
    let task = queues.task(cpus, TaskPriority::Normal, || Step::Done).unwrap();
    let objects = queues.objects();
    let home = objects.get(task.home());
    let covering = objects.iter().map(|(_, object)| object).filter(|object| cpus.is_subset(&object.cpus));
    let smallest = covering.min_by_key(|object| object.cpus.len()).unwrap();
    assert_eq!(home, smallest, "for CPUs {cpus}");
}

/// The objects are a tree: each lies inside its parent, beside its siblings, and the PUs are its
/// leaves.
fn assert_tree(machine: &Topology, queues: &TaskQueues) {
    let objects = queues.objects();
    for (id, object) in objects.iter() {
        assert!(!object.cpus.is_empty() && object.cpus.is_subset(machine.online_cpus()));
        match object.parent {
            None => assert_eq!((object.kind, &object.cpus), (ObjectKind::Machine, machine.online_cpus())),
            Some(parent) => {
                let parent = objects.get(parent);
                assert!(object.cpus.is_subset(&parent.cpus) && object.cpus != parent.cpus, "{object:?} in {parent:?}");
            }
        }
        let is_sibling = |other: &crate::Object| other.parent == object.parent;
        let siblings = objects.iter().filter(|(other, sibling)| *other != id && is_sibling(sibling));
        for (_, sibling) in siblings {
            assert!(!sibling.cpus.intersects(&object.cpus), "{sibling:?} and {object:?}");
        }
    }
    for cpu in machine.online_cpus().iter() {
        assert_eq!(objects.get(objects.of_cpu(cpu).unwrap()).cpus, CpuSet::single(cpu));
    }
}

fn description() -> impl Strategy<Value = String> {
    (1..4u32, 1..3u32, 1..3u32, 1..4u32, 1..3u32).prop_map(|(packages, nodes, caches, cores, pus)| {
        format!("package:{packages} numa:{nodes} l3:{caches} core:{cores} pu:{pus}")
    })
}

proptest! {
    #[test]
    fn task_waits_at_the_smallest_object(
        description in description(),
        offline in vec(any::<Index>(), 0..8),
        sets in vec(vec(any::<Index>(), 1..6), 1..8),
    ) {
        let machine = machine(&description, &offline);
        let queues = TaskQueues::new(&machine, 1);
        assert_tree(&machine, &queues);
        for picks in sets {
            assert_smallest(&queues, &some(&machine, &picks));
        }
        let last = machine.online_cpus().iter().last().unwrap();
        let beyond: CpuSet = [last, CpuId(last.0 + 1)].into_iter().collect();
        let refused = queues.task(&beyond, TaskPriority::Normal, || Step::Done);
        let is_refused = matches!(refused, Err(NewTaskError::Outside { .. }));
        prop_assert!(is_refused || machine.online_cpus().contains(CpuId(last.0 + 1)));
    }

    /// Threads on all kinds of CPU sets run the tasks of all kinds of sets: each thread runs those that may run on all
    /// of its CPUs, and no others, wherever full queues have put them.
    #[test]
    fn threads_run_what_their_cpus_allow(
        description in description(),
        offline in vec(any::<Index>(), 0..8),
        sets in vec(vec(any::<Index>(), 1..6), 1..24),
        threads in vec(vec(any::<Index>(), 1..4), 1..4),
        room in 1..4usize,
    ) {
        let machine = machine(&description, &offline);
        let queues = TaskQueues::new(&machine, room);
        let mut waiting = Vec::new();
        for picks in sets {
            let runs = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&runs);
            let work = move || {
                counted.fetch_add(1, SeqCst);
                Step::Done
            };
            let task = queues.task(&some(&machine, &picks), TaskPriority::Normal, work).unwrap();
            // A full queue refuses it.
            if task.submit().is_ok() {
                waiting.push((task, runs));
            }
        }
        for picks in threads {
            let cpus = some(&machine, &picks);
            let runner = queues.attach_trigger(Trigger::Caller, cpus.clone()).unwrap();
            let is_allowed = |cpus: &CpuSet, task: &crate::Task| cpus.is_subset(task.cpus());
            let expected = waiting.iter().filter(|(task, _)| is_allowed(&cpus, task)).count();
            prop_assert_eq!(runner.run().ran, expected);
            for (task, runs) in &waiting {
                let has_run = is_allowed(&cpus, task);
                prop_assert_eq!((runs.load(SeqCst), task.is_pending()), (usize::from(has_run), !has_run));
            }
            waiting.retain(|(task, _)| task.is_pending());
        }
        let left: usize = queues.objects().iter().map(|(object, _)| queues.stats(object).waiting).sum();
        prop_assert_eq!(left, waiting.len());
    }
}

/// Each object's CPUs, pairs of CPUs, and all but the first.
fn assert_captured(machine: &Topology) {
    let queues = TaskQueues::new(machine, 1);
    assert_tree(machine, &queues);
    queues.objects().iter().for_each(|(_, object)| assert_smallest(&queues, &object.cpus));
    let cpus: Vec<CpuId> = machine.online_cpus().iter().collect();
    let apart = cpus.iter().zip(cpus.iter().rev()).chain(cpus.iter().zip(&cpus[1..]));
    apart.for_each(|(one, other)| assert_smallest(&queues, &[*one, *other].into_iter().collect()));
    if cpus.len() > 1 {
        assert_smallest(&queues, &cpus[1..].iter().copied().collect());
    }
}

#[test]
fn tasks_of_machines_in_this_repository() {
    for name in ["two-sockets.tar.gz", "virtual-machine.tar.gz"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rails-topo/tests/fixtures").join(name);
        assert_captured(&Topology::from_capture(file).unwrap());
    }
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_machines_have_trees() {
    for archive in captures::trees() {
        println!("{}", archive.display());
        assert_captured(&Topology::from_sysfs_root(Unpacked::of(&archive).root()).unwrap());
    }
}
