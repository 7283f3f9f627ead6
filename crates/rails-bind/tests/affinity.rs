//! The three properties are judged as the paper defines them, and nothing is judged that is not
//! known.

use rails_bind::{
    affinity::{
        self, AffinityReport, Evidence, Fix, MemoryOwner, ObservedInterrupt, ObservedMemory, ObservedThread, Observer,
        Verdict,
    },
    interrupt::InterruptStatus,
    settings::Host,
    thread::Tid,
};
use rails_topo::{CpuId, CpuSet, Interrupt, Nic, NodeId, NodeSet, NumaNode, RxQueue, Topology};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, time::Duration};

/// Two packages of two nodes each, four CPUs a node; each node shares a cache. NICs: `near` on node
/// 0, `far` on node 3, `lost` of unknown place, `hinted` with local CPUs alone, and `lo` and
/// `veth0`.
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

/// A model from the parts that matter to a test; the rest is unknown, and every node may be used.
fn topology(parts: Value) -> Topology {
    let nothing = Topology::synthetic("pu:1", Vec::new()).expect("it is a machine");
    let mut all = serde_json::to_value(nothing).expect("a model is written");
    let all_fields = all.as_object_mut().expect("an object");
    all_fields.insert("allowed_cpus".to_owned(), parts["online_cpus"].clone());
    all_fields.extend(parts.as_object().expect("an object").clone());
    let nodes = parts["nodes"].as_array().into_iter().flatten();
    let nodes: Vec<Value> = nodes
        .map(|node| {
            let id = NodeId(node["id"].as_u64().expect("a number") as u32);
            over(NumaNode::of(id, CpuSet::new()), node)
        })
        .collect();
    let numbers: Vec<String> = nodes.iter().map(|node| node["id"].to_string()).collect();
    all_fields.insert("allowed_nodes".to_owned(), json!(numbers.join(",")));
    all_fields.insert("nodes".to_owned(), json!(nodes));
    serde_json::from_value(all).expect("the model's form")
}

fn nic(name: &str, kind: &str, node: Value, local_cpus: Value) -> Value {
    over(Nic::named(name), &json!({ "kind": kind, "node": node, "local_cpus": local_cpus }))
}

/// A part of the model with these fields.
fn over(part: impl serde::Serialize, fields: &Value) -> Value {
    let mut part = serde_json::to_value(part).expect("a part is written");
    part.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    part
}

fn interrupt(number: u32, effective: Option<&str>) -> ObservedInterrupt {
    ObservedInterrupt::uncounted(InterruptStatus { number, requested: set("0-15"), effective: effective.map(set) })
}

/// An interrupt that was counted on these CPUs.
fn counted(number: u32, effective: &str, served: &[(u32, u64)]) -> ObservedInterrupt {
    let served = served.iter().map(|(cpu, times)| (CpuId(*cpu), *times)).collect();
    ObservedInterrupt { served, ..interrupt(number, Some(effective)) }
}

fn thread(number: i32, may_run_on: &str, seen_on: &str) -> ObservedThread {
    ObservedThread {
        tid: Tid::from_raw(number).expect("above zero"),
        started_ns: 5,
        name: "worker".to_owned(),
        may_run_on: set(may_run_on),
        ran: None,
        seen_on: set(seen_on),
    }
}

/// A mebibyte on each of these nodes.
fn buffers(on: &str) -> ObservedMemory {
    let nodes: NodeSet = on.parse().expect("a list");
    ObservedMemory { of: MemoryOwner::Buffers, on: nodes.iter().map(|node| (node, 1 << 20)).collect() }
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

/// The report on the NIC of that name, its interrupts, the CPUs that a thread may run on and the
/// nodes of its buffers.
fn report(
    topology: &Topology,
    nic: Option<&str>,
    interrupts: &[ObservedInterrupt],
    runs_on: &str,
    lie_on: Option<&str>,
) -> AffinityReport {
    let nic: Option<&Nic> = nic.map(|name| topology.nic(name).expect("the machine has it"));
    let memory: Vec<ObservedMemory> = lie_on.map(buffers).into_iter().collect();
    let threads = [thread(7, runs_on, "")];
    affinity::assess(topology, &Evidence { nic, interrupts, napi_threads: &[], threads: &threads, memory: &memory })
}

fn assert_unknown(verdict: &Verdict, reason: &str) {
    assert_eq!(verdict.to_string(), format!("unknown: {reason}"));
}

#[test]
fn rail_has_all_three_properties() {
    let report = report(&two_packages(), Some("near"), &[interrupt(24, Some("2"))], "2", Some("0"));
    assert!(report.holds(), "{report}");
    assert_eq!(
        report.to_string(),
        "interrupt affine: holds: interrupt 24 is served on CPU 2, and near is attached to node 0 (CPUs 0-7)\n\
         thread affine: holds: thread 7 (worker) may run on CPU 2; interrupt 24 is served there\n\
         memory affine: holds: the buffers lie on node 0, nearest to where its threads may run on CPU 2"
    );
}

#[test]
fn any_core_of_the_nics_package_serves_it() {
    let machine = two_packages();
    let verdict = |nic, on| report(&machine, Some(nic), &[interrupt(24, Some(on))], "0", None).interrupt;
    assert!(verdict("near", "7").holds());
    assert!(verdict("near", "8").is_broken());
    assert!(verdict("far", "8").holds());
    assert!(verdict("hinted", "15").holds());
    assert!(verdict("hinted", "7").is_broken());
}

#[test]
fn command_that_mends_a_broken_property() {
    let report =
        report(&two_packages(), Some("near"), &[interrupt(24, Some("2")), interrupt(25, Some("9"))], "12", Some("0"));
    assert_eq!(
        report.to_string(),
        "interrupt affine: broken: interrupt 25 is served on CPU 9, but near is attached to node 0 (CPUs 0-7) \
         (fix: echo 0-7 > /proc/irq/25/smp_affinity_list (as root or with CAP_DAC_OVERRIDE; a running irqbalance may \
         undo it))\n\
         thread affine: broken: thread 7 (worker) may run on CPU 12, but interrupt 24 is served on CPU 2, interrupt 25 is \
         served on CPU 9 (fix: bind thread 7 to CPU 2: taskset -pc 2 7)\n\
         memory affine: broken: the buffers lie on node 0, but its threads may run on CPU 12, to which node 3 is nearest \
         (fix: rebind the buffers to `bind 3`, or set that policy before they are first touched)"
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
fn interrupts_that_proc_irq_hides_are_named() {
    let machine = two_packages();
    let interrupts = [37, 38, 39].map(|number| Interrupt { number, name: None, affinity: None, effective: None });
    let nic = Nic { interrupts: interrupts.to_vec(), ..machine.nic("near").expect("the machine has it").clone() };
    let threads = [thread(7, "0", "")];
    let evidence = Evidence { nic: Some(&nic), interrupts: &[], napi_threads: &[], threads: &threads, memory: &[] };
    let report = affinity::assess(&machine, &evidence);
    let reason = "the CPUs that serve interrupts 37-39 of near cannot be read (/proc/irq)";
    assert_unknown(&report.interrupt, reason);
    assert_unknown(&report.thread, reason);
}

#[test]
fn thread_on_the_interrupts_last_level_cache() {
    let machine = two_packages();
    let verdict = |thread| report(&machine, Some("near"), &[interrupt(24, Some("1"))], thread, None).thread;
    assert_eq!(
        verdict("3").to_string(),
        "holds: thread 7 (worker) may run on CPU 3; shares the last-level cache with CPU 1, where interrupt 24 is served"
    );
    assert!(verdict("0-3").holds());
    assert_eq!(
        verdict("0-4").to_string(),
        "broken: thread 7 (worker) may run on CPUs 0-4, but interrupt 24 is served on CPU 1 (fix: bind thread 7 to CPU 1: taskset -pc 1 7)"
    );
}

#[test]
fn thread_is_sent_to_where_the_interrupts_will_be() {
    let machine = two_packages();
    let fix = |on: &[&str], thread| {
        let interrupts: Vec<_> = (24..).zip(on).map(|(number, on)| interrupt(number, Some(on))).collect();
        let verdict = report(&machine, Some("near"), &interrupts, thread, None).thread;
        verdict.fix().expect("it is broken").clone()
    };
    // The interrupt goes to the NIC's package, and so does the thread, which is with it now.
    assert!(report(&machine, Some("near"), &[interrupt(24, Some("9"))], "9", None).thread.holds());
    assert_eq!(fix(&["9"], "12").advice, "bind thread 7 to CPUs 0-7: taskset -pc 0-7 7");
    assert_eq!(fix(&["9", "3"], "9").advice, "bind thread 7 to CPU 3: taskset -pc 3 7");
    // An interrupt that is there already is not to be moved.
    let stays = fix(&["9"], "2");
    assert_eq!(stays.advice, "leave thread 7 where it is, and move the interrupts");
    assert!(stays.changes.is_empty());
    // Both are beside the NIC, and share nothing.
    assert!(fix(&["2", "6"], "2").advice.starts_with("no CPU that this process may use is beside all of them"));
    // Where the interrupt cannot be moved, the thread follows.
    let stays = ObservedInterrupt { stays: true, ..interrupt(24, Some("9")) };
    let refused = report(&machine, Some("near"), &[stays], "2", None);
    let fixes = [&refused.interrupt, &refused.thread].map(|verdict| verdict.fix().expect("it is broken"));
    assert_eq!(fixes[0].advice, "interrupt 24 cannot be moved: let the threads follow");
    assert!(fixes[0].changes.is_empty());
    assert_eq!(fixes[1].advice, "bind thread 7 to CPU 9: taskset -pc 9 7");
    // The NIC's place is unknown, so the thread follows.
    let lost = report(&machine, Some("lost"), &[interrupt(24, Some("9"))], "2", None).thread;
    assert_eq!(lost.fix().expect("it is broken").advice, "bind thread 7 to CPU 9: taskset -pc 9 7");
}

#[test]
fn pending_interrupt_is_where_it_will_be() {
    let machine = two_packages();
    let moved = |requested: &str, effective: &str| {
        let status = InterruptStatus { number: 24, requested: set(requested), effective: Some(set(effective)) };
        report(&machine, Some("near"), &[ObservedInterrupt::uncounted(status)], "2", None)
    };
    let pending = moved("2-3", "9");
    assert_eq!(
        pending.interrupt.to_string(),
        "holds: interrupt 24 goes to CPUs 2-3 when next fired, and near is attached to node 0 (CPUs 0-7)"
    );
    assert!(pending.thread.holds());
    assert!(moved("9", "2").interrupt.is_broken());
    assert!(moved("0-15", "9").interrupt.is_broken());
}

#[test]
fn control_vectors_do_not_count_for_threads() {
    let mut machine = serde_json::to_value(two_packages()).expect("a model serializes");
    assert_eq!(machine["nics"][4]["name"], "near");
    let vector = |number: u32, name: &str| json!({"number": number, "name": name, "affinity": null, "effective": null});
    machine["nics"][4]["interrupts"] = json!([vector(24, "virtio1-config"), vector(25, "virtio1-input.0")]);
    let machine = topology(machine);
    let verdict = |config, input| {
        report(&machine, Some("near"), &[interrupt(24, Some(config)), interrupt(25, Some(input))], "2", None)
    };
    assert!(verdict("6", "2").thread.holds());
    assert!(verdict("2", "6").thread.is_broken());
}

#[test]
fn fix_stays_within_the_allowed_cpus() {
    let mut parts = serde_json::to_value(two_packages()).expect("a model serializes");
    parts["allowed_cpus"] = json!("2-15");
    let machine = topology(parts);
    let verdict = report(&machine, Some("near"), &[interrupt(24, Some("1"))], "8", None).thread;
    assert!(verdict.to_string().ends_with("(fix: bind thread 7 to CPUs 2-3: taskset -pc 2-3 7)"), "{verdict}");
}

#[test]
fn unknown_caches_beyond_the_core() {
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
fn buffers_nearest_to_every_cpu_of_the_thread() {
    let machine = two_packages();
    let verdict = |thread, buffers| report(&machine, Some("near"), &[], thread, buffers).memory;
    assert!(verdict("4-7", Some("1")).holds());
    assert!(verdict("4", Some("0-1")).is_broken());
    assert_eq!(
        verdict("3-4", Some("0")).to_string(),
        "broken: the buffers lie on node 0, and its threads may run on CPUs 3-4, to which no node is nearest everywhere \
         (fix: bind the threads to CPUs of node 0)"
    );
    assert_unknown(&verdict("0", None), "the nodes of the buffers are not known");
    assert_unknown(&verdict("0", Some("")), "the nodes of the buffers are not known");
    assert_unknown(&verdict("99", Some("0")), "it is not known which node CPU 99 is on");
    assert_unknown(&verdict("", Some("0")), "it is not known where the threads may run");
}

#[test]
fn nodes_without_memory_or_distances() {
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
fn counts_outweigh_the_stated_affinity() {
    let machine = two_packages();
    let verdict = |served: &[(u32, u64)]| report(&machine, Some("near"), &[counted(24, "2", served)], "2", None);
    assert_eq!(
        verdict(&[(2, 900), (3, 100)]).interrupt.to_string(),
        "holds: interrupt 24 was served 1000 times on CPUs 2-3, and near is attached to node 0 (CPUs 0-7)"
    );
    assert!(verdict(&[(2, 900), (9, 1)]).interrupt.is_broken());
    assert!(verdict(&[(9, 900)]).thread.is_broken());
    // Nothing was counted while it was watched, so the kernel's word is all there is.
    assert!(verdict(&[(9, 0)]).interrupt.holds());
}

#[test]
fn steering_to_another_package_breaks_affinity() {
    let mut machine = serde_json::to_value(two_packages()).expect("a model serializes");
    let near = &mut machine["nics"][4];
    assert_eq!(near["name"], "near");
    near["rx_queues"] = json!([{"index": 0, "rps_cpus": ""}, {"index": 1, "rps_cpus": "6-9"}]);
    let machine = topology(machine);
    assert_eq!(
        machine.nic("near").expect("it is there").rx_queues[0],
        RxQueue { rps_cpus: Some(set("")), ..RxQueue::default() }
    );
    let verdict = report(&machine, Some("near"), &[interrupt(24, Some("2"))], "2", None).interrupt;
    assert_eq!(
        verdict.to_string(),
        "broken: near rx-1 hands its packets on to CPUs 6-9, but near is attached to node 0 \
         (fix: echo c0 > /sys/class/net/near/queues/rx-1/rps_cpus (with CAP_NET_ADMIN, as root))"
    );
    assert_eq!(verdict.fix().expect("it is broken").changes.len(), 1);
}

#[test]
fn equal_interrupts_in_one_phrase() {
    let machine = two_packages();
    let interrupts =
        [counted(24, "2", &[(2, 5)]), counted(25, "2", &[(2, 6)]), interrupt(26, Some("2")), interrupt(28, Some("2"))];
    let report = report(&machine, Some("near"), &interrupts, "2", None);
    assert_eq!(
        report.interrupt.to_string(),
        "holds: interrupts 24-25 were served 11 times on CPU 2, interrupts 26,28 are served on CPU 2, and near is \
         attached to node 0 (CPUs 0-7)"
    );
}

#[test]
fn thread_beside_the_queues_it_raises() {
    let machine = two_packages();
    let elsewhere = || interrupt(25, Some("6"));
    let fired = report(&machine, Some("near"), &[counted(24, "2", &[(2, 5)]), elsewhere()], "2", None);
    assert!(fired.thread.holds(), "{fired}");
    let silent = report(&machine, Some("near"), &[interrupt(24, Some("2")), elsewhere()], "2", None);
    assert!(silent.thread.is_broken(), "{silent}");
}

#[test]
fn napi_thread_belongs_beside_the_nic() {
    let machine = two_packages();
    let napi = |cpus| {
        let evidence = Evidence {
            nic: machine.nic("near"),
            interrupts: &[interrupt(24, Some("2"))],
            napi_threads: &[thread(99, cpus, "")],
            threads: &[],
            memory: &[],
        };
        affinity::assess(&machine, &evidence)
    };
    assert!(napi("0-7").interrupt.holds());
    let report = napi("0-15");
    assert!(report.interrupt.to_string().ends_with("(fix: taskset -pc 0-7 99 (as root or with CAP_SYS_NICE))"));
    assert_unknown(&report.thread, "it is not known which threads use it");
}

#[test]
fn every_thread_has_to_be_in_place() {
    let machine = two_packages();
    let evidence = Evidence {
        nic: machine.nic("near"),
        interrupts: &[interrupt(24, Some("2"))],
        napi_threads: &[],
        threads: &[thread(7, "2", "2"), thread(8, "0-15", "3,12")],
        memory: &[buffers("0")],
    };
    let report = affinity::assess(&machine, &evidence);
    assert_eq!(
        report.thread.to_string(),
        "broken: thread 8 (worker) may run on CPUs 0-15 (seen on CPUs 3,12), but interrupt 24 is served on CPU 2 \
         (fix: bind thread 8 to CPU 2: taskset -pc 2 8)"
    );
    assert!(report.memory.is_broken(), "no node is nearest to both processors");
}

#[test]
fn tolerance_for_processes_and_none_for_buffers() {
    let machine = two_packages();
    let verdict = |of: MemoryOwner, far: u64| {
        let on = BTreeMap::from([(NodeId(0), 100 - far), (NodeId(2), far)]);
        let evidence = Evidence {
            nic: machine.nic("near"),
            interrupts: &[],
            napi_threads: &[],
            threads: &[thread(7, "2", "")],
            memory: &[ObservedMemory { of, on }],
        };
        affinity::assess(&machine, &evidence).memory
    };
    let process = || MemoryOwner::Process { pid: Tid::from_raw(70).expect("above zero"), started_ns: 5 };
    assert!(verdict(process(), 10).holds());
    assert!(verdict(process(), 11).to_string().contains("(fix: migratepages 70 all 0 (for the"));
    assert!(verdict(MemoryOwner::Buffers, 0).holds());
    assert!(verdict(MemoryOwner::Buffers, 1).is_broken());
}

/// systemd's `ProcSubset=pid` hides the counts.
#[test]
fn without_counts_the_kernels_statement_remains() {
    let machine = tempfile::tempdir().expect("there is room");
    let folder = machine.path().join("proc/irq/7");
    fs::create_dir_all(&folder).expect("it is ours");
    fs::write(folder.join("smp_affinity_list"), "0-3\n").expect("it is ours");
    fs::write(folder.join("effective_affinity_list"), "2\n").expect("it is ours");
    let interrupts = [7, 8].map(|number| Interrupt { number, name: None, affinity: None, effective: None }).to_vec();
    let nic = Nic { interrupts, ..Nic::named("eth0") };
    let host = Host::under(machine.path());
    let observer = Observer::begin(&host, Some(&nic), &[], Duration::ZERO).expect("counts are not needed");
    let seen = observer.end(Vec::new(), Duration::ZERO).expect("counts are not needed").interrupts;
    assert_eq!(seen.len(), 1, "nothing states where interrupt 8 is served: {seen:?}");
    assert_eq!((seen[0].served.is_empty(), seen[0].served_on()), (true, Some(set("2"))));
}

#[test]
fn verdict_serializes_with_its_state() {
    let fix = Fix { advice: "an umbrella".to_owned(), changes: Vec::new() };
    let verdict = Verdict::Broken { evidence: "it rains".to_owned(), fix };
    let json = serde_json::to_value(&verdict).expect("it serializes");
    let fix = json!({"advice": "an umbrella", "changes": []});
    assert_eq!(json, json!({"state": "broken", "evidence": "it rains", "fix": fix}));
    assert_eq!(serde_json::from_value::<Verdict>(json).expect("its own form"), verdict);
}
