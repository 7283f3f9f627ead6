//! PCI functions, the functions above them, and the links between.

use crate::tree::Tree;
use rails_topo::{NodeId, PciAddress, PciBridge, PciDevice, PciLink, Topology, VirtualFunctions};

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

fn function<'a>(machine: &'a Topology, text: &str) -> &'a PciDevice {
    machine.pci_device(address(text)).unwrap_or_else(|| panic!("no {text}"))
}

/// A card of two ports behind a switch of node 1, one port with virtual functions.
fn card() -> Tree {
    let tree = Tree::two_nodes();
    let root = "pci0000:80/0000:80:02.0";
    let switch = format!("{root}/0000:81:00.0/0000:82:08.0");
    tree.function(root, &[("class", "0x060400"), ("secondary_bus_number", "129"), ("subordinate_bus_number", "131")]);
    tree.function(&format!("{root}/0000:81:00.0"), &[("class", "0x060400"), ("numa_node", "1")]);
    tree.function(&switch, &[("class", "0x060400"), ("numa_node", "1")]);
    for port in 0..2 {
        let path = format!("{switch}/0000:83:00.{port}");
        tree.function(
            &path,
            &[
                ("class", "0x020000"),
                ("vendor", "0x15b3"),
                ("device", "0x101d"),
                ("numa_node", "1"),
                ("local_cpulist", "2-3,6-7"),
                ("current_link_speed", "16.0 GT/s PCIe"),
                ("current_link_width", "8"),
                ("max_link_speed", "16.0 GT/s PCIe"),
                ("max_link_width", "16"),
                ("sriov_numvfs", if port == 0 { "1" } else { "0" }),
                ("sriov_totalvfs", "8"),
            ],
        );
        tree.link(&format!("sys/devices/{path}/driver"), "../../../../../../bus/pci/drivers/mlx5_core");
    }
    let virtual_function = format!("{switch}/0000:83:00.2");
    tree.function(&virtual_function, &[("class", "0x020000"), ("numa_node", "1")]);
    tree.link(&format!("sys/devices/{virtual_function}/physfn"), "../0000:83:00.0");
    tree
}

#[test]
fn ports_of_one_card_share_the_bridges_above() {
    let machine = card().read().unwrap();
    let names: Vec<String> = machine.pci_devices().iter().map(|device| device.address.to_string()).collect();
    assert_eq!(names, ["0000:80:02.0", "0000:81:00.0", "0000:82:08.0", "0000:83:00.0", "0000:83:00.1", "0000:83:00.2"]);
    let first = function(&machine, "0000:83:00.0");
    let link = Some(PciLink { speed: 16_000, width: 8 });
    let expected = PciDevice {
        class: Some(0x020000),
        vendor: Some(0x15b3),
        device: Some(0x101d),
        parent: Some(address("0000:82:08.0")),
        link,
        max_link: Some(PciLink { speed: 16_000, width: 16 }),
        bandwidth: link.map(PciLink::bandwidth),
        driver: Some("mlx5_core".to_owned()),
        node: Some(NodeId(1)),
        local_cpus: Some("2-3,6-7".parse().unwrap()),
        virtual_functions: Some(VirtualFunctions { enabled: 1, total: 8 }),
        ..PciDevice::at(address("0000:83:00.0"))
    };
    assert_eq!(first, &expected);
    assert_eq!(function(&machine, "0000:83:00.1").parent, first.parent);
    let above = |text| function(&machine, text).parent.map(|above| above.to_string());
    assert_eq!(above("0000:82:08.0").as_deref(), Some("0000:81:00.0"));
    assert_eq!(above("0000:81:00.0").as_deref(), Some("0000:80:02.0"));
    assert_eq!(above("0000:80:02.0"), None, "a root port");
    let bridge = function(&machine, "0000:80:02.0").bridge;
    assert_eq!(bridge, Some(PciBridge { secondary: 0x81, subordinate: 0x83 }));
}

#[test]
fn virtual_function_names_its_physical_one() {
    let machine = card().read().unwrap();
    let virtual_function = function(&machine, "0000:83:00.2");
    assert_eq!(virtual_function.physical_function, Some(address("0000:83:00.0")));
    assert_eq!(virtual_function.virtual_functions, None);
    assert_eq!((virtual_function.link, virtual_function.bandwidth), (None, None), "it has no link of its own");
    assert_eq!(function(&machine, "0000:83:00.1").virtual_functions, Some(VirtualFunctions { enabled: 0, total: 8 }));
}

#[test]
fn links_and_buses_from_configuration_space() {
    let tree = Tree::two_nodes();
    const ENDPOINT: &str = "pci0000:00/0000:00:01.0/0000:01:00.0";
    tree.function("pci0000:00/0000:00:01.0", &[("class", "0x060400")]).function(ENDPOINT, &[("class", "0x020000")]);
    let mut config = [0u8; 256];
    config[0x06] = 0x10;
    config[0x34] = 0x80;
    config[0x80..0x84].copy_from_slice(&[0x10, 0, 0x02, 0]);
    config[0x8c..0x8e].copy_from_slice(&[0x83, 0]);
    config[0x92..0x94].copy_from_slice(&[0x42, 0]);
    tree.bytes(&format!("sys/devices/{ENDPOINT}/config"), &config);
    let mut bridge = [0u8; 64];
    bridge[0x0e] = 1;
    bridge[0x19..0x1b].copy_from_slice(&[1, 1]);
    tree.bytes("sys/devices/pci0000:00/0000:00:01.0/config", &bridge);
    let machine = tree.read().unwrap();
    let port = function(&machine, "0000:00:01.0");
    assert_eq!((port.bridge, port.link), (Some(PciBridge { secondary: 1, subordinate: 1 }), None));
    let endpoint = function(&machine, "0000:01:00.0");
    assert_eq!(endpoint.link, Some(PciLink { speed: 5_000, width: 4 }));
    assert_eq!(endpoint.max_link, Some(PciLink { speed: 8_000, width: 8 }));
    // A kernel of today has files for both, where there is something to say.
    tree.file("sys/devices/pci0000:00/0000:00:01.0/power_state", "D0");
    tree.file(&format!("sys/devices/{ENDPOINT}/power_state"), "D0");
    let machine = tree.read().unwrap();
    assert_eq!(function(&machine, "0000:00:01.0").bridge, None);
    assert_eq!(function(&machine, "0000:01:00.0").link, None);
}

#[test]
fn unknown_facts_of_a_function() {
    let tree = Tree::two_nodes();
    tree.function(
        "pci0000:00/0000:00:04.0",
        &[
            ("class", "0x1020000"),
            ("vendor", "8086"),
            ("device", "0x10000"),
            ("numa_node", "-1"),
            ("local_cpulist", "0-7"),
            ("current_link_speed", "Unknown"),
            ("current_link_width", "0"),
            ("max_link_speed", "Unknown"),
            ("max_link_width", "255"),
            ("sriov_numvfs", "-1"),
            ("sriov_totalvfs", "8"),
        ],
    );
    tree.function("pci0000:00/0000:00:05.0", &[("numa_node", "7")]);
    tree.link("sys/bus/pci/devices/0000:00:06.0", "../../../devices/pci0000:00/0000:00:06.0");
    let machine = tree.read().unwrap();
    for text in ["0000:00:04.0", "0000:00:05.0", "0000:00:06.0"] {
        assert_eq!(function(&machine, text), &PciDevice::at(address(text)));
    }
}

#[test]
fn functions_above_each_other_in_a_circle() {
    let tree = Tree::two_nodes();
    tree.link("sys/bus/pci/devices/0000:01:00.0", "../../../devices/pci0000:00/0000:02:00.0/0000:01:00.0");
    tree.link("sys/bus/pci/devices/0000:02:00.0", "../../../devices/pci0000:00/0000:01:00.0/0000:02:00.0");
    tree.link("sys/bus/pci/devices/0000:03:00.0", "0000:03:00.0");
    tree.link("sys/bus/pci/devices/0000:04:00.0", "../../../devices/pci0000:00/0000:0f:00.0/0000:04:00.0");
    tree.folder("sys/bus/pci/devices/4:4:4.0").folder("sys/bus/pci/devices/none");
    let machine = tree.read().unwrap();
    assert_eq!(machine.pci_devices().len(), 4, "an address has one spelling");
    for device in machine.pci_devices() {
        let mut above = Some(device.address);
        for _ in 0..=machine.pci_devices().len() {
            above = above.and_then(|above| machine.pci_device(above)?.parent);
        }
        assert_eq!(above, None, "{}", device.address);
    }
    assert_eq!(function(&machine, "0000:04:00.0").parent, None, "a function that the machine does not have");
}
