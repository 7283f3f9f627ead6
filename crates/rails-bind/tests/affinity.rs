//! The three properties are judged as the paper defines them, and nothing is judged that is not known.

use rails_bind::{
    affinity::{self, AffinityReport, Evidence, Verdict},
    interrupt::InterruptStatus,
};
use rails_topo::{CpuId, CpuSet, Nic, NodeSet, Topology};
use serde_json::{Value, json};

/// Two packages of two nodes each, four CPUs a node; each node shares a cache. NICs: `near` on node 0, `far` on node 3,
/// `lost` of unknown place, `hinted` with local CPUs alone, and `lo` and `veth0`.
fn two_packages() -> Topology {
    topology(json!({
        "packages": [{"id": 0, "cpus": "0-7"}, {"id": 1, "cpus": "8-15"}],
        "nodes": [
            {"id": 0, "cpus": "0-3"}, {"id": 1, "cpus": "4-7"}, {"id": 2, "cpus": "8-11"}, {"id": 3, "cpus": "12-15"},
        ],
        "distances": {"nodes": [0, 1, 2, 3], "values": [10, 12, 21, 21, 12, 10, 21, 21, 21, 21, 10, 12, 21, 21, 12, 10]},
        "caches": [
            {"level": 2, "kind": "unified", "cpus": "0-1"}, {"level": 3, "kind": "unified", "cpus": "0-3"},
            {"level": 3, "kind": "unified", "cpus": "4-7"}, {"level": 3, "kind": "unified", "cpus": "8-11"},
            {"level": 3, "kind": "unified", "cpus": "12-15"},
        ],
        "online_cpus": "0-15",
        "nics": [
            nic("far", "device", json!(3), json!(null)), nic("hinted", "device", json!(null), json!("8-11")),
            nic("lo", "loopback", json!(null), json!(null)), nic("lost", "device", json!(null), json!("0-15")),
            nic("near", "device", json!(0), json!("0-3")), nic("veth0", "virtual", json!(null), json!(null)),
        ],
    }))
}

/// A model from the parts that matter to a test.
fn topology(parts: Value) -> Topology {
    let mut all = json!({
        "origin": {"kind": "synthetic", "description": "a test"},
        "machine": {},
        "packages": [], "nodes": [], "caches": [], "cores": [], "nics": [],
        "allowed_cpus": parts["online_cpus"], "allowed_nodes": "",
    });
    let all_fields = all.as_object_mut().expect("an object");
    all_fields.extend(parts.as_object().expect("an object").clone());
    serde_json::from_value(all).expect("the model's form")
}

fn nic(name: &str, kind: &str, node: Value, local_cpus: Value) -> Value {
    json!({
        "name": name, "kind": kind, "node": node, "local_cpus": local_cpus,
        "addresses": [], "rx_queues": [], "tx_queues": [], "interrupts": [],
    })
}

fn interrupt(number: u32, effective: Option<&str>) -> InterruptStatus {
    InterruptStatus { number, requested: set("0-15"), effective: effective.map(set) }
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

/// The report on the NIC of that name, its interrupts, a thread's CPUs and the nodes of its buffers.
fn report(
    topology: &Topology,
    nic: Option<&str>,
    interrupts: &[InterruptStatus],
    thread: &str,
    buffers: Option<&str>,
) -> AffinityReport {
    let nic: Option<&Nic> = nic.map(|name| topology.nic(name).expect("the machine has it"));
    let buffers: Option<NodeSet> = buffers.map(|text| text.parse().expect("a list"));
    let evidence = Evidence {
        nic,
        interrupts,
        thread_cpus: &set(thread),
        current_cpu: set(thread).last(),
        buffer_nodes: buffers.as_ref(),
    };
    affinity::assess(topology, &evidence)
}

fn assert_unknown(verdict: &Verdict, reason: &str) {
    assert_eq!(verdict.to_string(), format!("unknown: {reason}"));
}

#[test]
fn a_rail_has_all_three_properties() {
    let report = report(&two_packages(), Some("near"), &[interrupt(24, Some("2"))], "2", Some("0"));
    assert!(report.holds(), "{report}");
    assert_eq!(
        report.to_string(),
        "interrupt affine: holds: interrupt 24 is served on CPU 2, and near is attached to node 0 (CPUs 0-7)\n\
         thread affine: holds: the thread may run on CPU 2; interrupt 24 is served there\n\
         memory affine: holds: the buffers lie on node 0, nearest to where the thread may run on CPU 2"
    );
}

#[test]
fn any_core_of_the_nics_package_may_serve_its_interrupt() {
    let machine = two_packages();
    let verdict = |nic, on| report(&machine, Some(nic), &[interrupt(24, Some(on))], "0", None).interrupt;
    assert!(verdict("near", "7").holds());
    assert!(verdict("near", "8").is_broken());
    assert!(verdict("far", "8").holds());
    assert!(verdict("hinted", "15").holds());
    assert!(verdict("hinted", "7").is_broken());
}

#[test]
fn a_broken_property_comes_with_the_command_that_mends_it() {
    let report =
        report(&two_packages(), Some("near"), &[interrupt(24, Some("2")), interrupt(25, Some("9"))], "12", Some("0"));
    assert_eq!(
        report.to_string(),
        "interrupt affine: broken: interrupt 25 is served on CPU 9, but near is attached to node 0 (CPUs 0-7) \
         (fix: echo 0-7 > /proc/irq/25/smp_affinity_list (as root or with CAP_DAC_OVERRIDE; a running irqbalance may \
         undo it))\n\
         thread affine: broken: the thread may run on CPU 12, but interrupt 24 is served on CPU 2, interrupt 25 is \
         served on CPU 9 (fix: no CPU that this process may use is beside all of them: serve interrupts 24, 25 on one \
         CPU and bind the thread to it)\n\
         memory affine: broken: the buffers lie on node 0, but the thread may run on CPU 12, to which node 3 is nearest \
         (fix: set the thread's memory policy to `bind 3` before it first touches its buffers)"
    );
}

#[test]
fn interrupts_of_unknown_place_are_unknown() {
    let machine = two_packages();
    let interrupts = [interrupt(24, Some("2"))];
    let lost = report(&machine, Some("lost"), &interrupts, "2", None).interrupt;
    assert_unknown(&lost, "it is not known where lost is attached, and the machine has 2 packages and 4 nodes");
    for effective in [None, Some("")] {
        let report = report(&machine, Some("near"), &[interrupt(24, effective)], "2", None);
        assert_unknown(&report.interrupt, "the kernel does not say where interrupt 24 is served");
        assert_unknown(&report.thread, "the kernel does not say where interrupt 24 is served");
    }
    // One interrupt that is known to be astray is enough.
    let mixed = report(&machine, Some("near"), &[interrupt(24, None), interrupt(25, Some("9"))], "2", None);
    assert!(mixed.interrupt.is_broken() && mixed.thread.is_broken());
}

#[test]
fn interfaces_without_interrupts_say_so() {
    let machine = two_packages();
    for (nic, reason) in [
        (None, "the NIC is not known"),
        (Some("lo"), "lo raises no interrupts"),
        (Some("veth0"), "veth0 is made in software and raises no interrupts"),
        (Some("near"), "no interrupt of near is known"),
    ] {
        let report = report(&machine, nic, &[], "0", None);
        assert_unknown(&report.interrupt, reason);
        assert_unknown(&report.thread, reason);
        assert!(!report.holds());
    }
}

#[test]
fn a_thread_beside_the_interrupt_shares_its_last_level_cache() {
    let machine = two_packages();
    let verdict = |thread| report(&machine, Some("near"), &[interrupt(24, Some("1"))], thread, None).thread;
    assert_eq!(
        verdict("3").to_string(),
        "holds: the thread may run on CPU 3; shares the last-level cache with CPU 1, where interrupt 24 is served"
    );
    assert!(verdict("0-3").holds());
    assert_eq!(
        verdict("0-4").to_string(),
        "broken: the thread may run on CPUs 0-4 (now on CPU 4), but interrupt 24 is served on CPU 1 \
         (fix: bind the thread to CPU 1)"
    );
}

#[test]
fn the_fix_stays_within_the_allowed_cpus() {
    let mut parts = serde_json::to_value(two_packages()).expect("a model serializes");
    parts["allowed_cpus"] = json!("2-15");
    let machine = topology(parts);
    let verdict = report(&machine, Some("near"), &[interrupt(24, Some("1"))], "8", None).thread;
    assert!(verdict.to_string().ends_with("(fix: bind the thread to CPUs 2-3)"), "{verdict}");
}

#[test]
fn unknown_caches_leave_unknown_what_is_not_on_the_same_core() {
    let machine = topology(json!({
        "packages": [{"id": 0, "cpus": "0-3"}], "nodes": [{"id": 0, "cpus": "0-3"}], "online_cpus": "0-3",
        "cores": [{"id": 0, "cpus": "0-1"}, {"id": 1, "cpus": "2-3"}],
        "nics": [nic("eth0", "device", json!(null), json!(null))],
    }));
    let verdict = |thread| report(&machine, Some("eth0"), &[interrupt(24, Some("0"))], thread, None);
    assert!(verdict("0").thread.holds());
    assert!(verdict("1").thread.holds());
    assert_unknown(&verdict("2").thread, "it is not known which CPUs share a cache with CPU 0");
    // With one package and one node every CPU is beside every NIC, and the only memory is the nearest.
    assert!(verdict("2").interrupt.holds());
    assert!(verdict("2").memory.holds());
}

#[test]
fn buffers_must_lie_on_the_node_that_is_nearest_wherever_the_thread_may_run() {
    let machine = two_packages();
    let verdict = |thread, buffers| report(&machine, Some("near"), &[], thread, buffers).memory;
    assert!(verdict("4-7", Some("1")).holds());
    assert!(verdict("4", Some("0-1")).is_broken());
    assert_eq!(
        verdict("3-4", Some("0")).to_string(),
        "broken: the buffers lie on node 0, and the thread may run on CPUs 3-4, to which no node is nearest everywhere \
         (fix: bind the thread to CPUs of node 0)"
    );
    assert_unknown(&verdict("0", None), "nobody has looked where the buffers lie");
    assert_unknown(&verdict("0", Some("")), "nobody has looked where the buffers lie");
    assert_unknown(&verdict("99", Some("0")), "it is not known which node CPU 99 is on");
    assert_unknown(&verdict("", Some("0")), "it is not known where the thread may run");
}

#[test]
fn nodes_without_memory_and_without_distances_are_taken_for_what_they_are() {
    let parts = json!({
        "packages": [{"id": 0, "cpus": "0-1"}, {"id": 1, "cpus": "2-3"}],
        "nodes": [{"id": 0, "cpus": "0-1"}, {"id": 1, "cpus": "2-3"}, {"id": 2, "cpus": ""}],
        "online_cpus": "0-3",
    });
    let machine = topology(parts.clone());
    let verdict = |machine: &Topology, thread, buffers| report(machine, None, &[], thread, Some(buffers)).memory;
    assert!(verdict(&machine, "0", "0").holds());
    assert!(verdict(&machine, "0", "2").is_broken());

    // A memory node that is as near as the local one is as good.
    let mut with_distances = parts;
    with_distances["distances"] = json!({"nodes": [0, 1, 2], "values": [10, 20, 10, 20, 10, 20, 10, 20, 10]});
    assert!(verdict(&topology(with_distances.clone()), "0", "0,2").holds());
    with_distances["distances"] = json!({"nodes": [0, 1], "values": [10, 20, 20, 10]});
    assert_unknown(
        &verdict(&topology(with_distances), "0", "0"),
        "the distances from node 0 are not known to all others",
    );

    let without_nodes = topology(json!({"packages": [{"id": 0, "cpus": "0-1"}], "online_cpus": "0-1"}));
    assert_unknown(&verdict(&without_nodes, "0", "0"), "the memory nodes of the machine are not known");
}

#[test]
fn a_verdict_serializes_with_its_state() {
    let verdict = Verdict::Broken { evidence: "it rains".to_owned(), fix: "an umbrella".to_owned() };
    let json = serde_json::to_value(&verdict).expect("it serializes");
    assert_eq!(json, json!({"state": "broken", "evidence": "it rains", "fix": "an umbrella"}));
    assert_eq!(serde_json::from_value::<Verdict>(json).expect("its own form"), verdict);
    assert_eq!(set("3").first(), Some(CpuId(3)));
}
