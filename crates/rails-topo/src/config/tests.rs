//! Files, applied to machines: their changes, and the errors of the others.

use super::{Config, ConfigError, Problem, apply, layers, user_file};
use crate::{Bandwidth, DataSize, Gpu, Nic, NodeId, PciAddress, PciDevice, RdmaDevice, Topology};
use proptest::prelude::*;
use std::{fs, path::PathBuf};

/// Two packages with a node of four CPUs each, and a device of every kind.
fn machine() -> Topology {
    let pci: PciAddress = "0000:3b:00.0".parse().unwrap();
    let eth0 = Nic {
        pci: Some(pci),
        node: Some(NodeId(0)),
        local_cpus: Some("0-3".parse().unwrap()),
        speed: Some(Bandwidth::mbps(10_000)),
        ..Nic::named("eth0")
    };
    let machine = Topology::synthetic("package:2 numa:1 core:4 pu:1", vec![eth0, Nic::named("eth1")]).unwrap();
    let rdma = RdmaDevice {
        name: "mlx5_0".to_owned(),
        pci: Some(pci),
        node: Some(NodeId(0)),
        local_cpus: None,
        ports: vec![],
    };
    let gpu = Gpu { name: "card0".to_owned(), pci: None, model: None, driver: None, node: None, local_cpus: None };
    Topology { rdma_devices: vec![rdma], gpus: vec![gpu], pci_devices: vec![PciDevice::at(pci)], ..machine }
}

fn applied(machine: &Topology, text: &str) -> Result<Topology, ConfigError> {
    apply(machine, &Config::parse("f.toml", text)?)
}

fn good(text: &str) -> Topology {
    applied(&machine(), text).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    applied(&machine(), text).expect_err(text).to_string()
}

/// The changed facts, each with its old and its new value.
fn changes(machine: &Topology) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or("unknown".to_owned());
    let change = |made: &crate::Override| {
        format!("{}:{} {}: {} -> {}", made.line, made.column, made.fact, text(&made.old), text(&made.new))
    };
    machine.overrides().iter().map(change).collect()
}

#[test]
fn node_brings_its_cpus_along() {
    let machine = good("[nic.eth0]\nnode = 1");
    let nic = machine.nic("eth0").unwrap();
    assert_eq!(nic.locality(&machine).unwrap().to_string(), "4-7");
    assert_eq!(changes(&machine), ["2:8 nic.eth0.node: 0 -> 1", "2:8 nic.eth0.local_cpus: 0-3 -> 4-7"]);
    assert_eq!(machine.overrides()[1].to_string(), "f.toml:2, following nic.eth0.node (instead of 0-3)");
    assert_eq!(
        changes(&good("[nic.eth0]\nnode = 0")),
        ["2:8 nic.eth0.node: 0 -> 0"],
        "nothing follows from the earlier state"
    );
}

#[test]
fn cpus_of_another_node_bring_that_node() {
    let machine = good("nic.eth0.local_cpus = '5-6'\ngpu.card0.local_cpus = '0'\nrdma.mlx5_0.local_cpus = '3-4'");
    let node = |fact| machine.overrides().iter().find(|made| made.fact == fact).map(|made| made.new.clone());
    assert_eq!(machine.nic("eth0").unwrap().node, Some(NodeId(1)));
    assert_eq!(node("nic.eth0.node"), Some(Some("1".to_owned())));
    assert_eq!(node("gpu.card0.node"), Some(Some("0".to_owned())), "an unknown node is filled in");
    assert_eq!(node("rdma.mlx5_0.node"), None, "CPUs of both nodes do not speak against the one that is known");
}

#[test]
fn every_fact_can_be_given() {
    let machine = good(
        r#"
        [nic.eth0]
        node = 1
        local_cpus = "4-5"
        speed = "25 Gbit/s"
        up = true
        driver = "ice"
        mtu = 9000
        mac = "02:00:00:00:00:01"
        addresses = ["10.0.0.1/24", "fd00::1/64"]
        [nic.eth1]
        hide = "belongs to the storage network"
        [pci."0000:3b:00.0"]
        node = 1
        link = "16 GT/s x8"
        [rdma.mlx5_0]
        node = 1
        [gpu.card0]
        node = 0
        [node.1]
        tier = 4
        memory = "64 GiB"
        [[node.1.performance]]
        from = "0-3"
        read_bandwidth = "400 Gbit/s"
        read_latency_ns = 250
        [[distance]]
        from = 0
        to = 1
        value = 24
        "#,
    );
    let nic = machine.nic("eth0").unwrap();
    assert_eq!(nic.locality(&machine).unwrap().to_string(), "4-5");
    assert_eq!((nic.speed, nic.up, nic.mtu), (Some(Bandwidth::mbps(25_000)), Some(true), Some(9000)));
    assert_eq!(nic.addresses.len(), 2);
    assert_eq!(machine.nic("eth1").unwrap().hidden.as_deref(), Some("belongs to the storage network"));
    assert!(machine.tree().to_string().contains("left alone: belongs to the storage network"), "{}", machine.tree());
    let function = &machine.pci_devices()[0];
    assert_eq!(function.bandwidth, function.link.map(|link| link.bandwidth()));
    let node = &machine.nodes()[1];
    assert_eq!((node.tier, node.memory), (Some(4), Some(DataSize::bytes(64 << 30))));
    assert_eq!(node.performance[0].read_latency, Some(250));
    let distances = machine.distances().unwrap();
    assert_eq!([distances.between(NodeId(0), NodeId(1)), distances.between(NodeId(1), NodeId(0))], [Some(24); 2]);
    let json = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), machine, "the snapshot keeps where facts came from");
}

#[test]
fn interface_added_by_a_file() {
    let machine = good("[nic.eth9]\nadd = true\nnode = 1\naddresses = ['10.0.0.9/24']");
    assert_eq!(machine.nic("eth9").unwrap().locality(&machine).unwrap().to_string(), "4-7");
    assert_eq!(changes(&machine)[0], "2:7 nic.eth9.add: unknown -> true");
    assert!(machine.nics().is_sorted_by_key(|nic| &nic.name));
}

#[test]
fn two_directions_of_a_distance_may_differ() {
    let machine = good("distance = [{from = 0, to = 1, value = 24}, {from = 1, to = 0, value = 30}]");
    let distances = machine.distances().unwrap();
    assert_eq!(distances.between(NodeId(0), NodeId(1)), Some(24));
    assert_eq!(distances.between(NodeId(1), NodeId(0)), Some(30));
}

#[test]
fn unknown_distances_are_given_whole() {
    let three = Topology { distances: None, ..Topology::synthetic("numa:3 core:1 pu:1", vec![]).unwrap() };
    let some = "distance = [{from = 0, to = 1, value = 24}, {from = 1, to = 2, value = 24}]";
    let error = applied(&three, some).unwrap_err().to_string();
    let missing =
        "the machine gives no distances, so the files have to give all of them: that from node 0 to node 2 is missing";
    assert_eq!(error, format!("f.toml:1:40: distance[0].value: {missing}"));
    let all =
        "distance = [{from = 0, to = 1, value = 24}, {from = 1, to = 2, value = 24}, {from = 2, to = 0, value = 40}]";
    assert_eq!(applied(&three, all).unwrap().distances().unwrap().between(NodeId(0), NodeId(2)), Some(40));
}

#[test]
fn last_layer_wins_and_all_are_remembered() {
    let first = applied(&machine(), "nic.eth0.speed = '25 Gbit/s'\nnic.eth1.hide = 'not yet'").unwrap();
    let second = Config::parse("g.toml", "nic.eth1.hide = false\nnic.eth0.speed = '40 Gbit/s'").unwrap();
    let machine = apply(&first, &second).unwrap();
    assert_eq!(machine.nic("eth0").unwrap().speed, Some(Bandwidth::mbps(40_000)));
    assert_eq!(machine.nic("eth1").unwrap().hidden, None);
    let said: Vec<String> = machine.overrides().iter().map(ToString::to_string).collect();
    let speeds = ["f.toml:1 (instead of 10 Gbit/s)", "g.toml:2 (instead of 25 Gbit/s)"];
    assert_eq!([&said[0], &said[2]], speeds);
}

/// Files, each with the place and the text of its error; `\n` ends a line.
const ERRORS: &str = r##"
[nic.eth0]\nnode =  => 2:8: nic.eth0.node: string values must be quoted, expected literal string
nic.eth0.node = 1\nnic.eth0.node = 0 => 2:10: nic.eth0.node: duplicate key
[nic.eth0\n => 1:10: nic.eth0: unclosed table, expected `]`
[nic.eth0]\nnode = 1\nsped = '1 Gbit/s' => 3:1: nic.eth0.sped: unknown field `sped`, expected one of `hide`, `add`, `node`, `local_cpus`, `speed`, `up`, `pci`, `driver`, `mtu`, `mac`, `addresses`
[nics.eth0]\nnode = 1 => 1:2: nics: unknown field `nics`, expected one of `nic`, `rdma`, `gpu`, `disk`, `pci`, `node`, `distance`
[[distance]]\nfrom = 0\nto = 1 => 1:1: distance[0]: missing field `value`
[nic.eth0]\nnode = '1' => 2:8: nic.eth0.node: invalid type: string "1", expected u32
nic.eth0.node = -1 => 1:17: nic.eth0.node: invalid value: integer `-1`, expected u32
nic.eth0.speed = 25 => 1:18: nic.eth0.speed: invalid type: integer `25`, expected a string
nic.eth0.speed = '25 GB/s' => 1:18: nic.eth0.speed: `25 GB/s` is not a speed like 25 Gbit/s
nic.eth0.local_cpus = '' => 1:23: nic.eth0.local_cpus: `` is not a list of at least one CPU like 0-3,8
nic.eth0.hide = true => 1:17: nic.eth0.hide: invalid value: boolean `true`, expected a reason to leave the lane alone, or false
nic.eth0.hide = ' ' => 1:17: nic.eth0.hide: invalid value: string "", expected a reason to leave the lane alone, or false
nic.eth9.add = false => 1:16: nic.eth9.add: invalid value: boolean `false`, expected true, or no such key
nic.eth0.addresses = ['10.0.0.1/24', '10.0.0.2'] => 1:22: nic.eth0.addresses: `10.0.0.2` is not an address with the length of its prefix like 10.0.0.1/24
distance = [{from = 0, to = 1, value = 9}] => 1:40: distance[0].value: 9 is not a distance from 10 to 254
pci."0000:3b:00.0".link = '16 GT/s x3' => 1:27: pci."0000:3b:00.0".link: `16 GT/s x3` is not a PCI Express link like 16 GT/s x8
\n[nic.eth7]\nnode = 1 => 2:6: nic.eth7: this machine has no network interface of that name; `add = true` adds one
[gpu.card7]\nnode = 1 => 1:6: gpu.card7: this machine has no GPU of that name
[pci.eth0] => 1:6: pci.eth0: `eth0` is not a PCI address like 0000:3b:00.1
[pci.'0000:3b:00.1'] => 1:6: pci."0000:3b:00.1": this machine has no PCI function of that name
nic.eth0.node = 7 => 1:17: nic.eth0.node: there is no node 7; there are: 0-1
node.7.tier = 1 => 1:6: node.7: there is no node 7; there are: 0-1
node.01.tier = 1 => 1:6: node.01: `01` is not the number of a node
nic.eth0.local_cpus = '6-9' => 1:23: nic.eth0.local_cpus: CPUs 8-9 are not there; online are: 0-7
[[node.0.performance]]\nfrom = '8' => 2:8: node.0.performance.from: CPUs 8 are not there; online are: 0-7
[[node.0.performance]]\nfrom = '1' => 2:8: node.0.performance.1: no figure is given
distance = [{from = 0, to = 2, value = 20}] => 1:29: distance[0].to: there is no node 2; there are: 0-1
distance = [{from = 0, to = 0, value = 20}] => 1:29: distance[0].to: a node's distance from itself is 10 by definition
nic.eth0.addresses = [] => 1:22: nic.eth0.addresses: the list is empty; leave an unknown list out
nic.'a b'.add = true => 1:5: nic."a b": `a b` is not the name of an interface
[nic.eth0]\nhide = 'not ours'\nnode = 1 => 3:8: nic.eth0.node: line 2 hides the interface, so its other facts have no use
nic.eth0.add = true => 1:16: nic.eth0.add: the machine has this interface already
[nic.eth0]\nnode = 1\nlocal_cpus = '0-1' => 3:14: nic.eth0.local_cpus: none of CPUs 0-1 is on node 1 (line 2), which has CPUs 4-7
nic.eth0.node = 1\nrdma.mlx5_0.node = 0 => 2:20: rdma.mlx5_0.node: it is node 0 here and node 1 in line 1 (`nic.eth0.node`)
distance = [{from = 0, to = 1, value = 20}, {from = 0, to = 1, value = 30}] => 1:72: distance[1].value: it is 30 here and 20 in line 1 (`distance[0].value`)
[[node.1.performance]]\nfrom = '0'\nread_latency_ns = 90\n[[node.1.performance]]\nfrom = '0'\nread_latency_ns = 91 => 6:19: node.1.performance.0.read_latency_ns: it is 91 here and 90 in line 3 (`node.1.performance.0.read_latency_ns`)
"##;

#[test]
fn errors_with_their_places() {
    for case in ERRORS.trim().lines() {
        let (text, said) = case.split_once(" => ").expect("a file and its error");
        assert_eq!(error(&text.replace("\\n", "\n")), format!("f.toml:{said}"));
    }
    let none = Topology::synthetic("pu:2", vec![Nic::named("eth0")]).unwrap();
    let said = applied(&none, "nic.eth0.node = 0").unwrap_err().to_string();
    assert_eq!(said, "f.toml:1:17: nic.eth0.node: there is no node 0; this machine has no NUMA nodes");
}

#[test]
fn figures_compared_before_rounding() {
    let twice = "node.1.performance = [{from = '0', read_bandwidth = '2.54 Gbit/s'}, {from = '0', read_bandwidth = '2.53 Gbit/s'}]";
    assert!(error(twice).contains("it is 2.5 Gbit/s here and 2.5 Gbit/s in line 1"), "{}", error(twice));
}

#[test]
fn same_value_twice_is_no_contradiction() {
    good("distance = [{from = 0, to = 1, value = 20}, {from = 0, to = 1, value = 20}]");
    good("nic.eth0.node = 1\nrdma.mlx5_0.node = 1\npci.\"0000:3b:00.0\".node = 1");
}

#[test]
fn optional_and_named_files() {
    let folder = tempfile::tempdir().unwrap();
    let [there, missing, below_file] = ["a.toml", "b.toml", "a.toml/c.toml"].map(|name| folder.path().join(name));
    fs::write(&there, "nic.eth0.node = 1").unwrap();
    let read = layers(&[missing.clone(), below_file, there.clone()], std::slice::from_ref(&there)).unwrap();
    assert_eq!(read.iter().map(Config::file).collect::<Vec<_>>(), [&there, &there]);
    let error = layers(&[], std::slice::from_ref(&missing)).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read `{}`", missing.display()));
    assert!(matches!(layers(&[folder.path().to_owned()], &[]), Err(ConfigError::Read { .. })), "a folder is no file");
}

#[test]
fn files_that_are_no_text_or_do_not_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    fs::write(&file, b"[nic]\nx\xff = 1").unwrap();
    let ConfigError::Wrong { at, problem } = Config::read(&file).unwrap_err() else { panic!("it was read") };
    assert!(matches!(*problem, Problem::Malformed(_)), "{problem}");
    assert_eq!((at.line, at.column), (2, 2));
    assert_eq!(Config::read("/dev/zero").unwrap_err().to_string(), "`/dev/zero` is longer than 262144 bytes");
}

#[test]
fn user_file_by_the_xdg_specification() {
    let file = |config: Option<&str>, home: Option<&str>| user_file(config.map(AsRef::as_ref), home.map(AsRef::as_ref));
    assert_eq!(file(Some("/c"), Some("/h")), Some(PathBuf::from("/c/rails/topology.toml")));
    for ignored in [None, Some(""), Some("relative")] {
        assert_eq!(file(ignored, Some("/h")), Some(PathBuf::from("/h/.config/rails/topology.toml")), "{ignored:?}");
        assert_eq!(file(ignored, None), None);
    }
}

#[test]
fn only_toml_is_taken_for_toml() {
    assert!(Config::is_toml("") && Config::is_toml("# nothing\n[nic.eth0]\n"));
    for text in ["<?xml version=\"1.0\"?>", "{\"origin\": {}}", "\u{0}\u{1}", "package:2 pu:1"] {
        assert!(!Config::is_toml(text), "{text:?}");
    }
}

/// Lines of a file, most of them sound in themselves.
fn lines() -> impl Strategy<Value = String> {
    let device = prop_oneof![
        Just("nic.eth0"),
        Just("nic.eth1"),
        Just("nic.x"),
        Just("gpu.card0"),
        Just("rdma.mlx5_0"),
        Just("pci.'0000:3b:00.0'")
    ];
    let fact = prop_oneof![
        (0..3u32).prop_map(|node| format!("node = {node}")),
        (0..9u32, 0..9u32).prop_map(|(first, last)| format!("local_cpus = '{first}-{last}'")),
        (0..50u32).prop_map(|speed| format!("speed = '{speed} Gbit/s'")),
        Just("hide = 'x'".to_owned()),
        Just("add = true".to_owned()),
        Just("link = '8 GT/s x4'".to_owned()),
    ];
    let of_device = (device, fact).prop_map(|(device, fact)| format!("{device}.{fact}\n"));
    let of_node = (0..3u32, 0..9u32).prop_map(|(node, tier)| format!("node.{node}.tier = {tier}\n"));
    let line = prop_oneof![8 => of_device, 2 => of_node, 1 => ".{0,20}\n"];
    let distance = (0..3u32, 0..3u32, 5..300u64)
        .prop_map(|(from, to, value)| format!("[[distance]]\nfrom = {from}\nto = {to}\nvalue = {value}\n"));
    (prop::collection::vec(line, 0..5), prop::collection::vec(distance, 0..3))
        .prop_map(|(lines, distances)| lines.concat() + &distances.concat())
}

proptest! {
    #[test]
    fn any_text_is_applied_or_refused_with_its_place(text in lines()) {
        let before = machine();
        match applied(&before, &text) {
            Ok(after) => {
                prop_assert!(after.overrides().iter().all(|made| made.line >= 1 && made.line <= text.lines().count().max(1)));
                for nic in after.nics() {
                    prop_assert!(nic.node.is_none_or(|node| after.nodes().iter().any(|known| known.id == node)));
                    prop_assert!(nic.local_cpus.as_ref().is_none_or(|cpus| cpus.is_subset(after.online_cpus())));
                }
                let json = serde_json::to_string(&after).unwrap();
                prop_assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), after);
            }
            Err(ConfigError::Wrong { at, .. }) => {
                let line = text.split('\n').nth(at.line - 1);
                prop_assert!(line.is_some_and(|line| at.column <= line.chars().count() + 1), "{at} in {text:?}");
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
        prop_assert_eq!(before, machine());
    }

    #[test]
    fn hostile_text_never_panics(text in "[\\[\\]{}=.,'\"#a-z0-9\\n -]{0,60}|\\PC{0,40}") {
        let _ = Config::is_toml(&text);
        let _ = applied(&machine(), &text);
    }

    #[test]
    fn file_that_says_nothing_changes_nothing(comment in "[a-z =\\[]{0,20}", tables in prop::sample::subsequence(vec!["[nic.eth0]\n", "[nic]\n", "[gpu]\n", "[node.1]\n"], 0..4)) {
        let text = format!("# {comment}\n{}", tables.concat());
        prop_assert_eq!(good(&text), machine());
    }

    #[test]
    fn of_several_layers_the_last_that_gives_a_fact_wins(layers in prop::collection::vec(prop::option::of(1..100u32), 0..5)) {
        let mut machine = machine();
        for (index, layer) in layers.iter().enumerate() {
            let text = layer.map_or(String::new(), |speed| format!("nic.eth0.speed = '{speed} Gbit/s'"));
            machine = apply(&machine, &Config::parse(format!("{index}.toml"), &text).unwrap()).unwrap();
        }
        let wanted = layers.iter().flatten().last().map_or(10_000, |speed| u64::from(*speed) * 1_000);
        prop_assert_eq!(machine.nic("eth0").unwrap().speed, Some(Bandwidth::mbps(wanted)));
        prop_assert_eq!(machine.overrides().len(), layers.iter().flatten().count());
    }
}
