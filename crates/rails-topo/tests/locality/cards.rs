use super::{nic, two_packages};
use rails_topo::{Nic, Topology};

/// The sharers of an interface, as text.
fn sharers(machine: &Topology, name: &str) -> Vec<String> {
    let locality = machine.locality();
    let sharers = locality.sharers(machine.nic(name).unwrap());
    sharers.map(|sharer| format!("{}: {}", sharer.nic.name, sharer.shares)).collect()
}

#[test]
fn ports_of_a_card_come_before_those_behind_a_switch() {
    let machine = two_packages();
    assert_eq!(sharers(&machine, "left1"), ["left0: card", "right: PCIe switch 0000:01:00.0"]);
    assert_eq!(sharers(&machine, "right"), ["left0: PCIe switch 0000:01:00.0", "left1: PCIe switch 0000:01:00.0"]);
    assert_eq!(sharers(&machine, "virtual"), ["alone: card"]);
    assert!(sharers(&machine, "other").is_empty());
    assert!(sharers(&machine, "nowhere").is_empty());
}

#[test]
fn virtual_functions_of_one_card_on_any_bus() {
    let pci = |pci: &str| super::of_physical(super::function(pci, Some("0000:00:01.0")), "0000:3b:00.0");
    let nics = vec![nic("a", "0000:3b:1f.7"), nic("b", "0000:3c:00.0"), nic("c", "0000:3d:00.0")];
    let devices = vec![pci("0000:3b:1f.7"), pci("0000:3c:00.0"), super::function("0000:3d:00.0", Some("0000:00:02.0"))];
    let machine = Topology::synthetic("package:1 core:1 pu:1", nics).unwrap().with_pci_devices(devices);
    assert_eq!(sharers(&machine, "a"), ["b: card"]);
    assert!(sharers(&machine, "c").is_empty());
}

/// A card in two slots, as Mellanox's Socket Direct: two PCI devices on two buses, which the driver
/// gives one name.
#[test]
fn one_card_by_the_drivers_identity() {
    let named = |nic: Nic, switch: &str| Nic { physical_switch: Some(switch.into()), ..nic };
    let port = |nic: Nic, port: &str| Nic { physical_port: Some(port.into()), ..nic };
    let nics = vec![
        named(nic("a", "0000:3b:00.0"), "b83fd2"),
        named(nic("b", "0000:af:00.0"), "b83fd2"),
        named(nic("c", "0000:b0:00.0"), "104f58"),
        port(nic("d", "0000:b1:00.0"), "e41d2d"),
        port(nic("e", "0000:b2:00.0"), "e41d2d"),
        nic("f", "0000:b3:00.0"),
        nic("g", "0000:b3:00.0"),
    ];
    let machine = Topology::synthetic("package:2 numa:1 core:1 pu:1", nics).unwrap();
    assert_eq!(sharers(&machine, "a"), ["b: card"]);
    assert!(sharers(&machine, "c").is_empty());
    assert_eq!(sharers(&machine, "e"), ["d: port"]);
    assert_eq!(sharers(&machine, "f"), ["g: PCI function 0000:b3:00.0"], "a function with two ports");
    let locality = machine.locality();
    let [a, b, c, ..] = machine.nics() else { panic!("there are seven") };
    assert!(locality.same_card(a, b) && locality.same_card(a, a) && !locality.same_card(a, c));
}

#[test]
fn without_pci_nothing_is_shared() {
    let machine = Topology::synthetic("pu:1", vec![Nic::named("lo"), Nic::named("veth0")]).unwrap();
    assert!(sharers(&machine, "lo").is_empty());
    assert!(!machine.locality().same_card(&machine.nics()[0], &machine.nics()[1]));
}
