//! Machines that are built oddly, or described falsely.

use crate::{
    changed, chosen_cpus, cpus, loopback, nic, on_card, planned, planned_with, refused, served_by, two_packages,
};
use proptest::prelude::*;
use rails_multirail::{RailRequest, plan_rails};
use rails_topo::{Bandwidth, Nic, NicKind, PciDevice, Topology};
use serde_json::{Value, json};

#[test]
fn speeds_beyond_any_wire_do_not_overflow() {
    let fast = Nic { speed: Some(Bandwidth::bits_per_second(u64::MAX - 1)), ..nic("eth0", 0, 10, "10.0.0.1") };
    let expected = planned(&two_packages(vec![fast]), "eth0,eth0").expected.unwrap();
    assert_eq!((expected.rails, expected.delta), (2, 0.5));
}

#[test]
fn nic_of_speed_zero() {
    let dead = Nic { speed: Some(Bandwidth::bits_per_second(0)), ..nic("eth0", 0, 10, "10.0.0.1") };
    let plan = planned(&two_packages(vec![dead]), "eth0,eth0");
    assert_eq!(plan.expected.unwrap().together, Bandwidth::bits_per_second(0));
}

/// Rails on an interface and on a VLAN of it share the interface's wire.
#[test]
fn virtual_interfaces_carry_what_the_devices_below_do() {
    let over = |name: &str, address: &str, speed: u64, lowers: &[&str]| Nic {
        kind: NicKind::Virtual,
        lowers: lowers.iter().map(|lower| (*lower).to_owned()).collect(),
        ..nic(name, 0, speed, address)
    };
    let machine = two_packages(vec![
        nic("eth0", 0, 10, "10.0.0.1"),
        nic("eth1", 0, 10, "10.0.1.1"),
        over("eth0.5", "10.0.5.1", 10, &["eth0"]),
        over("bond0", "10.0.9.1", 20, &["eth0", "eth1"]),
        over("fast", "10.0.8.1", 100, &["eth1"]),
    ]);
    let together = |request: &str| planned(&machine, request).expected.unwrap().together;
    assert_eq!(together("eth0,eth1"), Bandwidth::mbps(20_000));
    assert_eq!(together("eth0,eth0.5"), Bandwidth::mbps(10_000));
    assert_eq!(together("bond0,eth0.5"), Bandwidth::mbps(20_000));
    assert_eq!(together("bond0"), Bandwidth::mbps(20_000));
    let bounded = planned(&machine, "fast");
    assert_eq!(bounded.rails[0].capacity.bandwidth, Some(Bandwidth::mbps(10_000)), "{bounded}");
    let note = "eth0.5 and eth0 both use the wire of eth0";
    assert!(planned(&machine, "eth0,eth0.5").notes.iter().any(|told| told == note));
}

/// A virtual function without a name of its port has the wire of its physical function.
#[test]
fn virtual_function_shares_the_wire_of_its_card() {
    let at = |text: &str| text.parse().unwrap();
    let machine = two_packages(vec![
        on_card(nic("eth0", 0, 100, "10.0.0.1"), "0000:18:00.0"),
        on_card(nic("eth0v0", 0, 100, "10.0.1.1"), "0000:18:00.2"),
        on_card(nic("eth0v1", 0, 100, "10.0.2.1"), "0000:18:00.3"),
    ]);
    let function = |text: &str| PciDevice { physical_function: Some(at("0000:18:00.0")), ..PciDevice::at(at(text)) };
    let machine = machine.with_pci_devices(vec![
        PciDevice::at(at("0000:18:00.0")),
        function("0000:18:00.2"),
        function("0000:18:00.3"),
    ]);
    for request in ["eth0,eth0v0", "eth0v0,eth0v1", "auto"] {
        assert_eq!(planned(&machine, request).expected.unwrap().together, Bandwidth::mbps(100_000), "{request}");
    }
}

#[test]
fn loopback_rails_where_no_cores_are_known() {
    let machine = Topology::synthetic("pu:4", vec![loopback()]).unwrap();
    assert_eq!(chosen_cpus(&planned(&machine, "loopback")), [0, 1, 2, 3]);
}

#[test]
fn loopback_rails_on_cores_that_are_not_claimed() {
    let machine = two_packages(vec![loopback()]);
    for exclusive in [false, true] {
        let adjust = |request: &mut RailRequest| (request.exclusive, request.claimed) = (exclusive, cpus("0-9").into());
        assert_eq!(chosen_cpus(&planned_with(&machine, "loopback", adjust).unwrap()), [10, 12, 14]);
    }
}

#[test]
fn cores_that_overlap_are_one() {
    let core = |cpus: &str| json!({ "id": null, "cpus": cpus });
    let machine = changed(&two_packages(vec![loopback()]), |json| {
        json["cores"] = json!([core("0,2"), core("0-1"), core("3-4"), core("4-5"), core("5-6")]);
    })
    .with_allowed(cpus("0-6"));
    let plan = planned_with(&machine, "loopback:2", |request| request.exclusive = true).unwrap();
    assert_eq!(chosen_cpus(&plan), [0, 3]);
    assert_eq!([&plan.rails[0].exclusive_cpus, &plan.rails[1].exclusive_cpus], [&cpus("0-2"), &cpus("3-6")]);
    let three = planned_with(&machine, "loopback:3", |request| request.exclusive = true);
    assert!(three.is_err(), "{three:?}");
}

/// Hostile machines are refused or planned, and never panic.
#[test]
fn models_that_contradict_themselves_do_not_panic() {
    let machine = two_packages(vec![nic("eth0", 1, 10, "10.0.0.1"), loopback()]);
    let changes: [fn(&mut serde_json::Value); 7] = [
        |json| json["allowed_cpus"] = json!("200"),
        |json| json["online_cpus"] = json!(""),
        |json| json["nodes"][1]["cpus"] = json!(""),
        |json| json["cores"] = json!([{ "id": null, "cpus": "" }]),
        |json| json["caches"].as_array_mut().unwrap().iter_mut().for_each(|cache| cache["cpus"] = json!("0-12")),
        |json| json["packages"] = json!([]),
        |json| json["nodes"][0]["id"] = json!(1),
    ];
    for change in changes {
        let machine = changed(&machine, change);
        for request in ["auto", "loopback", "eth0+cores:3@0-9", "eth0@default", "eth0@/1"] {
            let mut request: RailRequest = request.parse().unwrap();
            for exclusive in [false, true] {
                request.exclusive = exclusive;
                if let Ok(plan) = plan_rails(&machine, &request) {
                    assert!(plan.rails.iter().all(|rail| rail.cpus().is_subset(machine.allowed_cpus())), "{plan}");
                }
            }
        }
    }
}

#[test]
fn device_is_a_part_of_a_rail_once() {
    let gpu =
        rails_topo::Gpu { name: "card0".into(), pci: None, model: None, driver: None, node: None, local_cpus: None };
    let machine = two_packages(vec![]).with_gpus(vec![gpu]);
    assert_eq!(refused(&machine, "gpu0+card0"), "rail 0 was asked for with card0 twice");
}

/// Lists of CPUs, empty ones among them.
fn sets(most: usize) -> impl Strategy<Value = Vec<String>> {
    let set = prop::collection::btree_set(0_u32..12, 0..6);
    let text = |set: std::collections::BTreeSet<u32>| set.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    prop::collection::vec(set.prop_map(text), 0..most)
}

/// A machine whose cores, caches, packages and nodes overlap, are empty or are missing.
fn machines() -> impl Strategy<Value = Topology> {
    let distances = prop::option::of(prop::collection::vec(0_u64..40, 9));
    let facts = (0_u32..4, prop::option::of(0_u64..3), prop::option::of(sets(2)));
    let nics = prop::collection::vec(facts, 0..4);
    (sets(6), sets(4), sets(3), sets(4), distances, sets(2), nics).prop_map(
        |(cores, caches, packages, nodes, distances, allowed, nics)| {
            type Facts = (u32, Option<u64>, Option<Vec<String>>);
            let build = |(index, (node, speed, served)): (usize, Facts)| {
                let nic = nic(&format!("eth{index}"), node, 1, &format!("10.0.{index}.1"));
                let nic = served.unwrap_or_default().iter().fold(nic, |nic, cpus| served_by(nic, cpus));
                Nic { speed: speed.map(Bandwidth::bits_per_second), ..nic }
            };
            let nics = nics.into_iter().enumerate().map(build).chain([loopback()]).collect();
            let machine = Topology::synthetic("package:1 numa:1 l3:1 core:12 pu:1", nics).unwrap();
            let placed = |sets: &[String]| -> Vec<Value> {
                sets.iter().map(|cpus| json!({ "id": null, "cpus": cpus })).collect()
            };
            let machine = changed(&machine, |json| {
                let (cache, node) = (json["caches"][0].clone(), json["nodes"][0].clone());
                let with = |template: &Value, cpus: &String| {
                    let mut made = template.clone();
                    made["cpus"] = json!(cpus);
                    made
                };
                json["cores"] = placed(&cores).into();
                json["packages"] = placed(&packages).into();
                json["caches"] = caches.iter().map(|cpus| with(&cache, cpus)).collect();
                json["nodes"] = nodes.iter().map(|cpus| with(&node, cpus)).collect();
                for (id, node) in json["nodes"].as_array_mut().unwrap().iter_mut().enumerate() {
                    node["id"] = json!(id);
                }
                json["allowed_nodes"] = json!("0-2");
                json["distances"] =
                    distances.map_or(Value::Null, |values| json!({ "nodes": [0, 1, 2], "values": values }));
            });
            match allowed.first() {
                Some(allowed) => machine.with_allowed(cpus(allowed)),
                None => machine,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn rails_on_machines_without_order(machine in machines(), exclusive in any::<bool>(), cores in 1_usize..4) {
        for text in ["auto", "loopback", "eth0,eth0@0-3,eth1", "cores:2@0-7,eth0@default"] {
            let mut request: RailRequest = text.parse().unwrap();
            (request.exclusive, request.cores) = (exclusive, cores);
            let Ok(plan) = plan_rails(&machine, &request) else { continue };
            prop_assert!(plan.rails.iter().all(|rail| rail.cpus().is_subset(machine.allowed_cpus())), "{}", plan);
            let owned: usize = plan.rails.iter().map(|rail| rail.exclusive_cpus.len()).sum();
            let all = plan.rails.iter().fold(cpus(""), |all, rail| all.union(&rail.exclusive_cpus));
            prop_assert_eq!(owned, all.len(), "{}", plan);
        }
    }
}
