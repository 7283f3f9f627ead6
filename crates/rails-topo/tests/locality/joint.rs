//! The bandwidth of several interfaces at once.

use super::{address, gigabits, two_packages};
use rails_topo::{Bandwidth, JointBandwidth, Nic, Topology};

/// The machine of these tests with 100 Gbit/s on each of its interfaces.
fn fast() -> Topology {
    let mut json = serde_json::to_value(two_packages()).unwrap();
    for nic in json["nics"].as_array_mut().unwrap() {
        nic["speed_bits_per_second"] = gigabits(100).as_bits_per_second().into();
    }
    serde_json::from_value(json).unwrap()
}

fn joint(machine: &Topology, names: &[&str]) -> JointBandwidth {
    machine.locality().joint_bandwidth(names.iter().map(|name| machine.nic(name).unwrap()))
}

fn narrow(joint: &JointBandwidth) -> Vec<(String, Option<Bandwidth>)> {
    joint.narrow.iter().map(|link| (link.function.to_string(), link.offered)).collect()
}

#[test]
fn wide_links_carry_all() {
    let machine = fast();
    assert_eq!(joint(&machine, &["left0"]).bandwidth, Some(gigabits(100)), "x8 of 16 GT/s carry 126");
    let apart = joint(&machine, &["left0", "alone", "other", "nowhere"]);
    assert_eq!((apart.bandwidth, narrow(&apart)), (Some(gigabits(400)), vec![]));
    let again = joint(&machine, &["left0", "left0"]);
    assert_eq!(again.bandwidth, Some(gigabits(100)), "each counts once");
    assert_eq!(joint(&machine, &[]).bandwidth, Some(gigabits(0)));
}

#[test]
fn shared_links_carry_what_they_can() {
    let machine = fast();
    let link = |pci: &str| machine.pci_device(address(pci)).unwrap().bandwidth.unwrap();
    let card = joint(&machine, &["left0", "left1"]);
    assert_eq!(card.bandwidth, Some(link("0000:01:00.0")), "200 Gbit/s of one card go up x8");
    assert_eq!(narrow(&card), [("0000:01:00.0".to_owned(), Some(gigabits(200)))]);
    let slot = joint(&machine, &["right"]);
    assert_eq!((slot.bandwidth, narrow(&slot).len()), (Some(link("0000:04:00.0")), 1), "x4 below the switch");
    let both = joint(&machine, &["left0", "left1", "right", "alone"]);
    let narrowed: Vec<_> = narrow(&both).into_iter().map(|(function, _)| function).collect();
    assert_eq!(narrowed, ["0000:04:00.0", "0000:01:00.0"], "the lower ones first");
    let sum = link("0000:01:00.0").as_bits_per_second() + gigabits(100).as_bits_per_second();
    assert_eq!(both.bandwidth, Some(Bandwidth::bits_per_second(sum)));
}

#[test]
fn one_wire_of_two_interfaces() {
    let mut json = serde_json::to_value(fast()).unwrap();
    for nic in json["nics"].as_array_mut().unwrap() {
        let is_virtual = nic["name"] == "virtual";
        if is_virtual || nic["name"] == "alone" {
            nic["physical_port"] = "e8ebd3".into();
        }
        if is_virtual {
            nic["speed_bits_per_second"] = None::<u64>.into();
        }
    }
    let machine: Topology = serde_json::from_value(json).unwrap();
    assert_eq!(joint(&machine, &["alone", "virtual"]).bandwidth, Some(gigabits(100)));
    assert_eq!(joint(&machine, &["virtual"]).bandwidth, machine.pci_device(address("0000:05:00.0")).unwrap().bandwidth);
}

#[test]
fn virtual_functions_have_the_wire_of_their_card() {
    let changed = |change: &dyn Fn(&mut serde_json::Value)| -> Topology {
        let mut json = serde_json::to_value(fast()).unwrap();
        json["nics"].as_array_mut().unwrap().iter_mut().for_each(change);
        serde_json::from_value(json).unwrap()
    };
    let both = |machine: &Topology| joint(machine, &["alone", "virtual"]).bandwidth;
    assert_eq!(both(&fast()), Some(gigabits(100)), "no driver has named the port");
    let named = changed(&|nic| {
        if nic["name"] == "alone" {
            nic["physical_port"] = "e8ebd3".into();
        }
    });
    assert_eq!(both(&named), Some(gigabits(100)), "the physical function's driver has");
    let several = changed(&|nic| nic["port"] = u32::from(nic["name"] == "alone").into());
    assert!(both(&several) > Some(gigabits(100)), "another port of the function");
}

#[test]
fn unknown_speeds_are_bounded_by_links_alone() {
    let machine = two_packages();
    let x8 = machine.pci_device(address("0000:01:00.0")).unwrap().bandwidth;
    let left = joint(&machine, &["left0", "left1"]);
    assert_eq!((left.bandwidth, left.narrow.last().map(|link| link.function)), (x8, Some(address("0000:01:00.0"))));
    assert_eq!(joint(&machine, &["other"]).bandwidth, None, "neither its speed nor its link is known");
    assert_eq!(joint(&machine, &["left0", "other"]).bandwidth, None);
    let foreign = Nic { speed: Some(gigabits(10)), ..Nic::named("foreign") };
    assert_eq!(machine.locality().joint_bandwidth([&foreign]).bandwidth, Some(gigabits(10)));
}
