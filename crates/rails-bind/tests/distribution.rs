//! The CPUs to which interrupts and threads are sent, on machines that are only described.

use rails_bind::{
    affinity::{InterruptAffinity, InterruptAffinityError, InterruptOutcome, Nearness},
    interrupt::{Distribution, DistributionError, Vectors, distribute},
    settings::{Host, Journal, Value},
};
use rails_topo::{CpuSet, Interrupt, Nic, NodeId, Topology};
use std::fs;

fn cpus(list: &str) -> CpuSet {
    list.parse().expect("a list")
}

/// Two packages with a node each: cores 0-3 with CPUs 0-7, and 4-7 with 8-15; a NIC on node 1 with
/// six queues and a vector for everything else.
fn machine() -> Topology {
    let vector = |number: u32| Interrupt {
        number,
        name: Some(if number == 30 { "i40e-0000:18:00.0:misc".into() } else { format!("eth0-TxRx-{}", number - 31) }),
        affinity: None,
        effective: None,
    };
    let nic = Nic {
        node: Some(NodeId(1)),
        local_cpus: Some(cpus("8-15")),
        interrupts: (30..37).map(vector).collect(),
        ..Nic::named("eth0")
    };
    Topology::synthetic("package:2 numa:1 l3:1 core:4 pu:2", vec![nic, Nic::named("eth1")]).expect("a description")
}

/// The CPUs of each interrupt, in order.
fn placed(topology: &Topology, vectors: Vectors, distribution: &Distribution) -> Vec<String> {
    let nic = topology.nic("eth0").expect("it is described");
    let changes = distribute(topology, nic, vectors, distribution).expect("it can be placed");
    let to = |value: &Value| value.cpus().expect("an interrupt goes to CPUs").to_string();
    changes.iter().map(|change| to(&change.value)).collect()
}

#[test]
fn queues_get_cores_of_their_own_beside_the_nic() {
    let machine = machine();
    // Four cores, then their second threads; the vector without a queue may be served on any.
    let nearest = placed(&machine, Vectors::All, &Distribution::NearestCores);
    assert_eq!(nearest, ["8-15", "8", "10", "12", "14", "9", "11"]);
    let allowed = machine.clone().with_allowed(cpus("0-9"));
    assert_eq!(placed(&allowed, Vectors::All, &Distribution::NearestCores), ["8-9", "8", "9", "8", "9", "8", "9"]);
    let elsewhere = machine.clone().with_allowed(cpus("0-1"));
    assert_eq!(placed(&elsewhere, Vectors::Queue(1), &Distribution::NearestCores), ["10"]);
}

#[test]
fn queues_are_spread_in_turn_or_sent_to_one_place() {
    let machine = machine();
    let spread = placed(&machine, Vectors::All, &Distribution::Spread(cpus("1,3")));
    assert_eq!(spread, ["1,3", "1", "3", "1", "3", "1", "3"]);
    assert!(placed(&machine, Vectors::All, &Distribution::On(cpus("2-3"))).iter().all(|to| to == "2-3"));
    assert_eq!(placed(&machine, Vectors::Queue(5), &Distribution::On(cpus("7"))), ["7"]);
}

#[test]
fn refusals_to_distribute() {
    let machine = machine();
    let refused = |nic: &str, vectors, distribution| {
        distribute(&machine, machine.nic(nic).expect("it is described"), vectors, &distribution)
            .expect_err("it cannot be")
    };
    let on = |list| Distribution::On(cpus(list));
    assert!(matches!(refused("eth1", Vectors::All, on("1")), DistributionError::NoInterrupts { .. }));
    assert!(matches!(refused("eth0", Vectors::Queue(6), on("1")), DistributionError::NoSuchQueue { queue: 6, .. }));
    assert!(matches!(refused("eth0", Vectors::All, on("")), DistributionError::EmptySet { .. }));
    let offline = refused("eth0", Vectors::All, Distribution::Spread(cpus("15-17")));
    assert_eq!(offline.to_string(), "the interrupts of eth0 cannot be placed on CPUs that are not online (16-17)");
}

#[test]
fn nearness_as_on_the_papers_poster() {
    let machine = machine();
    let near = |nearness: Nearness, served| nearness.cpus(&machine, &cpus(served)).to_string();
    assert_eq!(near(Nearness::SameCpu, "9"), "9");
    assert_eq!(near(Nearness::SameCore, "9"), "8-9");
    assert_eq!(near(Nearness::NeighbourCore, "9"), "10-15");
    assert_eq!(near(Nearness::SamePackage, "9"), "8-15");
    assert_eq!(near(Nearness::NeighbourCore, "8,10"), "12-15");
    let without_caches = Topology::synthetic("package:1 core:2 pu:1", Vec::new()).expect("a description");
    assert!(Nearness::NeighbourCore.cpus(&without_caches, &cpus("0")).is_empty(), "it is not known");
}

/// A tree with the affinities of the NIC's interrupts.
fn tree(on: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for number in 30..37 {
        let folder = root.path().join(format!("proc/irq/{number}"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("smp_affinity_list"), on).expect("a file");
        fs::write(folder.join("effective_affinity_list"), on).expect("a file");
    }
    root
}

#[test]
fn only_interrupts_that_are_astray_are_moved() {
    let machine = machine();
    let nic = machine.nic("eth0").expect("it is described");
    let root = tree("9");
    let journal = Journal::at(root.path().join("journal")).expect("a folder");
    let host = Host::under(root.path());
    let interrupt = InterruptAffinity::of_nic(&host, &machine, &journal, nic).expect("it has interrupts");
    assert!(matches!(interrupt.outcome(), InterruptOutcome::InPlace));
    assert_eq!(interrupt.served_on().expect("they are there"), cpus("9"));

    fs::write(root.path().join("proc/irq/33/effective_affinity_list"), "1").expect("a file");
    fs::write(root.path().join("proc/irq/33/smp_affinity_list"), "0-1").expect("a file");
    let interrupt = InterruptAffinity::of_nic(&host, &machine, &journal, nic).expect("it has interrupts");
    let InterruptOutcome::Moved(guard) = interrupt.outcome() else { panic!("{:?}", interrupt.outcome()) };
    assert_eq!(guard.changes().len(), 1);
    // Interrupt 33 has not fired since, so the CPUs that will serve it count.
    assert_eq!(interrupt.served_on().expect("they are there"), cpus("9,12"));
    drop(interrupt);
    assert_eq!(fs::read_to_string(root.path().join("proc/irq/33/smp_affinity_list")).expect("a file"), "0-1");

    // Interrupt 33 is about to leave and is brought back; 34 is about to come and is left alone.
    fs::write(root.path().join("proc/irq/33/effective_affinity_list"), "9").expect("a file");
    fs::write(root.path().join("proc/irq/34/effective_affinity_list"), "0").expect("a file");
    let interrupt = InterruptAffinity::of_nic(&host, &machine, &journal, nic).expect("it has interrupts");
    let InterruptOutcome::Moved(guard) = interrupt.outcome() else { panic!("{:?}", interrupt.outcome()) };
    let moved: Vec<String> = guard.changes().iter().map(|changed| changed.setting.to_string()).collect();
    assert_eq!(moved, ["the affinity of interrupt 33"]);
    drop(interrupt);

    let eth1 = machine.nic("eth1").expect("it is described");
    let error = InterruptAffinity::of_nic(&host, &machine, &journal, eth1).expect_err("it has no interrupts");
    assert!(matches!(error, InterruptAffinityError::Distribution(DistributionError::NoInterrupts { .. })), "{error}");
}
